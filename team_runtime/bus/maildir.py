"""Mailboxes as maildirs: a message is whole or absent, and stays until it is acknowledged.

A sender writes in `tmp`, then links into `new`; the one reader moves to `cur` what it takes.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from team_runtime.bus.message import TYPES, Message, stamped
from team_runtime.errors import (
    Held,
    MailboxBusy,
    RecordBroken,
    UnknownRecipient,
    VersionTooNew,
)
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Store
from team_runtime.store.layout import check_agent_name, is_agent_name
from team_runtime.store.locks import Hold
from team_runtime.store.records import Fields, decode_record, encode_record

VERSION: Final = 1
_NAME: Final = re.compile(r"(\d{12})\.(.+)\.json")
_LAST: Final = 10**12
"""Sorts what is not one of our names behind all that are."""


class Maildir:
    """The bus over files. Safe for threads, processes and after a fork."""

    def __init__(self, store: Store, emit: Emit = no_events) -> None:
        self._store = store
        self._emit = emit
        self._readers = _Readers()

    def register(self, name: str) -> None:
        box = self._box(check_agent_name(name))
        for part in ("tmp", "cur", "new"):  # `new` last: with it the mailbox exists
            self._store.folder(box / part)

    def names(self) -> Sequence[str]:
        root = self._store.layout.mail
        return sorted(name for name in self._store.names(root) if (root / name / "new").is_dir())

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
        message = stamped(draft, self._store.clock, self._store.entropy)
        box = self._registered(to)
        name = f"{self._next_number(box):012d}.{message.id}.json"
        self._store.publish(box / "new" / name, _encode(message), through=box / "tmp")
        self._emit("message_sent", sender, to=to, type=type, message=message.id)
        return message

    def take(self, name: str) -> list[Message]:
        box = self._registered(name)
        readers = self._readers_here()
        with readers.lock:
            taken: list[Path] = []
            if name not in readers.holds:
                readers.holds[name] = self._hold(name)
                taken += _in_order(box / "cur", self._store.names(box / "cur"))
            for path in _in_order(box / "new", self._settled_names(box / "new")):
                place = box / "cur" / path.name
                if self._store.move(path, place):
                    taken.append(place)
        messages = (self._message(path) for path in taken)
        return [message for message in messages if message is not None]

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._readers_here().lock:
            yield

    def acknowledge(self, name: str, ids: Sequence[str]) -> None:
        folder = self._registered(name) / "cur"
        wanted = set(ids)
        names = (_NAME.fullmatch(entry) for entry in self._store.names(folder))
        self._store.remove(*(folder / match[0] for match in names if match and match[2] in wanted))

    def unread(self, name: str) -> list[Message]:
        folder = self._registered(name) / "new"
        messages = (self._message(path) for path in _in_order(folder, self._store.names(folder)))
        return [message for message in messages if message is not None]

    def close(self) -> None:
        readers = self._readers_here()
        with readers.lock:
            for hold in readers.holds.values():
                hold.release()
            readers.holds.clear()

    def _box(self, name: str) -> Path:
        return self._store.layout.mail / name

    def _registered(self, name: str) -> Path:
        if not is_agent_name(name) or not (self._box(name) / "new").is_dir():
            raise UnknownRecipient(name, ", ".join(self.names()) or "none yet")
        return self._box(name)

    def _hold(self, name: str) -> Hold:
        try:
            return self._store.hold(f"mail-{name}", {})
        except Held as error:
            raise MailboxBusy(name) from error

    def _readers_here(self) -> _Readers:
        """The mailboxes that this process reads; a forked child has none."""
        if self._readers.process != os.getpid():
            self._readers = _Readers()
        return self._readers

    def _next_number(self, box: Path) -> int:
        """One more than any in the box, so that a sender's messages sort as they were sent."""
        # `new` first: a message on its way to `cur` is then seen at least once.
        names = self._store.names(box / "new") + self._store.names(box / "cur")
        matches = map(_NAME.fullmatch, names)
        return max((int(match[1]) for match in matches if match), default=0) + 1

    def _settled_names(self, folder: Path) -> list[str]:
        """The names in `folder`, closed under "sent earlier by the same sender".

        A listing may miss a message and still show a later one. What a second listing shows on
        top may be such a message, so everything with a higher number than it waits for next time.
        """
        while True:
            names = self._store.names(folder)
            late = set(self._store.names(folder)) - set(names)
            limit = min(map(_number, late), default=_LAST)
            settled = [name for name in names if _number(name) <= limit]
            if settled or not late:
                return settled

    def _message(self, path: Path) -> Message | None:
        try:
            data = self._store.read(path)
            return None if data is None else _decode(data, path)
        except RecordBroken as error:
            self._store.quarantine(path, error.cause)
        except VersionTooNew as error:
            self._store.quarantine(path, f"its format {error.found} is newer than {error.known}")
        return None


class _Readers:
    """The reader locks of one process."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.lock = threading.Lock()
        self.holds: dict[str, Hold] = {}


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    return int(match[1]) if match else _LAST


def _in_order(folder: Path, names: Sequence[str]) -> list[Path]:
    visible = (name for name in names if not name.startswith("."))
    return [folder / name for name in sorted(visible, key=lambda name: (_number(name), name))]


def _encode(message: Message) -> bytes:
    return encode_record({"v": VERSION, **vars(message)})


def _decode(data: bytes, path: Path) -> Message:
    fields = Fields(decode_record(data, path, VERSION), path)
    match = _NAME.fullmatch(path.name)
    if match is None or fields.text("id") != match[2]:
        raise fields.broken("its name is not that of the message in it")
    attributes = fields.mapping("attributes")
    if not all(type(value) is str for value in attributes.values()):
        raise fields.broken("`attributes` holds more than text")
    kind = fields.text("type")
    if kind not in TYPES:
        raise fields.broken(f"{kind!r} is no type of message")
    return Message(
        id=fields.text("id"),
        sender=fields.text("sender"),
        to=fields.text("to"),
        type=kind,
        body=fields.text("body"),
        at=fields.text("at"),
        attributes=attributes,
        session=fields.optional("session"),
    )
