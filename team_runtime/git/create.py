"""Making a new repository."""

from __future__ import annotations

from pathlib import Path

from team_runtime.git.commits import identity
from team_runtime.git.repository import Repository
from team_runtime.git.run import Git, Tree


def create_repository(folder: Path, git: Git, branch: str, message: str) -> Repository:
    """A repository in `folder` whose first commit on `branch` holds what is there."""
    git.check_version(folder)
    git.run(folder, "init", "--quiet", f"--initial-branch={branch}")
    tree = Tree(folder, folder / ".git", folder / ".git")
    git.run(tree, "add", "--all")
    git.run(tree, "commit", "--quiet", f"--message={message}", env=identity(git, tree))
    return Repository.open(folder, git)
