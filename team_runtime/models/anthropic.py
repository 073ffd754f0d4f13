"""Claude through the official SDK: always streamed, retried here and not there."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from team_runtime.clock import Clock
from team_runtime.config import KEYS
from team_runtime.errors import ModelRejected
from team_runtime.models.assembly import Assembly
from team_runtime.models.base import ModelReply, ModelRequest, RetryNotice
from team_runtime.models.retry import (
    HINTS,
    PROMPT_TOO_LONG,
    REQUEST_TOO_LARGE,
    Fault,
    Limiter,
    Patience,
    TryFailed,
    with_retry,
)

if TYPE_CHECKING:
    from anthropic import APIStatusError, AsyncAnthropic

_KINDS: Final = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    409: "conflict_error",
    413: REQUEST_TOO_LARGE,
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""The API's error types by status, for answers that do not name one."""


@dataclass(frozen=True)
class Waits:
    """How long one try may wait, in seconds."""

    connect: float = 10
    read: float = 120
    """Between any two pieces of a reply, pings included."""
    pool: float = 30
    idle: float = 180
    """Between any two events with content; a service that only pings is given up."""
    wall: float = 1200
    """For the whole try."""
    goodbye: float = 2
    """For the connection to end after a whole reply."""


class AnthropicModel:
    """The Messages API. Keys and endpoint are found as the SDK finds them unless given."""

    def __init__(
        self,
        patience: Patience,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        waits: Waits | None = None,
    ) -> None:
        self._patience = patience
        self._api_key = api_key
        self._base_url = base_url
        self._waits = waits or Waits()
        self._limiters: dict[str, Limiter] = {}
        self._client: AsyncAnthropic | None = None
        self._starting = anyio.Lock()

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        """See `Model.reply`."""
        client = await self._connected()
        limiter = self._limiters.setdefault(request.model, Limiter(self._patience))
        attempt = partial(self._attempt, client, request.model, encode(request))
        return await with_retry(attempt, self._patience, limiter, on_retry)

    async def check(self) -> None:
        """Raises `ModelRejected` when nothing can be asked, as without a key. Asks nothing."""
        await self._connected()
        await self.close()

    async def close(self) -> None:
        """Give back connections."""
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _connected(self) -> AsyncAnthropic:
        """The one client. The SDK takes seconds to import, so that happens off the event loop."""
        async with self._starting:
            if self._client is None:
                await anyio.to_thread.run_sync(importlib.import_module, "anthropic")
                self._client = self._new_client()
        return self._client

    def _new_client(self) -> AsyncAnthropic:
        import anthropic
        import httpx2

        waits = self._waits
        timeout = anthropic.Timeout(600, connect=waits.connect, read=waits.read, pool=waits.pool)
        try:
            client = anthropic.AsyncAnthropic(
                api_key=self._api_key, base_url=self._base_url, timeout=timeout, max_retries=0
            )
        except httpx2.InvalidURL as error:
            problem = f"the service's address is not valid ({error})"
            raise ModelRejected(
                problem, "invalid_request_error", "check ANTHROPIC_BASE_URL."
            ) from None
        except anthropic.AnthropicError as error:
            raise _no_credentials(f"the credentials cannot be used ({error})") from None
        if not _has_credentials(client):
            raise _no_credentials("there is no API key")
        return client

    async def _attempt(self, client: AsyncAnthropic, model: str, body: bytes) -> ModelReply:
        """One try. Raises `TryFailed`."""
        import anthropic
        import httpx2

        assembly = Assembly()
        begun = anyio.current_time()
        fault = Fault("cut", "the reply was cut off before its end")
        try:
            patient = min(self._waits.idle, self._waits.wall)
            with anyio.CancelScope(deadline=begun + patient) as scope:
                await self._read(client, body, assembly, scope)
            if scope.cancelled_caught:
                seconds = anyio.current_time() - begun
                fault = Fault("timeout", f"no whole reply came in {seconds:.0f} seconds")
        except (anthropic.AnthropicError, httpx2.RequestError, ValueError) as error:
            fault = self._fault(client, model, error)
        if not assembly.complete:
            raise TryFailed(replace(fault, request_id=fault.request_id or assembly.request_id))
        try:
            return assembly.reply(model)
        except ValueError as error:
            fault = Fault("protocol", str(error), request_id=assembly.request_id)
            raise TryFailed(fault) from None

    async def _read(
        self, client: AsyncAnthropic, body: bytes, assembly: Assembly, scope: anyio.CancelScope
    ) -> None:
        """Send the request and feed the reply's events. Each moves the deadline of `scope`."""
        from anthropic import AsyncStream

        wall = anyio.current_time() + self._waits.wall
        stream = await client.post(
            "/v1/messages",
            content=body,
            cast_to=object,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            assembly.request_id = stream.response.headers.get("request-id")
            async for event in stream:
                assembly.feed(event)
                wait = self._waits.goodbye if assembly.complete else self._waits.idle
                scope.deadline = min(wall, anyio.current_time() + wait)

    def _fault(self, client: AsyncAnthropic, model: str, error: Exception) -> Fault:
        """Why the try failed, without any secret in it."""
        fault = _fault(error, self._patience.clock)
        message = fault.message
        for secret in (client.api_key, client.auth_token, *map(os.environ.get, KEYS)):
            if secret:
                message = message.replace(secret, "[key]")
        if fault.kind == "not_found_error" and model not in message:
            message = f"{message} (asked for model {model!r})"
        return replace(fault, message=message)


def encode(request: ModelRequest) -> bytes:
    """The request's body: encoded parts, put one after the other. They hold the cache marks."""
    head = json.dumps(
        {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "metadata": {"user_id": request.user_id},
            "stream": True,
        },
        separators=(",", ":"),
    ).encode()
    parts = [head[:-1]]
    if request.system != b"[]":
        parts += [b',"system":', request.system]
    if request.tools != b"[]":
        parts += [b',"tools":', request.tools]
    parts += [b',"messages":', request.messages, b"}"]
    return b"".join(parts)


def _no_credentials(cause: str) -> ModelRejected:
    kind = "authentication_error"
    return ModelRejected(cause, kind, HINTS[kind])


def _has_credentials(client: AsyncAnthropic) -> bool:
    header = client.default_headers.get("Authorization")
    sent = isinstance(header, str) and header.removeprefix("Bearer").strip()
    return bool(sent) or client.credentials is not None


def _fault(error: Exception, clock: Clock) -> Fault:
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APIStatusError):
        return _status_fault(error, clock)
    cause = error.__cause__ if isinstance(error, anthropic.APIConnectionError) else None
    root = cause or error
    if isinstance(root, httpx2.LocalProtocolError):  # its text shows the header, so the key
        return Fault(
            "authentication_error", "the API key has characters that cannot be sent in a header"
        )
    if isinstance(root, UnicodeEncodeError | httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return Fault("invalid_request_error", f"the request cannot be sent: {root}")
    if isinstance(root, httpx2.TimeoutException | anthropic.APITimeoutError):
        return Fault("timeout", f"the service did not answer in time ({type(root).__name__})")
    if isinstance(root, ValueError):
        return Fault("protocol", f"the reply could not be read: {root}")
    if isinstance(error, anthropic.APIConnectionError | httpx2.RequestError):
        return Fault("connection", f"the connection failed: {str(root) or type(root).__name__}")
    return Fault("authentication_error", f"the credentials cannot be used: {root}")


def _status_fault(error: APIStatusError, clock: Clock) -> Fault:
    status = error.status_code
    known = "api_error" if status >= 500 or status < 300 else "invalid_request_error"
    kind = error.type or _KINDS.get(status, known)
    message = error.api_message or error.message
    if status == 413:
        kind = REQUEST_TOO_LARGE
    elif kind == "invalid_request_error" and "prompt is too long" in message:
        kind = PROMPT_TOO_LONG
    headers = error.response.headers
    return Fault(
        kind=kind,
        message=message,
        status=status,
        code=error.error_code,
        retry_after=_retry_after(headers, clock),
        should_retry={"true": True, "false": False}.get(headers.get("x-should-retry", "")),
        request_id=error.request_id,
    )


def _retry_after(headers: Mapping[str, str], clock: Clock) -> float | None:
    """Seconds the service asks to wait: a number, or a date; `None` when it does not say."""
    asked = headers.get("retry-after")
    if asked is None:
        return None
    try:
        seconds = float(asked)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(asked) - clock.now()).total_seconds()
        except (ValueError, TypeError):
            return None
    return max(seconds, 0.0) if isfinite(seconds) else None
