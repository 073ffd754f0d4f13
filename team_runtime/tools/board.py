"""`create_task`, `list_tasks`, `get_task`: the board as a model sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import ClassVar

from pydantic import BaseModel, Field

from team_runtime.board.base import Board
from team_runtime.board.codec import task_record
from team_runtime.board.model import Task
from team_runtime.guard.base import Effect
from team_runtime.text import one_line
from team_runtime.tools.base import ToolContext
from team_runtime.tools.inputs import NoInput, Strict


class CreateTaskInput(Strict):
    subject: str = Field(min_length=1)
    description: str = ""
    blockedBy: list[str] = Field(default_factory=list, description="ids such as task_1")
    priority: int = 0
    check: str | None = Field(
        default=None, description="a command that must pass before completion"
    )
    plan_required: bool = False


class CreateTask:
    name: ClassVar[str] = "create_task"
    description: ClassVar[str] = (
        "Add a task to the board. blockedBy takes ids of existing tasks that must be completed "
        "first. Returns the new id."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = CreateTaskInput

    def __init__(self, create: Callable[..., Task], session: str) -> None:
        self._create = create
        self._session = session

    def run(self, input: CreateTaskInput, context: ToolContext) -> str:
        task = self._create(
            input.subject,
            input.description,
            blocked_by=input.blockedBy,
            priority=input.priority,
            check=input.check,
            plan_required=input.plan_required,
            created_by=context.agent,
            session=self._session,
        )
        return f"Created {line(task)}"


class ListTasks:
    name: ClassVar[str] = "list_tasks"
    description: ClassVar[str] = "List all tasks: id, status, owner, blockers, worktree, subject."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = NoInput

    def __init__(self, board: Board) -> None:
        self._board = board

    def run(self, input: NoInput, context: ToolContext) -> str:
        ready = {task.id for task in self._board.ready()}
        lines = [line(task, ready=task.id in ready) for task in self._board.list()]
        return "\n".join(lines) or "No tasks."


class GetTaskInput(Strict):
    task_id: str


class GetTask:
    name: ClassVar[str] = "get_task"
    description: ClassVar[str] = "Show one task in full, and why it is or is not ready."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = GetTaskInput

    def __init__(self, board: Board) -> None:
        self._board = board

    def run(self, input: GetTaskInput, context: ToolContext) -> str:
        shown = task_record(self._board.get(input.task_id))
        if shown.get("claim"):
            shown["claim"] = {k: v for k, v in shown["claim"].items() if k != "token"}
        why = self._board.why(input.task_id)
        return f"{json.dumps(shown, ensure_ascii=False, indent=1)}\n{why.detail}"


def line(task: Task, ready: bool = False) -> str:
    """`task_1 [pending, ready] Subject (owner alice; after task_2; worktree x)`."""
    notes = [
        f"owner {task.owner}" if task.owner else "",
        f"after {', '.join(task.blocked_by)}" if task.blocked_by else "",
        f"worktree {task.worktree}" if task.worktree else "",
    ]
    shown = "; ".join(note for note in notes if note)
    state = f"{task.status}, ready" if ready else task.status
    return f"{task.id} [{state}] {one_line(task.subject)}" + (f" ({shown})" if shown else "")
