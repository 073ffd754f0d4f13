"""Puts a reply together from the events of a stream, exactly as it was sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from team_runtime.models.base import INVALID_JSON, ModelReply
from team_runtime.text import scrub
from team_runtime.types import Block, Usage


class Assembly:
    """One reply in the making. `feed` takes events in order; unknown kinds are tolerated."""

    def __init__(self) -> None:
        self.request_id: str | None = None
        """The service's name for the request, once it is known."""
        self._blocks: dict[int, _BlockParts] = {}
        self._message: Mapping[str, Any] = {}
        self._end: Mapping[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._stopped = False

    @property
    def complete(self) -> bool:
        """Whether the service said why and that it ended; anything less is a cut reply."""
        return self._stopped and isinstance(self._end.get("stop_reason"), str)

    def feed(self, event: Any) -> None:
        """Take one event. Raises `ValueError` when it has not the shape the API promises."""
        try:
            self._take(event)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"the stream has an event of an unexpected shape ({error!r})"
            ) from None

    def _take(self, event: Any) -> None:
        kind = event["type"]
        if kind == "content_block_delta":
            self._blocks[event["index"]].extend(event["delta"])
        elif kind == "content_block_start":
            self._blocks[event["index"]] = _BlockParts(event["content_block"])
        elif kind == "message_start":
            self._message = event["message"]
            self._usage.update(_set_fields(self._message.get("usage")))
        elif kind == "message_delta":
            self._end = {**self._end, **event["delta"]}
            self._usage.update(_set_fields(event.get("usage")))
        elif kind == "message_stop":
            self._stopped = True

    def reply(self, model: str) -> ModelReply:
        """The whole reply, by `model` unless the service named another. Raises `ValueError` when
        a tool call has no id or name, or the id of another one."""
        content = tuple(parts.block() for _, parts in sorted(self._blocks.items()))
        calls = [block for block in content if block["type"] == "tool_use"]
        if not all(call.get("id") and call.get("name") for call in calls):
            raise ValueError("the reply has a tool call without an id or a name")
        if len({call["id"] for call in calls}) < len(calls):
            raise ValueError("the reply has two tool calls with one id")
        return ModelReply(
            content=content,
            stop_reason=self._end["stop_reason"],
            usage=Usage.from_api(self._usage),
            model=self._message.get("model") or model,
            stop_details=self._end.get("stop_details") or {},
        )


class _BlockParts:
    """One content block and the pieces that came for its fields."""

    def __init__(self, start: Block) -> None:
        self._start = {"type": start["type"], **start}
        self._pieces: dict[str, list[str]] = {}
        self._json: list[str] = []

    def extend(self, delta: Mapping[str, Any]) -> None:
        kind = delta["type"]
        if kind == "input_json_delta":
            self._json.append(delta["partial_json"])
        elif kind == "citations_delta":
            cited = self._start.get("citations") or []
            self._start["citations"] = [*cited, delta["citation"]]
        else:
            for field, value in delta.items():
                if field != "type":
                    self._append(field, value)

    def _append(self, field: str, value: Any) -> None:
        """Text continues the field of its name; anything else is its new value."""
        if isinstance(value, str):
            self._pieces.setdefault(field, []).append(value)
        else:
            self._start[field] = value

    def block(self) -> Block:
        block = dict(self._start)
        for field, pieces in self._pieces.items():
            block[field] = _joined([block.get(field) or "", *pieces])
        text = _joined(self._json)
        if text:
            block["input"] = parse_input(text)
        return block


def parse_input(text: str) -> Any:
    """The tool input that `text` encodes; `{INVALID_JSON: text}` when it is no JSON object that
    can be sent back: truncated, malformed, or with half a character in it."""
    try:
        value = json.loads(text, parse_constant=_no_constant)
        if not isinstance(value, dict):
            return {INVALID_JSON: scrub(text)}
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return {INVALID_JSON: scrub(text)}
    return value


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def _joined(pieces: list[str]) -> str:
    """The pieces as one text. A character whose halves came in two events is whole again; a half
    that stays alone becomes U+FFFD, because it could never be sent back."""
    text = "".join(pieces)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _set_fields(usage: Mapping[str, Any] | None) -> dict[str, Any]:
    """The API's later counts replace the earlier ones; a null says nothing."""
    return {key: value for key, value in (usage or {}).items() if value is not None}
