"""Durable plans: one file for each agent, task and claim, so that no approval crosses over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from team_runtime.clock import iso
from team_runtime.errors import InputError, PlanRefused, RecordBroken, StoreFailed, VersionTooNew
from team_runtime.events import Emit, no_events
from team_runtime.plans import model
from team_runtime.plans.files import check_files
from team_runtime.plans.model import Gate, Plan, Revision, Verdict
from team_runtime.store.files import Store
from team_runtime.text import scrub

_NAME: Final = re.compile(r"plan_([1-9][0-9]{0,14})\.json")
_REQUEST: Final = re.compile(r"(plan_[1-9][0-9]{0,14})-r[0-9]+-[0-9a-f]{8}")


class PlanStore:
    """The plans in `.team/plans`. Safe for threads and processes."""

    def __init__(self, store: Store, emit: Emit = no_events) -> None:
        self._store = store
        self._emit = emit
        self._folder = store.layout.plans
        self._owners: dict[str, tuple[str, str | None]] = {}

    def demand(
        self, agent: str, task: str | None, epoch: int, session: str, note: str = ""
    ) -> tuple[Plan, Revision]:
        """Close the gate until a new revision is approved; `note` says what is wanted."""
        with self._store.lock("plans"):
            plan = self.find(agent, task, epoch) or self._new(agent, task, epoch, session)
            new = model.demanded(plan, self._request_id(plan), scrub(note))
            self._put(plan, new)
        return new, new.current

    def submit(
        self,
        agent: str,
        task: str | None,
        epoch: int,
        session: str,
        text: str,
        files: Sequence[str] | None = None,
    ) -> tuple[Plan, Revision]:
        """Put a revision up for review; with `files`, its author may change nothing else. Raises
        `PlanRefused` while one is pending, `InputError` for blank text or impossible files."""
        if not text.strip():
            raise InputError(
                "The plan is blank; say what will be done, where, and how to check it."
            )
        named = None if files is None else check_files(files)
        with self._store.lock("plans"):
            plan = self.find(agent, task, epoch) or self._new(agent, task, epoch, session)
            request, now = self._request_id(plan), iso(self._store.clock.now())
            new = model.submitted(plan, request, scrub(text), now, named)
            self._put(plan, new)
        revision = new.current
        self._emit(
            "plan_submitted",
            agent,
            request_id=revision.request_id,
            revision=revision.number,
            task=task,
            plan=new.id,
            text=revision.shown,
        )
        return new, revision

    def decide(
        self, request_id: str, approve: bool, by: str, feedback: str = ""
    ) -> tuple[Plan, Revision]:
        """Approve or reject the revision with this request id. Raises `PlanRefused`, which says
        whether the id is unknown, decided, superseded, or the reviewer's own."""
        match = _REQUEST.fullmatch(request_id)

        def asked(plan: Plan) -> bool:
            return any(revision.request_id == request_id for revision in plan.revisions)

        with self._store.lock("plans"):
            plan = self._read(match[1]) if match else None
            if plan is None or not asked(plan):
                raise PlanRefused(f"There is no plan request {request_id!r}. Nothing was decided.")
            revision = next(r for r in plan.revisions if r.request_id == request_id)
            return self._decide(plan, revision, approve, by, feedback)

    def decide_revision(
        self, plan_id: str, number: int, approve: bool, by: str, feedback: str = ""
    ) -> tuple[Plan, Revision]:
        """The same by the number of the revision, for a person who has just read it."""
        with self._store.lock("plans"):
            plan = self.get(plan_id)
            revision = next((r for r in plan.revisions if r.number == number), None)
            if revision is None:
                raise PlanRefused(f"{plan_id} has no revision {number}. Nothing was decided.")
            return self._decide(plan, revision, approve, by, feedback)

    def carry_over(
        self, agent: str, task: str | None, old_epoch: int, new_epoch: int
    ) -> Plan | None:
        """For a resumed agent: its plan now belongs to the new claim of the same task, with every
        revision, request id and decision as it was. `None` when there is no plan."""
        with self._store.lock("plans"):
            plan = self.find(agent, task, old_epoch)
            if plan is None or self.find(agent, task, new_epoch) is not None:
                return None
            new = replace(plan, epoch=new_epoch)
            self._put(plan, new)
        return new

    def gate(self, agent: str, task: str | None, epoch: int) -> Gate:
        """What the newest revision for this claim allows; `NONE` without a plan."""
        plan = self.find(agent, task, epoch)
        return plan.gate if plan else Gate.NONE

    def files(self, agent: str, task: str | None, epoch: int) -> tuple[str, ...] | None:
        """The files that the approved plan for this claim names; `None` when it leaves them open,
        or there is none."""
        plan = self.find(agent, task, epoch)
        return plan.current.files if plan is not None and plan.gate is Gate.APPROVED else None

    def find(self, agent: str, task: str | None, epoch: int) -> Plan | None:
        """The plan for this claim, or `None`."""
        for number in sorted(self._numbers(), reverse=True):
            plan_id = f"plan_{number}"
            # A plan never changes hands, so those of other agents are read once.
            if self._owners.get(plan_id, (agent, task)) != (agent, task):
                continue
            plan = self._read_or_skip(plan_id)
            if plan is None:
                continue
            self._owners[plan_id] = (plan.agent, plan.task)
            if (plan.agent, plan.task, plan.epoch) == (agent, task, epoch):
                return plan
        return None

    def get(self, plan_id: str) -> Plan:
        """The plan. Raises `InputError` when there is none."""
        plan = self._read(plan_id)
        if plan is None:
            raise InputError(f"There is no plan {plan_id!r}. See the list of plans for the ids.")
        return plan

    def pending(self) -> list[Plan]:
        """The plans whose current revision waits for review, oldest first."""
        return [plan for plan in self.list() if plan.gate is Gate.PENDING]

    def list(self) -> list[Plan]:
        """All plans that can be read, oldest first."""
        plans = (self._read_or_skip(f"plan_{number}") for number in sorted(self._numbers()))
        return [plan for plan in plans if plan is not None]

    def _decide(
        self, plan: Plan, revision: Revision, approve: bool, by: str, feedback: str
    ) -> tuple[Plan, Revision]:
        now = iso(self._store.clock.now())
        new = model.decided(plan, revision, Verdict(approve, by, scrub(feedback)), now)
        self._put(plan, new)
        self._emit(
            "plan_decided",
            plan.agent,
            request_id=revision.request_id,
            revision=revision.number,
            task=plan.task,
            plan=plan.id,
            decision=new.current.state,
            by=by,
            feedback=new.current.feedback,
        )
        return new, new.current

    def _new(self, agent: str, task: str | None, epoch: int, session: str) -> Plan:
        number = max((*self._numbers(), *self._numbers(self._store.layout.quarantine)), default=0)
        return Plan(f"plan_{number + 1}", agent, task, epoch, session)

    def _numbers(self, folder: Path | None = None) -> Iterable[int]:
        matches = map(_NAME.match, self._store.names(folder or self._folder))
        return [int(match[1]) for match in matches if match]

    def _request_id(self, plan: Plan) -> str:
        return f"{plan.id}-r{len(plan.revisions) + 1}-{self._store.entropy.token()[:8]}"

    def _read(self, plan_id: str) -> Plan | None:
        path = self._folder / f"{plan_id}.json"
        data = self._store.read(path) if _NAME.fullmatch(path.name) else None
        return None if data is None else model.decode(data, path)

    def _read_or_skip(self, plan_id: str) -> Plan | None:
        try:
            return self._read(plan_id)
        except VersionTooNew:
            return None
        except RecordBroken as error:
            self._store.quarantine(self._folder / f"{plan_id}.json", error.cause)
            return None

    def _put(self, old: Plan, new: Plan) -> None:
        path = self._folder / f"{new.id}.json"
        self._store.folder(self._folder)
        data = self._store.read(path) if old.revisions else None
        same = data is None or model.decode(data, path) == old
        if not same or not self._store.replace(path, data, model.encode(new)):
            raise StoreFailed(str(path), "written", "somebody else wrote to it at the same moment")
