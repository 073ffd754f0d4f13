"""`team cron`: schedules from the command line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from team_runtime.cli.common import Shared, only_a_person, shared_options, text_or_stdin
from team_runtime.clock import SystemClock
from team_runtime.errors import InputError
from team_runtime.text import for_terminal, one_line

if TYPE_CHECKING:
    from team_runtime.daemons.schedule_store import Entry
    from team_runtime.daemons.schedules import Firing, Schedule

F = TypeVar("F", bound=Callable[..., Any])
_LEAD: Final = "lead"


@click.group("cron")
def command() -> None:
    """Prompts for later, once or again and again.

    WHEN is five cron fields ('30 9 * * mon-fri'), @hourly, @daily, @weekly, @monthly, @yearly,
    'in 3 minutes', or 'at 2026-12-01T09:00'. An hour of * or */n is elapsed time; anything else is
    a fixed wall time: once in a repeated hour, at the first valid minute after a missing one.
    """


def _zone_option(function: F) -> F:
    return click.option("--tz", "zone", metavar="ZONE", help="An IANA zone; default: this one.")(
        function
    )


@command.command("add")
@click.argument("when")
@click.argument("prompt")
@_zone_option
@click.option("--session", metavar="ID", help="Wake this session, instead of a new one each time.")
@click.option("--to", "name", metavar="NAME", default=_LEAD, help="Whom in that session.")
@click.option(
    "--misfire",
    type=click.Choice(["skip", "once", "all"]),
    default="once",
    help="Times that were missed: leave them out, fire once for all (default), fire each.",
)
@click.option("--once", is_flag=True, help="Only the first time that WHEN matches.")
@click.option("--expires", metavar="ISO", help="Not after this time.")
@click.option(
    "--jitter", type=click.IntRange(0, 3600), default=0, metavar="SECONDS", help="Late by up to."
)
@shared_options
def add(shared: Shared, when: str, prompt: str, **given: Any) -> None:
    """Give PROMPT (- reads it from stdin) to an agent at WHEN.

    It fires in a run of its session, or with no terminal open while `team daemon` runs. Without
    --session each firing begins a session of its own, which `team daemon` does.
    """
    only_a_person("make a schedule from the command line")
    schedules = shared.workspace.schedules
    schedule = schedules.add(_draft(shared, when, text_or_stdin(prompt, "prompt"), given))
    entry = schedules.get(schedule.id)
    shared.answer(_public(entry), [_line(entry)])
    _tell_who_fires_it(shared, schedule)


@command.command("list")
@click.option("--all", "every", is_flag=True, help="Also those that are over.")
@shared_options
def list_(shared: Shared, every: bool) -> None:
    """List schedules, with the next time of each."""
    entries = [e for e in shared.workspace.schedules.entries() if every or not e.is_over]
    shared.answer([_public(e) for e in entries], [_line(e) for e in entries] or ["No schedules."])


@command.command("remove")
@click.argument("schedule_id", metavar="ID")
@shared_options
def remove(shared: Shared, schedule_id: str) -> None:
    """Take a schedule away, with its history and what it has not delivered yet."""
    only_a_person("remove a schedule from the command line")
    from team_runtime.daemons.schedule_codec import schedule_record

    schedule = shared.workspace.schedules.remove(schedule_id)
    shared.answer(schedule_record(schedule), [f"{schedule.id} is removed."])


@command.command("history")
@click.argument("schedule_id", metavar="ID")
@shared_options
def history(shared: Shared, schedule_id: str) -> None:
    """Show what became of each time of a schedule, oldest first."""
    from team_runtime.daemons.schedule_codec import firing_record

    entry = shared.workspace.schedules.get(schedule_id)
    firings = entry.history.firings
    lines = [_firing_line(entry.schedule, firing) for firing in firings]
    shared.answer([firing_record(f) for f in firings], lines or ["It has not fired yet."])


@command.command("next")
@click.argument("when")
@_zone_option
@click.option("--from", "start", metavar="ISO", help="Firings after this time; default: now.")
@click.option("-n", "count", type=click.IntRange(1, 10000), default=5, metavar="N", help="So many.")
@shared_options
def next_(shared: Shared, when: str, zone: str | None, start: str | None, count: int) -> None:
    """Print when WHEN would fire, one ISO time a line. Nothing is stored."""
    from team_runtime.daemons.when import find_zone, local_zone, parse_moment, parse_when

    where = find_zone(zone or local_zone(os.environ))
    moment = parse_moment(start, where.key) if start else SystemClock().now()
    timing = parse_when(when, where, moment)
    times: list[str] = []
    slot = timing.after(moment)
    while slot is not None and len(times) < count:
        times.append(slot.astimezone(where).isoformat(timespec="seconds"))
        slot = timing.after(slot)
    shared.answer(times, times)


def _draft(shared: Shared, when: str, prompt: str, given: dict[str, Any]) -> Schedule:
    """The schedule that was asked for. Raises `InputError`."""
    from team_runtime.daemons.schedules import Schedule
    from team_runtime.daemons.when import find_zone, local_zone, parse_moment
    from team_runtime.team.planning import PERSON

    session, to = given["session"], given["name"]
    if session is not None:
        _check_recipient(shared, session, to)
    elif to != _LEAD:
        raise InputError(f"{to!r} is in no session yet: name one with --session, or leave --to out")
    zone = find_zone(given["zone"] or local_zone(os.environ)).key
    return Schedule(
        id="",
        when=when,
        zone=zone,
        prompt=prompt,
        created_at=SystemClock().now(),
        created_by=PERSON,
        to=to,
        session=session,
        recurring=not given["once"],
        misfire=given["misfire"],
        expires=parse_moment(given["expires"], zone) if given["expires"] else None,
        jitter=given["jitter"],
    )


def _check_recipient(shared: Shared, session: str, to: str) -> None:
    record = shared.workspace.sessions.load(session)
    names = [_LEAD, *(agent["name"] for agent in record.get("agents", []) if "role" in agent)]
    if to not in names:
        known = ", ".join(dict.fromkeys(names))
        raise InputError(f"there is no {one_line(to)!r} in {session}; agents: {known}")


def _tell_who_fires_it(shared: Shared, schedule: Schedule) -> None:
    from team_runtime.store.presence import daemon_pid

    if daemon_pid(shared.workspace.store) is None:
        until = f"until then only a run of {schedule.session} fires it" if schedule.session else ""
        shared.say(f"team: no daemon runs here; start `team daemon`{'; ' * bool(until)}{until}")


def _public(entry: Entry) -> dict[str, Any]:
    from team_runtime.daemons.schedule_codec import schedule_record

    schedule, history = entry.schedule, entry.history
    return {
        **schedule_record(schedule),
        "recurring": schedule.repeats,
        "next": schedule.shown(entry.next) if entry.next else None,
        "open": [schedule.shown(firing.slot) for firing in history.open],
        "failures": history.failures,
    }


def _line(entry: Entry) -> str:
    schedule = entry.schedule
    life = "" if schedule.durable else "  session-only"
    life += f"  until {schedule.shown(schedule.expires)}" if schedule.expires else ""
    life += f"  missed: {schedule.misfire}" if schedule.misfire != "once" else ""
    wakes = f"{schedule.session or 'a new session'}/{schedule.to}"
    over = "fired" if entry.history.open else "over"
    next_ = schedule.shown(entry.next) if entry.next else over
    late = f" +{schedule.delay // timedelta(seconds=1)}s" if schedule.delay else ""
    notes = "; ".join(_notes(entry, SystemClock().now()))
    return for_terminal(
        f"{schedule.id}  {next_}{late}{f'  ({notes})' if notes else ''}  "
        f"{schedule.when!r} {schedule.zone}{life}  wakes {wakes}  {one_line(schedule.prompt, 60)}"
    )


def _notes(entry: Entry, now: datetime) -> Iterator[str]:
    """What the next time of a schedule does not tell by itself."""
    from team_runtime.daemons.schedules import pause_ends

    shown, open_ = entry.schedule.shown, entry.history.open
    ends = pause_ends(entry.history)
    if open_:
        again = f", tried again at {shown(ends)}" if ends and ends > now else ""
        yield f"that of {shown(open_[0].slot)} is not over{again}"
    elif ends and ends > now and entry.next:
        times = "a failure" if entry.history.failures == 1 else f"{entry.history.failures} failures"
        yield f"paused until {shown(ends)} after {times}"
    elif entry.is_due(now):
        yield "overdue"
    if entry.was_ahead(now):
        yield "silent until then: a clock was ahead"


def _firing_line(schedule: Schedule, firing: Firing) -> str:
    many = f" ({firing.count} times)" if firing.count > 1 else ""
    session = f"  {firing.session}" if firing.session else ""
    note = f"  {one_line(firing.note)}" if firing.note else ""
    return for_terminal(f"{schedule.shown(firing.slot)}  {firing.state}{many}{session}{note}")
