"""When schedules fire around every change of the clock of 2026, against tables and an oracle that
walks through all minutes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.daemons.slots import Recurring
from team_runtime.daemons.when import find_zone, parse_when

NEW_YORK, BERLIN, OSLO = "America/New_York", "Europe/Berlin", "Europe/Oslo"
LORD_HOWE, CASABLANCA = "Australia/Lord_Howe", "Africa/Casablanca"
MINUTE = timedelta(minutes=1)
CHANGES = {
    NEW_YORK: ["2026-03-08T07:00", "2026-11-01T06:00"],
    BERLIN: ["2026-03-29T01:00", "2026-10-25T01:00"],
    LORD_HOWE: ["2026-04-04T15:00", "2026-10-03T15:30"],
    CASABLANCA: ["2026-02-15T02:00", "2026-03-22T02:00"],
}
"""In UTC: forward and back, in the order of the year."""


def made(text: str, zone: str) -> Recurring:
    timing = parse_when(text, find_zone(zone), datetime(2026, 1, 1, tzinfo=UTC))
    assert isinstance(timing, Recurring)
    return timing


def slots(text: str, zone: str, start: str, hours: float = 8) -> list[str]:
    """The slots from `start`, a wall time in the zone, as `day hour:minute offset`."""
    timing, where = made(text, zone), find_zone(zone)
    moment = datetime.fromisoformat(start).replace(tzinfo=where).astimezone(UTC) - MINUTE
    end, found = moment + timedelta(hours=hours), []
    while (slot := timing.after(moment)) is not None and slot <= end:
        assert slot > moment
        found.append(f"{slot.astimezone(where):%d %H:%M %z}")
        moment = slot
    return found


def test_the_changes_of_the_table_are_all_changes_of_the_year() -> None:
    for zone, changes in CHANGES.items():
        where, moment = ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC)
        found = []
        while moment.year == 2026:
            later = moment + timedelta(minutes=30)
            if later.astimezone(where).utcoffset() != moment.astimezone(where).utcoffset():
                found.append(f"{later:%Y-%m-%dT%H:%M}")
            moment = later
        assert found == changes, zone


@pytest.mark.parametrize(
    ("zone", "text", "start", "days", "expected"),
    [
        (NEW_YORK, "30 2 * * *", "2026-03-07T12:00", 2, ["08 03:00 -0400", "09 02:30 -0400"]),
        (NEW_YORK, "0 3 * * *", "2026-03-07T12:00", 2, ["08 03:00 -0400", "09 03:00 -0400"]),
        (NEW_YORK, "30 1 * * *", "2026-10-31T12:00", 2, ["01 01:30 -0400", "02 01:30 -0500"]),
        (NEW_YORK, "0 2 * * *", "2026-10-31T12:00", 2, ["01 02:00 -0500", "02 02:00 -0500"]),
        (BERLIN, "30 2 * * *", "2026-03-28T12:00", 2, ["29 03:00 +0200", "30 02:30 +0200"]),
        (BERLIN, "30 2 * * *", "2026-10-24T12:00", 2, ["25 02:30 +0200", "26 02:30 +0100"]),
        (OSLO, "30 2 * * *", "2026-03-28T12:00", 2, ["29 03:00 +0200", "30 02:30 +0200"]),
        (OSLO, "30 2 * * *", "2026-10-24T12:00", 2, ["25 02:30 +0200", "26 02:30 +0100"]),
        (LORD_HOWE, "45 1 * * *", "2026-04-04T12:00", 2, ["05 01:45 +1100", "06 01:45 +1030"]),
        (LORD_HOWE, "15 2 * * *", "2026-10-03T12:00", 2, ["04 02:30 +1100", "05 02:15 +1100"]),
        (CASABLANCA, "30 2 * * *", "2026-02-14T12:00", 2, ["15 02:30 +0100", "16 02:30 +0000"]),
        (CASABLANCA, "30 2 * * *", "2026-03-21T12:00", 2, ["22 03:00 +0100", "23 02:30 +0100"]),
    ],
)
def test_a_fixed_time_fires_once_in_a_repeated_hour_and_after_a_missing_one(
    zone: str, text: str, start: str, days: int, expected: list[str]
) -> None:
    """openclaw#118712, openclaw#118297: it fired twice, or at a time that no clock showed."""
    assert slots(text, zone, start, days * 24) == expected


def test_several_slots_in_one_gap_fire_once() -> None:
    assert slots("*/15 2 * * *", NEW_YORK, "2026-03-08T00:00", 6) == ["08 03:00 -0400"]
    assert slots("*/30 1-3 * * *", NEW_YORK, "2026-03-08T00:00", 4) == [
        *("08 01:00 -0500", "08 01:30 -0500", "08 03:00 -0400", "08 03:30 -0400"),
    ]


def test_all_fixed_slots_of_a_repeated_hour_fire_the_first_time() -> None:
    assert slots("*/30 1-2 * * *", NEW_YORK, "2026-11-01T00:00", 5) == [
        *("01 01:00 -0400", "01 01:30 -0400", "01 02:00 -0500", "01 02:30 -0500"),
    ]


@pytest.mark.parametrize("zone", [NEW_YORK, BERLIN, CASABLANCA])
@pytest.mark.parametrize("text", ["0 * * * *", "*/30 * * * *", "*/20 * * * *", "7 * * * *"])
def test_hourly_and_every_n_minutes_go_on_by_elapsed_time(zone: str, text: str) -> None:
    """openclaw#118712."""
    timing = made(text, zone)
    for change in CHANGES[zone]:
        moment = datetime.fromisoformat(change).replace(tzinfo=UTC) - timedelta(hours=3)
        found = timing.latest(moment, moment + timedelta(hours=6), 1000)
        steps = {later - earlier for earlier, later in pairwise(found)}
        assert len(steps) == 1, (zone, text, change)


def test_half_an_hour_of_change_leaves_the_minute_that_clocks_show() -> None:
    assert slots("0 * * * *", LORD_HOWE, "2026-04-05T00:00", 4) == [
        *("05 00:00 +1100", "05 01:00 +1100", "05 02:00 +1030", "05 03:00 +1030"),
    ]
    assert slots("*/30 * * * *", LORD_HOWE, "2026-04-05T01:00", 2) == [
        *("05 01:00 +1100", "05 01:30 +1100", "05 01:30 +1030", "05 02:00 +1030"),
    ]
    assert slots("*/30 * * * *", LORD_HOWE, "2026-10-04T01:00", 2) == [
        *("04 01:00 +1030", "04 01:30 +1030", "04 02:30 +1100", "04 03:00 +1100"),
    ]


@pytest.mark.parametrize(("zone", "every"), [(NEW_YORK, 2), (BERLIN, 3), (CASABLANCA, 2)])
def test_every_n_hours_are_n_hours_whatever_the_clock_shows(zone: str, every: int) -> None:
    timing = made(f"0 */{every} * * *", zone)
    for change in CHANGES[zone]:
        day = datetime.fromisoformat(change).replace(tzinfo=UTC).astimezone(find_zone(zone))
        midnight = day.replace(hour=0, minute=0, fold=0).astimezone(UTC)
        found = timing.latest(midnight - MINUTE, midnight + timedelta(hours=12), 100)
        assert found == [midnight + timedelta(hours=h) for h in range(0, 13, every)]


def minutes(start: datetime, hours: int) -> Iterator[datetime]:
    return (start + MINUTE * n for n in range(hours * 60))


def oracle(minute: int, hour: str, zone: str, start: datetime, hours: int) -> list[datetime]:
    """The same rule, worked out by walking through every minute and remembering what was shown."""
    where = ZoneInfo(zone)
    fired, shown, day_begun = [], set[datetime](), dict[object, datetime]()
    fixed = None if hour.startswith("*") else int(hour)
    every = int(hour.partition("/")[2] or 1)
    before = (start - MINUTE).astimezone(where).replace(tzinfo=None)
    for moment in minutes(start, hours):
        wall = moment.astimezone(where).replace(tzinfo=None, fold=0)
        begun = day_begun.setdefault(wall.date(), moment)
        if fixed is None:
            elapsed = int((moment - begun).total_seconds()) // 3600
            if wall.minute == minute and elapsed % every == 0:
                fired.append(moment)
        else:
            passed = [before + MINUTE * n for n in range(1, (wall - before) // MINUTE)]
            fresh = [each for each in {wall, *passed} if each not in shown]
            if any((each.hour, each.minute) == (fixed, minute) for each in fresh):
                fired.append(moment)
            shown.update(fresh)
        before = wall
    return fired


HOURS = st.sampled_from(["*", "*/1", "*/2", "*/3", "*/5", *map(str, range(6))])


@given(st.sampled_from(sorted(CHANGES)), st.integers(0, 1), st.integers(0, 59), HOURS)
@settings(max_examples=60)
def test_slots_agree_with_a_walk_through_all_minutes(
    zone: str, which: int, minute: int, hour: str
) -> None:
    change = datetime.fromisoformat(CHANGES[zone][which]).replace(tzinfo=UTC)
    midnight = change.astimezone(ZoneInfo(zone)).replace(hour=0, minute=0, fold=0)
    start = midnight.astimezone(UTC)
    timing = made(f"{minute} {hour} * * *", zone)
    expected = oracle(minute, hour, zone, start, 30)
    found = timing.latest(start - MINUTE, start + timedelta(hours=30) - MINUTE, 10_000)
    assert list(found) == expected


@given(
    st.sampled_from([NEW_YORK, BERLIN, LORD_HOWE, "America/Santiago", "Asia/Beirut", "UTC"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31)),
    st.sampled_from(
        ["*/7 * * * *", "0 */5 * * *", "30 0,1,2,23 * * *", "0 0 1,15 * *", "5 4 * * 0"]
    ),
)
@settings(max_examples=60)
def test_walking_on_and_looking_back_find_the_same_slots_in_order(
    zone: str, start: datetime, text: str
) -> None:
    timing, moment = made(text, zone), start.replace(tzinfo=UTC)
    walked: list[datetime] = []
    while len(walked) < 12:
        slot = timing.after(moment if not walked else walked[-1])
        assert slot is not None
        walked.append(slot)
    assert all(earlier < later for earlier, later in pairwise(walked))
    assert list(timing.latest(moment, walked[-1], 1000)) == walked
    assert list(timing.latest(moment, walked[-1], 5)) == walked[-5:]


def test_years_of_missed_minutes_cost_no_more_than_those_that_are_wanted() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    found = made("* * * * *", BERLIN).latest(now - timedelta(days=3000), now, 10)
    assert list(found) == [now - MINUTE * n for n in range(9, -1, -1)]


@pytest.mark.parametrize("text", ["* * * * *", "0 0 29 2 *", "@yearly"])
def test_the_ends_of_time_are_no_fault(text: str) -> None:
    timing = made(text, NEW_YORK)
    timing.after(datetime(9999, 12, 30, tzinfo=UTC))
    timing.after(datetime(2, 1, 1, tzinfo=UTC))
