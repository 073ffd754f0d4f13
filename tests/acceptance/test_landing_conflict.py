"""A landing conflict goes back to whoever did the work, and lands once it is resolved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.api import Seen, git
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    make_repository,
    run_team,
    spawn,
    until,
    write,
)

CONFLICT = "<<<<<<< "


def lead(seen: Seen) -> Iterator[Any]:
    yield [*bound_task("one", 1), *bound_task("two", 2)]
    yield [spawn("anna", task_id="task_1"), spawn("ben", task_id="task_2")]
    yield until("task_completed", "anna")
    yield until("task_completed", "ben")
    yield [call("land_worktree", name="one")]
    yield [call("land_worktree", name="two")]
    assert "two conflicts with main in notes.txt, landed by one (task_1)" in seen.text
    assert "task_3 was made to resolve it" in seen.text
    yield until("task_completed", "ben", 2)
    yield [call("land_worktree", name="two")]
    yield "Both have landed."


def anna(seen: Seen) -> Iterator[Any]:
    yield [write("notes.txt", "by anna\n"), complete(1)]
    yield "Anna is done."


def ben(seen: Seen) -> Iterator[Any]:
    yield [write("notes.txt", "by ben\n"), complete(2)]
    yield "Ben is done."
    assert 'task="task_3"' in seen.text
    yield [call("read_file", path="notes.txt")]
    assert CONFLICT in seen.text
    assert "by anna" in seen.text
    yield [complete(3)]
    assert "marks of the merge are left in notes.txt" in seen.text
    yield [write("notes.txt", "by anna and ben\n"), complete(3)]
    yield "Resolved."


def test_a_conflict_goes_back_to_its_owner_and_lands_when_it_is_resolved(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "w")
    ran = run_team(
        root, {"lead": lead, "anna": anna, "ben": ben}, permission_mode="bypassPermissions"
    )
    assert ran.result.exit_code == 0, ran.result
    assert (root / "notes.txt").read_text() == "by anna and ben\n"
    for task in ran.result.tasks:
        git(root, "merge-base", "--is-ancestor", task["result"]["commit"], "main")
    assert git(root, "status", "--porcelain") == ""
    assert [t["worktree"] for t in ran.result.tasks] == ["one", "two", "two"]
