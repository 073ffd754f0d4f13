"""Whether a run of a team started this process, however the way from there is hidden.

An agent's command can clear its environment, leave its session and let its parents die. It cannot
choose its ancestors: a run adopts what its children leave behind (see `adoption.py`), so the chain
of parents ends at the run for as long as that lives. Any one of three facts about any ancestor is
enough: it is called `NAME`, it is known as a live run, or its environment carries a run's mark.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from team_runtime.errors import TeamError
from team_runtime.process.base import Command
from team_runtime.process.control import describes_processes
from team_runtime.process.orphans import MARK
from team_runtime.process.run import BlockingRunner
from team_runtime.process.usage import PROC, environment_of, parse_stat, processes
from team_runtime.store.presence import pid_namespace
from team_runtime.text import decode

NAME: Final = "team run"
"""What the system calls the process of a run. Only a process itself can change that."""
AGENT: Final = "TEAM_AGENT"
"""The variable that names the agent whose command it is."""
_STEPS: Final = 1000
"""Processes that are looked at. Whoever needs more of them hides something."""


class Untold(Exception):
    """The system does not say where this process comes from."""


@dataclass(frozen=True)
class Process:
    """One process of the chain."""

    pid: int
    parent: int
    name: str


Look: TypeAlias = Callable[[int], Process | None]
"""Finds a process; `None` when there is none that we may see."""


def agent_above(
    environ: Mapping[str, str], runs: Collection[int] = (), proc: Path = PROC
) -> str | None:
    """Who started this process, when it was an agent or a run: a text that names it. `None` when it
    was a person. `runs` are the processes of runs that are known to live.

    Raises `Untold`, which is no reason to believe in a person.
    """
    if agent := environ.get(AGENT):
        return f"the agent {agent}"
    if MARK in environ:
        return f"the run {environ[MARK]}"
    for process in _ancestors(_looking(proc)):
        if process.name == NAME or process.pid in runs:
            return f"a run of a team (process {process.pid})"
        if _is_marked(process.pid, proc):
            return f"an agent's command (process {process.pid})"
    return None


def is_in_sight(namespace: str) -> bool:
    """Whether a process of this namespace can be seen from here. A command that has made a
    namespace of its own sees nobody of the one that it came from."""
    return any(pid_namespace(int(entry.name)) == namespace for entry in processes())


def _ancestors(look: Look) -> Iterator[Process]:
    """The parents of this process, the nearest first. Raises `Untold`."""
    child = look(os.getpid())
    if child is None:
        raise Untold
    for _ in range(_STEPS):
        if child.parent == 0:
            return
        parent = look(child.parent)
        if parent is not None:
            yield parent
            child = parent
            continue
        again = look(child.pid)
        if again is not None and again.parent == child.parent:
            _check_foreign(child.parent)
            return
        # A parent died while we looked, and somebody adopted its child: from the beginning.
        child = again or look(os.getpid())
        if child is None:
            break
    raise Untold


def _check_foreign(pid: int) -> None:
    """Some systems show nobody the processes of others. One of our own is out of sight only when
    something was put over it. Raises `Untold` then."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return
    except ProcessLookupError:
        raise Untold from None
    raise Untold


def _looking(proc: Path) -> Look:
    if not (proc / "self" / "stat").exists():
        return _listed().get
    if proc == PROC and not describes_processes(proc):
        raise Untold
    return lambda pid: _described(proc, pid)


def _described(proc: Path, pid: int) -> Process | None:
    # Asked about ourselves, it also answers where the view of processes is not our own.
    place = "self" if pid == os.getpid() else str(pid)
    try:
        with (proc / place / "stat").open(errors="replace") as file:
            is_other = os.fstat(file.fileno()).st_dev != proc.stat().st_dev
            text = file.read()
    except OSError:
        return None
    try:
        stat = parse_stat(text)
    except ValueError:
        raise Untold from None
    if is_other or place not in ("self", str(stat.pid)):
        raise Untold  # something was put over it
    return Process(stat.pid, stat.parent, stat.name)


def _listed() -> dict[int, Process]:
    """All processes, from the program that lists them; empty when it cannot. Those that die
    meanwhile stay in the list, so a chain that is in it is whole."""
    command = Command(["ps", "-A", "-o", "pid=,ppid=,comm="], Path("/"), {"PATH": os.defpath}, 10)
    try:
        done = BlockingRunner().run(command)
    except TeamError:
        return {}
    rows = [line.split(None, 2) for line in decode(done.stdout).splitlines()]
    return {int(row[0]): Process(int(row[0]), int(row[1]), row[2]) for row in rows if len(row) == 3}


def _is_marked(pid: int, proc: Path) -> bool:
    marks = (f"{MARK}=".encode(), f"{AGENT}=".encode())
    return any(entry.startswith(marks) for entry in environment_of(proc / str(pid)))
