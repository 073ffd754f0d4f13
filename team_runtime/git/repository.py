"""The user's repository: found once, at the start, and from then on named."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import CommandFailed, NotARepository
from team_runtime.git.drivers import Drivers, Setting, Trusts, trusts_none
from team_runtime.git.run import Git, Tree, split
from team_runtime.git.status import Status, read_status
from team_runtime.process.base import Runner
from team_runtime.store.beneath import TEMPORARY

RUNTIME_FOLDERS: Final = (".tasks", "worktrees", ".memory", ".team")


@dataclass(frozen=True)
class Checkout:
    """One checkout of the repository that git knows of."""

    path: Path
    head: str | None
    branch: str | None
    """Its full ref; `None` when HEAD is detached."""


@dataclass(frozen=True)
class Repository:
    """The repository of a workspace. Methods raise `CommandFailed` when git does."""

    git: Git
    tree: Tree
    """The user's own checkout."""

    @classmethod
    def open(cls, workspace: Path, git: Git, trusts: Trusts = trusts_none) -> Repository:
        """Look for the repository of `workspace`. Programs that its own settings name are run only
        when `trusts` says so. Raises `NotARepository`, or `ProgramMissing`
        when git is not there or too old."""
        git.check_version(workspace)
        if _ask(git, workspace, "--is-bare-repository") == "true":
            hint = "Use a checkout of it, such as one made by `git worktree add`."
            raise NotARepository(str(workspace), "it is a bare repository", hint)
        root = Path(_ask(git, workspace, "--show-toplevel"))
        git_dir = Path(_ask(git, workspace, "--absolute-git-dir"))
        common = Path(_ask(git, workspace, "--path-format=absolute", "--git-common-dir"))
        git = replace(git, drivers=Drivers(trusts))
        repository = cls(git, Tree(root, git_dir, common))
        if repository.tip("HEAD") is None:
            branch = repository.head_branch() or "HEAD"
            hint = "Make the first commit: git add -A && git commit -m Start"
            raise NotARepository(str(root), f"its branch {branch} has no commit yet", hint)
        return repository

    def drivers(self) -> tuple[Setting, ...]:
        """The repository's own settings by which git would run programs, as they are now."""
        return self.git.drivers.found(self.git.free, self.tree) if self.git.drivers else ()

    @property
    def root(self) -> Path:
        """The top of the user's checkout."""
        return self.tree.work_tree

    def through(self, runner: Runner) -> Repository:
        """The same repository, with git run by `runner`."""
        return replace(self, git=replace(self.git, runner=runner))

    def head_branch(self) -> str | None:
        """The branch that is checked out, such as `main`; `None` when HEAD is detached."""
        done = self.git.run(self.tree, "symbolic-ref", "-q", "HEAD", allowed=(0, 1))
        return os.fsdecode(done.stdout).strip().removeprefix("refs/heads/") or None

    def tip(self, ref: str, tree: Tree | None = None) -> str | None:
        """The commit that `ref` names now (in the checkout `tree`), in full; `None` for none."""
        done = self.git.run(
            tree or self.tree,
            *("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}"),
            allowed=(0, 1),
        )
        sha = done.stdout.decode().strip()
        return sha if sha.isalnum() else None  # `a..b` names more than one commit

    def branch_tip(self, branch: str) -> str | None:
        """The commit at the end of a local branch; `None` when there is no such branch."""
        return self.tip(f"refs/heads/{branch}")

    def tree_of(self, commit: str) -> str:
        """The tree object of a commit."""
        return self.git.text(self.tree, "rev-parse", f"{commit}^{{tree}}")

    def is_ancestor(self, a: str, b: str) -> bool:
        """Whether commit `a` is contained in commit `b`."""
        return a == b or self.git.holds(self.tree, "merge-base", "--is-ancestor", a, b)

    def is_tracked(self, path: str) -> bool:
        """Whether git knows a file of the user's checkout."""
        return self.git.holds(self.tree, "ls-files", "--error-unmatch", "--", path)

    def changed_paths(self, old: str, new: str) -> list[str]:
        """The paths that differ between two commits or trees."""
        return self.git.items(
            self.tree,
            *("diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff"),
            *("--no-textconv", "--end-of-options", old, new),
        )

    def move(self, ref: str, new: str, old: str) -> bool:
        """Let `ref` name `new`, if it still names `old` (empty: if it does not exist yet)."""
        try:
            self.git.run(self.tree, "update-ref", "--no-deref", ref, new, old or "0" * len(new))
        except CommandFailed:
            if (self.tip(ref) or "") == old:
                raise
            return False
        return True

    def delete(self, ref: str, old: str) -> bool:
        """Delete `ref`, if it still names `old`."""
        try:
            self.git.run(self.tree, "update-ref", "--no-deref", "-d", ref, old)
        except CommandFailed:
            if self.tip(ref) == old:
                raise
            return False
        return True

    def fast_forward(self, tree: Tree, commit: str) -> None:
        """Move the branch that is checked out in `tree` forward to `commit`, files included. Files
        that are not committed are never overwritten. Raises `CommandFailed`."""
        self.git.run(
            tree,
            *("merge", "--quiet", "--ff-only", "--no-overwrite-ignore", "--no-autostash"),
            *("--no-verify-signatures", "--no-stat", commit),
        )

    def status(self) -> Status:
        """What differs from the last commit in the user's checkout."""
        return read_status(self.git, self.tree)

    def dirty_paths(self) -> list[str]:
        """The modified, staged and untracked paths of the user's checkout."""
        status = self.status()
        return [*status.modified, *status.untracked]

    def checkouts(self) -> list[Checkout]:
        """Every checkout that git has registered, the main one first."""
        listing = self.git.run(self.tree, "worktree", "list", "--porcelain", "-z").stdout
        main, *linked = [_checkout(split(entry)) for entry in listing.split(b"\0\0") if entry]
        if self.tree.git_dir == self.tree.common_dir:
            main = replace(main, path=self.root)  # of a submodule, git shows the git folder
        return [main, *linked]

    def exclude_runtime_files(self) -> None:
        """Keep our folders and half-written files out of git, through `info/exclude`; what is there
        stays. A folder with tracked files is the user's, and is left alone, as is what a link there
        leads to. Git is run only when something is missing there."""
        exclude = self.tree.common_dir / "info" / "exclude"
        if exclude.is_symlink() or exclude.parent.is_symlink():
            return
        present = exclude.read_bytes() if exclude.exists() else b""
        lines = {f"/{name}/".encode(): name for name in RUNTIME_FOLDERS}
        lines[f"{TEMPORARY}*".encode()] = ""
        missing = [line for line in lines if line not in present.splitlines()]
        if missing:
            tracked = self.git.items(self.tree, "ls-files", "-z", "--", *RUNTIME_FOLDERS)
            users = {path.partition("/")[0] for path in tracked}
            missing = [line for line in missing if lines[line] not in users]
        if missing:
            exclude.parent.mkdir(exist_ok=True)
            gap = b"\n" if present and not present.endswith(b"\n") else b""
            with exclude.open("ab") as file:
                file.write(gap + b"".join(line + b"\n" for line in missing))


def _ask(git: Git, workspace: Path, *question: str) -> str:
    try:
        # A bare repository is named in our own error, not in git's.
        return git.text(workspace, "-c", "safe.bareRepository=all", "rev-parse", *question)
    except CommandFailed as error:
        cause, hint = error.output.removeprefix("fatal: "), "See the message of git."
        if "not a git repository" in cause:
            cause = "it is not in a git repository"
            hint = "Make one: git init && git add -A && git commit -m Start"
        raise NotARepository(str(workspace), cause, hint) from error


def _checkout(lines: list[str]) -> Checkout:
    fields: Mapping[str, str] = dict(line.partition(" ")[::2] for line in lines)
    return Checkout(Path(fields["worktree"]), fields.get("HEAD"), fields.get("branch"))
