"""Processes that outlived the run which started them.

Every child of a run carries the run's id in its environment, so that what is left after a
`kill -9` can be told from everything else, however it was started or moved.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from team_runtime.process.usage import PROC, User, environment_of, numbers, stat_of, user_of

MARK: Final = "TEAM_RUN"
"""The variable that names the run."""
COMMAND_MARK: Final = "TEAM_COMMAND"
"""The variable that names one command of an agent."""
_LOOKS: Final = 600
_GIT_LOOKS: Final = 500
_PAUSE: Final = 0.01
"""Seconds between two looks."""


def left_by(
    runs: Collection[str], proc: Path = PROC, variable: str = MARK, after: int = 0
) -> list[User]:
    """The living processes that were started by one of `runs`; empty where the system does not
    tell, as outside Linux. `variable` is the one that names what is meant; only processes with a
    higher number than `after` are looked at."""
    marks = {f"{variable}={run}".encode() for run in runs}
    looked_at = [number for number in numbers(proc) if number > after and number != os.getpid()]
    entries = [proc / str(number) for number in looked_at]
    return [user_of(entry) for entry in entries if _marked(entry, marks)]


def end_left_by(runs: Collection[str], proc: Path = PROC, leave_git: bool = False) -> list[User]:
    """End the processes that dead runs left, and wait until they have ended. Returns them.

    They are killed: whoever would have heeded a polite request has gone, and every one of them may
    still be writing to a worktree. Only git gets a moment to finish, because cut off it leaves
    locks and half a checkout; with `leave_git` it is not waited for.
    """
    ended: dict[int, User] = {}
    for look in range(_LOOKS):  # a dying process may have started another one
        found = [each for each in left_by(runs, proc) if not (leave_git and _is_git(each))]
        if not found:
            break
        for user in found:
            if look >= _GIT_LOOKS or not _is_git(user):
                ended[user.pid] = user
                with contextlib.suppress(ProcessLookupError):
                    os.kill(user.pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return list(ended.values())


def ask_to_end(mark: str) -> bool:
    """Send TERM to everything that the command with this mark has started, but not to the sandbox
    around it, which would kill all of it at once. Returns whether there was anything."""
    found = left_by([mark], variable=COMMAND_MARK)
    for user in found:
        if user.name != "bwrap":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(user.pid, signal.SIGTERM)
    return bool(found)


def end_command(mark: str, after: int = 0) -> list[User]:
    """End what the command with this mark has left, wherever it went. Returns what it was. `after`
    is the number of its own process, if the numbers cannot have begun anew since."""
    ended: dict[int, User] = {}
    for _ in range(_LOOKS):
        found = left_by([mark], variable=COMMAND_MARK, after=after)
        if not found:
            break
        for user in found:
            ended[user.pid] = user
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(user.pid, signal.SIGKILL)
        time.sleep(_PAUSE)
    return list(ended.values())


def _is_git(user: User) -> bool:
    return user.name.startswith("git")


def _marked(entry: Path, marks: set[bytes]) -> bool:
    if marks.isdisjoint(environment_of(entry)):
        return False
    stat = stat_of(entry)
    return stat is not None and not stat.is_dead
