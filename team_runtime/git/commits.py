"""Making commits: of what is in a checkout, and of two commits together."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.git.run import Git, Tree, split
from team_runtime.git.status import Status, read_status

NAME: Final = "team_runtime"
EMAIL: Final = "team@localhost"


def identity(git: Git, tree: Tree, agent: str | None = None) -> dict[str, str]:
    """The variables that say who commits: the user, where git knows them, and as the author the
    agent, such as `auth (team)`."""
    done = git.run(tree, "config", "-z", "--get-regexp", r"^user\.(name|email)$", allowed=(0, 1))
    user = dict(item.partition("\n")[::2] for item in split(done.stdout))
    name, email = user.get("user.name"), user.get("user.email")
    if not name or not email:
        name, email = NAME, EMAIL
    return {
        "GIT_AUTHOR_NAME": f"{agent} (team)" if agent else name,
        "GIT_AUTHOR_EMAIL": email,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": email,
    }


def with_trailers(message: str, **trailers: str | None) -> bytes:
    """`message` with the lines `Key: value` at its end that it does not have yet."""
    text = message.strip()
    lines = [f"{key}: {value}" for key, value in trailers.items() if value]
    missing = [line for line in lines if line not in text.splitlines()]
    has_block = len(missing) < len(lines) and text.splitlines()[-1] in lines
    gap = "\n" if has_block else "\n\n"
    whole = gap.join([text, "\n".join(missing)]) if missing else text
    return (whole + "\n").encode("utf-8", "replace")


@dataclass(frozen=True)
class Merge:
    """Two commits put together: a tree, and the paths in which they contradict each other."""

    tree: str
    conflicts: list[str]


def merge_trees(git: Git, tree: Tree, ours: str, theirs: str) -> Merge:
    """Put two commits together without touching any checkout."""
    done = git.run(
        tree,
        *("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs),
        allowed=(0, 1),
    )
    made, *conflicts = split(done.stdout)
    return Merge(made, sorted(set(conflicts)) if done.status else [])


def commit_tree(git: Git, tree: Tree, content: str, parents: Sequence[str], message: bytes) -> str:
    """A new commit of the tree `content`. No branch moves."""
    named = [part for parent in parents for part in ("-p", parent)]
    done = git.run(
        tree,
        *("commit-tree", content, *named, "-F", "-"),
        input=message,
        env=identity(git, tree),
    )
    return done.stdout.decode().strip()


def stage(git: Git, tree: Tree, status: Status, index: str | None = None) -> None:
    """Stage everything in `status` but repositories inside the checkout, of which git would keep
    only a name, and ignored files.

    Not with `git add`: that runs git in each submodule, with the submodule's own settings.
    """
    env = {"GIT_INDEX_FILE": index} if index else None
    gone = [path for path in status.modified if not _is_there(tree.work_tree, path)]
    present = [path for path in status.committable if path not in set(gone)]
    for options, paths in (
        (["--force-remove"], gone),
        (["--add", "--remove", "--replace"], present),
    ):
        if paths:
            listing = "\0".join(paths).encode("utf-8", "surrogateescape")
            git.run(tree, "update-index", *options, "-z", "--stdin", input=listing, env=env)


def _is_there(root: Path, path: str) -> bool:
    """Whether `path` is a file, a link or a submodule of the checkout; not behind a link."""
    place = root / path
    if place.parent.resolve() != root.resolve() / Path(path).parent:
        return False
    return place.is_symlink() or place.is_file() or (place / ".git").exists()


def snapshot(git: Git, tree: Tree) -> str:
    """The tree object of everything in the checkout that `stage` stages; its index stays."""
    with scratch_index(tree) as index:
        stage(git, tree, read_status(git, tree), index)
        return git.text(tree, "write-tree", env={"GIT_INDEX_FILE": index})


@contextlib.contextmanager
def scratch_index(tree: Tree) -> Iterator[str]:
    """The path of a copy of the checkout's index."""
    with tempfile.TemporaryDirectory(prefix="team-", dir=tree.git_dir) as folder:
        index = Path(folder) / "index"
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(tree.git_dir / "index", index)
        yield str(index)


def is_torn(git: Git, tree: Tree, commit: str, path: str) -> bool:
    """Whether the file in the checkout is the beginning of the one in `commit`: what a `git` that
    was killed leaves, and nobody's work."""
    place = tree.work_tree / path
    if place.is_symlink() or not place.is_file():
        return False
    whole = git.run(tree, "cat-file", "--filters", f"{commit}:{path}").stdout
    return whole.startswith(place.read_bytes())
