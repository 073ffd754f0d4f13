"""Schedules in whole runs: a reminder comes by itself, once, to whom it is for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen
from tests.support.scripted_team import Ran, call, make_repository, run_team


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repo")


def history(ran: Ran) -> list[list[tuple[str, str | None]]]:
    """State and note of each firing, by schedule."""
    entries = ran.workspace.schedules.entries()
    return [[(f.state, f.note) for f in entry.history.firings] for entry in entries]


def remind(**given: Any) -> Any:
    return call("schedule_cron", **{"cron": "in 2 seconds", "prompt": "the <meeting>", **given})


def test_a_reminder_arrives_by_itself_and_the_run_waits_for_it(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [remind()]
        yield "I will remind you."
        yield "The meeting is now."

    ran = run_team(root, {"lead": lead})

    assert ran.result.ending.text == "The meeting is now."
    assert ran.result.exit_code == 0
    shown = ran.shown("lead")
    assert '<scheduled id="cron_' in shown
    assert ">the &lt;meeting&gt;</scheduled>" in shown
    assert "[one-shot, durable]" in shown
    assert history(ran) == [[("acknowledged", None)]]
    fired = ran.of("schedule_fired")
    assert len(fired) == 1
    assert fired[0]["slot"] in shown
    assert ran.of("daemon_state", daemon="cron", state="running")
