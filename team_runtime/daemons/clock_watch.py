"""Waiting for a moment of the wall clock, which may be set at any time and stand still in between.

Where the kernel can, it tells: waiting then costs nothing. Elsewhere somebody has to look.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from team_runtime.clock import Clock, SystemClock
from team_runtime.crossing import Bell

CHECK_SECONDS: Final = 5.0
"""Between two looks at a clock of which the kernel does not tell."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_FAR: Final = datetime(2100, 1, 1, tzinfo=UTC)
_ABSOLUTE: Final = 1
_CANCEL_ON_SET: Final = 2


class ClockWatch(Protocol):
    """Tells when a clock shows a moment, however it got there."""

    @property
    def descriptor(self) -> int | None:
        """Becomes readable when the moment has come or the clock was set; `None` if nothing
        does."""
        ...

    def until(self, moment: datetime) -> float:
        """From now on this moment is waited for, and no other. Returns the seconds after which to
        look at the clock even if the descriptor is silent."""
        ...

    def drain(self) -> None:
        """What the descriptor told is known now."""
        ...

    def close(self) -> None:
        """Nothing is waited for any more."""
        ...


class CheckedClock:
    """Of this clock nobody tells: whoever waits for it looks at it again and again."""

    descriptor: Final = None

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def until(self, moment: datetime) -> float:
        left = (moment - self._clock.now()).total_seconds()
        return max(0.0, min(left, CHECK_SECONDS))

    def drain(self) -> None:
        """There is nothing to drain."""

    def close(self) -> None:
        """There is nothing to close."""


class Timer(Protocol):
    """A timer of the kernel that runs by the machine's wall clock."""

    descriptor: int

    def set(self, nanoseconds: int) -> None:
        """Expire at that time since 1970, or when the clock is set. Raises `OSError`; ECANCELED
        says that the clock was set since the last call, and the timer runs all the same."""
        ...

    def read(self) -> None:
        """Take note of the expiry. Raises `OSError`; ECANCELED says that the clock was set."""
        ...

    def close(self) -> None: ...


class KernelClock:
    """The machine's wall clock, with a timer that also ends when somebody sets it, or when the
    machine wakes from its sleep."""

    def __init__(self, timer: Timer) -> None:
        """Raises `OSError` when the kernel does not know such timers."""
        self._timer = timer
        self.until(_FAR)

    @property
    def descriptor(self) -> int:
        return self._timer.descriptor

    def until(self, moment: datetime) -> float:
        try:
            self._timer.set((min(moment, _FAR) - _EPOCH) // timedelta(microseconds=1) * 1000)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            return 0.0
        return float("inf")

    def drain(self) -> None:
        try:
            self._timer.read()
        except OSError as error:
            if error.errno not in (errno.ECANCELED, errno.EAGAIN):
                raise

    def close(self) -> None:
        self._timer.close()


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Time), ("value", _Time))


class KernelTimer:
    """A `timerfd` of Linux, by the C library: Python has it from 3.13 on."""

    def __init__(self) -> None:
        """Raises `OSError` when the system has none."""
        library = ctypes.CDLL(None, use_errno=True)
        try:
            create, self._set = library.timerfd_create, library.timerfd_settime
        except AttributeError as error:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from error
        self.descriptor = _checked(create(time.CLOCK_REALTIME, os.O_CLOEXEC | os.O_NONBLOCK))

    def set(self, nanoseconds: int) -> None:
        setting = _Setting(value=_Time(*divmod(nanoseconds, 1_000_000_000)))
        flags = _ABSOLUTE | _CANCEL_ON_SET
        _checked(self._set(self.descriptor, flags, ctypes.byref(setting), None))

    def read(self) -> None:
        os.read(self.descriptor, 8)

    def close(self) -> None:
        os.close(self.descriptor)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@contextmanager
def watching(clock: Clock) -> Iterator[ClockWatch]:
    """A watch of this clock: the kernel's where it can be had, and for the machine's clock only."""
    watch = _kernel_clock() if isinstance(clock, SystemClock) else None
    watch = watch or CheckedClock(clock)
    try:
        yield watch
    finally:
        watch.close()


@contextmanager
def hearing(watch: ClockWatch, bell: Bell) -> Iterator[None]:
    """The bell rings when the watch tells something. Use on the loop."""
    loop, descriptor = asyncio.get_running_loop(), watch.descriptor

    def tell() -> None:
        watch.drain()
        bell.ring()

    if descriptor is not None:
        loop.add_reader(descriptor, tell)
    try:
        yield
    finally:
        if descriptor is not None:
            loop.remove_reader(descriptor)


def _kernel_clock() -> ClockWatch | None:
    try:
        timer = KernelTimer()
    except OSError:
        return None
    try:
        return KernelClock(timer)
    except OSError:
        timer.close()
        return None
