"""What the runtime knows about each worktree: one record a file, in `.team/worktrees/`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import RecordBroken, WorktreeRefused
from team_runtime.git.run import Tree, name_all
from team_runtime.store.files import Store
from team_runtime.store.layout import check_worktree_name
from team_runtime.store.records import Fields, decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
READY: Final = "ready"
CREATING: Final = "creating"
"""Git is making it, or was when its process died."""
REMOVING: Final = "removing"
"""Its folder is set aside, to look at it undisturbed; an interrupted removal puts it back."""
DROPPING: Final = "dropping"
"""Nothing in it can be lost any more; an interrupted removal goes on."""


@dataclass(frozen=True)
class Landed:
    """One landing: `commit`, the branch's tip, is in `target` since `merge`."""

    name: str
    commit: str
    merge: str
    target: str
    at: str
    left_behind: tuple[str, ...] = ()
    """Paths that were not committed in the worktree, so that they are not in the landing."""

    @property
    def remark(self) -> str:
        """What a person or an agent should know about what did not land; mostly empty."""
        if not self.left_behind:
            return ""
        return f"; not in it, because it was not committed: {name_all(list(self.left_behind))}"


@dataclass(frozen=True)
class Worktree:
    """One task's checkout, and the branch that is checked out in it."""

    name: str
    task: str
    path: Path
    branch: str
    git_dir: Path
    common_dir: Path
    base: str
    """The commit from which its work started."""
    target: str
    """The branch on which it will land."""
    created_at: str
    landed: tuple[Landed, ...] = ()
    state: str = READY
    tip: str | None = None
    """The end of the branch, while the worktree is being dropped."""
    extra: Mapping[str, Json] = field(default_factory=dict, repr=False, hash=False)
    """Fields of the record that we do not know; they survive a rewrite."""

    @property
    def tree(self) -> Tree:
        """Where git finds its parts."""
        return Tree(self.path, self.git_dir, self.common_dir)

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return f"refs/heads/{self.branch}"

    @property
    def aside(self) -> Path:
        """Where its folder is while it is being removed. No worktree's name starts with a dot."""
        return self.path.with_name(f".removing-{self.name}")


def branch_of(name: str) -> str:
    """The branch of the worktree `name`."""
    return f"team/{name}"


class Registry:
    """The records of one workspace.

    In a copy of a workspace they lead to the folders of the original. Such a record is foreign: it
    is not used, so that nothing that happens here touches those folders.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        folder = store.layout.worktrees
        self.folder = folder.parent.resolve() / folder.name
        """Where the worktrees are, with links above it resolved, as git writes it."""

    def find(self, name: str) -> Worktree | None:
        """The record of `name`, or `None`. Raises `NameInvalid`, `RecordBroken`."""
        path = self._path(name)
        data = self._store.read(path)
        found = None if data is None else _decode(data, path)
        return found if found is None or self._is_ours(found) else None

    def get(self, name: str) -> Worktree:
        """The record of `name`. Raises `WorktreeRefused` when there is none."""
        found = self.find(name)
        if found is None:
            for foreign in self.foreign():
                if foreign.name == name:
                    raise refusal_of_foreign(foreign)
            known = ", ".join(worktree.name for worktree in self.all()) or "none"
            raise WorktreeRefused(name, "there is no such worktree", f"Worktrees: {known}.")
        return found

    def all(self) -> list[Worktree]:
        """Every record, by name. A broken one is quarantined."""
        return [worktree for worktree in self._all() if self._is_ours(worktree)]

    def foreign(self) -> list[Worktree]:
        """The records that came with a copy, or were left behind by a move, of the workspace."""
        return [worktree for worktree in self._all() if not self._is_ours(worktree)]

    def _is_ours(self, worktree: Worktree) -> bool:
        return worktree.path == self.folder / worktree.name

    def _all(self) -> list[Worktree]:
        found = []
        for path in sorted(self._store.layout.records.glob("*.json")):
            data = self._store.read(path)
            try:
                if data is not None:
                    found.append(_decode(data, path))
            except RecordBroken as error:
                self._store.quarantine(path, error.cause)
        return found

    def add(self, worktree: Worktree) -> None:
        """Write a record that is not there yet. Raises `WorktreeRefused` when it is."""
        self._store.folder(self._store.layout.records)
        if not self._store.replace(self._path(worktree.name), None, _encode(worktree)):
            raise WorktreeRefused(worktree.name, "the name is taken", "Choose another name.")

    def change(self, name: str, change: Callable[[Worktree], Worktree]) -> Worktree:
        """Rewrite the record of `name` with what `change` makes of it."""
        path = self._path(name)
        while True:
            old = self._store.read(path)
            if old is None:
                raise WorktreeRefused(name, "its record is gone", "Create it again.")
            new = change(_decode(old, path))
            if self._store.replace(path, old, _encode(new)):
                return new

    def set_state(self, name: str, state: str, tip: str | None = None) -> Worktree:
        """Record how far making or removing `name` has come."""
        return self.change(name, lambda worktree: replace(worktree, state=state, tip=tip))

    def remove(self, name: str) -> None:
        """Forget `name`."""
        self._store.remove(self._path(name))

    def _path(self, name: str) -> Path:
        return self._store.layout.records / f"{check_worktree_name(name)}.json"


def refusal_of_foreign(worktree: Worktree) -> WorktreeRefused:
    """Why a record that came with a copy of the workspace is not used."""
    cause = f"it is in {worktree.path}: this workspace was copied or moved since it was made"
    hint = "Nothing was done there. Work in that workspace, or move this one back to its place."
    return WorktreeRefused(worktree.name, cause, hint)


def _encode(worktree: Worktree) -> bytes:
    return encode_record({**worktree.extra, **worktree_record(worktree)})


def worktree_record(worktree: Worktree) -> dict[str, Json]:
    """The worktree with the field names that it has on disk."""
    return {
        "v": VERSION,
        "name": worktree.name,
        "task": worktree.task,
        "path": str(worktree.path),
        "branch": worktree.branch,
        "gitDir": str(worktree.git_dir),
        "commonDir": str(worktree.common_dir),
        "base": worktree.base,
        "target": worktree.target,
        "createdAt": worktree.created_at,
        "state": worktree.state,
        "tip": worktree.tip,
        "landed": [
            {"commit": one.commit, "merge": one.merge, "target": one.target, "at": one.at}
            for one in worktree.landed
        ],
    }


def _decode(data: bytes, path: Path) -> Worktree:
    record = decode_record(data, path, VERSION)
    fields = Fields(record, path)
    name = fields.text("name")
    if f"{name}.json" != path.name:
        raise RecordBroken(str(path), f"it is about {name!r}")

    def landed(part: Fields) -> Landed:
        commit, merge = part.text("commit"), part.text("merge")
        return Landed(name, commit, merge, part.text("target"), part.text("at"))

    worktree = Worktree(
        name=name,
        task=fields.text("task"),
        path=Path(fields.text("path")),
        branch=fields.text("branch"),
        git_dir=Path(fields.text("gitDir")),
        common_dir=Path(fields.text("commonDir")),
        base=fields.text("base"),
        target=fields.text("target"),
        created_at=fields.text("createdAt"),
        landed=fields.parts("landed", landed),
        state=fields.text("state", READY),
        tip=fields.optional("tip"),
    )
    unknown = {key: value for key, value in record.items() if key not in worktree_record(worktree)}
    return replace(worktree, extra=unknown)
