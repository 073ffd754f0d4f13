"""A workspace with secrets around it, and commands that run confined in its worktree."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import pytest

from team_runtime.process.base import Command, Completed, Runner
from team_runtime.process.detection import detect
from team_runtime.process.landlock import Landlock, version
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import Confinement, Sandbox

PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
SECRET: Final = "canary-4711"


@dataclass(frozen=True)
class Grounds:
    """The folders that a confined command is put between."""

    root: Path

    @property
    def main(self) -> Path:
        return self.root / "main"

    @property
    def worktree(self) -> Path:
        return self.main / "worktrees" / "parser"

    @property
    def git(self) -> Path:
        return self.main / ".git"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "temporary"

    @property
    def policy(self) -> Confinement:
        """What the runtime allows in the worktree, as far as these folders go."""
        return Confinement(
            writable=(self.worktree,),
            readable=(
                self.root,
                self.worktree / ".git",
                Path(sys.prefix),
                Path(sys.base_prefix),
                Path(sys.executable).parent,
            ),
            hidden=(self.home / ".ssh", self.home / ".netrc", self.main / ".team"),
            temporary=self.temporary,
        )


def bubblewrap() -> Sandbox:
    """Skips the test where there is none."""
    found = detect("auto", {"PATH": PATH})
    if found.layer != "bubblewrap":
        pytest.skip("bubblewrap does not work on this machine")
    return found


def landlock() -> Sandbox:
    """Skips the test where there is none that guards signals too."""
    found = version()
    if found < 6:
        pytest.skip("the kernel has no Landlock, or an old one")
    return Landlock(found)


def make_grounds(root: Path) -> Grounds:
    grounds = Grounds(root)
    for folder in (grounds.main, grounds.home / ".ssh", grounds.temporary):
        folder.mkdir(parents=True)
    (grounds.home / ".ssh" / "id_ed25519").write_text(SECRET)
    (grounds.home / ".netrc").write_text(SECRET)
    (grounds.home / "notes").write_text("notes")
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    for arguments in (
        ["init", "--quiet", "--initial-branch=main"],
        [*identity, "commit", "--quiet", "--allow-empty", "-m", "first"],
        ["worktree", "add", "--quiet", "-b", "team/parser", str(grounds.worktree)],
    ):
        subprocess.run(["git", *arguments], cwd=grounds.main, check=True)
    (grounds.main / ".team").mkdir()
    (grounds.main / ".team" / "mail").write_text(SECRET)
    return grounds


@dataclass(frozen=True)
class Cell:
    """Runs commands confined to the worktree."""

    sandbox: Sandbox
    grounds: Grounds
    runner: Runner = field(default_factory=BlockingRunner)

    def run(self, *argv: str, input: bytes = b"", **changes: Any) -> Completed:
        """The end of a command; `changes` are made to the policy."""
        env = {"PATH": PATH, "HOME": str(self.grounds.home), "LC_ALL": "C"}
        command = Command(argv, self.grounds.worktree, env, 60, input, merge=True)
        policy = replace(self.grounds.policy, **changes)
        return self.runner.run(self.sandbox.confine(command, policy))

    def sh(self, script: str, **changes: Any) -> Completed:
        return self.run("/bin/sh", "-c", script, **changes)

    def python(self, script: str, *arguments: str, **changes: Any) -> Completed:
        """A script in a bare interpreter."""
        return self.run(sys.executable, "-I", "-S", "-c", script, *arguments, **changes)

    def refuses(self, script: str, **changes: Any) -> None:
        """Assert that a shell command runs and fails."""
        ended = self.sh(f"echo ran; {script}", **changes)
        assert ended.stdout.startswith(b"ran\n"), ended.stdout
        assert ended.status not in (0, 126, 127), (script, ended.stdout)
