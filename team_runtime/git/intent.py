"""What a landing is about to do to the user's checkout, written down before it is done.

Git replaces the files first and moves the branch last. A kill between the two leaves new files
under an old branch; with this record the old ones are put back.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from team_runtime.errors import LandingBlocked
from team_runtime.git.commits import is_torn, scratch_index
from team_runtime.git.folders import clear_locks
from team_runtime.git.repository import Repository
from team_runtime.process.usage import git_in
from team_runtime.store.files import Store
from team_runtime.store.records import Fields, decode_record, encode_record

VERSION: Final = 1
_LOOKS: Final = 100
_PAUSE: Final = 0.1
"""Seconds between two looks."""


@dataclass(frozen=True)
class Intent:
    """A landing: `merge`, with `commit` in it, becomes the tip of `target`. Before it, the tip is
    the first parent of `merge`."""

    name: str
    commit: str
    merge: str
    target: str


class Intents:
    """The one landing that may be under way in the user's checkout. Its caller holds the lock."""

    def __init__(self, repository: Repository, store: Store) -> None:
        self._repository = repository
        self._store = store
        self._path = store.layout.team / "landing.json"

    def read(self) -> Intent | None:
        """The landing that was not finished, if there is one."""
        data = self._store.read(self._path)
        if data is None:
            return None
        fields = Fields(decode_record(data, self._path, VERSION), self._path)
        return Intent(*(fields.text(key) for key in ("name", "commit", "merge", "target")))

    def write(self, intent: Intent) -> None:
        """Record what is about to happen."""
        self._store.publish(self._path, encode_record({"v": VERSION, **asdict(intent)}))

    def clear(self) -> None:
        """It is done, or undone."""
        self._store.remove(self._path)

    def unlock(self, intent: Intent) -> None:
        """Wait for a git that outlived its killed parent, and remove the lock files that a killed
        git left. Raises `LandingBlocked` when git goes on and on."""
        tree = self._repository.tree
        for _ in range(_LOOKS):
            if not git_in(tree.work_tree):
                break
            time.sleep(_PAUSE)
        else:
            cause = f"git is still at work in {tree.work_tree}"
            raise LandingBlocked(intent.name, intent.target, cause, "Wait for it and try again.")
        places = [tree.git_dir / name for name in ("index", "HEAD", "ORIG_HEAD")]
        places.append(tree.common_dir / "refs/heads" / intent.target)
        locks = [place.with_name(f"{place.name}.lock") for place in places]
        clear_locks(tree.work_tree, locks, self._store.clock.now().timestamp())

    def undo(self, intent: Intent) -> Sequence[str]:
        """Put the files that git replaced back to the old version. Returns those that it left
        alone because somebody has edited them since."""
        repository, old = self._repository, f"{intent.merge}^1"
        changed = repository.changed_paths(old, intent.merge)
        not_old, not_new = self._differing(old, changed), self._differing(intent.merge, changed)
        edited = {path for path in not_old & not_new if self._is_edited(intent, path)}
        touched = [path for path in changed if path in not_old - edited]
        staged = self._staged(old, intent.merge, changed)
        if touched or staged:
            self._restore(old, touched, [*touched, *staged])
        return sorted(edited) if touched else []

    def _differing(self, commit: str, paths: list[str]) -> set[str]:
        """Those of `paths` whose file is not as `commit` has it, or there only in one of them."""
        git, tree = self._repository.git, self._repository.tree
        with scratch_index(tree) as index:
            env = {"GIT_INDEX_FILE": index}
            git.run(tree, "read-tree", commit, env=env)
            known = set(git.items(tree, "ls-files", "-z", env=env))
            form = ("-z", "--name-only", "--no-ext-diff", "--no-textconv")
            changed = set(git.items(tree, "diff-files", *form, env=env))
        added = {path for path in paths if path not in known and self._exists(path)}
        return changed.intersection(paths) | added

    def _staged(self, old: str, new: str, paths: list[str]) -> list[str]:
        """Those of `paths` that git has staged as they are in `new`."""
        git, tree = self._repository.git, self._repository.tree
        form = ("diff-index", "--cached", "-z", "--name-only", "--no-renames")
        not_new = set(git.items(tree, *form, new))
        not_old = set(git.items(tree, *form, old))
        return [path for path in paths if path in not_old - not_new]

    def _is_edited(self, intent: Intent, path: str) -> bool:
        git, tree = self._repository.git, self._repository.tree
        return self._exists(path) and not is_torn(git, tree, intent.merge, path)

    def _exists(self, path: str) -> bool:
        place = self._repository.root / path
        if place.parent.resolve() != place.parent:  # behind a link is not in the checkout
            return False
        return place.is_symlink() or place.exists()

    def _restore(self, old: str, files: list[str], index: list[str]) -> None:
        git, tree = self._repository.git, self._repository.tree
        listed = git.items(tree, "ls-tree", "-r", "-z", "--name-only", old)
        before = [path for path in files if path in set(listed)]
        for path in set(files).difference(before):
            self._unlink(tree.work_tree / path)
        git.run(
            tree,
            *("reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul", old),
            input=_lines(index),
        )
        if before:
            git.run(tree, "checkout-index", "--force", "-u", "-z", "--stdin", input=_lines(before))

    def _unlink(self, place: Path) -> None:
        """Delete a file that the landing added, and the folders it was alone in."""
        with contextlib.suppress(OSError):
            place.unlink()
            for folder in place.parents:
                if folder == self._repository.root:
                    return
                folder.rmdir()


def _lines(paths: list[str]) -> bytes:
    return "\0".join(paths).encode("utf-8", "surrogateescape")
