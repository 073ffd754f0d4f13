"""Plan review: who is told of a revision, who may decide it, and what happens when nobody does."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Final

from team_runtime.bus.base import Bus
from team_runtime.clock import Clock
from team_runtime.errors import PlanRefused
from team_runtime.guard.hook_events import PLAN_REVIEW
from team_runtime.plans.model import Gate, Plan, Revision
from team_runtime.plans.store import PlanStore
from team_runtime.team.gates import Gates

PERSON: Final = "person"
LEAD: Final = "lead"


class Planning:
    """Plans of one team. `reviewer` is `person` or `lead`; a person may always decide."""

    def __init__(
        self,
        plans: PlanStore,
        bus: Bus,
        clock: Clock,
        reviewer: str,
        deadline: float,
        gates: Gates | None = None,
    ) -> None:
        self._plans = plans
        self._bus = bus
        self._clock = clock
        self.reviewer = reviewer
        self._deadline = timedelta(seconds=deadline)
        self._gates = gates or Gates()

    def submit(
        self,
        agent: str,
        task: str | None,
        epoch: int,
        session: str,
        text: str,
        files: Sequence[str] | None = None,
    ) -> Revision:
        """Store the next revision and tell the lead when it is the lead who decides. Every plan is
        also an event, which the person's view shows in full. Raises `HookRefused`."""
        self._gates.submit(text, task, agent)
        plan, revision = self._plans.submit(agent, task, epoch, session, text, files)
        if self.reviewer == LEAD:
            self._ask(plan, revision)
        else:
            text = f"{agent} submitted {plan.id} revision {revision.number} for your review."
            self._gates.notify(PLAN_REVIEW, agent, plan.id, text)
        return revision

    def decide_as_lead(self, request_id: str, approve: bool, feedback: str) -> Revision:
        """The lead's decision. Raises `PlanRefused` when a person has to decide."""
        if self.reviewer == PERSON:
            raise PlanRefused(
                "A person reviews the plans of this run; the lead cannot decide them."
            )
        return self._announce(*self._plans.decide(request_id, approve, LEAD, feedback))

    def decide_as_person(
        self, plan_id: str, number: int, approve: bool, feedback: str, by: str = PERSON
    ) -> Revision:
        """A person's decision on a revision. Raises `PlanRefused` for one that is not current."""
        return self._announce(*self._plans.decide_revision(plan_id, number, approve, by, feedback))

    def of(self, agent: str, task: str | None, epoch: int) -> Plan | None:
        """The agent's plan for this claim."""
        return self._plans.find(agent, task, epoch)

    def pending(self, session: str) -> list[tuple[Plan, Revision]]:
        """The revisions of this session that wait for a decision, oldest first."""
        return [
            (plan, plan.revisions[-1]) for plan in self._plans.pending() if plan.session == session
        ]

    def seconds_left(self, session: str) -> float:
        """Until the next deadline of a plan that waits; infinite when none does."""
        now = self._clock.now()
        return min(
            ((self._due(revision) - now).total_seconds() for _, revision in self.pending(session)),
            default=math.inf,
        )

    def tell_again(
        self, plan: Plan, lead_has: Collection[str], author_has: Collection[str]
    ) -> bool:
        """Send what a killed process had decided and not sent: the request to the lead, or the
        decision to its author. Given the ids of the messages that both have, returns whether the
        author was told."""
        revision = plan.current
        asks = plan.gate is Gate.PENDING and self.reviewer == LEAD
        if asks and _request_id(revision) not in lead_has:
            self._ask(plan, revision)
        decided = plan.gate in (Gate.APPROVED, Gate.REJECTED)
        if not decided or _decision_id(revision) in author_has:
            return False
        self._announce(plan, revision)
        return True

    def expire(self, session: str) -> None:
        """Reject what nobody decided before its deadline: with nobody there the answer is no."""
        for plan, revision in self.pending(session):
            if self._clock.now() >= self._due(revision):
                note = "Nobody reviewed this plan in time."
                with contextlib.suppress(PlanRefused):  # somebody has, in this moment
                    self.decide_as_person(plan.id, revision.number, False, note, "runtime")

    def _due(self, revision: Revision) -> datetime:
        return datetime.fromisoformat(revision.submitted_at or "") + self._deadline

    def _ask(self, plan: Plan, revision: Revision) -> None:
        attributes = {"request_id": revision.request_id, "revision": str(revision.number)}
        if plan.task is not None:
            attributes["task"] = plan.task
        message_id = _request_id(revision)
        self._bus.send(
            plan.agent, LEAD, revision.shown, "plan_request", attributes, message_id, plan.session
        )

    def _announce(self, plan: Plan, revision: Revision) -> Revision:
        approved = revision.state == "approved"
        attributes = {
            "request_id": revision.request_id,
            "revision": str(revision.number),
            "decision": "approved" if approved else "rejected",
        }
        body = revision.feedback or ("Go ahead." if approved else "Revise it and submit it again.")
        sender = revision.decided_by or PERSON
        message_id = _decision_id(revision)
        self._bus.send(
            sender, plan.agent, body, "plan_decision", attributes, message_id, plan.session
        )
        return revision


def _request_id(revision: Revision) -> str:
    return f"m-{revision.request_id}"


def _decision_id(revision: Revision) -> str:
    return f"m-{revision.request_id}-decision"
