"""The moments at which a schedule fires: wall-clock patterns in a zone, and single moments.

The rule around changes of the clock: an hour field of `*` or `*/n` counts hours from midnight by
elapsed time, so it fires in both of two repeated hours and every n hours whatever the clock shows.
Anything else is a fixed wall time: once in a repeated hour, the first time, and at the first valid
minute after a missing one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

HORIZON: Final = 9 * 366
"""Days to look ahead: the 29th of February is at most eight years away."""
YEARS: Final = range(1970, 9001)
"""Moments of other years are refused: near the ends of time no zone and no sum is safe."""
_HOUR: Final = timedelta(hours=1)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True)
class Pattern:
    """Five cron fields, expanded. `None` for days means that any day matches."""

    minutes: frozenset[int]
    hours: frozenset[int]
    every_hours: int | None
    """For an hour field of `*` or `*/n`: n; then `hours` says nothing."""
    month_days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None
    """Sunday is 0."""

    def on(self, day: date) -> bool:
        """Whether it fires on `day`: with both kinds of days given, either is enough."""
        if self.months is not None and day.month not in self.months:
            return False
        chosen = []
        if self.month_days is not None:
            chosen.append(day.day in self.month_days)
        if self.weekdays is not None:
            chosen.append(day.isoweekday() % 7 in self.weekdays)
        return any(chosen) if chosen else True


@dataclass(frozen=True)
class Once:
    """A single moment, in UTC."""

    at: datetime

    def after(self, moment: datetime) -> datetime | None:
        """The moment, if it is later than `moment`."""
        return self.at if self.at > moment else None

    def latest(self, after: datetime, upto: datetime, limit: int) -> Sequence[datetime]:
        """The moment, if it is later than `after` and not later than `upto`."""
        return [self.at] if after < self.at <= upto else []


@dataclass(frozen=True)
class Recurring:
    """A pattern in a zone. All moments are aware, and those that are returned are in UTC."""

    pattern: Pattern
    zone: ZoneInfo

    def after(self, moment: datetime) -> datetime | None:
        """The first slot later than `moment`; `None` when there is none within the horizon."""
        first = moment.astimezone(self.zone).date().toordinal() - 1
        last = min(first + HORIZON, date.max.toordinal() - 1)
        for number in range(first, last):
            slot = next((s for s in self._on(date.fromordinal(number), moment) if s > moment), None)
            if slot is not None:
                return slot
        return None

    def latest(self, after: datetime, upto: datetime, limit: int) -> Sequence[datetime]:
        """The newest slots, at most `limit`, later than `after` and not later than `upto`, oldest
        first. Costs no more for a long time than for `limit` slots and a look at each day."""
        found: set[datetime] = set()
        first = after.astimezone(self.zone).date().toordinal() - 1
        for number in range(upto.astimezone(self.zone).date().toordinal(), first - 1, -1):
            slots = self._on(date.fromordinal(number), after)
            found.update(slot for slot in slots if after < slot <= upto)
            if len(found) >= limit:
                break
        return sorted(found)[-limit:]

    def _on(self, day: date, after: datetime) -> Iterator[datetime]:
        """The slots of a day, in order, perhaps with one twice; those up to `after` may be left
        out."""
        if not self.pattern.on(day):
            return iter(())
        if self.pattern.every_hours is not None:
            return self._elapsed(day, self.pattern.every_hours, after)
        return self._fixed(day)

    def _fixed(self, day: date) -> Iterator[datetime]:
        for hour in sorted(self.pattern.hours):
            for minute in sorted(self.pattern.minutes):
                yield instant(datetime.combine(day, time(hour, minute)), self.zone)

    def _elapsed(self, day: date, every: int, after: datetime) -> Iterator[datetime]:
        """Hours are counted from midnight; the minute is the one that the clock shows."""
        begin = instant(datetime.combine(day, time()), self.zone)
        end = instant(datetime.combine(day + timedelta(days=1), time()), self.zone)
        hour = begin
        while hour < end:
            if (hour - begin) // _HOUR % every == 0 and hour + _HOUR > after:
                moments = (hour + _MINUTE * number for number in range(60))
                yield from (m for m in moments if m < end and self._shows(m))
            hour += _HOUR

    def _shows(self, moment: datetime) -> bool:
        return moment.astimezone(self.zone).minute in self.pattern.minutes


def instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """When clocks in `zone` show `wall`, in UTC: the first time if they show it twice, and the
    first moment after the gap if they never do."""
    found = wall.replace(tzinfo=zone).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None, fold=0) == wall:
        return found
    # With the offset of before the gap `wall` lies after the change, with that of after, before it.
    earlier = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
    before = earlier.astimezone(zone).utcoffset()
    low, high = 0, int((found - earlier).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        shown = (earlier + timedelta(seconds=middle)).astimezone(zone)
        low, high = (middle, high) if shown.utcoffset() == before else (low, middle)
    return earlier + timedelta(seconds=high)
