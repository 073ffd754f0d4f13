"""A conversation as the loop keeps it: every message encoded once, when it is appended."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from team_runtime.bus.message import Message, render
from team_runtime.models.base import ModelReply, ModelRequest
from team_runtime.types import Block, Json, ToolResult


def encode(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def tool(name: str) -> Json:
    return {"name": name, "description": name, "input_schema": {"type": "object"}}


def injected(sender: str, type: str, **attributes: str) -> str:
    """The text of a bus message, as an agent reads it."""
    return render(Message("m1", sender, "lead", type, "body", "", attributes))


IDENTITY: Block = {
    "type": "text",
    "text": "You are lead, the lead of team t.",
    "cache_control": {"type": "ephemeral"},
}


class Talk:
    """One agent's conversation with a model."""

    def __init__(self, prompt: str, agent: str | None = "lead", model: str = "claude-opus-5-5"):
        self.agent = agent
        self.model = model
        self._encoded: list[bytes] = []
        self.say(prompt)

    def say(self, *texts: str) -> None:
        self._append("user", [{"type": "text", "text": text} for text in texts])

    def answer(self, reply: ModelReply, *texts: str, result: str = "done") -> None:
        """Append the reply as it came, then the results of its calls and what was said since."""
        self._append("assistant", reply.content)
        blocks = [ToolResult(call.id, result).block() for call in reply.calls]
        blocks += [{"type": "text", "text": text} for text in texts]
        if blocks:
            self._append("user", blocks)

    def request(self, max_tokens: int = 1000) -> ModelRequest:
        return ModelRequest(
            model=self.model,
            agent=self.agent,
            user_id=f"session/{self.agent}/1",
            tools=encode([tool("bash"), tool("read_file")]),
            system=encode([IDENTITY]),
            messages=b"[" + b",".join(self._encoded) + b"]",
            max_tokens=max_tokens,
        )

    def _append(self, role: str, content: Sequence[Mapping[str, Json]] | Sequence[Block]) -> None:
        self._encoded.append(encode({"role": role, "content": list(content)}))
