"""Whoever is told of something can act upon it at once: it is true before it is said.

Each test stops the one who tells at that very place until the other has acted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from team_runtime.errors import ModelFailed
from team_runtime.guard.hook_config import PythonHook
from team_runtime.team.lead import Lead
from team_runtime.team.planning import Planning
from tests.support.api import Seen
from tests.support.scripted_team import (
    Event,
    bound_task,
    call,
    complete,
    matching,
    outside,
    run_team,
    spawn,
    until,
)

MOMENT = 0.5
"""Seconds that something is held up in which a fault would show."""
SECONDS = 20.0


class Held:
    """For `also`: stops whoever tells of the first such event until another one has happened, or
    for a moment when that is not to come."""

    def __init__(
        self, at: tuple[str, str | None, Mapping[str, Any]], seconds: float = SECONDS
    ) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self._at = at
        self._seconds = seconds

    def __call__(self, event: Event) -> None:
        kind, agent, fields = self._at
        if not self.reached.is_set() and matching([event], kind, agent, **fields):
            self.reached.set()
            self.go_on.wait(self._seconds)

    def comes(self) -> None:
        """Wait until it has told."""
        assert self.reached.wait(SECONDS)


def at(kind: str, agent: str | None = None, **fields: Any) -> Held:
    """Held at the first such event until it may go on."""
    return Held((kind, agent, fields))


def says(*replies: Any) -> Callable[[Seen], Iterator[Any]]:
    return lambda seen: iter(replies)


def waiting() -> Iterator[str]:
    while True:
        yield "Waiting."


def test_who_is_said_to_be_idle_is_listed_as_idle(root: Path) -> None:
    told = at("message_sent", "anna", type="idle")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield told.comes
        yield [call("list_teammates")]
        told.go_on.set()
        assert "anna [idle] no task" in seen.text
        yield "Fine."

    run_team(root, {"lead": lead, "anna": says("Done.")}, also=told)


@pytest.mark.parametrize("how", ["asked", "failed"])
def test_who_is_said_to_have_ended_is_not_listed_as_at_work(root: Path, how: str) -> None:
    told = at("message_sent", "anna", type="shutdown_reply" if how == "asked" else "error")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        if how == "asked":
            yield [call("request_shutdown", teammate="anna")]
        yield told.comes
        yield [call("list_teammates")]
        told.go_on.set()
        assert "anna [stopping] no task" in seen.text
        yield from waiting()

    anna = "Done." if how == "asked" else ModelFailed("it declined", "refusal")
    run_team(root, {"lead": lead, "anna": says(anna)}, also=told)


@pytest.mark.parametrize("how", ["asked", "failed"])
def test_who_is_said_to_have_ended_can_be_started_anew_at_once(root: Path, how: str) -> None:
    """While a hook that is told of the end still takes its time."""
    told = at("message_sent", "anna", type="shutdown_reply" if how == "asked" else "error")
    told.go_on.set()
    answered = threading.Event()

    def hear(event: Event) -> None:
        told(event)
        if matching([event], "tool_ended", "lead", tool="spawn_teammate") and told.reached.is_set():
            answered.set()

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna", role="first")]
        if how == "asked":
            yield [call("request_shutdown", teammate="anna")]
        yield told.comes
        yield [spawn("anna", role="second")]
        assert "Spawned anna." in seen.text
        yield "Waiting."
        yield "Fine."

    first = "Done." if how == "asked" else ModelFailed("it declined", "refusal")

    def on_end(payload: Mapping[str, Any]) -> None:
        if told.reached.is_set():
            answered.wait(MOMENT)

    ran = run_team(
        root,
        {"lead": lead, "anna": says(first, "As the second.")},
        also=hear,
        hooks=[PythonHook("SubagentStop", on_end)],
    )
    assert [e["role"] for e in ran.of("agent_spawned", "anna")] == ["first", "second"]
    ends = [
        e["state"] for e in ran.of("agent_state", "anna") if e["state"] in ("stopped", "failed")
    ]
    assert ends == ["stopped" if how == "asked" else "failed", "stopped"]


def test_who_is_asked_to_stop_while_idle_takes_no_other_turn(root: Path) -> None:
    asked = at("message_sent", "lead", to="anna", type="shutdown_request")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield until("agent_state", "anna", state="idle")
        yield [call("request_shutdown", teammate="anna")]
        yield from waiting()

    def hear(event: Event) -> None:
        if matching([event], "turn_started", "anna", turn=2) or matching(
            [event], "agent_state", "anna", state="stopped"
        ):
            asked.go_on.set()
        asked(event)

    ran = run_team(root, {"lead": lead, "anna": says("Done.", "Again.")}, also=hear)
    assert ran.turns("anna") == 1


def test_what_a_completion_makes_ready_is_named_whoever_is_quicker_to_claim_it(root: Path) -> None:
    done = at("task_completed", "anna")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield bound_task("two", 2, blockedBy=["task_1"])
        yield [spawn("anna", task_id="task_1"), spawn("ben")]
        yield from waiting()

    def anna(seen: Seen) -> Iterator[Any]:
        yield until("agent_state", "ben", state="idle")
        yield [complete()]
        assert "Now ready: task_2." in seen.text
        yield "Done."

    def hear(event: Event) -> None:
        if matching([event], "task_claimed", "ben"):
            done.go_on.set()
        done(event)

    ran = run_team(
        root, {"lead": lead, "anna": anna, "ben": says("Idle.", [complete(2)])}, also=hear
    )
    assert ran.result.exit_code == 0
    assert done.go_on.is_set()


def test_a_task_is_free_for_others_once_the_one_it_is_meant_for_has_ended(root: Path) -> None:
    """However long a hook takes that is told of the end."""
    lead_knows, lead_is_done = threading.Event(), threading.Event()

    def meant_for_anna() -> None:
        outside(root).board.create("Go on", worktree="one", metadata={"meantFor": "anna"})

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna"), spawn("ben")]
        yield until("agent_state", "ben", state="idle")
        yield meant_for_anna
        yield [call("request_shutdown", teammate="anna")]
        yield until("message_sent", "anna", type="shutdown_reply")
        yield from waiting()

    def hear(event: Event) -> None:
        if matching([event], "message_delivered", "lead", type="shutdown_reply"):
            lead_knows.set()
        if matching([event], "agent_state", "lead", state="idle") and lead_knows.is_set():
            lead_is_done.set()

    def anna(seen: Seen) -> Iterator[Any]:
        yield until("agent_state", "anna", state="stopping")
        yield "Done."

    def on_end(payload: Mapping[str, Any]) -> None:
        if payload["agent_name"] == "anna":
            lead_is_done.wait(SECONDS)

    ran = run_team(
        root,
        {"lead": lead, "anna": anna, "ben": says("Idle.", [complete()])},
        also=hear,
        hooks=[PythonHook("SubagentStop", on_end)],
    )
    assert ran.result.exit_code == 0
    assert ran.task().owner == "ben"


def test_the_main_checkout_is_free_for_the_next_once_the_turn_there_has_ended(root: Path) -> None:
    """Also when that turn ends with a plan, about which nobody but a person is told."""

    def approve() -> None:
        workspace = outside(root)
        (plan,) = workspace.plans.pending()
        planning = workspace.planning("person", SECONDS)
        planning.decide_as_person(plan.id, plan.current.number, True, "")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("create_task", subject="One"), call("create_task", subject="Two")]
        yield [spawn("anna", task_id="task_1"), spawn("ben")]
        yield from waiting()

    def anna(seen: Seen) -> Iterator[Any]:
        yield until("agent_state", "ben", state="idle")
        yield until("agent_state", "lead", state="idle")
        yield [complete()]
        yield [call("submit_plan", plan="Rest.")]
        yield "It waits."

    def ben(seen: Seen) -> Iterator[Any]:
        yield "Idle."
        yield [complete(2)]
        yield approve
        yield "Done."

    scripts = {"lead": lead, "anna": anna, "ben": ben}
    ran = run_team(root, scripts, plan_review="person")
    assert ran.result.exit_code == 0
    assert ran.task("task_2").owner == "ben"


def test_whose_task_was_taken_ends_no_job_of_the_next_owner(root: Path) -> None:
    def take() -> None:
        outside(root).board.release_by_force("task_1", "by hand")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1"), spawn("ben")]
        yield until("agent_state", "ben", state="idle")
        yield take
        yield from waiting()

    def anna(seen: Seen) -> Iterator[Any]:
        yield until("job_started", "ben")
        yield "Done."

    def ben(seen: Seen) -> Iterator[Any]:
        yield "Idle."
        wait = "until [ -e ../../go ]; do sleep 0.02; done"
        yield [call("bash", command=wait, run_in_background=True)]
        yield until("message_sent", "anna", type="idle")
        yield (root / "go").touch
        yield "I wait for it."
        yield [complete()]
        yield "Done."

    ran = run_team(
        root, {"lead": lead, "anna": anna, "ben": ben}, permission_mode="bypassPermissions"
    )
    assert [job.status for job in outside(root).jobs.all()] == ["completed"]
    assert ran.task().owner == "ben"


def test_a_plan_that_is_asked_for_anew_as_it_arrives_leaves_nobody_waiting(root: Path) -> None:
    told = at("message_sent", "anna", type="plan_request")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield told.comes
        yield [call("request_plan", teammate="anna", task="Another one.")]
        told.go_on.set()
        yield from waiting()

    anna = ([call("submit_plan", plan="One.")], "I have no other.")
    ran = run_team(root, {"lead": lead, "anna": says(*anna)}, also=told)
    assert "I have no other." in ran.shown("lead")


def test_what_an_agent_did_not_read_of_its_job_reaches_the_lead_before_the_run_ends(
    root: Path,
) -> None:
    told = Held(("agent_state", "anna", {"state": "stopped"}), MOMENT)

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("job_started", "anna")
        yield [call("request_shutdown", teammate="anna")]
        yield until("message_sent", "anna", type="shutdown_reply")
        yield told.comes
        yield from waiting()

    def hear(event: Event) -> None:
        if matching([event], "agent_state", "lead", state="stopped"):
            told.go_on.set()
        told(event)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="sleep 60", run_in_background=True)]
        yield until("agent_state", "anna", state="stopping")
        yield "Done."

    ran = run_team(
        root, {"lead": lead, "anna": anna}, also=hear, permission_mode="bypassPermissions"
    )
    assert ran.shown("lead").count('<task_notification job="job_1"') == 1


def test_a_resumed_lead_finds_its_task_as_it_left_it(root: Path) -> None:
    """A teammate that is there before it does not claim what it was about to bind."""
    claimed = threading.Event()

    def begins(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield until("agent_state", "anna", state="idle")
        yield [call("create_task", subject="One")]
        yield ModelFailed("it declined", "refusal")

    def goes_on(seen: Seen) -> Iterator[Any]:
        yield [call("create_worktree", name="one", task_id="task_1")]
        assert "Created worktree one" in seen.text
        yield from waiting()

    session = run_team(root, {"lead": begins, "anna": says("Idle.")}).result.session
    run = Lead.run

    def late(lead: Lead) -> None:
        claimed.wait(MOMENT)
        run(lead)

    def hear(event: Event) -> None:
        if event["kind"] == "task_claimed":
            claimed.set()

    with patch.object(Lead, "run", late):
        scripts = {"lead": goes_on, "anna": says([complete()])}
        ran = run_team(root, scripts, also=hear, resume=session)
    assert ran.task().worktree == "one"


def test_a_plan_that_a_person_decides_as_its_time_runs_out_ends_no_run(root: Path) -> None:
    """The lead looks for plans whose time has run out, and another process decides one of them."""
    decide = Planning.decide_as_person
    others: list[Any] = []

    def decided_before(planning: Planning, *given: Any) -> Any:
        if not others:
            others.append(decide(planning, given[0], given[1], True, "Go on.", "person"))
        return decide(planning, *given)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="One.")]
        yield "It waits."
        assert "Go on." in seen.text
        yield "Done."

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield from waiting()

    with patch.object(Planning, "decide_as_person", decided_before):
        scripts = {"lead": lead, "anna": anna}
        ran = run_team(root, scripts, plan_review="person", plan_deadline=0.1)
    assert ran.result.exit_code == 0
    assert len(others) == 1


def test_whoever_hears_of_the_end_of_a_run_can_begin_the_next(root: Path) -> None:
    """In another process, although the first has people to tell and things to tidy up."""
    begun = threading.Event()
    results: list[int] = []

    def following() -> None:
        begun.set()
        results.append(run_team(root, {"lead": says("The second.")}).result.exit_code)

    other = threading.Thread(target=following)

    def hear(event: Event) -> None:
        if event["kind"] == "run_ended":
            other.start()
            begun.wait(SECONDS)
            other.join(MOMENT)

    assert run_team(root, {"lead": says("The first.")}, also=hear).result.exit_code == 0
    other.join(SECONDS)
    assert results == [0]
