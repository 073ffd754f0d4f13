"""A job passes what every command passes: permissions, hooks, the plan gate, the sandbox."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from team_runtime.guard.hook_config import PythonHook
from tests.support.api import Seen
from tests.support.confined import bubblewrap
from tests.support.scripted_team import (
    Ran,
    bound_task,
    call,
    complete,
    outside,
    run_team,
    spawn,
    until,
)

JOB = call("bash", command="touch made", run_in_background=True)


def refused(ran: Ran) -> None:
    """Assert that nothing was started at all."""
    assert ran.of("job_started") == []
    assert outside(ran.root).jobs.all() == []
    assert list(ran.root.rglob("made")) == []


def alone(says: str) -> Any:
    """A lead that tries the job and must be told so."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [JOB]
        assert says in seen.text
        yield "Done."

    return {"lead": lead}


def test_without_a_rule_no_job_starts(root: Path) -> None:
    refused(run_team(root, alone("Permission denied"), sandbox="off"))


def test_a_deny_rule_beats_every_mode(root: Path) -> None:
    ran = run_team(
        root,
        alone("Permission denied"),
        sandbox="off",
        permission_mode="bypassPermissions",
        deny=("Bash(touch *)",),
    )
    refused(ran)


@pytest.mark.parametrize("agent", ["lead", "ann"])
def test_a_hook_refuses_a_job_of_every_agent(root: Path, agent: str) -> None:
    """claude-code#42385 and others: no hook was asked about background work."""
    seen_by_hook: list[Any] = []

    def no(payload: Any) -> Any:
        if payload["tool_name"] == "Bash":
            seen_by_hook.append(payload["tool_input"])
            return {"decision": "block", "reason": "not here"}
        return None

    def tries(seen: Seen) -> Iterator[Any]:
        yield [JOB]
        assert "Refused by a hook: not here" in seen.text
        yield "Done."

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield "Done."
        yield "Done."

    scripts = {"lead": tries if agent == "lead" else lead, "ann": tries}
    hooks = [PythonHook("PreToolUse", no)]
    ran = run_team(root, scripts, hooks=hooks, permission_mode="bypassPermissions", sandbox="off")
    refused(ran)
    assert seen_by_hook == [{"command": "touch made", "run_in_background": True}]


def test_the_plan_gate_holds_back_jobs(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task(), spawn("ann", task_id="task_1", require_plan=True)]
        yield "Waiting."
        while True:
            yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [JOB]
        assert "your plan must be approved first" in seen.text
        yield [call("update_task", task_id="task_1", status="failed", note="No plan.")]
        yield "Done."

    refused(run_team(root, {"lead": lead, "ann": ann}, allow=("Bash",), sandbox="off"))


def test_mode_plan_starts_no_job(root: Path) -> None:
    says = alone("Permission denied")
    refused(run_team(root, says, sandbox="off", permission_mode="plan", allow=("Bash",)))


def test_a_command_does_not_become_a_job_when_the_gate_has_closed_meanwhile(root: Path) -> None:
    asked_again = threading.Event()

    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task(), spawn("ann", task_id="task_1")]
        yield until("tool_started", "ann", tool="bash")
        yield [call("request_plan", teammate="ann", task="first a plan")]
        yield asked_again.set
        yield from ("Waiting.",) * 5

    def ann(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="sleep 50", timeout=1.5)]
        assert asked_again.is_set()
        assert "it does not go on in the background: a new plan was asked for" in seen.text
        yield [call("update_task", task_id="task_1", status="failed", note="No plan.")]
        yield "Done."

    refused(run_team(root, {"lead": lead, "ann": ann}, allow=("Bash",), sandbox="off"))


def test_the_sandbox_holds_a_job_where_it_holds_a_command(root: Path) -> None:
    bubblewrap()

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="touch made || echo no", run_in_background=True)]
        yield until("job_ended", job="job_1")
        yield [call("job_output", job_id="job_1")]
        assert "no\n" in seen.text
        yield [*bound_task(), spawn("ann", task_id="task_1")]
        while True:
            yield "Waiting."

    def ann(seen: Seen) -> Iterator[Any]:
        command = "touch made; touch ../../made || echo no"
        yield [call("bash", command=command, run_in_background=True)]
        yield until("job_ended", job="job_2")
        yield [call("job_output", job_id="job_2"), complete()]
        assert "no\n" in seen.text
        yield "Done."

    ran = run_team(root, {"lead": lead, "ann": ann}, allow=("Bash",))
    assert ran.result.exit_code == 0
    assert ran.file_on("team/one", "made") == ""
    assert not (root / "made").exists()
