"""The team: how its members come in, and what each is given to do."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from team_runtime.board.base import Board
from team_runtime.board.model import Task
from team_runtime.bus.base import Bus
from team_runtime.clock import Clock
from team_runtime.crossing import Bell, Crossing
from team_runtime.errors import InputError, NameInvalid
from team_runtime.events import Emit
from team_runtime.loop.agent import Agent
from team_runtime.sessions.sessions import Sessions
from team_runtime.store.layout import check_agent_name
from team_runtime.team.assignments import Assignments
from team_runtime.team.member import MEANT_FOR, Member, Spawn, State
from team_runtime.team.notes import Notes
from team_runtime.team.planning import LEAD, Planning
from team_runtime.team.roster import Roster
from team_runtime.team.stopping import Stopping

RESERVED: Final = frozenset({"lead", "runtime", "person", "agent", "host"})
STOP_SECONDS: Final = 30.0
"""How long a member may go on with its turn after it was asked to stop."""


@dataclass(frozen=True)
class Parts:
    """What a team is made of."""

    name: str
    session: str
    run: str
    started_at: str
    model: str
    board: Board
    bus: Bus
    assignments: Assignments
    planning: Planning
    sessions: Sessions
    clock: Clock
    emit: Emit
    stop_seconds: float = STOP_SECONDS
    waits_for_reviews: bool = True
    """Whether the run goes on while nothing but a person's review of a plan can wake anybody."""


class Team:
    """The members of one run. Public methods may be called from any agent's thread."""

    def __init__(self, parts: Parts, make_agent: Callable[[Team, Member, str], Agent]) -> None:
        self.parts = parts
        self._make_agent = make_agent
        self._spawning = threading.Lock()
        self._group: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(math.inf)
        self.roster = Roster(parts.emit, parts.assignments.task_of)
        self.notes = Notes(parts.sessions, parts.session)
        self.stopping = Stopping(self.roster, parts.stop_seconds)
        self.awaited: list[Callable[[], bool]] = []
        """Each says whether something outside of the agents can still wake one of them, such as a
        running job. It sends the mail first and then says no, and rings the lead."""
        self.resuming: list[Callable[[Mapping[str, Collection[str]]], None]] = []
        """Each tells resumed agents what is left to be said, given the ids of the messages that
        each of them has."""
        self.waits: Callable[[str], bool] = lambda name: False
        """Whether a member has something running that will wake it, such as a job."""
        self.ready = anyio.Event()
        """Set when every member has its conversation and can be written to."""

    def eligible(self, name: str) -> Callable[[Task], bool]:
        """Which tasks this teammate may claim by itself: those of this session, those that a
        person added while this run lasts, and none that is meant for another one who is there.

        One without a worktree waits until the lead's turn has ended: it may still get one. Nothing
        is begun once the lead has ended, and the run with it.
        """

        def may(task: Task) -> bool:
            ours, lead = task.session == self.parts.session, self.roster.get(LEAD).state
            in_turn = lead in (State.STARTING, State.WORKING, State.WAITING)
            if lead.ended or (ours and task.worktree is None and in_turn):
                return False
            added = task.session is None and task.created_at >= self.parts.started_at
            return (ours or added) and not self._is_meant_for_another(task, name)

        return may

    def _is_meant_for_another(self, task: Task, name: str) -> bool:
        other = task.metadata.get(MEANT_FOR, name)
        member = self.roster.find(other)
        if member is None or member.state.absent:
            return False
        return bool(other != name)

    def add_lead(self) -> tuple[Member, Agent]:
        """Make the lead. Call on the loop thread."""
        member = self._new_member(Spawn(LEAD, "lead", ""), self.parts.model, is_lead=True)
        self.roster.add(member)
        self.parts.bus.register(LEAD)
        return member, self._make_agent(self, member, "")

    def spawn(self, spawn: Spawn, by: Crossing, run: Callable[[Member, Agent], None]) -> str:
        """Start a teammate. Idempotent by name: a second spawn changes nothing and says so. One
        that has said that it ends is waited for, and started anew.

        Raises `NameInvalid`, `InputError`, or `ClaimRefused` when its task cannot be claimed; then
        no teammate was made.
        """
        if self.stopping.of_all:
            raise InputError("the run is ending; nobody was started")
        with self._spawning:
            known = self._known(spawn.name)
            if known is not None and not known.closed:
                return f"{spawn.name} is already a teammate ({known.state.value}); nothing changed."
            if known is not None:
                by.wait(known.gone.wait)
            member = by.wait(self._new_member_on_loop, spawn)
            if spawn.task_id is not None:
                self.parts.assignments.claim(spawn.name, spawn.task_id)
            try:
                agent = self._prepared(member, spawn)
                by.wait(self.begin, member, agent, run)
            except BaseException:
                self.parts.assignments.release(spawn.name, "its agent could not be started")
                raise
        return f"Spawned {spawn.name}." + (f" It has {spawn.task_id}." if spawn.task_id else "")

    def _prepared(self, member: Member, spawn: Spawn) -> Agent:
        """The agent of a new teammate, with its first instruction."""
        agent = self._make_agent(self, member, spawn.role)
        if spawn.require_plan:
            self.parts.assignments.require_plan(spawn.name)
        self.parts.bus.register(spawn.name)
        agent.set_aside_old_mail()
        agent.go_on(spawn.prompt)
        if spawn.task_id is not None:
            self.assign(spawn.name, LEAD)
        self.notes.add(
            spawn.name,
            role=spawn.role,
            model=spawn.model or self.parts.model,
            requirePlan=spawn.require_plan,
            permissions=spawn.permissions,
            dismissed=False,
        )
        self.parts.emit(
            "agent_spawned",
            spawn.name,
            role=spawn.role,
            model=member.model,
            task=spawn.task_id,
            plan_required=spawn.require_plan,
        )
        return agent

    def restore(self, spawn: Spawn) -> tuple[Member, Agent]:
        """Make a teammate of an earlier run, where it was. Call on the loop thread."""
        member = self._new_member(spawn, spawn.model or self.parts.model)
        agent = self._make_agent(self, member, spawn.role)
        if spawn.require_plan:
            self.parts.assignments.require_plan(spawn.name)
        self.parts.emit("agent_spawned", spawn.name, role=spawn.role, model=member.model)
        return member, agent

    def assign(self, name: str, sender: str) -> None:
        """Tell a member about the task that it holds now."""
        held = self.parts.assignments.of(name)
        if held is None:
            return
        task = held.task
        body = f"{task.id}: {task.subject}\n{task.description}\nDirectory: {held.place.root}"
        message_id = assignment_id(task.id, held.claim.epoch)
        attributes = {"task": task.id}
        self.parts.bus.send(sender, name, body, "task_assigned", attributes, message_id)

    def _known(self, name: str) -> Member | None:
        if name in RESERVED:
            rule = f"it is reserved; not one of {', '.join(sorted(RESERVED))}"
            raise NameInvalid("agent", name, rule)
        check_agent_name(name)
        return self.roster.find(name)

    async def _new_member_on_loop(self, spawn: Spawn) -> Member:
        return self._new_member(spawn, spawn.model or self.parts.model)

    def _new_member(self, spawn: Spawn, model: str, is_lead: bool = False) -> Member:
        return Member(spawn.name, spawn.role, model, Crossing(), Bell(), is_lead, spawn.permissions)

    async def begin(
        self, member: Member, agent: Agent, run: Callable[[Member, Agent], None]
    ) -> None:
        """Start a member's thread."""
        assert self._group is not None
        self.roster.add(member)
        if self.stopping.of_all:  # looked at last: whoever sets it asks all that are there then
            self.roster.ask_to_stop(member.name, "the run is ending")
        self._group.start_soon(self.host, run, member, agent)

    async def host(
        self, run: Callable[[Member, Agent], None], member: Member, agent: Agent
    ) -> None:
        """Run one member's thread to its end."""
        try:
            await to_thread.run_sync(run, member, agent, limiter=self._limiter)
        finally:
            member.gone.set()

    def open(self, group: TaskGroup) -> None:
        """Members' threads live in `group`."""
        self._group = group

    def give_back(self, name: str, note: str) -> str | None:
        """Release what a member holds, so that a resumed session can take it up again; returns the
        task's id."""
        held = self.parts.assignments.of(name)
        if held is not None and not held.done:
            self.notes.add(name, left={"task": held.claim.task_id, "epoch": held.claim.epoch})
        return self.parts.assignments.release(name, note)

    def request_shutdown(self, name: str, by: Crossing) -> str:
        """The lead's request: the teammate ends within the deadline."""
        member = self.roster.get(name)
        if member.state.ended:
            return f"{name} has already {member.state.value}."
        self.notes.add(name, dismissed=True)
        self.roster.ask_to_stop(name, "the lead asked it to stop")
        by.wait(self._force_in_group, member)
        # Last, so that it does not wake an idle one for another turn.
        self.parts.bus.send(LEAD, name, "Please stop.", "shutdown_request")
        return f"{name} was asked to stop and ends within {self.parts.stop_seconds:g} seconds."

    async def _force_in_group(self, member: Member) -> None:
        assert self._group is not None
        self._group.start_soon(self.stopping.force_later, member)


def assignment_id(task_id: str, epoch: int) -> str:
    """The id of the message about a claim."""
    return f"m-{task_id}-{epoch}"
