"""The sandbox made of Linux namespaces, by the program bubblewrap."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar, Final

from team_runtime.process.base import ATTACHED, CHANNEL, PASSAGE, REPORT, Command
from team_runtime.process.filter import compiled
from team_runtime.process.sandbox import Access, Confinement, rewritten

TEMPORARY: Final = Path("/tmp")
"""A fresh, empty folder for each command."""
_NAMESPACES: Final = (
    "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
    "--die-with-parent", "--new-session", "--cap-drop", "ALL",
)  # fmt: skip
PORT: Final = 3128
"""Where a command finds the proxy; each sandbox has ports of its own."""
_DOOR: Final = Path(__file__).with_name("door.py")
_ADDRESS: Final = f"http://127.0.0.1:{PORT}"
_BY_PROXY: Final = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _ADDRESS),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
}
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
    layer: ClassVar[str] = "bubblewrap"

    @property
    def complete(self) -> bool:
        return _filter() is not None

    @property
    def limits_memory(self) -> bool:
        return True

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
        limits = policy.limits.given()
        if limits:
            argv += ["--info-fd", REPORT, "--block-fd", PASSAGE]
        argv += ["--chdir", os.path.realpath(command.cwd), "--"]
        env = {"TMPDIR": str(TEMPORARY)}
        if policy.proxy is not None:
            argv += [sys.executable, "-I", "-S", "-c", _door(), CHANNEL, str(PORT)]
            env |= _BY_PROXY
        confined = rewritten(command, [*argv, *command.argv], env)
        return replace(confined, attached=filter or b"", served_by=policy.proxy, limits=limits)

    def describe(self) -> str:
        text = "bubblewrap: commands change only their own folder, and see no secrets"
        gaps = []
        if _filter() is None:
            gaps.append("sockets of this machine that lie in no hidden folder can be reached")
        if os.geteuid() == 0:
            gaps.append("the number of processes is not limited for root")
        return "; ".join([text, *gaps])


@cache
def _door() -> str:
    """The program's text: its file need not be in sight inside."""
    return _DOOR.read_text()


@cache
def _filter() -> bytes | None:
    return compiled(platform.machine(), internet=True)


def _mounts(policy: Confinement) -> Iterator[str]:
    """Parents first, so that the deepest path decides."""
    for place, (access, is_folder) in policy.places(TEMPORARY).items():
        if access is Access.WRITE:
            yield from ("--bind", place, place)
        elif access is Access.READ:
            yield from ("--ro-bind", place, place)
        elif place == str(TEMPORARY):
            yield from ("--tmpfs", place)
        elif is_folder:
            yield from ("--perms", "0555", "--tmpfs", place)
        else:
            yield from ("--ro-bind", "/dev/null", place)
