"""What the acceptance tests start from."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from team_runtime.clock import SystemClock
from team_runtime.daemons import clock_watch
from tests.support.clocks import Skew
from tests.support.scripted_team import make_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository of its own for each test."""
    return make_repository(tmp_path / "repository")


def no_timer() -> None:
    raise OSError(errno.ENOSYS, "the kernel knows nothing of this clock")


@pytest.fixture
def skew(monkeypatch: pytest.MonkeyPatch) -> Skew:
    """How far the clock of everything in this process is ahead."""
    skew = Skew()
    monkeypatch.setattr(SystemClock, "now", skew.now)
    monkeypatch.setattr(clock_watch, "KernelTimer", no_timer)
    monkeypatch.setattr(clock_watch, "CHECK_SECONDS", 0.5)
    return skew
