"""`claim_task`, `complete_task`, `update_task`: what changes who works on what."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.team.team import Team
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.board import line
from team_runtime.tools.inputs import Strict


class ClaimTaskInput(Strict):
    task_id: str


class ClaimTask:
    name: ClassVar[str] = "claim_task"
    description: ClassVar[str] = (
        "Claim a ready task for yourself. Your tools then work in its directory. One at a time."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = ClaimTaskInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: ClaimTaskInput, context: ToolContext) -> str:
        held = self._team.parts.assignments.claim(context.agent, input.task_id)
        return f"{line(held.task)}\n{held.task.description}\nDirectory: {held.place.root}"


class CompleteTaskInput(Strict):
    task_id: str
    summary: str = Field(default="", description="one sentence: what was done")


class CompleteTask:
    name: ClassVar[str] = "complete_task"
    description: ClassVar[str] = (
        "Complete your task. Its check is run and its directory is committed for you first; if the "
        "check fails the task stays yours."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = CompleteTaskInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: CompleteTaskInput, context: ToolContext) -> str:
        task = self._team.parts.board.get(input.task_id)
        runner = context.runner
        if task.worktree is None and task.created_by is not None and context.reader is not None:
            runner = context.reader  # no agent's command changes the main checkout unasked
        finished = self._team.parts.assignments.complete(
            context.agent, input.task_id, input.summary, runner
        )
        commit = f" as commit {finished.commit[:12]}" if finished.commit else ""
        readied = ", ".join(task.id for task in finished.readied)
        return f"Completed {input.task_id}{commit}." + (
            f" Now ready: {readied}." if readied else ""
        )


class UpdateTaskInput(Strict):
    task_id: str
    subject: str | None = Field(default=None, min_length=1)
    description: str | None = None
    priority: int | None = None
    addBlockedBy: list[str] = Field(default_factory=list)
    removeBlockedBy: list[str] = Field(default_factory=list)
    status: Literal["cancelled", "failed"] | None = Field(
        default=None,
        description="cancelled: call off a pending task; failed: give up your own task",
    )
    note: str = Field(default="", description="why it failed")


class UpdateTask:
    name: ClassVar[str] = "update_task"
    description: ClassVar[str] = (
        "Change a task's text, priority or dependencies (before it is started), call off a pending "
        "task, or give up your own with a note."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = UpdateTaskInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: UpdateTaskInput, context: ToolContext) -> str:
        board = self._team.parts.board
        task = board.get(input.task_id)
        changes = {
            key: value
            for key in ("subject", "description", "priority")
            if (value := getattr(input, key)) is not None
        }
        if input.addBlockedBy or input.removeBlockedBy:
            kept = [b for b in task.blocked_by if b not in input.removeBlockedBy]
            added = [b for b in input.addBlockedBy if b not in kept]
            changes["blocked_by"] = [*kept, *added]
        if not changes and input.status is None:
            raise ToolFailure("Nothing to change was named; nothing was changed.")
        if changes:
            board.edit(input.task_id, **changes)
        if input.status == "cancelled":
            board.cancel(input.task_id)
        elif input.status == "failed":
            note = input.note or "given up by its owner"
            self._team.parts.assignments.give_up(context.agent, input.task_id, note)
        return f"Updated {line(board.get(input.task_id))}"
