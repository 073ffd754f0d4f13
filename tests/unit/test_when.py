"""What may be written for the time of a schedule, and what is refused at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from team_runtime.daemons.slots import Once, Recurring
from team_runtime.daemons.when import NICKNAMES, find_zone, local_zone, parse_moment, parse_when
from team_runtime.errors import InputError

NOW = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
BERLIN = find_zone("Europe/Berlin")


def first(text: str, zone: str = "UTC", now: datetime = NOW) -> str:
    """The first slot, as a person in that zone sees it."""
    slot = parse_when(text, find_zone(zone), now).after(now)
    assert slot is not None
    return slot.astimezone(find_zone(zone)).isoformat()


@pytest.mark.parametrize(
    ("text", "slot"),
    [
        ("* * * * *", "2026-03-01T12:31:00+00:00"),
        ("*/20 * * * *", "2026-03-01T12:40:00+00:00"),
        ("5/25 * * * *", "2026-03-01T12:55:00+00:00"),
        ("0 9-17/4 * * *", "2026-03-01T13:00:00+00:00"),
        ("30 9 * * mon-fri", "2026-03-02T09:30:00+00:00"),
        ("30 9 * * MON,Wed", "2026-03-02T09:30:00+00:00"),
        ("0 0 1 jan,jul *", "2026-07-01T00:00:00+00:00"),
        ("0 0 * * 0", "2026-03-08T00:00:00+00:00"),
        ("0 0 * * 7", "2026-03-08T00:00:00+00:00"),
        ("0 0 * * 5-7", "2026-03-06T00:00:00+00:00"),
        ("0 0 * * sat-sun", "2026-03-07T00:00:00+00:00"),
        ("0 0 * * fri-Sun/2", "2026-03-06T00:00:00+00:00"),
        ("0 0 * * mon-sun", "2026-03-02T00:00:00+00:00"),
        ("0 0 * * sun-tue", "2026-03-02T00:00:00+00:00"),
        ("0 0 * * sun-sun", "2026-03-08T00:00:00+00:00"),
        ("0 0 13 * fri", "2026-03-06T00:00:00+00:00"),
        ("0 0 29 2 *", "2028-02-29T00:00:00+00:00"),
        ("  0   0  *  *  * ", "2026-03-02T00:00:00+00:00"),
        ("@hourly", "2026-03-01T13:00:00+00:00"),
        ("@daily", "2026-03-02T00:00:00+00:00"),
        ("@Midnight", "2026-03-02T00:00:00+00:00"),
        ("@weekly", "2026-03-08T00:00:00+00:00"),
        ("@monthly", "2026-04-01T00:00:00+00:00"),
        ("@yearly", "2027-01-01T00:00:00+00:00"),
        ("@annually", "2027-01-01T00:00:00+00:00"),
        ("in 90 seconds", "2026-03-01T12:31:46+00:00"),
        ("in 3 minutes", "2026-03-01T12:33:16+00:00"),
        ("IN  1  Hour", "2026-03-01T13:30:16+00:00"),
        ("in 2 days", "2026-03-03T12:30:16+00:00"),
        ("in 1 week", "2026-03-08T12:30:16+00:00"),
        ("at 2026-12-01T09:00", "2026-12-01T09:00:00+00:00"),
        ("at 2026-12-01 09:00:30", "2026-12-01T09:00:30+00:00"),
        ("at 2026-12-01T09:00+02:00", "2026-12-01T07:00:00+00:00"),
        ("at 2026-12-01T09:00Z", "2026-12-01T09:00:00+00:00"),
    ],
)
def test_what_is_understood(text: str, slot: str) -> None:
    assert first(text) == slot


@pytest.mark.parametrize(
    ("place", "text", "values"),
    [
        (0, "5-5", {5}),
        (0, "0-0", {0}),
        (0, "59-59/1,05-5", {5, 59}),
        (0, "58-59,7-9/2", {7, 9, 58, 59}),
        (1, "3-3", {3}),
        (2, "1-1,31-31", {1, 31}),
        (3, "12-12", {12}),
        (3, "feb-feb/3", {2}),
        (4, "fri-fri", {5}),
        (4, "0-0", {0}),
        (4, "7-7/2", {0}),
        (4, "sun-sun,sat-sun", {0, 6}),
        (4, "mon-sun/3", {0, 1, 4}),
    ],
)
def test_a_range_means_its_values_and_no_others(place: int, text: str, values: set[int]) -> None:
    """croniter alone takes `5-5` for every minute."""
    fields = ["*"] * 5
    fields[place] = text
    timing = parse_when(" ".join(fields), BERLIN, NOW)
    assert isinstance(timing, Recurring)
    pattern = timing.pattern
    found = (pattern.minutes, pattern.hours, pattern.month_days, pattern.months, pattern.weekdays)
    assert found[place] == frozenset(values)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0 0 30 2 *", "no such day"),
        ("0 0 31 4,6,9,11 *", "no such day"),
        ("5-1 * * * *", "minute: '5-1' runs backwards"),
        ("0 22-6 * * *", "hour: '22-6' runs backwards"),
        ("0 0 * * fri-mon", "day of the week: 'fri-mon' runs backwards"),
        ("R R * * *", "minute: 'r' is not from 0 to 59"),
        ("R(0-30) * * * *", "minute"),
        ("H * * * *", "minute: 'h' is not from 0 to 59"),
        ("H/15 * * * *", "minute"),
        ("* * * * * *", "use five cron fields"),
        ("* * * *", "use five cron fields"),
        ("@reboot", "use five cron fields"),
        ("@fortnightly", "use five cron fields"),
        ("60 * * * *", "minute: '60' is not from 0 to 59"),
        ("* 24 * * *", "hour: '24' is not from 0 to 23"),
        ("* * 0 * *", "day of the month: '0' is not from 1 to 31"),
        ("* * * 13 *", "month: '13' is not from 1 to 12"),
        ("* * * feb mars", "day of the week: 'mars' is not from 0 to 7"),
        ("* * * * 8", "day of the week"),
        ("*/0 * * * *", "the step of '*/0'"),
        ("*/60 * * * *", "the step of '*/60'"),
        ("1,,2 * * * *", "minute"),
        ("-1 * * * *", "minute"),
        ("0 0 L * *", "day of the month"),
        ("0 0 * * 5#3", "day of the week"),
        ("0 0 ? * *", "day of the month"),
        ("0 0 15W * *", "day of the month"),
        ("٣ * * * *", "minute"),
        ("", "use five cron fields"),
        ("soon", "use five cron fields"),
        ("in 0 seconds", "more than nothing"),
        ("in 11 years", "use five cron fields"),
        ("in 999999999 weeks", "at most ten years"),
        ("in three minutes", "use five cron fields"),
        ("in ３ minutes", "use five cron fields"),
        ("in 1 hour 30 minutes", "use five cron fields"),
        ("at 2026-03-01T12:30", "has passed"),
        ("at 2020-01-01T00:00", "has passed"),
        ("at 2026-12-01", "no time of day"),
        ("at 09:00", "write the moment as"),
        ("at 2026-13-01T09:00", "write the moment as"),
        ("at 9999-12-31T23:59", "too far away"),
        ("at 9999-12-31T23:59-12:00", "write the moment as"),
        ("at tomorrow noon", "write the moment as"),
    ],
)
def test_what_is_refused_when_it_is_written(text: str, problem: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_when(text, BERLIN, NOW)
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_moment_without_an_offset_is_in_the_zone_of_the_schedule() -> None:
    assert first("at 2026-12-01T09:00", "Asia/Kolkata") == "2026-12-01T09:00:00+05:30"


def test_a_moment_that_no_clock_shows_is_the_first_one_after_the_gap() -> None:
    assert first("at 2026-03-29T02:30", "Europe/Berlin") == "2026-03-29T03:00:00+02:00"


def test_a_moment_that_clocks_show_twice_is_the_first_one() -> None:
    assert first("at 2026-10-25T02:30", "Europe/Berlin") == "2026-10-25T02:30:00+02:00"


def test_in_some_time_is_never_early_and_at_most_a_second_late() -> None:
    timing = parse_when("in 5 seconds", BERLIN, NOW)
    assert isinstance(timing, Once)
    assert timedelta() <= timing.at - (NOW + timedelta(seconds=5)) < timedelta(seconds=1)


def test_every_nickname_is_a_pattern_that_fires() -> None:
    assert all(parse_when(name, BERLIN, NOW).after(NOW) for name in NICKNAMES)


@pytest.mark.parametrize(
    "name", ["", "Mars/Olympus", "America", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 999]
)
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="there is no time zone"):
        find_zone(name)


def test_an_unknown_zone_is_refused_with_what_was_perhaps_meant() -> None:
    with pytest.raises(InputError, match=r"did you mean Europe/Berlin\?"):
        find_zone("europe/berlin")
    with pytest.raises(InputError, match=r"did you mean .*Europe/Berlin"):
        find_zone("Berlin")


def test_the_zone_of_this_machine(tmp_path: Path) -> None:
    place = tmp_path / "zoneinfo" / "Europe" / "Berlin"
    place.parent.mkdir(parents=True)
    place.touch()
    link = tmp_path / "localtime"
    link.symlink_to(place)
    assert local_zone({}, link) == "Europe/Berlin"
    assert local_zone({"TZ": ":Asia/Tokyo"}, link) == "Asia/Tokyo"
    assert local_zone({}, tmp_path / "none") == "UTC"
    with pytest.raises(InputError, match="no time zone"):
        local_zone({"TZ": "Nowhere/Land"}, link)


def test_an_iso_time_without_an_offset_is_in_the_zone() -> None:
    assert parse_moment("2026-07-01T12:00", "Europe/Berlin") == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert parse_moment("2026-07-01T12:00Z", "Asia/Tokyo") == datetime(2026, 7, 1, 12, tzinfo=UTC)
    with pytest.raises(InputError, match="no ISO time"):
        parse_moment("noon", "UTC")
