"""The bus as one session sees it: sessions of a workspace share the mailboxes, not the mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from team_runtime.bus.base import Bus
from team_runtime.bus.message import Message


@dataclass(frozen=True)
class SessionBus:
    """What is sent is for agents of `session`. Mail of another session is neither shown nor
    acknowledged: it comes first when that goes on. Mail of none is for whoever takes it."""

    bus: Bus
    session: str

    def register(self, name: str) -> None:
        self.bus.register(name)

    def names(self) -> Sequence[str]:
        return self.bus.names()

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
        return self.bus.send(sender, to, body, type, attributes, id, session or self.session)

    def take(self, name: str) -> list[Message]:
        return self._ours(self.bus.take(name))

    def together(self) -> AbstractContextManager[None]:
        return self.bus.together()

    def acknowledge(self, name: str, ids: Sequence[str]) -> None:
        self.bus.acknowledge(name, ids)

    def unread(self, name: str) -> list[Message]:
        return self._ours(self.bus.unread(name))

    def close(self) -> None:
        self.bus.close()

    def _ours(self, messages: Sequence[Message]) -> list[Message]:
        return [message for message in messages if message.session in (None, self.session)]
