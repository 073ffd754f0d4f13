"""A thread rests until the clock shows a moment, somebody rings, or a signal comes."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from team_runtime.app.rest import Rest, resting
from team_runtime.clock import SystemClock
from team_runtime.daemons import clock_watch

pytestmark = pytest.mark.timeout(20)
CLOCK = SystemClock()


@pytest.fixture(params=["kernel", "checked"])
def rest(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rest]:
    if request.param == "checked":
        monkeypatch.setattr(clock_watch, "_kernel_clock", lambda: None)
    with resting(CLOCK) as rest:
        yield rest


def test_until_a_moment(rest: Rest) -> None:
    moment = CLOCK.now() + timedelta(seconds=0.2)
    while CLOCK.now() < moment:
        assert not rest.until(moment)


def test_until_somebody_rings(rest: Rest) -> None:
    ringing = threading.Thread(target=rest.ring)
    ringing.start()
    while not rest.until(CLOCK.now() + timedelta(hours=1)):
        pass
    ringing.join()


def test_a_ring_before_the_rest_is_kept_and_many_are_one(rest: Rest) -> None:
    for _ in range(100_000):  # more than a pipe holds
        rest.ring()
    while rest.until(CLOCK.now()):
        pass
    rest.ring()
    assert rest.until(CLOCK.now() + timedelta(hours=1))


def test_in_a_process_with_more_than_a_thousand_open_files(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip("no process may open so many here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    low = os.pipe()
    high = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 1500) for end in low)
    try:
        monkeypatch.setattr(os, "pipe", lambda: high)
        with resting(CLOCK) as rest:
            rest.ring()
            assert rest.until(CLOCK.now() + timedelta(hours=1))
    finally:
        for end in low:
            os.close(end)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("when", ["before", "during"])
def test_until_a_signal(rest: Rest, when: str) -> None:
    heard = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
    rest.hear_signals()
    killing = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        if when == "before":
            os.kill(os.getpid(), signal.SIGUSR1)
        else:
            killing.start()
        while not rest.until(CLOCK.now() + timedelta(hours=1)):
            pass
        assert heard == [1]
    finally:
        signal.signal(signal.SIGUSR1, before)
        killing.cancel()


def test_afterwards_signals_go_where_they_went(rest: Rest) -> None:
    with resting(CLOCK) as other:
        other.hear_signals()
    assert signal.set_wakeup_fd(-1) == -1
