"""Where hooks run: on plain threads and beside an event loop, with the same promises."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from anyio import to_thread

from team_runtime.crossing import Crossing, Stopped
from team_runtime.guard.hook_hosts import Host, LoopHost, ThreadHost
from team_runtime.process.base import Command
from tests.support.hooking import fire, make_hooks, parsed, shell, table

T = TypeVar("T")
SECONDS = 20.0


class HostContract(ABC):
    """What every host promises."""

    @abstractmethod
    def on(self, act: Callable[[Host], T]) -> T:
        """What `act` returns for a host of this kind."""

    def test_jobs_meet_and_return_in_order(self) -> None:
        barrier = threading.Barrier(6)

        def job(n: int) -> int:
            barrier.wait(SECONDS)
            return n

        jobs = [lambda n=n: job(n) for n in range(6)]
        assert self.on(lambda host: host.together(jobs)) == list(range(6))

    @pytest.mark.parametrize("count", [1, 3])
    def test_a_jobs_error_is_raised(self, count: int) -> None:
        def job() -> None:
            raise ZeroDivisionError("here")

        with pytest.raises((ZeroDivisionError, ExceptionGroup)):
            self.on(lambda host: host.together([job] * count))

    def test_a_call_apart_returns_also_none(self) -> None:
        assert self.on(lambda host: host.apart(lambda: 5, SECONDS)) == 5
        assert self.on(lambda host: host.apart(lambda: None, SECONDS)) is None

    def test_a_call_apart_raises_its_error(self) -> None:
        def call() -> None:
            raise KeyError("here")

        with pytest.raises(KeyError):
            self.on(lambda host: host.apart(call, SECONDS))

    def test_a_call_that_hangs_is_left_alone(self) -> None:
        release = threading.Event()
        try:
            with pytest.raises(TimeoutError):
                self.on(lambda host: host.apart(lambda: release.wait(SECONDS), 0.05))
        finally:
            release.set()

    def test_jobs_may_start_programs(self, tmp_path: Path) -> None:
        command = Command(["/bin/echo", "x"], tmp_path, {}, SECONDS)

        def act(host: Host) -> list[bytes]:
            return [c.stdout for c in host.together([lambda: host.runner.run(command)] * 3)]

        assert self.on(act) == [b"x\n"] * 3

    def test_hooks_say_the_same_on_it(self, tmp_path: Path) -> None:
        given = table("PreToolUse", shell("echo no >&2; exit 2"), shell("true"), shell("exit 1"))
        outcome = self.on(lambda host: fire(make_hooks(parsed(given), tmp_path, host=host)))
        assert outcome.reason.startswith("no; the hook itself failed")


class TestThreadHost(HostContract):
    def on(self, act: Callable[[Host], T]) -> T:
        return act(ThreadHost())


class TestLoopHost(HostContract):
    def on(self, act: Callable[[Host], T]) -> T:
        async def host() -> T:
            return await to_thread.run_sync(act, LoopHost(Crossing()))

        return anyio.run(host)

    def test_a_stop_ends_what_runs(self, tmp_path: Path) -> None:
        """A program, a call apart and several jobs at once."""
        release = threading.Event()
        given = table("PreToolUse", shell("touch a; sleep 60"), shell("touch b; sleep 60"))

        def hang(host: Host) -> None:
            host.apart(lambda: release.wait(SECONDS), SECONDS)

        def hook(host: Host) -> None:
            fire(make_hooks(parsed(given), tmp_path, host=host))

        async def stopped(act: Callable[[Host], None], when: Callable[[], bool]) -> None:
            crossing = Crossing()
            ended: list[BaseException] = []

            def run() -> None:
                try:
                    act(LoopHost(crossing))
                except Stopped as stop:
                    ended.append(stop)

            async with anyio.create_task_group() as group:
                group.start_soon(to_thread.run_sync, run)
                with anyio.fail_after(SECONDS):
                    while not when():  # noqa: ASYNC110 - a file, made by another process
                        await anyio.sleep(0.01)
                crossing.stop()
            assert len(ended) == 1

        anyio.run(stopped, hang, lambda: True)
        anyio.run(stopped, hook, lambda: (tmp_path / "a").exists() and (tmp_path / "b").exists())
        release.set()


class TestClosingLoopHost(HostContract):
    """After the agent was stopped, within a limit."""

    def on(self, act: Callable[[Host], T]) -> T:
        async def host() -> T:
            crossing = Crossing()
            crossing.stop()
            return await to_thread.run_sync(act, LoopHost(crossing, SECONDS))

        return anyio.run(host)
