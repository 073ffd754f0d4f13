"""What a model is: a coroutine on the event loop that answers one encoded request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from team_runtime.types import Block, ToolCall, Usage

END_TURN: Final = "end_turn"
TOOL_USE: Final = "tool_use"
MAX_TOKENS: Final = "max_tokens"
STOP_SEQUENCE: Final = "stop_sequence"
PAUSE_TURN: Final = "pause_turn"
REFUSAL: Final = "refusal"
CONTEXT_FULL: Final = "model_context_window_exceeded"

INVALID_JSON: Final = "INVALID_JSON"
"""The only key of a tool input whose JSON did not parse; its value is the text as streamed."""


@dataclass(frozen=True)
class ModelRequest:
    """One call. `prefix` and `messages` are encoded JSON, so that no call walks the history."""

    model: str
    """The provider's own name, without `provider:`."""
    agent: str | None
    """Whose turn it is; `None` for a call that is no agent's."""
    user_id: str
    """`<session>/<agent>/<epoch>`: stable for one conversation, new for each epoch."""
    tools: bytes
    """A JSON array of tool definitions, sorted by name."""
    system: bytes
    """A JSON array of text blocks; the last one names the agent."""
    messages: bytes
    """A JSON array of messages."""
    max_tokens: int


@dataclass(frozen=True)
class ModelReply:
    """A whole reply: it ended with a terminal stop reason."""

    content: tuple[Block, ...]
    """The blocks exactly as they came (unset fields absent), except that a tool input whose JSON
    did not parse is `{INVALID_JSON: text}`."""
    stop_reason: str
    """The API's word, also one we do not know."""
    usage: Usage
    model: str
    """The model that answered, which may differ from the one asked."""
    stop_details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The reply's text blocks, joined."""
        return "\n".join(b["text"] for b in self.content if b.get("type") == "text").strip()

    @property
    def calls(self) -> list[ToolCall]:
        """The tool calls it asks for, in order."""
        return [
            ToolCall(b["id"], b["name"], b.get("input", {}))
            for b in self.content
            if b.get("type") == "tool_use"
        ]


RetryNotice = Callable[[str, int, float], None]
"""Told before each new try: cause, number of the failed attempt from 1, delay in seconds."""


class Model(Protocol):
    """A provider. Belongs to one event loop; cancelled by cancelling the task."""

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        """The model's answer, after as many tries as the retry budget allows.

        Raises `ModelRejected` when the service will not take such a request (no key, unknown
        model, bad request), `ModelFailed` when it could not be had in the end.
        """
        ...

    async def close(self) -> None:
        """Give back connections."""
        ...
