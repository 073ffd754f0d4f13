"""One mailbox, for programs that use the bus as a library."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final, Self

from team_runtime.bus.maildir import Maildir
from team_runtime.bus.message import Message
from team_runtime.store.files import Durability, Store
from team_runtime.store.watcher import Watch, watch

_POLL_SECONDS: Final = 1.0
"""The floor below file events, which are hints only."""
_POLL_SECONDS_ALONE: Final = 0.05
"""The same where the system gives no file events."""


class Mailbox:
    """Sends as one name and receives for it. Safe for threads, processes and after a fork."""

    def __init__(self, store: Store, name: str) -> None:
        self.name = name
        self._store = store
        self._bus = Maildir(store)
        self._bus.register(name)
        self._bell: _Bell | None = None

    @classmethod
    def open(cls, workspace: Path | str, name: str, *, durability: Durability = "power") -> Self:
        """The mailbox `name`, registered where it is new; the name outlives the process."""
        return cls(Store.open(Path(workspace), durability), name)

    def send(self, to: str, body: str) -> str:
        """Store a message for `to` and return its id. Raises `UnknownRecipient`, which lists the
        valid names."""
        return self._bus.send(self.name, to, body).id

    def receive(self, timeout: float = 0.0) -> list[Message]:
        """The messages that this process has not received yet, waiting up to `timeout` seconds for
        the first; what an earlier process left unacknowledged comes first.

        Raises `MailboxBusy` when another live process receives for this name.
        """
        end = self._store.clock.monotonic() + timeout
        while True:
            messages = self._bus.take(self.name)
            left = end - self._store.clock.monotonic()
            if messages or left <= 0:
                return messages
            self._wait(left)

    def acknowledge(self, message: Message) -> None:
        """The message is dealt with: nobody receives it again."""
        self._bus.acknowledge(self.name, [message.id])

    def close(self) -> None:
        """Let another process receive for this name."""
        if self._bell is not None:
            self._bell.watch.close()
            self._bell = None
        self._bus.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _wait(self, seconds: float) -> None:
        """Return when something may have arrived, at the latest after `seconds`."""
        if self._bell is None or self._bell.process != os.getpid():
            self._bell = _Bell(self._store.layout.mail / self.name / "new")
            return  # what came before the watch began rings no bell
        bell = self._bell
        bell.rung.wait(min(seconds, _POLL_SECONDS if bell.watch.active else _POLL_SECONDS_ALONE))
        bell.rung.clear()


class _Bell:
    """Rings in the process that made it when a folder changes."""

    def __init__(self, folder: Path) -> None:
        self.process = os.getpid()
        self.rung = threading.Event()
        self.watch: Watch = watch([folder], lambda _: self.rung.set())
