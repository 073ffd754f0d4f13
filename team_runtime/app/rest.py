"""The rest of a thread between two looks: a moment of the clock, a hint or a signal ends it."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Final

from team_runtime.clock import Clock
from team_runtime.daemons.clock_watch import ClockWatch, watching

_ANY: Final = 4096
"""Bytes: more rings than that at once are as good as one."""


class Rest:
    """Made by `resting`. One thread rests; any may ring."""

    def __init__(self, watch: ClockWatch, reader: int, writer: int) -> None:
        self._watch = watch
        self._reader = reader
        self._writer = writer

    def ring(self) -> None:
        """End the rest, or the next one if nobody rests. Safe in a signal handler."""
        with suppress(BlockingIOError):  # it is full of rings
            os.write(self._writer, b"\0")

    def hear_signals(self) -> None:
        """Signals that have a handler ring, until somebody else wants to hear them. For the main
        thread: without this, one that comes just before the rest begins would not end it."""
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)

    def until(self, moment: datetime) -> bool:
        """Rest, at the longest until the clock shows `moment`; returns whether somebody rang. It
        may end early."""
        seconds = self._watch.until(moment)
        ends = select.poll()  # unlike `select` it takes any number
        for descriptor in (self._reader, self._watch.descriptor):
            if descriptor is not None:
                ends.register(descriptor, select.POLLIN)
        timeout = None if seconds == float("inf") else seconds * 1000
        ready = [descriptor for descriptor, _ in ends.poll(timeout)]
        if self._watch.descriptor in ready:
            self._watch.drain()
        if self._reader in ready:
            os.read(self._reader, _ANY)
        return self._reader in ready


@contextmanager
def resting(clock: Clock) -> Iterator[Rest]:
    """A thread's rest by this clock."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    try:
        with watching(clock) as watch:
            yield Rest(watch, reader, writer)
    finally:
        with suppress(ValueError):  # not the main thread
            if (other := signal.set_wakeup_fd(-1)) not in (-1, writer):
                signal.set_wakeup_fd(other)
        os.close(reader)
        os.close(writer)
