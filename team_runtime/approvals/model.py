"""What an approval is: a question for a person, and the one answer to it.

The answer is bound to what was asked by a hash, so that it can never count for anything else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from team_runtime.clock import iso
from team_runtime.errors import ApprovalRefused
from team_runtime.store.records import Fields, decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
PERMISSION: Final = "permission"
"""The kind of question whether a tool call may run."""
WAITING: Final = "waiting"
ALLOWED: Final = "allowed"
DENIED: Final = "denied"
EXPIRED: Final = "expired"
WITHDRAWN: Final = "withdrawn"
STATES: Final = (WAITING, ALLOWED, DENIED, EXPIRED, WITHDRAWN)
PERSON: Final = "person"
RUNTIME: Final = "runtime"
"""Who ended a question that no person answered."""


@dataclass(frozen=True)
class Subject:
    """What a question is about: one call, as it would run."""

    tool: str
    input: Json
    directory: str
    """Where the tool works."""
    paths: tuple[str, ...] = ()
    """The files that the call is about, relative to `directory`, after all links too."""

    @property
    def hash(self) -> str:
        """The SHA-256 of all of it, in hexadecimal. Two subjects with one hash are the same."""
        whole = [self.tool, self.input, self.directory, list(self.paths)]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Asker:
    """Who asks."""

    agent: str
    session: str
    run: str
    task: str | None = None


@dataclass(frozen=True)
class Cause:
    """Why a person is asked."""

    reason: str
    rule: str | None
    origin: str


@dataclass(frozen=True)
class Approval:
    """One question and how it ended, if it has."""

    id: str
    kind: str
    asker: Asker
    subject: Subject
    cause: Cause
    asked_at: str
    deadline: str
    status: str = WAITING
    always: bool = False
    """Whether the person wants the same call to be allowed from now on."""
    answered_at: str | None = None
    answered_by: str | None = None
    note: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Fields we do not know; they survive a rewrite."""

    @property
    def due(self) -> datetime:
        """When the answer is no."""
        return datetime.fromisoformat(self.deadline)


@dataclass(frozen=True)
class Ending:
    """How a question ends."""

    status: str
    by: str
    note: str = ""
    always: bool = False


def ended(approval: Approval, ending: Ending, now: datetime) -> Approval:
    """`approval` with its end. Raises `ApprovalRefused` when it has one already."""
    if approval.status != WAITING:
        raise refusal(approval)
    return replace(
        approval,
        status=ending.status,
        always=ending.always,
        answered_at=iso(now),
        answered_by=ending.by,
        note=ending.note,
    )


def refusal(approval: Approval) -> ApprovalRefused:
    """Says that an approval has ended, and how, so that an answer does not count."""
    return ApprovalRefused(f"{approval.id} {outcome(approval)}; your answer changed nothing.")


def outcome(approval: Approval) -> str:
    """How it ended, as the end of a sentence."""
    note = f" ({approval.note})" if approval.note else ""
    if approval.status == EXPIRED:
        return f"lapsed at {approval.deadline}, so the answer is no"
    if approval.status == WITHDRAWN:
        return f"was withdrawn{note}"
    return f"was already {approval.status} by {approval.answered_by}{note}"


def approval_record(approval: Approval) -> dict[str, Json]:
    """The approval with the field names that it has on disk."""
    asker, subject, cause = approval.asker, approval.subject, approval.cause
    return {
        "v": VERSION,
        "id": approval.id,
        "kind": approval.kind,
        "agent": asker.agent,
        "session": asker.session,
        "run": asker.run,
        "task": asker.task,
        "tool": subject.tool,
        "input": subject.input,
        "directory": subject.directory,
        "paths": list(subject.paths),
        "hash": subject.hash,
        "reason": cause.reason,
        "rule": cause.rule,
        "origin": cause.origin,
        "askedAt": approval.asked_at,
        "deadline": approval.deadline,
        "status": approval.status,
        "always": approval.always,
        "answeredAt": approval.answered_at,
        "answeredBy": approval.answered_by,
        "note": approval.note,
        **approval.extra,
    }


_KEYS: Final[Sequence[str]] = tuple(
    approval_record(
        Approval("", "", Asker("", "", ""), Subject("", {}, ""), Cause("", None, ""), "", "")
    )
)


def encode(approval: Approval) -> bytes:
    """The bytes of the approval's file."""
    return encode_record(approval_record(approval))


def decode(data: bytes, path: Path) -> Approval:
    """The approval in `data`, the contents of `path`. Raises `RecordBroken`, also when its subject
    is not the one that was hashed, or `VersionTooNew`."""
    record = decode_record(data, path, VERSION)
    fields = Fields(record, path)
    approval = Approval(
        id=fields.text("id"),
        kind=fields.text("kind"),
        asker=Asker(
            fields.text("agent"),
            fields.text("session"),
            fields.text("run"),
            fields.optional("task"),
        ),
        subject=Subject(
            fields.text("tool"),
            fields.mapping("input"),
            fields.text("directory"),
            fields.texts("paths"),
        ),
        cause=Cause(fields.text("reason"), fields.optional("rule"), fields.text("origin")),
        asked_at=fields.text("askedAt"),
        deadline=fields.text("deadline"),
        status=fields.text("status"),
        always=fields.flag("always"),
        answered_at=fields.optional("answeredAt"),
        answered_by=fields.optional("answeredBy"),
        note=fields.text("note", ""),
        extra={key: value for key, value in record.items() if key not in _KEYS},
    )
    if approval.id != path.stem:
        raise fields.broken(f"its id is {approval.id!r}, unlike its name")
    if approval.status not in STATES:
        raise fields.broken(f"the status {approval.status!r} is none of {', '.join(STATES)}")
    if fields.text("hash") != approval.subject.hash:
        raise fields.broken("what it asks is not what was hashed when it was asked")
    if not _is_moment(approval.deadline):
        raise fields.broken(f"its deadline {approval.deadline!r} is no time with a zone")
    return approval


def _is_moment(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
