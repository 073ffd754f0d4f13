"""Landing a task's worktree: only completed work, checked on the combined tree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from team_runtime.board.base import Board
from team_runtime.board.model import COMPLETED, Task
from team_runtime.errors import LandingBlocked, LandingConflict
from team_runtime.git.landing import Landing
from team_runtime.git.record import Landed
from team_runtime.process.base import Runner
from team_runtime.team.member import MEANT_FOR
from team_runtime.team.work import MERGES, Work


class Landings:
    """Moves finished work to its target branch."""

    def __init__(self, board: Board, work: Work, landing: Landing) -> None:
        self._board = board
        self._work = work
        self._landing = landing

    def land(
        self,
        name: str,
        onto: str | None = None,
        runner: Runner | None = None,
        by: str | None = None,
    ) -> Landed:
        """Land the worktree `name`; `runner` runs the check. Raises `LandingBlocked` while its task
        is not completed, `HookRefused`, `LandingConflict`, or `CheckFailed` when the task's check
        fails on the combined tree."""
        worktree = self._work.worktrees.get(name)
        task = self._board.get(worktree.task)
        if task.status != COMPLETED:
            holder = f" by {task.owner}" if task.owner else ""
            raise LandingBlocked(
                name=name,
                target=onto or worktree.target,
                cause=f"{task.id} is {task.status}{holder}",
                hint="Land it once its task is completed.",
            )
        self._work.gates.land(name, task.id, onto or worktree.target, by)
        check = None
        if task.check is not None:

            def check(folder: Path) -> None:
                self._work.run_check(task, folder, f"{name} was not landed", runner)

        commit = task.result.commit if task.result is not None else None
        return self._landing.land(name, onto, check, commit)

    def return_to_owner(self, name: str, conflict: LandingConflict) -> Task:
        """A new task in the same worktree: merge the target and resolve what contradicts it."""
        worktree = self._work.worktrees.get(name)
        done = self._board.get(worktree.task)
        follow = self._work.gates.create_on(
            self._board,
            f"Resolve the conflict of {name} with {conflict.target}",
            f"{conflict.target} was merged into this worktree. Resolve the marks in "
            f"{conflict.files}{conflict.others}, keep what both sides meant, run the tests, and "
            f"complete this task; then {name} can land. It holds the work of {done.id}.",
            priority=done.priority + 1,
            worktree=name,
            check=done.check,
            created_by="runtime",
            session=done.session,
            metadata={MERGES: conflict.target, MEANT_FOR: done.owner},
        )
        self._work.worktrees.registry.change(name, lambda w: replace(w, task=follow.id))
        return follow
