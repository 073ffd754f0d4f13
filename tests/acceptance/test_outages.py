"""While its model cannot be reached nothing is lost and nothing is said twice, lead or teammate."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.headless import Headless, Serving
from team_runtime.clock import SystemClock
from team_runtime.config import Settings
from team_runtime.daemons.schedules import Firing, Schedule
from team_runtime.errors import ModelFailed
from team_runtime.models.base import ModelRequest
from team_runtime.models.retry import TRIES
from team_runtime.team import standstill
from tests.support.api import FakeMessages, Seen, TeamScript, team, team_environment
from tests.support.clocks import Skew
from tests.support.fake_messages import error, tool
from tests.support.scripted_team import (
    MODEL,
    Event,
    Playing,
    Ran,
    Recorder,
    Script,
    bound_task,
    call,
    complete,
    outside,
    run_team,
    spawn,
    until,
    write,
)

OUTAGE = ModelFailed("no route to the service", "connection")
STALLED = "waiting for its model"
MARKS = {
    "mail": "hello</team_message>",
    "firing": "hello</scheduled>",
    "job": "<task_notification",
    "answer": "tool_result",
}
"""What wakes an agent, or lets it go on, and how its conversation shows that."""


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A teammate that stands still tries again at once."""
    monkeypatch.setattr(standstill, "FIRST_PAUSE", 0.01)


def says(*steps: Any) -> Script:
    return lambda seen: iter(steps)


def woken(kind: str, root: Path, name: str) -> list[Any]:
    """Steps of an agent, or of the lead for it, after which it is woken or goes on."""
    if kind == "mail":
        return [lambda: outside(root).bus.send("person", name, "hello")]
    if kind == "firing":
        return [[call("schedule_cron", cron="in 1 second", prompt="hello", to=name)]]
    if kind == "job":
        return [[call("bash", command="true", run_in_background=True)]]
    return [[call("bash", command="touch made")]]


def waiting_for(kind: str, seen: Seen) -> Iterator[str]:
    """Turns of an agent until it is woken, be that within the turn before."""
    while MARKS[kind] not in json.dumps(seen.body["messages"]):
        yield "Waiting."


def run(root: Path, kind: str, resume: str | None = None, **scripts: Script) -> Ran:
    def answer(event: Event) -> None:
        if event["kind"] == "approval_asked":
            outside(root).approvals.answer(event["approval"], True)

    waits: dict[str, Any] = {"approvals": "wait"} if kind == "answer" else {"allow": ["Bash"]}
    return run_team(root, scripts, also=answer, sandbox="off", resume=resume, **waits)


def asked(requests: Sequence[ModelRequest], agent: str) -> list[bytes]:
    """The conversation in each of an agent's requests."""
    return [request.messages for request in requests if request.agent == agent]


def firings(root: Path) -> list[Firing]:
    return [f for entry in outside(root).schedules.entries() for f in entry.history.firings]


@pytest.mark.slow
@pytest.mark.parametrize("kind", MARKS)
def test_a_lead_goes_on_where_it_was_when_its_session_does(root: Path, kind: str) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield from woken(kind, root, "lead")
        yield from waiting_for(kind, seen)
        yield OUTAGE

    first = run(root, kind, lead=lead)
    session = first.result.session
    again = run(root, kind, session, lead=says(OUTAGE))
    assert (first.result.exit_code, again.result.exit_code) == (1, 1)
    assert all(firing.state == "delivered" for firing in firings(root))
    last = run(root, kind, session, lead=says("Here."))
    assert (last.result.exit_code, last.result.ending.text) == (0, "Here.")
    tries = [asked(ran.requests, "lead")[n] for ran, n in ((first, -1), (again, 0), (last, 0))]
    assert tries == tries[:1] * 3, "the same again, with nothing on top"
    assert [firing.state for firing in firings(root)] == ["acknowledged"] * (kind == "firing")
    assert len(last.of("schedule_ended")) == (kind == "firing")


@pytest.mark.slow
@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("kind", MARKS)
def test_a_teammate_stands_still_and_goes_on_where_it_was(root: Path, kind: str) -> None:
    own = woken(kind, root, "ann") if kind in ("job", "answer") else []
    others = [] if own else woken(kind, root, "ann")
    done = until("task_completed") if own else until("agent_state", "ann", state="idle", count=2)

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("ann", task_id="task_1")]
        if others:
            yield until("agent_state", "ann", state="idle")
        yield from others
        yield done
        while True:
            yield "Fine."

    def ann(seen: Seen) -> Iterator[Any]:
        yield from own or ([complete()], "Ready.")
        yield from waiting_for(kind, seen)
        yield from (OUTAGE, OUTAGE, OUTAGE)
        if own:
            yield [complete()]
        yield "Here."

    ran = run(root, kind, lead=lead, ann=ann)
    assert ran.result.exit_code == 0, ran.shown("ann")
    assert (ran.task().status, ran.task().owner) == ("completed", "ann")
    tries = asked(ran.requests, "ann")
    stuck = next(n for n in range(len(tries)) if tries[n : n + 4] == tries[n : n + 1] * 4)
    assert tries[stuck - 1] != tries[stuck]
    assert len(ran.of("agent_state", "ann", state=STALLED)) == 3
    assert ran.of("agent_state", "ann")[-1]["state"] == "stopped"
    assert ran.shown("lead").count("ann has failed: The model call failed: no route") == 1
    assert [firing.state for firing in firings(root)] == ["acknowledged"] * (kind == "firing")
    assert len(ran.of("schedule_ended")) == (kind == "firing")


@pytest.mark.usefixtures("soon")
def test_a_teammate_has_its_task_with_its_approved_plan_again(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task(plan_required=True)
        yield [spawn("ann", task_id="task_1")]
        yield until("message_sent", "ann", type="plan_request")
        yield [call("list_tasks")]
        plan = seen.message(type="plan_request")
        assert plan is not None
        yield [call("review_plan", request_id=plan["request_id"], approve=True)]
        yield until("task_completed", "ann")
        while True:
            yield "Fine."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="Write it.")]
        yield "I wait."
        yield OUTAGE
        yield [write("one.txt")]
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "ann": ann})
    assert ran.result.exit_code == 0
    assert [a.outcome for a in ran.task().attempts] == ["released", "completed"]
    assert ran.file_on("team/one", "one.txt") == "text"


def test_a_job_goes_on_while_its_teammate_stands_still(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("ann", task_id="task_1")]
        yield until("agent_state", "ann", state=STALLED)
        yield lambda: (root / "worktrees" / "one" / "go").touch()
        yield until("task_completed", "ann")
        while True:
            yield "Fine."

    def ann(seen: Seen) -> Iterator[Any]:
        build = "while ! test -e go; do sleep 0.05; done; echo built > out"
        yield [call("bash", command=build, run_in_background=True)]
        yield OUTAGE
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "ann": ann}, allow=["Bash"])
    assert ran.result.exit_code == 0
    assert [a.outcome for a in ran.task().attempts] == ["completed"]
    assert ran.file_on("team/one", "out") == "built"


def test_a_teammate_whose_task_was_taken_meanwhile_is_told_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standstill, "FIRST_PAUSE", 3600.0)

    def take() -> None:
        outside(root).board.claim("task_1", "person")
        outside(root).bus.send("person", "ann", "I have it.")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("ann", task_id="task_1")]
        yield until("agent_state", "ann", state=STALLED)
        yield take
        yield until("agent_state", "ann", state="idle")
        while True:
            yield "Fine."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield OUTAGE
        shown = json.dumps(seen.body["messages"])
        assert "task_1 was given back, and it is not yours any more" in shown
        assert "I have it." in shown
        yield "Fine."

    ran = run_team(root, {"lead": lead, "ann": ann})
    assert (ran.task().status, ran.task().owner) == ("in_progress", "person")
    assert ran.file_on("team/one", "half.txt") == "text"


def test_a_teammate_that_stands_still_can_be_asked_to_stop(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield until("agent_state", "ann", state=STALLED)
        yield [call("list_teammates")]
        assert f"ann [{STALLED}]" in seen.text
        yield [call("request_shutdown", teammate="ann")]
        yield until("agent_state", "ann", state="stopped")
        while True:
            yield "Fine."

    ran = run_team(root, {"lead": lead, "ann": says(OUTAGE)})
    assert ran.result.exit_code == 0
    assert ran.of("message_delivered", "lead", type="shutdown_reply")


@pytest.mark.usefixtures("soon")
def test_what_ends_a_teammate_after_an_outage_is_told_and_stands_in_the_history(
    root: Path,
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield until("agent_state", "ann", state="idle")
        yield [call("schedule_cron", cron="in 1 second", prompt="hello", to="ann")]
        yield until("agent_state", "ann", state="failed")
        while True:
            yield "Fine."

    def ann(seen: Seen) -> Iterator[Any]:
        yield "Ready."
        yield from (OUTAGE, [call("list_tasks")], ModelFailed("no credit left", "billing_error"))

    ran = run_team(root, {"lead": lead, "ann": ann})
    assert "ann has failed: The model call failed: no credit left" in ran.shown("lead")
    assert [firing.state for firing in firings(root)] == ["failed"]
    assert "no credit left" in (firings(root)[0].note or "")


class Daemon:
    """A daemon that serves a session, each time with another model."""

    def __init__(self, root: Path, session: str) -> None:
        self._root = root
        self._session = session

    def tick(self, **scripts: Script) -> Playing:
        playing = Playing(scripts, Recorder())
        parts = Serving(
            outside(self._root),
            team_environment(self._root.parent),
            lambda record: Settings(model=MODEL, timeout=25),
            self._session,
            playing.recorder.record,
            {MODEL: playing},
        )
        Headless(parts).tick()
        return playing


@pytest.mark.slow
@pytest.mark.parametrize("lead_reaches", [True, False])
def test_a_firing_for_a_teammate_outlives_an_outage_as_one_for_the_lead_does(
    root: Path, skew: Skew, lead_reaches: bool
) -> None:
    def begin(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield until("agent_state", "ann", state="idle")
        while True:
            yield "Fine."

    session = run_team(root, {"lead": begin, "ann": says("Ready.")}).result.session
    made_at = SystemClock().now() - timedelta(minutes=10)
    outside(root).schedules.add(
        Schedule("", "in 5 minutes", "UTC", "look", made_at, "lead", to="ann", session=session)
    )
    daemon = Daemon(root, session)
    down = [until("agent_state", "ann", state=STALLED), OUTAGE]
    lead = says("Noted.") if lead_reaches else says(*down)
    tries = []
    for number in range(3):
        played = daemon.tick(lead=lead, ann=says(OUTAGE))
        tries += asked(played.requests, "ann")
        assert len(tries) == number + 1
        (firing,) = firings(root)
        assert (firing.state, "no route" in str(firing.note)) == ("delivered", True)
        assert daemon.tick(ann=says("too early")).requests == [], "it waits first"
        skew.ahead += timedelta(minutes=5)
    played = daemon.tick(lead=says("Noted.", "Fine."), ann=says("I looked."))
    (firing,) = firings(root)
    assert (firing.state, firing.note) == ("acknowledged", None)
    tries += asked(played.requests, "ann")
    assert tries == tries[:1] * 4
    shown = asked(played.requests, "lead")[-1].decode()
    assert shown.count("ann has failed") == 1
    assert outside(root).schedules.entries()[0].history.failures == 0


@pytest.mark.slow
def test_a_teammate_with_a_task_is_told_of_it_once_in_however_many_runs(root: Path) -> None:
    def begin(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("ann", task_id="task_1")]
        while True:
            yield "Fine."

    def goes_on(seen: Seen) -> Iterator[Any]:
        yield until("task_completed")
        while True:
            yield "Fine."

    session = run_team(root, {"lead": begin, "ann": says(OUTAGE)}).result.session
    for _ in range(3):
        run_team(root, {"lead": says("Fine."), "ann": says(OUTAGE)}, resume=session)
    scripts = {"lead": goes_on, "ann": says([write("one.txt")], [complete()], "Done.")}
    ran = run_team(root, scripts, resume=session)
    assert ran.result.exit_code == 0
    assert ran.task().owner == "ann"
    first = asked(ran.requests, "ann")[0].decode()
    assert first.count("task_assigned") == 1
    assert first.count("<team_message") == 1


@pytest.mark.slow
def test_through_the_real_sdk_a_teammate_goes_on_when_its_session_does(
    root: Path, tmp_path: Path
) -> None:
    """Two runs in which each try of its call fails, and one in which it is answered."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [tool("spawn_teammate", {"name": "ann", "role": "engineer", "prompt": "Begin."})]
        while True:
            yield "Fine."

    down = [error("overloaded_error")] * TRIES

    def ann(seen: Seen) -> Iterator[Any]:
        yield from down
        yield from down
        yield "Here."

    with FakeMessages(TeamScript({"lead": lead, "ann": ann})) as api:
        environ = team_environment(tmp_path, api.url)
        done = [team(["run", "Begin.", "--output-format", "json"], root, environ)]
        session = json.loads(done[0].stdout)["session_id"]
        again = ["run", "--resume", session, "--output-format", "json"]
        done += [team(again, root, environ) for _ in range(2)]
    assert [each.returncode for each in done] == [0, 0, 0], [each.stderr for each in done]
    assert api.problems() == []
    calls = {
        name: [r for r in api.log if f"/{name}/" in r["conversation"]] for name in ("lead", "ann")
    }
    bodies = [call["body"]["messages"] for call in calls["ann"]]
    assert len(bodies) == 2 * TRIES + 1
    assert all(body == bodies[0] for body in bodies)
    shown = json.dumps(calls["lead"][-1]["body"]["messages"])
    assert shown.count("ann has failed") == 1
    assert "Here." in shown
