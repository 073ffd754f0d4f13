"""Which events are worth a person's attention, and in which words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from team_runtime.notify.base import Notice
from team_runtime.text import one_line

_LENGTH: Final = 300
"""Characters of a text that an agent wrote."""
Record = Mapping[str, Any]


def notice_of(record: Record) -> Notice | None:
    """What a person is told about an event; `None` when it can wait until they look."""
    tell = _NOTICES.get(record["kind"])
    return tell(record) if tell is not None else None


def _agent_state(record: Record) -> Notice | None:
    if record["state"] != "failed":
        return None
    return Notice(
        f"{record['agent']} has failed", f"It held {record['task']}." * bool(record["task"])
    )


def _plan(record: Record) -> Notice:
    where = f" for {record['task']}" if record.get("task") else ""
    title = f"{record['agent']} submitted a plan{where}"
    return Notice(title, f"{record['plan']} revision {record['revision']}")


def _question(record: Record) -> Notice:
    return Notice(f"{record['agent']} asks whether it may", _told(record["subject"]))


def _ended(record: Record) -> Notice | None:
    if record["exit_code"] == 0:
        return None
    session = record["session"]
    return Notice(f"The run ended with exit code {record['exit_code']}", f"Session {session}")


def _firing(record: Record) -> Notice | None:
    if record["state"] != "failed":
        return None
    return Notice(f"{record['schedule']} has failed", _told(record["note"]))


def _job_ended(record: Record) -> Notice | None:
    if record["status"] != "failed":
        return None
    return Notice(
        f"{record['job']} of {record['agent']} failed", f"Exit code {record['exit_code']}"
    )


def _told(value: object) -> str:
    return one_line(str(value or ""), _LENGTH)


_NOTICES: Final[Mapping[str, Callable[[Record], Notice | None]]] = {
    "plan_submitted": _plan,
    "job_ended": _job_ended,
    "approval_asked": _question,
    "task_failed": lambda r: Notice(f"{r['task']} was given up", _told(r.get("note"))),
    "agent_state": _agent_state,
    "schedule_fired": lambda r: Notice(f"It is {r['slot']}", _told(r["prompt"])),
    "schedule_ended": _firing,
    "run_ended": _ended,
}
