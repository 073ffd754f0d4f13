"""Checks of tasks, by which an agent would have the runtime run what it may not run itself. Every
test is named by what must be blocked."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.confinement import Confining
from team_runtime.guard.base import Decision, Effect, Verdict, strictest
from team_runtime.guard.permissions import RulePermissions
from team_runtime.loop.dispatch import questions_about
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.landlock import OLDEST, Landlock
from team_runtime.process.sandbox import Sandbox
from team_runtime.store.layout import Layout
from team_runtime.tools.base import Place
from tests.support.api import Seen, team_environment
from tests.support.cli import team_here
from tests.support.confined import bubblewrap
from tests.support.scripted_team import call, complete, make_repository, run_team
from tests.support.tools import allowing, asking, denying


def decided(
    check: str | None,
    *,
    mode: str = "default",
    allow: tuple[str, ...] = (),
    ask: tuple[str, ...] = (),
    deny: tuple[str, ...] = (),
    confined: bool = False,
) -> Decision:
    rules = RulePermissions(
        mode, allowing(*allow), denying(*deny), asking(*ask), checks_confined=confined
    )
    given = {"subject": "x"} if check is None else {"subject": "x", "check": check}
    asked = questions_about("create_task", Effect.COORDINATE, given, Place(Path("/w")))
    return strictest([rules.decide(question) for question in asked])


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "dontAsk"])
@pytest.mark.parametrize("confined", [True, False])
def test_a_denied_command_as_a_check(mode: str, confined: bool) -> None:
    for check in ("touch x", "true && touch x", "sh -c 'touch x'", "$(touch x)"):
        denied = decided(
            check, mode=mode, allow=("Bash",), deny=("Bash(touch *)",), confined=confined
        )
        assert (denied.verdict, denied.rule) == (Verdict.DENY, "Bash(touch *)")
    asked = decided("touch x", mode=mode, ask=("Bash(touch *)",), confined=confined)
    assert asked.verdict is (Verdict.DENY if mode == "dontAsk" else Verdict.ASK)


def test_a_command_that_no_rule_allows_as_a_check_where_nothing_holds_it() -> None:
    assert decided("make test").verdict is Verdict.ASK
    assert decided("make test", allow=("Bash(make *)",)).verdict is Verdict.ALLOW
    assert decided("make test", confined=True).verdict is Verdict.ALLOW
    assert decided(None).verdict is Verdict.ALLOW


@pytest.mark.parametrize("sandbox", [Bubblewrap(), Landlock(OLDEST)])
def test_a_check_that_could_reach_a_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sandbox: Sandbox
) -> None:
    """A machine for which there is no filter of system calls."""
    confining = Confining(sandbox, Layout(tmp_path), {})
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert confining.isolates
    assert not replace(confining, network=True).isolates
    monkeypatch.setattr(platform, "machine", lambda: "vax")
    assert not confining.isolates


def test_a_check_while_nothing_may_be_changed() -> None:
    for allow in ((), ("Bash",)):
        assert decided("true", mode="plan", allow=allow, confined=True).verdict is Verdict.DENY


def test_a_check_runs_only_when_it_was_allowed(tmp_path: Path) -> None:
    root, trap = make_repository(tmp_path / "w"), tmp_path / "trap"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("create_task", subject="x", check=f"touch {trap}")]
        assert "no rule allows the command that is its check" in seen.text
        yield [call("create_task", subject="x")]
        yield [call("claim_task", task_id="task_1")]
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead}, sandbox="off")
    assert ran.task().status == "completed"
    assert not trap.exists()


def test_a_check_that_writes_in_the_main_checkout(tmp_path: Path) -> None:
    bubblewrap()
    root = make_repository(tmp_path / "w")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("create_task", subject="x", check="echo x > notes.txt")]
        yield [call("claim_task", task_id="task_1")]
        yield [complete()]
        assert "Read-only file system" in seen.text
        yield "Done."

    run_team(root, {"lead": lead}, sandbox="required")
    assert (root / "notes.txt").read_text() == "as committed\n"


def test_a_check_given_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = make_repository(tmp_path / "w")
    for name, value in team_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TEAM_AGENT", "ann")
    refused = team_here(root, "tasks", "add", "x", "--check", "touch x")
    assert (refused.code, "only a person" in refused.err) == (4, True)
    assert team_here(root, "tasks", "add", "x").code == 0
