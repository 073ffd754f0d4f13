"""Records that pass between the layers. All are frozen; JSON stays in its API form."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value that `json` can encode. Blocks and records keep fields we do not know."""
Block: TypeAlias = dict[str, Any]
"""One content block in the API's own form, kept exactly as it came."""


class Liveness(enum.Enum):
    """What can be said about the process behind a run."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class ToolCall:
    """A model's request to run one tool."""

    id: str
    name: str
    input: Json


@dataclass(frozen=True)
class ToolResult:
    """The one answer to a `ToolCall`."""

    call_id: str
    content: str
    is_error: bool = False

    def block(self) -> Block:
        """The API's `tool_result` block; never with empty content."""
        block: Block = {
            "type": "tool_result",
            "tool_use_id": self.call_id,
            "content": self.content if self.content.strip() else "(no output)",
        }
        if self.is_error:
            block["is_error"] = True
        return block


@dataclass(frozen=True)
class Usage:
    """Tokens of one or more model calls. `input` is the uncached part of the prompt."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
        )

    @property
    def prompt(self) -> int:
        """All tokens of the prompt, cached or not."""
        return self.input + self.cache_read + self.cache_write

    @classmethod
    def from_api(cls, usage: Mapping[str, Any]) -> Usage:
        """Read the API's cumulative `usage` object; absent parts count as 0."""

        def tokens(key: str) -> int:
            value = usage.get(key)
            return value if isinstance(value, int) else 0

        return cls(
            input=tokens("input_tokens"),
            output=tokens("output_tokens"),
            cache_read=tokens("cache_read_input_tokens"),
            cache_write=tokens("cache_creation_input_tokens"),
        )

    def to_api(self) -> dict[str, int]:
        """The API's names for the parts."""
        return {
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cache_read_input_tokens": self.cache_read,
            "cache_creation_input_tokens": self.cache_write,
        }
