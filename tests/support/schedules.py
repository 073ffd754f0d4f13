"""Schedules on disk with a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from team_runtime.clock import SystemEntropy
from team_runtime.daemons.schedule_store import ScheduleStore
from team_runtime.daemons.schedules import Schedule
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Durability, Faults, Store
from team_runtime.store.layout import Layout
from tests.support.clocks import HandClock

NOON: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
SESSION: Final = "s-20260601-120000-4f2a"


def draft(when: str = "*/10 * * * *", **more: Any) -> Schedule:
    """A schedule that was made at noon, for the lead of `SESSION`."""
    given = {"prompt": "check", "zone": "UTC", "session": SESSION, "created_by": "lead", **more}
    return Schedule(id="", when=when, **{"created_at": NOON, **given})


def hand_store(
    workspace: Path,
    clock: HandClock,
    faults: Faults | None = None,
    durability: Durability = "process",
) -> Store:
    """A store of `workspace` with that clock."""
    layout = Layout(workspace)
    layout.prepare()
    return Store(layout, clock, SystemEntropy(), durability, faults=faults)


def schedules_in(workspace: Path, clock: HandClock, emit: Emit = no_events) -> ScheduleStore:
    return ScheduleStore(hand_store(workspace, clock), emit)


def at(text: str) -> datetime:
    """A moment of the day at whose noon schedules are made here."""
    return datetime.fromisoformat(f"2026-06-01T{text}").replace(tzinfo=UTC)


def minutes(*numbers: float) -> Iterator[datetime]:
    """Moments so many minutes after noon."""
    return (NOON + timedelta(minutes=number) for number in numbers)
