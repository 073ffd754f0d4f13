"""The process of a run as the parent of everything that was ever started for it.

Whatever daemonises, leaves its session or loses its parent becomes a child of the run, so that it
can neither hide whose it is (see `lineage.py`) nor outlive the run. Linux only; elsewhere a run has
only its name.

For a process that is nothing but a run: one that starts programs of its own in new sessions would
see them taken for leftovers.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from team_runtime.process.control import CHILD_SUBREAPER, THREAD_NAME, control
from team_runtime.process.lineage import NAME
from team_runtime.process.usage import processes, stat_of

_PAUSE: Final = 1.0
"""Seconds between two looks for the dead."""
_CHILDLESS: Final = 60.0
"""The same while there is no child, and so nobody who could leave one of his to us."""
_PATIENCE: Final = 3
"""Looks after which nobody else is going to ask how it ended."""
_ROUNDS: Final = 500
_MOMENT: Final = 0.01


@contextmanager
def adopting() -> Iterator[None]:
    """This process is a run until the context ends, and then ends what was left to it."""
    with _named(NAME.encode()), _adopting():
        yield


@contextmanager
def _named(name: bytes) -> Iterator[None]:
    """What this process starts later is not taken for a part of the run."""
    before = b""
    with contextlib.suppress(OSError):
        before = Path("/proc/thread-self/comm").read_bytes().rstrip(b"\n")
    control(THREAD_NAME, name)
    try:
        yield
    finally:
        if before:
            control(THREAD_NAME, before)


@contextmanager
def _adopting() -> Iterator[None]:
    if not control(CHILD_SUBREAPER, 1):
        yield
        return
    over = threading.Event()
    collector = threading.Thread(target=_collect, args=[over], name="collector", daemon=True)
    collector.start()
    try:
        yield
    finally:
        over.set()
        collector.join()
        end_adopted()
        control(CHILD_SUBREAPER, 0)


def end_adopted(leave_git: bool = False) -> None:
    """Kill what was left to this process, until nothing more comes. With `leave_git` git may
    finish: cut off it leaves locks and half a checkout."""
    for _ in range(_ROUNDS):
        left = _adopted(leave_git=leave_git)
        if not left:
            return
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            _reap(pid)
        threading.Event().wait(_MOMENT)


def _collect(over: threading.Event) -> None:
    """Take note of the ends of adopted children, which nobody else waits for.

    By number only, and late: whoever started a child itself learns how it ended first.
    """
    seen: Counter[int] = Counter()
    pause = _PAUSE
    while not over.wait(pause):
        died = _somebody_died()
        pause = _CHILDLESS if died is None else _PAUSE
        dead = _adopted("Z") if died else []
        seen = Counter({pid: seen[pid] + 1 for pid in dead})
        for pid, looks in seen.items():
            if looks >= _PATIENCE:
                _reap(pid)


def _somebody_died() -> bool | None:
    """Whether any child waits to be asked, `None` if there are none; a look that takes nothing
    away."""
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return found is not None


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _adopted(states: str = "", leave_git: bool = False) -> list[int]:
    """The children in sessions of their own, in one of `states` if any are given."""
    own, session = os.getpid(), os.getsid(0)
    return [
        stat.pid
        for stat in filter(None, map(stat_of, processes()))
        if stat.parent == own and stat.session != session
        if not states or stat.state in states
        if not (leave_git and stat.name.startswith("git"))
    ]
