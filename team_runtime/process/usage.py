"""Which processes are there: in a folder, in a group. Best effort outside Linux, and about the
processes of other users."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

PROC: Final = Path("/proc")
"""Where Linux describes the processes of the machine."""


@dataclass(frozen=True)
class User:
    """A process that uses a folder."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.pid})"


class Stat(NamedTuple):
    """What the system says of a process on one line."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int

    @property
    def is_dead(self) -> bool:
        """Whether only its end is left, for somebody to ask about."""
        return self.state in "ZX"


def is_told() -> bool:
    """Whether the system says what processes there are."""
    return bool(processes())


def users_of(folder: Path, proc: Path = PROC) -> list[User]:
    """The processes whose working directory is `folder` or below it, or that are git at work on it
    from elsewhere; empty where the system does not tell."""
    place = folder.resolve()
    return [
        user_of(entry)
        for entry in processes(proc)
        if _works_below(entry, place) or _is_git_in(entry, place)
    ]


def git_in(folder: Path) -> list[User]:
    """The processes of git that were told to work on the checkout `folder`."""
    place = folder.resolve()
    return [user_of(entry) for entry in processes() if _is_git_in(entry, place)]


def group_lives(group: int) -> bool:
    """Whether anything in the process group can still run. The dead that nobody has collected do
    not count: in a container they may stay for ever."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so when only the dead are left
        return False
    found = processes()
    return not found or any(_runs_in(entry, group) for entry in found)


def in_group(group: int) -> list[User]:
    """The processes of the group that can still run; empty where the system does not tell."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [user_of(entry) for entry in processes() if _runs_in(entry, group)]


def processes(proc: Path = PROC) -> list[Path]:
    """The folders that describe the processes of the machine; empty where there are none."""
    return [proc / str(number) for number in numbers(proc)]


def numbers(proc: Path) -> list[int]:
    """The numbers of the processes of the machine; empty where they are not told."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def user_of(entry: Path) -> User:
    """The process that a folder of `processes` describes."""
    try:
        name = (entry / "comm").read_text(errors="replace").strip()
    except OSError:
        name = "?"
    return User(int(entry.name), name)


def stat_of(entry: Path) -> Stat | None:
    """What is said of the process that a folder of `processes` describes; `None` when it has gone
    or nothing is said to us."""
    try:
        return parse_stat((entry / "stat").read_text(errors="replace"))
    except (OSError, ValueError):
        return None


def parse_stat(text: str) -> Stat:
    """The line of a process. Raises `ValueError` when it is no such line."""
    pid, _, rest = text.partition(" (")
    name, _, fields = rest.rpartition(") ")  # a name can hold anything
    state, parent, group, session = fields.split()[:4]
    return Stat(int(pid), name, state, int(parent), int(group), int(session))


def environment_of(entry: Path) -> list[bytes]:
    """The `NAME=value` with which the process was started; empty where we are not told."""
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _runs_in(entry: Path, group: int) -> bool:
    stat = stat_of(entry)
    return stat is not None and stat.group == group and not stat.is_dead


def _works_below(entry: Path, folder: Path) -> bool:
    try:
        return (entry / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def _is_git_in(entry: Path, folder: Path) -> bool:
    return b"GIT_WORK_TREE=" + os.fsencode(folder) in environment_of(entry)
