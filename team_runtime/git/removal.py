"""Removing a worktree without losing anything that somebody made in it.

The folder is set aside first, under another name, and looked at there: what a program would still
write into it by its old name cannot slip in between looking and deleting. Until everything in it is
known to be safe, an interrupted removal puts it back.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from team_runtime.errors import WorktreeRefused, WouldLose
from team_runtime.git.commits import merge_trees
from team_runtime.git.creation import Creation
from team_runtime.git.folders import admin_folder, delete_folder, is_headless, pointer, wait_unused
from team_runtime.git.record import (
    CREATING,
    DROPPING,
    READY,
    REMOVING,
    Registry,
    Worktree,
)
from team_runtime.git.repository import Repository
from team_runtime.git.rescue import Rescue, Rescued
from team_runtime.git.run import Tree, name_all
from team_runtime.git.status import Status, read_status
from team_runtime.store.files import Store


@dataclass(frozen=True)
class Losses:
    """What would be gone with a worktree."""

    commits: tuple[str, ...] = ()
    """Commits that its target does not contain, newest first."""
    modified: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    nested: tuple[str, ...] = ()
    """Repositories inside it, each ending in `/`."""

    def __bool__(self) -> bool:
        return any((self.commits, self.modified, self.untracked, self.ignored, self.nested))

    @property
    def loose(self) -> tuple[str, ...]:
        """The paths that no commit can hold."""
        return (*self.ignored, *self.nested)

    def __str__(self) -> str:
        parts = [
            f"{len(self.commits)} unlanded commits" if self.commits else "",
            *(
                f"{kind}: {name_all(list(paths))}"
                for kind, paths in (
                    ("modified", self.modified),
                    ("untracked", self.untracked),
                    ("ignored", self.ignored),
                    ("repositories inside", self.nested),
                )
                if paths
            ),
        ]
        return "; ".join(part for part in parts if part) or "nothing"


@dataclass(frozen=True)
class Removal:
    """What removing a worktree did."""

    name: str
    task: str
    losses: Losses
    rescued: Rescued | None


class Removals:
    """Removes worktrees. Its caller holds the repository's lock."""

    def __init__(
        self, repository: Repository, store: Store, registry: Registry, creation: Creation
    ) -> None:
        self._repository = repository
        self._store = store
        self._registry = registry
        self._creation = creation
        self.rescue = Rescue(repository, store)

    def losses(self, worktree: Worktree) -> Losses:
        """What removing `worktree` would lose now."""
        return self._losses(worktree, worktree.tree)

    def remove(self, worktree: Worktree, discard: bool) -> Removal:
        """Remove the folder, the branch and the record.

        Raises `WouldLose`, unless `discard` keeps rescue copies instead; `WorktreeRefused` when
        the folder is not ours to remove or in use; `RefusedError` when a copy would be too large.
        """
        self._refuse_not_ours(worktree)
        self._judge(worktree, worktree.tree, discard)
        users = wait_unused(worktree.path)
        if users:
            cause = f"it is in use by {', '.join(map(str, users))}"
            raise WorktreeRefused(worktree.name, cause, "End it first. Nothing was removed.")
        # Read before the last look: the branch is deleted only if it still ends there.
        tip = self._repository.branch_tip(worktree.branch)
        self._registry.set_state(worktree.name, REMOVING)
        try:
            self._store.move(worktree.path, worktree.aside)
            aside = replace(worktree.tree, work_tree=worktree.aside)
            losses = self._judge(worktree, aside, discard)
            rescued = self.rescue.keep(worktree, aside, losses.loose) if losses else None
            dropping = self._registry.set_state(worktree.name, DROPPING, tip)
        except BaseException:
            self._put_back(worktree)
            raise
        self._drop(dropping)
        return Removal(worktree.name, worktree.task, losses, rescued)

    def settle(self, worktree: Worktree) -> Worktree | None:
        """Undo or finish what an earlier process was interrupted in; `None` when the worktree is
        gone then. Raises `WorktreeRefused` when a person has to look."""
        if worktree.state == CREATING:
            self._creation.undo(worktree)
            return None
        if worktree.state == REMOVING:
            return self._put_back(worktree)
        if worktree.state == DROPPING:
            self._drop(worktree)
            return None
        return worktree

    def with_remains(self, worktree: Worktree) -> Worktree:
        """A worktree whose making was interrupted and that has got somebody's work since, so that
        it can be removed like any other."""
        admin = admin_folder(worktree.common_dir, worktree.path)
        if admin is None:
            hint = f"Keep what you need of it, then delete {worktree.path} and try again."
            raise WorktreeRefused(worktree.name, "git does not know its folder", hint)
        if is_headless(admin):
            (admin / "HEAD.lock").unlink(missing_ok=True)
            tree = Tree(worktree.path, admin, worktree.common_dir)
            self._repository.git.run(tree, "symbolic-ref", "HEAD", worktree.ref)
        return self._registry.change(
            worktree.name, lambda record: replace(record, git_dir=admin, state=READY)
        )

    def _put_back(self, worktree: Worktree) -> Worktree:
        if worktree.aside.is_dir():
            if os.path.lexists(worktree.path):
                cause = f"its files are in {worktree.aside}, and {worktree.path} was made anew"
                raise WorktreeRefused(worktree.name, cause, "Move the new one away, try again.")
            self._store.move(worktree.aside, worktree.path)
        return self._registry.set_state(worktree.name, READY)

    def _refuse_not_ours(self, worktree: Worktree) -> None:
        path, name = worktree.path, worktree.name
        hint = "Nothing was removed. Look at it, and remove it by hand if it is yours."
        if path != self._registry.folder / name or path.parent.is_symlink():
            raise WorktreeRefused(name, f"{path} is not inside {self._registry.folder}", hint)
        if path.is_symlink():
            raise WorktreeRefused(name, f"{path} is a link", hint)
        checkouts = self._repository.checkouts()
        others = [self._repository.root, *(each.path for each in checkouts if each.path != path)]
        inside = [other for other in others if other.resolve().is_relative_to(path)]
        if inside:
            raise WorktreeRefused(name, f"another checkout is inside it: {inside[0]}", hint)
        if path not in [checkout.path for checkout in checkouts]:
            raise WorktreeRefused(name, f"git has not registered {path}", hint)
        if path.exists() and pointer(path) != worktree.git_dir:
            raise WorktreeRefused(name, f"{path / '.git'} does not lead to its git folder", hint)

    def _judge(self, worktree: Worktree, tree: Tree, discard: bool) -> Losses:
        losses = self._losses(worktree, tree)
        if losses and not discard:
            raise WouldLose(worktree.name, str(losses))
        self.rescue.refuse_too_much(worktree, tree, losses.loose)
        return losses

    def _losses(self, worktree: Worktree, tree: Tree) -> Losses:
        git, status, nested = self._repository.git, Status(), list[str]()
        tips = [self._repository.branch_tip(worktree.branch)]
        if tree.work_tree.is_dir():
            status = read_status(git, tree)
            nested = [*status.nested, *self._populated_links(tree)]
            tips.append(self._repository.tip("HEAD", tree))
        return Losses(
            commits=tuple(self._unlanded(worktree, [tip for tip in tips if tip])),
            modified=status.modified,
            untracked=tuple(path for path in status.untracked if path not in status.nested),
            ignored=status.ignored,
            nested=tuple(nested),
        )

    def _populated_links(self, tree: Tree) -> list[str]:
        """The submodules in `tree` that have files, of which a commit keeps only a name."""
        staged = self._repository.git.items(tree, "ls-files", "--stage", "-z")
        links = [entry.partition("\t")[2] for entry in staged if entry.startswith("160000")]
        places = [tree.work_tree / path for path in links]
        return [
            f"{path}/"
            for path, place in zip(links, places, strict=True)
            if place.is_dir() and not place.is_symlink() and any(place.iterdir())
        ]

    def _unlanded(self, worktree: Worktree, tips: list[str]) -> list[str]:
        """The commits that would be lost. What was landed as one squashed commit is not."""
        git, tree = self._repository.git, self._repository.tree
        names = {worktree.target, *(landed.target for landed in worktree.landed)}
        targets = [sha for name in names if (sha := self._repository.branch_tip(name))]
        if not tips:
            return []
        found = git.text(
            tree, "rev-list", *dict.fromkeys(tips), "--not", worktree.base, *targets
        ).splitlines()
        if found and all(any(self._holds(target, tip) for target in targets) for tip in tips):
            return []
        return found

    def _holds(self, target: str, tip: str) -> bool:
        """Whether merging `tip` into `target` would change nothing."""
        git, tree = self._repository.git, self._repository.tree
        merge = merge_trees(git, tree, target, tip)
        return not merge.conflicts and merge.tree == self._repository.tree_of(target)

    def _drop(self, worktree: Worktree) -> None:
        """Delete what is known to be safe elsewhere. Can be done again after an interruption."""
        if worktree.git_dir.is_relative_to(worktree.common_dir / "worktrees"):
            delete_folder(worktree.git_dir)
        if worktree.tip is not None:
            self._repository.delete(worktree.ref, worktree.tip)
        delete_folder(worktree.aside)
        self._registry.remove(worktree.name)
