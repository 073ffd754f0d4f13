"""The sandbox made of Linux' Landlock, where user namespaces are switched off.

Landlock only ever adds rights, so a place in a folder is left out by granting its neighbours one by
one. What it cannot hold at all is in `NOT_COVERED`, and in what people are told.
"""

from __future__ import annotations

import marshal
import os
import platform
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Final

from team_runtime.process.base import ATTACHED, Command
from team_runtime.process.filter import compiled
from team_runtime.process.sandbox import Access, Confinement, Limits, Named, rewritten

OLDEST: Final = 3
"""The first version that guards truncation."""
_SCOPES: Final = 6
"""The first version that guards signals and abstract sockets."""
_DEVICE_CALLS: Final = 5

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_DEVICES: Final = 1 << 6 | 1 << 11
_TRUNCATE: Final = 1 << 14
_IOCTL_DEVICE: Final = 1 << 15
_ALL_BUT_DEVICE_CALLS: Final = (1 << 15) - 1
_FILE_RIGHTS: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_SIGNALS_AND_ABSTRACT_SOCKETS: Final = 3

_LAUNCHER: Final = Path(__file__).with_name("launcher.py")
_DEVICES: Final = tuple(
    Path("/dev", name) for name in ("full", "null", "random", "shm", "tty", "urandom", "zero")
)

NOT_COVERED: Final = (
    "the .git file of a worktree",
    "names and modes of files elsewhere",
    "processes that leave their session",
    "the number of processes",
    "the list of processes",
)
"""What a command can still change or see. What it is refused beyond need: new entries directly in a
checkout that protects a folder, /tmp by name, terminals of its own, and any socket when offline."""


@dataclass(frozen=True)
class Landlock:
    """Runs commands that have given up the right to open anything else."""

    version: int
    layer: ClassVar[str] = "landlock"
    complete: ClassVar[bool] = False

    @property
    def limits_memory(self) -> bool:
        return True

    def confine(self, command: Command, policy: Confinement) -> Command:
        temporary = policy.temporary
        if temporary is not None:
            policy = replace(policy, writable=(*policy.writable, temporary))
        argv = [sys.executable, "-I", "-S", str(_LAUNCHER), ATTACHED, *command.argv]
        env = {"TMPDIR": str(temporary)} if temporary is not None else {}
        confined = rewritten(command, argv, env)
        orders = {
            "env": dict(confined.env),  # as it is here: the interpreter adds to its own
            "rules": [(path, rights & self._handled) for path, rights in _rules(policy)],
            "handled": self._handled,
            "scoped": _SIGNALS_AND_ABSTRACT_SOCKETS if self.version >= _SCOPES else 0,
            "limits": _limits(policy.limits),
            "filter": compiled(platform.machine(), policy.network) or b"",
        }
        return replace(confined, attached=marshal.dumps(orders))

    def describe(self) -> str:
        gaps = [*NOT_COVERED]
        if self.version < _SCOPES:
            gaps.append("signals to other processes")
        if compiled(platform.machine(), internet=False) is None:
            gaps.append("the network")
        return (
            "landlock: commands write in their own folder only and cannot read secrets; "
            f"not covered: {', '.join(gaps)}"
        )

    @property
    def _handled(self) -> int:
        device_calls = _IOCTL_DEVICE if self.version >= _DEVICE_CALLS else 0
        return _ALL_BUT_DEVICE_CALLS | device_calls


def version() -> int:
    """The version of Landlock that the kernel offers; 0 for none."""
    if sys.platform != "linux":
        return 0
    from team_runtime.process.launcher import landlock_version

    return landlock_version()


def _limits(limits: Limits) -> dict[str, int]:
    """Processes are not among them: outside a user namespace the kernel counts all of the
    user's."""
    return {name: value for name, value in limits.given().items() if name != "nproc"}


def _rules(policy: Confinement) -> Iterator[tuple[str, int]]:
    """What is granted: rights hold for everything below a path."""
    hidden, writable = (*policy.hidden, Path("/dev")), (*policy.writable, *_DEVICES)
    named = replace(policy, hidden=hidden, writable=writable).places()
    named = {path: place for path, place in named.items() if not _is_pointer(path, named)}
    yield from _granted("/", Named(Access.READ, is_folder=True), named)


def _is_pointer(path: str, named: Mapping[str, Named]) -> bool:
    """Whether it is the `.git` file of a worktree. To leave that out would keep the command from
    making files beside it, and the runtime never asks it where the repository is."""
    folder, _, name = path.rpartition("/")
    above = named.get(folder)
    return (
        named[path] == (Access.READ, False)
        and name == ".git"
        and above is not None
        and above.access is Access.WRITE
    )


def _granted(path: str, place: Named, named: Mapping[str, Named]) -> Iterator[tuple[str, int]]:
    inside = f"{path.rstrip('/')}/"
    below = {other: named[other] for other in named if other.startswith(inside) and other != path}
    access = place.access
    if access is Access.HIDDEN or all(other.access <= access for other in below.values()):
        if access is not Access.HIDDEN:
            yield path, _rights(place)
        for other in below:
            if not any(other.startswith(f"{higher}/") for higher in below):
                yield from _granted(other, below[other], below)
        return
    yield path, _READ_DIR
    for child, is_folder in _entries(path):
        yield from _granted(child, below.get(child, Named(access, is_folder)), below)


def _rights(place: Named) -> int:
    rights = _READ
    if place.access is Access.WRITE:
        rights = (_ALL_BUT_DEVICE_CALLS | _IOCTL_DEVICE) & ~_MAKE_DEVICES
    return rights if place.is_folder else rights & _FILE_RIGHTS


def _entries(folder: str) -> list[tuple[str, bool]]:
    """The paths in it, and which are folders. Links are left out: where they lead is decided
    there."""
    try:
        with os.scandir(folder) as entries:
            return [
                (entry.path, entry.is_dir(follow_symlinks=False))
                for entry in entries
                if not entry.is_symlink()
            ]
    except OSError:
        return []
