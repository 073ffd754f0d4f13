"""The durable queue of questions for a person: one file a question, there before anybody is asked.

An answer is a compare-and-set on that file, so that of two only one counts. A question lives no
longer than the run that asked it: an answer never runs a call behind anybody's back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final

from team_runtime.approvals import model
from team_runtime.approvals.model import (
    ALLOWED,
    DENIED,
    EXPIRED,
    PERSON,
    RUNTIME,
    WAITING,
    WITHDRAWN,
    Approval,
    Asker,
    Cause,
    Ending,
    Subject,
)
from team_runtime.clock import iso
from team_runtime.errors import (
    InputError,
    RecordBroken,
    StoreFailed,
    VersionTooNew,
)
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Store
from team_runtime.text import one_line, scrub
from team_runtime.types import Liveness

_NAME: Final = re.compile(r"approval_([1-9][0-9]{0,14})\.json")
MOST_KEPT: Final = 1000
"""Questions on disk. Of more, the oldest that have ended go; the log of events still tells them."""
DIED: Final = "the run that asked has died"


def is_approval(path: Path) -> bool:
    """Whether a file is one of the queue."""
    return _NAME.fullmatch(path.name) is not None


class ApprovalStore:
    """The approvals in `.team/approvals`. Safe for threads and processes.

    `liveness` says what is known about the run that asked.
    """

    def __init__(
        self, store: Store, liveness: Callable[[str], Liveness], emit: Emit = no_events
    ) -> None:
        self._store = store
        self._liveness = liveness
        self._emit = emit
        self._folder = store.layout.approvals
        self._last = 0
        """The last number given out here: not again in this run, even when its file is deleted."""

    def ask(self, asker: Asker, subject: Subject, cause: Cause, seconds: float) -> Approval:
        """Put a question that lapses after so many seconds. It has survived power loss when this
        returns, and only then may anybody be asked."""
        approval = self._new(asker, subject, cause, seconds)
        self._emit(
            "approval_asked",
            asker.agent,
            approval=approval.id,
            tool=subject.tool,
            task=asker.task,
            subject=summary(subject),
            reason=cause.reason,
            rule=cause.rule,
            deadline=approval.deadline,
        )
        return approval

    def record_refusal(self, asker: Asker, subject: Subject, cause: Cause, note: str) -> Approval:
        """Record a question that had to be answered with no at once, because nobody was there."""
        approval = self._new(asker, subject, cause, 0.0, Ending(DENIED, RUNTIME, note))
        self._announce(approval)
        return approval

    def answer(
        self, approval_id: str, allow: bool, note: str = "", always: bool = False
    ) -> Approval:
        """A person's answer. Raises `ApprovalRefused`, which says why it does not count: there is
        an answer already, or the question has lapsed or was withdrawn."""
        ending = Ending(ALLOWED if allow else DENIED, PERSON, scrub(note), allow and always)
        with self._store.lock("approvals"):
            data, approval = self._load(approval_id)
            over = self._over(approval)
            done = self._put(data, approval, over or ending)
        self._announce(done)
        if over is not None:
            raise model.refusal(done)
        return done

    def end(self, approval_id: str, status: str, note: str) -> Approval:
        """Let a question lapse, or withdraw it. Returns how it ended, which may be a person's
        answer that came first."""
        with self._store.lock("approvals"):
            data, approval = self._load(approval_id)
            if approval.status != WAITING:
                return approval
            done = self._put(data, approval, Ending(status, RUNTIME, note))
        self._announce(done)
        return done

    def tidy(self) -> None:
        """Withdraw the questions of runs that have died, and let lapse what is due."""
        for approval in self.list():
            over = self._over(approval) if approval.status == WAITING else None
            if over is not None:
                self.end(approval.id, over.status, over.note)

    def waiting(self) -> list[Approval]:
        """The questions that a person can still answer, oldest first."""
        return [
            approval
            for approval in self.list()
            if approval.status == WAITING and self._over(approval) is None
        ]

    def get(self, approval_id: str) -> Approval:
        """The approval. Raises `InputError` when there is none, `RecordBroken`."""
        return self._load(approval_id)[1]

    def list(self) -> list[Approval]:
        """All approvals that can be read, oldest first."""
        found = (self._read_or_skip(f"approval_{number}") for number in sorted(self._numbers()))
        return [approval for approval in found if approval is not None]

    def _over(self, approval: Approval) -> Ending | None:
        """The end that a waiting question has had to have by now, or `None`."""
        if approval.status != WAITING:
            return None
        if self._store.clock.now() >= approval.due:
            return Ending(EXPIRED, RUNTIME)
        if self._liveness(approval.asker.run) is Liveness.DEAD:
            return Ending(WITHDRAWN, RUNTIME, DIED)
        return None

    def _new(
        self,
        asker: Asker,
        subject: Subject,
        cause: Cause,
        seconds: float,
        ending: Ending | None = None,
    ) -> Approval:
        with self._store.lock("approvals"):
            quarantined = self._numbers(self._store.layout.quarantine)
            number = self._last = max((self._last, *self._numbers(), *quarantined)) + 1
            now = self._store.clock.now()
            approval = Approval(
                id=f"approval_{number}",
                kind=model.PERMISSION,
                asker=asker,
                subject=subject,
                cause=cause,
                asked_at=iso(now),
                deadline=iso(now + timedelta(seconds=seconds)),
            )
            if ending is not None:
                approval = model.ended(approval, ending, now)
            self._store.folder(self._folder)
            self._store.publish(self._path(approval.id), model.encode(approval))
            self._forget_oldest()
        return approval

    def _forget_oldest(self) -> None:
        for number in sorted(self._numbers())[:-MOST_KEPT]:
            old = self._read_or_skip(f"approval_{number}")
            if old is not None and old.status != WAITING:
                self._store.remove(self._path(old.id))

    def _put(self, data: bytes, old: Approval, ending: Ending) -> Approval:
        new = model.ended(old, ending, self._store.clock.now())
        path = self._path(old.id)
        if not self._store.replace(path, data, model.encode(new)):
            raise StoreFailed(str(path), "written", "somebody else wrote to it at the same moment")
        return new

    def _announce(self, approval: Approval) -> None:
        self._emit(
            "approval_answered",
            approval.asker.agent,
            approval=approval.id,
            tool=approval.subject.tool,
            task=approval.asker.task,
            decision=approval.status,
            by=approval.answered_by,
            note=approval.note,
            always=approval.always,
        )

    def _path(self, approval_id: str) -> Path:
        return self._folder / f"{approval_id}.json"

    def _numbers(self, folder: Path | None = None) -> Iterable[int]:
        matches = map(_NAME.match, self._store.names(folder or self._folder))
        return [int(match[1]) for match in matches if match]

    def _load(self, approval_id: str) -> tuple[bytes, Approval]:
        path = self._path(approval_id)
        data = self._store.read(path) if is_approval(path) else None
        if data is None:
            raise InputError(
                f"There is no approval {approval_id!r}. See the list of approvals for the ids."
            )
        return data, model.decode(data, path)

    def _read_or_skip(self, approval_id: str) -> Approval | None:
        try:
            return self.get(approval_id)
        except (VersionTooNew, InputError):
            return None
        except RecordBroken as error:
            self._store.quarantine(self._path(approval_id), error.cause)
            return None


def summary(subject: Subject) -> str:
    """The call on one line, for a listing; the record has all of it."""
    shown = subject.input.get("command") or ", ".join(subject.paths) or str(subject.input)
    return one_line(f"{subject.tool} {str(shown)[:2000]}", 200)
