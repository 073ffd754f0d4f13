"""What a plan is, and what may happen to its revisions: pure functions over frozen records."""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import PlanRefused
from team_runtime.plans.files import listed
from team_runtime.store.records import Fields, decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
REQUESTED: Final = "requested"
PENDING: Final = "pending"
APPROVED: Final = "approved"
REJECTED: Final = "rejected"
SUPERSEDED: Final = "superseded"
STATES: Final = (REQUESTED, PENDING, APPROVED, REJECTED, SUPERSEDED)
_KEYS: Final = frozenset({"v", "id", "agent", "task", "epoch", "session", "revisions"})


class Gate(enum.Enum):
    """What the newest revision means for tools that change things."""

    NONE = "none"
    REQUESTED = "requested"
    PENDING = "pending"
    REJECTED = "rejected"
    APPROVED = "approved"


@dataclass(frozen=True)
class Revision:
    """One version of a plan. Only its own request id decides it."""

    request_id: str
    number: int
    state: str
    """`requested` (asked for, not written yet), `pending`, `approved`, `rejected` or
    `superseded`."""
    text: str = ""
    hash: str = ""
    submitted_at: str | None = None
    decided_at: str | None = None
    decided_by: str | None = None
    feedback: str = ""
    files: tuple[str, ...] | None = None
    """What it will change, and nothing else; `None` where that is left open."""

    @property
    def shown(self) -> str:
        """All that its reviewer decides about."""
        return self.text if self.files is None else f"{self.text}\n\n{listed(self.files)}"


@dataclass(frozen=True)
class Verdict:
    """What a reviewer decided."""

    approve: bool
    by: str
    feedback: str


@dataclass(frozen=True)
class Plan:
    """The plan of one agent for one claim of one task, or for its work without a task."""

    id: str
    agent: str
    task: str | None
    epoch: int
    session: str
    revisions: tuple[Revision, ...] = ()
    extra: Mapping[str, Json] = field(default_factory=dict)
    """Fields we do not know; they survive a rewrite."""

    @property
    def current(self) -> Revision:
        """The newest revision; there always is one."""
        return self.revisions[-1]

    @property
    def gate(self) -> Gate:
        """What `current` means; a superseded one is as good as none."""
        state = self.current.state
        return Gate.NONE if state == SUPERSEDED else Gate(state)


def plan_hash(text: str, files: Sequence[str] | None = None) -> str:
    """The SHA-256, in hexadecimal, of a plan's text and of the files that it names."""
    whole = text if files is None else json.dumps([text, *files])
    return hashlib.sha256(whole.encode()).hexdigest()


def demanded(plan: Plan, request_id: str, note: str) -> Plan:
    """`plan` with its gate closed: what was pending or approved counts no more."""
    if plan.revisions and plan.current.state == REQUESTED:
        return _with_current(plan, replace(plan.current, feedback=note))
    plan = _superseded(plan)
    number = len(plan.revisions) + 1
    revision = Revision(request_id, number, REQUESTED, feedback=note)
    return replace(plan, revisions=(*plan.revisions, revision))


def submitted(
    plan: Plan, request_id: str, text: str, at: str, files: tuple[str, ...] | None = None
) -> Plan:
    """`plan` with a pending revision: the one that was asked for, else a new one.

    Raises `PlanRefused` while one is pending.
    """
    if plan.revisions and plan.current.state == PENDING:
        current = plan.current
        raise PlanRefused(
            f"Revision {current.number} of {plan.id} still waits for review "
            f"({current.request_id}); nothing was submitted. Wait for the decision."
        )
    if not plan.revisions or plan.current.state != REQUESTED:
        plan = demanded(plan, request_id, "")
    written = replace(
        plan.current,
        state=PENDING,
        text=text,
        files=files,
        hash=plan_hash(text, files),
        submitted_at=at,
    )
    return _with_current(plan, written)


def decided(plan: Plan, revision: Revision, verdict: Verdict, at: str) -> Plan:
    """`plan` with `revision` approved or rejected. Raises `PlanRefused`, which says why not."""
    name = f"Revision {revision.number} of {plan.id}"
    if verdict.by == plan.agent:
        raise PlanRefused(f"{name} was written by {plan.agent}, who cannot review it.")
    if revision.state == REQUESTED:
        raise PlanRefused(f"{name} has not been submitted yet, so there is nothing to decide.")
    if revision.state in (APPROVED, REJECTED) and revision == plan.current:
        raise PlanRefused(f"{name} was already {revision.state} by {revision.decided_by}.")
    if revision != plan.current or revision.state != PENDING:
        current = plan.current
        raise PlanRefused(
            f"{name} is not the current one; that is revision {current.number} "
            f"({current.state}, {current.request_id}). Nothing was decided."
        )
    outcome = replace(
        revision,
        state=APPROVED if verdict.approve else REJECTED,
        decided_at=at,
        decided_by=verdict.by,
        feedback=verdict.feedback,
    )
    return _with_current(plan, outcome)


def _with_current(plan: Plan, revision: Revision) -> Plan:
    return replace(plan, revisions=(*plan.revisions[:-1], revision))


def _superseded(plan: Plan) -> Plan:
    if not plan.revisions or plan.current.state not in (PENDING, APPROVED):
        return plan
    return _with_current(plan, replace(plan.current, state=SUPERSEDED))


def plan_record(plan: Plan) -> dict[str, Json]:
    """The plan with the field names that it has on disk."""
    return {
        "v": VERSION,
        "id": plan.id,
        "agent": plan.agent,
        "task": plan.task,
        "epoch": plan.epoch,
        "session": plan.session,
        "revisions": [_revision_record(revision) for revision in plan.revisions],
        **plan.extra,
    }


def encode(plan: Plan) -> bytes:
    """The bytes of the plan's file."""
    return encode_record(plan_record(plan))


def _revision_record(revision: Revision) -> dict[str, Json]:
    return {
        "requestId": revision.request_id,
        "number": revision.number,
        "hash": revision.hash,
        "text": revision.text,
        "files": None if revision.files is None else list(revision.files),
        "state": revision.state,
        "submittedAt": revision.submitted_at,
        "decidedAt": revision.decided_at,
        "decidedBy": revision.decided_by,
        "feedback": revision.feedback,
    }


def decode(data: bytes, path: Path) -> Plan:
    """The plan in `data`, the contents of `path`. Raises `RecordBroken` or `VersionTooNew`."""
    record = decode_record(data, path, VERSION)
    fields = Fields(record, path)
    plan = Plan(
        id=fields.text("id"),
        agent=fields.text("agent"),
        task=fields.optional("task"),
        epoch=fields.integer("epoch"),
        session=fields.text("session"),
        revisions=fields.parts("revisions", _revision),
        extra={key: value for key, value in record.items() if key not in _KEYS},
    )
    if plan.id != path.stem:
        raise fields.broken(f"its id is {plan.id!r}, unlike its name")
    numbers = [revision.number for revision in plan.revisions]
    if not numbers or numbers != list(range(1, len(numbers) + 1)):
        raise fields.broken("its revisions are not numbered 1, 2, 3 …")
    return plan


def _revision(fields: Fields) -> Revision:
    revision = Revision(
        request_id=fields.text("requestId"),
        number=fields.integer("number"),
        state=fields.text("state"),
        text=fields.text("text"),
        files=fields.texts("files") if fields.record.get("files") is not None else None,
        hash=fields.text("hash"),
        submitted_at=fields.optional("submittedAt"),
        decided_at=fields.optional("decidedAt"),
        decided_by=fields.optional("decidedBy"),
        feedback=fields.text("feedback"),
    )
    if revision.state not in STATES:
        raise fields.broken(f"the state {revision.state!r} is none of {', '.join(STATES)}")
    if revision.text and revision.hash != plan_hash(revision.text, revision.files):
        raise fields.broken(
            f"the text or the files of revision {revision.number} are not those that were hashed"
        )
    return revision
