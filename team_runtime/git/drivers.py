"""Programs that a repository's own settings would have git run on the content of files.

A repository that somebody handed over can hold any. Until a person trusts them git runs none; what
would then be stored is not what its owner meant, so nothing is stored or checked out either. The
settings are looked at before each call of git, because they can be changed at any time. Git takes
no copy of ours in their place, so who may write them, as no sandboxed command may, can still do so
between our look and git's own.

They are read from the files themselves, whatever the conditions under which git would include one
of them: those may come true in another checkout, or on another branch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from team_runtime.errors import RefusedError
from team_runtime.text import one_line

if TYPE_CHECKING:
    from team_runtime.git.run import Git, Tree

_DRIVER: Final = re.compile(r"(filter\..+)\.(clean|smudge|process)|merge\..+\.driver", re.S)
_COMMAND: Final = re.compile(
    r"filter\..+\.(clean|smudge|process)|merge\..+\.driver|remote\..+\.uploadpack"
    r"|core\.(sshcommand|gitproxy|askpass)|credential\.(.+\.)?helper",
    re.S,
)
_PROMISED: Final = re.compile(r"remote\..+\.promisor|extensions\.partialclone", re.S)
"""With one of these git fetches what is missing, by itself, from wherever it is told."""
_FETCH: Final = re.compile(
    r"remote\..+|url\..+|core\.(sshcommand|gitproxy|askpass)|ssh\..+|credential\..+|http\..+", re.S
)
_INCLUDE: Final = re.compile(r"include\.path|includeif\..+\.path", re.S)
_MOST_FILES: Final = 100
_NO_FETCH: Final = {"GIT_ALLOW_PROTOCOL": ""}
_SAFE_PATH: Final = {"PYTHONSAFEPATH": "1"}
"""A program that is run in the folder of an agent must not take modules from there."""

Setting: TypeAlias = tuple[str, str]
"""A key and its value."""
Trusts: TypeAlias = Callable[[tuple[Setting, ...]], bool]
"""Whether a person trusts these settings, as they are."""
Stamp: TypeAlias = tuple[tuple[Path, tuple[int, ...] | None], ...]
"""What stat said of each file."""


def trusts_none(found: tuple[Setting, ...]) -> bool:
    """Where nobody has been asked."""
    return False


@dataclass(frozen=True)
class Bounds:
    """What a call of git is held to: settings, as `key=value`, and variables."""

    settings: tuple[str, ...]
    env: dict[str, str]


@dataclass(frozen=True)
class Drivers:
    """The programs that one repository's own settings name, and whether they are trusted."""

    trusts: Trusts = trusts_none
    _known: dict[Path, tuple[Stamp, tuple[Setting, ...]]] = field(default_factory=dict)

    def found(self, git: Git, tree: Tree) -> tuple[Setting, ...]:
        """The settings of `tree`, now. `git` is not held to anything."""
        known = self._known.get(tree.git_dir)
        if known is not None and all(_stat(path) == stat for path, stat in known[0]):
            return known[1]
        stamp, settings = _read(git, tree)
        found = tuple(dict.fromkeys(each for each in settings if _DRIVER.fullmatch(each[0])))
        if any(_PROMISED.fullmatch(key) for key, _ in settings):
            of_fetch = (_PROMISED, _FETCH)
            found += tuple(s for s in settings if any(p.fullmatch(s[0]) for p in of_fetch))
        self._known[tree.git_dir] = stamp, found
        return found

    def refused(self, git: Git, tree: Tree) -> tuple[str, ...]:
        """The keys of those that nobody trusts."""
        found = self.found(git, tree)
        return () if not found or self.trusts(found) else tuple(dict(found))

    def check(self, git: Git, tree: Tree) -> None:
        """Raises `RefusedError` where files would be stored otherwise than the settings say."""
        if refused := self.refused(git, tree):
            keys = ", ".join(one_line(key, 60) for key in refused[:5])
            raise RefusedError(
                f"{keys}: these settings of the repository itself name programs for git to run on "
                "the content of files, or where to fetch it. Nobody trusts them as they are now, "
                "and without them work could be stored wrongly; nothing was changed. "
                "If you know them: team trust"
            )

    def bounds(self, git: Git, tree: Tree) -> Bounds:
        """What lets git run only what is trusted. Nothing else is fetched, whatever is missing."""
        found = self.found(git, tree)
        if not found:
            return Bounds((), _NO_FETCH)
        if not self.trusts(found):
            return Bounds(without(key for key, _ in found), _NO_FETCH)
        is_promised = any(_PROMISED.fullmatch(key) for key, _ in found)
        return Bounds((), {**_SAFE_PATH, **({} if is_promised else _NO_FETCH)})


def names_program(key: str) -> bool:
    """Whether the value of a setting is a command."""
    return _COMMAND.fullmatch(key) is not None


def without(keys: Iterable[str]) -> tuple[str, ...]:
    """Settings under which git runs none of these: contents are taken as they are, and what a merge
    driver would have merged is a conflict."""
    found: dict[str, None] = {}
    for key in keys:
        match = _DRIVER.fullmatch(key)
        if match and match[1]:
            found |= dict.fromkeys(f"{match[1]}.{part}=" for part in ("clean", "smudge", "process"))
            found[f"{match[1]}.required=false"] = None
        elif match:
            found[f"{key}=false"] = None
    return tuple(found)


def _read(git: Git, tree: Tree) -> tuple[Stamp, list[Setting]]:
    """The settings in the repository's own files and in all that they include. Raises
    `CommandFailed` for a file that git cannot read either, `RefusedError` for too many."""
    left = [tree.common_dir / "config", tree.git_dir / "config.worktree"]
    stamps: dict[Path, tuple[int, ...] | None] = {}
    settings: list[Setting] = []
    while left:
        path = left.pop(0)
        if path in stamps:
            continue
        if len(stamps) == _MOST_FILES:
            raise RefusedError(f"{tree.common_dir}/config includes more than {_MOST_FILES} files.")
        stamps[path] = _stat(path)  # before it is read, so that a change meanwhile is seen later
        if stamps[path] is None:
            continue
        for item in git.items(tree, "config", "--file", str(path), "--list", "-z"):
            key, _, value = item.partition("\n")
            settings.append((key, value))
            if _INCLUDE.fullmatch(key):
                left.append(_included(value, path, git))
    return tuple(stamps.items()), settings


def _included(value: str, path: Path, git: Git) -> Path:
    if value.startswith(("~", "%(prefix)")) and not value.startswith("~/"):
        raise RefusedError(f"{path} includes {one_line(value, 200)}; where that is cannot be told.")
    if value.startswith("~/"):
        return Path(git.env.get("HOME", "/")) / value[2:]
    return path.parent / value


def _stat(path: Path) -> tuple[int, ...] | None:
    try:
        seen = os.stat(path)  # noqa: PTH116 - a third of the time
    except (OSError, ValueError):
        return None
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns
