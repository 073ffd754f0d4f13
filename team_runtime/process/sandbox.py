"""The sandbox of commands: what a command may reach, and what keeps it to that.

A sandbox rewrites a `Command` so that the program runs confined; the runners know nothing of it.
"""

from __future__ import annotations

import enum
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Final, NamedTuple, Protocol

from team_runtime.process.base import Command, Completed, Runner, Serving

_Real = tuple[str, int]
QUIET_GIT: Final = {"GIT_OPTIONAL_LOCKS": "0"}
"""The git directory is read-only, so git shall not try to refresh its index on the side."""


class Access(enum.IntEnum):
    """What a command may do with a path; the larger is the stricter."""

    WRITE = 0
    READ = 1
    HIDDEN = 2


class Named(NamedTuple):
    """A path that a policy says something about."""

    access: Access
    is_folder: bool


@dataclass(frozen=True)
class Limits:
    """How much of the machine one command may take; `None` is no limit."""

    processes: int | None = 1024
    """Processes and threads at a time."""
    file_bytes: int | None = 8 * 2**30
    """The size of any file it writes."""
    address_space: int | None = None
    """Bytes for each process. Some runtimes reserve far more than they use."""

    def given(self) -> dict[str, int]:
        """Those that there are, by the system's names for them. None is over what this process has
        itself: nobody may raise that."""
        import resource

        found: dict[str, int] = {}
        for name, number, value in (
            ("nproc", resource.RLIMIT_NPROC, self.processes),
            ("fsize", resource.RLIMIT_FSIZE, self.file_bytes),
            ("as", resource.RLIMIT_AS, self.address_space),
        ):
            most = resource.getrlimit(number)[1]
            if value is not None:
                found[name] = value if most == resource.RLIM_INFINITY else min(value, most)
        return found


@dataclass(frozen=True)
class Confinement:
    """What a command may reach.

    The deepest path that covers a file decides about it, and the strictest where one path is named
    twice; what none covers can be read. Paths that do not exist are passed over.
    """

    writable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    """What is protected in a writable folder, and what shows in a hidden one."""
    hidden: tuple[Path, ...] = ()
    network: bool = False
    proxy: Serving | None = None
    """Who lets commands without a network reach some hosts. Bubblewrap alone can do it."""
    limits: Limits = field(default_factory=Limits)
    temporary: Path | None = None
    """A private folder for temporary files, for layers that cannot make one of their own."""

    def places(self, *also_hidden: Path) -> dict[str, Named]:
        """The named paths that change something, without links, parents first."""
        named: dict[str, Named] = {}
        seen: dict[str, _Real] = {"": ("", stat.S_IFDIR)}
        for access, paths in (
            (Access.WRITE, self.writable),
            (Access.READ, self.readable),
            (Access.HIDDEN, (*self.hidden, *also_hidden)),
        ):
            for path in map(str, paths):
                # Most of what is hidden is not there, and this says so for less.
                if access is Access.HIDDEN and not os.access(path, os.F_OK):
                    continue
                place, mode = _real(path, seen)
                if mode:
                    strictest = max(access, named[place].access) if place in named else access
                    named[place] = Named(strictest, stat.S_ISDIR(mode))
        found: dict[str, Named] = {}
        for place in sorted(named, key=lambda path: path.count("/")):
            if named[place].access is not _nearest(place, found):
                found[place] = named[place]
        return found


class Sandbox(Protocol):
    """A layer that confines commands."""

    @property
    def layer(self) -> str:
        """`bubblewrap`, `landlock` or `none`."""
        ...

    @property
    def complete(self) -> bool:
        """Whether it holds everything that a `Confinement` says."""
        ...

    @property
    def limits_memory(self) -> bool:
        """Whether it can set a limit on the memory of processes."""
        ...

    def confine(self, command: Command, policy: Confinement) -> Command:
        """The same command, kept to `policy`. Nothing is started.

        The caller has left every secret out of `command.env`: it can be read inside.
        """
        ...

    def describe(self) -> str:
        """For people: what holds commands, and what does not. One sentence."""
        ...


@dataclass(frozen=True)
class NoSandbox:
    """Commands run with the user's own rights; only their memory is limited, when asked for."""

    limiter: str | None = None
    """The program that sets limits, if there is one."""
    layer: ClassVar[str] = "none"
    complete: ClassVar[bool] = False

    @property
    def limits_memory(self) -> bool:
        return self.limiter is not None

    def confine(self, command: Command, policy: Confinement) -> Command:
        memory = policy.limits.given().get("as")
        if memory is None or self.limiter is None:
            return command
        return replace(command, argv=[self.limiter, f"--as={memory}", "--", *command.argv])

    def describe(self) -> str:
        return "none: commands run with your own rights"


class ConfinedRunner:
    """Runs no program that was not confined first."""

    def __init__(self, runner: Runner, confine: Callable[[Command], Command]) -> None:
        self._runner = runner
        self._confine = confine

    def run(self, command: Command) -> Completed:
        return self._runner.run(self._confine(command))


def rewritten(command: Command, argv: list[str], env: Mapping[str, str]) -> Command:
    """`command` as a layer starts it, with `env` added to its environment."""
    return replace(command, argv=argv, env={**command.env, **QUIET_GIT, **env})


def _nearest(place: str, named: Mapping[str, Named]) -> Access:
    """What holds for `place` because of a folder above it."""
    while place != "/":
        place = place.rpartition("/")[0] or "/"
        if place in named:
            return named[place].access
    return Access.READ


def _real(path: str, seen: dict[str, _Real]) -> _Real:
    """The path without links, and the mode of what is there; 0 where nothing is that is ours to
    see, or a loop of links.

    `seen` remembers what was found: this is done for some eighty paths before every command.
    """
    if path in seen:
        return seen[path]
    folder, slash, name = path.rpartition("/")
    if slash and name not in ("", ".."):
        place = f"{_real(folder, seen)[0].rstrip('/')}/{name}"
        mode = _mode(place)
    else:
        place, mode = path, stat.S_IFLNK
    if stat.S_ISLNK(mode):
        place = os.path.realpath(path)
        mode = _mode(place)
    seen[path] = place, 0 if stat.S_ISLNK(mode) else mode
    return seen[path]


def _mode(path: str) -> int:
    try:
        return os.lstat(path).st_mode
    except OSError:
        return 0
