"""What a person or a model writes for the time of a schedule: five cron fields or a nickname,
`in 3 minutes`, `at 2026-12-01T09:00`.

Everything that would fire at a moment that nobody means, or never, is refused when it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NoReturn
from zoneinfo import ZoneInfo, available_timezones

from team_runtime.daemons.slots import YEARS, Once, Pattern, Recurring, instant
from team_runtime.errors import InputError
from team_runtime.text import one_line

NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_IN: Final = re.compile(rf"in\s+([0-9]{{1,9}})\s+({'|'.join(_UNITS)})s?", re.IGNORECASE)
_AT: Final = re.compile(r"at\s+(\S+(?:\s+\S+)?)", re.IGNORECASE)
_LONGEST: Final = 3660 * 86400
"""Seconds: ten years."""
_HOURS: Final = re.compile(r"\*(?:/0*(\d+))?")
_FORMS: Final = (
    "use five cron fields such as '30 9 * * mon-fri', @hourly, @daily, @weekly, @monthly, @yearly, "
    "'in 3 minutes' or 'at 2026-12-01T09:00'"
)


@dataclass(frozen=True)
class _Field:
    """One cron field: what may stand in it."""

    name: str
    lowest: int
    highest: int
    names: Mapping[str, int] = field(default_factory=dict)


_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, {name: n for n, name in enumerate(_MONTHS, start=1)}),
    _Field("day of the week", 0, 7, {name: n for n, name in enumerate(_WEEKDAYS)}),
)
_PART: Final = re.compile(r"(?:\*|([0-9]+|[a-z]+)(?:-([0-9]+|[a-z]+))?)(?:/([0-9]+))?")


def parse_when(text: str, zone: ZoneInfo, now: datetime) -> Once | Recurring:
    """What `text` means in `zone` when it is written at `now`.

    Raises `InputError`, which says what is wrong, also for what can never fire.
    """
    if found := _IN.fullmatch(text.strip()):
        return _in(text, int(found[1]) * _UNITS[found[2].lower()], now)
    if found := _AT.fullmatch(text.strip()):
        return _at(text, found[1], zone, now)
    recurring = Recurring(_pattern(text), zone)
    if recurring.after(now) is None:
        _refuse(text, "there is no such day, so it would never fire")
    return recurring


def parse_moment(text: str, zone: str) -> datetime:
    """An ISO time, in `zone` where it has no offset. Raises `InputError`."""
    try:
        given = datetime.fromisoformat(text)
        found = given.astimezone(UTC) if given.tzinfo else instant(given, find_zone(zone))
    except (ValueError, OverflowError) as error:
        raise InputError(f"{one_line(text)!r} is no ISO time such as 2026-12-01T09:00") from error
    if found.year not in YEARS:
        raise InputError(f"{one_line(text)!r} is too far away")
    return found


def find_zone(name: str) -> ZoneInfo:
    """The zone with this IANA name. Raises `InputError`, with names that look like it."""
    try:
        return ZoneInfo(name)
    except (OSError, KeyError, ValueError) as error:
        from difflib import get_close_matches

        names = available_timezones()
        same = [each for each in names if each.casefold() == name.casefold()]
        near = same or get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "names look like Europe/Berlin"
        raise InputError(f"there is no time zone {one_line(name)!r}; {hint}") from error


def local_zone(environ: Mapping[str, str], localtime: Path = Path("/etc/localtime")) -> str:
    """The IANA name of this machine's zone: from `TZ`, else from the system, else UTC.

    Raises `InputError` for a `TZ` that is no zone.
    """
    if named := environ.get("TZ", "").lstrip(":"):
        return find_zone(named).key
    try:
        _, found, name = str(localtime.resolve(strict=True)).rpartition("zoneinfo/")
        return find_zone(name).key if found else "UTC"
    except (OSError, InputError):
        return "UTC"


def _in(text: str, seconds: int, now: datetime) -> Once:
    if not 0 < seconds <= _LONGEST:
        _refuse(text, "the time must be more than nothing and at most ten years")
    # A slot has whole seconds, and nobody is to be woken too early.
    begun = timedelta(seconds=1 if now.microsecond else 0, microseconds=-now.microsecond)
    return Once(now.astimezone(UTC) + begun + timedelta(seconds=seconds))


def _at(text: str, moment: str, zone: ZoneInfo, now: datetime) -> Once:
    try:
        given = datetime.fromisoformat(moment)
        found = given.astimezone(UTC) if given.tzinfo else instant(given, zone)
    except (ValueError, OverflowError):
        _refuse(text, "write the moment as 2026-12-01T09:00, with an offset if it needs one")
    if len(moment) <= len("2026-12-01"):
        _refuse(text, "it has no time of day; write for example 2026-12-01T09:00")
    if found.year > YEARS[-1]:
        _refuse(text, "it is too far away")
    if found <= now:
        _refuse(text, f"that moment has passed; it is {now.astimezone(zone):%Y-%m-%dT%H:%M:%S%z}")
    return Once(found.replace(microsecond=0))


def _pattern(text: str) -> Pattern:
    """The five fields of `text`, expanded. Raises `InputError`."""
    written = NICKNAMES.get(text.strip().lower(), text).lower().split()
    if len(written) != len(_FIELDS) or written[0] in ("in", "at"):
        _refuse(text, _FORMS)
    plain = []
    for kind, value in zip(_FIELDS, written, strict=True):
        parts = [_plain(kind, part) for part in value.split(",")]
        problem = next((p for part in parts if (p := _problem(kind, part))), None)
        if problem is not None:
            _refuse(text, f"{kind.name}: {problem}")
        plain.append(",".join(parts))
    return _expanded(text, plain)


def _plain(kind: _Field, part: str) -> str:
    """A part of a field in a form that croniter and people read alike: a week may end with its
    Sunday (sat-sun), and a range from a value to itself is that value, not all there are."""
    match = _PART.fullmatch(part)
    if match is None or match[2] is None:
        return part
    begin, end = _number(kind, match[1]), _number(kind, match[2])
    if match[2] == "sun" and 0 < begin < kind.highest:
        return part.replace("-sun", f"-{kind.highest}")
    return match[1] if begin == end else part


def _problem(kind: _Field, part: str) -> str | None:
    """What is wrong with a part of a field, also where croniter would take it and not mean what is
    written: random and hashed values, ranges that run backwards, steps over the end."""
    match = _PART.fullmatch(part)
    if match is None:
        return f"{one_line(part, 20)!r} is not a number, a name, a range, a list or a step"
    ends = [_number(kind, end) for end in match.groups()[:2] if end is not None]
    if any(not kind.lowest <= end <= kind.highest for end in ends):
        return f"{one_line(part, 20)!r} is not from {kind.lowest} to {kind.highest}"
    if ends != sorted(ends):
        return f"{part!r} runs backwards; write two ranges with a comma between them"
    if match[3] is not None and not 0 < int(match[3]) <= kind.highest:
        return f"the step of {part!r} must be from 1 to {kind.highest}"
    return None


def _number(kind: _Field, text: str) -> int:
    """A number or a name as a number; -1 for a name that the field does not have."""
    return int(text) if text.isdecimal() else kind.names.get(text, -1)


def _expanded(text: str, written: list[str]) -> Pattern:
    from croniter import CroniterError, croniter

    try:
        lists, _ = croniter.expand(" ".join(written))
    except CroniterError as error:
        _refuse(text, str(error))
    minutes, hours, days, months, weekdays = (_chosen(values) for values in lists)
    every = _HOURS.fullmatch(written[1])
    return Pattern(
        minutes=frozenset(range(60)) if minutes is None else minutes,
        hours=frozenset(range(24)) if hours is None else hours,
        every_hours=int(every[1] or 1) if every else None,
        month_days=days,
        months=months,
        weekdays=weekdays,
    )


def _chosen(values: list[int | str]) -> frozenset[int] | None:
    """The values of a field; `None` when it is `*`."""
    return None if "*" in values else frozenset(int(value) for value in values)


def _refuse(text: str, why: str) -> NoReturn:
    raise InputError(f"{one_line(text, 60)!r} is no time for a schedule: {why}")
