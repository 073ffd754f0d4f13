"""Whether the process behind a run is alive: told by the kernel, not by a timer.

Each run holds an exclusive lock on its presence file. The kernel releases it on any death, so a
slow model call never looks dead and a clock that jumps changes nothing.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from team_runtime.clock import iso
from team_runtime.errors import (
    DaemonRunning,
    Held,
    RecordBroken,
    StoreFailed,
    TeamRunning,
    VersionTooNew,
)
from team_runtime.store.files import Store
from team_runtime.store.locks import Hold, LifeLock, is_held, read_info
from team_runtime.store.records import decode_record, encode_record
from team_runtime.types import Json, Liveness

VERSION: Final = 1
_DAEMON: Final = "daemon"
_LOOKS: Final = 100
_LAST_LOOKS: Final = 1000
"""The same at one that ends, and tells people of it first."""
_DAEMON_LOOKS: Final = 5
_PAUSE: Final = 0.02
"""Seconds between two looks at who holds the team."""
_RUN: Final = re.compile(r"run-[0-9a-f]{16}")


class Runs:
    """The runs that a workspace knows."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def liveness(self, run: str) -> Liveness:
        """`ALIVE`, `DEAD`, or `UNKNOWN` for a run of another machine, another boot, or a copied
        workspace, whose lock says nothing here."""
        if not _RUN.fullmatch(run):
            return Liveness.UNKNOWN
        path = self._path(run)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return Liveness.DEAD
        except OSError:
            return Liveness.UNKNOWN
        try:
            return self._probe(path, descriptor)
        finally:
            os.close(descriptor)

    def known(self) -> list[dict[str, Json]]:
        """The records of all runs whose files are there, dead ones included, oldest first."""
        paths = self._store.layout.runs.glob("run-*.json")
        records = (self._record(path) for path in paths)
        return sorted((r for r in records if r is not None), key=lambda r: str(r.get("startedAt")))

    def forget(self, run: str) -> None:
        """Remove the file of a dead run, whose claims have been returned."""
        if self.liveness(run) is Liveness.DEAD:
            self._store.remove(self._path(run))

    def _path(self, run: str) -> Path:
        return self._store.layout.runs / f"{run}.json"

    def _record(self, path: Path) -> dict[str, Json] | None:
        try:
            data = self._store.read(path)
            return None if data is None else decode_record(data, path, VERSION)
        except (RecordBroken, VersionTooNew, StoreFailed):
            return None

    def _probe(self, path: Path, descriptor: int) -> Liveness:
        record = self._record(path)
        if record is None:
            return Liveness.UNKNOWN if path.exists() else Liveness.DEAD
        here = _place(descriptor)
        if {key: record.get(key) for key in here} != here:
            return Liveness.UNKNOWN
        try:
            # A shared probe: exclusive ones of two readers would take each other for the owner.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return Liveness.ALIVE
        return Liveness.DEAD


class RunPresence(Runs):
    """The presence of this process, from `start` to `end` or its death. A forked child has none."""

    def __init__(self, store: Store, run: str, lock: LifeLock) -> None:
        super().__init__(store)
        self.run = run
        self._lock = lock

    @classmethod
    def start(cls, store: Store, info: Mapping[str, Json]) -> RunPresence:
        """Begin a run. `info` says more about it to whoever lists the runs."""
        run = f"run-{store.entropy.token()}"
        store.folder(store.layout.runs)
        path = store.layout.runs / f"{run}.json"
        try:
            return cls(store, run, cls._locked_file(store, path, {**info, "run": run}))
        except OSError as error:
            raise StoreFailed(str(path), "written", error.strerror or str(error)) from error

    @staticmethod
    def _locked_file(store: Store, path: Path, info: Mapping[str, Json]) -> LifeLock:
        """Locked before it has its name: nobody ever sees the file of a live run unlocked."""
        temporary, descriptor = store.temporary(path.parent, fcntl.LOCK_EX)
        lock = LifeLock(descriptor)
        record = {
            **info,
            "v": VERSION,
            "pid": os.getpid(),
            "pidNamespace": pid_namespace("self"),
            "host": socket.gethostname(),
            "startedAt": iso(store.clock.now()),
            **_place(descriptor),
        }
        try:
            os.write(descriptor, encode_record(record))
        except OSError:
            lock.release()
            raise
        store.move(temporary, path)
        return lock

    def end(self) -> None:
        """The run is over. What it still holds counts as held by a dead run."""
        if self._lock.held:
            self._store.remove(self._path(self.run))
            self._lock.release()


def hold_team(store: Store, session: str | None = None) -> Hold:
    """The right to be the one team of the workspace, for as long as this process lives. A session
    that is not known yet is to be noted soon.

    One that has noted its `end` is waited for: whoever has heard of it may go on at once. Raises
    `TeamRunning`, which names the process and session that have it.
    """
    for look in range(_LAST_LOOKS):
        try:
            return store.hold("team", {"session": session} if session else {})
        except Held as error:
            held = error
        known = "session" in held.info and _lives(held.pid)
        if "end" not in held.info and (known or look >= _LOOKS):
            break
        threading.Event().wait(_PAUSE)  # it has only just begun, and says in a moment who it is
    other = str(held.info.get("session", "unknown"))
    raise TeamRunning(held.pid, other, str(store.layout.workspace)) from held


def hold_daemon(store: Store) -> Hold:
    """The right to be the daemon of the workspace, for as long as this process lives. Raises
    `DaemonRunning`, which names the process that has it."""
    for look in range(_DAEMON_LOOKS):
        if look:
            threading.Event().wait(_PAUSE)  # perhaps somebody only looked whether there is one
        try:
            return store.hold(_DAEMON, {})
        except Held as error:
            held = error
    raise DaemonRunning(held.pid, str(store.layout.workspace)) from held


def daemon_pid(store: Store) -> str | None:
    """The process that is the daemon of the workspace; `None` when there is none. The lock tells:
    the number that a dead one left may be another program's by now."""
    path = store.layout.locks / f"{_DAEMON}.lock"
    if not is_held(path):
        return None
    return str(read_info(path).get("pid", "unknown"))


def _lives(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _place(descriptor: int) -> dict[str, Json]:
    """What must be the same for a lock to be the one that its record speaks of."""
    state = os.fstat(descriptor)
    return {"boot": _boot(), "device": state.st_dev, "inode": state.st_ino}


def pid_namespace(pid: int | Literal["self"]) -> str | None:
    """The set of process ids that a process lives in; `None` when the system does not tell."""
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - no path, but a name
    except OSError:
        return None


def _boot() -> str:
    """One running kernel: its boot id, else the host's name, which may change while it runs."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return socket.gethostname()
