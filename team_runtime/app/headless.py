"""Schedules with no terminal open: waits for slots, and wakes the session that each belongs to.

Firing itself is always done by a run, so a run that is going anyway is left to it, and whatever
dies between two steps is taken up like any other run.
"""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from team_runtime.app.hearing import Ear
from team_runtime.app.request import RunRequest
from team_runtime.app.rest import Rest, resting
from team_runtime.app.run import NOTIFY_SECONDS, run_team_in
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings
from team_runtime.daemons.attention import Attention, left_of_second
from team_runtime.daemons.schedule_store import Entry
from team_runtime.daemons.schedules import pause_ends
from team_runtime.errors import Held, InputError, TeamError, TeamRunning, WorkspaceGone
from team_runtime.events import Emit
from team_runtime.models.base import Model
from team_runtime.models.retry import is_outage
from team_runtime.notify.notifier import Notifier
from team_runtime.notify.sinks import make_sinks
from team_runtime.process.adoption import adopting
from team_runtime.process.run import BlockingRunner
from team_runtime.store.files import Store
from team_runtime.store.locks import Hold
from team_runtime.store.presence import hold_daemon
from team_runtime.team.interrupts import SIGNALS

MOST_FAULTS: Final = 300
"""So often in a row what goes wrong is tried again, once a second."""
SURE: Final = timedelta(minutes=5)
"""Between two looks at the schedules when every change in them is told."""
UNSURE: Final = timedelta(minutes=1)
"""The same otherwise; whether files came or went is then looked at every second."""


@dataclass(frozen=True)
class Serving:
    """What the daemon works with."""

    workspace: Workspace
    environ: Mapping[str, str]
    settings: Callable[[Mapping[str, Any]], Settings]
    """The settings of a run of a session, given by its record. Raises `InputError`."""
    session: str | None = None
    """The session that schedules without one wake; without it a new one for each firing."""
    on_event: Callable[[dict[str, Any]], None] = lambda event: None
    models: Mapping[str, Model] = field(default_factory=dict)
    """Models that the caller brings, as for a run."""
    on_answer: Callable[[str, str], None] = lambda session, text: None
    """Told the session of each run and what its lead said last."""
    on_fault: Callable[[TeamError], None] = lambda error: None
    """Told of the first of the faults in a row that are tried again."""


@dataclass
class Headless:
    """The daemon of one workspace. Its thread runs the teams that it wakes."""

    parts: Serving
    _is_ended: bool = False
    _attention: Attention = field(default_factory=lambda: Attention(UNSURE))
    _changed_at: int = 0
    _faults: int = 0
    """How often in a row a look at what is due went wrong."""
    _ring: Callable[[], None] = lambda: None
    """Ends the rest between two looks."""

    def serve(self, begun: Callable[[], None] = lambda: None) -> None:
        """Until `stop`, or a signal when this is the main thread. `begun` is called once it serves.

        Raises `DaemonRunning` when another process serves this workspace, `WorkspaceGone` when its
        folder was moved or removed, and what went wrong too often in a row.
        """
        clock = self._store.clock
        with (
            hold_daemon(self._store) as hold,
            adopting(),
            self._telling(),
            resting(clock) as rest,
            self._hearing(rest) as ear,
        ):
            self._listen(rest)
            begun()
            while not self._is_ended:
                self._look(hold, ear, rest)
                rung = rest.until(self._moment(ear, clock.now()))
                if rung and not (self._is_ended or self._attention.is_due(now := clock.now())):
                    time.sleep(left_of_second(now))  # many changes, one look

    @contextmanager
    def _hearing(self, rest: Rest) -> Iterator[Ear]:
        """What changes in the schedules ends the rest, and so does `stop`. That the workspace was
        moved or removed shows in the folder that it is in."""
        layout = self._store.layout

        def change() -> None:
            self._attention.hint()
            rest.ring()

        self._store.folder(layout.schedules)
        above = [layout.team, layout.workspace, layout.workspace.parent]
        ear, self._ring = Ear(layout.schedules, above, change), rest.ring
        try:
            with ear.open():
                yield ear
        finally:
            self._ring = lambda: None

    def _moment(self, ear: Ear, now: datetime) -> datetime:
        """When to look at the clock, or at whether something has changed."""
        self._attention.longest = SURE if ear.is_sure else UNSURE
        if ear.is_sure and not self._attention.is_needed(now):
            return self._attention.moment(now)
        return now + timedelta(seconds=left_of_second(now))

    def _look(self, hold: Hold, ear: Ear, rest: Rest) -> None:
        """Look at what is due. What goes wrong, as on a full disk, is tried again for a while."""
        try:
            if self._is_needed(ear):
                if not hold.is_in_place:
                    raise WorkspaceGone(str(self.parts.workspace.root))
                with ear.looking():
                    self.tick()
                self._listen(rest)
            self._faults = 0
        except WorkspaceGone:
            raise
        except TeamError as error:
            if self._faults == MOST_FAULTS:
                raise
            if self._faults == 0:
                self.parts.on_fault(error)
            self._faults += 1
            self._attention.hint()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell people who are elsewhere what fires; the runs that are woken tell the rest."""
        ways = self.parts.settings({}).notify
        sinks = make_sinks(ways, BlockingRunner(), self.parts.environ, lambda: None)
        notifier = Notifier(sinks, self._emit)
        self.parts.workspace.events.add(notifier.on_event)
        try:
            yield
        finally:
            notifier.close(NOTIFY_SECONDS)

    def stop(self) -> None:
        """End within a second after what is going on. Safe in a signal handler."""
        self._is_ended = True
        self._ring()

    def tick(self) -> None:
        """Wake the session of what is due the longest, if there is any and no team is running."""
        now = self._store.clock.now()
        self._attention.begin(now)
        found = self._due(now)
        if found is None:
            return
        self._attention.hint()  # it may not be the only one
        if self._is_busy():
            return
        entry = self._decided(found)
        if entry is not None and (session := self._session(entry)) is not None:
            self._wake(entry, session)

    @property
    def _store(self) -> Store:
        return self.parts.workspace.store

    @property
    def _emit(self) -> Emit:
        return self.parts.workspace.events.emit

    def _listen(self, rest: Rest) -> None:
        """Anew after each run, which has its own ear for signals and leaves none behind. The end of
        a terminal is no end of a daemon."""
        if threading.current_thread() is threading.main_thread():
            rest.hear_signals()
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, lambda *_: self.stop())

    def _is_needed(self, ear: Ear) -> bool:
        changed_at = self.parts.workspace.schedules.changed_at()
        if changed_at != self._changed_at:
            self._changed_at = changed_at
            ear.hear()
        return self._attention.is_needed(self._store.clock.now())

    def _due(self, now: datetime) -> Entry | None:
        """What an earlier process has left comes first. What is put off waits, and its own next
        slots with it."""
        entries = [e for e in self.parts.workspace.schedules.entries() if e.schedule.durable]
        left = [e for e in entries if e.history.open]
        fresh = [e for e in entries if not e.history.open]
        paused = {e.schedule.id: pause_ends(e.history) or now for e in left}
        self._attention.end([*paused.values(), *(e.due for e in fresh)])
        due = sorted((e for e in fresh if e.is_due(now)), key=lambda e: e.next or now)
        return next(iter([*(e for e in left if paused[e.schedule.id] <= now), *due]), None)

    def _is_busy(self) -> bool:
        """Whether a team is running, which then sees to its own schedules."""
        try:
            self._store.hold("team", {}).release()
        except Held:
            return True
        return False

    def _decided(self, entry: Entry) -> Entry | None:
        """The entry with what fires of it recorded; `None` when nothing does."""
        if entry.history.open:
            return entry
        schedules, id = self.parts.workspace.schedules, entry.schedule.id
        return schedules.get(id) if schedules.decide(id, self._store.clock.now()) else None

    def _session(self, entry: Entry) -> str | None:
        """The session to wake: the schedule's own, or that of its open firing, made where needed.
        `None` when it could not be made; the firing has failed then."""
        schedules, open_ = self.parts.workspace.schedules, entry.history.open
        session = entry.schedule.session or open_[0].session or self.parts.session
        try:
            session = session or self._new_session(entry)
        except TeamError as error:
            self._give_up(entry, str(error))
            return None
        for firing in open_:
            if firing.session is None:
                schedules.assign(entry.schedule.id, firing.slot, session)
        return session

    def _new_session(self, entry: Entry) -> str:
        settings = self.parts.settings({})
        record = {"team": settings.name, "model": settings.model, "prompt": ""}
        made = self.parts.workspace.sessions.create({**record, "schedule": entry.schedule.id})
        return str(made["id"])

    def _wake(self, entry: Entry, session: str) -> None:
        """Run the session until the firing is dealt with, whatever that comes to."""
        try:
            record = self.parts.workspace.sessions.load(session)
            result = run_team_in(
                RunRequest(
                    root=self.parts.workspace.root,
                    prompt="",
                    settings=self._unattended(record),
                    environ=self.parts.environ,
                    on_event=self.parts.on_event,
                    resume=session,
                    waits_for_schedules=False,
                    waits_for_reviews=False,
                    models=self.parts.models,
                )
            )
        except TeamRunning:
            return  # somebody was quicker: next time
        except Exception as error:
            if not isinstance(error, TeamError):
                self._emit(
                    "notice", text=f"a run that was woken broke off: {traceback.format_exc()}"
                )
            self._give_up(entry, str(error) or repr(error), session)
            return
        if result.ending.text and result.ending.error is None:
            self.parts.on_answer(session, result.ending.text)
        if result.signalled:
            self.stop()
        if result.ending.interrupted:
            return
        why = str(result.ending.error or "its run ended without it")
        if self._is_put_off(entry, why, is_outage(result.ending.error)):
            return
        self._give_up(entry, why, session)

    def _is_put_off(self, entry: Entry, why: str, is_outage: bool) -> bool:
        """Whether what could not reach its model is tried again later. The run writes that itself,
        also when it is a teammate's firing and the lead has ended well, unless its agent failed
        before the firing was taken up."""
        schedules, id = self.parts.workspace.schedules, entry.schedule.id
        try:
            history = schedules.get(id).history
        except InputError:  # removed meanwhile
            return True
        if not history.open:
            return True
        if history.failed_at != entry.history.failed_at:
            return is_outage or any(firing.note for firing in history.open)
        return is_outage and schedules.postponed(id, history.open[0].slot, why)

    def _unattended(self, record: Mapping[str, Any]) -> Settings:
        """Whatever is set for other runs, this one waits for nobody: others would wait for it."""
        return self.parts.settings(record).model_copy(update={"approvals": "refuse"})

    def _give_up(self, entry: Entry, why: str, session: str | None = None) -> None:
        """What was open before and the session's run did not deal with has failed, so that it is
        not tried for ever."""
        schedules, id = self.parts.workspace.schedules, entry.schedule.id
        slots = {firing.slot for firing in entry.history.open}
        with suppress(InputError):  # removed meanwhile
            for firing in schedules.get(id).history.open:
                if firing.slot in slots and firing.session in (None, session):
                    schedules.failed(id, firing.slot, why, backs_off=True)
