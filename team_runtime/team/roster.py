"""The roster: who is in the team, what each member is doing, and waking those that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from team_runtime.errors import InputError
from team_runtime.events import Emit
from team_runtime.team.member import Member, State
from team_runtime.team.planning import LEAD


class Roster:
    """The members of one run. Its methods may be called from any agent's thread."""

    def __init__(self, emit: Emit, task_of: Callable[[str], str | None]) -> None:
        """`task_of` names the task that a member holds."""
        self._emit = emit
        self._task_of = task_of
        self._lock = threading.Lock()
        self._members: dict[str, Member] = {}

    def add(self, member: Member) -> None:
        """From now on it is there, in the place of one of its name that has ended."""
        with self._lock:
            self._members[member.name] = member

    def all(self) -> list[Member]:
        """Copies of what is known about each member, the lead first."""
        with self._lock:
            return [replace(member) for member in self._members.values()]

    def teammates(self) -> list[Member]:
        """The same without the lead."""
        return [member for member in self.all() if not member.is_lead]

    def readers(self) -> list[str]:
        """The names of the members that still read their mail."""
        return [member.name for member in self.all() if not member.closed]

    def find(self, name: str) -> Member | None:
        """The live record, or `None`."""
        with self._lock:
            return self._members.get(name)

    def get(self, name: str) -> Member:
        """The live record. Raises `InputError`, which lists the names."""
        member = self.find(name)
        if member is None:
            known = ", ".join(m.name for m in self.teammates()) or "none yet"
            raise InputError(f"there is no teammate {name!r}; teammates: {known}")
        return member

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
                self._emit("agent_state", name, state=state.value, task=self._task_of(name))
        finally:
            if busy is False:
                member.busy = False
                self.ring(LEAD)

    def remind(self, known: Member) -> None:
        """Let a member go on with its unfinished task although it waits for something; not one that
        was woken since this was `known` of it."""
        with self._lock:
            member = self._members[known.name]
            if member.busy or member.woken != known.woken:
                return
            member.remind = True
        member.bell.ring()

    def ask_to_stop(self, name: str, reason: str) -> None:
        """The member stops before its next model call. The first reason is the one that counts."""
        with self._lock:
            member = self._members[name]
            member.stop_reason = member.stop_reason or reason
            ended = member.state.ended
        if not ended:
            self.change(name, State.STOPPING)
        member.bell.ring()

    def ring(self, name: str) -> None:
        """Wake a member that waits."""
        member = self.find(name)
        if member is not None:
            member.bell.ring()

    def ring_all(self) -> None:
        """Wake all that wait."""
        for member in self.all():
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

    def _decided(self, name: str) -> None:
        with self._lock:
            member = self._members.get(name)  # none while a resumed one is still being made
            if member is not None:
                member.planned = False
