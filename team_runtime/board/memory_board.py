"""A board in memory, for one process: the same rules, gone when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from team_runtime.board.base import Presence
from team_runtime.board.checks import Shelf
from team_runtime.board.model import Task
from team_runtime.board.transactions import TransactionalBoard
from team_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from team_runtime.errors import UnknownTask
from team_runtime.events import Emit, no_events
from team_runtime.types import Liveness


class _Memory:
    """A shelf of frozen tasks."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def find(self, task_id: str) -> Task | None:
        return self._tasks.get(task_id)

    def require(self, task_id: str) -> Task:
        task = self._tasks.get(task_id)
        if task is None:
            raise UnknownTask(task_id, f"There are {len(self._tasks)} tasks.")
        return task

    def tasks(self) -> list[Task]:
        return list(self._tasks.values())

    def add(self, build: Callable[[str], Task]) -> Task:
        task = build(f"task_{len(self._tasks) + 1}")
        self._tasks[task.id] = task
        return task

    def replace(self, old: Task, new: Task) -> bool:
        if self._tasks.get(old.id) is not old:
            return False
        self._tasks[old.id] = new
        return True


class _NoRuns:
    """Nothing is known about any run, so no claim is ever taken from one."""

    def liveness(self, run: str) -> Liveness:
        return Liveness.UNKNOWN


class MemoryBoard(TransactionalBoard):
    """A board for threads of one process."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        presence: Presence,
        run: str | None = None,
        emit: Emit = no_events,
    ) -> None:
        super().__init__(clock, entropy, presence, run, emit)
        self._lock = threading.Lock()
        self._shelf = _Memory()

    @classmethod
    def open(cls) -> Self:
        """A new board whose claims are manual, with the machine's clock."""
        return cls(SystemClock(), SystemEntropy(), _NoRuns())

    def joined(self, run: str | None) -> MemoryBoard:
        """The same tasks, claimed for another run."""
        other = MemoryBoard(self._clock, self._entropy, self._presence, run, self._emit)
        other._lock, other._shelf = self._lock, self._shelf
        return other

    @contextmanager
    def _transaction(self) -> Iterator[Shelf]:
        with self._lock:
            yield self._shelf

    def _look(self) -> Shelf:
        return self._shelf
