"""Every watch of a clock tells when a moment has come, however the clock got there."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from team_runtime.clock import Clock, SystemClock
from team_runtime.crossing import Bell
from team_runtime.daemons import clock_watch
from team_runtime.daemons.clock_watch import (
    CHECK_SECONDS,
    CheckedClock,
    ClockWatch,
    KernelClock,
    KernelTimer,
    hearing,
    watching,
)
from tests.support.clocks import HandClock

SOON = timedelta(seconds=0.3)


async def comes(watch: ClockWatch, clock: Clock, moment: datetime) -> int:
    """Wait as a daemon does; returns how often it had to look at the clock."""
    looks, bell = 0, Bell()
    with anyio.fail_after(20), hearing(watch, bell):
        while clock.now() < moment:
            await bell.wait(watch.until(moment))
            looks += 1
    return looks


class Pipe:
    """A timer that expires, or hears that the clock was set, when a test says so."""

    def __init__(self) -> None:
        self.descriptor, self._write = os.pipe()
        os.set_blocking(self.descriptor, False)
        self.was_set = False
        self.at: list[int] = []

    def set_clock(self) -> None:
        self.was_set = True
        os.write(self._write, b"1")

    def set(self, nanoseconds: int) -> None:
        self.at.append(nanoseconds)
        if self.was_set:
            self.was_set = False
            raise OSError(errno.ECANCELED, "the clock was set")

    def read(self) -> None:
        os.read(self.descriptor, 8)
        if self.was_set:
            self.was_set = False
            raise OSError(errno.ECANCELED, "the clock was set")

    def close(self) -> None:
        os.close(self.descriptor)
        os.close(self._write)


class Contract:
    """What holds for every watch of the machine's clock."""

    @pytest.fixture
    def watch(self) -> Any:
        raise NotImplementedError

    def test_a_moment_is_told_when_it_has_come(self, watch: ClockWatch) -> None:
        clock = SystemClock()
        anyio.run(comes, watch, clock, clock.now() + SOON)

    def test_a_moment_that_is_over_is_told_at_once(self, watch: ClockWatch) -> None:
        async def rings() -> None:
            bell = Bell()
            with anyio.fail_after(20), hearing(watch, bell):
                await bell.wait(watch.until(SystemClock().now() - timedelta(days=400)))

        anyio.run(rings)

    def test_only_the_last_moment_is_waited_for(self, watch: ClockWatch) -> None:
        clock = SystemClock()
        watch.until(clock.now() + timedelta(days=400))
        anyio.run(comes, watch, clock, clock.now() + SOON)

    def test_a_moment_beyond_all_clocks(self, watch: ClockWatch) -> None:
        assert watch.until(datetime.max.replace(tzinfo=SystemClock().now().tzinfo)) > 0


class TestChecked(Contract):
    @pytest.fixture
    def watch(self, monkeypatch: pytest.MonkeyPatch) -> ClockWatch:
        monkeypatch.setattr(clock_watch, "CHECK_SECONDS", 0.05)
        return CheckedClock(SystemClock())

    def test_a_clock_that_is_set_is_noticed_at_the_next_look(self) -> None:
        clock = HandClock()
        watch, moment = CheckedClock(clock), clock.now() + timedelta(days=1)
        assert 0 < watch.until(moment) <= CHECK_SECONDS
        clock.jump(moment)
        assert watch.until(moment) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has such timers")
class TestKernel(Contract):
    @pytest.fixture
    def watch(self) -> Iterator[ClockWatch]:
        watch = KernelClock(KernelTimer())
        yield watch
        watch.close()

    def test_nothing_wakes_before_the_moment(self, watch: ClockWatch) -> None:
        clock = SystemClock()
        assert anyio.run(comes, watch, clock, clock.now() + SOON) <= 1
        assert watch.until(clock.now() + SOON) == float("inf")

    def test_the_kernel_is_asked_to_tell_when_the_clock_is_set(self) -> None:
        timer = KernelTimer()
        watch = KernelClock(timer)
        watch.until(SystemClock().now() + timedelta(hours=1))
        told = Path(f"/proc/self/fdinfo/{timer.descriptor}").read_text()
        watch.close()
        assert "clockid: 0\n" in told  # CLOCK_REALTIME
        assert "settime flags: 03\n" in told  # TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET


def test_a_clock_that_is_set_wakes_at_once_and_the_moment_is_still_waited_for() -> None:
    clock, timer = HandClock(), Pipe()
    watch = KernelClock(timer)
    moment = clock.now() + timedelta(days=1)

    async def run() -> None:
        bell = Bell()
        with anyio.fail_after(20), hearing(watch, bell):
            for ahead in (timedelta(hours=1), timedelta(hours=-1)):
                assert watch.until(moment) == float("inf")
                clock.jump(clock.now() + ahead)
                timer.set_clock()
                assert await bell.wait(20)

    anyio.run(run)
    watch.close()
    assert timer.at[1:] == [int(moment.timestamp()) * 10**9] * 2


def test_a_clock_that_was_set_between_two_waits_is_looked_at_at_once() -> None:
    timer = Pipe()
    watch = KernelClock(timer)
    timer.was_set = True
    assert watch.until(HandClock().now()) == 0
    assert watch.until(HandClock().now()) == float("inf")
    watch.close()


def test_a_kernel_without_such_timers_means_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object, nanoseconds: int) -> None:
        raise OSError(errno.EINVAL, "no TFD_TIMER_CANCEL_ON_SET here")

    monkeypatch.setattr(KernelTimer, "set", refuse)
    with watching(SystemClock()) as watch:
        assert isinstance(watch, CheckedClock)


def test_another_clock_than_the_machines_is_never_left_to_the_kernel() -> None:
    with watching(HandClock()) as watch:
        assert isinstance(watch, CheckedClock)
