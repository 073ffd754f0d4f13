"""What a person is shown of a run, and that showing it never gets in its way."""

from __future__ import annotations

import io
import os
import re
import threading
from typing import Any

import pytest
from rich.console import Console

from team_runtime.app.listening import Listener
from team_runtime.cli.telling import Mood, Told, tell, tell_entry
from team_runtime.cli.view import LineView, LiveView, make_view
from team_runtime.clock import SystemClock
from tests.support.state import Events

PLAN = {
    "kind": "plan_submitted",
    "agent": "auth",
    "plan": "plan_1",
    "revision": 1,
    "task": "task_1",
    "text": "1. Read\n2. Write \x1b[31mred\n",
}
DECIDED = {**PLAN, "kind": "plan_decided", "decision": "rejected", "by": "lead", "feedback": "No."}
CLAIMED = {"kind": "task_claimed", "agent": "auth", "owner": "auth", "task": "task_1", "epoch": 1}


def event(kind: str, agent: str | None = "auth", **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "agent": agent, **fields}


@pytest.mark.parametrize(
    ("record", "told"),
    [
        (
            PLAN,
            Told(
                "auth", "submitted plan_1 revision 1 for task_1", body="1. Read\n2. Write �[31mred"
            ),
        ),
        (DECIDED, Told("lead", "rejected plan_1 revision 1 of auth", Mood.BAD, "No.")),
        (
            {**DECIDED, "decision": "approved", "feedback": ""},
            Told("lead", "approved plan_1 revision 1 of auth", Mood.GOOD),
        ),
        (CLAIMED, Told("auth", "claimed task_1")),
        (
            event("task_created", None, task="task_1", subject="Do\nit"),
            Told("team", "created task_1: Do it"),
        ),
        (
            event("task_released", task="task_1", note="its agent stopped"),
            Told("auth", "gave back task_1: its agent stopped"),
        ),
        (event("task_failed", task="task_1", note=""), Told("auth", "gave up task_1", Mood.BAD)),
        (
            event("tool_started", tool="bash", input={"command": "make\ttest\x07"}),
            Told("auth", "bash make test�", Mood.QUIET),
        ),
        (
            event("tool_started", tool="list_tasks", input={}),
            Told("auth", "list_tasks", Mood.QUIET),
        ),
        (event("tool_started", tool="submit_plan", input={"plan": "x"}), None),
        (
            event("tool_ended", tool="bash", is_error=True),
            Told("auth", "bash gave an error", Mood.BAD),
        ),
        (event("tool_ended", tool="bash", is_error=False), None),
        (
            event("tool_started", tool="schedule_cron", input={"cron": "@daily", "prompt": "x"}),
            Told("auth", "schedule_cron @daily", Mood.QUIET),
        ),
        (
            event("schedule_fired", None, schedule="cron_1", slot="09:00", prompt="Look\x1b"),
            Told("team", "fires cron_1, due 09:00: Look�"),
        ),
        (
            event("schedule_skipped", None, schedule="cron_1", count=3, note="they were missed"),
            Told("team", "skips 3 of cron_1: they were missed", Mood.BAD),
        ),
        (
            event("schedule_ended", None, schedule="cron_1", state="failed", note="no model"),
            Told("team", "cron_1 failed: no model", Mood.BAD),
        ),
        (event("schedule_ended", None, schedule="cron_1", state="acknowledged", note=None), None),
        (event("agent_state", state="working", task=None), None),
        (event("agent_state", state="waiting for approval", task="task_1"), None),
        (
            event("approval_asked", approval="approval_1", subject="bash make\x1b[2J"),
            Told("auth", "asks (approval_1): bash make�[2J"),
        ),
        (
            event(
                "approval_answered",
                approval="approval_1",
                decision="denied",
                by="person",
                note="use make",
            ),
            Told("person", "denied approval_1 of auth: use make", Mood.BAD),
        ),
        (event("message_sent", to="login", type="message"), Told("auth", "wrote to login")),
        (event("message_sent", to="lead", type="idle"), None),
        (
            event("api_retry", cause="overloaded", attempt=1, delay=0.51),
            Told("auth", "waits 0.5 s to ask the model again: overloaded", Mood.BAD),
        ),
        (
            event(
                "notice", None, text="Traceback (most recent call last):\n  File x\nOSError: no\n"
            ),
            Told("team", "OSError: no", Mood.BAD),
        ),
        (event("run_started", None, session="s", model="m"), None),
    ],
)
def test_each_event_is_one_safe_sentence(record: dict[str, Any], told: Told | None) -> None:
    assert tell(record) == told


def test_what_an_agent_says_is_one_line() -> None:
    said = {"kind": "assistant", "blocks": [{"type": "text", "text": "Two\nlines"}, {"type": "x"}]}
    assert tell_entry("lead", said) == Told("lead", "“Two lines”", Mood.QUIET)
    assert tell_entry("lead", {"kind": "assistant", "blocks": []}) is None
    assert tell_entry("lead", {"kind": "user", "blocks": said["blocks"]}) is None


class Frozen(SystemClock):
    def monotonic(self) -> float:
        return 5.0


def test_lines_show_who_and_the_whole_plan() -> None:
    lines: list[str] = []
    view = LineView(Frozen(), lines.append)
    with view.showing():
        view.on_event(PLAN)
        view.on_entry("lead", {"kind": "assistant", "blocks": [{"type": "text", "text": "Hm."}]})
    assert lines == [
        "   0.0s  auth       submitted plan_1 revision 1 for task_1",
        "         │ 1. Read",
        "         │ 2. Write �[31mred",
        "   0.0s  lead       “Hm.”",
    ]


def test_lines_wait_while_a_person_is_asked() -> None:
    lines: list[str] = []
    view = LineView(Frozen(), lines.append)
    with view.asking():
        view.on_event(CLAIMED)
        assert lines == []
    assert lines == ["   0.0s  auth       claimed task_1"]


def live(width: int = 100) -> tuple[LiveView, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=40, force_terminal=True, color_system=None)
    return LiveView(Frozen(), console), out


def test_the_live_view_shows_plans_agents_and_tasks() -> None:
    view, out = live()
    with view.showing():
        view.on_event(event("task_created", None, task="task_1", subject="Do it"))
        view.on_event(event("agent_state", state="working", task="task_1"))
        view.on_event(event("tool_started", tool="read_file", input={"path": "a.py"}))
        view.on_event(PLAN)
        view.on_event(event("turn_ended", usage={"input_tokens": 1500}))
        with view.asking():
            view.on_event(event("task_completed", task="task_1", owner="auth"))
            shown = out.getvalue()
            assert "0 of 1 tasks done" in shown
            assert "completed task_1" not in shown
    text = out.getvalue()
    for part in ("created task_1: Do it", "│ 1. Read", "read_file a.py", "1.5k tokens", "working"):
        assert part in text
    assert "completed task_1" in text
    assert "\x1b[31mred" not in text


@pytest.mark.parametrize("width", [20, 30, 59])
def test_a_narrow_terminal_is_never_overrun(width: int) -> None:
    view, out = live(width)
    with view.showing():
        view.on_event(event("agent_state", state="working", task="task_1"))
        view.on_event(event("tool_started", tool="bash", input={"command": "python3 " * 30}))
        view.on_event(PLAN)
        view.on_event({**DECIDED, "feedback": "an-unbreakable-word" * 5})
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out.getvalue())
    assert max(map(len, re.split(r"[\r\n]", shown))) <= width


@pytest.mark.parametrize("fault", [BrokenPipeError(), ValueError("closed file")])
def test_a_view_that_cannot_write_is_dropped_and_the_agents_go_on(fault: Exception) -> None:
    calls: list[object] = []
    events = Events()

    def broken(record: object) -> None:
        calls.append(record)
        raise fault

    listener = Listener("on_event", broken, events)
    for _ in range(3):
        listener(CLAIMED)
    assert len(calls) == 1
    assert events.kinds() == ["notice"]
    assert "on_event failed" in events.seen[0][2]["text"]


def test_a_person_is_no_row_of_the_table() -> None:
    view, out = live()
    with view.showing():
        view.on_event(event("agent_state", state="working", task="task_1"))
        view.on_event(event("message_sent", "person", to="auth", type="message"))
    assert "person     wrote to auth" in out.getvalue()
    assert "starting" not in out.getvalue()


def test_many_threads_may_show_at_once() -> None:
    view, out = live()
    with view.showing():
        threads = [
            threading.Thread(target=view.on_event, args=(event("task_claimed", f"a{n}", task="t"),))
            for n in range(16)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert out.getvalue().count("claimed t") == 16


def test_a_terminal_that_is_gone_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "wb", 0) as raw:
        monkeypatch.setattr("sys.stderr", io.TextIOWrapper(raw, write_through=True))
        monkeypatch.setenv("FORCE_COLOR", "1")  # a terminal, for rich
        view = make_view(SystemClock(), color=False, live=True)
        with view.showing():
            os.close(reader)
            with pytest.raises(BrokenPipeError):
                view.on_event(CLAIMED)
