"""Schedules in whole runs: a reminder comes by itself, once, to whom it is for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from team_runtime.clock import SystemClock
from team_runtime.daemons.cron import Cron
from team_runtime.daemons.schedules import Schedule, message_id
from team_runtime.errors import DaemonFailed, ModelFailed
from team_runtime.guard.hook_config import PythonHook
from tests.support.api import Seen
from tests.support.clocks import Skew
from tests.support.scripted_team import (
    call,
    outside,
    run_team,
    spawn,
    until,
)

pytestmark = pytest.mark.slow


def history(root: Path) -> list[list[tuple[str, str | None]]]:
    """State and note of each firing, by schedule."""
    entries = outside(root).schedules.entries()
    return [[(f.state, f.note) for f in entry.history.firings] for entry in entries]


def remind(**given: Any) -> Any:
    return call("schedule_cron", **{"cron": "in 3 minutes", "prompt": "the <meeting>", **given})


def hourly(ago: int) -> str:
    """Every hour, the last time so many minutes ago: a test does not meet a slot by chance."""
    return f"{(SystemClock().now() - timedelta(minutes=ago)).minute} * * * *"


def says(*texts: str) -> Callable[[Seen], Iterator[Any]]:
    return lambda seen: iter(texts)


def due(root: Path, session: str | None, **more: Any) -> Schedule:
    """A one-shot that was made ten minutes ago for five minutes ago."""
    made_at = SystemClock().now() - timedelta(minutes=10)
    given = {"prompt": "look", "zone": "UTC", "created_by": "lead", **more}
    draft = Schedule(id="", when="in 5 minutes", created_at=made_at, session=session, **given)
    return outside(root).schedules.add(draft)


def given_out(root: Path, session: str, agent: str = "lead") -> list[str]:
    """The ids of all messages in a conversation, as often as they are in it."""
    entries = outside(root).sessions.transcript(session, agent).entries()
    return [id for entry in entries for id in entry.get("mail", ())]


def test_remind_me_about_the_meeting_in_three_minutes(root: Path, skew: Skew) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind()]
        yield skew.jump(minutes=3)
        yield "I will remind you."
        yield "The meeting is now."

    ran = run_team(root, {"lead": lead}, timeout=300)

    assert ran.result.ending.text == "The meeting is now."
    assert ran.result.exit_code == 0
    shown = ran.shown("lead")
    assert '<scheduled id="cron_' in shown
    assert ">the &lt;meeting&gt;</scheduled>" in shown
    assert "[one-shot, durable]" in shown
    assert "while `team daemon` runs" in shown
    assert history(root) == [[("acknowledged", None)]]
    (fired,) = ran.of("schedule_fired")
    assert fired["slot"] in shown
    assert ran.of("daemon_state", daemon="cron", state="running")


def test_a_reminder_of_seconds_really_comes_and_within_a_second_of_its_slot(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(cron="in 1 second")]
        yield "I will remind you."
        yield "Now."

    ran = run_team(root, {"lead": lead})

    assert ran.result.ending.text == "Now."
    (fired,) = ran.of("schedule_fired")
    assert fired["ts"] >= fired["slot"][:19], "never early"


def test_a_schedule_wakes_an_idle_teammate(root: Path, skew: Skew) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield [remind(to="anna")]
        yield until("agent_state", "anna", state="idle")
        yield skew.jump(minutes=3)
        yield "Waiting."
        while True:
            yield "Thanks."

    ran = run_team(root, {"lead": lead, "anna": says("Ready.", "The meeting!")}, timeout=300)

    assert ran.result.exit_code == 0
    assert "the &lt;meeting&gt;</scheduled>" in ran.shown("anna")
    assert "The meeting!</team_message>" in ran.shown("lead")
    assert history(root) == [[("acknowledged", None)]]


def test_a_recipient_that_is_gone_fails_the_firing_and_holds_nobody_up(
    root: Path, skew: Skew
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield [remind(to="anna"), call("request_shutdown", teammate="anna")]
        yield until("agent_state", "anna", state="stopped")
        yield skew.jump(minutes=3)
        while True:
            yield "Done."

    ran = run_team(root, {"lead": lead, "anna": says("Ready.")}, timeout=300)

    assert ran.result.exit_code == 0
    assert history(root) == [[("failed", "anna is not there to read it")]]


def test_only_the_lead_can_schedule(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna"), remind(to="bob")]
        yield until("turn_ended", "anna", count=2)
        while True:
            yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [remind()]
        yield "I cannot."

    ran = run_team(root, {"lead": lead, "anna": anna})

    assert "there is no tool 'schedule_cron'" in ran.shown("anna")
    assert "There is no 'bob'; nothing was scheduled. Names: anna, lead." in ran.shown("lead")
    assert history(root) == []


def test_where_nothing_may_be_changed_nothing_is_scheduled(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(), call("list_crons")]
        yield "Refused."

    ran = run_team(root, {"lead": lead}, permission_mode="plan")

    assert "the mode is plan: nothing may be changed" in ran.shown("lead")
    assert "No schedules." in ran.shown("lead")
    assert history(root) == []


def test_what_cannot_be_scheduled_is_an_error_result(root: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"cron": "0 0 30 2 *"}, "there is no such day"),
        ({"cron": "@reboot"}, "use five cron fields"),
        ({"cron": "at 2001-01-01T09:00"}, "that moment has passed"),
        ({"tz": "Mars/Olympus"}, "there is no time zone"),
        ({"expires": "noon"}, "is no ISO time"),
        ({"misfire": "maybe"}, "misfire"),
        ({"prompt": "x" * 20_001}, "has 20001 characters, and at most 20000"),
        ({"unknown": 1}, "unknown"),
    ]

    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(**given) for given, _ in wrong]
        yield "Done."

    ran = run_team(root, {"lead": lead})
    assert [problem for _, problem in wrong if problem not in ran.shown("lead")] == []
    assert history(root) == []


def test_a_cancelled_schedule_neither_fires_nor_keeps_the_run(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(cron="in 2 seconds"), call("list_crons")]
        id = outside(root).schedules.entries()[0].schedule.id
        yield [call("cancel_cron", job_id=id), call("cancel_cron", job_id=id), call("list_crons")]
        yield "Cancelled."

    ran = run_team(root, {"lead": lead})

    assert ran.result.ending.text == "Cancelled."
    shown = ran.shown("lead")
    assert "next 20" in shown
    assert "This session has no schedule" in shown
    assert "No schedules." in shown
    assert ran.of("schedule_fired") == []


def test_a_run_does_not_wait_for_what_is_due_after_its_limit(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(cron=cron) for cron in ("in 2 hours", "0 0 1 1 *", "@yearly")]
        yield "Scheduled."

    ran = run_team(root, {"lead": lead})
    assert (ran.result.exit_code, ran.result.ending.text) == (0, "Scheduled.")
    assert len(outside(root).schedules.entries()) == 3


def test_without_a_limit_a_run_waits_for_one_shots_alone(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        repeating = [remind(cron=hourly(ago=-30)), remind(cron="in 61 minutes")]
        yield [*repeating, remind(cron="in 1 second")]
        yield "Scheduled."
        yield "Reminded."

    ran = run_team(root, {"lead": lead}, timeout=None)
    assert ran.result.ending.text == "Reminded."
    assert any("waiting for cron_" in notice["text"] for notice in ran.of("notice"))


def test_what_needs_a_person_fails_and_the_next_slot_is_unaffected(root: Path, skew: Skew) -> None:
    """claude-code#86412, claude-code#53610: it hung at a question that nobody saw."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(cron=hourly(ago=10))]
        yield skew.jump(hours=1)
        yield "Scheduled."
        yield [call("bash", command="touch forbidden")]
        yield skew.jump(hours=1)
        yield "I may not."
        yield "Fine."

    ran = run_team(root, {"lead": lead}, timeout=2 * 3600)

    (first, second) = history(root)[0][-2:]
    assert first[0] == "failed"
    assert "bash needed a person: " in str(first[1])
    assert second == ("acknowledged", None)
    assert outside(root).schedules.entries()[0].history.failures == 0
    assert ran.of("schedule_ended", state="failed")


def test_a_turn_that_ends_in_an_error_counts_as_a_failure(root: Path, skew: Skew) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind()]
        yield skew.jump(minutes=3)
        yield "Scheduled."
        yield ModelFailed("it declined", "refusal")

    ran = run_team(root, {"lead": lead}, timeout=300)

    assert ran.result.exit_code == 1
    (((state, note),),) = history(root)
    assert state == "failed"
    assert str(note).startswith("lead has failed: The model call failed: it declined.")
    assert outside(root).schedules.entries()[0].history.failures == 1


def test_a_run_that_is_cut_off_in_a_firing_blocks_no_later_one(root: Path, skew: Skew) -> None:
    """openclaw#131149, gascity#2131, goose#11164: what a dead run left behind blocked all later
    firings."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind(cron="0 * * * *")]
        yield skew.jump(hours=1)
        yield "Scheduled."
        yield until("run_ended")

    in_it = until("turn_started", "lead", count=3)
    cut = run_team(root, {"lead": lead}, timeout=0.1, timed_from=in_it, stop_seconds=0.1)
    assert cut.result.exit_code == 3
    assert cut.of("schedule_fired")

    skew.ahead += timedelta(hours=1)
    ran = run_team(root, {"lead": says("I looked.", "I looked.")}, resume=cut.result.session)
    assert ran.result.exit_code == 0
    assert [state for state, _ in history(root)[0][-2:]] == ["failed", "acknowledged"]


def test_a_firing_that_was_recorded_and_never_sent_is_sent_once(root: Path) -> None:
    """The process was killed between the record and the message."""
    session = run_team(root, {"lead": says("Ready.")}).result.session
    schedule = due(root, session)
    outside(root).schedules.decide(schedule.id, SystemClock().now())

    for _ in range(2):
        ran = run_team(root, {"lead": says("I looked.")}, resume=session)
        assert ran.result.ending.text == "I looked."

    slot = outside(root).schedules.get(schedule.id).history.firings[0].slot
    assert given_out(root, session).count(message_id(schedule.id, slot)) == 1
    assert history(root) == [[("acknowledged", None)]]


def test_a_firing_that_was_delivered_and_not_marked_is_not_sent_again(root: Path) -> None:
    """The process was killed between the message and its marks."""
    session = run_team(root, {"lead": says("Ready.")}).result.session
    schedule = due(root, session)
    run_team(root, {"lead": says("I looked.")}, resume=session)
    path = root / ".team/schedules" / f"{schedule.id}.history.json"
    record = json.loads(path.read_text())
    record["firings"][0] |= {"state": "recorded", "deliveredAt": None, "endedAt": None}
    path.write_text(json.dumps(record))

    ran = run_team(root, {"lead": says("No more.")}, resume=session)

    assert ran.turns("lead") == 0
    assert history(root) == [[("acknowledged", None)]]


def test_a_schedule_wakes_the_session_that_made_it_and_no_other(root: Path) -> None:
    """Two sessions share the directory; the firing waits for its own."""
    first = run_team(root, {"lead": says("Ready.")}).result.session
    schedule = due(root, first)
    own = due(root, None)

    other = run_team(root, {"lead": says("Not mine.")})
    assert "<scheduled" not in other.shown("lead")
    assert history(root) == [[], []]

    ran = run_team(root, {"lead": says("Mine.")}, resume=first)
    assert f'<scheduled id="{schedule.id}"' in ran.shown("lead")
    assert own.id not in ran.shown("lead")


def test_mail_of_another_session_that_was_left_unread_is_not_taken_in(root: Path) -> None:
    """It was killed between the message and its delivery; another session goes on first."""
    first = run_team(root, {"lead": says("Ready.")}).result.session
    second = run_team(root, {"lead": says("Ready.")}).result.session
    schedule = due(root, first)
    workspace = outside(root)
    (firing,) = workspace.schedules.decide(schedule.id, SystemClock().now())
    id = message_id(schedule.id, firing.slot)
    attributes = {"schedule": schedule.id, "slot": "x"}
    workspace.bus.send("cron", "lead", "look", "notification", attributes, id, first)

    run_team(root, {"lead": says("Nothing for me.")}, resume=second)
    assert id not in given_out(root, second)
    run_team(root, {"lead": says("I looked.")}, resume=first)
    assert given_out(root, first).count(id) == 1


def test_a_schedule_that_a_session_start_hook_writes_fires_in_the_same_run(root: Path) -> None:
    """claude-code#52550: it was read too early."""

    def at_start(payload: Mapping[str, Any]) -> None:
        due(root, payload["session_id"])

    hook = PythonHook("SessionStart", at_start)
    ran = run_team(root, {"lead": says("Hello.", "I looked.")}, hooks=[hook])
    assert "look</scheduled>" in ran.shown("lead")
    assert history(root) == [[("acknowledged", None)]]


def test_a_deny_hook_holds_in_a_turn_that_a_schedule_began(root: Path) -> None:
    """claude-code#42385, #40580, #43772: there no hook was asked."""

    def hook(payload: Mapping[str, Any]) -> Any:
        if payload["hook_event_name"] == "SessionStart":
            due(root, payload["session_id"])
            return None
        return {"decision": "block", "reason": "not with bash"}

    def lead(seen: Seen) -> Iterator[Any]:
        if "look</scheduled>" not in seen.text:
            yield "Hello."
        assert "look</scheduled>" in seen.text
        yield [call("bash", command="touch made")]
        assert "Refused by a hook: not with bash" in seen.text
        yield "I looked."

    hooks = [PythonHook("SessionStart", hook), PythonHook("PreToolUse", hook, "Bash")]
    mode = "bypassPermissions"
    run_team(root, {"lead": lead}, hooks=hooks, permission_mode=mode, sandbox="off")
    assert not (root / "made").exists()
    assert history(root) == [[("acknowledged", None)]]


def test_what_is_due_at_once_arrives_each_once(root: Path) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    for _ in range(5):
        due(root, session)
    ran = run_team(root, {"lead": says(*["Noted."] * 5)}, resume=session)
    assert ran.turns("lead") <= 5
    assert ran.shown("lead").count("look</scheduled>") == 5


def test_a_run_never_goes_on_without_its_daemon(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(cron: Cron) -> None:
        raise RuntimeError("no clock")

    monkeypatch.setattr(Cron, "tick", broken)

    def lead(seen: Seen) -> Iterator[Any]:
        yield until("daemon_state", state="failed")
        yield [call("list_crons")]
        yield "Too late."

    ran = run_team(root, {"lead": lead})
    assert isinstance(ran.result.ending.error, DaemonFailed)
    assert "no clock" in str(ran.result.ending.error)
    assert ran.result.exit_code == 1
