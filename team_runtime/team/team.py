"""The team: its members, what they are doing, and how it comes to an end."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from team_runtime.board.base import Board
from team_runtime.board.model import Task
from team_runtime.bus.base import Bus
from team_runtime.clock import Clock
from team_runtime.crossing import Bell, Crossing
from team_runtime.errors import InputError, NameInvalid, TeamError
from team_runtime.events import Emit
from team_runtime.loop.agent import Agent, TurnBreak
from team_runtime.sessions.sessions import Sessions
from team_runtime.store.layout import check_agent_name
from team_runtime.team.assignments import Assignments
from team_runtime.team.member import MEANT_FOR, Member, Spawn, State
from team_runtime.team.planning import LEAD, Planning
from team_runtime.types import Json

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
        self._lock = threading.RLock()
        self._spawning = threading.Lock()
        self._roster = threading.Lock()
        self._members: dict[str, Member] = {}
        self._group: TaskGroup | None = None
        self._limiter = anyio.CapacityLimiter(math.inf)
        self.stop_error: TeamError | None = None
        self.limit_reached = Bell()
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
        self.stopping = False
        """Whether the whole team was asked to stop: nobody is left to be told about a member."""

    # Members

    def members(self) -> list[Member]:
        """Copies of what is known about each member, the lead first."""
        with self._lock:
            return [replace(member) for member in self._members.values()]

    def change(
        self, name: str, state: State | None = None, busy: bool | None = None, **fields: Any
    ) -> None:
        """Change a member; a new state is an event. It is busy until that has been heard: who hears
        of its end may have mail to send."""
        with self._lock:
            member = self._members[name]
            member.woken += bool(busy) and not member.busy
            member.busy = member.busy or bool(busy)
            for key, value in fields.items():
                setattr(member, key, value)
            if member.state is State.STOPPING and state is not None and not state.ended:
                state = None  # a turn that goes on does not make it unasked
            changed = state is not None and state is not member.state
            if state is not None:
                member.state = state
        try:
            if changed and state is not None:
                held = self.parts.assignments.of(name)
                task = held.claim.task_id if held else None
                self.parts.emit("agent_state", name, state=state.value, task=task)
        finally:
            if busy is False:
                member.busy = False
                self.ring(LEAD)

    def get(self, name: str) -> Member:
        """The live record. Raises `InputError`, which lists the names."""
        with self._lock:
            member = self._members.get(name)
            if member is None:
                known = ", ".join(n for n in self._members if n != LEAD) or "none yet"
                raise InputError(f"there is no teammate {name!r}; teammates: {known}")
            return member

    def names(self) -> list[str]:
        """The members that still read their mail."""
        return [member.name for member in self.members() if not member.closed]

    def ring(self, name: str) -> None:
        """Wake a member that waits."""
        with self._lock:
            member = self._members.get(name)
        if member is not None:
            member.bell.ring()

    def ring_all(self) -> None:
        for member in self.members():
            member.bell.ring()

    def on_event(self, record: dict[str, Any]) -> None:
        """An event sink: mail wakes its recipient, a change of the board, of the lead or of who is
        there for a task wakes everybody, and a decision that was delivered ends the wait for it."""
        kind, moved = record["kind"], False
        if kind == "agent_state":
            moved = record["agent"] == LEAD or State(record["state"]).absent
        if kind == "message_sent":
            self.ring(record["to"])
        elif kind == "message_delivered" and record["type"] == "plan_decision":
            self._decided(record["agent"])
        elif moved or (kind.startswith("task_") and kind != "task_claimed"):
            self.ring_all()

    def _decided(self, name: str) -> None:
        with self._lock:
            member = self._members.get(name)  # none while a resumed one is still being made
            if member is not None:
                member.planned = False

    def on_file(self, path: Path) -> None:
        """A hint that another process changed a mailbox or the board."""
        if path.parent.name == "new" or path.name.startswith("task_"):
            self.on_folder(path.parent)

    def on_folder(self, folder: Path) -> None:
        """A hint that something in a mailbox's folder, or in that of the board, has changed."""
        if folder.name == "new":
            self.ring(folder.parent.name)
        else:
            self.ring_all()

    def eligible(self, name: str) -> Callable[[Task], bool]:
        """Which tasks this teammate may claim by itself: those of this session, those that a
        person added while this run lasts, and none that is meant for another one who is there.

        One without a worktree waits until the lead's turn has ended: it may still get one. Nothing
        is begun once the lead has ended, and the run with it.
        """

        def may(task: Task) -> bool:
            ours, lead = task.session == self.parts.session, self.get(LEAD).state
            in_turn = lead in (State.STARTING, State.WORKING, State.WAITING)
            if lead.ended or (ours and task.worktree is None and in_turn):
                return False
            added = task.session is None and task.created_at >= self.parts.started_at
            return (ours or added) and not self._is_meant_for_another(task, name)

        return may

    def _is_meant_for_another(self, task: Task, name: str) -> bool:
        other = task.metadata.get(MEANT_FOR, name)
        with self._lock:
            member = self._members.get(other)
        if member is None or member.state.absent:
            return False
        return bool(other != name)

    # Starting

    def add_lead(self) -> tuple[Member, Agent]:
        """Make the lead. Call on the loop thread."""
        member = self._new_member(Spawn(LEAD, "lead", ""), self.parts.model, is_lead=True)
        self._members[LEAD] = member
        self.parts.bus.register(LEAD)
        return member, self._make_agent(self, member, "")

    def spawn(self, spawn: Spawn, by: Crossing, run: Callable[[Member, Agent], None]) -> str:
        """Start a teammate. Idempotent by name: a second spawn changes nothing and says so. One
        that has said that it ends is waited for, and started anew.

        Raises `NameInvalid`, `InputError`, or `ClaimRefused` when its task cannot be claimed; then
        no teammate was made.
        """
        if self.stopping:
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
        self._save_roster(spawn)
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
        with self._lock:
            return self._members.get(name)

    async def _new_member_on_loop(self, spawn: Spawn) -> Member:
        return self._new_member(spawn, spawn.model or self.parts.model)

    def _new_member(self, spawn: Spawn, model: str, is_lead: bool = False) -> Member:
        return Member(spawn.name, spawn.role, model, Crossing(), Bell(), is_lead, spawn.permissions)

    async def begin(
        self, member: Member, agent: Agent, run: Callable[[Member, Agent], None]
    ) -> None:
        """Start a member's thread."""
        assert self._group is not None
        with self._lock:
            self._members[member.name] = member
            stopping = self.stopping
        if stopping:
            self.ask_to_stop(member.name, "the run is ending")
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

    def _save_roster(self, spawn: Spawn) -> None:
        self.record(
            spawn.name,
            role=spawn.role,
            model=spawn.model or self.parts.model,
            requirePlan=spawn.require_plan,
            permissions=spawn.permissions,
            dismissed=False,
        )

    def record(self, name: str, **fields: Json) -> None:
        """Note in the session what a resumed run must know about a member."""
        with self._roster:
            agents = self.parts.sessions.load(self.parts.session).get("agents", [])
            others = [a for a in agents if a["name"] != name]
            agents = [*others, {"name": name, **self.notes(name), **fields}]
            self.parts.sessions.save(self.parts.session, {"agents": agents})

    def notes(self, name: str) -> Mapping[str, Json]:
        """What the session has noted about a member."""
        agents = self.parts.sessions.load(self.parts.session).get("agents", [])
        return next((a for a in agents if a["name"] == name), {})

    def give_back(self, name: str, note: str) -> str | None:
        """Release what a member holds, so that a resumed session can take it up again; returns the
        task's id."""
        held = self.parts.assignments.of(name)
        if held is not None and not held.done:
            self.record(name, left={"task": held.claim.task_id, "epoch": held.claim.epoch})
        return self.parts.assignments.release(name, note)

    # Stopping

    def check_stop(self, name: str) -> None:
        """Raises `TurnBreak` when the member was asked to stop."""
        with self._lock:
            reason = self._members[name].stop_reason
        if reason is not None:
            raise TurnBreak(reason)

    def ask_to_stop(self, name: str, reason: str) -> None:
        """The member stops before its next model call; `_force_later` sees to it that it does."""
        with self._lock:
            member = self._members[name]
            member.stop_reason = member.stop_reason or reason
            ended = member.state.ended
        if not ended:
            self.change(name, State.STOPPING)
        member.bell.ring()

    def stop(self, reason: str, error: TeamError | None = None) -> None:
        """Ask every member to stop. The first error is the one that the run ends with."""
        self.stopping = True
        self.stop_error = self.stop_error or error
        for member in self.members():
            self.ask_to_stop(member.name, reason)
        if error is not None:
            self.limit_reached.ring()

    async def _force_later(self, member: Member) -> None:
        """End a member's waits when it has not stopped in time. Not by its name, which may be
        another's by then."""
        with anyio.move_on_after(self.parts.stop_seconds):
            await member.gone.wait()
        self.force(member)

    def force(self, member: Member) -> None:
        """End a member's waits now. Call on the loop thread."""
        if not member.gone.is_set():
            member.crossing.stop()

    async def shut_down(self) -> None:
        """Stop all teammates, by force after the deadline, and wait until they have ended."""
        self.stopping = True
        teammates = [m for m in self.members() if not m.is_lead]
        for member in teammates:
            self.ask_to_stop(member.name, "the run is over")
        async with anyio.create_task_group() as group:
            for member in teammates:
                group.start_soon(self._force_later, member)
        for member in teammates:  # also one that was ended by force gives its task back first
            await member.gone.wait()

    def request_shutdown(self, name: str, by: Crossing) -> str:
        """The lead's request: the teammate ends within the deadline."""
        member = self.get(name)
        if member.state.ended:
            return f"{name} has already {member.state.value}."
        self.record(name, dismissed=True)
        self.ask_to_stop(name, "the lead asked it to stop")
        by.wait(self._force_in_group, member)
        # Last, so that it does not wake an idle one for another turn.
        self.parts.bus.send(LEAD, name, "Please stop.", "shutdown_request")
        return f"{name} was asked to stop and ends within {self.parts.stop_seconds:g} seconds."

    async def _force_in_group(self, member: Member) -> None:
        assert self._group is not None
        self._group.start_soon(self._force_later, member)


def assignment_id(task_id: str, epoch: int) -> str:
    """The id of the message about a claim."""
    return f"m-{task_id}-{epoch}"
