"""Which processes are there: in a folder, in a group. Best effort outside Linux, and about the
processes of other users."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class User:
    """A process that uses a folder."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} ({self.pid})"


def is_told(proc: Path = Path("/proc")) -> bool:
    """Whether the system says what processes there are."""
    return bool(processes(proc))


def users_of(folder: Path, proc: Path = Path("/proc")) -> list[User]:
    """The processes whose working directory is `folder` or below it, or that are git at work on it
    from elsewhere; empty where the system does not tell."""
    place = folder.resolve()
    return [
        user_of(entry)
        for entry in processes(proc)
        if _works_below(entry, place) or _is_git_in(entry, place)
    ]


def git_in(folder: Path, proc: Path = Path("/proc")) -> list[User]:
    """The processes of git that were told to work on the checkout `folder`."""
    place = folder.resolve()
    return [user_of(entry) for entry in processes(proc) if _is_git_in(entry, place)]


def group_lives(group: int, proc: Path = Path("/proc")) -> bool:
    """Whether anything in the process group can still run. The dead that nobody has collected do
    not count: in a container they may stay for ever."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS says so when only the dead are left
        return False
    found = processes(proc)
    return not found or any(_runs_in(entry, group) for entry in found)


def in_group(group: int, proc: Path = Path("/proc")) -> list[User]:
    """The processes of the group that can still run; empty where the system does not tell."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return []
    return [user_of(entry) for entry in processes(proc) if _runs_in(entry, group)]


def _runs_in(entry: Path, group: int) -> bool:
    try:
        state, _, found = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(found) == group and state not in "ZX"


def processes(proc: Path) -> list[Path]:
    """The folders that describe the processes of the machine; empty where there are none."""
    return [proc / str(number) for number in numbers(proc)]


def numbers(proc: Path) -> list[int]:
    """The numbers of the processes of the machine; empty where they are not told."""
    try:
        return [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return []


def _works_below(entry: Path, folder: Path) -> bool:
    try:
        return (entry / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def _is_git_in(entry: Path, folder: Path) -> bool:
    mark = b"GIT_WORK_TREE=" + os.fsencode(folder)
    try:
        return mark in (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def user_of(entry: Path) -> User:
    """The process that a folder of `processes` describes."""
    try:
        name = (entry / "comm").read_text(errors="replace").strip()
    except OSError:
        name = "?"
    return User(int(entry.name), name)
