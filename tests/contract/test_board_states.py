"""Random histories: the files and a dictionary must tell the same story."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from team_runtime.board.base import Claim
from team_runtime.board.json_board import JsonBoard
from team_runtime.board.model import CANCELLED, COMPLETED, FAILED, IN_PROGRESS, PENDING
from team_runtime.errors import (
    ClaimRefused,
    DependencyRefused,
    StaleClaim,
    TransitionRefused,
    UnknownTask,
)
from team_runtime.types import Liveness
from tests.support.state import Presences, make_store

OWNERS = st.sampled_from(["alice", "bob", "carol"])
RUNS = st.sampled_from(["run-1", "run-2", None])
CHOICE = st.integers(min_value=0, max_value=10**6)


class BoardHistory(RuleBasedStateMachine):
    """`status`, `owner` and `blockers` are what must be on disk; `claims` are all ever made."""

    def __init__(self) -> None:
        super().__init__()
        self.workspace = Path(tempfile.mkdtemp())
        self.presences = Presences()
        self.status: dict[str, str] = {}
        self.owner: dict[str, str | None] = {}
        self.blockers: dict[str, set[str]] = {}
        self.claims: list[Claim] = []
        self.current: dict[str, Claim] = {}
        self.created = 0

    def teardown(self) -> None:
        shutil.rmtree(self.workspace)

    def board(self, run: str | None = None) -> JsonBoard:
        """Opened anew each time, as after a restart."""
        return JsonBoard(make_store(self.workspace), self.presences, run)

    def pick(self, choice: int) -> str:
        return sorted(self.status)[choice % len(self.status)]

    def is_ready(self, task: str) -> bool:
        done = all(self.status.get(b) == COMPLETED for b in self.blockers[task])
        return self.status[task] == PENDING and done

    def holds(self, owner: str) -> bool:
        return any(claim.owner == owner for claim in self.current.values())

    def ended(self, task: str, status: str) -> None:
        claim = self.current.pop(task)
        self.status[task] = status
        self.owner[task] = None if status == PENDING else claim.owner

    @rule(choices=st.lists(CHOICE, max_size=2))
    def create(self, choices: list[int]) -> None:
        blockers = {self.pick(choice) for choice in choices} if self.status else set()
        task = self.board().create("x", blocked_by=sorted(blockers))
        self.created += 1
        assert task.id == f"task_{self.created}"
        self.status[task.id], self.owner[task.id] = PENDING, None
        self.blockers[task.id] = blockers

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE, owner=OWNERS, run=RUNS)
    def claim(self, choice: int, owner: str, run: str | None) -> None:
        task = self.pick(choice)
        try:
            claim = self.board(run).claim(task, owner)
        except ClaimRefused:
            assert not self.is_ready(task) or self.holds(owner)
            return
        assert self.is_ready(task)
        assert not self.holds(owner)
        assert claim.epoch > max((c.epoch for c in self.claims if c.task_id == task), default=0)
        self.claims.append(claim)
        self.current[task] = claim
        self.status[task], self.owner[task] = IN_PROGRESS, owner

    @precondition(lambda self: self.claims)
    @rule(choice=CHOICE, end=st.sampled_from([COMPLETED, FAILED, PENDING]))
    def end(self, choice: int, end: str) -> None:
        claim = self.claims[choice % len(self.claims)]
        board = self.board()
        acts = {COMPLETED: board.complete, PENDING: board.release}
        try:
            if end == FAILED:
                board.fail(claim, "why")
            else:
                acts[end](claim)
        except (StaleClaim, UnknownTask):
            assert self.current.get(claim.task_id) != claim
            return
        assert self.current[claim.task_id] == claim
        self.ended(claim.task_id, end)

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE)
    def force(self, choice: int) -> None:
        task = self.pick(choice)
        try:
            self.board().release_by_force(task)
        except TransitionRefused:
            assert self.status[task] != IN_PROGRESS
            return
        self.ended(task, PENDING)

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE)
    def cancel(self, choice: int) -> None:
        task = self.pick(choice)
        try:
            self.board().cancel(task)
        except TransitionRefused:
            assert self.status[task] not in (PENDING, FAILED)
            return
        assert self.status[task] in (PENDING, FAILED)
        self.status[task] = CANCELLED

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE, blocker=CHOICE)
    def wait_for(self, choice: int, blocker: int) -> None:
        task, other = self.pick(choice), self.pick(blocker)
        try:
            self.board().edit(task, blocked_by=[other])
        except (TransitionRefused, DependencyRefused):
            return
        if self.blockers[task] != {other}:
            assert self.status[task] == PENDING
        self.blockers[task] = {other}

    @rule(run=st.sampled_from(["run-1", "run-2"]))
    def crash(self, run: str) -> None:
        self.presences.known[run] = Liveness.DEAD
        lost = {task for task, claim in self.current.items() if claim.run == run}
        assert {task.id for task in self.board().reap()} == lost
        for task in lost:
            self.ended(task, PENDING)
        self.presences.known.clear()

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE)
    def delete(self, choice: int) -> None:
        task = self.pick(choice)
        (self.workspace / ".tasks" / f"{task}.json").unlink()
        del self.status[task], self.owner[task], self.blockers[task]
        self.current.pop(task, None)

    @precondition(lambda self: self.status)
    @rule(choice=CHOICE)
    def corrupt(self, choice: int) -> None:
        task = self.pick(choice)
        path = self.workspace / ".tasks" / f"{task}.json"
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "status": "mangled"}))
        del self.status[task], self.owner[task], self.blockers[task]
        self.current.pop(task, None)

    @invariant()
    def disk_and_model_agree(self) -> None:
        board = self.board()
        tasks = {task.id: task for task in board.list()}
        assert {id_: task.status for id_, task in tasks.items()} == self.status
        assert {id_: task.owner for id_, task in tasks.items()} == self.owner
        assert {task.id for task in board.ready()} == {t for t in self.status if self.is_ready(t)}
        assert all((board.why(t).state == "ready") == self.is_ready(t) for t in tasks)
        for task, claim in self.current.items():
            assert board.claim_of(task) == claim


class ManyBoardHistories(BoardHistory):
    """The same, in large numbers."""


BoardHistory.TestCase.settings = settings(max_examples=30, stateful_step_count=20)
ManyBoardHistories.TestCase.settings = settings(max_examples=100, stateful_step_count=50)
TestBoardHistory = BoardHistory.TestCase
TestManyBoardHistories = pytest.mark.fault(ManyBoardHistories.TestCase)
