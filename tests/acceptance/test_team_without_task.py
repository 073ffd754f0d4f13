"""A teammate without a task is read-only, and a run without one leaves no trace but in `.team`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen, git
from tests.support.scripted_team import (
    bound_task,
    call,
    make_repository,
    outside,
    run_team,
    spawn,
    write,
)
from tests.support.tools import snapshot


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_teammate_without_a_task_changes_nothing_in_any_mode(
    tmp_path: Path, sandbox: str
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield "Anna looks around."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("notes.txt", "changed\n")]
        assert "you have no task, so you can only read" in seen.text
        yield [call("bash", command="echo changed > notes.txt; echo tried")]
        yield [call("read_file", path="notes.txt")]
        assert "as committed" in seen.text
        yield "I changed nothing."

    root = make_repository(tmp_path / "w")
    scripts = {"lead": lead, "anna": anna}
    ran = run_team(root, scripts, permission_mode="bypassPermissions", sandbox=sandbox)
    assert ran.result.exit_code == 0, ran.result
    assert (root / "notes.txt").read_text() == "as committed\n"
    if sandbox == "off":
        assert [event["tool"] for event in ran.of("permission_denied")] == ["write_file", "bash"]


def test_a_run_without_a_task_writes_nothing_outside_of_its_own_folder(tmp_path: Path) -> None:
    def kept() -> dict[str, Any]:
        return {p: s for p, s in snapshot(root).items() if not f"{p}/".startswith(".team/")}

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("list_tasks"), call("glob", pattern="**"), spawn("anna")]
        yield "Looked."

    def anna(seen: Seen) -> Iterator[Any]:
        yield "Looked."

    root = make_repository(tmp_path / "w")
    before = kept()
    assert run_team(root, {"lead": lead, "anna": anna}).result.exit_code == 0
    assert kept() == before
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""


def test_the_first_task_of_a_run_stays_out_of_git_whatever_is_in_its_own_folder(
    tmp_path: Path,
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield lambda: statuses.append(git(root, "status", "--porcelain"))
        yield "Made."

    root, statuses = make_repository(tmp_path / "w"), list[str]()
    (root / ".team").mkdir(mode=0o700)
    (root / ".team" / "of-an-earlier-version").write_text("x")
    run_team(root, {"lead": lead})
    assert statuses == [""]
    assert outside(root).board.get("task_1").worktree == "one"
