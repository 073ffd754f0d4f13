"""Where handlers run: on plain threads, or beside an event loop."""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Generic, Protocol, TypeVar, TypeVarTuple

import anyio
from anyio import to_thread

from team_runtime.crossing import Bell, Crossing, Stopped
from team_runtime.process.base import Runner
from team_runtime.process.run import BlockingRunner, LoopRunner

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Host(Protocol):
    """Where handlers run."""

    @property
    def runner(self) -> Runner:
        """Starts programs."""
        ...

    def together(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """What the jobs return, run side by side."""
        ...

    def apart(self, call: Callable[[], T], seconds: float) -> T:
        """What a call returns that nobody can interrupt; it is left alone after `seconds`, with a
        `TimeoutError`."""
        ...


class _Call(Generic[T]):
    """A call on a thread of its own, which may outlive whoever waits for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._value: list[T] = []
        self._error: BaseException | None = None

    def start(self, done: Callable[[], object]) -> None:
        threading.Thread(target=self._run, args=(done,), daemon=True).start()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._value[0]

    def _run(self, done: Callable[[], object]) -> None:
        try:
            self._value.append(self._call())
        except BaseException as error:
            self._error = error
        done()


class ThreadHost:
    """For the command line and the library: no event loop."""

    def __init__(self, runner: Runner | None = None) -> None:
        self.runner: Runner = runner or BlockingRunner()

    def together(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        if len(jobs) == 1:
            return [jobs[0]()]
        calls = [(_Call(job), threading.Event()) for job in jobs]
        for call, done in calls:
            call.start(done.set)
        for _, done in calls:
            done.wait()
        return [call.result() for call, _ in calls]

    def apart(self, call: Callable[[], T], seconds: float) -> T:
        started, done = _Call(call), threading.Event()
        started.start(done.set)
        if not done.wait(seconds):
            raise TimeoutError
        return started.result()


class LoopHost:
    """For an agent of a run: every wait goes through its crossing, so that a stop ends it.

    With `closing`, it waits also after the stop, within so many seconds for each wait. Raises
    `Stopped` when they run out.
    """

    def __init__(self, crossing: Crossing, closing: float | None = None) -> None:
        self.runner: Runner = LoopRunner(crossing, closing)
        self._crossing = crossing
        self._closing = closing

    def together(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        if len(jobs) == 1:
            return [jobs[0]()]
        return self._wait(_side_by_side, jobs)

    def apart(self, call: Callable[[], T], seconds: float) -> T:
        return self._wait(_awaited, call, seconds)

    def _wait(self, func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        if self._closing is None:
            return self._crossing.wait(func, *args)
        boxed = self._crossing.finish(self._closing, _boxed, func, *args)
        if boxed is None:
            raise Stopped
        return boxed[0]


async def _boxed(func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> tuple[T]:
    return (await func(*args),)


async def _side_by_side(jobs: Sequence[Callable[[], T]]) -> list[T]:
    limiter = anyio.CapacityLimiter(math.inf)
    results: dict[int, T] = {}

    async def one(index: int, job: Callable[[], T]) -> None:
        with suppress(Stopped):
            results[index] = await to_thread.run_sync(job, limiter=limiter)

    async with anyio.create_task_group() as group:
        for index, job in enumerate(jobs):
            group.start_soon(one, index, job)
    if len(results) < len(jobs):  # raised here, because a task group would wrap it
        raise Stopped
    return [results[index] for index in range(len(jobs))]


async def _awaited(call: Callable[[], T], seconds: float) -> T:
    started, bell = _Call(call), Bell()
    started.start(bell.ring)
    if not await bell.wait(seconds):
        raise TimeoutError
    return started.result()
