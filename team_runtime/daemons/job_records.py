"""Background commands as they lie on disk: `.team/jobs/<id>.json`, with the output beside it.

A record is written before its program starts, and changed by the one run that the job belongs to;
other processes look, and leave requests.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import RecordBroken, UnknownJob, VersionTooNew
from team_runtime.store.files import Store
from team_runtime.store.records import Fields, decode_record, encode_record
from team_runtime.types import Json

VERSION: Final = 1
RUNNING: Final = "running"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
KILLED: Final = "killed"
LOST: Final = "lost"
"""Its run died, and the job with it: nobody knows how far it came."""
KEPT: Final = 100
"""How many jobs that have ended are kept, with their output."""
SLACK: Final = 20
"""How many more there may be while a run is going, so that not each end of a job costs a look."""
_ID: Final = re.compile(r"job_([1-9]\d{0,11})")


@dataclass(frozen=True)
class Job:
    """One background command."""

    id: str
    agent: str
    session: str
    run: str
    task: str | None
    worktree: str | None
    command: str
    directory: str
    started: str
    moved: bool = False
    """Whether it began in the foreground and took too long."""
    status: str = RUNNING
    ended: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    """The signal that ended it, when one did."""
    reason: str | None = None
    """Why it was ended, if it did not end by itself."""
    survivors: tuple[str, ...] = ()
    """What it had left running when it ended; this was ended too."""
    bytes: int = 0
    """What it wrote."""
    dropped: int = 0
    """Of this, what was not kept."""
    told: bool = False
    """Whether its end was sent to its agent."""
    read: Mapping[str, int] = field(default_factory=dict)
    """Up to where in the output each agent has read."""

    @property
    def running(self) -> bool:
        return self.status == RUNNING

    @property
    def code(self) -> str:
        """The exit code as a shell tells it; `unknown` when nobody knows."""
        if self.signal is not None:
            return str(128 + self.signal)
        return "unknown" if self.exit_code is None else str(self.exit_code)

    @property
    def message_id(self) -> str:
        """The id of the message about its end."""
        return f"m-{self.session}-{self.id}"


def job_record(job: Job) -> dict[str, Json]:
    """The job as JSON has it."""
    return {
        "v": VERSION,
        "id": job.id,
        "agent": job.agent,
        "session": job.session,
        "run": job.run,
        "task": job.task,
        "worktree": job.worktree,
        "command": job.command,
        "directory": job.directory,
        "started": job.started,
        "moved": job.moved,
        "status": job.status,
        "ended": job.ended,
        "exitCode": job.exit_code,
        "signal": job.signal,
        "reason": job.reason,
        "survivors": list(job.survivors),
        "output": f".team/jobs/{job.id}",
        "bytes": job.bytes,
        "dropped": job.dropped,
        "told": job.told,
        "read": dict(job.read),
    }


class JobStore:
    """The jobs of one workspace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._folder = store.layout.jobs
        self.requests = store.layout.job_requests
        """The folder of what other processes ask for."""

    def create(self, make: Callable[[str], Job]) -> Job:
        """A new job, made from its id, on disk with an empty folder for its output."""
        self._store.folder(self.requests)
        while True:
            job = make(f"job_{max(self._numbers(''), default=0) + 1}")
            try:
                self._store.publish(self._path(job.id), encode_record(job_record(job)))
            except FileExistsError:
                continue
            self._store.folder(self.output(job.id))
            return job

    def save(self, job: Job) -> None:
        """Write what has changed. Only the run of the job does that."""
        path = self._path(job.id)
        self._store.replace(path, self._store.read(path), encode_record(job_record(job)))

    def get(self, job_id: str) -> Job:
        """Raises `UnknownJob`, which lists the newest ones."""
        job = self._read(job_id) if _ID.fullmatch(job_id) else None
        if job is None:
            newest = ", ".join(f"job_{number}" for number in sorted(self._numbers())[-10:])
            raise UnknownJob(job_id, f"The newest: {newest}." if newest else "There are none.")
        return job

    def all(self) -> list[Job]:
        """All jobs, oldest first; one whose record is broken is set aside."""
        found = (self._read(f"job_{number}") for number in sorted(self._numbers()))
        return [job for job in found if job is not None]

    def output(self, job_id: str) -> Path:
        """The folder with its output."""
        return self._folder / job_id

    def discard(self, job: Job) -> None:
        """Forget a job, with its output."""
        self._store.remove(self._path(job.id), self.requests / job.id)
        shutil.rmtree(self.output(job.id), ignore_errors=True)

    def forget_oldest(self) -> None:
        """Forget the oldest jobs of whose end their agents know, once there are more than `SLACK`
        too many."""
        if len(self._numbers()) > KEPT + SLACK:
            for job in [job for job in self.all() if job.told][:-KEPT]:
                self.discard(job)

    def prune(self) -> None:
        """Forget the oldest jobs that have ended, so that no more than `KEPT` are left, and output
        of which there is no record any more. Only while no run of the workspace has jobs."""
        for job in [job for job in self.all() if not job.running][:-KEPT]:
            self.discard(job)
        for number in set(self._numbers("")) - set(self._numbers()):
            shutil.rmtree(self.output(f"job_{number}"), ignore_errors=True)

    def ask_to_kill(self, job_id: str) -> None:
        """Ask the run of a job to end it."""
        self._store.folder(self.requests)
        with contextlib.suppress(FileExistsError):
            self._store.publish(self.requests / job_id, b"kill\n")

    def to_kill(self) -> list[str]:
        """The jobs that other processes asked to have ended."""
        return [name for name in self._store.names(self.requests) if _ID.fullmatch(name)]

    def answered(self, job_id: str) -> None:
        """The request was done, or has no object any more."""
        self._store.remove(self.requests / job_id)

    def _numbers(self, suffix: str = ".json") -> list[int]:
        """The numbers of the jobs that have a record; with no suffix, of those with output too."""
        names = self._store.names(self._folder)
        found = (name.removesuffix(".json") for name in names if name.endswith(suffix))
        return [int(match[1]) for match in map(_ID.fullmatch, found) if match]

    def _path(self, job_id: str) -> Path:
        return self._folder / f"{job_id}.json"

    def _read(self, job_id: str) -> Job | None:
        path = self._path(job_id)
        try:
            data = self._store.read(path)
            return None if data is None else _decode(data, path)
        except RecordBroken as error:
            self._store.quarantine(path, error.cause)
        except VersionTooNew:
            pass  # of a newer version that runs here too: not ours to touch
        return None


def lost(job: Job, now: str) -> Job:
    """A job whose run died while it ran."""
    reason = "the runtime was killed, and the job with it"
    return replace(job, status=LOST, ended=now, reason=reason)


def _decode(data: bytes, path: Path) -> Job:
    fields = Fields(decode_record(data, path, VERSION), path)
    status = fields.text("status")
    if status not in (RUNNING, COMPLETED, FAILED, KILLED, LOST):
        raise fields.broken(f"{status!r} is no status")
    read = fields.mapping("read")
    if not all(type(value) is int for value in read.values()):
        raise fields.broken("`read` holds more than numbers")
    return Job(
        id=path.stem,
        agent=fields.text("agent"),
        session=fields.text("session"),
        run=fields.text("run"),
        task=fields.optional("task"),
        worktree=fields.optional("worktree"),
        command=fields.text("command"),
        directory=fields.text("directory"),
        started=fields.text("started"),
        moved=fields.flag("moved"),
        status=status,
        ended=fields.optional("ended"),
        exit_code=_number(fields, "exitCode"),
        signal=_number(fields, "signal"),
        reason=fields.optional("reason"),
        survivors=fields.texts("survivors"),
        bytes=fields.integer("bytes", 0),
        dropped=fields.integer("dropped", 0),
        told=fields.flag("told"),
        read=read,
    )


def _number(fields: Fields, key: str) -> int | None:
    return None if fields.record.get(key) is None else fields.integer(key)
