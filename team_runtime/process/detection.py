"""Which sandbox this machine can have, found out by trying it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final, Literal

from team_runtime.errors import SandboxMissing, TeamError
from team_runtime.process.base import Command
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.landlock import OLDEST, Landlock, version
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import Confinement, NoSandbox, Sandbox
from team_runtime.text import decode, one_line

Setting = Literal["auto", "required", "off"]
REQUIRED: Final = "required"
OFF: Final = "off"

_USUAL: Final = "/usr/bin/bwrap"
"""Tried first: some systems let only the program at this path make user namespaces."""
_SECONDS: Final = 10.0
_POLICY: Final = Confinement(hidden=(Path("/etc"),))


def detect(setting: Setting, environment: Mapping[str, str]) -> Sandbox:
    """The best sandbox that works here, tried once for each `PATH` in a process's life.

    `environment` is that of the children. `required` raises `SandboxMissing` when only the user's
    own rights are left, `auto` then runs commands with them, `off` always does.
    """
    if setting == OFF:
        return NoSandbox(_limiter(environment.get("PATH", "")))
    found, why_not = _best(environment.get("PATH", os.defpath))
    if setting == REQUIRED and isinstance(found, NoSandbox):
        raise SandboxMissing(why_not, remedy())
    return found


def remedy() -> str:
    """What to install or to switch on for a sandbox."""
    if sys.platform != "linux":
        return "There is none for this system yet."
    return (
        "Install bubblewrap (`apt install bubblewrap`, `dnf install bubblewrap`), and allow user "
        "namespaces if your system forbids them."
    )


@cache
def _best(path: str) -> tuple[Sandbox, str]:
    """The sandbox to use, and why no other one."""
    program = _USUAL if os.access(_USUAL, os.X_OK) else shutil.which("bwrap", path=path)
    if program is None:
        cause = "bubblewrap is not installed"
    else:
        for forbids in (True, False):
            bubblewrap = Bubblewrap(program, forbids)
            cause = _fault(bubblewrap, path)
            if not cause:
                return bubblewrap, ""
    found = version()
    if found >= OLDEST:
        landlock = Landlock(found)
        if not _fault(landlock, path):
            return landlock, cause
    return NoSandbox(_limiter(path)), cause


def _limiter(path: str) -> str | None:
    return shutil.which("prlimit", path=path)


def _fault(sandbox: Sandbox, path: str) -> str:
    """Why the sandbox does not work here; empty when it does."""
    plain = Command(["true"], Path("/"), {"PATH": path}, _SECONDS, merge=True)
    try:
        ended = BlockingRunner().run(sandbox.confine(plain, _POLICY))
    except TeamError as error:
        return str(error)
    if ended.status == 0:
        return ""
    return one_line(decode(ended.stdout).strip(), 300) or f"it ended with status {ended.status}"
