"""Plans that name the files they will change: what their author can do, and what is completed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from team_runtime.board.model import COMPLETED
from team_runtime.plans.files import listed
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


def lead(seen: Seen) -> Iterator[Any]:
    """Approves every plan that it is asked about once its author waits, and lands nothing."""
    yield bound_task()
    yield [spawn("anna", task_id="task_1", require_plan=True)]
    decided: set[str] = set()
    while True:
        plan = seen.message(type="plan_request")
        if plan is not None and plan["request_id"] not in decided:
            decided.add(plan["request_id"])
            yield until("agent_state", "anna", len(decided), state="waiting for approval")
            yield [call("review_plan", request_id=plan["request_id"], approve=True)]
        else:
            yield "I wait."


def plan(files: Sequence[str] | None, text: str = "I change what I name.") -> dict[str, Any]:
    named = {} if files is None else {"files": list(files)}
    return call("submit_plan", plan=text, **named)


def bash(command: str) -> dict[str, Any]:
    return call("bash", command=command)


def played(root: Path, anna: Any, **settings: Any) -> Ran:
    return run_team(root, {"lead": lead, "anna": anna}, allow=("Bash",), **settings)


def test_the_reviewer_reads_the_files(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["src/", "notes.txt"])]
        yield "It waits."
        yield [write("src/deep/a.py"), write("notes.txt"), complete()]
        yield "Done."

    ran = played(root, anna)
    named = listed(["src/**", "notes.txt"])
    assert named in ran.shown("lead")
    assert named in ran.of("plan_submitted")[0]["text"]
    revision = ran.workspace.plans.get("plan_1").current
    assert revision.files == ("src/**", "notes.txt")
    assert ran.task().status == COMPLETED


def test_an_edit_outside_needs_a_new_revision(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["notes.txt"])]
        yield "It waits."
        yield [write("other.txt")]
        assert "does not name other.txt" in seen.text
        yield [plan(["notes.txt", "other.txt"])]
        yield [write("other.txt")]
        assert "waits for review" in seen.text
        yield "It waits again."
        yield [write("other.txt"), complete()]
        yield "Done."

    ran = played(root, anna)
    assert ran.of("permission_denied", "anna", rule="plan gate")
    assert ran.file_on("team/one", "other.txt") == "text"
    assert [r.state for r in ran.workspace.plans.get("plan_1").revisions] == [
        "superseded",
        "approved",
    ]


def test_what_a_command_changed_outside_is_not_completed(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["notes.txt"])]
        yield "It waits."
        yield [bash("echo x > other.txt; echo y > notes.txt"), complete()]
        assert "its plan does not name other.txt, which changed" in seen.text
        yield until("tool_ended", "anna", tool="complete_task", is_error=True)
        yield [bash("rm other.txt"), complete()]
        yield "Done."

    ran = played(root, anna)
    assert ran.task().status == COMPLETED
    assert git(root, "diff", "--name-only", "main", "team/one") == "notes.txt"


def test_a_deleted_or_renamed_file_counts(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["new.txt"])]
        yield "It waits."
        yield [bash("mv notes.txt new.txt"), complete()]
        assert "does not name notes.txt" in seen.text
        yield [bash("mv new.txt notes.txt"), write("new.txt"), complete()]
        yield "Done."

    assert played(root, anna).task().status == COMPLETED


def test_what_comes_after_the_completion_is_not_committed_either(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["notes.txt"])]
        yield "It waits."
        yield [write("notes.txt"), complete(), bash("echo x > other.txt"), write("more.txt")]
        yield "Done."

    ran = played(root, anna)
    assert ran.task().status == COMPLETED
    assert ran.file_on("team/one", "other.txt") is None
    assert (root / "worktrees" / "one" / "other.txt").exists()


def test_a_link_leads_outside_of_no_plan(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["notes.txt", "link.txt"])]
        yield "It waits."
        yield [bash("echo x > other.txt; ln -s other.txt link.txt"), write("link.txt", "changed")]
        assert "does not name other.txt" in seen.text
        yield [bash("rm other.txt link.txt")]
        yield [complete()]
        yield "Done."

    played(root, anna)


def test_an_impossible_file_is_an_error_and_an_empty_list_a_promise(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [plan(["../x"])]
        assert "cannot name '../x'" in seen.text
        yield [plan([])]
        yield "It waits."
        yield [write("notes.txt")]
        assert "does not name notes.txt" in seen.text
        yield [complete()]
        yield "Done."

    assert played(root, anna).task().status == COMPLETED
