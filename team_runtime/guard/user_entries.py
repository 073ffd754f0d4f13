"""A file in a user's own folder that says something about each workspace, by its real path."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from team_runtime.clock import Clock, SystemEntropy
from team_runtime.errors import InputError, StoreBusy
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout
from team_runtime.store.locks import locked
from team_runtime.store.records import decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
_LOCK_SECONDS: Final = 10.0


class UserEntries:
    """One such file. No byte of a workspace is consulted for it."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._store = Store(Layout(path.parent), clock, SystemEntropy())

    def get(self, root: Path) -> Json:
        """What is said about the workspace, or `None`. Raises `RecordBroken`, `InputError`."""
        return self._read(self._store.read(self.path)).get(os.path.realpath(root))

    def change(self, root: Path, change: Callable[[Json], Json]) -> None:
        """Replace what is said about the workspace; `None` stands for nothing."""
        self._store.folder(self.path.parent)
        with locked(self.path.with_suffix(".lock"), _LOCK_SECONDS):
            old = self._store.read(self.path)
            known, key = self._read(old), os.path.realpath(root)
            entry = change(known.pop(key, None))
            if entry is not None:
                known[key] = entry
            record = {"v": VERSION, "workspaces": known}
            if not self._store.replace(self.path, old, encode_record(record)):
                raise StoreBusy(str(self.path), 0, "somebody edited it at this moment")

    def _read(self, data: bytes | None) -> dict[str, Any]:
        if data is None:
            return {}
        known = decode_record(data, self.path, VERSION).get("workspaces", {})
        if not isinstance(known, dict):
            raise InputError(f"{self.path}: workspaces: an object is expected")
        return known
