"""Which agent works on which task, where its tools work, and whether it may change anything.

What is remembered here is a lease on the truth: every tool call checks the claim on disk again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from team_runtime.board.base import Board, Claim
from team_runtime.board.checks import check_held
from team_runtime.board.model import Task
from team_runtime.errors import (
    ClaimRefused,
    HookRefused,
    PlanRefused,
    StaleClaim,
    TeamError,
    TransitionRefused,
)
from team_runtime.guard.base import Effect
from team_runtime.guard.hook_events import TASK_CLAIMED
from team_runtime.plans.files import covers
from team_runtime.plans.model import Gate
from team_runtime.plans.store import PlanStore
from team_runtime.process.base import Runner
from team_runtime.team.planning import LEAD
from team_runtime.team.work import Finished, Work
from team_runtime.tools.base import Place


@dataclass(frozen=True)
class Assignment:
    """An agent's task, from claim to the end of the turn that completes it."""

    claim: Claim
    task: Task
    place: Place
    done: bool = False


class Occupants(Protocol):
    """What may still be at work in the directory of a task beside its agent's own calls."""

    def names(self, task_id: str) -> list[str]:
        """What runs for the task now."""
        ...

    def end(self, task_id: str, reason: str, agent: str | None = None) -> None:
        """End it, or what one agent has begun there, and return when nothing of it can change the
        directory any more."""
        ...


class Nobody:
    """The `Occupants` of a team without background commands."""

    def names(self, task_id: str) -> list[str]:
        return []

    def end(self, task_id: str, reason: str, agent: str | None = None) -> None:
        """Nothing runs."""


class Assignments:
    """The assignments of one team. Safe to use from all agents' threads."""

    def __init__(
        self, board: Board, work: Work, plans: PlanStore, main: Path, confined: bool = False
    ) -> None:
        """`confined` says that commands of an agent without a task can change nothing."""
        self._needs_task = {Effect.EDIT} if confined else {Effect.EDIT, Effect.COMMAND}
        self._board = board
        self._work = work
        self._plans = plans
        self._main = main
        self.occupants: Occupants = Nobody()
        """Ended before a directory is committed and handed on."""
        self.on_free: Callable[[], None] = lambda: None
        """Called when the main checkout is free for the next task."""
        self._lock = threading.RLock()
        self._held: dict[str, Assignment] = {}
        self._needs_plan: set[str] = set()

    def of(self, agent: str) -> Assignment | None:
        """The agent's assignment, also a completed one whose turn has not ended."""
        with self._lock:
            return self._held.get(agent)

    def task_of(self, agent: str) -> str | None:
        """The id of the task that the agent has; `None` for none."""
        held = self.of(agent)
        return held.claim.task_id if held else None

    def require_plan(self, agent: str) -> None:
        """Every task of this agent needs an approved plan from now on."""
        with self._lock:
            self._needs_plan.add(agent)

    def claim(self, agent: str, task_id: str) -> Assignment:
        """Claim a task and prepare its directory. Raises `ClaimRefused` and what `Work.start`
        raises."""
        self._ask_hooks(agent, task_id)
        with self._lock:
            self._refuse_second(agent, task_id)
            self._refuse_checkout(agent, self._board.get(task_id))
            claim = self._board.claim(task_id, agent)
            task = self._board.get(task_id)
            if task.worktree is None:  # taken under the lock, so that nobody else gets the checkout
                return self._remember(Assignment(claim, task, Place(self._main, task.id)))
        self.occupants.end(task_id, f"{agent} begins {task_id} anew")
        place = self._work.start(claim)
        return self._remember(Assignment(claim, self._board.get(task_id), place))

    def claim_next(
        self, agent: str, eligible: Callable[[Task], bool], avoid: set[str]
    ) -> Assignment | None:
        """Claim the first ready task that is `eligible`, or `None`. One that a hook keeps from
        this agent is added to `avoid`: it is not asked about again and again."""
        for task in self.claimable(eligible, avoid):
            try:
                return self.claim(agent, task.id)
            except ClaimRefused as refused:
                if refused.reason == "hook":
                    avoid.add(task.id)
        return None

    def claimable(self, eligible: Callable[[Task], bool], avoid: Collection[str]) -> list[Task]:
        """The ready tasks that an agent with these limits could claim now."""
        with self._lock:
            busy = self._checkout_holder() is not None
        return [
            task
            for task in self._board.ready()
            if eligible(task) and task.id not in avoid and not (busy and task.worktree is None)
        ]

    def adopt(self, claim: Claim) -> Assignment:
        """Go on with a task whose claim was carried over from an earlier run."""
        task = self._board.get(claim.task_id)
        return self._remember(Assignment(claim, task, self._work.resume(claim)))

    def take_back(self, agent: str, task_id: str, epoch: int) -> bool:
        """Claim a task again that the agent gave back only because it could not go on, together
        with its plan for that claim's `epoch`. Returns whether it was still free."""
        try:
            last = self._board.get(task_id).attempts[-1]
            if last.epoch != epoch:
                return False
            held = self.claim(agent, task_id)
        except TeamError:
            return False
        self._plans.carry_over(agent, task_id, epoch, held.claim.epoch)
        return True

    def place(self, agent: str) -> Place:
        """Where the agent's tools work. Raises `StaleClaim` when its task was taken from it."""
        held = self.of(agent)
        if held is None:
            return Place(self._main)
        if not held.done:
            task = self._board.get(held.claim.task_id)
            check_held(task, held.claim)
            self._remember(replace(held, task=task))
        return held.place

    def gate(self, agent: str, effect: Effect | None = None) -> str | None:
        """Why the agent may change nothing (in this way) now, or `None`."""
        with self._lock:
            held = self._held.get(agent)
            if held is None and effect in self._needs_task and agent != LEAD:
                return "you have no task, so you can only read: claim one with claim_task first."
            needed = agent in self._needs_plan or (held is not None and held.task.plan_required)
        gate = self._plans.gate(agent, *self.plan_key(agent))
        if gate is Gate.APPROVED or (gate is Gate.NONE and not needed):
            return None
        return {
            Gate.NONE: "your plan must be approved first: read what you need, then submit_plan.",
            Gate.REQUESTED: "a new plan was asked for: submit_plan, and end your turn.",
            Gate.PENDING: "your plan waits for review: end your turn, the decision will wake you.",
            Gate.REJECTED: "your plan was rejected: submit_plan again with what was asked for.",
        }[gate]

    def outside_plan(self, agent: str, path: str) -> str | None:
        """Why the agent's approved plan does not let it change this file, or `None`."""
        files = self._plans.files(agent, *self.plan_key(agent))
        if files is None or covers(files, path):
            return None
        return f"your approved plan does not name {path}: submit_plan a revision that does."

    def waits_for_plan(self, agent: str) -> bool:
        """Whether a plan of this agent is being reviewed."""
        return self._plans.gate(agent, *self.plan_key(agent)) is Gate.PENDING

    def plan_key(self, agent: str) -> tuple[str | None, int]:
        """The task and the claim's epoch to which a plan of the agent belongs now."""
        held = self.of(agent)
        return (held.claim.task_id, held.claim.epoch) if held else (None, 0)

    def complete(self, agent: str, task_id: str, summary: str, runner: Runner) -> Finished:
        """Finish the agent's own task; `runner` runs its check. Its tools stay where they are
        until `let_go`."""
        held = self._own(agent, task_id, "completed")
        closed = self.gate(agent)
        if closed is not None:
            raise PlanRefused(f"{task_id} was not completed: {closed}")
        running = self.occupants.names(task_id)
        if running:
            names = ", ".join(running)
            detail = f"{names} still runs in its directory: wait for its end, or use kill_job"
            raise TransitionRefused(task_id, "completed", detail)
        files = self._plans.files(agent, *self.plan_key(agent))
        finished = self._work.finish(held.claim, summary, runner, files)
        self._remember(replace(held, task=finished.task, done=True))
        return finished

    def give_up(self, agent: str, task_id: str, note: str) -> None:
        """Fail the agent's own task, keeping its work on its branch."""
        held = self._own(agent, task_id, "failed")
        self.occupants.end(task_id, f"{task_id} was given up")
        self._work.give_up(held.claim, note)
        self._forget(agent)

    def release(self, agent: str, note: str) -> str | None:
        """Give an unfinished task back with its work saved; returns its id. A task that was taken
        away meanwhile is only forgotten."""
        held = self.of(agent)
        self._forget(agent)
        if held is None or held.done:
            return None
        # Its own alone: the task may have been taken away, and be another agent's by now.
        self.occupants.end(
            held.claim.task_id, f"{held.claim.task_id} was given back: {note}", agent
        )
        try:
            self._work.give_back(held.claim, note)
        except StaleClaim:
            return None
        except TeamError as error:
            # The snapshot failed (a deleted worktree, a full disk): the claim must not stay behind.
            note = f"{note}; its work could not be committed: {error}"
            with contextlib.suppress(StaleClaim):
                self._board.release(held.claim, note)
        return held.claim.task_id

    def let_go(self, agent: str) -> str | None:
        """The agent's turn ended: a completed task, or one that was taken away, no longer holds
        its tools. Returns the id of one that was taken away."""
        held = self.of(agent)
        if held is None:
            return None
        if held.done:
            files = self._plans.files(agent, *self.plan_key(agent))
            self._forget(agent)
            self.occupants.end(held.claim.task_id, f"{held.claim.task_id} is completed")
            self._work.keep_rest(held.claim, files)
            return None
        try:
            check_held(self._board.get(held.claim.task_id), held.claim)
        except StaleClaim:
            self._forget(agent)
            self.occupants.end(
                held.claim.task_id, f"{held.claim.task_id} was taken from {agent}", agent
            )
            return held.claim.task_id
        return None

    def _ask_hooks(self, agent: str, task_id: str) -> None:
        """Before the claim and without the lock: a hook takes its time."""
        gates = self._work.gates
        if not gates.listens(TASK_CLAIMED):
            return
        task = self._board.get(task_id)
        with self._lock:
            self._refuse_second(agent, task_id)
            self._refuse_checkout(agent, task)
        try:
            gates.claim(task, agent, agent)
        except HookRefused as refused:
            detail = f"a hook refused: {refused.reason}"
            raise ClaimRefused(task_id, agent, "hook", detail) from refused

    def _remember(self, assignment: Assignment) -> Assignment:
        with self._lock:
            self._held[assignment.claim.owner] = assignment
        return assignment

    def _forget(self, agent: str) -> None:
        with self._lock:
            held = self._held.pop(agent, None)
        if held is not None and not held.place.in_task:
            self.on_free()

    def _own(self, agent: str, task_id: str, action: str) -> Assignment:
        held = self.of(agent)
        if held is None or held.claim.task_id != task_id or held.done:
            self._board.get(task_id)
            detail = f"only its owner can do that, and {agent} does not hold it"
            raise TransitionRefused(task_id, action, detail)
        return held

    def _refuse_second(self, agent: str, task_id: str) -> None:
        held = self._held.get(agent)
        if held is not None:
            detail = f"{agent} still has {held.claim.task_id}" + (
                ", whose turn has not ended" if held.done else ""
            )
            raise ClaimRefused(task_id, agent, "owner_busy", detail, agent)
        if self.waits_for_plan(agent):
            detail = f"a plan of {agent} waits for review, and says what it will do next"
            raise ClaimRefused(task_id, agent, "owner_busy", detail, agent)

    def _refuse_checkout(self, agent: str, task: Task) -> None:
        holder = self._checkout_holder()
        if task.worktree is None and holder is not None:
            detail = f"{holder} works in the main checkout, where only one task at a time can run"
            raise ClaimRefused(task.id, agent, "checkout_busy", detail, holder)

    def _checkout_holder(self) -> str | None:
        return next((a for a, held in self._held.items() if not held.place.in_task), None)
