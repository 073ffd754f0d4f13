"""What a task is and which changes of state are allowed: pure functions over frozen records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from team_runtime.types import Json

VERSION: Final = 1
PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
RELEASED: Final = "released"
"""The outcome of an attempt whose owner gave the task back."""
RESUMED: Final = "resumed"
"""The outcome of an attempt that its owner went on with in a later run."""
STATUSES: Final = (PENDING, IN_PROGRESS, COMPLETED, FAILED, CANCELLED)


@dataclass(frozen=True)
class ClaimRecord:
    """The `claim` field of a task on disk."""

    token: str
    epoch: int
    run: str | None
    at: str


@dataclass(frozen=True)
class Attempt:
    """One try at a task, from claim to outcome."""

    owner: str
    run: str | None
    epoch: int
    started: str
    ended: str | None = None
    outcome: str | None = None
    """`completed`, `released`, `failed`, `forced`, `lost` (its run died) or `resumed`."""
    note: str = ""
    base: str | None = None
    head: str | None = None


@dataclass(frozen=True)
class Result:
    """What a completed task left."""

    summary: str
    commit: str | None


@dataclass(frozen=True)
class Task:
    """One durable item of work."""

    id: str
    subject: str
    description: str = ""
    status: str = PENDING
    owner: str | None = None
    blocked_by: tuple[str, ...] = ()
    worktree: str | None = None
    priority: int = 0
    labels: tuple[str, ...] = ()
    created_at: str = ""
    updated_at: str = ""
    created_by: str | None = None
    session: str | None = None
    """The session that the task belongs to; `None` for one made by a person."""
    claim: ClaimRecord | None = None
    attempts: tuple[Attempt, ...] = ()
    plan_required: bool = False
    check: str | None = None
    command: str | None = None
    base: str | None = None
    result: Result | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict)
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Fields we do not know; they survive a rewrite."""

    @property
    def number(self) -> int:
        """The n of `task_<n>`: the order of creation."""
        return int(self.id.rpartition("_")[2])

    @property
    def epoch(self) -> int:
        """The highest claim epoch so far; 0 before the first claim."""
        return max((a.epoch for a in self.attempts), default=0)


@dataclass(frozen=True)
class Why:
    """Why a task is or is not ready."""

    task_id: str
    state: str
    """`ready`, `blocked`, `in_progress`, `completed`, `failed` or `cancelled`."""
    detail: str
    holder: str | None = None
    since: str | None = None
    blockers: tuple[str, ...] = ()


Find: TypeAlias = Callable[[str], Task | None]
"""Looks a task up by its id; `None` when it is not there."""
READY: Final = "ready"
BLOCKED: Final = "blocked"


def readiness(task: Task, find: Find) -> Why:
    """Whether `task` can be claimed, and why not: the one answer that everything uses.

    Only a completed blocker releases its dependants; one that is missing does not.
    """
    if task.status == IN_PROGRESS:
        held = in_force(task)
        if held is None:
            return Why(task.id, IN_PROGRESS, "in_progress, but nobody is named as its owner")
        detail = f"held by {task.owner} since {held.at or 'an unknown time'}, {_bond(held)}"
        return Why(task.id, IN_PROGRESS, detail, task.owner, held.at)
    if task.status != PENDING:
        return Why(task.id, task.status, task.status)
    waits = {id_: find(id_) for id_ in task.blocked_by}
    waits = {id_: b for id_, b in waits.items() if b is None or b.status != COMPLETED}
    if waits:
        detail = "waits for " + ", ".join(f"{id_} ({_state(b)})" for id_, b in waits.items())
        return Why(task.id, BLOCKED, detail, blockers=tuple(waits))
    detail = f"assigned to {task.owner}" if task.owner else "ready to be claimed"
    return Why(task.id, READY, detail, task.owner)


def _bond(held: ClaimRecord) -> str:
    return f"in {held.run}" if held.run else "by a manual claim that only a command ends"


def _state(blocker: Task | None) -> str:
    if blocker is None:
        return "missing"
    return f"{blocker.status}, {blocker.owner}" if in_force(blocker) else blocker.status


def in_force(task: Task) -> ClaimRecord | None:
    """The claim that holds `task` now. One made by hand in the file has no record; it counts as
    manual, with an empty token and the next epoch."""
    if task.status != IN_PROGRESS or task.owner is None:
        return None
    return task.claim or ClaimRecord("", task.epoch + 1, None, task.updated_at)


def lineage(task: Task, left: int | None = None) -> list[int]:
    """The epochs of the claim that holds `task` and of those from which it was carried over to its
    owner, newest first. `left` is one that its owner gave back only because its run was stopped."""
    *earlier, current = task.attempts
    epochs = [current.epoch]
    for attempt in reversed(earlier):
        carried = attempt.outcome == RESUMED or attempt.epoch == left
        if attempt.owner != current.owner or not carried:
            break
        epochs.append(attempt.epoch)
    return epochs


def claimed(task: Task, owner: str, record: ClaimRecord, base: str | None = None) -> Task:
    """`task`, held by `owner` from now on, with a new attempt that starts from `base`."""
    task = let_go(task, record.at, RELEASED, "set to pending by hand")
    attempt = Attempt(owner, record.run, record.epoch, started=record.at, base=base)
    return replace(
        task,
        status=IN_PROGRESS,
        owner=owner,
        claim=record,
        base=base,
        updated_at=record.at,
        attempts=(*task.attempts, attempt),
    )


def let_go(task: Task, at: str, outcome: str, note: str = "", head: str | None = None) -> Task:
    """`task` as pending, held by nobody, with its attempt ended. For any other end, change the
    status of what this returns."""
    held = in_force(task)
    attempts = task.attempts
    if held is not None and held.epoch > task.epoch:  # made by hand, so never recorded
        attempts += (Attempt(str(task.owner), held.run, held.epoch, started=held.at),)
    ended = tuple(
        replace(a, ended=at, outcome=outcome, note=note, head=head) if a.ended is None else a
        for a in attempts
    )
    return replace(task, status=PENDING, owner=None, claim=None, updated_at=at, attempts=ended)


def find_cycle(task_id: str, blocked_by: Sequence[str], find: Find) -> list[str] | None:
    """The way from a task through its blockers back to itself, or `None`."""
    paths = [[task_id, blocker] for blocker in blocked_by]
    seen: set[str] = set()
    while paths:
        path = paths.pop()
        last = path[-1]
        if last == task_id:
            return path
        if last in seen:
            continue
        seen.add(last)
        blocker = find(last)
        paths += [[*path, further] for further in (blocker.blocked_by if blocker else ())]
    return None


def order_of_work(task: Task) -> tuple[int, int]:
    """The sort key of ready tasks: highest priority first, then oldest."""
    return -task.priority, task.number
