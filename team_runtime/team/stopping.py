"""Stopping: members are asked first, and made to when they have not stopped in time."""

from __future__ import annotations

import anyio

from team_runtime.crossing import Bell
from team_runtime.errors import TeamError
from team_runtime.loop.agent import TurnBreak
from team_runtime.team.member import Member
from team_runtime.team.roster import Roster


class Stopping:
    """How the members of a run come to their ends."""

    def __init__(self, roster: Roster, seconds: float) -> None:
        """`seconds` is how long a member may go on with its turn after it was asked to stop."""
        self._roster = roster
        self.seconds = seconds
        self.of_all = False
        """Whether the whole team was asked to stop: nobody is left to be told about a member."""
        self.error: TeamError | None = None
        """The one that the run ends with."""
        self.limit_reached = Bell()

    def check(self, name: str) -> None:
        """Raises `TurnBreak` when the member was asked to stop."""
        reason = self._roster.get(name).stop_reason
        if reason is not None:
            raise TurnBreak(reason)

    def ask_all(self, reason: str, error: TeamError | None = None) -> None:
        """Ask every member to stop. The first error is the one that the run ends with."""
        self.of_all = True
        self.error = self.error or error
        for member in self._roster.all():
            self._roster.ask_to_stop(member.name, reason)
        if error is not None:
            self.limit_reached.ring()

    async def force_later(self, member: Member) -> None:
        """End a member's waits when it has not stopped in time. Not by its name, which may be
        another's by then."""
        with anyio.move_on_after(self.seconds):
            await member.gone.wait()
        self._force(member)

    def force_all(self) -> None:
        """End all members' waits now. Call on the loop thread."""
        for member in self._roster.all():
            self._force(member)

    async def end_teammates(self) -> None:
        """Stop all teammates, by force after the deadline, and wait until they have ended."""
        self.of_all = True
        teammates = self._roster.teammates()
        for member in teammates:
            self._roster.ask_to_stop(member.name, "the run is over")
        async with anyio.create_task_group() as group:
            for member in teammates:
                group.start_soon(self.force_later, member)
        for member in teammates:  # also one that was ended by force gives its task back first
            await member.gone.wait()

    def _force(self, member: Member) -> None:
        if not member.gone.is_set():
            member.crossing.stop()
