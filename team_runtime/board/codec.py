"""A task as a JSON file that people read and edit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from team_runtime.board.model import (
    PENDING,
    STATUSES,
    VERSION,
    Attempt,
    ClaimRecord,
    Result,
    Task,
)
from team_runtime.store.records import Fields, decode_record, encode_record
from team_runtime.types import Json

_KEYS: Final[Mapping[str, str]] = {
    "id": "id",
    "subject": "subject",
    "description": "description",
    "status": "status",
    "owner": "owner",
    "blockedBy": "blocked_by",
    "worktree": "worktree",
    "priority": "priority",
    "labels": "labels",
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "createdBy": "created_by",
    "session": "session",
    "claim": "claim",
    "attempts": "attempts",
    "planRequired": "plan_required",
    "check": "check",
    "command": "command",
    "base": "base",
    "result": "result",
    "metadata": "metadata",
}
"""Each key on disk and the field of `Task` behind it, in the order of the file."""


def task_record(task: Task) -> dict[str, Json]:
    """The task under its names on disk; also what `--json` shows."""
    known = {key: _plain(getattr(task, name)) for key, name in _KEYS.items()}
    return {"v": VERSION, **known, **task.extra}


def _plain(value: Json) -> Json:
    if isinstance(value, ClaimRecord | Attempt | Result):
        return dict(vars(value))
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def encode(task: Task) -> bytes:
    """The bytes of the task's file. Raises `ValueError` or `TypeError` for metadata that is not
    JSON."""
    return encode_record(task_record(task))


def decode(data: bytes, path: Path) -> Task:
    """The task in `data`, the contents of `path`. Only the subject must be there.

    Raises `RecordBroken`, or `VersionTooNew`.
    """
    record = decode_record(data, path, VERSION)
    fields = Fields(record, path)
    if fields.text("id", path.stem) != path.stem:
        raise fields.broken(f"its id is {record['id']!r}, unlike its name")
    status = fields.text("status", PENDING)
    if status not in STATUSES:
        raise fields.broken(f"its status {status!r} is none of {', '.join(STATUSES)}")
    return Task(
        id=path.stem,
        subject=fields.text("subject"),
        description=fields.text("description", ""),
        status=status,
        owner=fields.optional("owner"),
        blocked_by=fields.texts("blockedBy"),
        worktree=fields.optional("worktree"),
        priority=fields.integer("priority", 0),
        labels=fields.texts("labels"),
        created_at=fields.text("createdAt", ""),
        updated_at=fields.text("updatedAt", ""),
        created_by=fields.optional("createdBy"),
        session=fields.optional("session"),
        claim=fields.part("claim", _claim),
        attempts=fields.parts("attempts", _attempt),
        plan_required=fields.flag("planRequired"),
        check=fields.optional("check"),
        command=fields.optional("command"),
        base=fields.optional("base"),
        result=fields.part("result", _result),
        metadata=fields.mapping("metadata"),
        extra={key: value for key, value in record.items() if key not in _KEYS and key != "v"},
    )


def _claim(fields: Fields) -> ClaimRecord:
    return ClaimRecord(
        token=fields.text("token"),
        epoch=fields.integer("epoch"),
        run=fields.optional("run"),
        at=fields.text("at", ""),
    )


def _attempt(fields: Fields) -> Attempt:
    return Attempt(
        owner=fields.text("owner"),
        run=fields.optional("run"),
        epoch=fields.integer("epoch"),
        started=fields.text("started", ""),
        ended=fields.optional("ended"),
        outcome=fields.optional("outcome"),
        note=fields.text("note", ""),
        base=fields.optional("base"),
        head=fields.optional("head"),
    )


def _result(fields: Fields) -> Result:
    return Result(summary=fields.text("summary", ""), commit=fields.optional("commit"))
