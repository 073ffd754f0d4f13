"""Background commands without a team: one agent's jobs on a loop of their own."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio
from anyio import from_thread, to_thread
from anyio.abc import TaskStatus

from team_runtime.bus.memory import MemoryBus
from team_runtime.bus.message import Message
from team_runtime.crossing import Crossing
from team_runtime.daemons.commands import AgentCommands
from team_runtime.daemons.job_parts import JobLimits, JobParts
from team_runtime.daemons.job_records import Job, JobStore
from team_runtime.daemons.jobs import Jobs
from team_runtime.process.base import Command, Completed
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.orphans import MARK, left_by
from team_runtime.process.sandbox import Confinement, Sandbox
from team_runtime.process.usage import User
from team_runtime.store.spool import end_of_spool, joined, read_spool
from team_runtime.tools.base import Moved, Place
from tests.support.state import Events, make_store

T = TypeVar("T")
PATH = os.environ["PATH"]


@dataclass
class Yard:
    """The jobs of an agent called ann, who works in a folder."""

    folder: Path
    sandbox: Sandbox
    limits: JobLimits
    run_id: str
    events: Events = field(default_factory=Events)
    bus: MemoryBus = field(default_factory=MemoryBus.open)

    def __post_init__(self) -> None:
        self.place = self.folder / "place"
        self.place.mkdir(parents=True)
        self.store = JobStore(make_store(self.folder))
        self._changed = threading.Condition()
        for name in ("lead", "ann"):
            self.bus.register(name)

    def attach(self, portal: from_thread.BlockingPortal) -> None:
        self._portal = portal
        self._enough = anyio.Event()
        self._over, _ = portal.start_task(self._host)

    async def _host(self, *, task_status: TaskStatus[None]) -> None:
        store = make_store(self.folder)
        self.jobs = Jobs(
            JobParts(
                store=self.store,
                bus=self.bus,
                clock=store.clock,
                emit=self.events,
                session="s-1",
                run=self.run_id,
                lead="lead",
                is_ending=lambda: False,
                wake=self._notify,
                limits=self.limits,
                contained=isinstance(self.sandbox, Bubblewrap),
            )
        )
        policy = Confinement(writable=(self.place,), hidden=(self.folder / ".team",))
        self.commands = AgentCommands(
            self.jobs,
            "ann",
            Place(self.place),
            Crossing(),
            lambda command: self.sandbox.confine(command, policy),
            lambda: None,
            store.clock,
            store.entropy,
        )
        async with anyio.create_task_group() as group:
            self.jobs.open(group)
            group.start_soon(self.jobs.answer_requests)
            task_status.started()
            await self._enough.wait()
            await self.jobs.shut_down("the run has ended")
            group.cancel_scope.cancel()

    def close(self) -> None:
        """End the run."""
        self._portal.call(self._enough.set)
        self._over.result()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def on_thread(self, call: Callable[[], T]) -> T:
        """The result of a call that an agent's thread makes."""
        return self._portal.call(to_thread.run_sync, call)

    def start(self, script: str, seconds: float | None = None) -> str:
        """Start a job, and return its id."""
        return self.on_thread(lambda: self.commands.start(script, self._command(script), seconds))

    def foreground(self, script: str, seconds: float) -> Completed | Moved:
        """Run a command that may take so long before it is moved."""
        return self.on_thread(lambda: self.commands.run(script, self._command(script, seconds)))

    def _command(self, script: str, seconds: float = 60) -> Command:
        env = {"PATH": PATH, "LC_ALL": "C", "HOME": str(self.place), MARK: self.run_id}
        return Command(["bash", "-c", "--", script], self.place, env, seconds, merge=True)

    def kill(self, job_id: str, reason: str) -> bool:
        """End a job, on an agent's thread; whether it still ran."""
        return self.commands.crossing.wait(self.jobs.kill, job_id, reason)

    def shut_down(self) -> None:
        """End all jobs, on an agent's thread."""
        self.commands.crossing.wait(self.jobs.shut_down, "the run has ended")

    def ended(self, job_id: str) -> Job:
        """The job, once it has ended."""
        with self._changed:
            assert self._changed.wait_for(lambda: not self._runs(job_id), timeout=30)
        return self.store.get(job_id)

    def _runs(self, job_id: str) -> bool:
        ended = [told["job"] for kind, _, told in self.events.seen if kind == "job_ended"]
        return job_id not in ended

    def run(self, script: str, seconds: float | None = None) -> Job:
        """A job that has ended."""
        return self.ended(self.start(script, seconds))

    def output(self, job: Job) -> bytes:
        """What was kept of a job's output, with `[n]` where n bytes are missing."""
        folder = self.store.output(job.id)
        end = end_of_spool(folder)
        return joined(read_spool(folder, 0, end), 0, end, lambda n: b"[%d]" % n)

    def messages(self) -> list[Message]:
        """What ann was told."""
        return self.bus.unread("ann")

    def survivors(self) -> list[User]:
        """What still runs of all that was started here."""
        return left_by([self.run_id])


@contextmanager
def opened(folder: Path, sandbox: Sandbox, limits: JobLimits | None = None) -> Iterator[Yard]:
    """A yard, until its run ends."""
    with from_thread.start_blocking_portal() as portal:
        yard = Yard(folder, sandbox, limits or JobLimits(), f"run-{os.urandom(8).hex()}")
        yard.attach(portal)
        try:
            yield yard
        finally:
            yard.close()
