"""The careful playbook in a process that kills itself at its nth step: right before it starts a
program, or opens a file for writing, names, moves, links or locks one.

`TEAM_TEST_DIE_AT` is n. `TEAM_TEST_STEPS` names a file for the number of steps of a whole life.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from tests.support.careful import reply

__all__ = ["reply"]

_STEPS = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "fcntl.flock"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_numbers = count(1)
_die_at = int(os.environ.get("TEAM_TEST_DIE_AT", "0"))


def _on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    is_step = event in _STEPS or event == "subprocess.Popen"
    if event == "open" and isinstance(arguments[2], int):
        is_step = bool(arguments[2] & _WRITES)
    if is_step and next(_numbers) == _die_at:
        os.kill(os.getpid(), signal.SIGKILL)


if place := os.environ.get("TEAM_TEST_STEPS"):
    _place = Path(place)
    atexit.register(lambda: _place.write_text(str(next(_numbers) - 1)))
sys.addaudithook(_on_audit)
