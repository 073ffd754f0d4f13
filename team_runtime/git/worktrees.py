"""Worktrees: one for each bound task, on a branch of its own.

The runtime commits on the agent's behalf, checks before each use that the folder is still the one
it made, and removes nothing that would be lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from team_runtime.errors import (
    CommandFailed,
    LandingConflict,
    TeamError,
    WorktreeRefused,
)
from team_runtime.events import Emit, no_events
from team_runtime.git.commits import (
    commit_tree,
    identity,
    merge_trees,
    snapshot,
    stage,
    with_trailers,
)
from team_runtime.git.creation import Creation
from team_runtime.git.folders import clear_locks, pointer, read_line
from team_runtime.git.record import CREATING, READY, Registry, Worktree, refusal_of_foreign
from team_runtime.git.removal import Losses, Removal, Removals
from team_runtime.git.repository import Repository
from team_runtime.git.rescue import Rescued
from team_runtime.git.run import name_all, split
from team_runtime.git.status import Status, read_status
from team_runtime.process.base import Runner
from team_runtime.store.files import Store

__all__ = ["Losses", "Removal", "Rescued", "Worktree", "Worktrees"]

LOCK_SECONDS: Final = 600.0
"""How long to wait for others who make, remove or land worktrees of a large repository."""


class Worktrees:
    """The worktrees of one workspace. Safe for threads and processes."""

    def __init__(self, repository: Repository, store: Store, emit: Emit = no_events) -> None:
        self.repository = repository
        self._store = store
        self._emit = emit
        self.registry = Registry(store)
        self._creation = Creation(repository, store, self.registry)
        self._removals = Removals(repository, store, self.registry, self._creation)

    def through(self, runner: Runner) -> Worktrees:
        """The same worktrees, with git run by `runner`: each agent has its own."""
        return Worktrees(self.repository.through(runner), self._store, self._emit)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep others from making, removing and landing worktrees. Not reentrant."""
        with self._store.lock("git", LOCK_SECONDS):
            yield

    def create(
        self, name: str, task_id: str, start: str | None = None, onto: str | None = None
    ) -> Worktree:
        """Make the worktree `name` with its branch, from `start` (default: the tip of the branch
        that is checked out, on which it will land; `onto` names another).

        Raises `NameInvalid`, `WorktreeRefused` when anything of that name is there already, or
        `RefusedError` where files would be stored otherwise than the repository's settings say.
        """
        self.repository.git.check_drivers(self.repository.tree)
        with self.lock():
            self.repository.exclude_runtime_files()
            worktree = self._creation.create(name, task_id, start, onto)
        self._emit(
            "worktree_created",
            name=name,
            task=task_id,
            base=worktree.base,
            target=worktree.target,
        )
        return worktree

    def get(self, name: str) -> Worktree:
        """The worktree `name`. Raises `WorktreeRefused` when there is none."""
        return self.registry.get(name)

    def list(self) -> list[Worktree]:
        """Every worktree, by name; not those that are just being made or removed."""
        return [worktree for worktree in self.registry.all() if worktree.state == READY]

    def verify(self, worktree: Worktree) -> Path:
        """The folder of `worktree`, once it is sure to be the one that was made.

        Raises `WorktreeRefused`; there is never a fall-back to another folder.
        """
        path, name = worktree.path, worktree.name
        if worktree.state != READY:
            raise WorktreeRefused(name, f"it is {worktree.state}", "Wait, or remove it.")
        if path.is_symlink() or not path.is_dir():
            hint = f"Its commits are on {worktree.branch}; put the folder back, or remove it."
            raise WorktreeRefused(name, f"its folder {path} is gone", hint)
        if pointer(path) != worktree.git_dir:
            hint = f"Look at it before anybody runs git there; mend it: git worktree repair {path}"
            raise WorktreeRefused(name, f"{path / '.git'} was changed", hint)
        if not self._is_registered(worktree):
            raise WorktreeRefused(name, "git has lost it", f"Mend it: git worktree repair {path}")
        head = self._head(worktree)
        if head != worktree.ref:
            hint = f"Go back to it: git -C {path} switch {worktree.branch}"
            raise WorktreeRefused(name, f"{worktree.branch} is not checked out in it", hint)
        return path

    def _is_registered(self, worktree: Worktree) -> bool:
        try:
            place = read_line(worktree.git_dir / "gitdir")
            common = (worktree.git_dir / read_line(worktree.git_dir / "commondir")).resolve()
        except OSError:
            return False
        return place == str(worktree.path / ".git") and common == worktree.common_dir.resolve()

    def _head(self, worktree: Worktree) -> str:
        try:
            head = read_line(worktree.git_dir / "HEAD").removeprefix("ref: ")
        except OSError:
            return ""
        if head != "refs/heads/.invalid":  # what is there when refs are in a table
            return head
        return self.repository.git.text(worktree.tree, "symbolic-ref", "--quiet", "HEAD")

    def is_clean(self, worktree: Worktree) -> bool:
        """Whether its last commit holds everything but ignored files."""
        return self.status(worktree).is_clean

    def status(self, worktree: Worktree) -> Status:
        """What differs from its last commit."""
        self.verify(worktree)
        return read_status(self.repository.git, worktree.tree)

    def refresh_base(self, worktree: Worktree, blockers: Sequence[str] = ()) -> str:
        """Bring a worktree in which nothing was done yet to its target's tip, merged with the
        commits of its task's blockers. Returns the base that it has now.

        Raises `LandingConflict` when the blockers contradict each other, `WorktreeRefused` when
        its work was begun without one of them.
        """
        self.verify(worktree)
        self.repository.git.check_drivers(worktree.tree)
        worktree = self.get(worktree.name)
        tip = self._tip(worktree)
        status = read_status(self.repository.git, worktree.tree)
        if status.is_clean and self.repository.is_ancestor(tip, worktree.base):
            worktree = self._rebase(worktree, self._fresh_base(worktree, blockers))
            tip = self._tip(worktree)
        missing = [sha for sha in blockers if not self.repository.is_ancestor(sha, tip)]
        if missing:
            hint = f"Merge it into {worktree.branch}, or start over in a new worktree."
            raise WorktreeRefused(
                worktree.name, f"its work was begun without {name_all(missing)}", hint
            )
        return worktree.base

    def _fresh_base(self, worktree: Worktree, blockers: Sequence[str]) -> str:
        repository = self.repository
        base = repository.branch_tip(worktree.target)
        if base is None:
            cause = f"its target branch {worktree.target} is gone"
            raise WorktreeRefused(worktree.name, cause, "Make that branch again.")
        for blocker in blockers:
            if repository.tip(blocker) is None:
                hint = "Look for it in the reflog, or complete its task again."
                raise WorktreeRefused(worktree.name, f"there is no commit {blocker}", hint)
            if repository.is_ancestor(blocker, base):
                continue
            merge = merge_trees(repository.git, repository.tree, base, blocker)
            if merge.conflicts:
                raise LandingConflict(
                    name=f"commit {blocker[:12]}, on which {worktree.task} builds,",
                    target=worktree.target,
                    files=name_all(merge.conflicts),
                    others="",
                )
            message = with_trailers(f"Base of {worktree.name}", Task=worktree.task)
            base = commit_tree(
                repository.git, repository.tree, merge.tree, [base, blocker], message
            )
        return base

    def _rebase(self, worktree: Worktree, base: str) -> Worktree:
        """Move the branch and the files forward to `base`; if that cannot be, leave both."""
        if not self.repository.is_ancestor(worktree.base, base):
            return worktree
        # Recorded first: a branch behind its base has no work in it, one before it seems to.
        moved = self.registry.change(worktree.name, lambda record: replace(record, base=base))
        try:
            self.repository.fast_forward(worktree.tree, base)
        except CommandFailed:
            return self.registry.change(
                worktree.name, lambda record: replace(record, base=worktree.base)
            )
        return moved

    def _tip(self, worktree: Worktree) -> str:
        tip = self.repository.branch_tip(worktree.branch)
        if tip is None:
            hint = f"Look for its commits: git reflog show {worktree.branch}"
            raise WorktreeRefused(worktree.name, f"its branch {worktree.branch} is gone", hint)
        return tip

    def commit(self, worktree: Worktree, message: str, agent: str | None = None) -> str:
        """Commit everything but ignored files, if anything changed. Returns the branch's tip,
        which may also be a commit that the agent made itself. Runs no hooks."""
        self.verify(worktree)
        git, tree = self.repository.git, worktree.tree
        git.check_drivers(tree)
        status = read_status(git, tree)
        merging = (worktree.git_dir / "MERGE_HEAD").exists()
        if merging or not status.is_clean:
            stage(git, tree, status)
            if merging or not git.holds(tree, "diff-index", "--cached", "--quiet", "HEAD", "--"):
                git.run(
                    tree,
                    *("commit", "--quiet", "--no-verify", "--no-status"),
                    *("--cleanup=whitespace", "--file=-"),
                    input=with_trailers(
                        message.strip() or f"Work on {worktree.task}",
                        Task=worktree.task,
                        Agent=agent,
                    ),
                    env=identity(git, tree, agent),
                )
        return self._tip(worktree)

    def diff(self, worktree: Worktree) -> str:
        """Everything that changed since its base, committed or not, as a patch."""
        return self._changes(worktree, "--patch").decode(errors="replace")

    def changed_files(self, worktree: Worktree) -> Sequence[str]:
        """The paths that changed since its base, committed or not."""
        return split(self._changes(worktree, "--name-only", "--no-renames", "-z"))

    def _changes(self, worktree: Worktree, *form: str) -> bytes:
        self.verify(worktree)
        git, tree = self.repository.git, worktree.tree
        now = snapshot(git, tree)
        return git.run(
            tree,
            *("diff", "--no-ext-diff", "--no-textconv", "--no-color", *form),
            *("--end-of-options", worktree.base, now),
        ).stdout

    def losses(self, name: str) -> Losses:
        """What removing the worktree would lose."""
        with self.lock():
            worktree = self._settled(name)
            return self._removals.losses(worktree) if worktree else Losses()

    def remove(self, name: str, discard: bool = False) -> Removal:
        """Remove the worktree with its branch.

        Raises `WouldLose` while anything would be lost; with `discard` a copy is kept instead: see
        `rescue_list`. Raises `WorktreeRefused` when its folder is not ours to remove or in use.
        """
        with self.lock():
            task = self.get(name).task
            worktree = self._settled(name)
            removal = Removal(name, task, Losses(), None)
            if worktree is not None:
                removal = self._removals.remove(worktree, discard)
        ref = removal.rescued.ref if removal.rescued else None
        self._emit("worktree_removed", name=name, task=task, rescued=ref)
        return removal

    def _settled(self, name: str) -> Worktree | None:
        """The worktree, after what an interrupted process left was undone or finished; `None` when
        that was all there was."""
        worktree = self.get(name)
        try:
            return self._removals.settle(worktree)
        except WorktreeRefused:
            if worktree.state != CREATING:
                raise
            return self._removals.with_remains(worktree)

    def recover(self) -> Sequence[str]:
        """At start: undo or finish what a killed process left half done. Returns a message for
        each worktree that a person has to look at."""
        left = [str(refusal_of_foreign(worktree)) for worktree in self.registry.foreign()]
        with self.lock():
            worktrees = self.registry.all()
            self._clear_locks(worktrees)
            for worktree in worktrees:
                try:
                    self._removals.settle(worktree)
                except TeamError as error:
                    left.append(str(error))
        return left

    def _clear_locks(self, worktrees: Sequence[Worktree]) -> None:
        """Remove the lock files that a killed git left: with them, no commit works any more."""
        common = self.repository.tree.common_dir
        places = [common / "packed-refs", *(common / one.ref for one in worktrees)]
        places += [common / f"refs/heads/{target}" for target in {one.target for one in worktrees}]
        locks = [place.with_name(f"{place.name}.lock") for place in places]
        for worktree in worktrees:
            locks += worktree.git_dir.glob("*.lock") if worktree.state == READY else []
        clear_locks(self.repository.root, locks, self._store.clock.now().timestamp())

    def rescue_list(self) -> Sequence[Rescued]:
        """The copies of discarded work, by worktree and time."""
        return self._removals.rescue.list()

    def rescue_restore(self, ref: str, to: Path) -> None:
        """Write the files of a copy into `to`, an absent or empty folder. Raises `InputError`."""
        self._removals.rescue.restore(ref, to)
