"""Folders of checkouts: whose they are, who uses them, and how they are deleted."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import time
from pathlib import Path
from typing import Final

from team_runtime.process.usage import User, users_of

_LOOKS: Final = 10
_PAUSE: Final = 0.05
"""Seconds between two looks."""


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
