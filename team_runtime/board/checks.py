"""What must hold before a task may change. Each check raises the error that names the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from team_runtime.board import codec
from team_runtime.board.base import Claim
from team_runtime.board.model import (
    BLOCKED,
    IN_PROGRESS,
    PENDING,
    Task,
    find_cycle,
    in_force,
    readiness,
)
from team_runtime.errors import (
    ClaimRefused,
    DependencyRefused,
    InputError,
    RecordBroken,
    StaleClaim,
    TransitionRefused,
)
from team_runtime.store.layout import check_worktree_name
from team_runtime.text import scrub
from team_runtime.types import Json


class Shelf(Protocol):
    """Where a board keeps its tasks."""

    def find(self, task_id: str) -> Task | None:
        """The task, or `None` when it is not there or cannot be understood."""
        ...

    def require(self, task_id: str) -> Task:
        """The task. Raises `UnknownTask`, or `VersionTooNew`."""
        ...

    def tasks(self) -> list[Task]:
        """All tasks that can be read, in order of creation."""
        ...

    def add(self, build: Callable[[str], Task]) -> Task:
        """Keep the task that `build` makes of an id never used before."""
        ...

    def replace(self, old: Task, new: Task) -> bool:
        """Keep `new` instead of `old`; false when `old` is not what is kept any more."""
        ...


def well_formed(task: Task) -> Task:
    """`task` as it would be read back. Raises `InputError` for what cannot be kept."""
    if not task.subject.strip():
        raise InputError("The subject is blank; say in a few words what is to be done.")
    if task.worktree is not None:
        check_worktree_name(task.worktree)
    clean = replace(task, subject=scrub(task.subject), description=scrub(task.description))
    try:
        return codec.decode(codec.encode(clean), Path(f"{task.id}.json"))
    except RecordBroken as error:
        raise InputError(f"The task cannot be kept: {error.cause}.") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"The metadata is not JSON: {error}.") from error


def listed(name: str, values: Json) -> tuple[str, ...]:
    """`values` without repetitions. Raises `InputError` for text, which is a list of letters."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InputError(f"`{name}` takes a list, not {values!r}.")
    return tuple(dict.fromkeys(values))


def check_owner(owner: str) -> None:
    if not owner.strip():
        raise InputError("The owner is blank; say who claims the task.")


def check_claimable(shelf: Shelf, task: Task, owner: str) -> None:
    """Raises `ClaimRefused` with the first reason that applies."""
    why = readiness(task, shelf.find)
    if why.state == IN_PROGRESS:
        raise ClaimRefused(task.id, owner, "claimed", f"already {why.detail}", why.holder)
    if why.state == BLOCKED:
        raise ClaimRefused(task.id, owner, "blocked", f"it {why.detail}")
    if task.status != PENDING:
        raise ClaimRefused(task.id, owner, "not_pending", f"it is {task.status}", task.owner)
    if task.owner not in (None, owner):
        raise ClaimRefused(task.id, owner, "claimed", f"it is {why.detail}", task.owner)
    check_free(shelf.tasks(), owner, task.id)


def check_free(tasks: Iterable[Task], owner: str, wanted: str) -> None:
    """One open task per owner, whichever run holds it. Raises `ClaimRefused`."""
    for task in tasks:
        if task.owner == owner and in_force(task):
            detail = f"{owner} still holds {task.id}; complete or release it first"
            raise ClaimRefused(wanted, owner, "owner_busy", detail, owner)


def check_held(task: Task, claim: Claim) -> None:
    """Fencing: only the claim that is in force may write. Raises `StaleClaim`."""
    held = in_force(task)
    if held is None:
        raise StaleClaim(task.id, claim.owner, f"it is {task.status}")
    if task.owner != claim.owner:
        raise StaleClaim(task.id, claim.owner, f"{task.owner} holds it, epoch {held.epoch}")
    if (held.token, held.epoch) != (claim.token, claim.epoch):
        why = f"the claim of epoch {claim.epoch} was followed by one of epoch {held.epoch}"
        raise StaleClaim(task.id, claim.owner, why)


def check_cancellable(task: Task) -> None:
    held = f", held by {task.owner}; release it first" if in_force(task) else ""
    if held or task.status not in (PENDING, "failed"):
        raise TransitionRefused(task.id, "cancelled", f"it is {task.status}{held}")


def check_blockers(shelf: Shelf, task_id: str, blocked_by: Sequence[str]) -> None:
    """Raises `DependencyRefused` for self-edges, unknown blockers and cycles."""
    for blocker in blocked_by:
        if blocker == task_id:
            raise DependencyRefused(task_id, blocker, "a task cannot wait for itself")
        if shelf.find(blocker) is None:
            same = next((t.id for t in shelf.tasks() if t.subject == blocker), None)
            hint = f"; that is the subject of {same}, so use the id {same}" if same else ""
            raise DependencyRefused(task_id, blocker, f"there is no such task{hint}")
        cycle = find_cycle(task_id, [blocker], shelf.find)
        if cycle:
            detail = f"they would wait for each other: {' → '.join(cycle)}"
            raise DependencyRefused(task_id, blocker, detail)


def check_binding(shelf: Shelf, task: Task) -> None:
    """A worktree belongs to one open task. Raises `InputError`, which names the other."""
    if task.worktree is None:
        return
    for other in shelf.tasks():
        is_open = other.status in (PENDING, IN_PROGRESS)
        if is_open and other.id != task.id and other.worktree == task.worktree:
            raise InputError(f"Worktree {task.worktree!r} is bound to {other.id} already.")
