"""The floor under file events: a slow look at the folders themselves, one for the whole team."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio import to_thread

from team_runtime.crossing import Bell

LOOK_SECONDS: Final = 30.0
"""Between two looks; a file event that was lost costs at most this."""
BLIND_SECONDS: Final = 5.0
"""The same where the system gives no file events."""
QUIET_SECONDS: Final = 300.0
"""The same while no event can have been lost: each folder is known to be watched, and there was no
event that others could have been lost behind."""


class Watching(Protocol):
    """What the look has to know of the file events."""

    @property
    def active(self) -> bool:
        """Whether there are any."""
        ...

    def covers(self, folders: Iterable[Path]) -> bool:
        """Whether every change in these folders is sure to be told."""
        ...


@dataclass
class Floor:
    """Finds what file events did not tell."""

    folders: Callable[[], Iterable[Path]]
    on_change: Callable[[Path], None]
    """Called with each folder in which something was added, removed, renamed or edited. Without
    file events it is called with every folder at every look."""
    _bell: Bell | None = field(default=None, init=False)

    def hear(self) -> None:
        """A file event came, from any thread: behind it others may have been lost."""
        if self._bell is not None:
            self._bell.ring()

    async def run(self, watching: Watching) -> None:
        """Look again and again, until cancelled."""
        self._bell = Bell()
        known, is_sure = await to_thread.run_sync(self._look, watching)
        while True:
            await _pause(self._bell, watching, is_sure)
            found, is_sure = await to_thread.run_sync(self._look, watching)
            for folder, state in found.items():
                if not watching.active or known.get(folder) != state:
                    self.on_change(folder)
            known = found

    def _look(self, watching: Watching) -> tuple[Mapping[Path, int], bool]:
        """The states of the folders, and whether a change of them is sure to be told."""
        folders = list(self.folders())
        is_sure = watching.covers(folders)  # first: what changes from here on is told
        return _states(folders), is_sure


async def _pause(bell: Bell, watching: Watching, is_sure: bool) -> None:
    if is_sure and not await bell.wait(QUIET_SECONDS):
        return
    await anyio.sleep(LOOK_SECONDS if watching.active else BLIND_SECONDS)


def _states(folders: Iterable[Path]) -> Mapping[Path, int]:
    """A number for each folder that changes with it and with what is in it; those that are gone
    are left out."""
    states = {}
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                seen = frozenset(_identity(entry) for entry in entries)
            states[folder] = hash((folder.stat().st_mtime_ns, seen))
        except OSError:
            continue
    return states


def _identity(entry: os.DirEntry[str]) -> tuple[object, ...]:
    try:
        state = entry.stat(follow_symlinks=False)
    except OSError:  # gone by now
        return (entry.name,)
    return entry.name, state.st_ino, state.st_size, state.st_mtime_ns
