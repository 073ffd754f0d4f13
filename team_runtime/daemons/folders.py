"""The floor under file events: a slow look at the folders themselves, one for the whole team."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

LOOK_SECONDS: Final = 30.0
"""Between two looks; a file event that was lost costs at most this."""
BLIND_SECONDS: Final = 5.0
"""The same where the system gives no file events."""


async def look_again(
    folders: Callable[[], Iterable[Path]], on_change: Callable[[Path], None], told: bool
) -> None:
    """Call `on_change` with each folder in which something was added, removed or renamed, for ever.

    `told` says whether the system gives file events at all: without them an edit in place would
    never be noticed, so every folder counts as changed at every look.
    """
    known = await to_thread.run_sync(_times, folders)
    while True:
        await anyio.sleep(LOOK_SECONDS if told else BLIND_SECONDS)
        found = await to_thread.run_sync(_times, folders)
        for folder, time in found.items():
            if not told or known.get(folder) != time:
                on_change(folder)
        known = found


def _times(folders: Callable[[], Iterable[Path]]) -> Mapping[Path, int]:
    """When each folder was changed last, in nanoseconds; those that are gone are left out."""
    times = {}
    for folder in folders():
        try:
            times[folder] = folder.stat().st_mtime_ns
        except OSError:
            continue
    return times
