"""What a person is told about an event: one line, and a longer text where there is one."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from team_runtime.text import for_terminal, one_line


class Mood(enum.Enum):
    """What a line means to whoever looks up only now and then."""

    PLAIN = "plain"
    QUIET = "quiet"
    GOOD = "good"
    BAD = "bad"


@dataclass(frozen=True)
class Told:
    """One line about one event. All texts are safe to print."""

    who: str
    text: str
    mood: Mood = Mood.PLAIN
    body: str = ""
    """A text of several lines that belongs to it, such as a plan."""


def tell(record: dict[str, Any]) -> Told | None:
    """What there is to say about an event; `None` for what a person need not see."""
    kind = record["kind"]
    if kind not in _SENTENCES or (kind == "tool_started" and record["tool"] in _TOLD_BY_EVENTS):
        return None
    text = _SENTENCES[kind](record)
    if text is None:
        return None
    who = record["agent"] or record.get("owner") or "team"
    mood, body = _MOODS.get(kind, Mood.PLAIN), ""
    if kind == "plan_submitted":
        body = record["text"]
    elif kind == "plan_decided":
        who, body = record["by"], record["feedback"]
        mood = Mood.GOOD if record["decision"] == "approved" else Mood.BAD
    elif kind == "approval_answered":
        who = record["by"]
        mood = Mood.GOOD if record["decision"] == "allowed" else Mood.BAD
    return Told(for_terminal(who), for_terminal(text), mood, for_terminal(body).strip("\n"))


def tell_entry(agent: str, entry: dict[str, Any]) -> Told | None:
    """What an agent said along with its calls, in one line; `None` when it said nothing."""
    if entry["kind"] != "assistant":
        return None
    texts = [block["text"] for block in entry["blocks"] if block.get("type") == "text"]
    said = one_line(" ".join(texts), 200)
    return Told(for_terminal(agent), f"“{said}”", Mood.QUIET) if said else None


def tool_line(record: dict[str, Any]) -> str:
    """A tool call: its name and the part of its input that says most."""
    values = record.get("input", {})
    names = ("command", "path", "pattern", "task_id", "name", "to", "cron", "job_id")
    key = next((name for name in names if name in values), "")
    return f"{record['tool']} {one_line(str(values.get(key, '')), 90)}".rstrip()


_TOLD_BY_EVENTS: Final = {
    "create_task",
    "claim_task",
    "complete_task",
    "create_worktree",
    "land_worktree",
    "send_message",
    "spawn_teammate",
    "submit_plan",
    "review_plan",
}
"""Tools whose effect is an event of its own."""

_STATES: Final = {
    "stopped": "has stopped",
    "failed": "has failed",
    "waiting for its model": "cannot reach its model; it tries again later",
}
"""The states worth a line: what an agent waits for is told by other events."""


def _plan(record: dict[str, Any]) -> str:
    return f"{record['plan']} revision {record['revision']}"


def _note(record: dict[str, Any]) -> str:
    note = one_line(str(record.get("note") or ""))
    return f": {note}" if note else ""


def _gist(text: str) -> str:
    """The text, or of a trace the line that says what went wrong; the event log has all of it."""
    return text.strip().rpartition("\n")[2] if text.startswith("Traceback") else text


def _job_end(record: dict[str, Any]) -> str:
    if record["reason"]:
        return f"{record['job']} was ended: {one_line(record['reason'])}"
    failed = f" with exit code {record['exit_code']}" if record["status"] == "failed" else ""
    return f"{record['job']} {record['status']}{failed}"


_SENTENCES: Final[dict[str, Callable[[dict[str, Any]], str | None]]] = {
    "agent_spawned": lambda r: f"joined as {one_line(r['role'], 80)}",
    "agent_state": lambda r: _STATES.get(r["state"]),
    "tool_started": tool_line,
    "tool_ended": lambda r: f"{r['tool']} gave an error" if r["is_error"] else None,
    "permission_denied": lambda r: f"was refused {r['tool']}: {one_line(r['reason'])}",
    "network_refused": lambda r: f"a command may not reach {one_line(r['host'], 80)}",
    "task_created": lambda r: f"created {r['task']}: {one_line(r['subject'], 80)}",
    "task_claimed": lambda r: f"claimed {r['task']}",
    "task_completed": lambda r: f"completed {r['task']}",
    "task_released": lambda r: f"gave back {r['task']}{_note(r)}",
    "task_failed": lambda r: f"gave up {r['task']}{_note(r)}",
    "approval_asked": lambda r: f"asks ({r['approval']}): {one_line(r['subject'], 200)}",
    "approval_answered": lambda r: f"{r['decision']} {r['approval']} of {r['agent']}{_note(r)}",
    "plan_submitted": lambda r: (
        f"submitted {_plan(r)}" + (f" for {r['task']}" if r.get("task") else "")
    ),
    "plan_decided": lambda r: f"{r['decision']} {_plan(r)} of {r['agent']}",
    "worktree_created": lambda r: f"made worktree {r['name']} on branch team/{r['name']}",
    "worktree_landed": lambda r: f"landed {r['name']} on {r['target']}",
    "worktree_removed": lambda r: f"removed worktree {r['name']}",
    "message_sent": lambda r: f"wrote to {r['to']}" if r["type"] == "message" else None,
    "job_started": lambda r: (
        f"goes on as {r['job']} in the background: {one_line(r['command'], 80)}"
        if r["moved"]
        else f"started {r['job']} in the background"
    ),
    "job_ended": _job_end,
    "schedule_fired": lambda r: f"fires {r['schedule']}, due {r['slot']}: {r['prompt']}",
    "schedule_skipped": lambda r: f"skips {r['count']} of {r['schedule']}{_note(r)}",
    "schedule_ended": lambda r: (
        f"{r['schedule']} failed{_note(r)}" if r["state"] == "failed" else None
    ),
    "api_retry": lambda r: (
        f"waits {r['delay']:.1f} s to ask the model again: {one_line(r['cause'])}"
    ),
    "process_ended": lambda r: f"ended {r['name']} (pid {r['pid']}), left by a dead run",
    "notice": lambda r: one_line(_gist(str(r["text"])), 300),
    "quarantined": lambda r: (
        f"set a broken file aside: {r['path']} is now {r['where']}: {one_line(r['why'], 200)}"
    ),
}
_MOODS: Final = {
    "tool_started": Mood.QUIET,
    "tool_ended": Mood.BAD,
    "permission_denied": Mood.BAD,
    "task_completed": Mood.GOOD,
    "task_failed": Mood.BAD,
    "worktree_landed": Mood.GOOD,
    "schedule_skipped": Mood.BAD,
    "schedule_ended": Mood.BAD,
    "api_retry": Mood.BAD,
    "notice": Mood.BAD,
    "quarantined": Mood.BAD,
}
