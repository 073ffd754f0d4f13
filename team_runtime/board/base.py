"""What a board is. Methods are whole transactions; no lock and no file appears here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from team_runtime.board.model import Task, Why
from team_runtime.types import Json, Liveness

Tasks: TypeAlias = list[Task]
"""Named, because inside a board `list` is a method."""


@dataclass(frozen=True)
class Claim:
    """The right to work on a task. Every write by the owner carries it, and a stale one is refused
    (fencing). `run` is `None` for a manual claim, which only an explicit command ends."""

    task_id: str
    owner: str
    token: str
    epoch: int
    run: str | None


class Presence(Protocol):
    """Answers whether the process behind a run is alive."""

    def liveness(self, run: str) -> Liveness:
        """`ALIVE`, `DEAD`, or `UNKNOWN` when it cannot be told (another host or boot)."""
        ...


class Board(Protocol):
    """Durable tasks, claimed atomically. Every method that returns has survived power loss.

    All raise `UnknownTask` for an id that is not there, `StoreBusy` or `StoreFailed` from below.
    """

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
        """Add a task. Raises `DependencyRefused` for unknown blockers, `InputError` for a blank
        subject."""
        ...

    def get(self, task_id: str) -> Task:
        """The task as it is on disk now."""
        ...

    def list(self, status: str | None = None) -> Tasks:
        """All tasks, or those with `status`, in order of creation."""
        ...

    def ready(self) -> Tasks:
        """The tasks that can be claimed now: highest priority first, then oldest."""
        ...

    def why(self, task_id: str) -> Why:
        """Why the task is or is not ready, who holds it, and since when."""
        ...

    def edit(self, task_id: str, **changes: Json) -> Task:
        """Change `subject`, `description`, `priority`, `labels`, `check`, `command`, `blocked_by`,
        `plan_required`, `metadata` or `worktree`. Raises `DependencyRefused` for cycles,
        self-edges and unknown blockers, `TransitionRefused` for dependencies or a worktree of a
        task that has been started, `InputError` for anything else."""
        ...

    def claim(self, task_id: str, owner: str) -> Claim:
        """Take the task. Raises `ClaimRefused`, which names the reason and the holder."""
        ...

    def claim_next(self, owner: str) -> Claim | None:
        """Take the first ready task, or `None`."""
        ...

    def claim_of(self, task_id: str) -> Claim:
        """The claim that is in force, also one made by hand in the file. Raises
        `TransitionRefused` when nobody holds the task."""
        ...

    def set_base(self, claim: Claim, base: str) -> None:
        """Record the commit from which this attempt starts."""
        ...

    def complete(self, claim: Claim, summary: str = "", commit: str | None = None) -> Tasks:
        """Finish the task; returns the dependants that became ready. Raises `StaleClaim`."""
        ...

    def release(self, claim: Claim, note: str = "", head: str | None = None) -> None:
        """Put the task back to pending, recording the attempt. Raises `StaleClaim`."""
        ...

    def fail(self, claim: Claim, note: str, head: str | None = None) -> None:
        """Give the task up; its dependants stay blocked. Raises `StaleClaim`."""
        ...

    def release_by_force(self, task_id: str, note: str = "") -> None:
        """A person's decision: put a held task back to pending, whoever holds it."""
        ...

    def cancel(self, task_id: str) -> None:
        """Call off a task that is pending or failed. Raises `TransitionRefused` otherwise."""
        ...

    def adopt(self, owner: str, dead_run: str) -> Claim | None:
        """For a resumed session: turn the claim that `owner` held in `dead_run` into one of this
        run (new token, epoch + 1, attempt outcome `resumed`). `None` when there is none."""
        ...

    def reap(self) -> Tasks:
        """Return claims of dead runs to pending with the attempt recorded; returns those tasks."""
        ...
