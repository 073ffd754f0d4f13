"""What wakes an agent: each thing once, the right one, and never twice at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.headless import Headless, Serving
from team_runtime.clock import SystemClock
from team_runtime.config import Settings
from team_runtime.daemons.schedule_store import POSTPONEMENTS
from team_runtime.daemons.schedules import Schedule
from team_runtime.errors import ModelFailed
from team_runtime.store import coverage
from tests.support.api import Seen, team_environment
from tests.support.clocks import Skew
from tests.support.interrupted import eventually
from tests.support.scripted_team import (
    MODEL,
    Event,
    Playing,
    Recorder,
    Script,
    call,
    outside,
    run_team,
    spawn,
    until,
    when_idle,
)

pytestmark = pytest.mark.slow

OUTAGE = ModelFailed("no route to the service", "connection")


def says(*texts: str) -> Script:
    return lambda seen: iter(texts)


def with_idle_mates(*steps: Any) -> Script:
    """A lead that takes these steps once ann and bob are idle."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann"), spawn("bob")]
        for name in ("ann", "bob"):
            yield until("agent_state", name, state="idle")
        yield from steps
        while True:
            yield "Waiting."

    return lead


def mail_from_a_person(root: Path) -> Callable[[], None]:
    def send() -> None:
        outside(root).bus.send("person", "ann", "hello")

    return send


def test_an_idle_team_is_sure_to_be_told_so_that_it_need_not_look(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class EveryKind(frozenset[str]):
        """Whatever the file system of this test's folder is."""

        def __contains__(self, kind: object) -> bool:
            return True

    monkeypatch.setattr(coverage, "LOCAL", EveryKind())
    covered: list[int] = []
    folders = outside(root).told_folders

    def look() -> None:
        eventually(lambda: coverage.is_covered(folders()))  # another thread watches new folders
        covered.append(len(folders()))

    run_team(root, {"lead": with_idle_mates(look), "ann": says("Ready."), "bob": says("Ready.")})

    assert covered == [6], "tasks, schedules, requests and three mailboxes"
    assert not coverage.is_covered(folders()), "the watch has ended with the run"


@pytest.mark.parametrize("what", ["mail", "firing"])
def test_it_starts_one_turn_of_the_idle_agent_that_it_is_for(root: Path, what: str) -> None:
    remind = call("schedule_cron", cron="in 1 second", prompt="hello", to="ann")
    steps: dict[str, list[Any]] = {"mail": [mail_from_a_person(root)], "firing": [[remind]]}
    mates = {"ann": says("Ready.", "Hello."), "bob": says("Ready.")}
    ran = run_team(root, {"lead": with_idle_mates(*steps[what]), **mates})
    assert ran.result.exit_code == 0
    assert (ran.turns("ann"), ran.turns("bob")) == (2, 1)
    assert "hello" in ran.shown("ann")


def test_a_job_that_ends_starts_one_turn_of_the_agent_that_began_it(root: Path) -> None:
    def ann(seen: Seen) -> Iterator[Any]:
        wait = f"until [ -e '{root}/go' ]; do sleep 0.02; done"
        yield [call("bash", command=wait, run_in_background=True)]
        yield "It runs."
        yield "It has ended."

    ran = run_team(
        root,
        {"lead": with_idle_mates(), "ann": ann, "bob": says("Ready.")},
        also=when_idle("ann", (root / "go").touch),
        allow=["Bash"],
    )
    assert ran.result.exit_code == 0
    assert (ran.turns("ann"), ran.turns("bob")) == (3, 1)
    assert ran.shown("ann").count("<task_notification") == 1


def test_an_answer_goes_on_with_the_turn_that_waits_for_it_and_starts_no_other(root: Path) -> None:
    def answer(event: Event) -> None:
        if event["kind"] == "approval_asked":
            outside(root).approvals.answer(event["approval"], True)

    steps = ([call("bash", command="touch made")], "Made.")
    scripts = {"lead": with_idle_mates(*steps), "ann": says("Ready."), "bob": says("Ready.")}
    ran = run_team(root, scripts, sandbox="off", approvals="wait", also=answer)
    assert ran.result.exit_code == 0
    assert (root / "made").exists()
    assert (ran.turns("ann"), ran.turns("bob")) == (1, 1)
    states = [event["state"] for event in ran.of("agent_state", "lead")]
    assert states[:4] == ["working", "waiting for approval", "working", "idle"]


def test_two_turns_of_one_agent_never_overlap(root: Path) -> None:
    """Mail from several threads and firings, all at the same time, for an agent that is idle, then
    working, then idle again."""

    def flood() -> None:
        senders = [threading.Thread(target=mail_from_a_person(root)) for _ in range(8)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()

    reminders = [
        call("schedule_cron", cron="in 1 second", prompt="hello", to="ann") for _ in range(4)
    ]
    steps = (reminders, flood, until("turn_started", "ann", 2), flood, "Flooded.")
    ran = run_team(
        root, {"lead": with_idle_mates(*steps), "ann": says("Ready."), "bob": says("Ready.")}
    )
    turns = [e["kind"] for e in ran.events if e["agent"] == "ann" and e["kind"].startswith("turn_")]
    assert turns == ["turn_started", "turn_ended"] * (len(turns) // 2)
    assert len(ran.of("message_delivered", "ann")) == 16 + 4
    counts = Counter(e["id"] for e in ran.of("message_delivered", "ann"))
    assert set(counts.values()) == {1}


def due(root: Path, session: str | None, when: str = "in 5 minutes", **more: Any) -> str:
    """The id of a schedule that was made ten minutes ago."""
    made_at = SystemClock().now() - timedelta(minutes=10)
    given = {"prompt": "look", "zone": "UTC", "created_by": "lead", **more}
    draft = Schedule(id="", when=when, created_at=made_at, session=session, **given)
    return outside(root).schedules.add(draft).id


def test_firings_of_the_same_second_start_one_turn(root: Path) -> None:
    """Ten schedules for one agent, two for another."""
    names = ["ann"] * 10 + ["lead"] * 2

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield until("agent_state", "ann", state="idle")
        yield [call("schedule_cron", cron="in 2 seconds", prompt="x", to=name) for name in names]
        while True:
            yield "Waiting."

    ran = run_team(root, {"lead": lead, "ann": says("Ready.", "All noted.")})
    slots = {e["slot"] for e in ran.of("schedule_fired")}
    assert ran.turns("ann") == 1 + len(slots)
    assert ran.shown("ann").count("x</scheduled>") == 10
    assert len(ran.of("schedule_ended", state="acknowledged")) == 12


def test_a_long_turn_is_not_asked_for_the_same_again_and_again(root: Path, skew: Skew) -> None:
    """Ten slots come while the first firing is being worked on: it is asked once more, not ten
    times, and the others are recorded."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("schedule_cron", cron="* * * * *", prompt="tick")]
        yield skew.jump(minutes=1)
        yield "Scheduled."
        for n in range(10):
            yield skew.jump(minutes=1)
            if n < 9:
                yield [call("list_crons")]
        yield [call("cancel_cron", job_id=outside(root).schedules.entries()[0].schedule.id)]
        yield "Done."

    ran = run_team(root, {"lead": lead}, timeout=3600)
    assert ran.shown("lead").count("tick</scheduled>") == 1


def offline(root: Path, lead: Script, session: str) -> tuple[Headless, Playing]:
    """A daemon whose model fails as `lead` says."""
    playing = Playing({"lead": lead}, Recorder())
    parts = Serving(
        outside(root),
        team_environment(root.parent),
        lambda record: Settings(model=MODEL, timeout=25),
        session,
        playing.recorder.record,
        {MODEL: playing},
    )
    return Headless(parts), playing


def test_an_outage_is_waited_for_with_back_off_and_the_history_does_not_grow(
    root: Path, skew: Skew
) -> None:
    """A schedule of every minute, and a model that cannot be reached for ten minutes."""
    session = run_team(root, {"lead": says("Ready.")}).result.session
    schedules = outside(root).schedules
    id = due(root, session, "* * * * *", prompt="look <here>")

    def lead(seen: Seen) -> Iterator[Any]:
        while True:
            yield "I looked." if skew.ahead >= timedelta(minutes=10) else OUTAGE

    headless, playing = offline(root, lead, session)
    for _ in range(80):
        headless.tick()
        skew.ahead += timedelta(seconds=15)

    history = schedules.get(id).history
    assert history.failures == 0
    assert [f.state for f in history.firings].count("failed") == 0
    first = playing.requests[0].messages
    tries = [request for request in playing.requests if request.messages == first]
    assert 4 <= len(tries) <= 6, "few, and the same again with nothing on top"
    shown = playing.requests[-1].messages.decode()
    reached = sum(firing.state != "skipped" for firing in history.firings)
    assert reached == shown.count("</scheduled>") == len(playing.requests) - len(tries) + 1


def test_a_reminder_survives_an_outage(root: Path, skew: Skew) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    id = due(root, session)
    headless, _ = offline(root, lambda seen: iter([OUTAGE, "It is time."]), session)
    headless.tick()
    (firing,) = outside(root).schedules.get(id).history.firings
    assert (firing.state, "no route" in str(firing.note)) == ("delivered", True)
    headless.tick()
    assert outside(root).schedules.get(id).history.firings == (firing,), "it waits first"
    skew.ahead += timedelta(minutes=2)
    headless.tick()
    (firing,) = outside(root).schedules.get(id).history.firings
    assert (firing.state, firing.note) == ("acknowledged", None)


def test_an_outage_without_an_end_is_given_up(root: Path, skew: Skew) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    id = due(root, session)

    def lead(seen: Seen) -> Iterator[Any]:
        while True:
            yield OUTAGE

    schedules = outside(root).schedules
    headless, playing = offline(root, lead, session)
    headless.tick()
    slot = schedules.get(id).history.firings[0].slot
    for _ in range(POSTPONEMENTS - 2):
        schedules.postponed(id, slot, "no route")
    skew.ahead += timedelta(hours=2)
    headless.tick()
    (firing,) = schedules.get(id).history.firings
    assert firing.state == "failed"
    assert len(playing.requests) == 2


def test_an_outage_of_one_session_does_not_hold_up_another(root: Path, skew: Skew) -> None:
    session = run_team(root, {"lead": says("Ready.")}).result.session
    first = due(root, session)
    headless, _ = offline(root, lambda seen: iter([OUTAGE, "I looked."]), session)
    headless.tick()
    second = due(root, None)
    headless.parts = Serving(**{**vars(headless.parts), "session": None})
    headless.tick()
    states = [outside(root).schedules.get(id).history.firings[0].state for id in (first, second)]
    assert states == ["delivered", "acknowledged"]
