"""An agent's transcript: JSON lines, only ever added to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from team_runtime.errors import RecordBroken
from team_runtime.store.files import Store
from team_runtime.store.records import decode_record, encode_line
from team_runtime.types import Json

VERSION: Final = 1


class Transcript:
    """One agent's lines in one session. One process writes it at a time."""

    def __init__(self, store: Store, path: Path) -> None:
        self.path = path
        self._store = store

    def append(self, entry: Mapping[str, Json]) -> None:
        """Add an entry. It has survived the death of the process when this returns; `sync` makes
        it survive power loss."""
        self._store.folder(self.path.parent)
        self._store.append(self.path, encode_line({"v": VERSION, **entry}))

    def sync(self) -> None:
        """Make all entries survive power loss."""
        self._store.sync(self.path)

    def entries(self) -> list[dict[str, Json]]:
        """All whole entries, oldest first; what a crash tore is dropped.

        Raises `RecordBroken`, which names the line, for anything else that cannot be read.
        """
        lines = enumerate(self._store.read_lines(self.path), start=1)
        return [self._entry(number, line) for number, line in lines if line.strip()]

    def _entry(self, number: int, line: bytes) -> dict[str, Json]:
        try:
            return decode_record(line, self.path, VERSION)
        except RecordBroken as error:
            raise RecordBroken(f"{self.path}, line {number}", error.cause) from error
