"""Stores that fail or die on purpose, and programs that use a workspace at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from team_runtime.clock import SystemClock, SystemEntropy
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Durability, Faults, Store
from team_runtime.store.layout import Layout
from team_runtime.types import Liveness

T = TypeVar("T")
KILLED = 77
"""The exit status of a child that died on purpose."""


class Presences:
    """A `Presence` that says what the test says; a run it does not know is alive."""

    def __init__(self) -> None:
        self.known: dict[str, Liveness] = {}

    def liveness(self, run: str) -> Liveness:
        return self.known.get(run, Liveness.ALIVE)


class Events:
    """Keeps what was emitted."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, dict[str, Any]]] = []

    def __call__(self, kind: str, agent: str | None = None, **fields: Any) -> None:
        self.seen.append((kind, agent, fields))

    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.seen]


def make_store(
    workspace: Path,
    faults: Faults | None = None,
    durability: Durability = "process",
    emit: Emit = no_events,
) -> Store:
    """A store of `workspace`, by default one that does not wait for the disk."""
    layout = Layout(workspace)
    layout.prepare()
    return Store(layout, SystemClock(), SystemEntropy(), durability, emit, faults)


class AtStep:
    """Faults: calls `act` at the nth moment, before or after a step, and counts all."""

    def __init__(self, n: int, act: Callable[[], object]) -> None:
        self._n = n
        self._act = act
        self.count = 0

    def __call__(self, moment: str, path: Path) -> None:
        self.count += 1
        if self.count == self._n:
            self._act()


def kill_at_every_step(
    folder: Path, prepare: Callable[[Store], T], act: Callable[[Store, T], object]
) -> Iterator[tuple[Store, T, bool]]:
    """For every moment before and after a step of `act`: a workspace in which a process died there,
    opened again, with what `prepare` returned and whether `act` had ended."""
    for n in count(1):
        workspace = folder / str(n)
        prepared = prepare(make_store(workspace))
        status = in_child(lambda: act(dying_store(workspace, n), prepared))  # noqa: B023
        assert status in (0, KILLED)
        yield Store.open(workspace, durability="process"), prepared, status == 0
        if status == 0:
            return


def dying_store(workspace: Path, n: int) -> Store:
    return make_store(workspace, AtStep(n, lambda: os._exit(KILLED)), "power")


def in_child(act: Callable[[], object]) -> int:
    """The exit status of a forked child that did `act`."""
    return ended(forked(act))


def forked(act: Callable[[], object]) -> int:
    """The process id of a forked child that does `act`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads
        child = os.fork()
    if child:
        return child
    status = 1
    try:
        act()
        status = 0
    finally:
        os._exit(status)


def ended(child: int) -> int:
    """The exit status of a child, when it has one."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def program(code: str, *arguments: object) -> subprocess.Popen[str]:
    """A Python program of its own, with pipes."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def outputs(programs: Sequence[subprocess.Popen[str]]) -> list[str]:
    """What programs that run at the same time print. Each must end well."""
    texts = [p.communicate(timeout=50)[0] for p in programs]
    assert [p.returncode for p in programs] == [0] * len(programs)
    return texts


def together(*acts: Callable[[], T]) -> list[T]:
    """The results of `acts`, started at the same moment, each on a thread of its own."""
    barrier = threading.Barrier(len(acts))
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(n: int, act: Callable[[], T]) -> None:
        try:
            barrier.wait()
            results[n] = act()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n, act)) for n, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [results[n] for n in range(len(acts))]
