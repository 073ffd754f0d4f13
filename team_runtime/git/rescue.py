"""Copies of work that its owner chose to discard: commits under `refs/team/rescue/`, and ignored
files in `.team/rescue/`."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import InputError, RefusedError
from team_runtime.git.commits import commit_tree, scratch_index, snapshot, with_trailers
from team_runtime.git.record import Worktree
from team_runtime.git.repository import Repository
from team_runtime.git.run import Tree
from team_runtime.store.files import Store

PREFIX: Final = "refs/team/rescue/"
MOST_IGNORED: Final = 100 * 10**6
"""Bytes of ignored files that are copied; more is refused."""


@dataclass(frozen=True)
class Rescued:
    """One rescue copy."""

    ref: str
    commit: str
    folder: Path | None
    """The copies of ignored files and of repositories inside the worktree, if there were any."""


class Rescue:
    """The rescue copies of one workspace."""

    def __init__(self, repository: Repository, store: Store) -> None:
        self._repository = repository
        self._store = store

    def refuse_too_much(self, worktree: Worktree, tree: Tree, loose: Sequence[str]) -> None:
        """Raises `RefusedError` when the files that no commit can hold are too large to copy."""
        size = sum(_size(tree.work_tree / path) for path in loose)
        if size > MOST_IGNORED:
            raise RefusedError(
                f"worktree {worktree.name!r} has {size // 10**6} MB of ignored files, and at most "
                f"{MOST_IGNORED // 10**6} MB are kept. Nothing was removed; move or delete "
                f"some of them first: {', '.join(loose[:5])}"
            )

    def keep(self, worktree: Worktree, tree: Tree, loose: Sequence[str]) -> Rescued:
        """Copy everything in `tree`: files and commits to a ref, `loose` paths to a folder.

        It has survived power loss when this returns.
        """
        moment = self._store.clock.now().strftime("%Y%m%dT%H%M%S.%fZ")
        ref = f"{PREFIX}{worktree.name}/{moment}"
        commit = self._commit(worktree, tree)
        folder = self._store.layout.rescue / f"{worktree.name}-{moment}" if loose else None
        if folder is not None:
            self._store.folder(folder)
            for path in loose:
                _copy(tree.work_tree / path, folder / path)
        if not self._repository.move(ref, commit, ""):
            raise RefusedError(f"{ref} is there already. Nothing was removed; try again.")
        os.sync()
        return Rescued(ref, commit, folder)

    def _commit(self, worktree: Worktree, tree: Tree) -> str:
        repository = self._repository
        tips, content = [repository.branch_tip(worktree.branch)], None
        if tree.work_tree.is_dir():
            content = snapshot(repository.git, tree)
            tips.insert(0, repository.tip("HEAD", tree))
        parents = [tip for tip in dict.fromkeys(tips) if tip]
        content = content or repository.tree_of(parents[0])
        if len(parents) == 1 and content == repository.tree_of(parents[0]):
            return parents[0]
        message = with_trailers(f"Rescue of {worktree.name}", Task=worktree.task)
        return commit_tree(repository.git, repository.tree, content, parents, message)

    def list(self) -> list[Rescued]:
        """Every rescue copy, by name and time."""
        shown = self._repository.git.text(
            self._repository.tree, "for-each-ref", "--format=%(refname) %(objectname)", PREFIX
        )
        pairs = [line.split(" ") for line in shown.splitlines()]
        return [Rescued(ref, commit, self._folder(ref)) for ref, commit in pairs]

    def _folder(self, ref: str) -> Path | None:
        folder = self._store.layout.rescue / ref.removeprefix(PREFIX).replace("/", "-")
        return folder if folder.is_dir() else None

    def restore(self, ref: str, to: Path) -> None:
        """Write the files of a rescue copy into the folder `to`, absent or empty.

        Raises `InputError` for an unknown copy or a folder that has something in it.
        """
        found = next((r for r in self.list() if ref in (r.ref, r.ref.removeprefix(PREFIX))), None)
        if found is None:
            raise InputError(f"There is no rescue copy {ref!r}. See: team worktrees rescue list")
        if to.is_symlink() or (to.exists() and (not to.is_dir() or any(to.iterdir()))):
            raise InputError(f"{to} is not an empty folder. Nothing was written.")
        to.mkdir(parents=True, exist_ok=True)
        git, tree = self._repository.git, replace(self._repository.tree, work_tree=to.resolve())
        with scratch_index(tree) as index:
            env = {"GIT_INDEX_FILE": index}
            git.run(tree, "read-tree", found.commit, env=env)
            git.run(tree, "checkout-index", "--all", "--quiet", env=env)
        if found.folder is not None:
            shutil.copytree(found.folder, to, symlinks=True, dirs_exist_ok=True)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder; links stay links, and pipes and sockets stay behind."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir() and not source.is_symlink():
        shutil.copytree(source, target, symlinks=True, ignore=_specials)
    elif not _is_special(source):
        shutil.copy2(source, target, follow_symlinks=False)


def _specials(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if _is_special(Path(folder, name))]


def _is_special(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode))


def _size(path: Path) -> int:
    """Bytes in a file or in all files below a folder; links count as links."""
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(
        os.lstat(os.path.join(place, name)).st_size  # noqa: PTH118
        for place, _, names in os.walk(path)
        for name in names
    )
