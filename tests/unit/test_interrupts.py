"""A signal is heard by a run, or by whoever serves on after it, and never by nobody."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import anyio
import pytest

from team_runtime.team.interrupts import Interrupts


@pytest.fixture
def served() -> Iterator[list[int]]:
    """The signals that came to whoever had an ear for them before the run."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    yield heard
    signal.signal(signal.SIGTERM, before)


def test_a_signal_that_comes_as_the_run_ends_is_not_lost(served: list[int]) -> None:
    interrupts = Interrupts(leave=lambda: None, patience=30)

    async def run() -> None:
        async with anyio.create_task_group() as group:
            await group.start(interrupts.watch)
            group.cancel_scope.cancel()
            signal.raise_signal(signal.SIGTERM)

    anyio.run(run)
    assert (interrupts.seen, served) == (1, [])
    signal.raise_signal(signal.SIGTERM)
    assert (interrupts.seen, served) == (1, [signal.SIGTERM])


def test_three_signals_at_once_are_three(served: list[int]) -> None:
    async def run() -> None:
        left = anyio.Event()
        interrupts = Interrupts(leave=left.set, patience=30)
        async with anyio.create_task_group() as group:
            await group.start(interrupts.watch)
            for _ in range(3):
                signal.raise_signal(signal.SIGTERM)
            await left.wait()
            group.cancel_scope.cancel()

    anyio.run(run)
    assert served == []
