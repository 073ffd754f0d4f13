"""A teammate whose model cannot be reached: it stands still with all it has, and tries again.

Its task is given back meanwhile, so that somebody else can take it. Nothing is added to its
conversation by trying, however often that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from team_runtime.errors import ModelFailed
from team_runtime.loop.agent import Agent, TurnBreak
from team_runtime.models.retry import is_outage
from team_runtime.team.member import Member, State
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team

FIRST_PAUSE: Final = 60.0
"""Seconds before the first new try; each further pause is twice as long."""
LONGEST_PAUSE: Final = 3600.0


@dataclass
class Standstill:
    """One shift of a teammate, through outages of its model."""

    team: Team
    member: Member
    agent: Agent
    _given_back: tuple[str, int] | None = None
    """The task that the agent had, and the epoch of its claim."""

    def work(self) -> str:
        """What `Agent.work` returns. When the run ends meanwhile the outage is raised."""
        pause = FIRST_PAUSE
        while True:
            try:
                text = self.agent.work()
            except ModelFailed as error:
                if not is_outage(error):
                    raise
                self._stand_still(error, pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self.team.roster.change(self.member.name, error=None)
                return text

    def _stand_still(self, error: ModelFailed, seconds: float) -> None:
        name = self.member.name
        # Until a turn has ended: the run may end before that.
        self.team.roster.change(name, error=error)
        self._check_stop(error)
        self._give_back(error)
        self.team.roster.change(name, State.STALLED, busy=False)
        self._wait(error, seconds)
        self.team.roster.change(name, State.WORKING, busy=True)
        self._take_back()

    def _wait(self, error: ModelFailed, seconds: float) -> None:
        """Until it is worth another try: after a while, or when there is mail."""
        team, clock = self.team, self.team.parts.clock
        ends = clock.monotonic() + seconds
        while (left := ends - clock.monotonic()) > 0:
            self._check_stop(error)
            if any(message.wakes for message in team.parts.bus.unread(self.member.name)):
                return
            self.member.crossing.wait(self.member.bell.wait, left)

    def _check_stop(self, error: ModelFailed) -> None:
        """At the end of a run it has failed; when it alone was asked to stop it does just that."""
        if self.member.stop_reason is None:
            return
        if self.team.stopping.of_all:
            raise error
        self.team.roster.change(self.member.name, error=None)
        raise TurnBreak(self.member.stop_reason)

    def _give_back(self, error: ModelFailed) -> None:
        """Let others have the task, unless something runs for it, whose end is worth a try."""
        team, name, released = self.team, self.member.name, None
        held = team.parts.assignments.of(name)
        if held is not None and not held.done and not team.waits(name):
            self._given_back = held.claim.task_id, held.claim.epoch
            released = team.give_back(name, str(error))
        self._tell_lead(error, released)

    def _tell_lead(self, error: ModelFailed, released: str | None) -> None:
        """Once for each turn that cannot be had, in however many runs, and each task given back."""
        team, name, turn = self.team, self.member.name, self.agent.conversation.replies
        told_of, told = team.notes.of(name).get("stalled", (None, None))
        if told_of == turn and released in (None, told):
            return
        kept = f" {released} was given back with its work saved." if released else ""
        text = f"{name} has failed: {error}{kept} It goes on by itself when that has passed."
        team.parts.bus.send(name, LEAD, text, "error")
        team.notes.add(name, stalled=[turn, released])

    def _take_back(self) -> None:
        """Have the task again as if nothing had been, unless somebody else has taken it."""
        given_back, self._given_back = self._given_back, None
        if given_back is None or self.team.parts.assignments.take_back(
            self.member.name, *given_back
        ):
            return
        self.agent.tell(
            f"[runtime] While your model could not be reached {given_back[0]} was given back, and "
            "it is not yours any more. Your directory is the main checkout again."
        )
