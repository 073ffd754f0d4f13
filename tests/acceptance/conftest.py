"""What the acceptance tests start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from team_runtime.clock import SystemClock
from team_runtime.daemons import attention
from tests.support.clocks import Skew
from tests.support.scripted_team import make_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository of its own for each test."""
    return make_repository(tmp_path / "repository")


@pytest.fixture
def skew(monkeypatch: pytest.MonkeyPatch) -> Skew:
    """How far the clock of everything in this process is ahead."""
    skew = Skew()
    monkeypatch.setattr(SystemClock, "now", skew.now)
    monkeypatch.setattr(attention, "CHECK_SECONDS", 0.5)
    return skew
