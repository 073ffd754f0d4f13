"""The demo's run, watched from outside at every one of its events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.demo import DemoResult, run_demo
from tests.support.api import git, team_environment
from tests.support.scripted_team import Event, matching

TEAMMATES = ("auth", "login")


class Watched:
    """A run of the demo, with its events and what the user's checkout looked like at each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.events: list[Event] = []
        self.dirty: list[tuple[str, str]] = []
        self.entries: list[tuple[str, dict[str, Any]]] = []
        self.result: DemoResult = run_demo(
            folder,
            team_environment(folder.parent),
            self._event,
            lambda agent, entry: self.entries.append((agent, entry)),
            pace=0.0,
        )

    def _event(self, event: Event) -> None:
        self.events.append(event)
        status = git(self.folder, "status", "--porcelain", "--untracked-files=all")
        if self._is_landing():  # git writes the files and then moves the branch
            status = "\n".join(line for line in status.splitlines() if "U" in line[:2])
        if status or (self.folder / ".git" / "MERGE_HEAD").exists():
            self.dirty.append((event["kind"], status))

    def _is_landing(self) -> bool:
        begun = matching(self.events, "tool_started", "lead", tool="land_worktree")
        return len(begun) > len(matching(self.events, "tool_ended", "lead", tool="land_worktree"))


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(tmp_path_factory.mktemp("demo") / "shop")


def test_it_succeeds(watched: Watched) -> None:
    assert watched.result.succeeded
    assert watched.result.run.exit_code == 0
    assert [task["status"] for task in watched.result.run.tasks] == ["completed", "completed"]


def test_the_users_checkout_is_clean_at_every_event(watched: Watched) -> None:
    assert watched.dirty == []


def test_the_teammates_turns_interleave(watched: Watched) -> None:
    """Each is in a turn while the other is: they work at the same time, not one after another."""
    inside: set[str] = set()
    together = 0
    for event in watched.events:
        if event["agent"] in TEAMMATES and event["kind"] == "turn_started":
            inside.add(event["agent"])
            together += len(inside) == len(TEAMMATES)
        elif event["agent"] in TEAMMATES and event["kind"] == "turn_ended":
            inside.discard(event["agent"])
    assert together > 1


def test_no_file_is_written_before_the_plan_of_its_author_is_approved(watched: Watched) -> None:
    for name in TEAMMATES:
        approved = matching(watched.events, "plan_decided", name, decision="approved")[0]
        edits = [
            event
            for tool in ("write_file", "edit_file", "bash")
            for event in matching(watched.events, "tool_started", name, tool=tool)
        ]
        assert edits
        first = min(watched.events.index(event) for event in edits)
        assert watched.events.index(approved) < first


def test_each_commit_is_on_its_own_branch_and_in_the_target(watched: Watched) -> None:
    commits = {task["id"]: task["result"]["commit"] for task in watched.result.run.tasks}
    assert len(set(commits.values())) == 2
    for task in watched.result.run.tasks:
        branch, commit = f"team/{task['worktree']}", commits[task["id"]]
        assert git(watched.folder, "rev-parse", branch) == commit
        git(watched.folder, "merge-base", "--is-ancestor", commit, "main")
        others = set(commits.values()) - {commit}
        for other in others:
            ancestors = git(watched.folder, "rev-list", branch).split()
            assert other not in ancestors


def test_the_conversations_answer_every_call_once_and_in_order(watched: Watched) -> None:
    for name in ("lead", *TEAMMATES):
        open_calls: list[str] = []
        for agent, entry in watched.entries:
            if agent != name:
                continue
            blocks = entry.get("blocks", [])
            if entry["kind"] == "assistant":
                assert open_calls == []
                open_calls = [b["id"] for b in blocks if b["type"] == "tool_use"]
            elif entry["kind"] == "user" and open_calls:
                assert [b.get("tool_use_id") for b in blocks] == open_calls
                open_calls = []
        assert open_calls == []
