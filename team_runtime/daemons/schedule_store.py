"""Schedules and their histories in `.team/schedules`, for all processes of a workspace.

A slot is decided about under a lock and written before anything is sent, so that it fires at most
once, whichever processes look, and whatever their clocks do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from team_runtime.clock import iso
from team_runtime.daemons.schedule_codec import (
    VERSION,
    decode_history,
    decode_schedule,
    encode_history,
    encode_schedule,
)
from team_runtime.daemons.schedules import (
    ACKNOWLEDGED,
    DELIVERED,
    FAILED,
    LONGEST_JITTER,
    LONGEST_PROMPT,
    MISFIRES,
    SKIPPED,
    Firing,
    Firings,
    Schedule,
    decide,
    next_slot,
)
from team_runtime.errors import InputError, RecordBroken, VersionTooNew
from team_runtime.events import Emit, no_events
from team_runtime.store.files import Store
from team_runtime.store.layout import is_agent_name
from team_runtime.store.records import Fields, decode_record
from team_runtime.text import one_line
from team_runtime.types import Json

MOST: Final = 500
"""How many schedules a workspace may have."""
POSTPONEMENTS: Final = 20
"""How often in a row a firing is put off because no model could be reached: for about 15 hours."""
_LOCK: Final = "schedules"
_SCHEDULE: Final = ".json"
_HISTORY: Final = ".history.json"
_NAME: Final = re.compile(r"(cron_[0-9a-f]{8})\.json")
_ID: Final = re.compile(r"cron_[0-9a-f]{8}")


@dataclass(frozen=True)
class Entry:
    """A schedule with its history, as they are on disk."""

    schedule: Schedule
    history: Firings

    @cached_property
    def next(self) -> datetime | None:
        """The next slot that is not decided about."""
        return next_slot(self.schedule, self.history)

    @property
    def due(self) -> datetime | None:
        """When the next slot fires."""
        return None if self.next is None else self.next + self.schedule.delay

    def is_due(self, now: datetime) -> bool:
        return self.due is not None and self.due <= now

    def was_ahead(self, now: datetime) -> bool:
        """Whether slots after `now` are decided about, because a clock was ahead: it is silent
        until they have passed, so that none fires twice."""
        return self.history.cursor is not None and self.history.cursor > now

    @property
    def is_over(self) -> bool:
        """Whether it can do nothing any more."""
        return self.next is None and not self.history.open


class ScheduleStore:
    """The schedules of one workspace. Safe for threads and processes."""

    def __init__(self, store: Store, emit: Emit = no_events) -> None:
        self._store = store
        self._emit = emit
        self.folder = store.layout.schedules
        self._seen: dict[str, tuple[object, Entry | None]] = {}

    def changed_at(self) -> int:
        """When a file was added, replaced or removed last, in nanoseconds; 0 for never. An edit
        in place does not show."""
        return self._store.changed_at(self.folder)

    def add(self, draft: Schedule) -> Schedule:
        """Store a schedule with a new id; one that is over makes room where needed.

        Raises `InputError` for what can never fire, and when there are too many.
        """
        schedule = replace(draft, id=f"cron_{self._store.entropy.token()[:8]}")
        self._check(schedule)
        with self._store.lock(_LOCK):
            self._make_room()
            self._store.folder(self.folder)
            self._store.publish(self._files(schedule.id)[0], encode_schedule(schedule))
        self._emit("schedule_added", draft.created_by, schedule=schedule.id, when=schedule.when)
        return schedule

    def entries(self) -> list[Entry]:
        """All schedules that can be read, oldest first. What has not changed is not read again; a
        broken file is set aside with a notice, the others go on."""
        states = dict(self._store.states(self.folder))
        ids = [match[1] for match in map(_NAME.fullmatch, states) if match]
        known, seen = self._seen, dict[str, tuple[object, Entry | None]]()
        for id in ids:
            key = [_identity(states.get(f"{id}{end}")) for end in (_SCHEDULE, _HISTORY)]
            unchanged = id in known and known[id][0] == key
            seen[id] = known[id] if unchanged else (key, self._read(id))
        self._seen = seen
        found = [entry for _, entry in seen.values() if entry is not None]
        return sorted(found, key=lambda e: (e.schedule.created_at, e.schedule.id))

    def get(self, id: str) -> Entry:
        """One schedule. Raises `InputError`, which lists the ids."""
        entry = self._read(id) if _ID.fullmatch(id) else None
        if entry is None:
            known = ", ".join(e.schedule.id for e in self.entries() if not e.is_over) or "none"
            raise InputError(f"there is no schedule {one_line(id)!r}; schedules: {known}")
        return entry

    def remove(self, id: str) -> Schedule:
        """Forget a schedule, with what it has not delivered yet. Raises `InputError`."""
        with self._store.lock(_LOCK):
            schedule = self.get(id).schedule
            self._store.remove(*self._files(id))
        self._emit("schedule_removed", schedule=id)
        return schedule

    def decide(self, id: str, now: datetime) -> list[Firing]:
        """Decide about every slot up to `now`; returns those that fire, each recorded. For each
        slot one caller gets it, once."""
        with self._changing(id) as change:
            if change is None:
                return []
            entry, write = change
            history, fired = decide(entry.schedule, entry.history, now, self._now())
            if history is not entry.history:
                write(history)
        old = set(entry.history.firings)
        for firing in history.firings:
            if firing.state == SKIPPED and firing not in old:
                self._emit(
                    "schedule_skipped",
                    schedule=id,
                    last=entry.schedule.shown(firing.slot),
                    count=firing.count,
                    note=firing.note,
                )
        for firing in fired:
            self._emit(
                "schedule_fired",
                schedule=id,
                slot=entry.schedule.shown(firing.slot),
                session=firing.session,
                prompt=one_line(entry.schedule.prompt),
            )
        return fired

    def assign(self, id: str, slot: datetime, session: str) -> None:
        """Say which session a firing belongs to."""
        self._change(id, slot, session=session)

    def delivered(self, id: str, slot: datetime) -> None:
        """The firing is in its agent's conversation."""
        self._change(id, slot, state=DELIVERED, delivered_at=self._now())

    def acknowledged(self, id: str, slot: datetime) -> None:
        """The turn that contains the firing has ended: it was no failure."""
        self._end(id, slot, ACKNOWLEDGED, None, lambda history: replace(history, failures=0))

    def failed(self, id: str, slot: datetime, note: str, backs_off: bool) -> None:
        """The firing did not do what it was for; whether the next ones are to wait longer."""
        now = self._store.clock.now()

        def count(history: Firings) -> Firings:
            return replace(history, failures=history.failures + 1, failed_at=now)

        self._end(id, slot, FAILED, one_line(note, 500), count if backs_off else lambda h: h)

    def postponed(self, id: str, slot: datetime, note: str) -> bool:
        """The agent could not reach its model: the firing stays open and is gone on with later, in
        the same conversation. `False`, and nothing is changed, when that was tried long enough."""
        now = self._store.clock.now()
        failures = self.get(id).history.failures + 1 if self._read(id) else POSTPONEMENTS
        if failures >= POSTPONEMENTS:
            return False

        def count(history: Firings) -> Firings:
            return replace(history, failures=failures, failed_at=now)

        note = one_line(note, 500)
        if self._change(id, slot, count, note=note):
            text = f"{id} is tried again later: {note}"
            self._emit("notice", text=text)
        return True

    def _end(
        self,
        id: str,
        slot: datetime,
        state: str,
        note: str | None,
        also: Callable[[Firings], Firings],
    ) -> None:
        if entry := self._change(id, slot, also, state=state, note=note, ended_at=self._now()):
            shown = entry.schedule.shown(slot)
            self._emit("schedule_ended", schedule=id, slot=shown, state=state, note=note)

    def _change(
        self,
        id: str,
        slot: datetime,
        also: Callable[[Firings], Firings] = lambda history: history,
        **changes: Json,
    ) -> Entry | None:
        """Change one firing that is not over; `None` when there is none, else the schedule as it
        was. What is over stays as it is: others may have found that out meanwhile."""
        with self._changing(id) as change:
            if change is None:
                return None
            entry, write = change
            if not any(f.slot == slot for f in entry.history.open):
                return None
            write(also(entry.history.changed(slot, **changes)))
        return entry

    @contextmanager
    def _changing(self, id: str) -> Iterator[tuple[Entry, Callable[[Firings], None]] | None]:
        """A schedule as it is under the lock, and what writes its history; `None` when it is
        gone."""
        path = self._files(id)[1]
        with self._store.lock(_LOCK):
            entry = self._read(id)
            if entry is None:
                yield None
                return
            old = self._store.read(path)

            def write(history: Firings) -> None:
                if not self._store.replace(path, old, encode_history(history)):
                    raise RecordBroken(str(path), "somebody changed it at the same time")

            yield entry, write

    def _read(self, id: str) -> Entry | None:
        path, history_path = self._files(id)
        try:
            data = self._store.read(path)
            if data is None:
                return None
            schedule = decode_schedule(Fields(decode_record(data, path, VERSION), path), id)
            self._check(schedule)
            return Entry(schedule, self._history(history_path))
        except VersionTooNew as error:
            self._emit("notice", text=str(error))
        except RecordBroken as error:
            self._store.quarantine(path, error.cause)
        except InputError as error:
            self._store.quarantine(path, str(error))
        return None

    def _history(self, path: Path) -> Firings:
        """A broken history is set aside, and everything up to now counts as decided: better missed
        than twice."""
        try:
            data = self._store.read(path)
            if data is None:
                return Firings()
            return decode_history(Fields(decode_record(data, path, VERSION), path))
        except RecordBroken as error:
            self._store.quarantine(path, error.cause)
            history = Firings(cursor=self._store.clock.now())
            self._store.replace(path, None, encode_history(history))
            return history

    def _check(self, schedule: Schedule) -> None:
        if not schedule.prompt.strip():
            raise InputError("the prompt of a schedule is blank; nothing was scheduled")
        if len(schedule.prompt) > LONGEST_PROMPT:
            raise InputError(
                f"the prompt of a schedule has {len(schedule.prompt)} characters, and at most "
                f"{LONGEST_PROMPT} are given to an agent each time; put the rest in a file that it "
                "names. Nothing was scheduled"
            )
        if schedule.misfire not in MISFIRES:
            raise InputError(f"misfire is {schedule.misfire!r}; use one of {', '.join(MISFIRES)}")
        if not 0 <= schedule.jitter <= LONGEST_JITTER:
            raise InputError(f"jitter is {schedule.jitter}; use 0 to {LONGEST_JITTER} seconds")
        if not is_agent_name(schedule.to):
            raise InputError(f"{one_line(schedule.to)!r} can be no agent's name")
        if next_slot(schedule, Firings()) is None:
            raise InputError("it would expire before it fires for the first time")

    def _make_room(self) -> None:
        entries = self.entries()
        over = [entry.schedule.id for entry in entries if entry.is_over]
        for id in over[: max(0, len(entries) + 1 - MOST)]:
            self._store.remove(*self._files(id))
        if len(entries) - len(over) >= MOST:
            raise InputError(f"there are {MOST} schedules already; remove one first")

    def _files(self, id: str) -> tuple[Path, Path]:
        """The schedule's file and its history's."""
        return self.folder / f"{id}{_SCHEDULE}", self.folder / f"{id}{_HISTORY}"

    def _now(self) -> str:
        return iso(self._store.clock.now())


def _identity(state: os.stat_result | None) -> object:
    return None if state is None else (state.st_ino, state.st_mtime_ns, state.st_size)
