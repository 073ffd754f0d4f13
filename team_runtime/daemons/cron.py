"""The cron daemon of a run: fires the schedules of its session, and follows each firing to its end.

A slot is recorded before it is sent. The message's id follows from the slot, so sending it again
after a crash delivers it once. It is acknowledged when its agent has ended the turns it caused.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
from anyio import to_thread

from team_runtime.bus.base import Bus
from team_runtime.bus.message import NOTIFICATION, SCHEDULE
from team_runtime.clock import Clock
from team_runtime.crossing import Bell
from team_runtime.daemons.attention import Attention, left_of_second
from team_runtime.daemons.clock_watch import hearing, watching
from team_runtime.daemons.schedule_store import Entry, ScheduleStore
from team_runtime.daemons.schedules import ALL, DELIVERED, RECORDED, Firing, message_id
from team_runtime.errors import TeamError
from team_runtime.events import Emit
from team_runtime.sessions.sessions import Sessions

NAME: Final = "cron"
"""Of the daemon, of its lock and of the sender of its messages."""
_Key: TypeAlias = tuple[str, datetime]
"""A schedule's id and the slot."""


@dataclass(frozen=True)
class Surroundings:
    """What the daemon of one session works with."""

    session: str
    schedules: ScheduleStore
    sessions: Sessions
    bus: Bus
    clock: Clock
    emit: Emit
    readers: Callable[[], Collection[str]]
    """Names of the agents that read their mail."""
    ready: Callable[[], Any]
    """A coroutine function that returns when the agents can be written to."""
    is_open: Callable[[], bool]
    """Whether the agents still take on something new."""
    waits_for: Callable[[Entry], bool]
    """Whether the run shall wait for the next slot of a schedule."""
    outage: Callable[[str], str | None]
    """Why an agent that has ended could not reach its model; `None` when it ended otherwise. The
    session goes on with it where it was."""
    failure: Callable[[str], str]
    """What went wrong with an agent that has failed; empty when nobody knows."""
    on_quiet: Callable[[], None]
    """Called when nothing can come any more that could before."""


@dataclass(frozen=True)
class _End:
    """How the turns ended that a firing caused."""

    agent: str
    state: str
    lacked: str
    """What the agent was refused because nobody was there to answer; empty if nothing."""


@dataclass
class Cron:
    """The schedules of one session while a run of it is going."""

    parts: Surroundings
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _known: dict[str, _Key] = field(default_factory=dict)
    """The firings of this run, by the ids of their messages."""
    _sent: set[str] = field(default_factory=set)
    """Ids of the messages that were sent."""
    _working: defaultdict[str, dict[_Key, str]] = field(default_factory=lambda: defaultdict(dict))
    """What each agent has been given and is working on, with why it failed; empty if not."""
    _over: dict[_Key, _End] = field(default_factory=dict)
    """Firings that are over and whose end is not written yet, as when the disk was full."""
    _expects: bool = True
    """Whether something could come when it was looked at last."""
    _attention: Attention = field(default_factory=Attention)

    async def run(self) -> None:
        """Look when a slot has come or something has changed, until cancelled."""
        await self.parts.ready()
        await to_thread.run_sync(self.take_up)
        attention, clock, bell = self._attention, self.parts.clock, Bell()
        attention.ring = bell.ring
        attention.hint()
        with watching(clock) as watch, hearing(watch, bell):
            while True:
                now = clock.now()
                if attention.is_needed(now):
                    attention.begin(now)
                    await to_thread.run_sync(self.tick)
                rung = await bell.wait(watch.until(attention.moment(clock.now())))
                if rung and not attention.is_due(now := clock.now()):
                    await anyio.sleep(left_of_second(now))  # many changes, one look

    def on_folder(self, folder: Path) -> bool:
        """A hint that something in a folder has changed; whether it is that of the schedules."""
        if folder != self.parts.schedules.folder:
            return False
        self._attention.hint()
        return True

    def take_up(self) -> None:
        """Find out what an earlier process of this session had sent; the rest is sent by `tick`."""
        for entry in self._entries():
            for firing in self._open(entry):
                self._take_up(entry, firing)

    def tick(self) -> None:
        """Decide about what is due, and send what is recorded. Nothing is begun at the end of a
        run: that is left to whoever goes on with the session."""
        if not self.parts.is_open():
            return
        with suppress(TeamError):  # its agent has said so; the next look tries again
            self._mark()
        now = self.parts.clock.now()
        entries = self._entries()
        due = [e.schedule.id for e in entries if self._may_fire(e) and e.is_due(now)]
        for id in due:
            self.parts.schedules.decide(id, now)
        entries = self._entries() if due else entries
        # What is due at once begins one turn of each agent, not one for each schedule.
        with self.parts.bus.together():
            for entry in entries:
                for firing in self._open(entry):
                    self._see_to(entry, firing)
        self._attention.end(entry.due for entry in entries if self._may_fire(entry))
        expected, self._expects = self._expects, self._can_come(entries)
        if expected and not self._expects:
            self.parts.on_quiet()

    def can_come(self) -> bool:
        """Whether a firing of this session will still wake one of its agents."""
        return self._can_come(self._entries())

    def _can_come(self, entries: Sequence[Entry]) -> bool:
        for entry in entries:
            if any(firing.state == RECORDED for firing in self._open(entry)):
                return True
            if self._may_fire(entry) and entry.next and self.parts.waits_for(entry):
                return True
        return False

    def on_event(self, record: Mapping[str, Any]) -> None:
        """An event sink: what became of the firings in the agents' hands."""
        kind, agent = record["kind"], record["agent"]
        if kind.startswith("schedule_"):
            self._attention.hint()
        try:
            if kind == "message_delivered":
                self._entered(agent, record["id"])
            elif kind == "permission_denied" and record["nobody"]:
                self._lacked(agent, f"{record['tool']} needed a person: {record['reason']}")
            elif kind == "agent_state":
                self._moved(agent, record["state"])
        except TeamError as error:  # the agent whose event this is has done nothing wrong
            self.parts.emit("notice", text=f"a firing could not be marked: {error}")

    def _entries(self) -> list[Entry]:
        return [e for e in self.parts.schedules.entries() if self._decides(e) or self._open(e)]

    def _decides(self, entry: Entry) -> bool:
        """Whether this session decides about the schedule's slots."""
        return entry.schedule.session == self.parts.session

    def _may_fire(self, entry: Entry) -> bool:
        """Whether its next slot can be decided about: not while an earlier firing is in its agent's
        hands, so that a long turn, or a model that cannot be reached, is not asked for the same
        again and again. What comes meanwhile counts as missed."""
        waits = bool(self._open(entry)) and entry.schedule.misfire != ALL
        return self._decides(entry) and not waits

    def _open(self, entry: Entry) -> list[Firing]:
        return [f for f in entry.history.open if f.session == self.parts.session]

    def _take_up(self, entry: Entry, firing: Firing) -> None:
        """All mail of an earlier process is in the conversations by now, so what is not there was
        never sent."""
        agent, key = entry.schedule.to, (entry.schedule.id, firing.slot)
        id = message_id(*key)
        with self._lock:
            self._known[id] = key
        if not any(id in line.get("mail", ()) for line in self._transcript(agent)):
            return
        with self._lock:
            self._sent.add(id)
            self._working[agent].setdefault(key, "")
        if firing.state != DELIVERED:
            self.parts.schedules.delivered(*key)
        # Read again: the agent may have ended its turn before we listened to it.
        if _has_ended(self._transcript(agent)):
            with self._lock:
                is_ours = self._working[agent].pop(key, None) is not None
            if is_ours:
                self.parts.schedules.acknowledged(*key)

    def _transcript(self, agent: str) -> list[dict[str, Any]]:
        return self.parts.sessions.transcript(self.parts.session, agent).entries()

    def _see_to(self, entry: Entry, firing: Firing) -> None:
        """Send it, unless it was sent; without a recipient it comes to nothing."""
        schedule, key = entry.schedule, (entry.schedule.id, firing.slot)
        if schedule.to in self.parts.readers():
            if firing.state == RECORDED and message_id(*key) not in self._sent:
                self._send(entry, firing)
        elif self.parts.is_open():
            note = f"{schedule.to} is not there to read it"
            self.parts.schedules.failed(*key, note, backs_off=False)

    def _send(self, entry: Entry, firing: Firing) -> None:
        schedule, key = entry.schedule, (entry.schedule.id, firing.slot)
        id = message_id(*key)
        with self._lock:
            self._known[id] = key
        attributes = {SCHEDULE: schedule.id, "slot": schedule.shown(firing.slot)}
        self.parts.bus.send(NAME, schedule.to, schedule.prompt, NOTIFICATION, attributes, id)
        self._sent.add(id)

    def _entered(self, agent: str, id: str) -> None:
        with self._lock:
            key = self._known.get(id)
            if key is not None:
                self._working[agent][key] = ""
        if key is not None:
            self.parts.schedules.delivered(*key)

    def _lacked(self, agent: str, why: str) -> None:
        with self._lock:
            for key in self._working.get(agent, ()):
                self._working[agent][key] = why

    def _moved(self, agent: str, state: str) -> None:
        """The end of an agent's turns is the end of the firings that it was working on."""
        if state not in ("idle", "failed", "stopped"):
            return
        with self._lock:
            for key, lacked in self._working.pop(agent, {}).items():
                self._over[key] = _End(agent, state, lacked)
        self._mark()

    def _mark(self) -> None:
        """Write how firings have ended."""
        for key in list(self._over):
            with self._lock:
                end = self._over.pop(key, None)
            if end is None:
                continue
            try:
                self._write(key, end)
            except TeamError:
                self._over[key] = end
                self._attention.hint()
                raise

    def _write(self, key: _Key, end: _End) -> None:
        schedules, failed = self.parts.schedules, end.state == "failed"
        # An agent that stops may have ended its turn before we listened to it.
        is_done = end.state == "idle" or (not failed and _has_ended(self._transcript(end.agent)))
        outage = None if is_done else self.parts.outage(end.agent)
        if is_done and not end.lacked:
            schedules.acknowledged(*key)
        elif outage is None or not schedules.postponed(*key, outage):
            why = self.parts.failure(end.agent) if failed else ""
            note = end.lacked or f"{end.agent} has {end.state}" + (f": {why}" if why else "")
            schedules.failed(*key, note, backs_off=failed or outage is not None)


def _has_ended(entries: list[dict[str, Any]]) -> bool:
    """Whether the conversation's last turn was ended by the model."""
    spoken = [e for e in entries if e["kind"] in ("user", "assistant") and e["blocks"]]
    if not spoken:
        return False
    last = spoken[-1]
    calls = any(block.get("type") == "tool_use" for block in last["blocks"])
    return last["kind"] == "assistant" and not calls
