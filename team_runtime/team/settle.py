"""When is a run over? When the lead's turn has ended and nothing can wake it."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from team_runtime.team.member import Member, State
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team

REMINDERS: Final = 2
"""How often in a row an agent is reminded of something that only it can do."""


class Settled(enum.Enum):
    """What the lead does next."""

    WAIT = "wait"
    REMIND = "remind"
    DONE = "done"


@dataclass
class Settling:
    """Decides, for the waiting lead, whether anything can still happen."""

    team: Team
    reminded: Counter[str] = field(default_factory=Counter)
    """How often the lead was reminded of each plan, by request id."""

    def check(self) -> Settled:
        """`WAIT` while something can wake the lead, `REMIND` when it alone can go on, `DONE`."""
        team = self.team
        woken = self._woken()
        team.parts.planning.expire(team.parts.session)
        teammates = team.roster.teammates()
        idle = [m for m in teammates if not m.state.ended]
        if any(m.busy for m in teammates):  # also those that have just ended
            return Settled.WAIT
        if any(self._has_mail(m) or self._can_claim(m) for m in idle):
            return Settled.WAIT
        waiting = self._undecided(idle)
        by_lead = team.parts.planning.reviewer == LEAD
        if waiting and not by_lead and team.parts.waits_for_reviews:
            return Settled.WAIT
        if by_lead and any(self.reminded[request_id] < REMINDERS for request_id in waiting):
            if self._woken() != woken:  # by mail that was taken in between the two looks above
                return Settled.WAIT
            self.reminded.update(waiting)
            return Settled.REMIND
        unfinished = [] if waiting else [m for m in idle if self._unfinished(m)]
        unfinished = [m for m in unfinished if not (team.waits(m.name) or self._has_mail(m))]
        for member in unfinished:
            team.roster.remind(member)
        # What else was awaited has sent its mail before it is over, so the mail is looked at then,
        # and whoever takes mail in was woken before that, so that comes last.
        awaited = bool(unfinished) or any(can_come() for can_come in team.awaited)
        mailed = any(self._has_mail(m) for m in team.roster.all() if not m.state.ended)
        return Settled.WAIT if awaited or mailed or self._woken() != woken else Settled.DONE

    def _woken(self) -> int:
        return sum(member.woken for member in self.team.roster.all())

    def undecided(self) -> list[str]:
        """Request ids of the plans that wait for the lead."""
        return self._undecided([m for m in self.team.roster.all() if not m.state.ended])

    def _undecided(self, members: list[Member]) -> list[str]:
        names = {m.name for m in members}
        parts = self.team.parts
        return [
            revision.request_id
            for plan, revision in parts.planning.pending(parts.session)
            if plan.agent in names
        ]

    def _has_mail(self, member: Member) -> bool:
        return any(m.wakes for m in self.team.parts.bus.unread(member.name))

    def _can_claim(self, member: Member) -> bool:
        parts = self.team.parts
        if member.state is not State.IDLE or parts.assignments.of(member.name) is not None:
            return False
        return bool(parts.assignments.claimable(self.team.eligible(member.name), member.avoided))

    def _unfinished(self, member: Member) -> bool:
        held = self.team.parts.assignments.of(member.name)
        return held is not None and not held.done
