"""Git's command line: the only code that runs it.

A program in a worktree can rewrite that worktree's `.git` pointer, and git would then take its
configuration, and the programs named there, from wherever the pointer leads. So git never looks for
a repository here: every call names the directories from our records (`Tree`), and switches off
hooks and everything else by which a repository can start programs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import CommandFailed, CommandTimeout, ProgramMissing
from team_runtime.git.drivers import Bounds, Drivers
from team_runtime.process.base import Command, Completed, Runner

OLDEST: Final = (2, 38)
"""The first version with `merge-tree --write-tree`."""
TIMEOUT: Final = 900.0
"""Seconds; enough to check out a very large repository."""
_KEEP: Final = 256 * 2**20
_SHOWN: Final = 5
"""Paths that a message names."""
_LOCKED: Final = b"index.lock': File exists"
"""What git says, having done nothing, while another git looks at the same checkout: an editor or a
prompt that shows the status does so all the time."""
_LOCKED_DELAYS: Final = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Seconds to wait before each new try."""
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.quotePath=false",
    "core.fsync=committed",  # a commit that a task's record names must survive power loss
    "core.fsyncMethod=batch",
    "commit.gpgSign=false",
    "diff.ignoreSubmodules=dirty",  # else `status` runs git inside each submodule
    "submodule.recurse=false",
    "protocol.ext.allow=never",
    "safe.bareRepository=explicit",
    "worktree.useRelativePaths=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.detachedHead=false",
)
_ENVIRONMENT: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": "true",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}


@dataclass(frozen=True)
class Tree:
    """Where the parts of one checkout are."""

    work_tree: Path
    git_dir: Path
    common_dir: Path

    def environment(self) -> dict[str, str]:
        return {
            "GIT_DIR": str(self.git_dir),
            "GIT_COMMON_DIR": str(self.common_dir),
            "GIT_WORK_TREE": str(self.work_tree),
        }


@dataclass(frozen=True)
class Git:
    """Runs git in a `Tree`. Paths are text with undecodable bytes kept (`surrogateescape`)."""

    runner: Runner
    env: Mapping[str, str] = field(repr=False)
    """The environment git gets, scrubbed by the caller; ours is added."""
    program: str = "git"
    drivers: Drivers | None = None
    """What the repository's own settings would run; `None` before it is found."""

    def run(
        self,
        tree: Tree | Path,
        *arguments: str,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        allowed: tuple[int, ...] = (0,),
    ) -> Completed:
        """Run `git ARGUMENTS`; in a plain folder instead of a `Tree`, git looks for the repository.

        Raises `CommandFailed` for a status that is not `allowed`, `CommandTimeout`,
        `ProgramMissing`.
        """
        place, named = (
            (tree.work_tree, tree.environment()) if isinstance(tree, Tree) else (tree, {})
        )
        bounds = self._bounds(tree)
        settings = [p for setting in (*_SETTINGS, *bounds.settings) for p in ("-c", setting)]
        command = Command(
            argv=[self.program, *settings, *arguments],
            cwd=place,
            env={**self.env, **_ENVIRONMENT, **bounds.env, **named, **(env or {})},
            timeout=TIMEOUT,
            input=input,
            keep=_KEEP,
        )
        completed = self.runner.run(command)
        for seconds in _LOCKED_DELAYS:
            if completed.status in allowed or _LOCKED not in completed.stderr:
                break
            time.sleep(seconds)
            completed = self.runner.run(command)
        self._judge(arguments, completed, allowed)
        return completed

    def _bounds(self, tree: Tree | Path) -> Bounds:
        """Those of this call. Raises `TeamError` when they cannot be told."""
        if self.drivers is None or not isinstance(tree, Tree):
            return Bounds((), {})
        return self.drivers.bounds(self.free, tree)

    @property
    def free(self) -> Git:
        """The same, held to nothing of the repository's own; only to read settings with."""
        return replace(self, drivers=None)

    def check_drivers(self, tree: Tree) -> None:
        """Raises `RefusedError` where files would be stored otherwise than the settings of the
        repository say, because they name programs that nobody trusts."""
        if self.drivers is not None:
            self.drivers.check(self.free, tree)

    def _judge(
        self, arguments: tuple[str, ...], completed: Completed, allowed: tuple[int, ...]
    ) -> None:
        shown = f"git {arguments[0]}"
        output = (completed.stderr or completed.stdout).decode(errors="replace").strip()
        if completed.timed_out:
            raise CommandTimeout(shown, TIMEOUT, output)
        if completed.dropped:
            raise CommandFailed(shown, completed.status, f"more than {_KEEP} bytes of output")
        if completed.status not in allowed:
            raise CommandFailed(shown, completed.status, output)

    def text(self, tree: Tree | Path, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """The output without the newline at its end."""
        return os.fsdecode(self.run(tree, *arguments, env=env).stdout).removesuffix("\n")

    def items(
        self, tree: Tree | Path, *arguments: str, env: Mapping[str, str] | None = None
    ) -> list[str]:
        """The output of a command with `-z`, as the list it is."""
        return split(self.run(tree, *arguments, env=env).stdout)

    def holds(self, tree: Tree | Path, *arguments: str) -> bool:
        """Whether a question that git answers with status 0 or 1 is true."""
        return self.run(tree, *arguments, allowed=(0, 1)).status == 0

    def check_version(self, folder: Path) -> None:
        """Raises `ProgramMissing` when git is not there or too old for us."""
        shown = self.text(folder, "version")
        found = re.search(r"(\d+)\.(\d+)", shown)
        if not found or (int(found[1]), int(found[2])) < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            raise ProgramMissing(self.program, f"it is {shown}", f"Install git {oldest} or newer.")


def split(output: bytes) -> list[str]:
    """The items of `-z` output."""
    return [os.fsdecode(item) for item in output.split(b"\0") if item]


def name_all(paths: list[str]) -> str:
    """The first few paths for a message, with the number of the others."""
    shown = ", ".join(paths[:_SHOWN])
    return shown if len(paths) <= _SHOWN else f"{shown} and {len(paths) - _SHOWN} more"
