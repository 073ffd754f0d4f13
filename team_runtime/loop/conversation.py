"""One agent's conversation: append-only, encoded once, on disk before it is acted on.

A request is the concatenation of parts that were encoded when they were appended, so that a turn
costs the same however long the conversation is, and each request begins with the whole of the
previous one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from team_runtime.models.base import INVALID_JSON, ModelReply
from team_runtime.sessions.transcript import Transcript
from team_runtime.text import Redactor, scrub
from team_runtime.types import Block, Json, Usage

_MARK: Final = b',"cache_control":{"type":"ephemeral"}}'


def encode(value: Json) -> bytes:
    """Compact JSON in UTF-8; half a character pair, which a reply may hold, as an escape."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _marked(block: bytes) -> bytes:
    return block[:-1] + _MARK


@dataclass
class _Message:
    """One API message: its role and its encoded blocks."""

    role: str
    blocks: list[bytes] = field(default_factory=list)

    def encoded(self, marked: Collection[int] = ()) -> bytes:
        parts = [_marked(b) if i in marked else b for i, b in enumerate(self.blocks)]
        return b'{"role":"%s","content":[%s]}' % (self.role.encode(), b",".join(parts))


class Conversation:
    """What an agent has been told and has said in one epoch, and what it used in all of them."""

    def __init__(
        self,
        transcript: Transcript,
        observe: Callable[[dict[str, Any]], None] = lambda entry: None,
        redactor: Redactor | None = None,
    ) -> None:
        """`redactor` knows what must not reach the model."""
        self._transcript = transcript
        self._observe = observe
        self._redactor = redactor or Redactor()
        self._messages: list[_Message] = []
        self._done: list[bytes] = []  # encodings of messages that no longer change or have marks
        self._answered: list[tuple[int, int]] = []  # last user block of the last two answered
        self.epoch = 0
        self.model = ""
        self.system = b"[]"
        self.tools = b"[]"
        self.usage = Usage()
        self.replies = 0
        self.said = ""
        """The text of the last reply."""
        self.unanswered = False
        """Whether something was added that the model has not replied to."""
        self.delivered: set[str] = set()
        """Ids of the messages that are already in the conversation."""
        self.open_calls: list[str] = []
        """Ids of the last reply's calls that have no result yet."""
        for entry in transcript.entries():
            self._apply(entry)

    def begin(self, model: str, system: Sequence[str], tools: Sequence[Json]) -> None:
        """Start the next epoch: `system` and `tools` are frozen for as long as it lasts."""
        entry = {
            "kind": "epoch",
            "epoch": self.epoch + 1,
            "model": model,
            "system": list(system),
            "tools": sorted(tools, key=lambda tool: str(tool["name"])),
        }
        self._record(entry)

    def append_user(self, blocks: Sequence[Block], mail: Sequence[str] = ()) -> None:
        """Add user content; blank text is left out. `mail` names the messages in it."""
        kept = [block for block in blocks if not _is_blank(block)]
        if kept or mail:
            blocks = self._redactor.value(kept)
            self._record({"kind": "user", "blocks": blocks, "mail": list(mail)})

    def append_reply(self, reply: ModelReply) -> None:
        """Add the model's reply exactly as it came. Blank text stays in the transcript alone: no
        request that holds it is accepted."""
        self._record(_reply_entry("assistant", reply))

    def count_dropped(self, reply: ModelReply) -> None:
        """Record a reply that does not enter the conversation but was paid for."""
        self._record(_reply_entry("dropped", reply))

    def set_aside(self, messages: Sequence[Json]) -> None:
        """Record messages that are not for this conversation."""
        self._record({"kind": "set_aside", "messages": list(messages)})
        self.sync()

    @property
    def is_new(self) -> bool:
        """Whether nothing was said in it yet."""
        return self.replies == 0 and not self.unanswered

    def sync(self) -> None:
        """Make what was appended survive power loss."""
        self._transcript.sync()

    def messages(self) -> bytes:
        """The API's `messages` array, with cache marks on the last block of this request and of
        the last one that was answered: a caching API finds the old mark whatever the number of
        new blocks. The same bytes whether the conversation was kept in memory or read again."""
        marks = self._marks()
        first_marked = min((message for message, _ in marks), default=0)
        while len(self._done) < first_marked:
            self._done.append(self._messages[len(self._done)].encoded())
        rest = [
            self._messages[index].encoded([block for m, block in marks if m == index])
            for index in range(len(self._done), len(self._messages))
        ]
        return b"[" + b",".join([*self._done, *rest]) + b"]"

    def _marks(self) -> list[tuple[int, int]]:
        """Message and block of each cache mark: at most two."""
        tail = self._tail()
        if tail is None:
            return []
        return [*[place for place in self._answered if place != tail][-1:], tail]

    def _tail(self) -> tuple[int, int] | None:
        """The last block of the last user message: thinking blocks may not carry a mark."""
        for index in range(len(self._messages) - 1, -1, -1):
            message = self._messages[index]
            if message.role == "user":
                return index, len(message.blocks) - 1
        return None

    def _record(self, entry: dict[str, Any]) -> None:
        self._transcript.append(entry)
        self._apply(entry)
        self._observe(entry)

    def _apply(self, entry: dict[str, Any]) -> None:
        kind = entry["kind"]
        if kind == "epoch":
            self._begin(entry)
        elif kind == "user":
            self.delivered.update(entry["mail"])
            answered = {b.get("tool_use_id") for b in entry["blocks"]}
            self.open_calls = [c for c in self.open_calls if c not in answered]
            self.unanswered = True
            self._extend("user", entry["blocks"])
        elif kind == "assistant":
            self._count(entry)
            self.replies += 1
            self.said = "\n".join(b["text"] for b in entry["blocks"] if b.get("type") == "text")
            self.unanswered = False
            calls = [b["id"] for b in entry["blocks"] if b.get("type") == "tool_use"]
            self.open_calls = calls
            self._extend("assistant", entry["blocks"])
        elif kind == "dropped":
            self._count(entry)

    def _count(self, entry: dict[str, Any]) -> None:
        """A request was answered: it was paid for, and its end can be found in a cache."""
        self.usage += Usage.from_api(entry["usage"])
        tail = self._tail()
        if tail is not None and tail not in self._answered:
            self._answered = [*self._answered[-1:], tail]

    def _begin(self, entry: dict[str, Any]) -> None:
        self.epoch = entry["epoch"]
        self.model = entry["model"]
        blocks = [encode({"type": "text", "text": text}) for text in entry["system"]]
        # The blocks before the last are the same for all teammates: a mark there is shared.
        marked = [_marked(b) if i >= len(blocks) - 2 else b for i, b in enumerate(blocks)]
        self.system = b"[" + b",".join(marked) + b"]"
        self.tools = encode(entry["tools"])
        self._messages, self._done, self._answered, self.open_calls = [], [], [], []

    def _extend(self, role: str, blocks: Sequence[Block]) -> None:
        blocks = [block for block in blocks if not _is_blank(block)]
        if not blocks:
            return
        if not self._messages or self._messages[-1].role != role:
            self._messages.append(_Message(role))
        self._messages[-1].blocks.extend(encode(block) for block in blocks)


def _reply_entry(kind: str, reply: ModelReply) -> dict[str, Any]:
    return {
        "kind": kind,
        "blocks": [_as_sent(block) for block in reply.content],
        "stopReason": reply.stop_reason,
        "usage": reply.usage.to_api(),
        "model": reply.model,
    }


def _as_sent(block: Block) -> Block:
    """The block as the service began it: an input that never became JSON was sent as `{}`. What
    was streamed instead is quoted in the call's error result."""
    if block.get("type") == "tool_use" and set(block["input"]) == {INVALID_JSON}:
        return {**block, "input": {}}
    return block


def _is_blank(block: Block) -> bool:
    return block.get("type") == "text" and not block["text"].strip()


def text_block(text: str) -> Block:
    """A text block of user content."""
    return {"type": "text", "text": scrub(text)}
