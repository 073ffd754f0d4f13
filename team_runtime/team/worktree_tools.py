"""`create_worktree`, `land_worktree`: the git side of a task as the lead sees it."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from team_runtime.errors import LandingConflict
from team_runtime.guard.base import Effect
from team_runtime.team.landings import Landings
from team_runtime.team.work import Work
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import Strict


class CreateWorktreeInput(Strict):
    name: str = Field(description="letters, digits, . _ -")
    task_id: str


class CreateWorktree:
    name: ClassVar[str] = "create_worktree"
    description: ClassVar[str] = (
        "Bind a pending task to a new git worktree with a branch of its own. Do this before the "
        "task is claimed."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = CreateWorktreeInput

    def __init__(self, work: Work) -> None:
        self._work = work

    def run(self, input: CreateWorktreeInput, context: ToolContext) -> str:
        made = self._work.bind(input.name, input.task_id, context.agent)
        return (
            f"Created worktree {made.name} for {input.task_id} on branch {made.branch}; it lands "
            f"on {made.target}."
        )


class LandWorktreeInput(Strict):
    name: str


class LandWorktree:
    name: ClassVar[str] = "land_worktree"
    description: ClassVar[str] = (
        "Merge a completed task's worktree into its target branch. A conflict changes nothing: its "
        "owner gets a task to resolve it in the same worktree, and then you land it again."
    )
    effect: ClassVar[Effect] = Effect.LAND
    input_model: ClassVar[type[BaseModel]] = LandWorktreeInput

    def __init__(self, landings: Landings) -> None:
        self._landings = landings

    def run(self, input: LandWorktreeInput, context: ToolContext) -> str:
        try:
            landed = self._landings.land(input.name, runner=context.runner, by=context.agent)
        except LandingConflict as conflict:
            task = self._landings.return_to_owner(input.name, conflict)
            raise ToolFailure(
                f"{conflict} {task.id} was made to resolve it, for whoever did the work; land "
                f"{input.name} again when it is completed."
            ) from conflict
        return f"Landed {landed.name} on {landed.target}: {landed.merge[:12]}{landed.remark}."
