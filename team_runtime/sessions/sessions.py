"""The sessions of a workspace: what each was for, who was in it, and its transcripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from team_runtime.clock import iso
from team_runtime.errors import InputError, RecordBroken, VersionTooNew
from team_runtime.sessions.transcript import Transcript
from team_runtime.store.files import Store
from team_runtime.store.layout import check_agent_name, is_agent_name
from team_runtime.store.records import decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
_ID: Final = re.compile(r"s-\d{8}-\d{6}-[0-9a-f]{4}")


class Sessions:
    """The records in `.team/sessions`. Fields that we do not know survive."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def create(self, record: Mapping[str, Json]) -> dict[str, Json]:
        """Begin a session; returns its record with `v`, `id` and `createdAt` filled in."""
        while True:
            now = self._store.clock.now()
            session = f"s-{now:%Y%m%d-%H%M%S}-{self._store.entropy.token()[:4]}"
            full = {**record, "v": VERSION, "id": session, "createdAt": iso(now)}
            path = self._path(session)
            self._store.folder(path.parent)
            try:
                self._store.publish(path, encode_record(full))
            except FileExistsError:  # the same second and the same four digits
                continue
            return full

    def load(self, session: str) -> dict[str, Json]:
        """The record of a session. Raises `InputError` for one that is not there, `RecordBroken`
        or `VersionTooNew` for one that cannot be used."""
        record = self._read(session)
        if record is None:
            newest = self.latest()
            hint = f"The newest is {newest['id']}." if newest else "There are none yet."
            raise InputError(f"There is no session {session!r}. {hint}")
        return record

    def save(self, session: str, record: Mapping[str, Json]) -> None:
        """Change the fields in `record`; the others stay as they are on disk."""
        path = self._path(session)
        with self._store.lock("sessions"):
            while True:
                full = {**self.load(session), **record, "v": VERSION, "id": session}
                if self._store.replace(path, self._store.read(path), encode_record(full)):
                    return

    def list(self) -> list[dict[str, Json]]:
        """The records of all sessions that can be read, newest first; broken ones are set aside,
        their transcripts stay."""
        names = self._store.names(self._store.layout.sessions)
        records = (self._listed(name) for name in sorted(names, reverse=True))
        found = [record for record in records if record is not None]
        return sorted(found, key=lambda record: str(record.get("createdAt")), reverse=True)

    def latest(self) -> dict[str, Json] | None:
        """The newest session's record, or `None`."""
        return next(iter(self.list()), None)

    def agents(self, session: str) -> Sequence[str]:
        """The names of the agents that have a transcript, the lead first."""
        files = map(Path, self._store.names(self._path(session).parent))
        names = [file.stem for file in files if file.suffix == ".jsonl"]
        return sorted(filter(is_agent_name, names), key=lambda name: (name != "lead", name))

    def transcript(self, session: str, agent: str) -> Transcript:
        """The transcript of an agent. Raises `NameInvalid` for what is no agent's name."""
        path = self._path(session).with_name(f"{check_agent_name(agent)}.jsonl")
        return Transcript(self._store, path)

    def _path(self, session: str) -> Path:
        if not _ID.fullmatch(session):
            raise InputError(
                f"{session!r} is no session id; they look like s-20261130-181527-4f2a."
            )
        return self._store.layout.sessions / session / "session.json"

    def _read(self, session: str) -> dict[str, Json] | None:
        path = self._path(session)
        data = self._store.read(path)
        return None if data is None else decode_record(data, path, VERSION)

    def _listed(self, name: str) -> dict[str, Json] | None:
        if not _ID.fullmatch(name):
            return None
        try:
            return self._read(name)
        except VersionTooNew:
            return None
        except RecordBroken as error:
            self._store.quarantine(self._path(name), error.cause)
            return None
