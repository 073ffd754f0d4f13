"""What the acceptance tests start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.scripted_team import make_repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A small repository of its own for each test."""
    return make_repository(tmp_path / "repository")
