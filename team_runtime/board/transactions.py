"""The rules of a board, over any shelf that can keep tasks and exclude others for a moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import Final

from team_runtime.board.base import Claim, Presence, Tasks
from team_runtime.board.checks import (
    Shelf,
    check_binding,
    check_blockers,
    check_cancellable,
    check_claimable,
    check_free,
    check_held,
    check_owner,
    listed,
    well_formed,
)
from team_runtime.board.model import (
    CANCELLED,
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    PENDING,
    READY,
    RELEASED,
    RESUMED,
    STATUSES,
    ClaimRecord,
    Result,
    Task,
    Why,
    claimed,
    find_cycle,
    in_force,
    let_go,
    order_of_work,
    readiness,
)
from team_runtime.clock import Clock, Entropy, iso
from team_runtime.errors import InputError, StoreFailed, TransitionRefused
from team_runtime.events import Emit
from team_runtime.text import scrub
from team_runtime.types import Json, Liveness

_EDITABLE: Final = (
    "subject",
    "description",
    "priority",
    "labels",
    "check",
    "command",
    "blocked_by",
    "plan_required",
    "metadata",
    "worktree",
)
_TRIES: Final = 100
"""How often a transaction is repeated when a person edits the same file at the same moment."""
_LOST: Final = "the run that held it ended"


class TransactionalBoard(ABC):
    """Everything of `Board` but the keeping. What each method promises is said there."""

    def __init__(
        self, clock: Clock, entropy: Entropy, presence: Presence, run: str | None, emit: Emit
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._presence = presence
        self._run = run
        self._emit = emit

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[Shelf]:
        """The shelf, with every other writer excluded."""

    @abstractmethod
    def _look(self) -> Shelf:
        """The shelf for reading."""

    def create(
        self,
        subject: str,
        description: str = "",
        *,
        blocked_by: Sequence[str] = (),
        priority: int = 0,
        labels: Sequence[str] = (),
        worktree: str | None = None,
        plan_required: bool = False,
        check: str | None = None,
        command: str | None = None,
        created_by: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Json] | None = None,
    ) -> Task:
        now = self._now()
        draft = well_formed(
            Task(
                id="task_0",
                subject=subject,
                description=description,
                blocked_by=listed("blocked_by", blocked_by),
                worktree=worktree,
                priority=priority,
                labels=listed("labels", labels),
                created_at=now,
                updated_at=now,
                created_by=created_by,
                session=session,
                plan_required=plan_required,
                check=check,
                command=command,
                metadata=metadata or {},
            )
        )
        with self._transaction() as shelf:
            check_blockers(shelf, "the new task", draft.blocked_by)
            check_binding(shelf, draft)
            task = shelf.add(lambda task_id: replace(draft, id=task_id))
        self._emit("task_created", created_by, task=task.id, subject=task.subject)
        return _shown(task)

    def get(self, task_id: str) -> Task:
        return _shown(self._look().require(task_id))

    def list(self, status: str | None = None) -> Tasks:
        if status is not None and status not in STATUSES:
            raise InputError(f"{status!r} is no status; use one of {', '.join(STATUSES)}.")
        return [_shown(task) for task in self._look().tasks() if status in (None, task.status)]

    def ready(self) -> Tasks:
        return [_shown(task) for task in _ready(self._look().tasks())]

    def why(self, task_id: str) -> Why:
        shelf = self._look()
        task = shelf.require(task_id)
        why = readiness(task, shelf.find)
        cycle = find_cycle(task_id, why.blockers, shelf.find)
        if cycle:
            return replace(why, detail=f"{why.detail}; it waits for itself: {' → '.join(cycle)}")
        return why

    def edit(self, task_id: str, **changes: Json) -> Task:
        unknown = sorted(changes.keys() - set(_EDITABLE))
        if unknown:
            allowed = ", ".join(_EDITABLE)
            raise InputError(f"{unknown[0]!r} cannot be edited; these can: {allowed}.")
        for key in {"blocked_by", "labels"} & changes.keys():
            changes[key] = listed(key, changes[key])

        def edited(shelf: Shelf, task: Task) -> Task:
            new = well_formed(replace(task, **changes, updated_at=self._now()))
            rewired = new.blocked_by != task.blocked_by
            rebound = new.worktree != task.worktree
            if (rewired or rebound) and task.status != PENDING:
                detail = f"it has been started and is {task.status}"
                raise TransitionRefused(task_id, "bound anew", detail)
            if rewired:
                check_blockers(shelf, task_id, new.blocked_by)
            if rebound:
                check_binding(shelf, new)
            return new

        return _shown(self._change(task_id, edited))

    def claim(self, task_id: str, owner: str) -> Claim:
        check_owner(owner)

        def taken(shelf: Shelf, task: Task) -> Task:
            check_claimable(shelf, task, owner)
            return self._claimed(task, owner)

        return self._announce_claim(self._change(task_id, taken))

    def claim_next(self, owner: str) -> Claim | None:
        """As in `Board`. Raises `ClaimRefused` when the owner still holds a task."""
        check_owner(owner)

        def first_ready(shelf: Shelf) -> Task | None:
            tasks = shelf.tasks()
            check_free(tasks, owner, "the next task")
            return next((t for t in _ready(tasks) if t.owner in (None, owner)), None)

        new = self._change_picked(first_ready, lambda _, task: self._claimed(task, owner))
        return self._announce_claim(new) if new else None

    def claim_of(self, task_id: str) -> Claim:
        return _claim(self._look().require(task_id))

    def set_base(self, claim: Claim, base: str) -> None:
        def based(_: Shelf, task: Task) -> Task:
            check_held(task, claim)
            attempts = tuple(
                replace(attempt, base=base) if attempt.ended is None else attempt
                for attempt in task.attempts
            )
            return replace(task, base=base, attempts=attempts, updated_at=self._now())

        self._change(claim.task_id, based)

    def complete(self, claim: Claim, summary: str = "", commit: str | None = None) -> Tasks:
        result = Result(scrub(summary), commit)

        def completed(_: Shelf, task: Task) -> Task:
            check_held(task, claim)
            ended = let_go(task, self._now(), "completed", head=commit)
            return replace(ended, status=COMPLETED, owner=task.owner, result=result)

        self._change(claim.task_id, completed)
        readied = [task for task in self.ready() if claim.task_id in task.blocked_by]
        self._announce("task_completed", claim, commit=commit)  # those are claimed upon it
        return readied

    def release(self, claim: Claim, note: str = "", head: str | None = None) -> None:
        def released(_: Shelf, task: Task) -> Task:
            check_held(task, claim)
            return let_go(task, self._now(), RELEASED, scrub(note), head)

        self._change(claim.task_id, released)
        self._announce("task_released", claim, note=note)

    def fail(self, claim: Claim, note: str, head: str | None = None) -> None:
        def failed(_: Shelf, task: Task) -> Task:
            check_held(task, claim)
            ended = let_go(task, self._now(), "failed", scrub(note), head)
            return replace(ended, status=FAILED, owner=task.owner)

        self._change(claim.task_id, failed)
        self._announce("task_failed", claim, note=note)

    def release_by_force(self, task_id: str, note: str = "") -> None:
        taken_from: list[Claim] = []

        def forced(_: Shelf, task: Task) -> Task:
            if task.status != IN_PROGRESS:
                raise TransitionRefused(task_id, "released", f"it is {task.status}")
            taken_from[:] = [_claim(task)] if in_force(task) else []
            return let_go(task, self._now(), "forced", scrub(note))

        self._change(task_id, forced)
        for claim in taken_from:
            self._announce("task_released", claim, note=note)

    def cancel(self, task_id: str) -> None:
        def cancelled(_: Shelf, task: Task) -> Task:
            check_cancellable(task)
            return replace(task, status=CANCELLED, updated_at=self._now())

        self._change(task_id, cancelled)
        self._emit("task_cancelled", task=task_id)

    def adopt(self, owner: str, dead_run: str) -> Claim | None:
        """As in `Board`. Whoever resumes a session may also adopt from a run that cannot be
        judged, as after a restart of the machine. Raises `TransitionRefused` for a live run."""

        def left_over(shelf: Shelf) -> Task | None:
            held = (t for t in shelf.tasks() if t.owner == owner and in_force(t))
            return next((t for t in held if t.claim and t.claim.run == dead_run), None)

        def adopted(_: Shelf, task: Task) -> Task:
            if self._presence.liveness(dead_run) is Liveness.ALIVE:
                raise TransitionRefused(task.id, "adopted", f"{dead_run} is alive")
            return self._claimed(let_go(task, self._now(), RESUMED), owner, task.base)

        new = self._change_picked(left_over, adopted)
        return self._announce_claim(new) if new else None

    def reap(self) -> Tasks:
        lost = [task.id for task in self._look().tasks() if self._is_lost(task)]
        returned = (self._give_back(task_id) for task_id in lost)
        return [_shown(task) for task in returned if task is not None]

    def _give_back(self, task_id: str) -> Task | None:
        def still_lost(shelf: Shelf) -> Task | None:
            task = shelf.find(task_id)
            return task if task and self._is_lost(task) else None

        def given_back(_: Shelf, task: Task) -> Task:
            return let_go(task, self._now(), "lost", _LOST)

        new = self._change_picked(still_lost, given_back)
        if new:
            last = new.attempts[-1]
            lost = Claim(task_id, last.owner, "", last.epoch, last.run)
            self._announce("task_released", lost, note=_LOST)
        return new

    def _is_lost(self, task: Task) -> bool:
        held = in_force(task)
        run = held.run if held else None
        return run is not None and self._presence.liveness(run) is Liveness.DEAD

    def _change(self, task_id: str, decide: Callable[[Shelf, Task], Task]) -> Task:
        new = self._change_picked(lambda shelf: shelf.require(task_id), decide)
        assert new is not None
        return new

    def _change_picked(
        self, pick: Callable[[Shelf], Task | None], decide: Callable[[Shelf, Task], Task]
    ) -> Task | None:
        """One transaction: what `decide` makes of the picked task, or `None` when none was picked.
        Both are asked again when a person's edit came in between."""
        with self._transaction() as shelf:
            for _ in range(_TRIES):
                old = pick(shelf)
                if old is None:
                    return None
                new = decide(shelf, old)
                if shelf.replace(old, new):
                    return new
        raise StoreFailed("the task", "written", "somebody else writes to it all the time")

    def _claimed(self, task: Task, owner: str, base: str | None = None) -> Task:
        record = ClaimRecord(self._entropy.token(), task.epoch + 1, self._run, self._now())
        return claimed(task, owner, record, base)

    def _now(self) -> str:
        return iso(self._clock.now())

    def _announce_claim(self, task: Task) -> Claim:
        claim = _claim(task)
        self._announce("task_claimed", claim)
        return claim

    def _announce(self, kind: str, claim: Claim, **more: Json) -> None:
        self._emit(
            kind, claim.owner, task=claim.task_id, owner=claim.owner, epoch=claim.epoch, **more
        )


def _ready(tasks: Iterable[Task]) -> Tasks:
    known = {task.id: task for task in tasks}
    ready = (task for task in known.values() if readiness(task, known.get).state == READY)
    return sorted(ready, key=order_of_work)


def _claim(task: Task) -> Claim:
    """The claim in force. Raises `TransitionRefused` when there is none."""
    held = in_force(task)
    if held is None or task.owner is None:
        raise TransitionRefused(task.id, "worked on", f"nobody holds it, it is {task.status}")
    return Claim(task.id, task.owner, held.token, held.epoch, held.run)


def _shown(task: Task) -> Task:
    """`task` with its own copies of what a caller could change."""
    if not task.metadata and not task.extra:
        return task
    return replace(task, metadata=deepcopy(task.metadata), extra=deepcopy(task.extra))
