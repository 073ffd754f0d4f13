"""Bringing the target into a worktree, for an agent to resolve what contradicts its work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from team_runtime.errors import WorktreeRefused
from team_runtime.git.commits import identity
from team_runtime.git.record import Worktree
from team_runtime.git.worktrees import Worktrees

_MARKER: Final = re.compile(r"^(.*):\d+: leftover conflict marker$", re.MULTILINE)


def begin_merge(worktrees: Worktrees, worktree: Worktree) -> None:
    """Merge the target's tip into the files of `worktree`, with marks where both changed the same
    lines. The next commit concludes the merge. Does nothing when it has begun or was done.

    Raises `WorktreeRefused` when the worktree has changes that are not committed.
    """
    worktrees.verify(worktree)
    repository, tree = worktrees.repository, worktree.tree
    if (worktree.git_dir / "MERGE_HEAD").exists():
        return
    target = repository.branch_tip(worktree.target)
    tip = repository.branch_tip(worktree.branch)
    if target is None or tip is None or repository.is_ancestor(target, tip):
        return
    if not worktrees.is_clean(worktree):
        hint = "Commit or remove them first."
        raise WorktreeRefused(worktree.name, "it has changes that are not committed", hint)
    repository.git.run(
        tree,
        *("merge", "--quiet", "--no-commit", "--no-ff", "--no-verify", target),
        env=identity(repository.git, tree),
        allowed=(0, 1),
    )


def unresolved(worktrees: Worktrees, worktree: Worktree) -> Sequence[str]:
    """The files that still have marks of a merge, sorted."""
    done = worktrees.repository.git.run(
        worktree.tree,
        *("diff", "--check", "--no-ext-diff", "--no-textconv", "--no-color"),
        *("--end-of-options", worktree.base),
        allowed=(0, 2),
    )
    found = _MARKER.findall(done.stdout.decode("utf-8", "surrogateescape"))
    return sorted(set(found))
