"""How teammates and runs come to an end: always, once, and with the work saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from team_runtime.errors import ModelFailed
from tests.support.api import Seen, git
from tests.support.scripted_team import (
    Ran,
    bound_task,
    call,
    complete,
    reply,
    run_team,
    spawn,
    until,
    write,
)

STOP_SECONDS = 0.3
"""A deadline short enough for a test, for those who do not stop by themselves."""


def hang() -> dict[str, Any]:
    return call("bash", command="sleep 60")


def waiting(seen: Seen) -> Iterator[Any]:
    yield from ("Waiting." for _ in range(50))


def final_states(ran: Ran, name: str) -> list[str]:
    return [e["state"] for e in ran.of("agent_state", name) if e["state"] in ("stopped", "failed")]


def check_given_back(ran: Ran, name: str = "anna") -> None:
    """The teammate ended once, and its half-done work is committed on its branch."""
    assert final_states(ran, name) == ["stopped"]
    task = ran.task()
    assert (task.status, task.attempts[-1].outcome) == ("pending", "released")
    assert task.attempts[-1].head == git(ran.root, "rev-parse", "team/one")
    assert ran.file_on("team/one", "half.txt") == "text"
    assert git(ran.root / "worktrees" / "one", "status", "--porcelain") == ""


def idle(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt")]
    yield [call("send_message", to="lead", content="What now?")]
    yield "I wait for an answer."


def busy(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt")]
    yield until("agent_state", "anna", state="stopping")
    yield [call("glob", pattern="*")]
    raise AssertionError("no model call after the request")


def planning(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt")]
    yield [call("submit_plan", plan="Go on.")]
    yield "It waits."


def hanging(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt")]
    yield [hang()]


def hanging_side_by_side(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt"), write("slow.txt", "a" * 60 + "!")]
    yield [call("grep", pattern="(a+)+$", path="slow.txt"), call("glob", pattern="*")]


def hanging_model(seen: Seen) -> Iterator[Any]:
    yield [write("half.txt")]
    yield until("run_ended")


@pytest.mark.parametrize(
    ("script", "ready"),
    [
        (idle, until("agent_state", "anna", state="idle")),
        (busy, until("tool_ended", "anna")),
        (planning, until("agent_state", "anna", state="waiting for approval")),
        (hanging, until("tool_started", "anna", tool="bash")),
        (hanging_side_by_side, until("tool_started", "anna", tool="grep")),
        (hanging_model, until("turn_started", "anna", turn=2)),
    ],
)
def test_a_shutdown_ends_a_teammate_in_whatever_state_it_is(
    root: Path, script: Any, ready: Any
) -> None:
    """claude-code#31389, claude-code#51556, claude-code#34848, claude-code#28552: asked to stop, it
    lived on."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield ready
        yield [call("request_shutdown", teammate="anna")]
        yield until("agent_state", "anna", state="stopped")
        yield [call("request_shutdown", teammate="anna"), call("list_teammates")]
        assert "anna has already stopped" in seen.text
        assert "anna [stopped] no task" in seen.text
        yield from waiting(seen)

    ran = run_team(
        root, {"lead": lead, "anna": script}, stop_seconds=STOP_SECONDS, allow=("Bash(sleep *)",)
    )
    assert ran.result.exit_code == 1
    check_given_back(ran)
    assert "task_1 was given back with its work saved" in ran.shown("lead")
    assert len(ran.of("message_sent", "anna", type="shutdown_reply")) == 1


def test_a_check_that_hangs_does_not_hold_up_the_shutdown(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task(check="sleep 60")
        yield [spawn("anna", task_id="task_1")]
        yield until("tool_started", "anna", tool="complete_task")
        yield [call("request_shutdown", teammate="anna")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield [complete()]

    ran = run_team(root, {"lead": lead, "anna": anna}, stop_seconds=STOP_SECONDS)
    check_given_back(ran)


def test_the_end_of_the_run_ends_a_teammate_that_hangs(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("tool_started", "anna", tool="bash")
        yield ModelFailed("overloaded", "overloaded_error")

    ran = run_team(
        root, {"lead": lead, "anna": hanging}, stop_seconds=STOP_SECONDS, allow=("Bash(sleep *)",)
    )
    assert ran.result.exit_code == 1
    assert isinstance(ran.result.ending.error, ModelFailed)
    check_given_back(ran)
    assert final_states(ran, "lead") == ["failed"]


def test_a_teammate_can_be_spawned_again_after_it_was_stopped_in_the_middle_of_a_call(
    root: Path,
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("tool_started", "anna", tool="bash")
        yield [call("request_shutdown", teammate="anna")]
        yield until("agent_state", "anna", state="stopped")
        yield [spawn("anna", task_id="task_1", prompt="Try again.")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield [hang()]
        first = seen.last[0]
        assert first["type"] == "tool_result"
        assert "whether it took effect is unknown" in first["content"]
        assert "Try again." in seen.text
        yield [complete()]
        yield "Done."

    ran = run_team(
        root, {"lead": lead, "anna": anna}, stop_seconds=STOP_SECONDS, allow=("Bash(sleep *)",)
    )
    assert ran.result.exit_code == 0
    assert [a.outcome for a in ran.task().attempts] == ["released", "completed"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ModelFailed("overloaded", "overloaded_error"), "The model call failed: overloaded"),
        (
            ZeroDivisionError("oops"),
            "anna ended because of a fault in the runtime (ZeroDivisionError",
        ),
    ],
)
def test_the_task_of_a_teammate_whose_model_fails_is_taken_by_another(
    root: Path, error: Exception, said: str
) -> None:
    """claude-code#29271: one that has died is told from one that is idle."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1"), spawn("ben")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield error

    def ben(seen: Seen) -> Iterator[Any]:
        yield "Idle."
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "anna": anna, "ben": ben})
    assert ran.result.exit_code == 0
    assert final_states(ran, "anna") == ["failed"]
    assert f"anna has failed: {said}" in ran.shown("lead")
    assert "task_1 was given back with its work saved" in ran.shown("lead")
    assert ran.task().owner == "ben"
    assert ran.file_on("team/one", "half.txt") == "text"


def test_alone_a_teammate_whose_model_fails_lets_the_run_end(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield ModelFailed("the model declined to answer", "refusal")

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 1
    assert ran.task().status == "pending"
    assert ran.of("message_delivered", "lead", type="error")


def test_a_fault_of_the_lead_ends_the_run_in_order_and_says_where(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("tool_ended", "anna")
        yield ZeroDivisionError("oops")

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield until("agent_state", "lead", state="failed")
        yield [call("glob", pattern="*")]

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 1
    assert "a fault in the runtime (ZeroDivisionError('oops'))" in str(ran.result.ending.error)
    assert any("Traceback" in e["text"] for e in ran.of("notice", "lead"))
    check_given_back(ran)


def test_the_limit_on_turns_ends_everybody_with_the_work_saved(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        while True:
            yield [call("glob", pattern="*")]

    ran = run_team(root, {"lead": lead, "anna": anna}, max_turns=9)
    assert ran.result.exit_code == 3
    assert ran.result.turns == 9 == len(ran.requests)
    assert "limit on turns (9)" in str(ran.result.ending.error)
    check_given_back(ran)


def test_the_limit_on_turns_also_ends_those_who_hang(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [bound_task()[0], bound_task()[1], spawn("anna", task_id="task_1"), spawn("ben")]
        yield until("tool_started", "anna", tool="bash")
        yield [hang()]

    def ben(seen: Seen) -> Iterator[Any]:
        yield until("tool_started", "lead", tool="bash")
        while True:
            yield [call("glob", pattern="*")]

    scripts = {"lead": lead, "anna": hanging, "ben": ben}
    ran = run_team(root, scripts, max_turns=12, stop_seconds=STOP_SECONDS, allow=("Bash(sleep *)",))
    assert ran.result.exit_code == 3
    check_given_back(ran)


def test_the_time_limit_ends_a_run_in_which_everybody_hangs(root: Path) -> None:
    """claude-code#30008: it hung for ever with live teammates."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield [hang()]

    ran = run_team(
        root,
        {"lead": lead, "anna": hanging},
        timeout=0.1,
        timed_from=until("tool_started", "anna", tool="bash"),
        stop_seconds=STOP_SECONDS,
        allow=("Bash(sleep *)",),
    )
    assert ran.result.exit_code == 3
    assert "limit on time (0.1 s)" in str(ran.result.ending.error)
    check_given_back(ran)
    assert final_states(ran, "lead") == ["stopped"]


def test_a_run_ends_when_nothing_can_wake_the_lead(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("create_task", subject="Nobody is there for this")]
        yield "That is all."

    ran = run_team(root, {"lead": lead})
    assert ran.result.exit_code == 1
    assert ran.result.unfinished == ["task_1"]
    assert ran.result.ending.text == "That is all."


def test_replies_without_anything_in_them_do_not_go_on_for_ever(root: Path) -> None:
    def silent(seen: Seen) -> Iterator[Any]:
        yield from (reply(stop="end_turn") for _ in range(50))

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield from silent(seen)

    ran = run_team(root, {"lead": lead, "anna": silent})
    assert ran.result.exit_code == 1
    assert ran.turns("anna") == 3, "the first turn and two reminders"
    assert "(it ended its turn without a text)" in ran.shown("lead")


def test_a_lead_is_reminded_once_of_its_own_task(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [bound_task()[0], bound_task()[1], call("claim_task", task_id="task_1")]
        yield [write("half.txt")]
        yield "I stop here."
        assert "task_1 is still yours" in seen.text
        yield "I really do."

    ran = run_team(root, {"lead": lead})
    assert ran.result.exit_code == 1
    check_given_back(ran, "lead")
