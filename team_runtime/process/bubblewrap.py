"""The sandbox made of Linux namespaces, by the program bubblewrap."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from team_runtime.process.base import ATTACHED, Command
from team_runtime.process.filter import compiled
from team_runtime.process.sandbox import Access, Confinement, Limits, rewritten

TEMPORARY: Final = Path("/tmp")
"""A fresh, empty folder for each command."""
_NAMESPACES: Final = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
    "--die-with-parent", "--new-session", "--cap-drop", "ALL",
)  # fmt: skip
_ROOT: Final = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")


@dataclass(frozen=True)
class Bubblewrap:
    """Runs commands in namespaces of their own, behind a system-call filter.

    A command that ends or is ended takes with it everything it started, and so does the end of the
    runtime.
    """

    program: str = "/usr/bin/bwrap"
    forbids_namespaces: bool = True
    """Whether this bubblewrap can forbid further namespaces inside."""
    limiter: str | None = "/usr/bin/prlimit"
    """The program that sets limits, if there is one."""
    layer: str = "bubblewrap"

    @property
    def complete(self) -> bool:
        return self.limiter is not None and _filter() is not None

    @property
    def limits_memory(self) -> bool:
        return self.limiter is not None

    def confine(self, command: Command, policy: Confinement) -> Command:
        argv = [self.program, *_NAMESPACES]
        if self.forbids_namespaces:
            argv.append("--disable-userns")
        if not policy.network:
            argv.append("--unshare-net")
        argv += [*_ROOT, *_mounts(policy)]
        filter = _filter()
        if filter is not None:
            argv += ["--seccomp", ATTACHED]
        argv += ["--chdir", str(command.cwd.resolve()), "--"]
        argv += [*self._limited(policy.limits), *command.argv]
        confined = rewritten(command, argv, {"TMPDIR": str(TEMPORARY)})
        return replace(confined, attached=filter or b"")

    def describe(self) -> str:
        text = "bubblewrap: commands change only their own folder, and see no secrets"
        gaps = []
        if _filter() is None:
            gaps.append("sockets of this machine that lie in no hidden folder can be reached")
        if self.limiter is None:
            gaps.append("nothing limits processes and file sizes, because prlimit is missing")
        elif os.geteuid() == 0:
            gaps.append("the number of processes is not limited for root")
        return "; ".join([text, *gaps])

    def _limited(self, limits: Limits) -> list[str]:
        """Set inside, where the kernel counts the processes of this command alone."""
        given = [f"--{name}={value}" for name, value in limits.given().items()]
        return [self.limiter, *given, "--"] if self.limiter and given else []


@cache
def _filter() -> bytes | None:
    return compiled(platform.machine(), internet=True)


def _mounts(policy: Confinement) -> Iterator[str]:
    """Parents first, so that the deepest path decides."""
    hidden = (*policy.hidden, TEMPORARY)
    for path, access in replace(policy, hidden=hidden).places().items():
        place = str(path)
        if access is Access.WRITE:
            yield from ("--bind", place, place)
        elif access is Access.READ:
            yield from ("--ro-bind", place, place)
        elif path == TEMPORARY:
            yield from ("--tmpfs", place)
        elif path.is_dir():
            yield from ("--perms", "0555", "--tmpfs", place)
        else:
            yield from ("--ro-bind", "/dev/null", place)
