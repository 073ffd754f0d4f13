"""Starting, finishing and giving back a task: one service for the loop and the command line.

Gates run here, before the write: hooks, the task's check, and the commit that keeps its work.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.board.base import Board, Claim
from team_runtime.board.checks import check_held
from team_runtime.board.model import PENDING, Task
from team_runtime.errors import (
    CheckFailed,
    NotARepository,
    PlanRefused,
    RefusedError,
    TeamError,
    TransitionRefused,
    WorktreeRefused,
)
from team_runtime.git.merging import begin_merge, unresolved
from team_runtime.git.record import Worktree
from team_runtime.git.run import name_all
from team_runtime.git.worktrees import Worktrees
from team_runtime.plans.files import covers
from team_runtime.process.base import Command, Runner
from team_runtime.store.layout import check_worktree_name
from team_runtime.team.gates import Gates
from team_runtime.text import cut, decode
from team_runtime.tools.base import Place

CHECK_SECONDS: Final = 900.0
_SHOWN: Final = 4000
MERGES: Final = "merges"
"""The key in a task's `metadata` that names the branch to be merged into its worktree first."""


@dataclass(frozen=True)
class Finished:
    """What completing a task left."""

    task: Task
    commit: str | None
    readied: list[Task]


class Work:
    """What it takes to begin and to end an attempt at a task."""

    def __init__(
        self,
        board: Board,
        worktrees: Worktrees | None,
        main: Path,
        runner: Runner,
        environment: Mapping[str, str],
        gates: Gates | None = None,
    ) -> None:
        self.gates = gates or Gates()
        self._board = board
        self._worktrees = worktrees
        self._main = main
        self._runner = runner
        self._environment = environment

    def check_free(self, name: str) -> None:
        """Raises `NameInvalid` or `WorktreeRefused` when no worktree can have this name."""
        check_worktree_name(name)
        if self._find(name) is not None:
            raise WorktreeRefused(name, "the name is taken", "Choose another name.")

    def bind(self, name: str, task_id: str, by: str | None = None) -> Worktree:
        """Make the worktree `name` for a pending task. Picks up after an earlier call that was
        interrupted between binding and making. Raises `WorktreeRefused`, `TransitionRefused`,
        `HookRefused`.

        The name is written first: whoever claims the task meanwhile makes the worktree itself.
        """
        task, known = self._board.get(task_id), self._find(name)
        if task.worktree is not None and (task.worktree != name or known is not None):
            hint = "Use it."
            raise WorktreeRefused(name, f"{task_id} already has worktree {task.worktree!r}", hint)
        if task.worktree is None:
            if task.status != PENDING:
                raise WorktreeRefused(name, f"{task_id} is {task.status}", "Bind a pending task.")
            if known is None or known.task != task_id:
                self.check_free(name)
            self._board.edit(task_id, worktree=name)
        try:
            return self._made(name, task_id, by)
        except TeamError:
            with contextlib.suppress(TeamError):  # claimed meanwhile: its owner sees the same error
                self._board.edit(task_id, worktree=None)
            raise

    def _made(self, name: str, task_id: str, by: str | None) -> Worktree:
        """The worktree of this name, made now if there is none yet."""
        known = self._find(name)
        if known is None:
            self.gates.make_worktree(name, task_id, by)
            try:
                return self.worktrees.create(name, task_id)
            except WorktreeRefused:
                known = self._find(name)  # made meanwhile by whoever bound or claimed the task
                if known is None:
                    raise
        return known

    def _find(self, name: str) -> Worktree | None:
        return next((known for known in self.worktrees.list() if known.name == name), None)

    def start(self, claim: Claim) -> Place:
        """The directory of the claimed task, on a fresh base when nothing was done there yet.

        Raises `WorktreeRefused` or `LandingConflict` when the task cannot have its worktree; the
        claim is then given back (or failed, when its blockers cannot be merged).
        """
        task = self._board.get(claim.task_id)
        if task.worktree is None:
            return Place(self._main, task.id)
        try:
            self._made(task.worktree, task.id, claim.owner)
            worktree, path = self._bound(task)
            base = self.worktrees.refresh_base(worktree, self._blocker_commits(task))
            if MERGES in task.metadata:
                begin_merge(self.worktrees, worktree)
            self._board.set_base(claim, base)
        except TeamError as error:
            # Not a release: an idle teammate would claim it again and fail in the same way.
            self._board.fail(claim, f"its worktree cannot be used: {error}")
            raise
        return Place(path, task.id, task.worktree)

    def resume(self, claim: Claim) -> Place:
        """The directory of a task that was being worked on, as it was left."""
        task = self._board.get(claim.task_id)
        if task.worktree is None:
            return Place(self._main, task.id)
        return Place(self._bound(task)[1], task.id, task.worktree)

    def finish(
        self,
        claim: Claim,
        summary: str,
        runner: Runner | None = None,
        files: Sequence[str] | None = None,
    ) -> Finished:
        """Run the task's check (through the agent's own `runner`, which ends with the agent),
        commit its worktree and complete it. `files` are all that may have changed, if a plan names
        them.

        Raises `CheckFailed`, `HookRefused` or `PlanRefused` (the task stays in progress) or
        `StaleClaim`.
        """
        task = self._held(claim)
        self._refuse_marks(task)
        self._check(task, runner)
        self._refuse_outside(task, files)
        self.gates.complete(task, claim.owner, summary, claim.owner)
        commit = self._commit(claim, task, f"{task.subject}\n\n{summary}".rstrip())
        readied = self._board.complete(claim, summary, commit)
        return Finished(self._board.get(task.id), commit, readied)

    def give_back(self, claim: Claim, note: str) -> str | None:
        """Commit what is there and put the task back to pending. Returns the branch's tip."""
        head = self._snapshot(claim, note)
        self._board.release(claim, note, head)
        return head

    def give_up(self, claim: Claim, note: str) -> str | None:
        """Commit what is there and fail the task. Returns the branch's tip."""
        head = self._snapshot(claim, note)
        self._board.fail(claim, note, head)
        return head

    def keep_rest(self, claim: Claim, files: Sequence[str] | None = None) -> None:
        """Commit what its owner wrote after completing the task, in the same turn; nothing of it
        when it goes beyond the `files` of its plan."""
        task = self._board.get(claim.task_id)
        if task.worktree is None:
            return
        try:
            worktree, _ = self._bound(task)
            if worktree.task == task.id:
                self._refuse_outside(task, files)
                note = f"After its completion: {task.subject}"
                self.worktrees.commit(worktree, note, claim.owner)
        except TeamError:
            return  # removed meanwhile, which keeps it, or changed by hand: left as it is

    def run_check(self, task: Task, folder: Path, what: str, runner: Runner | None = None) -> None:
        """Run the task's check in `folder`, if it has one. Raises `CheckFailed`, saying `what` did
        not happen, or `RefusedError` for a check that came with the repository."""
        if task.check is None:
            return
        self._refuse_foreign(task, what)
        ended = (runner or self._runner).run(
            Command(
                argv=["/bin/sh", "-c", task.check],
                cwd=folder,
                env=self._environment,
                timeout=CHECK_SECONDS,
                merge=True,
            )
        )
        if ended.status != 0 or ended.timed_out:
            output = cut(decode(ended.stdout), _SHOWN)
            raise CheckFailed(command=task.check, status=ended.status, what=what, output=output)

    @property
    def worktrees(self) -> Worktrees:
        """Raises `NotARepository` where there are none."""
        if self._worktrees is None:
            raise NotARepository(
                path=str(self._main),
                cause="it is not a git repository, so no task can have a worktree",
                hint="Run `git init` and make a first commit.",
            )
        return self._worktrees

    def _refuse_foreign(self, task: Task, what: str) -> None:
        """Whoever could write to the repository could have written a task that is tracked in it,
        and its check would run with the user's rights."""
        file = f".tasks/{task.id}.json"
        if self._worktrees is not None and self._worktrees.repository.is_tracked(file):
            hint = f"look at it, then: git rm --cached {file}"
            raise RefusedError(f"{what}, because its check came with the repository; {hint}")

    def _refuse_marks(self, task: Task) -> None:
        if MERGES not in task.metadata:
            return
        left = unresolved(self.worktrees, self._bound(task)[0])
        if left:
            detail = f"marks of the merge are left in {name_all(list(left))}"
            raise TransitionRefused(task.id, "completed", detail)

    def _refuse_outside(self, task: Task, files: Sequence[str] | None) -> None:
        """Commands change files without saying which; git knows. What a merge brings in is not the
        owner's, and in the main checkout the user works too."""
        if files is None or task.worktree is None or MERGES in task.metadata:
            return
        changed = self.worktrees.changed_files(self._bound(task)[0])
        outside = [path for path in changed if not covers(files, path)]
        if outside:
            raise PlanRefused(
                f"{task.id} was not completed: its plan does not name {name_all(outside)}, which "
                "changed. Undo that, or submit_plan a revision that names it."
            )

    def _check(self, task: Task, runner: Runner | None) -> None:
        folder = self._bound(task)[1] if task.worktree else self._main
        self.run_check(task, folder, f"{task.id} was not completed", runner)

    def _commit(self, claim: Claim, task: Task, message: str) -> str | None:
        if task.worktree is None:
            return None
        worktree, _ = self._bound(task)
        return self.worktrees.commit(worktree, message, claim.owner)

    def _held(self, claim: Claim) -> Task:
        """The task, if the claim is still in force: a stale owner must not commit either."""
        task = self._board.get(claim.task_id)
        check_held(task, claim)
        return task

    def _snapshot(self, claim: Claim, note: str) -> str | None:
        task = self._held(claim)
        return self._commit(claim, task, f"Unfinished: {task.subject}\n\n{note}")

    def _bound(self, task: Task) -> tuple[Worktree, Path]:
        assert task.worktree is not None
        worktree = self.worktrees.get(task.worktree)
        return worktree, self.worktrees.verify(worktree)

    def _blocker_commits(self, task: Task) -> list[str]:
        blockers = [self._board.get(blocker) for blocker in task.blocked_by]
        return [b.result.commit for b in blockers if b.result and b.result.commit]
