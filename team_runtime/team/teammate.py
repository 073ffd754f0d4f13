"""A teammate's life: work, report, idle, until it is asked to stop."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from team_runtime.crossing import Stopped
from team_runtime.errors import AgentFailed, LimitReached, TeamError
from team_runtime.loop.agent import Agent, TurnBreak
from team_runtime.team.member import Member, State
from team_runtime.team.planning import LEAD
from team_runtime.team.settle import REMINDERS
from team_runtime.team.standstill import Standstill
from team_runtime.team.team import Team

POLL_SECONDS: Final = 3600.0
"""The last resort under the wake-up hints, from events, file events and folders."""
RETRY_SECONDS: Final = 300.0
"""After a task could not be started: what was in the way may be gone, and nobody tells."""


@dataclass
class Teammate:
    """Runs on a thread of its own; every wait goes through the member's crossing."""

    team: Team
    member: Member
    agent: Agent
    _patience: float = POLL_SECONDS

    def run(self) -> None:
        """Until asked to stop, or the model cannot be had. Ends with one final state, with an
        unfinished task given back."""
        note = "its agent stopped"
        failure: TeamError | None = None
        try:
            context = self.agent.hooks.begun()
            going = self.agent.conversation.unanswered
            if going and context:
                self.agent.tell(context)
            going = going or self._next()
            while going:
                self._shift()
                going = self._next()
            note = self.member.stop_reason or note
        except (TurnBreak, LimitReached) as stop:
            note = str(stop)
        except Stopped:
            note = "its agent was stopped by force"
        except TeamError as error:
            failure = error
        except Exception as error:
            self.team.parts.emit("notice", self._name, text=traceback.format_exc())
            failure = AgentFailed(self._name, repr(error))
        finally:
            self._end(note, failure)

    @property
    def _name(self) -> str:
        return self.member.name

    def _shift(self) -> None:
        """Work until the model asks for no more, then report to the lead."""
        team = self.team
        team.roster.change(self._name, State.WORKING, asked=False)
        text = Standstill(team, self.member, self.agent).work()
        self._let_go()
        if self._waits_for_plan():
            team.roster.change(self._name, State.WAITING)
            return
        report(team, self.agent, text)
        team.roster.change(self._name, State.IDLE)
        team.parts.bus.send(self._name, LEAD, f"{self._name} is idle.", "idle")

    def _next(self) -> bool:
        """Wait for something to do. `False` when asked to stop."""
        while True:
            self.team.roster.change(self._name, busy=True)
            if self.member.stop_reason is not None:
                return False
            if self._has_work():
                return True
            self.team.roster.change(self._name, busy=False)
            self.member.crossing.wait(self.member.bell.wait, self._patience)

    def _has_work(self) -> bool:
        """Mail first, then the own unfinished task, then at most one new one."""
        parts = self.team.parts
        # Asked before the mail is looked at: what is over by then has sent its mail already.
        is_waiting = self.member.asked or self.team.waits(self._name)
        if any(message.wakes for message in parts.bus.unread(self._name)):
            self.member.reminders, self.member.remind = 0, False
            return True
        self._let_go()
        if self._waits_for_plan() and not self.member.remind:
            return False
        if parts.assignments.of(self._name) is not None:
            return self._reminded(is_waiting)
        return self._claims()

    def _let_go(self) -> None:
        """Forget a task that is done or was taken away; what was taken is not taken back."""
        lost = self.team.parts.assignments.let_go(self._name)
        if lost is not None:
            self.member.avoided.add(lost)

    def _waits_for_plan(self) -> bool:
        """Until the decision has reached it: made is not yet sent, and sent is not yet read."""
        waits = self.team.parts.assignments.waits_for_plan(self._name)
        return self.member.planned or waits

    def _reminded(self, is_waiting: bool) -> bool:
        """Go on with the own task: at once, unless it waits for an answer or for a job."""
        member = self.member
        if is_waiting and not member.remind:
            return False
        member.remind = member.planned = False
        task_id = self._task_id()
        if member.reminders >= REMINDERS:
            self._give_back("its agent ended its turn without completing it")
            return False
        member.reminders += 1
        closed = self.team.parts.assignments.gate(self._name)
        how = closed or "finish it and call complete_task, or say with update_task why it fails."
        self.agent.tell(f"[runtime] {task_id} is still yours and not completed: {how}")
        return True

    def _claims(self) -> bool:
        parts, member = self.team.parts, self.member
        self._patience = POLL_SECONDS
        try:
            claimed = parts.assignments.claim_next(
                self._name, self.team.eligible(self._name), member.avoided
            )
        except TeamError as error:
            self._patience = RETRY_SECONDS
            parts.bus.send(self._name, LEAD, f"A task could not be started: {error}", "error")
            return False
        if claimed is None:
            return False
        member.reminders = 0
        self.team.assign(self._name, "runtime")
        return True

    def _give_back(self, note: str) -> None:
        task_id = self.team.parts.assignments.release(self._name, note)
        self.member.reminders = 0
        if task_id is not None:
            self.member.avoided.add(task_id)
            text = f"{task_id} was given back with its work saved: {note}."
            self.team.parts.bus.send(self._name, LEAD, text, "error")

    def _task_id(self) -> str:
        return self.team.parts.assignments.task_of(self._name) or "no task"

    def _end(self, note: str, failure: TeamError | None) -> None:
        """Give back what is held, tell whoever must know, and end: in this order, whatever
        fails."""
        team = self.team
        note = str(failure or note)
        state = State.FAILED if failure else State.STOPPED
        error_left = failure or self.member.error
        try:
            self._hand_back(note, failure)
        except TeamError as error:
            text = f"{self._name} could not give everything back: {error}"
            team.parts.emit("notice", self._name, text=text)
        finally:
            try:
                self.agent.hooks.ended(note)
            finally:
                team.roster.change(self._name, state, busy=False, closed=True, error=error_left)

    def _hand_back(self, note: str, failure: TeamError | None) -> None:
        team, bus = self.team, self.team.parts.bus
        team.parts.assignments.let_go(self._name)
        released = team.give_back(self._name, note)
        kept = f" {released} was given back with its work saved." if released else ""
        team.roster.change(self._name, State.STOPPING, closed=True)
        unread = Counter(m.sender for m in bus.unread(self._name) if m.type == "message")
        for sender, count in unread.items():
            if sender in team.roster.readers():
                text = f"{self._name} ended before it read {count} of your messages."
                bus.send(self._name, sender, text, "error")
        if failure and failure is self.member.error:
            return  # the lead was told when it came to a standstill
        if failure:
            bus.send(self._name, LEAD, f"{self._name} has failed: {note}{kept}", "error")
        elif not team.stopping.of_all:
            note = note.rstrip(".")
            bus.send(self._name, LEAD, f"{self._name} has stopped: {note}.{kept}", "shutdown_reply")


def report(team: Team, agent: Agent, text: str) -> None:
    """Send the text with which an agent ended its turn to the lead."""
    body = text or "(it ended its turn without a text)"
    team.parts.bus.send(agent.name, LEAD, body, "result", id=report_id(team, agent))


def report_id(team: Team, agent: Agent) -> str:
    """The id of the report about the agent's last turn."""
    return f"m-{team.parts.session}-{agent.name}-{agent.conversation.replies}"


def live_in(team: Team) -> Callable[[Member, Agent], None]:
    """What a teammate's thread runs."""
    return lambda member, agent: Teammate(team, member, agent).run()
