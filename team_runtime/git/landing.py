"""Landing: merging a task's branch into its target without touching anybody's uncommitted work.

The merge is made as an object, in no checkout. The target then moves by compare-and-swap; where it
is checked out in the user's own folder, git moves it there and refuses to overwrite anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from team_runtime.clock import iso
from team_runtime.errors import (
    CommandFailed,
    LandingBlocked,
    LandingConflict,
    TeamError,
    WorktreeRefused,
)
from team_runtime.events import Emit, no_events
from team_runtime.git.commits import commit_tree, merge_trees, with_trailers
from team_runtime.git.folders import admin_folder, delete_folder
from team_runtime.git.intent import Intent, Intents
from team_runtime.git.record import Landed, Worktree
from team_runtime.git.repository import Repository
from team_runtime.git.run import name_all
from team_runtime.git.status import read_status
from team_runtime.git.worktrees import Worktrees
from team_runtime.process.base import Runner
from team_runtime.store.files import Store
from team_runtime.store.locks import LifeLock

_TRIES: Final = 5
_BUSY: Final = {
    "MERGE_HEAD": "merge",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
}
Check = Callable[[Path], None]
"""Looks at the merged files in a folder; what it raises stops the landing."""


@dataclass(frozen=True)
class _Plan:
    """A merge that is ready, and the target's tip that it was made for."""

    worktree: Worktree
    commit: str
    target: str
    old: str
    merge: str

    @property
    def ref(self) -> str:
        return f"refs/heads/{self.target}"

    @property
    def intent(self) -> Intent:
        return Intent(self.worktree.name, self.commit, self.merge, self.target)


class Landing:
    """Lands the worktrees of one workspace."""

    def __init__(
        self, repository: Repository, worktrees: Worktrees, store: Store, emit: Emit = no_events
    ) -> None:
        self._repository = repository
        self._worktrees = worktrees
        self._store = store
        self._emit = emit
        self._intents = Intents(repository, store)
        self._scratch = store.layout.team.resolve()

    def through(self, runner: Runner) -> Landing:
        """The same, with git run by `runner`: each agent has its own."""
        return Landing(
            self._repository.through(runner),
            self._worktrees.through(runner),
            self._store,
            self._emit,
        )

    def land(
        self,
        name: str,
        onto: str | None = None,
        check: Check | None = None,
        commit: str | None = None,
    ) -> Landed:
        """Merge `commit` (default: the tip) of the worktree's branch into `onto` (default: its
        target). What was committed after `commit` stays on the branch.

        What is contained there already is not merged again. Raises `LandingConflict` or
        `LandingBlocked`, and then nothing was changed; or what `check` raised.
        """
        worktree = self._worktrees.get(name)
        self._repository.git.check_drivers(self._repository.tree)
        tip = self._repository.branch_tip(worktree.branch)
        if tip is None:
            hint = f"Look for its commits: git reflog show {worktree.branch}"
            raise WorktreeRefused(name, f"its branch {worktree.branch} is gone", hint)
        if commit is not None and not self._repository.is_ancestor(commit, tip):
            hint = f"Look for it: git branch --all --contains {commit}"
            raise WorktreeRefused(name, f"its branch does not contain {commit[:12]}", hint)
        landed = self._land(worktree, commit or tip, onto or worktree.target, check)
        return replace(landed, left_behind=self._left_behind(worktree))

    def _land(self, worktree: Worktree, commit: str, target: str, check: Check | None) -> Landed:
        for _ in range(_TRIES):
            plan = self._prepare(worktree, commit, target)
            if plan is None:
                return self._contained(worktree, commit, target)
            if check is not None:
                with self._checkout(plan) as folder:
                    check(folder)
            with self._worktrees.lock():
                self._recover()
                if self._move(plan):
                    landed = self._note(plan.intent)
                    self._intents.clear()
                    return landed
        cause = f"{target} moved {_TRIES} times meanwhile"
        raise LandingBlocked(worktree.name, target, cause, "Try again when it is quiet.")

    def recover(self) -> Sequence[str]:
        """At start: finish or undo a landing in the user's checkout whose process was killed.
        Returns a message when a person has to look."""
        with self._worktrees.lock():
            self._sweep()
            return self._recover()

    def _recover(self) -> list[str]:
        intent = self._intents.read()
        if intent is None:
            return []
        self._intents.unlock(intent)
        repository, left = self._repository, list[str]()
        tip = repository.branch_tip(intent.target)
        if tip is not None and repository.is_ancestor(intent.merge, tip):
            self._note(intent)
        elif tip != repository.tip(f"{intent.merge}^1") or not self._is_here(intent):
            left = [f"{intent.target} has moved on since, so look at: git status"]
        elif edited := self._intents.undo(intent):
            left = [f"it was undone, but for what was edited since: {name_all(list(edited))}"]
        self._intents.clear()
        return [f"A landing of {intent.name} was interrupted; {what}" for what in left]

    def _is_here(self, intent: Intent) -> bool:
        """Whether the user's own checkout has the target checked out."""
        return self._repository.head_branch() == intent.target

    def _prepare(self, worktree: Worktree, commit: str, target: str) -> _Plan | None:
        """Make the merge commit; `None` when the target contains everything."""
        repository = self._repository
        old = repository.branch_tip(target)
        if old is None:
            hint = "Name a branch that exists, with --onto."
            raise LandingBlocked(worktree.name, target, f"there is no branch {target!r}", hint)
        if repository.is_ancestor(commit, old):
            return None
        merge = merge_trees(repository.git, repository.tree, old, commit)
        if merge.conflicts:
            raise LandingConflict(
                name=worktree.name,
                target=target,
                files=name_all(merge.conflicts),
                others=self._others(commit, old, merge.conflicts),
            )
        message = with_trailers(
            f"Land {worktree.name} on {target}", Task=worktree.task, Worktree=worktree.name
        )
        made = commit_tree(repository.git, repository.tree, merge.tree, [old, commit], message)
        return _Plan(worktree, commit, target, old, made)

    def _others(self, commit: str, old: str, files: list[str]) -> str:
        """Who else landed those files, as our merge commits tell."""
        git, tree = self._repository.git, self._repository.tree
        base = git.text(tree, "merge-base", commit, old)
        form = "%(trailers:key=Worktree,valueonly,separator=)%x1f%(trailers:key=Task,valueonly)"
        shown = git.items(
            tree,
            *("log", "-z", "--first-parent", "--no-show-signature", f"--format={form}"),
            *(f"{base}..{old}", "--", *files[:100]),
        )
        pairs = [item.strip().partition("\x1f") for item in shown]
        landed = {name: task.strip() for name, _, task in pairs if name}
        if not landed:
            return ""
        return ", landed by " + ", ".join(f"{name} ({task})" for name, task in landed.items())

    @contextmanager
    def _checkout(self, plan: _Plan) -> Iterator[Path]:
        """A folder with the merged files, for as long as a check runs."""
        folder = self._scratch / f"check-{self._store.entropy.token()}"
        git, tree = self._repository.git, self._repository.tree
        with self._worktrees.lock():
            self._sweep()
            git.run(tree, "worktree", "add", "--quiet", "--detach", str(folder), plan.merge)
            in_use = _lock_folder(folder)
        try:
            yield folder
        finally:
            in_use.release()
            with self._worktrees.lock():
                self._sweep()

    def _sweep(self) -> None:
        """Remove the folders of checks that have ended, or whose process was killed."""
        for folder in self._scratch.glob("check-*"):
            with suppress(BlockingIOError):
                in_use = _lock_folder(folder)
                admin = admin_folder(self._repository.tree.common_dir, folder)
                delete_folder(folder)
                if admin is not None:
                    delete_folder(admin)
                in_use.release()

    def _move(self, plan: _Plan) -> bool:
        """Let the target name the merge; returns false when it had moved on."""
        repository = self._repository
        self._refuse_busy(plan)
        holders = [each for each in repository.checkouts() if each.branch == plan.ref]
        for holder in holders:
            if holder.path != repository.root:
                cause = f"{plan.target} is checked out in {holder.path}"
                hint = "Switch that checkout to another branch, or land from there."
                raise LandingBlocked(plan.worktree.name, plan.target, cause, hint)
        if not holders:
            return repository.move(plan.ref, plan.merge, plan.old)
        return self._move_checkout(plan)

    def _refuse_busy(self, plan: _Plan) -> None:
        for name, what in _BUSY.items():
            if (self._repository.tree.git_dir / name).exists():
                cause = f"a {what} is in progress in {self._repository.root}"
                hint = "Finish or abort it first."
                raise LandingBlocked(plan.worktree.name, plan.target, cause, hint)

    def _move_checkout(self, plan: _Plan) -> bool:
        """Move the branch that the user has checked out, files included."""
        repository = self._repository
        changed = repository.changed_paths(plan.old, plan.merge)
        dirty = repository.status().overlap(changed)
        if dirty:
            cause = f"the checkout has uncommitted or ignored files in the way: {name_all(dirty)}"
            hint = "Commit, stash or move them, then land again."
            raise LandingBlocked(plan.worktree.name, plan.target, cause, hint)
        self._intents.write(plan.intent)
        try:
            repository.fast_forward(repository.tree, plan.merge)
        except CommandFailed as error:
            moved = repository.branch_tip(plan.target) != plan.old
            if not moved and self._is_here(plan.intent):
                self._intents.undo(plan.intent)
            self._intents.clear()
            if moved:
                return False
            hint = "Commit, stash or move what is in the way, then land again."
            raise LandingBlocked(plan.worktree.name, plan.target, error.output, hint) from error
        return True

    def _note(self, intent: Intent) -> Landed:
        """Write a landing into the worktree's record, unless it is there."""
        at = iso(self._store.clock.now())
        landed = Landed(intent.name, intent.commit, intent.merge, intent.target, at)
        worktree = self._worktrees.registry.find(intent.name)
        if worktree is None or any(one.merge == intent.merge for one in worktree.landed):
            return landed
        self._worktrees.registry.change(
            intent.name, lambda record: replace(record, landed=(*record.landed, landed))
        )
        self._emit("worktree_landed", task=worktree.task, **asdict(intent))
        return landed

    def _contained(self, worktree: Worktree, commit: str, target: str) -> Landed:
        """The landing of a commit that is in the target already, perhaps by a merge of the user's
        or by one of ours whose process was killed before it was recorded."""
        for one in worktree.landed:
            if (one.commit, one.target) == (commit, target):
                return one
        ref = f"refs/heads/{target}"
        later = self._repository.git.text(
            self._repository.tree,
            *("rev-list", "--first-parent", "--ancestry-path", "--reverse", f"{commit}..{ref}"),
        ).splitlines()
        intent = Intent(worktree.name, commit, later[0] if later else commit, target)
        if self._repository.is_ancestor(commit, worktree.base):  # there was nothing to land
            at = iso(self._store.clock.now())
            return Landed(worktree.name, commit, intent.merge, target, at)
        return self._note(intent)

    def _left_behind(self, worktree: Worktree) -> tuple[str, ...]:
        try:
            self._worktrees.verify(worktree)
        except TeamError:
            return ()
        status = read_status(self._repository.git, worktree.tree)
        return (*status.modified, *status.untracked)


def _lock_folder(folder: Path) -> LifeLock:
    """Keep `folder` from being swept while this process lives. Raises `BlockingIOError`."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return LifeLock(descriptor)
    except BlockingIOError:
        os.close(descriptor)
        raise
