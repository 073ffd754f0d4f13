"""Making a worktree, and undoing what an interrupted attempt left.

The record is written before git begins, so that whatever a kill leaves behind is known to be ours.
Undoing removes only what git wrote: a byte or a commit of anybody else's stays, and is reported.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

from team_runtime.clock import iso
from team_runtime.errors import TeamError, WorktreeRefused
from team_runtime.git.commits import is_torn, scratch_index
from team_runtime.git.folders import admin_folder, is_headless, pointer, wait_unused
from team_runtime.git.record import CREATING, READY, Registry, Worktree, branch_of
from team_runtime.git.repository import Repository
from team_runtime.git.run import Tree, name_all
from team_runtime.git.status import read_status
from team_runtime.store.files import Store
from team_runtime.store.layout import check_worktree_name


class Creation:
    """Makes worktrees. Its caller holds the repository's lock."""

    def __init__(self, repository: Repository, store: Store, registry: Registry) -> None:
        self._repository = repository
        self._store = store
        self._registry = registry

    def create(self, name: str, task: str, start: str | None, onto: str | None) -> Worktree:
        """Make the worktree `name`, or leave everything as it was.

        Raises `NameInvalid` or `WorktreeRefused`.
        """
        check_worktree_name(name)
        for left in self._registry.all():
            if left.state == CREATING:
                self._undo_before(name, left)
        worktree = self._plan(name, task, start, onto)
        self._registry.add(worktree)
        try:
            self._repository.git.run(
                self._repository.tree,
                *("worktree", "add", "--quiet", "--no-track", "-b", worktree.branch),
                *("--end-of-options", str(worktree.path), worktree.base),
            )
            git_dir = self._new_folder(worktree)
            return self._registry.change(
                name, lambda record: replace(record, git_dir=git_dir, state=READY)
            )
        except BaseException:
            # What could not be undone keeps its record, and the next attempt reports it.
            with contextlib.suppress(TeamError, OSError):
                self.undo(worktree)
            raise

    def _undo_before(self, name: str, left: Worktree) -> None:
        """Undo an interrupted creation; only one of the same `name` stands in the way."""
        try:
            self.undo(left)
        except WorktreeRefused:
            if left.name == name:
                raise

    def _plan(self, name: str, task: str, start: str | None, onto: str | None) -> Worktree:
        """The record of the new worktree, once nothing stands in its way."""
        repository = self._repository
        path = self._registry.folder / name
        branch = branch_of(name)
        target = onto or repository.head_branch()
        self._refuse_taken(name, path, branch, task)
        if target is None:
            hint = "Check out the branch that it shall land on, or name one with --onto."
            raise WorktreeRefused(name, "HEAD is detached, so no branch is its target", hint)
        if repository.branch_tip(target) is None:
            raise WorktreeRefused(name, f"there is no branch {target!r}", "Choose another.")
        base = repository.tip(start or f"refs/heads/{target}")
        if base is None:
            raise WorktreeRefused(name, f"there is no commit {start!r}", "Choose another start.")
        self._store.folder(path.parent)
        return Worktree(
            name=name,
            task=task,
            path=path,
            branch=branch,
            git_dir=Path(),
            common_dir=repository.tree.common_dir,
            base=base,
            target=target,
            created_at=iso(self._store.clock.now()),
            state=CREATING,
        )

    def _refuse_taken(self, name: str, path: Path, branch: str, task: str) -> None:
        hint = "Nothing was changed. Choose another name, or move what is there."
        for other in self._registry.all():
            if other.name == name:
                raise WorktreeRefused(name, f"the name is taken by {other.task}", hint)
            if other.task == task:
                raise WorktreeRefused(
                    name, f"{task} already has worktree {other.name!r}", "Use it."
                )
        if path.parent.is_symlink():
            raise WorktreeRefused(name, f"{path.parent} is a link", "Make it a folder.")
        if path.exists() or path.is_symlink():
            raise WorktreeRefused(name, f"{path} is already there", hint)
        if self._repository.branch_tip(branch) is not None:
            raise WorktreeRefused(name, f"there is already a branch {branch}", hint)
        above = branch.partition("/")[0]
        if self._repository.branch_tip(above) is not None:
            cause = f"a branch named {above!r} leaves no room for {branch}"
            raise WorktreeRefused(name, cause, "Rename that branch.")
        if self._registered(path):
            hint = "If its folder is gone for good: git worktree prune"
            raise WorktreeRefused(name, f"git has {path} registered already", hint)

    def _registered(self, path: Path) -> bool:
        return any(checkout.path == path for checkout in self._repository.checkouts())

    def _new_folder(self, worktree: Worktree) -> Path:
        """Git's own folder of the new worktree. Raises `WorktreeRefused` for any other place."""
        found = pointer(worktree.path)
        if found is None or found.parent != worktree.common_dir / "worktrees":
            cause = f"git registered it in an unexpected place ({found})"
            raise WorktreeRefused(worktree.name, cause, "Look at it before you go on.")
        return found

    def undo(self, worktree: Worktree) -> None:
        """Remove what an interrupted creation left. Raises `WorktreeRefused` when there is more
        than that; then everything is left alone."""
        self._refuse_used(worktree)
        (worktree.common_dir / f"{worktree.ref}.lock").unlink(missing_ok=True)
        admin = admin_folder(worktree.common_dir, worktree.path)
        tip = self._repository.branch_tip(worktree.branch)
        foreign = self._foreign(worktree, admin)
        if foreign or tip not in (None, worktree.base):
            what = name_all(foreign) if foreign else f"commits on {worktree.branch}"
            hint = f"Keep what you need, then: team worktrees remove {worktree.name} --discard"
            cause = f"making it was interrupted, and it has since got {what}"
            raise WorktreeRefused(worktree.name, cause, hint)
        if admin is not None:
            self._repository.git.run(
                self._repository.tree,
                *("worktree", "remove", "--force", "--force", "--", str(worktree.path)),
            )
        elif worktree.path.exists():
            worktree.path.rmdir()
        if tip is not None:
            self._repository.delete(worktree.ref, tip)
        self._registry.remove(worktree.name)

    def _refuse_used(self, worktree: Worktree) -> None:
        users = wait_unused(worktree.path)
        if users:
            cause = f"it is in use by {', '.join(map(str, users))}"
            raise WorktreeRefused(worktree.name, cause, "Wait for its end and try again.")

    def _foreign(self, worktree: Worktree, admin: Path | None) -> list[str]:
        """The paths in the folder that git did not write when it made the worktree."""
        if not worktree.path.is_dir():
            return []
        names = [entry.name for entry in worktree.path.iterdir()]
        if admin is None or (names and pointer(worktree.path) != admin):
            return names
        if is_headless(admin):  # git had written no file yet
            return [name for name in names if name != ".git"]
        git, tree = self._repository.git, Tree(worktree.path, admin, worktree.common_dir)
        with scratch_index(tree) as index:
            git.run(tree, "read-tree", worktree.base, env={"GIT_INDEX_FILE": index})
            status = read_status(git, tree, index)
        changed = [
            path
            for path in status.modified
            if (worktree.path / path).exists() and not is_torn(git, tree, worktree.base, path)
        ]
        return [*changed, *status.untracked, *status.ignored]
