"""What a run does before its agents start: put right what an earlier process left in the middle.

The order matters. Left-over processes are ended before anybody else gets their worktree; a resumed
session adopts the claims of its agents before claims of dead runs are given back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from team_runtime.app.workspace import Workspace
from team_runtime.board.base import Claim
from team_runtime.board.model import PENDING, Task
from team_runtime.errors import TeamError
from team_runtime.process.orphans import end_left_by
from team_runtime.store.presence import Runs
from team_runtime.types import Json, Liveness


@dataclass(frozen=True)
class Recovery:
    """The recovery of one workspace at the start of one run."""

    workspace: Workspace
    runs: Runs

    def prepare(self) -> None:
        """End what dead runs left running, and finish or undo git work that was cut off."""
        workspace = self.workspace
        for user in end_left_by(self._dead()):
            workspace.events.emit("process_ended", pid=user.pid, name=user.name)
        workspace.repository.exclude_runtime_files()
        for message in (*workspace.landing.recover(), *workspace.worktrees.recover()):
            workspace.events.emit("notice", text=message)

    def adopt(self, session: Mapping[str, Json]) -> list[Claim]:
        """The claims of a resumed session's agents, carried over to this run with their plans."""
        left = {agent["name"]: agent.get("left") for agent in session.get("agents", [])}
        claims = []
        for agent in ("lead", *(name for name in left if name != "lead")):
            claim = self._adopt(agent, session.get("runs", [])) or self._claim_again(
                agent, left.get(agent)
            )
            if claim is not None:
                self.workspace.plans.carry_over(agent, claim.task_id, claim.epoch - 1, claim.epoch)
                claims.append(claim)
        return claims

    def clear(self) -> list[Task]:
        """Give back what dead runs still hold, with what is in their worktrees committed."""
        returned = self.workspace.board.reap()
        for task in returned:
            self._snapshot(task)
        for run in self._dead():
            self.runs.forget(run)
        return returned

    def _dead(self) -> list[str]:
        known = [str(record["run"]) for record in self.runs.known()]
        return [run for run in known if self.runs.liveness(run) is Liveness.DEAD]

    def _adopt(self, agent: str, runs: list[str]) -> Claim | None:
        for run in reversed(runs):
            claim = self.workspace.board.adopt(agent, run)
            if claim is not None:
                return claim
        return None

    def _claim_again(self, agent: str, left: Mapping[str, Json] | None) -> Claim | None:
        """The task that the agent gave back when its run was stopped, if it is still free."""
        if left is None:
            return None
        board = self.workspace.board
        try:
            task = board.get(left["task"])
            if task.status != PENDING or task.epoch != left["epoch"]:
                return None
            return board.claim(task.id, agent)
        except TeamError:
            return None

    def _snapshot(self, task: Task) -> None:
        if task.worktree is None:
            return
        worktrees = self.workspace.worktrees
        note = f"Unfinished: {task.subject}\n\nIts run ended without giving it back."
        try:
            worktrees.commit(worktrees.get(task.worktree), note, task.attempts[-1].owner)
        except TeamError as error:
            # The work stays in the folder, where the next owner finds it.
            self.workspace.events.emit("notice", text=f"{task.id}: {error}")
