"""Hooks before the board, the plans and the worktrees change: one place for agents and commands.

Each method raises `HookRefused` when a hook refuses; nothing was written then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from team_runtime.board.base import Board, Claim
from team_runtime.board.model import Task
from team_runtime.guard.hook_events import (
    NOTIFICATION,
    PLAN_SUBMITTED,
    TASK_CLAIMED,
    TASK_COMPLETED,
    TASK_CREATED,
    WORKTREE_CREATE,
    WORKTREE_LAND,
)
from team_runtime.guard.hooks import Hooks, Occasion, no_hooks
from team_runtime.types import Json

NOTIFYING_SECONDS: Final = 10.0
"""How long a hook may take to tell a person."""


@dataclass(frozen=True)
class Gates:
    """What hooks are asked, by whom: an agent, or `None` for a person."""

    find: Callable[[], Hooks] = no_hooks
    """The hooks, read when the first one is to be asked."""

    def listens(self, event: str) -> bool:
        """Whether any hook is to be asked."""
        return self.find().listens(event)

    def create(self, subject: str, description: str, by: str | None) -> None:
        self._ask(TASK_CREATED, by, _told(None, subject, description))

    def claim(self, task: Task, owner: str, by: str | None) -> None:
        told = _told(task.id, task.subject, task.description)
        self._ask(TASK_CLAIMED, by, {**told, "owner": owner})

    def complete(self, task: Task, owner: str, summary: str, by: str | None) -> None:
        told = _told(task.id, task.subject, task.description)
        self._ask(TASK_COMPLETED, by, {**told, "owner": owner, "summary": summary})

    def submit(self, plan: str, task_id: str | None, by: str) -> None:
        self._ask(PLAN_SUBMITTED, by, {"plan": plan, "task_id": task_id})

    def make_worktree(self, name: str, task_id: str, by: str | None) -> None:
        self._ask(WORKTREE_CREATE, by, {"name": name, "task_id": task_id})

    def land(self, name: str, task_id: str, target: str, by: str | None) -> None:
        self._ask(WORKTREE_LAND, by, {"name": name, "task_id": task_id, "target": target})

    def notify(self, kind: str, by: str, waiting_id: str, message: str) -> None:
        """Tell hooks that something of this agent begins to wait for a person."""
        hooks = self.find()
        if hooks.listens(NOTIFICATION):
            payload = {
                "message": message,
                "title": "A team waits for you",
                "notification_type": kind,
                "waiting_id": waiting_id,
            }
            hooks.fire(NOTIFICATION, Occasion(by, payload, kind, NOTIFYING_SECONDS))

    def create_on(
        self,
        board: Board,
        subject: str,
        description: str = "",
        *,
        created_by: str | None = None,
        **given: Json,
    ) -> Task:
        """Ask, then add the task as `Board.create` does."""
        self.create(subject, description, created_by)
        return board.create(subject, description, created_by=created_by, **given)

    def claim_on(self, board: Board, task_id: str, owner: str) -> Claim:
        """Ask, then take the task for a person as `Board.claim` does."""
        if self.listens(TASK_CLAIMED):
            self.claim(board.get(task_id), owner, None)
        return board.claim(task_id, owner)

    def _ask(self, event: str, by: str | None, payload: dict[str, Json]) -> None:
        hooks = self.find()
        if hooks.listens(event):
            hooks.gate(event, Occasion(by, payload))


def _told(task_id: str | None, subject: str, description: str) -> dict[str, Json]:
    return {"task_id": task_id, "task_subject": subject, "task_description": description}
