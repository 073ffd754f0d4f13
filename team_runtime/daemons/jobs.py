"""The background commands of a run: started for agents, watched, ended with the run.

Each has a record on disk before it starts, and one message to its agent when it has ended. The
record says whether that was sent, and the message's id follows from the job, so that a process that
dies in between neither loses nor repeats it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskGroup

from team_runtime.clock import iso
from team_runtime.crossing import Bell, Crossing
from team_runtime.daemons.job_parts import JobParts
from team_runtime.daemons.job_records import COMPLETED, FAILED, KILLED, Job
from team_runtime.daemons.job_telling import JobTelling
from team_runtime.errors import JobRefused, TeamError
from team_runtime.process.base import Command
from team_runtime.process.program import Program
from team_runtime.store.spool import Spool, kept_in

POLL_SECONDS: Final = 3600.0
"""The last resort under hints that another process has asked for something."""
END_SECONDS: Final = 30.0
"""How long an agent waits for jobs that it has ended."""


@dataclass(frozen=True)
class SoFar:
    """What a program had written when it became a job."""

    output: bytes
    size: int


@dataclass
class _Running:
    job: Job
    began: float
    program: Program | None = None
    spool: Spool | None = None
    reason: str | None = None
    asked_about: bool = False
    begun: anyio.Event = field(default_factory=anyio.Event)
    """Set when its program is there, or will never be."""
    over: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has ended and its agent was told."""


class Jobs:
    """The jobs of one run. Methods are called from agents' threads, coroutines on the loop."""

    def __init__(self, parts: JobParts) -> None:
        self.parts = parts
        self._lock = threading.RLock()
        self._running: dict[str, _Running] = {}
        self.telling = JobTelling(parts, self._lock, self._save)
        self._closing: str | None = None
        self._group: TaskGroup | None = None
        self._crossing = Crossing()
        self._requests: Bell | None = None

    # The run

    def open(self, group: TaskGroup) -> None:
        """Jobs live in `group`."""
        self._group = group
        self._requests = Bell()

    async def shut_down(self, reason: str) -> None:
        """Start no more, end all that run, and wait until that is recorded."""
        self._closing = reason
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as group:
                for running in self._live():
                    group.start_soon(self._end, running, reason)

    def can_wake(self, agent: str) -> bool:
        """Whether a message about a job of this agent is still to come."""
        return any(running.job.agent == agent for running in self._untold())

    def is_awaited(self) -> bool:
        """Whether a job runs that the run has to wait for, now that nothing else is left. The lead
        is asked once about one that takes long: it may be meant to go on for ever."""
        with self._lock:
            untold = self._untold()
            begun_before = self.parts.clock.monotonic() - self.parts.limits.long_seconds
            long = [each for each in untold if not each.asked_about and each.began <= begun_before]
            for each in long:
                each.asked_about = True
        if long:
            self.telling.ask_about(each.job for each in long)
        return bool(untold)

    def _untold(self) -> list[_Running]:
        """What runs, and what has ended without its agent having been told yet."""
        with self._lock:
            return list(self._running.values())

    def on_folder(self, folder: Path) -> None:
        """A hint that another process may have asked for something. From any thread."""
        if folder == self.parts.store.requests and self._requests is not None:
            self._requests.ring()

    # What runs

    def running(self, agent: str | None = None, task: str | None = None) -> list[Job]:
        """The jobs that run, oldest first, of one agent or for one task when it is given. One whose
        agent has been told of its end is never among them: it may act upon that at once."""
        jobs = [each.job for each in self._untold() if each.job.running]
        return [j for j in jobs if agent in (None, j.agent) and task in (None, j.task)]

    def names(self, task_id: str) -> list[str]:
        """The ids of the jobs that run for a task."""
        return [job.id for job in self.running(task=task_id)]

    def get(self, job_id: str) -> Job:
        """A job of any session. Raises `UnknownJob`."""
        return self.parts.store.get(job_id)

    def of_session(self) -> list[Job]:
        """The jobs of this session, oldest first."""
        return [j for j in self.parts.store.all() if j.session == self.parts.session]

    def note_read(self, job_id: str, agent: str, place: int) -> None:
        """Remember up to where in a job's output an agent has read."""
        with self._lock:
            job = self.get(job_id)
            if job.read.get(agent) != place:
                self._save(replace(job, read={**job.read, agent: place}))

    # Starting

    def begin(self, draft: Callable[[str], Job]) -> Job:
        """A record for a job that starts now. Raises `JobRefused` when there are too many."""
        with self._lock:
            job = self.parts.store.create(lambda job_id: self._counted(draft(job_id)))
            self._running[job.id] = _Running(job, self.parts.clock.monotonic())
            return job

    def _counted(self, job: Job) -> Job:
        limits = self.parts.limits
        if self._closing is not None:
            raise JobRefused(self._closing)
        if len(self.running(agent=job.agent)) >= limits.per_agent:
            raise JobRefused(f"{job.agent} already has {limits.per_agent} that run; end one first")
        if len(self.running()) >= limits.per_team:
            raise JobRefused(f"{limits.per_team} of the team already run; end one first")
        return job

    def discard(self, job: Job) -> None:
        """The job that was begun could not be started, or had ended before it was one."""
        with self._lock:
            running = self._running.get(job.id)
            if running is not None and running.program is not None:
                return  # it runs, although something else went wrong: it ends like any other
            self._running.pop(job.id, None)
        if running is not None:
            self._crossing.finish(END_SECONDS, _set, running.begun)
        self.parts.store.discard(job)
        self.parts.wake()

    async def start(self, command: Command, mark: str) -> Program:
        """A program that is ended with the run. Raises `ProgramMissing`."""
        assert self._group is not None
        if self._closing is not None:
            raise JobRefused(self._closing)
        return await Program.start(command, mark, self._group)

    async def launch(self, job: Job, command: Command, mark: str, seconds: float | None) -> None:
        """Start the program of a job. Raises `ProgramMissing`, `JobRefused`."""
        with anyio.CancelScope(shield=True):
            program = await self.start(command, mark)
            self._watch(job, program, seconds)

    async def adopt(self, job: Job, program: Program) -> SoFar | None:
        """Make a program that runs already the job's. Returns its output so far, or `None` when
        it has just ended."""
        if program.over.is_set():
            return None
        output = program.so_far()
        return SoFar(output, self._watch(job, program, None).size)

    def _watch(self, job: Job, program: Program, seconds: float | None) -> Spool:
        assert self._group is not None
        running = self._running[job.id]
        output, limits = self.parts.store.output(job.id), self.parts.limits
        spool = Spool(output, limits.output_bytes, self.parts.clean)
        program.divert(spool)
        running.program, running.spool = program, spool
        running.begun.set()
        self._group.start_soon(self._see_to_its_end, running, seconds or limits.seconds)
        told = {"command": job.command, "task": job.task, "moved": job.moved}
        self.parts.emit("job_started", job.agent, job=job.id, **told)
        return spool

    # Ending

    async def kill(self, job_id: str, reason: str) -> bool:
        """End a job and wait until it is recorded; whether it still ran. One that is listed and
        whose program is just being started is waited for."""
        running = self._running.get(job_id)
        if running is None:
            return False
        await running.begun.wait()
        if running.program is None:
            return False
        await self._end(running, reason)
        return running.job.status == KILLED

    def end(self, task_id: str, reason: str, agent: str | None = None) -> None:
        """End the jobs of a task, or those of one agent for it, and wait until nothing of them
        runs. From agents' threads."""
        ids = {job.id for job in self.running(agent, task_id)}
        if ids:
            self._crossing.finish(END_SECONDS, self._end_all, ids, reason)

    async def _end_all(self, ids: set[str], reason: str) -> None:
        async with anyio.create_task_group() as group:
            for running in self._live():
                if running.job.id in ids:
                    group.start_soon(self._end, running, reason)

    def _live(self) -> list[_Running]:
        # Without the lock, which others hold while they wait for the disk: this is the loop.
        return [each for each in list(self._running.values()) if each.program is not None]

    async def _end(self, running: _Running, reason: str) -> None:
        assert running.program is not None
        if not running.program.over.is_set():
            running.reason = running.reason or reason
        await running.program.end()
        await running.over.wait()

    async def _see_to_its_end(self, running: _Running, seconds: float | None) -> None:
        """Until the program has ended, which it does in any case when the run is cancelled."""
        program, spool = running.program, running.spool
        assert program is not None
        assert spool is not None
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(seconds):
                with anyio.move_on_after(self.parts.limits.long_seconds):
                    await program.over.wait()
                self.parts.wake()
                await program.over.wait()
            if not program.over.is_set():
                running.reason = running.reason or f"it took longer than {seconds:g} seconds"
                await program.end()
            spool.close()
            await to_thread.run_sync(self._settle, running, limiter=anyio.CapacityLimiter(1))
            running.over.set()
            self.parts.wake()

    def _settle(self, running: _Running) -> None:
        """Record the end, then tell the agent, then count it as over: in this order."""
        problem: TeamError | None = None
        try:
            with self._lock:
                running.job = self._ended(running)
                self._save(running.job)
            self.telling.tell(running.job)
        except TeamError as error:
            problem = error
        finally:
            with self._lock:
                self._running.pop(running.job.id, None)
        # A log that cannot be written either must not end the run.
        with contextlib.suppress(TeamError):
            seconds = self.parts.clock.monotonic() - running.began
            self.telling.announce(running.job, seconds, problem)
            with self._lock:
                self.parts.store.forget_oldest()

    def _ended(self, running: _Running) -> Job:
        program, spool, job = running.program, running.spool, running.job
        assert program is not None
        assert spool is not None
        reason = running.reason or program.fault or None
        status = KILLED if reason else COMPLETED if program.status == 0 else FAILED
        by_itself = reason is None and not self.parts.contained
        survivors = tuple(map(str, program.survivors)) if by_itself else ()
        return replace(
            job,
            status=status,
            ended=iso(self.parts.clock.now()),
            exit_code=program.status if program.status >= 0 else None,
            signal=-program.status if program.status < 0 else None,
            reason=reason,
            survivors=survivors,
            bytes=spool.size,
            dropped=spool.size - kept_in(self.parts.store.output(job.id)),
            read=self._read_so_far(job),
        )

    def _read_so_far(self, job: Job) -> dict[str, int]:
        try:
            return dict(self.get(job.id).read)
        except TeamError:  # somebody deleted the record: it is written anew
            return dict(job.read)

    def _save(self, job: Job) -> None:
        self.parts.store.save(job)
        running = self._running.get(job.id)
        if running is not None:
            running.job = job

    async def answer_requests(self) -> None:
        """End the jobs that a person asked to have ended, from another process, for ever. What is
        asked of a job that has ended, or of another run's, has no object any more."""
        assert self._requests is not None
        limiter = anyio.CapacityLimiter(1)
        while True:
            for job_id in await to_thread.run_sync(self.parts.store.to_kill, limiter=limiter):
                with anyio.CancelScope(shield=True):  # the run may end with what is told of it
                    await self.kill(job_id, "a person ended it")
                    await to_thread.run_sync(self.parts.store.answered, job_id, limiter=limiter)
            await self._requests.wait(POLL_SECONDS)


async def _set(event: anyio.Event) -> None:
    event.set()
