"""The retry budget of one model call: what is worth another try, when, and who has to wait."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import count
from typing import Final, TypeAlias, TypeVar

import anyio

from team_runtime.clock import Clock, Entropy
from team_runtime.errors import ModelFailed, ModelRejected
from team_runtime.models.base import RetryNotice
from team_runtime.text import one_line

T = TypeVar("T")
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

TRIES: Final = 24
"""Tries of one call, the first included."""
STEPS: Final = 16
"""The longest back-off, in multiples of the first."""
LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds; a service that asks for more is asked again after this long."""

PROMPT_TOO_LONG: Final = "prompt_too_long"
REQUEST_TOO_LARGE: Final = "request_too_large"

_RETRIED: Final = {
    "rate_limit_error",
    "api_error",
    "timeout_error",
    "overloaded_error",
    "conflict_error",
    "connection",
    "cut",
    "timeout",
    "protocol",
}
_REJECTED: Final = {
    "invalid_request_error",
    "authentication_error",
    "billing_error",
    "permission_error",
    "not_found_error",
}
_TOO_LARGE: Final = {PROMPT_TOO_LONG, REQUEST_TOO_LARGE}
_SPEND_LIMITS: Final = {"enforced_spend_limit_reached", "contract_spend_limit_reached"}
HINTS: Final = {
    PROMPT_TOO_LONG: "compact it and try again.",
    REQUEST_TOO_LARGE: "compact it and try again.",
    "authentication_error": (
        "set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL and any key for a local server."
    ),
    "billing_error": "check the account's billing.",
    "permission_error": "use a key that may do this.",
    "not_found_error": "check the model's name and ANTHROPIC_BASE_URL.",
    "connection": "check the network and ANTHROPIC_BASE_URL, then try again.",
    "rate_limit_error": "try again later.",
    "overloaded_error": "try again later or use another model.",
}


class Verdict(enum.Enum):
    """What a failed try means for the call."""

    RETRY = "retry"
    REJECT = "reject"
    """The service will never take this request."""
    FAIL = "fail"
    """The request is right, and trying again as it is cannot help."""


@dataclass(frozen=True)
class Fault:
    """Why one try failed, as the service or the connection told it."""

    kind: str
    """The API's error type, `connection`, `cut`, `timeout`, `protocol` or `PROMPT_TOO_LONG`."""
    message: str
    status: int | None = None
    code: str | None = None
    """The API's stable code for the cause, where it has one."""
    retry_after: float | None = None
    """Seconds the service asks to wait."""
    should_retry: bool | None = None
    """What the service says about another try, if it says so."""
    request_id: str | None = None

    @property
    def cause(self) -> str:
        """One line for a person."""
        text = one_line(self.message, 400).rstrip(".")
        return text if self.kind in text or self.status is None else f"{self.kind}: {text}"


def is_outage(error: BaseException | None) -> bool:
    """Whether a call failed because its model could not be reached, which may pass by itself."""
    return isinstance(error, ModelFailed) and error.kind in _RETRIED


class TryFailed(Exception):
    """One try failed; `with_retry` decides what that means."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.cause)
        self.fault = fault


def judge(fault: Fault) -> Verdict:
    """Whether to try again: by code and type first, because an error inside a stream that began
    well has status 200; by status for types we do not know."""
    if fault.code in _SPEND_LIMITS or fault.kind in _TOO_LARGE:
        return Verdict.FAIL
    if fault.should_retry is not None:
        return Verdict.RETRY if fault.should_retry else _unless_retry(_by_kind(fault))
    return _by_kind(fault)


def _by_kind(fault: Fault) -> Verdict:
    if fault.kind in _RETRIED:
        return Verdict.RETRY
    if fault.kind in _REJECTED:
        return Verdict.REJECT
    refused = fault.status is not None and 300 <= fault.status < 500
    return Verdict.REJECT if refused and fault.status not in (408, 409, 429) else Verdict.RETRY


def _unless_retry(verdict: Verdict) -> Verdict:
    return Verdict.FAIL if verdict is Verdict.RETRY else verdict


@dataclass(frozen=True)
class Patience:
    """How long a call keeps trying, and by which clock."""

    clock: Clock
    entropy: Entropy
    sleep: Sleep = anyio.sleep
    base: float = 0.5
    """Seconds before the second try."""
    tries: int = TRIES

    def delay(self, failures: int, retry_after: float | None) -> float:
        """Seconds to wait after the `failures`-th failure: doubling up to `STEPS` times the base,
        less up to a quarter, and never less than the service asks for."""
        backoff = self.base * min(1 << (failures - 1), STEPS) * (1 - self.entropy.fraction() / 4)
        if retry_after is None:
            return backoff
        asked = min(retry_after, LONGEST_RETRY_AFTER)
        return max(backoff, asked + self.base * self.entropy.fraction())


class Limiter:
    """Makes all callers of one key and model hold back after one was told to."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._until = 0.0

    def hold(self, seconds: float) -> None:
        """Let nobody start within `seconds` from now."""
        self._until = max(self._until, self._patience.clock.monotonic() + seconds)

    async def passage(self) -> None:
        """Wait until a call may start. Callers leave a hold at slightly different times."""
        patience = self._patience
        while (left := self._until - patience.clock.monotonic()) > 0:
            await patience.sleep(left + patience.base * patience.entropy.fraction())


async def with_retry(
    attempt: Callable[[], Awaitable[T]],
    patience: Patience,
    limiter: Limiter,
    on_retry: RetryNotice,
) -> T:
    """The result of `attempt`, tried again after each `TryFailed` that is worth it.

    Raises `ModelRejected` or `ModelFailed`.
    """
    for number in count(1):
        await limiter.passage()
        try:
            return await attempt()
        except TryFailed as failed:
            fault = failed.fault
        if judge(fault) is not Verdict.RETRY or number >= patience.tries:
            break
        delay = patience.delay(number, fault.retry_after)
        if fault.kind == "rate_limit_error":
            limiter.hold(min(delay, LONGEST_RETRY_AFTER))
        on_retry(fault.cause, number, delay)
        await patience.sleep(delay)
    raise _error(fault, number)


def _error(fault: Fault, tries: int) -> ModelFailed:
    again = f" (after {tries} tries)" if tries > 1 else ""
    request = f" (request {fault.request_id})" if fault.request_id else ""
    hint = HINTS.get(fault.kind, "try again.")
    rejected = judge(fault) is Verdict.REJECT
    if rejected and fault.kind not in HINTS:
        hint = "change the request; trying it again as it is cannot work."
    error = ModelRejected if rejected else ModelFailed
    return error(f"{fault.cause}{again}", fault.kind, hint, request)
