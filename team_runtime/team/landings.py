"""Landing a task's worktree: only completed work, checked on the combined tree."""

from __future__ import annotations

from pathlib import Path

from team_runtime.board.base import Board
from team_runtime.board.model import COMPLETED
from team_runtime.errors import LandingBlocked
from team_runtime.git.landing import Landing
from team_runtime.git.record import Landed
from team_runtime.team.work import Work


class Landings:
    """Moves finished work to its target branch."""

    def __init__(self, board: Board, work: Work, landing: Landing) -> None:
        self._board = board
        self._work = work
        self._landing = landing

    def land(self, name: str, onto: str | None = None) -> Landed:
        """Land the worktree `name`. Raises `LandingBlocked` while its task is not completed,
        `LandingConflict`, or `CheckFailed` when the task's check fails on the combined tree."""
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
        check = None
        if task.check is not None:
            command = task.check

            def check(folder: Path) -> None:
                self._work.run_check(command, folder, f"{name} was not landed")

        return self._landing.land(name, onto, check)
