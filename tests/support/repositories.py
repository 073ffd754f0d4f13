"""A user's repository in a place with a difficult name, and a team's view of it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from team_runtime.git.drivers import Trusts, trusts_none
from team_runtime.git.landing import Landing
from team_runtime.git.repository import Repository
from team_runtime.git.run import Git
from team_runtime.git.worktrees import Worktree, Worktrees
from team_runtime.process.base import Runner
from team_runtime.process.run import BlockingRunner
from team_runtime.store.files import Store

ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ü Ser",
    "GIT_AUTHOR_EMAIL": "user@example.org",
    "GIT_COMMITTER_NAME": "Ü Ser",
    "GIT_COMMITTER_EMAIL": "user@example.org",
}
DIFFICULT = "my repo's “é” x"
BRANCH = "trunk"


def git(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> str:
    """What git says in `folder`, as the user runs it; raises when it fails."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**ENV, **IDENTITY, **(env or {})},
        capture_output=True,
        check=True,
    )
    return os.fsdecode(done.stdout)


def write(folder: Path, **files: str | None) -> None:
    """Write files given as `a__b_txt="…"`, meaning `a/b.txt`; `None` deletes."""
    for key, text in files.items():
        write_at(folder, key.replace("__", "/").replace("_", "."), text)


def write_at(folder: Path, path: str, text: str | None) -> None:
    place = folder / path
    if text is None:
        place.unlink()
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def new_repository(parent: Path, name: str = DIFFICULT) -> Path:
    """A repository with one commit on `trunk`, no remote and no identity."""
    return Path(shutil.copytree(_template().name, parent / name))


@functools.cache
def _template() -> tempfile.TemporaryDirectory[str]:
    """Made once: copying is several times faster."""
    folder = tempfile.TemporaryDirectory(prefix="template-")
    root = Path(folder.name)
    git(root, "init", "--quiet", "--template=", f"--initial-branch={BRANCH}")
    write(root, a_txt="a\n", b_txt="b\n", sub__c_txt="c\n")
    write_at(root, ".gitignore", "*.log\nnode_modules/\n")
    commit_all(root, "Start")
    return folder


def commit_all(root: Path, message: str = "Work") -> str:
    """Commit everything as the user does; returns the commit."""
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", message)
    return head(root)


def head(root: Path, ref: str = "HEAD") -> str:
    return git(root, "rev-parse", ref).strip()


@dataclass
class Team:
    """What the runtime has of one workspace."""

    root: Path
    runner: Runner = field(default_factory=BlockingRunner)
    trusts: Trusts = trusts_none
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store = Store.open(self.root, "process")
        self.repository = Repository.open(self.root, Git(self.runner, ENV), self.trusts)
        self.worktrees = Worktrees(self.repository, self.store, self._emit)
        self.landing = Landing(self.repository, self.worktrees, self.store, self._emit)

    def _emit(self, kind: str, agent: str | None = None, **fields: Any) -> None:
        self.events.append({"kind": kind, "agent": agent, **fields})

    def work(self, name: str, **files: str | None) -> Worktree:
        """A worktree with one commit that writes `files`."""
        worktree = self.worktrees.create(name, f"task_of_{name}")
        write(worktree.path, **files)
        self.worktrees.commit(worktree, f"Work of {name}", name)
        return worktree

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]
