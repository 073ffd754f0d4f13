"""What people ask a team for, from the request to its end, and what to watch for on the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from team_runtime.guard.hook_config import PythonHook
from team_runtime.types import Json
from tests.support.api import Seen, git
from tests.support.scripted_team import (
    Ran,
    bound_task,
    call,
    complete,
    run_team,
    spawn,
    until,
    write,
)


@pytest.fixture
def project(root: Path) -> Path:
    """A repository with something to look at."""
    (root / "README.md").write_text("# Shop\nRun `make install`, then `shop`.\n")
    (root / "shop").mkdir()
    for name in ("auth", "cart"):
        (root / "shop" / f"{name}.py").write_text(f"def {name}():\n    return {name!r}\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=A shop")
    return root


def request_in(seen: Seen, agent: str) -> str:
    """The id of the newest plan of an agent."""
    message = seen.message(type="plan_request", **{"from": agent})
    assert message is not None
    return message["request_id"]


def test_inspect_the_repository_and_name_the_files_that_matter(project: Path) -> None:
    before = git(project, "rev-parse", "HEAD")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [
            call("glob", pattern="**/*.py"),
            call("read_file", path="README.md"),
            call("grep", pattern="def "),
        ]
        assert "shop/auth.py" in seen.text
        assert "make install" in seen.text
        assert "shop/cart.py:1:def cart():" in seen.text
        yield "README.md, shop/auth.py and shop/cart.py matter."

    ran = run_team(project, {"lead": lead})
    assert ran.result.exit_code == 0
    assert "shop/auth.py" in ran.result.ending.text
    assert ran.of("permission_denied") == [], "looking needs nobody's permission"
    assert ran.turns("lead") == 2
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "rev-parse", "HEAD") == before


def refactoring(name: str, number: int) -> Any:
    """A teammate that shows its plan, waits, changes one file and commits nothing itself."""

    def teammate(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan=f"1. Rename {name} in shop/{name}.py")]
        yield "It waits."
        yield [call("read_file", path=f"shop/{name}.py")]
        yield [write(f"shop/{name}.py", f"def {name}_of_shop():\n    return {name!r}\n")]
        yield [complete(number)]
        yield "Done."

    return teammate


def test_a_parallel_refactor_with_each_plan_shown_before_editing(project: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task("auth", 1), *bound_task("cart", 2)]
        yield [
            spawn(name, task_id=f"task_{number}", require_plan=True)
            for number, name in enumerate(("auth", "cart"), 1)
        ]
        yield until("message_sent", to="lead", type="plan_request", count=2)
        yield "I wait for both plans."
        yield [
            call("review_plan", request_id=request_in(seen, name), approve=True)
            for name in ("auth", "cart")
        ]
        yield until("task_completed", count=2)
        yield [call("land_worktree", name=name) for name in ("auth", "cart")]
        yield "Both have landed."

    scripts = {"lead": lead, "auth": refactoring("auth", 1), "cart": refactoring("cart", 2)}
    ran = run_team(project, scripts, allow=("land_worktree",))
    assert ran.result.exit_code == 0, ran.result.ending
    for name in ("auth", "cart"):
        (shown,) = ran.of("plan_submitted", name)
        assert f"Rename {name}" in shown["text"]
        decided = ran.place("plan_decided", name, decision="approved")
        assert (
            ran.events.index(shown) < decided < ran.place("tool_started", name, tool="write_file")
        )
        assert f"def {name}_of_shop" in str(ran.file_on("main", f"shop/{name}.py"))
    assert git(project, "status", "--porcelain") == ""


def test_remind_me_about_the_meeting(root: Path) -> None:
    """With seconds here; the three minutes of a request are played with a clock of their own."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("schedule_cron", cron="in 1 second", prompt="Remind: the meeting begins")]
        yield "I will remind you."
        assert "<scheduled " in seen.text
        yield "The meeting begins now."

    ran = run_team(root, {"lead": lead})
    assert ran.result.ending.text == "The meeting begins now."
    assert ran.place("agent_state", "lead", state="idle") < ran.place("schedule_fired")


def test_install_in_the_background_while_reading_the_readme(project: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        command = "until [ -e go ]; do sleep 0.01; done; echo installed"
        yield [call("bash", command=command, run_in_background=True)]
        assert "Started job_1." in seen.text
        yield [call("read_file", path="README.md"), call("list_jobs")]
        assert "make install" in seen.text
        assert "running" in seen.text
        yield (project / "go").touch
        yield "README says: make install, then shop. I wait for the installation."
        assert '<task_notification job="job_1" status="completed" exit_code="0">' in seen.text
        assert "installed" in seen.text
        yield "It is installed."

    ran = run_team(project, {"lead": lead}, allow=("Bash",), sandbox="off")
    assert ran.result.ending.text == "It is installed."
    assert ran.result.exit_code == 0


def forbidden() -> Any:
    return call("bash", command="touch forbidden")


def by_the_lead(seen: Seen) -> Iterator[Any]:
    yield [forbidden()]
    yield "Done."


def by_a_teammate(seen: Seen) -> Iterator[Any]:
    yield bound_task()
    yield [spawn("anna", task_id="task_1")]
    yield "I wait."
    yield "Done."


def in_a_scheduled_turn(seen: Seen) -> Iterator[Any]:
    yield [call("schedule_cron", cron="in 1 second", prompt="Do it.")]
    yield "I wait."
    yield [forbidden()]
    yield "Done."


def as_a_job(seen: Seen) -> Iterator[Any]:
    yield [call("bash", command="touch forbidden", run_in_background=True)]
    yield "Done."


def anna(seen: Seen) -> Iterator[Any]:
    yield [forbidden()]
    yield [call("update_task", task_id="task_1", status="failed", note="not allowed")]
    yield "Done."


def no_touching(payload: Mapping[str, Json]) -> Mapping[str, Json]:
    told: Any = payload["tool_input"]
    if "touch" not in told.get("command", ""):
        return {}
    decision = {"permissionDecision": "deny", "permissionDecisionReason": "no touching"}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **decision}}


@pytest.mark.parametrize("lead", [by_the_lead, by_a_teammate, in_a_scheduled_turn, as_a_job])
@pytest.mark.parametrize("by", [pytest.param("rule", marks=pytest.mark.slow), "hook"])
def test_every_call_passes_hooks_and_permission(root: Path, lead: Any, by: str) -> None:
    more: dict[str, Any] = {"deny": ("Bash(touch *)",)}
    if by == "hook":
        more = {"hooks": [PythonHook("PreToolUse", no_touching)]}
    ran: Ran = run_team(
        root, {"lead": lead, "anna": anna}, permission_mode="bypassPermissions", **more
    )
    (denied,) = ran.of("permission_denied", tool="bash")
    assert ("touch" in denied["rule"]) if by == "rule" else (denied["rule"] == "hook")
    assert ran.of("tool_started", tool="bash") == []
    assert not list(root.rglob("forbidden"))
