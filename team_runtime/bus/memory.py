"""A bus in memory, for one process: the same rules, gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from team_runtime.bus.message import Message, stamped
from team_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from team_runtime.errors import MailboxBusy, UnknownRecipient
from team_runtime.events import Emit, no_events
from team_runtime.store.layout import check_agent_name


@dataclass
class _Box:
    """One mailbox: what nobody has taken, what was taken and not acknowledged, and who reads."""

    new: list[Message] = field(default_factory=list)
    taken: list[Message] = field(default_factory=list)
    reader: MemoryBus | None = None


class MemoryBus:
    """A bus for threads of one process."""

    def __init__(self, clock: Clock, entropy: Entropy, emit: Emit = no_events) -> None:
        self._clock = clock
        self._entropy = entropy
        self._emit = emit
        self._lock = threading.Lock()
        self._taking = threading.Lock()
        self._boxes: dict[str, _Box] = {}

    @classmethod
    def open(cls) -> Self:
        """New mailboxes, with the machine's clock."""
        return cls(SystemClock(), SystemEntropy())

    def joined(self) -> MemoryBus:
        """The same mailboxes, for another reader."""
        other = MemoryBus(self._clock, self._entropy, self._emit)
        other._lock, other._taking, other._boxes = self._lock, self._taking, self._boxes
        return other

    def register(self, name: str) -> None:
        check_agent_name(name)
        with self._lock:
            self._boxes.setdefault(name, _Box())

    def names(self) -> Sequence[str]:
        with self._lock:
            return sorted(self._boxes)

    def send(
        self,
        sender: str,
        to: str,
        body: str,
        type: str = "message",
        attributes: Mapping[str, str] | None = None,
        id: str | None = None,
        session: str | None = None,
    ) -> Message:
        draft = Message(id or "", sender, to, type, body, "", attributes or {}, session)
        message = stamped(draft, self._clock, self._entropy)
        with self._lock:
            self._box(to).new.append(message)
        self._emit("message_sent", sender, to=to, type=type, message=message.id)
        return message

    def take(self, name: str) -> list[Message]:
        with self._taking, self._lock:
            box = self._box(name)
            if box.reader not in (None, self):
                raise MailboxBusy(name)
            left = [] if box.reader is self else box.taken
            found = [*left, *box.new]
            box.reader = self
            box.taken, box.new = [*box.taken, *box.new], []
        return found

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._taking:
            yield

    def acknowledge(self, name: str, ids: Sequence[str]) -> None:
        with self._lock:
            box = self._box(name)
            box.taken = [message for message in box.taken if message.id not in ids]

    def unread(self, name: str) -> list[Message]:
        with self._lock:
            return list(self._box(name).new)

    def close(self) -> None:
        with self._lock:
            for box in self._boxes.values():
                if box.reader is self:
                    box.reader = None

    def _box(self, name: str) -> _Box:
        if name not in self._boxes:
            raise UnknownRecipient(name, ", ".join(sorted(self._boxes)) or "none yet")
        return self._boxes[name]
