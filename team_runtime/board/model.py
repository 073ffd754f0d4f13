"""What a task is and which changes of state are allowed: pure functions over frozen records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from team_runtime.types import Json

VERSION: Final = 1
PENDING: Final = "pending"
IN_PROGRESS: Final = "in_progress"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
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
