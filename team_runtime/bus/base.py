"""What the bus is: durable mailboxes, one per agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from team_runtime.bus.message import Message


class Bus(Protocol):
    """At-least-once on disk; order is kept per sender."""

    def register(self, name: str) -> None:
        """Make the mailbox `name`, which outlives the process. Does nothing when it exists."""
        ...

    def names(self) -> Sequence[str]:
        """All registered names, sorted."""
        ...

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
        """Store a message; it has survived power loss when this returns. Raises
        `UnknownRecipient`, which lists the valid names, and then creates nothing.

        An `id` that follows from what the message is about lets a sender that was killed find out
        later whether it had sent it. `session` says whose agents it is for, which `SessionBus`
        heeds."""
        ...

    def take(self, name: str) -> list[Message]:
        """All messages not yet acknowledged that this reader has not taken before, oldest first;
        what a dead reader left comes first. A bad entry is quarantined, the rest is delivered.
        Raises `MailboxBusy` when another live process receives for this name."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """What is sent within it, readers of this process take all at once: they wait for its end.
        Not for waiting in, and not for taking."""
        ...

    def acknowledge(self, name: str, ids: Sequence[str]) -> None:
        """The messages are safe elsewhere: they are not delivered again."""
        ...

    def unread(self, name: str) -> list[Message]:
        """The messages that nobody has taken yet, without consuming them."""
        ...

    def close(self) -> None:
        """Let other processes receive for the names read here."""
        ...
