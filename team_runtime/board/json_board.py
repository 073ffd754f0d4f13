"""The board as JSON files, one a task: the truth, readable and editable by a person."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from team_runtime.board import codec
from team_runtime.board.base import Presence
from team_runtime.board.checks import Shelf
from team_runtime.board.model import Task
from team_runtime.board.transactions import TransactionalBoard
from team_runtime.errors import RecordBroken, UnknownTask, VersionTooNew
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Durability, Store
from team_runtime.store.presence import RunPresence, Runs
from team_runtime.store.records import Fields, decode_record, encode_record

_NAME: Final = re.compile(r"task_([1-9][0-9]{0,14})\.json")
_ID: Final = re.compile(r"task_([1-9][0-9]{0,14})")
_MARK_VERSION: Final = 1
_SETTLED_NS: Final = 50_000_000
"""A file that changed later than this before it was read may change again within the same tick of
its time stamp, so that stat would not show it."""
_SAVING_SECONDS: Final = 0.05
"""How long an editor may need to save a file that it has truncated."""


@dataclass(frozen=True)
class _Entry:
    """A task as it was read, and what stat said then; `None` when that cannot be trusted."""

    task: Task
    data: bytes
    seen: tuple[int, int, int] | None


class TaskFiles:
    """The shelf in `.tasks`. What it remembers is checked by stat, and by content before a write.

    Other files there are left alone; a task that cannot be read is set aside.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.layout.tasks
        self._mark = store.layout.team / "board.json"
        self._entries: dict[str, _Entry] = {}

    def require(self, task_id: str) -> Task:
        task = self._read(task_id) if _ID.fullmatch(task_id) else None
        if task is None:
            newest = max(self.tasks(), key=lambda task: task.number, default=None)
            raise UnknownTask(
                task_id, f"The newest is {newest.id}." if newest else "There are none."
            )
        return task

    def find(self, task_id: str) -> Task | None:
        try:
            return self._read(task_id) if _ID.fullmatch(task_id) else None
        except VersionTooNew:
            return None

    def tasks(self) -> list[Task]:
        found = [self._current(name, state) for name, state in self._store.states(self._folder)]
        return sorted((task for task in found if task is not None), key=lambda task: task.number)

    def _current(self, name: str, state: os.stat_result) -> Task | None:
        entry = self._entries.get(name)
        if entry and entry.seen == _seen(state):
            return entry.task
        return self.find(name.removesuffix(".json")) if _NAME.fullmatch(name) else None

    def add(self, build: Callable[[str], Task]) -> Task:
        self._store.folder(self._folder)
        number = self._next_number()
        while True:
            task = build(f"task_{number}")
            self._set_mark(number)
            try:
                self._store.publish(self._path(task.id), codec.encode(task))
            except FileExistsError:  # put there by hand since we looked
                number += 1
                continue
            return task

    def replace(self, old: Task, new: Task) -> bool:
        path = self._path(old.id)
        entry = self._entries.get(path.name)
        if entry is None or entry.task != old:
            return False
        return self._store.replace(path, entry.data, codec.encode(new))

    def _path(self, task_id: str) -> Path:
        return self._folder / f"{task_id}.json"

    def _read(self, task_id: str) -> Task | None:
        path = self._path(task_id)
        try:
            state = os.lstat(path)
        except FileNotFoundError:
            return None
        entry = self._entries.get(path.name)
        if entry and entry.seen == _seen(state):
            return entry.task
        try:
            return self._load(path, state)
        except RecordBroken as error:
            return self._mend_or_set_aside(path, error)

    def _load(self, path: Path, state: os.stat_result) -> Task | None:
        """The task in `path`, remembered together with what stat said before it was read."""
        entry = self._entries.get(path.name)
        data = self._store.read(path)
        if data is None:
            return None
        task = entry.task if entry and entry.data == data else codec.decode(data, path)
        age = self._store.clock.now().timestamp() * 1e9 - state.st_mtime_ns
        self._entries[path.name] = _Entry(task, data, _seen(state) if age > _SETTLED_NS else None)
        return task

    def _mend_or_set_aside(self, path: Path, error: RecordBroken) -> Task | None:
        """The task, if an editor was in the middle of saving it; else it goes to quarantine."""
        threading.Event().wait(_SAVING_SECONDS)
        try:
            return self._load(path, os.lstat(path))
        except FileNotFoundError:
            return None
        except RecordBroken:
            self._store.quarantine(path, error.cause)
            return None

    def _next_number(self) -> int:
        here = map(_NAME.fullmatch, self._store.names(self._folder))
        set_aside = map(_NAME.match, self._store.names(self._store.layout.quarantine))
        used = [int(match[1]) for match in (*here, *set_aside) if match]
        return max(0, self._last_allocated(), *used) + 1

    def _last_allocated(self) -> int:
        """The highest number ever given out, also when its file is gone."""
        try:
            data = self._store.read(self._mark)
            if data is not None:
                mark = Fields(decode_record(data, self._mark, _MARK_VERSION), self._mark)
                return mark.integer("last")
        except RecordBroken as error:
            self._store.quarantine(self._mark, error.cause)
        mentioned = (_ID.fullmatch(b) for task in self.tasks() for b in task.blocked_by)
        return max((int(m[1]) for m in mentioned if m), default=0)

    def _set_mark(self, number: int) -> None:
        mark = encode_record({"v": _MARK_VERSION, "last": number})
        while not self._store.replace(self._mark, self._store.read(self._mark), mark):
            pass


def _seen(state: os.stat_result) -> tuple[int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns


class JsonBoard(TransactionalBoard):
    """A board in a folder. Safe for threads, processes and after a fork."""

    def __init__(
        self, store: Store, presence: Presence, run: str | None, emit: Emit = no_events
    ) -> None:
        super().__init__(store.clock, store.entropy, presence, run, emit)
        self._store = store
        self._files = TaskFiles(store)
        self._own_presence: RunPresence | None = None

    @classmethod
    def open(
        cls, workspace: Path | str, *, run: bool = False, durability: Durability = "power"
    ) -> Self:
        """The board of any folder, made where it is missing.

        With `run`, claims are bound to the life of this process (a forked child's to that of its
        parent); otherwise they are manual, and only an explicit command ends them.
        """
        store = Store.open(Path(workspace), durability)
        store.folder(store.layout.tasks)
        if not run:
            return cls(store, Runs(store), None)
        presence = RunPresence.start(store, {"kind": "library"})
        board = cls(store, presence, presence.run)
        board._own_presence = presence
        return board

    def close(self) -> None:
        """End the run that `open` began. What it still holds can then be reaped."""
        if self._own_presence is not None:
            self._own_presence.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[Shelf]:
        with self._store.lock("board"):
            yield self._files

    def _look(self) -> Shelf:
        return self._files
