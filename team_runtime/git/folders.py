"""Folders of checkouts: whose they are, who uses them, what a killed git left in them, and how they
are deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from team_runtime.process.usage import User, is_told, users_of

_LOOKS: Final = 10
_PAUSE: Final = 0.05
"""Seconds between two looks."""
_OLD: Final = 600.0
"""Seconds after which a lock file is taken to be left over, where nobody can tell who runs git."""


def pointer(path: Path) -> Path | None:
    """Where the `.git` file in a checkout leads; `None` when it is no such file."""
    file = path / ".git"
    if file.is_symlink() or not file.is_file():
        return None
    kind, _, place = read_line(file).partition(": ")
    return (path / place).absolute() if kind == "gitdir" and place else None


def admin_folder(common_dir: Path, path: Path) -> Path | None:
    """Git's own folder of the linked checkout `path`; `None` when it is not registered."""
    for folder in (common_dir / "worktrees").glob("*"):
        with contextlib.suppress(OSError):
            if read_line(folder / "gitdir") == str(path / ".git"):
                return folder
    return None


def is_headless(admin: Path) -> bool:
    """Whether git was killed before it had set the HEAD of the checkout with this folder; it has
    written none of its files then."""
    return not (admin / "HEAD").read_bytes().strip(b"0\n")


def read_line(file: Path) -> str:
    """The content of one of git's one-line files."""
    return os.fsdecode(file.read_bytes()).removesuffix("\n")


def wait_unused(folder: Path) -> list[User]:
    """The processes that use `folder`, after a moment for passing ones to end."""
    users = users_of(folder)
    for _ in range(_LOOKS):
        if not users:
            break
        time.sleep(_PAUSE)
        users = users_of(folder)
    return users


def clear_locks(folder: Path, locks: Iterable[Path], now: float) -> None:
    """Remove lock files that a killed git left: those that stay although no git is at work in
    `folder` or below. `now` is the wall clock's time in seconds."""
    before = {path: _made(path) for path in locks}
    present = {path: made for path, made in before.items() if made is not None}
    if not present or any(user.name.startswith("git") for user in wait_unused(folder)):
        return
    time.sleep(_LOOKS * _PAUSE)
    for path, made in present.items():
        if _made(path) == made and (is_told() or now - made > _OLD):
            path.unlink(missing_ok=True)


def _made(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def delete_folder(folder: Path) -> None:
    """Delete a folder that may be gone; links in it are unlinked, never followed."""
    if folder.is_symlink() or not folder.is_dir():
        return
    try:
        shutil.rmtree(folder)
    except PermissionError:
        # Package caches make their folders read-only.
        for place, names, _ in os.walk(folder):
            for path in (Path(place, name) for name in names):
                if not path.is_symlink():
                    path.chmod(stat.S_IRWXU)
        shutil.rmtree(folder)
