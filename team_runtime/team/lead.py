"""The lead's life: the request, then whatever wakes it, until nothing can."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field

from team_runtime.crossing import Stopped
from team_runtime.errors import AgentFailed, LimitReached, TeamError
from team_runtime.loop.agent import Agent, TurnBreak
from team_runtime.team.member import Member, State
from team_runtime.team.settle import Settled, Settling
from team_runtime.team.team import Team
from team_runtime.team.teammate import POLL_SECONDS


@dataclass
class Lead:
    """Runs on a thread of its own. `text` is its last report, `error` why it could not go on."""

    team: Team
    member: Member
    agent: Agent
    text: str = ""
    error: TeamError | None = None
    _settling: Settling = field(init=False)

    def __post_init__(self) -> None:
        self._settling = Settling(self.team)

    def run(self) -> None:
        """Work until the run is over, the lead is stopped, or its model cannot be had."""
        conversation = self.agent.conversation
        try:
            if not conversation.unanswered:
                self.text = conversation.said
                self.team.roster.change(self.member.name, State.IDLE)
                if not self._next():
                    return
            while True:
                self.team.roster.change(self.member.name, State.WORKING, busy=True)
                self.text = self.agent.work() or self.text
                self.team.parts.assignments.let_go(self.member.name)
                self.team.roster.change(self.member.name, State.IDLE)
                if not self._next():
                    return
        except (TurnBreak, Stopped, LimitReached):
            return  # the team knows who asked it to stop, and why
        except TeamError as error:
            self.error = error
        except Exception as error:
            self.team.parts.emit("notice", self.member.name, text=traceback.format_exc())
            self.error = AgentFailed(self.member.name, repr(error))
        finally:
            self._end()

    def _next(self) -> bool:
        """Wait for something to do; `False` when nothing can come any more."""
        while True:
            self.team.stopping.check(self.member.name)
            bus = self.team.parts.bus
            if any(message.wakes for message in bus.unread(self.member.name)):
                return True
            settled = self._settling.check()
            if settled is Settled.DONE:
                return self._own_task_left()
            if settled is Settled.REMIND:
                waiting = ", ".join(self._settling.undecided())
                self.agent.tell(f"[runtime] These plans wait for your review_plan: {waiting}")
                return True
            planning = self.team.parts.planning
            seconds = min(POLL_SECONDS, planning.seconds_left(self.team.parts.session))
            self.member.crossing.wait(self.member.bell.wait, seconds)

    def _own_task_left(self) -> bool:
        """A task that the lead itself claimed and did not complete is worth one reminder."""
        held = self.team.parts.assignments.of(self.member.name)
        if held is None or self.member.reminders:
            return False
        self.member.reminders = 1
        self.agent.tell(f"[runtime] {held.claim.task_id} is still yours and not completed.")
        return True

    def _end(self) -> None:
        try:
            self.team.parts.assignments.let_go(self.member.name)
            self.team.give_back(self.member.name, "its agent stopped")
        except TeamError as error:
            self.error = self.error or error
        finally:
            state = State.FAILED if self.error else State.STOPPED
            self.team.roster.change(
                self.member.name, state, busy=False, closed=True, error=self.error
            )
