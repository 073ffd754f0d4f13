"""What in a checkout differs from its last commit."""

from __future__ import annotations

from dataclasses import dataclass

from team_runtime.git.run import Git, Tree, split

_UNTRACKED = "??"
_IGNORED = "!!"


@dataclass(frozen=True)
class Status:
    """Paths below the top of a checkout. A path that ends in `/` stands for all that is in it: an
    ignored folder, or a repository of its own."""

    modified: tuple[str, ...] = ()
    """Tracked files that were changed, deleted or staged."""
    untracked: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether the last commit holds everything but ignored files."""
        return not (self.modified or self.untracked)

    @property
    def nested(self) -> tuple[str, ...]:
        """Repositories inside the checkout: no commit of the checkout can hold their files."""
        return tuple(path for path in self.untracked if path.endswith("/"))

    @property
    def committable(self) -> tuple[str, ...]:
        """What the next commit can hold."""
        nested = set(self.nested)
        return (*self.modified, *(path for path in self.untracked if path not in nested))

    def overlap(self, paths: list[str]) -> list[str]:
        """Those of our paths that lie at, above or below one of `paths`."""
        wanted, above = set(paths), {parent for path in paths for parent in _parents(path)}
        return [
            path
            for path in (*self.modified, *self.untracked, *self.ignored)
            if path.rstrip("/") in wanted | above or wanted.intersection(_parents(path))
        ]


def read_status(git: Git, tree: Tree, index: str | None = None) -> Status:
    """The status of `tree`, against another index file when one is given."""
    done = git.run(
        tree,
        *("status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all"),
        *("--ignored=matching", "--ignore-submodules=dirty"),
        env={"GIT_INDEX_FILE": index} if index else None,
    )
    entries = [(item[:2], item[3:]) for item in split(done.stdout)]
    return Status(
        modified=tuple(path for kind, path in entries if kind not in (_UNTRACKED, _IGNORED)),
        untracked=tuple(path for kind, path in entries if kind == _UNTRACKED),
        ignored=tuple(path for kind, path in entries if kind == _IGNORED),
    )


def _parents(path: str) -> list[str]:
    parts = path.rstrip("/").split("/")
    return ["/".join(parts[:length]) for length in range(1, len(parts))]
