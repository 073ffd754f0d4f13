"""Processes that outlived the run which started them.

Every child of a run carries the run's id in its environment, so that what is left after a
`kill -9` can be told from everything else, however it was started or moved.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from pathlib import Path
from typing import Final

from team_runtime.process.usage import User, processes, user_of

MARK: Final = "TEAM_RUN"
"""The variable that names the run."""


def left_by(runs: Collection[str], proc: Path = Path("/proc")) -> list[User]:
    """The living processes that were started by one of `runs`; empty where the system does not
    tell, as outside Linux."""
    marks = {f"{MARK}={run}".encode() for run in runs}
    return [
        user_of(entry)
        for entry in processes(proc)
        if int(entry.name) != os.getpid() and _marked(entry, marks)
    ]


def end_left_by(runs: Collection[str], proc: Path = Path("/proc")) -> list[User]:
    """End the processes that dead runs left. Returns what was ended.

    They are killed: whoever would have heeded a polite request has gone, and every one of them may
    still be writing to a worktree.
    """
    ended: list[User] = []
    for _ in range(10):  # a dying process may have started another one
        found = left_by(runs, proc)
        if not found:
            break
        for user in found:
            try:
                os.kill(user.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended.append(user)
    return ended


def _marked(entry: Path, marks: set[bytes]) -> bool:
    try:
        if (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] in "ZX":
            return False
        return not marks.isdisjoint((entry / "environ").read_bytes().split(b"\0"))
    except (OSError, IndexError):
        return False
