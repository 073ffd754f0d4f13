"""`team tasks`, `plans`, `worktrees`, `status`: what a person does around a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.api import git
from tests.support.cli import Ran, team_here


def tasks(folder: Path, *arguments: str) -> Ran:
    return team_here(folder, "tasks", *arguments)


def test_a_board_works_in_any_folder(tmp_path: Path) -> None:
    assert tasks(tmp_path, "list").out == "No tasks.\n"
    assert tasks(tmp_path, "next", "--json").json is None
    assert tasks(tmp_path, "add", "Write the changelog").out == "task_1: Write the changelog\n"
    tasks(tmp_path, "add", "Release it", "--blocked-by", "task_1", "--priority", "5")
    assert tasks(tmp_path, "list").out.splitlines() == [
        "task_1    ready       Write the changelog",
        "task_2    blocked     Release it  after task_1",
    ]
    assert tasks(tmp_path, "next", "--json").json["id"] == "task_1"
    assert tasks(tmp_path, "claim", "task_1", "--as", "me").code == 0
    ended = tasks(tmp_path, "complete", "task_1", "--summary", "Wrote it.")
    assert ended.out == "task_1 is completed; now ready: task_2\n"
    record = json.loads((tmp_path / ".tasks" / "task_1.json").read_text())
    assert record == tasks(tmp_path, "show", "task_1", "--json").json
    assert [t["id"] for t in tasks(tmp_path, "list", "--ready", "--json").json] == ["task_2"]


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("show task_9", 2, "There is no task 'task_9'. The newest is task_1."),
        ("show ../x", 2, "There is no task '../x'"),
        ("claim task_1 --as other", 1, "task_1 cannot be claimed by other: "),
        ("complete task_1 --as other", 4, "task_1 is held by me, not by other"),
        ("release task_9", 2, "There is no task 'task_9'"),
        ("cancel task_1", 2, "task_1 cannot be"),
        ("block task_1 --on task_1", 2, "task_1 cannot be"),
        ("edit task_1", 2, "name something to change"),
        ("add   ", 2, "Missing argument"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, line: str, code: int, sentence: str) -> None:
    tasks(tmp_path, "add", "one")
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    before = (tmp_path / ".tasks" / "task_1.json").read_bytes()
    ran = tasks(tmp_path, *line.split())
    assert ran.code == code
    assert sentence in ran.err
    assert ran.out == ""
    assert (tmp_path / ".tasks" / "task_1.json").read_bytes() == before


def test_the_life_of_a_task_by_hand(tmp_path: Path) -> None:
    tasks(tmp_path, "add", "one", "--check", "false", "--plan", "--description", "Twice\nover")
    tasks(tmp_path, "edit", "task_1", "--check", "", "--no-plan", "--label", "a", "--label", "b")
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    assert "held by me" in tasks(tmp_path, "why", "task_1").out
    assert tasks(tmp_path, "release", "task_1").out == "task_1 is pending again\n"
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    assert tasks(tmp_path, "release", "task_1", "--force").code == 0
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    assert tasks(tmp_path, "fail", "task_1", "--note", "No \x1b[31mway").out.endswith(
        "No �[31mway\n"
    )
    assert tasks(tmp_path, "cancel", "task_1").out == "task_1 is cancelled\n"
    shown = tasks(tmp_path, "show", "task_1").out
    assert "  attempt 2 by me: forced" in shown
    assert "  Twice\n  over\n" in shown
    record = tasks(tmp_path, "show", "task_1", "--json").json
    assert (record["labels"], record["check"], record["planRequired"]) == (["a", "b"], None, False)


def test_a_check_that_fails_keeps_the_task(tmp_path: Path) -> None:
    tasks(tmp_path, "add", "one", "--check", "echo no; exit 3")
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    ran = tasks(tmp_path, "complete", "task_1")
    assert ran.code == 1
    assert "failed with status 3" in ran.err
    assert tasks(tmp_path, "show", "task_1", "--json").json["status"] == "in_progress"


def test_a_worktree_by_hand_from_the_task_to_the_landing(root: Path) -> None:
    added = tasks(root, "add", "Write it", "--worktree", "one")
    assert added.code == 0, added.err
    place = Path(tasks(root, "claim", "task_1", "--as", "me").out.split(" work in ")[1].strip())
    assert place == root / "worktrees" / "one"
    (place / "new.txt").write_text("new\n")
    assert "+new" in team_here(root, "worktrees", "diff", "one").out
    refused = team_here(root, "worktrees", "land", "one")
    assert refused.code == 1
    assert "task_1 is in_progress by me" in refused.err
    assert tasks(root, "complete", "task_1").code == 0
    landed = team_here(root, "worktrees", "land", "one", "--json").json
    assert landed[0]["target"] == "main"
    assert (root / "new.txt").read_text() == "new\n"
    assert "landed as" in team_here(root, "worktrees", "list").out
    assert team_here(root, "worktrees", "remove", "one").code == 0
    assert not place.exists()
    assert git(root, "status", "--porcelain") == ""


def test_the_board_stays_out_of_git(root: Path) -> None:
    exclude = root / ".git" / "info" / "exclude"
    tasks(root, "add", "one")
    assert git(root, "status", "--porcelain") == ""
    once = exclude.read_text()
    tasks(root, "add", "two")
    assert exclude.read_text() == once


def test_removing_unlanded_work_takes_a_flag_and_keeps_a_copy(root: Path, tmp_path: Path) -> None:
    tasks(root, "add", "Write it", "--worktree", "one")
    (root / "worktrees" / "one" / "new.txt").write_text("new\n")
    refused = team_here(root, "worktrees", "remove", "one")
    assert (refused.code, "new.txt" in refused.err) == (4, True)
    removed = team_here(root, "worktrees", "remove", "one", "--discard", "--json")
    ref = removed.json["rescued"]["ref"]
    assert ref in team_here(root, "worktrees", "rescue", "list").out
    team_here(root, "worktrees", "rescue", "restore", ref, "--to", str(tmp_path / "back"))
    assert (tmp_path / "back" / "new.txt").read_text() == "new\n"


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        ("worktrees diff nope", 2, "nope"),
        ("worktrees land nope", 2, "nope"),
        ("worktrees remove nope", 2, "nope"),
        ("worktrees create ../x --task task_1", 2, "is not a valid worktree name"),
        ("worktrees create one --task task_9", 2, "There is no task 'task_9'"),
        ("worktrees rescue restore nope", 2, "nope"),
        ("plans show plan_9", 2, "There is no plan 'plan_9'"),
        ("plans approve plan_9 --revision 1", 2, "There is no plan 'plan_9'"),
    ],
)
def test_unknown_names_are_said(root: Path, line: str, code: int, sentence: str) -> None:
    tasks(root, "add", "one")
    ran = team_here(root, *line.split())
    assert (ran.code, sentence in ran.err) == (code, True), ran.err


@pytest.mark.parametrize(
    "line",
    [
        "plans approve plan_1 --revision 1",
        "plans reject plan_1 --revision 1 --feedback x",
        "worktrees land one",
        "worktrees remove one --discard",
        "tasks release task_1 --force",
        "mail send --to lead x",
    ],
)
def test_an_agent_cannot_act_as_a_person(
    root: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_AGENT", "anna")
    ran = team_here(root, *line.split())
    assert ran.code == 4
    assert "only a person may" in ran.err
    assert "the agent anna" in ran.err


def test_status_says_who_does_what(tmp_path: Path) -> None:
    tasks(tmp_path, "add", "one")
    tasks(tmp_path, "add", "two")
    tasks(tmp_path, "claim", "task_1", "--as", "me")
    answer = team_here(tmp_path, "status", "--json").json
    assert answer["ready"] == ["task_2"]
    assert [(t["id"], t["owner"]) for t in answer["inProgress"]] == [("task_1", "me")]
    lines = team_here(tmp_path, "status").out.splitlines()
    assert lines[1:3] == ["no team is running", "1 pending, 1 in_progress"]
