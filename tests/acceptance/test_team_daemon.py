"""`team daemon`: schedules fire with no terminal open, each in its session, whatever is killed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app import headless as headless_module
from team_runtime.app.headless import Headless, Serving
from team_runtime.app.preflight import check_models
from team_runtime.clock import SystemClock
from team_runtime.config import Settings
from team_runtime.daemons.schedules import Schedule
from team_runtime.errors import DaemonRunning, InputError, StoreFailed, TeamError
from team_runtime.store.presence import hold_daemon, hold_team
from tests.support import reminded
from tests.support.api import Seen, team_environment
from tests.support.cli import team_here
from tests.support.kills import DYING, PROJECT
from tests.support.scripted_team import (
    MODEL,
    Playing,
    Recorder,
    Script,
    bound_task,
    call,
    outside,
    run_team,
    spawn,
)

PLAYBOOK = Path(reminded.__file__)


def says(*texts: str) -> Script:
    return lambda seen: iter(texts)


def daemon(
    root: Path, lead: Script, session: str | None = None, model: str = MODEL, **others: Script
) -> tuple[Headless, Playing]:
    playing = Playing({"lead": lead, **others}, Recorder())

    def settings(record: Mapping[str, Any]) -> Settings:
        return Settings(model=model, timeout=25, approvals="wait", plan_review="person")

    parts = Serving(
        outside(root),
        team_environment(root.parent),
        settings,
        session,
        playing.recorder.record,
        {MODEL: playing},
    )
    return Headless(parts), playing


def due(root: Path, session: str | None = None, when: str = "in 5 minutes", **more: Any) -> str:
    """The id of a schedule that was made ten minutes ago."""
    made_at = SystemClock().now() - timedelta(minutes=10)
    given = {"prompt": "look", "zone": "UTC", "created_by": "person", **more}
    draft = Schedule(id="", when=when, created_at=made_at, session=session, **given)
    return outside(root).schedules.add(draft).id


def firings(root: Path, id: str) -> list[tuple[str, str | None]]:
    return [(f.state, f.session) for f in outside(root).schedules.get(id).history.firings]


def sessions(root: Path) -> list[str]:
    return sorted(record["id"] for record in outside(root).sessions.list())


def test_a_schedule_of_nobody_begins_a_session_of_its_own(root: Path) -> None:
    first, second = due(root), due(root)
    headless, playing = daemon(root, says("I looked.", "I looked."))
    for _ in range(3):
        headless.tick()

    assert len(sessions(root)) == 2
    assert len(playing.requests) == 2
    for id in (first, second):
        ((state, session),) = firings(root, id)
        assert state == "acknowledged"
        assert outside(root).sessions.load(str(session))["schedule"] == id


def test_it_wakes_the_session_that_made_the_schedule_where_it_was(root: Path) -> None:
    ran = run_team(root, {"lead": says("Ready.")})
    id = due(root, ran.result.session)
    headless, playing = daemon(root, says("I looked."))
    headless.tick()

    assert firings(root, id) == [("acknowledged", ran.result.session)]
    (request,) = playing.requests
    assert b"Do it." in request.messages
    assert b"look</scheduled>" in request.messages
    assert sessions(root) == [ran.result.session]


def test_schedules_without_a_session_wake_the_one_that_the_daemon_names(root: Path) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    id = due(root)
    headless, _ = daemon(root, says("I looked."), session)
    headless.tick()
    assert firings(root, id) == [("acknowledged", session)]


def test_a_schedule_that_a_fast_clock_silenced_says_so(root: Path) -> None:
    id = due(root, when="0 9 * * *")
    assert "silent" not in team_here(root, "cron", "list").out
    outside(root).schedules.decide(id, SystemClock().now() + timedelta(days=3))
    assert "silent until then: a clock was ahead)" in team_here(root, "cron", "list").out


def test_what_belongs_to_a_run_alone_is_not_fired(root: Path) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    id = due(root, session, durable=False)
    headless, playing = daemon(root, says())
    headless.tick()
    assert firings(root, id) == []
    assert playing.requests == []


def test_while_a_team_is_running_it_waits(root: Path) -> None:
    id = due(root)
    headless, _ = daemon(root, says("I looked."))
    with hold_team(outside(root).store, "s-20260601-120000-4f2a"):
        headless.tick()
        assert firings(root, id) == []
    headless.tick()
    assert firings(root, id)[0][0] == "acknowledged"


def test_what_was_recorded_before_a_kill_is_delivered_once(root: Path) -> None:
    """Killed between the record and the session, and between the session and its run."""
    id = due(root)
    outside(root).schedules.decide(id, SystemClock().now())
    assert firings(root, id) == [("recorded", None)]
    headless, playing = daemon(root, says("I looked."))
    headless.tick()
    headless.tick()
    assert firings(root, id)[0][0] == "acknowledged"
    assert len(playing.requests) == 1


def test_firings_of_two_sessions_are_each_delivered_to_their_own(root: Path) -> None:
    """As when a daemon was killed between two of them, and named another session afterwards."""
    old = run_team(root, {"lead": says("Ready.")}).result.session
    new = run_team(root, {"lead": says("Ready.")}).result.session
    id = due(root, when="*/2 * * * *", misfire="all")
    schedules = outside(root).schedules
    first, *others = schedules.decide(id, SystemClock().now())
    schedules.assign(id, first.slot, old)
    for other in others:
        schedules.assign(id, other.slot, new)
    headless, _ = daemon(root, says(*["I looked."] * 9))
    headless.tick()
    headless.tick()
    expected = [("acknowledged", old), *[("acknowledged", new)] * len(others)]
    assert firings(root, id)[: len(expected)] == expected


def test_what_cannot_be_begun_has_failed_and_is_not_tried_for_ever(root: Path) -> None:
    id = due(root, "s-20260601-120000-4f2a", "* * * * *")
    headless, _ = daemon(root, says())
    for _ in range(3):
        headless.tick()
    entry = outside(root).schedules.get(id)
    failed = [f for f in entry.history.firings if f.state == "failed"]
    assert [f.note for f in failed] == [
        "There is no session 's-20260601-120000-4f2a'. There are none yet."
    ]
    assert entry.history.failures == 1


def test_a_call_that_needs_a_person_is_refused_recorded_and_blocks_nothing(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="touch forbidden")]
        yield "I may not."

    id = due(root)
    headless, _ = daemon(root, lead)
    headless.tick()
    (firing,) = outside(root).schedules.get(id).history.firings
    assert firing.state == "failed"
    assert "bash needed a person" in str(firing.note)
    assert outside(root).schedules.get(id).history.failures == 0
    assert not (root / "forbidden").exists()


def test_a_plan_that_needs_a_person_stays_pending_and_holds_nobody_up(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1", require_plan=True)]
        yield from ("I wait for the plan.",) * 5

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="1. Look")]
        yield "It waits."

    first, second = due(root), due(root)
    headless, _ = daemon(root, lead, anna=anna)
    for _ in range(3):
        headless.tick()
    assert [state for id in (first, second) for state, _ in firings(root, id)] == [
        "acknowledged",
        "acknowledged",
    ]
    (plan,) = outside(root).plans.pending()
    outside(root).planning("person").decide_as_person(plan.id, 1, True, "")
    task = outside(root).board.get("task_1")
    assert (task.status, task.attempts[-1].outcome) == ("pending", "released")


def test_a_daemon_that_is_to_wait_for_a_person_is_refused(root: Path) -> None:
    refused = team_here(root, "daemon", "--approvals", "wait")
    assert refused.code == 2
    assert "a daemon asks nobody" in refused.err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "there is no API key; set ANTHROPIC_API_KEY"),
        (["--model", "claude-x"], "claude-x cannot be asked: there is no API key"),
        (["--model", "acme:x"], "unknown model provider 'acme'"),
        (["--model", "scripted:nowhere.yaml"], "nowhere.yaml"),
        (["--model", "scripted:"], "names no model"),
        (["--allow", "Nothing(x)"], "Nothing"),
    ],
)
def test_a_daemon_that_could_run_nothing_does_not_start(
    root: Path, options: list[str], problem: str
) -> None:
    outside(root).sessions.create({"model": "scripted:gone.yaml"})
    refused = team_here(root, "daemon", *options)
    assert (refused.code, refused.out) == (2, "")
    assert problem in refused.err
    assert "waiting for schedules" not in refused.err


def test_one_model_that_can_be_asked_is_enough_to_serve(root: Path) -> None:
    """A session brings its own, and a command-line schedule the one of the settings."""
    check_models(["claude-x", f"scripted:{PLAYBOOK}"], {})
    check_models(["acme:x", "claude-x"], {"ANTHROPIC_API_KEY": "k"})
    with pytest.raises(InputError, match="acme"):
        check_models(["acme:x", "claude-x"], {})


def test_a_second_daemon_is_refused_by_name(root: Path) -> None:
    headless, _ = daemon(root, says())
    with hold_daemon(outside(root).store), pytest.raises(DaemonRunning, match=r"pid \d+"):
        headless.serve()


class Real:
    """A daemon of its own, as a service manager starts it."""

    def __init__(self, root: Path, playbook: Path = PLAYBOOK, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "team_runtime", "daemon", "--model", f"scripted:{playbook}"],
            cwd=root,
            env={**team_environment(root.parent), "PYTHONPATH": str(PROJECT), **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Real:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left behind, whatever became of the test."""
        self.process.kill()
        self.process.communicate()

    def until(self, text: str) -> None:
        """Read its log up to a line that holds `text`."""
        assert self.process.stderr is not None
        seen = []
        for line in self.process.stderr:
            seen.append(line)
            if text in line:
                return
        raise AssertionError("".join(seen))

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        self.process.communicate(timeout=40)
        return self.process.returncode


def test_reminders_fire_with_no_terminal_open_also_after_a_kill(root: Path) -> None:
    """From the command line to the conversation, through a `kill -9` and a clean end."""
    with Real(root) as first:
        first.until("waiting for schedules")
        refused = team_here(root, "daemon")
        assert refused.code == 2
        assert f"pid {first.process.pid}" in refused.err
        assert first.end(signal.SIGKILL) == -signal.SIGKILL

    id = json.loads(team_here(root, "cron", "add", "in 1 second", "stretch", "--json").out)["id"]
    with Real(root) as second:
        second.until("state=acknowledged\n")
        second.until("says: ")  # what its agent has to say is not for the transcript alone
        second.process.send_signal(signal.SIGHUP)  # its terminal is closed: it goes on
        shown = team_here(root, "status").out
        assert f"team daemon (pid {second.process.pid}) waits for schedules" in shown
        assert second.end(signal.SIGTERM) == 0
    assert "waits for schedules" not in team_here(root, "status").out
    (firing,) = team_here(root, "cron", "history", id, "--json").json
    entries = outside(root).sessions.transcript(firing["session"], "lead").entries()
    assert sum(len(entry.get("mail", ())) for entry in entries) == 1


def no_room(*_: object) -> Any:
    raise StoreFailed("here", "written", "No space left on device")


def test_a_fault_between_two_runs_is_told_and_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while the disk is full: the reminder comes once there is room."""
    monkeypatch.setattr(headless_module, "left_of_second", lambda now: 0.01)
    id = due(root)
    headless, _ = daemon(root, says("I looked."))
    schedules, told = headless.parts.workspace.schedules, list[TeamError]()
    rightly, tries = schedules.decide, iter([no_room, no_room, no_room])
    monkeypatch.setattr(schedules, "decide", lambda *given: next(tries, rightly)(*given))

    def on_event(event: Mapping[str, Any]) -> None:
        if event["kind"] == "run_ended":
            headless.stop()

    headless.parts = replace(headless.parts, on_fault=told.append, on_event=on_event)
    headless.serve()
    assert ["No space left" in str(error) for error in told] == [True]
    assert firings(root, id)[0][0] == "acknowledged"


def test_what_goes_wrong_again_and_again_ends_the_daemon(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(headless_module, "left_of_second", lambda now: 0.0)
    headless, _ = daemon(root, says())
    monkeypatch.setattr(headless.parts.workspace.schedules, "changed_at", no_room)
    with pytest.raises(StoreFailed):
        headless.serve()


def test_a_daemon_whose_workspace_is_moved_away_ends_and_says_why(root: Path) -> None:
    """It would wait for ever for slots of a folder that is not there."""
    due(root, when="at 2099-12-01T09:00")
    with Real(root) as process:
        process.until("waiting for schedules")
        root.rename(root.with_name("moved"))
        process.until("was moved or removed, so the team daemon has ended")
        assert process.process.wait(20) == 2


@pytest.mark.slow
def test_a_daemon_that_rests_hears_of_a_schedule_and_of_the_next(root: Path) -> None:
    with Real(root) as process:
        process.until("waiting for schedules")
        for _ in range(2):
            added = team_here(root, "cron", "add", "in 1 second", "stretch", "--json").json
            process.until("state=acknowledged")
            assert [state for state, _ in firings(root, added["id"])] == ["acknowledged"]
        assert process.end(signal.SIGTERM) == 0


def test_a_signal_is_heard_right_after_a_run_that_was_woken(root: Path) -> None:
    """The run had an ear of its own for signals; the daemon's must be back as the run is over."""
    due(root)
    headless, _ = daemon(root, says("I looked."))
    before = signal.signal(signal.SIGTERM, lambda *_: headless.stop())
    try:
        ours = signal.getsignal(signal.SIGTERM)
        headless.tick()
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)


def finish(root: Path, ids: list[str]) -> None:
    """A daemon goes on until all is over; each has fired once and was delivered once."""
    with Real(root) as last:
        last.until("waiting for schedules")
        while not all(outside(root).schedules.get(id).is_over for id in ids):
            last.until("run_ended")
        assert last.end(signal.SIGTERM) == 0
    for id in ids:
        ((state, session),) = firings(root, id)
        assert state == "acknowledged"
        entries = outside(root).sessions.transcript(str(session), "lead").entries()
        mail = [each for entry in entries for each in entry.get("mail", ())]
        assert len([each for each in mail if id in each]) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        "schedule_fired",
        "run_started",
        "message_sent",
        "message_delivered",
        "turn_started",
        "turn_ended",
        "schedule_ended",
        "run_ended",
    ],
)
def test_killed_right_after_each_step_of_a_firing(root: Path, kind: str) -> None:
    """From the record of the slot to the end of its run, in two daemons of which each dies once."""
    ids = [due(root) for _ in range(3)]
    for number in ("1", "2"):
        place = {"TEAM_TEST_DIE_ON": f"{kind}:{number}", "TEAM_TEST_PLAYS": "reminded"}
        with Real(root, DYING, **place) as process:
            assert process.process.wait(50) == -signal.SIGKILL
    finish(root, ids)


@pytest.mark.fault
@pytest.mark.timeout(300)
def test_twenty_kills_of_a_real_daemon(root: Path) -> None:
    """At moments from its start to after its work; each firing is delivered, and once."""
    ids = [due(root, when="in 9 minutes") for _ in range(20)]
    for n in range(20):
        with Real(root) as process:
            time.sleep(0.4 + 0.08 * n)
            process.end(signal.SIGKILL)
    finish(root, ids)
