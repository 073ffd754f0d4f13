"""A playbook (the careful one, unless `TEAM_TEST_PLAYS` names another) in a process that kills
itself at a chosen place.

`TEAM_TEST_DIE_AT=n`: right before its nth step, which is to start a program, or to open a file for
writing, name, move, link or lock one. `TEAM_TEST_DIE_ON=kind:n`: right after the nth event of a
kind, which is often between a change and the message about it. `TEAM_TEST_STEPS` names a file for
the number of steps of a whole life.
"""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from team_runtime.events import EventLog

reply = importlib.import_module(
    f"tests.support.{os.environ.get('TEAM_TEST_PLAYS', 'careful')}"
).reply

_STEPS = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "fcntl.flock"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_steps = count(1)
_events = count(1)
_last_step = int(os.environ.get("TEAM_TEST_DIE_AT", "0"))
_last_kind, _, _last_event = os.environ.get("TEAM_TEST_DIE_ON", "none:1").partition(":")
_emit = EventLog.emit


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _on_audit(event: str, arguments: tuple[Any, ...]) -> None:
    is_step = event in _STEPS or event == "subprocess.Popen"
    if event == "open" and isinstance(arguments[2], int):
        is_step = bool(arguments[2] & _WRITES)
    if is_step and next(_steps) == _last_step:
        _die()


def _on_event(log: EventLog, kind: str, agent: str | None = None, **fields: Any) -> None:
    _emit(log, kind, agent, **fields)
    if kind == _last_kind and next(_events) == int(_last_event):
        _die()


if place := os.environ.get("TEAM_TEST_STEPS"):
    _place = Path(place)
    atexit.register(lambda: _place.write_text(str(next(_steps) - 1)))
EventLog.emit = _on_event  # type: ignore[method-assign, assignment]
sys.addaudithook(_on_audit)
