"""What a schedule is, what became of each of its slots, and which slots fire: pure, no files."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from team_runtime.daemons.slots import Once, Recurring
from team_runtime.daemons.when import find_zone, parse_when
from team_runtime.types import Json

SKIP: Final = "skip"
ONCE: Final = "once"
ALL: Final = "all"
MISFIRES: Final = (SKIP, ONCE, ALL)
GRACE: Final = timedelta(seconds=60)
"""A slot that is seen later than this was missed, and the misfire policy decides about it."""
CATCH_UP: Final = 24
"""How many missed slots fire at most with the policy `all`."""
HISTORY: Final = 100
"""How many firings of a schedule are remembered; those that are not over always are."""
LONGEST_JITTER: Final = 3600
LONGEST_PROMPT: Final = 20_000
"""Characters; each firing adds them to a conversation."""
_LOOK_BACK: Final = 1000
_FIRST_PAUSE: Final = timedelta(minutes=1)
_LONGEST_PAUSE: Final = timedelta(hours=1)

RECORDED: Final = "recorded"
"""It will be delivered, whatever happens to this process."""
DELIVERED: Final = "delivered"
ACKNOWLEDGED: Final = "acknowledged"
"""The turn that contains it has ended."""
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
OPEN: Final = (RECORDED, DELIVERED)


@dataclass(frozen=True)
class Schedule:
    """When to give whom what prompt."""

    id: str
    when: str
    zone: str
    prompt: str
    created_at: datetime
    created_by: str
    to: str = "lead"
    session: str | None = None
    """The session that made it and whose agent it wakes; without one each firing gets its own."""
    durable: bool = True
    """Whether it fires when no run of its session is going, as `team daemon` sees to."""
    recurring: bool = True
    misfire: str = ONCE
    expires: datetime | None = None
    jitter: int = 0
    """Seconds; it fires late by a part of them that its id decides."""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Fields of its record that we do not know."""

    @cached_property
    def timing(self) -> Once | Recurring:
        """Its slots. Raises `InputError`."""
        return parse_when(self.when, find_zone(self.zone), self.created_at)

    @property
    def repeats(self) -> bool:
        return self.recurring and isinstance(self.timing, Recurring)

    @property
    def delay(self) -> timedelta:
        """From each slot to its firing."""
        digest = hashlib.sha256(self.id.encode()).digest()
        return timedelta(seconds=int.from_bytes(digest[:8], "big") % (self.jitter + 1))

    def shown(self, slot: datetime) -> str:
        """The slot as people and models see it: in the schedule's zone, with its offset."""
        return slot.astimezone(find_zone(self.zone)).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Firing:
    """What became of one slot, or of several that were skipped together."""

    slot: datetime
    """Of skipped ones the last."""
    state: str
    at: str
    """When it was recorded."""
    session: str | None = None
    delivered_at: str | None = None
    ended_at: str | None = None
    note: str | None = None
    count: int = 1

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


@dataclass(frozen=True)
class Firings:
    """The history of one schedule."""

    cursor: datetime | None = None
    """The newest slot that was decided about: none up to it is ever looked at again."""
    failures: int = 0
    """How often in a row its agent's turn ended in an error."""
    failed_at: datetime | None = None
    firings: tuple[Firing, ...] = ()
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def open(self) -> list[Firing]:
        """Those that are not over."""
        return [firing for firing in self.firings if firing.is_open]

    def changed(self, slot: datetime, **changes: Any) -> Firings:
        """The history with the firing of `slot` changed; skipped ones stay as they are."""
        firings = [
            replace(f, **changes) if f.slot == slot and f.state != SKIPPED else f
            for f in self.firings
        ]
        return replace(self, firings=tuple(firings))


def next_slot(schedule: Schedule, history: Firings) -> datetime | None:
    """The next slot to decide about, in the past when it was missed; `None` when there is none."""
    if history.cursor is not None and not schedule.repeats:
        return None
    slot = schedule.timing.after(_decided(schedule, history))
    over = slot is not None and schedule.expires is not None and slot > schedule.expires
    return None if over else slot


def decide(
    schedule: Schedule, history: Firings, now: datetime, at: str
) -> tuple[Firings, list[Firing]]:
    """Decide about every slot up to `now`: the history with them, and those that fire.

    `at` is the time as records write it.
    """
    slots = _due(schedule, history, now)
    if not slots:
        return history, []
    fire, skipped = _chosen(schedule, history, slots, now)
    fired = [Firing(slot, RECORDED, at, schedule.session) for slot in fire]
    new = [*history.firings, *_skipped(skipped, at), *fired]
    kept = _bounded(sorted(new, key=lambda firing: firing.slot))
    return replace(history, cursor=slots[-1], firings=kept), fired


def _decided(schedule: Schedule, history: Firings) -> datetime:
    """Up to here everything is decided: nothing fires for a time before the schedule was made."""
    return max(schedule.created_at, history.cursor or schedule.created_at)


def _due(schedule: Schedule, history: Firings, now: datetime) -> Sequence[datetime]:
    first = next_slot(schedule, history)
    upto = now - schedule.delay
    if first is None or first > upto:
        return []
    if not schedule.repeats:
        return [first]
    upto = min(upto, schedule.expires or upto)
    return schedule.timing.latest(_decided(schedule, history), upto, _LOOK_BACK)


def _chosen(
    schedule: Schedule, history: Firings, slots: Sequence[datetime], now: datetime
) -> tuple[list[datetime], dict[str, list[datetime]]]:
    """Which of the slots fire, and the others by the reason why they do not."""
    ends = pause_ends(history)
    paused = [slot for slot in slots if ends is not None and slot < ends]
    rest = [slot for slot in slots if slot not in paused]
    missed = [slot for slot in rest if slot + schedule.delay < now - GRACE]
    on_time = rest[len(missed) :]
    if schedule.misfire == ALL:
        fire = [*missed[-CATCH_UP:], *on_time]
    elif schedule.misfire == ONCE and missed:
        fire = rest[-1:]
    else:
        fire = on_time
    late = [slot for slot in rest if slot not in fire]
    reasons = {
        f"paused after {history.failures} failures in a row": paused,
        _missed(schedule): late,
    }
    return fire, reasons


def _missed(schedule: Schedule) -> str:
    return (
        "nothing ran at that time, or the firing before was not over, and missed ones are caught "
        f"up by {schedule.misfire!r}"
    )


def pause_ends(history: Firings) -> datetime | None:
    """Until when it pauses: after turns that ended in an error, each pause is twice as long as the
    one before."""
    if history.failed_at is None or history.failures == 0:
        return None
    doublings = min(history.failures - 1, 10)
    return history.failed_at + min(_FIRST_PAUSE * (1 << doublings), _LONGEST_PAUSE)


def _skipped(by_reason: Mapping[str, Sequence[datetime]], at: str) -> list[Firing]:
    return [
        Firing(slots[-1], SKIPPED, at, ended_at=at, note=reason, count=len(slots))
        for reason, slots in by_reason.items()
        if slots
    ]


def _bounded(firings: Sequence[Firing]) -> tuple[Firing, ...]:
    recent = firings[-HISTORY:]
    return (*(f for f in firings[:-HISTORY] if f.is_open), *recent)


def to_text(moment: datetime | None) -> str | None:
    """A slot as records write it: UTC, whole seconds."""
    return None if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def message_id(schedule_id: str, slot: datetime) -> str:
    """The id of the message about a slot: the same whoever sends it, and however often."""
    return f"m-{schedule_id}-{slot.astimezone(UTC):%Y%m%dT%H%M%SZ}"
