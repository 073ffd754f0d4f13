"""Schedules and their histories as they lie on disk."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from team_runtime.clock import iso
from team_runtime.daemons.schedules import Firing, Firings, Schedule, to_text
from team_runtime.daemons.slots import YEARS
from team_runtime.store.records import Fields, encode_record
from team_runtime.text import scrub
from team_runtime.types import Json

VERSION: Final = 1


def encode_schedule(schedule: Schedule) -> bytes:
    """The schedule's file, with the fields of it that we do not know."""
    return encode_record({**schedule.extra, "v": VERSION, **schedule_record(schedule)})


def schedule_record(schedule: Schedule) -> dict[str, Json]:
    """The schedule with the field names that it has on disk."""
    return {
        "id": schedule.id,
        "when": schedule.when,
        "zone": schedule.zone,
        "prompt": scrub(schedule.prompt),
        "to": schedule.to,
        "session": schedule.session,
        "durable": schedule.durable,
        "recurring": schedule.recurring,
        "misfire": schedule.misfire,
        "expires": to_text(schedule.expires),
        "jitter": schedule.jitter,
        "createdAt": iso(schedule.created_at),
        "createdBy": schedule.created_by,
    }


def decode_schedule(fields: Fields, id: str) -> Schedule:
    """The schedule in a file. Raises `RecordBroken`."""
    if fields.text("id") != id:
        raise fields.broken("its name is not that of the schedule in it")
    schedule = Schedule(
        id=id,
        when=fields.text("when"),
        zone=fields.text("zone"),
        prompt=fields.text("prompt"),
        to=fields.text("to", "lead"),
        session=fields.optional("session"),
        durable=fields.flag("durable"),
        recurring=fields.flag("recurring"),
        misfire=fields.text("misfire"),
        expires=_moment(fields, "expires"),
        jitter=fields.integer("jitter", 0),
        created_at=_needed(fields, "createdAt"),
        created_by=fields.text("createdBy", "person"),
    )
    known = schedule_record(schedule).keys() | {"v"}
    return replace(schedule, extra={k: v for k, v in fields.record.items() if k not in known})


def encode_history(history: Firings) -> bytes:
    """The history's file, with the fields of it that we do not know."""
    return encode_record({**history.extra, "v": VERSION, **history_record(history)})


def history_record(history: Firings) -> dict[str, Json]:
    """The history with the field names that it has on disk."""
    return {
        "cursor": to_text(history.cursor),
        "failures": history.failures,
        "failedAt": to_text(history.failed_at),
        "firings": [firing_record(firing) for firing in history.firings],
    }


def firing_record(firing: Firing) -> dict[str, Json]:
    """One firing with the field names that it has on disk."""
    return {
        "slot": to_text(firing.slot),
        "state": firing.state,
        "at": firing.at,
        "session": firing.session,
        "deliveredAt": firing.delivered_at,
        "endedAt": firing.ended_at,
        "note": firing.note,
        "count": firing.count,
    }


def decode_history(fields: Fields) -> Firings:
    """The history in a file. Raises `RecordBroken`."""
    history = Firings(
        cursor=_moment(fields, "cursor"),
        failures=max(0, fields.integer("failures", 0)),
        failed_at=_moment(fields, "failedAt"),
        firings=fields.parts("firings", _decode_firing),
    )
    known = history_record(history).keys() | {"v"}
    return replace(history, extra={k: v for k, v in fields.record.items() if k not in known})


def _decode_firing(fields: Fields) -> Firing:
    return Firing(
        slot=_needed(fields, "slot"),
        state=fields.text("state"),
        at=fields.text("at"),
        session=fields.optional("session"),
        delivered_at=fields.optional("deliveredAt"),
        ended_at=fields.optional("endedAt"),
        note=fields.optional("note"),
        count=fields.integer("count", 1),
    )


def _needed(fields: Fields, key: str) -> datetime:
    moment = _moment(fields, key)
    if moment is None:
        raise fields.broken(f"`{key}` is missing")
    return moment


def _moment(fields: Fields, key: str) -> datetime | None:
    text = fields.optional(key)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise fields.broken(f"`{key}` is no moment") from error
    if moment.year not in YEARS:
        raise fields.broken(f"`{key}` is too far away")
    return moment
