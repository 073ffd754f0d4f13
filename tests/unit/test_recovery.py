"""What a run finds and puts right before its agents start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.recovery import Recovery
from team_runtime.app.workspace import Workspace
from team_runtime.board.model import lineage
from team_runtime.plans.model import Gate
from team_runtime.store.presence import RunPresence, Runs
from tests.support.api import git, team_environment
from tests.support.scripted_team import make_repository

DEAD = ["run-000000000000000a", "run-000000000000000b"]


@dataclass
class Place:
    """A workspace with a session of anna's, in which runs have died."""

    root: Path
    session: str
    presence: RunPresence

    def as_run(self, run: str) -> Workspace:
        """The workspace as a run that has died meanwhile used it."""
        environ = team_environment(self.root.parent)
        return Workspace(self.root, environ, run=run, presence=Runs(self.workspace.store))

    @property
    def workspace(self) -> Workspace:
        environ = team_environment(self.root.parent)
        return Workspace(self.root, environ, run=self.presence.run, presence=self.presence)

    def save(self, **agent: Any) -> None:
        record = {"runs": DEAD, "agents": [{"name": "anna", **agent}]}
        self.workspace.sessions.save(self.session, record)

    def recover(self) -> list[Any]:
        return Recovery(self.workspace, self.presence).run(self.session)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    root = make_repository(tmp_path / "repository")
    workspace = Workspace(root, team_environment(tmp_path))
    session = workspace.sessions.create({"prompt": "Do it."})["id"]
    presence = RunPresence.start(workspace.store, {})
    yield Place(root, session, presence)
    presence.end()


def approved(workspace: Workspace, task: str, epoch: int, session: str) -> None:
    _, revision = workspace.plans.submit("anna", task, epoch, session, "I will do it.")
    workspace.plans.decide(revision.request_id, True, "lead")


def test_a_plan_follows_its_claim_also_past_a_run_that_died_before_it_carried_it_over(
    place: Place,
) -> None:
    first = place.as_run(DEAD[0])
    task = first.board.create("Do it", plan_required=True)
    claim = first.board.claim(task.id, "anna")
    approved(first, task.id, claim.epoch, place.session)
    place.as_run(DEAD[1]).board.adopt("anna", DEAD[0])
    place.save()
    (kept,) = place.recover()
    assert (kept.task_id, kept.epoch, kept.run) == (task.id, 3, place.presence.run)
    assert lineage(place.workspace.board.get(task.id)) == [3, 2, 1]
    assert place.workspace.plans.gate("anna", task.id, 3) is Gate.APPROVED
    assert place.workspace.sessions.load(place.session)["runs"] == [*DEAD, place.presence.run]


def test_a_task_that_was_given_back_because_its_run_was_stopped_is_taken_up_with_its_plan(
    place: Place,
) -> None:
    workspace = place.as_run(DEAD[0])
    task = workspace.board.create("Do it")
    claim = workspace.board.claim(task.id, "anna")
    approved(workspace, task.id, claim.epoch, place.session)
    workspace.board.release(claim, "the run was interrupted")
    place.save(left={"task": task.id, "epoch": claim.epoch})
    (kept,) = place.recover()
    assert (kept.task_id, kept.owner, kept.epoch) == (task.id, "anna", 2)
    assert place.workspace.plans.gate("anna", task.id, 2) is Gate.APPROVED


def test_a_task_that_a_person_took_away_is_not_taken_up_again(place: Place) -> None:
    workspace = place.as_run(DEAD[0])
    task = workspace.board.create("Do it")
    claim = workspace.board.claim(task.id, "anna")
    workspace.board.release_by_force(task.id)
    place.save(left={"task": task.id, "epoch": claim.epoch})
    assert place.recover() == []
    assert workspace.board.get(task.id).status == "pending"


def test_a_plan_of_an_earlier_claim_does_not_open_the_gate_of_a_later_one(place: Place) -> None:
    workspace = place.as_run(DEAD[0])
    task = workspace.board.create("Do it", plan_required=True)
    claim = workspace.board.claim(task.id, "anna")
    approved(workspace, task.id, claim.epoch, place.session)
    workspace.board.release(claim, "its agent ended its turn without completing it")
    workspace.board.claim(task.id, "anna")
    place.save()
    (kept,) = place.recover()
    assert lineage(workspace.board.get(task.id)) == [3, 2]
    assert workspace.plans.gate("anna", task.id, kept.epoch) is Gate.NONE


def test_what_somebody_else_held_is_given_back_with_its_work_committed(place: Place) -> None:
    workspace = place.as_run(DEAD[0])
    task = workspace.board.create("Do it")
    workspace.work.bind("one", task.id)
    workspace.work.start(workspace.board.claim(task.id, "stranger"))
    (place.root / "worktrees" / "one" / "new.txt").write_text("work\n")
    place.save()
    assert place.recover() == []
    left = workspace.board.get(task.id)
    assert (left.status, [a.outcome for a in left.attempts]) == ("pending", ["lost"])
    assert git(place.root, "show", "team/one:new.txt") == "work"
    assert git(place.root, "status", "--porcelain") == ""
