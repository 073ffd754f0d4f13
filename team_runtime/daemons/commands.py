"""The commands of one tool call: in the foreground, in the background, or moved from one to the
other while they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from team_runtime.clock import Clock, Entropy, iso
from team_runtime.crossing import Crossing
from team_runtime.daemons.job_records import Job
from team_runtime.daemons.jobs import END_SECONDS, Jobs
from team_runtime.errors import RefusedError, TeamError
from team_runtime.process.base import Command, Completed
from team_runtime.process.program import Program, marked
from team_runtime.tools.base import Moved, Place


@dataclass(frozen=True)
class AgentCommands:
    """Implements `Background` for an agent at a place."""

    jobs: Jobs
    agent: str
    place: Place
    crossing: Crossing
    confined: Callable[[Command], Command]
    closed: Callable[[], str | None]
    """Why the agent may run no command now (the plan gate), or `None`."""
    clock: Clock
    entropy: Entropy

    def run(self, text: str, command: Command) -> Completed | Moved:
        mark = self.entropy.token()
        ready = self.confined(marked(command, mark))
        program = self.crossing.wait(self._attended, ready, mark)
        if program.over.is_set():
            return program.completed()
        try:
            return self._moved(text, program)
        except TeamError as error:  # the gate, too many jobs, or a full disk: it had its time
            self.crossing.finish(END_SECONDS, program.end)
            ended = program.completed(timed_out=True)
            return replace(ended, stdout=ended.stdout + f"\n({error})\n".encode())
        except BaseException:
            self.crossing.finish(END_SECONDS, program.end)
            raise

    def start(self, text: str, command: Command, seconds: float | None) -> str:
        mark = self.entropy.token()
        job = self.jobs.begin(self._draft(text, moved=False))
        try:
            ready = self.confined(marked(command, mark))
            self.crossing.wait(self.jobs.launch, job, ready, mark, seconds)
        except BaseException:
            self.jobs.discard(job)
            raise
        return job.id

    async def _attended(self, command: Command, mark: str) -> Program:
        """A program that has ended, or has had its time."""
        program = await self.jobs.start(command, mark)
        try:
            with anyio.move_on_after(command.timeout):
                await program.over.wait()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await program.end()
            raise
        return program

    def _moved(self, text: str, program: Program) -> Completed | Moved:
        closed = self.closed()
        if closed is not None:
            raise RefusedError(f"it does not go on in the background: {closed}")
        job = self.jobs.begin(self._draft(text, moved=True))
        try:
            so_far = self.crossing.wait(self.jobs.adopt, job, program)
        except BaseException:
            self.jobs.discard(job)
            raise
        if so_far is None:
            self.jobs.discard(job)
            return program.completed()
        self.jobs.note_read(job.id, self.agent, so_far.size)
        return Moved(job.id, so_far.output)

    def _draft(self, text: str, moved: bool) -> Callable[[str], Job]:
        return lambda job_id: Job(
            id=job_id,
            agent=self.agent,
            session=self.jobs.parts.session,
            run=self.jobs.parts.run,
            task=self.place.task_id,
            worktree=self.place.worktree,
            command=text,
            directory=str(self.place.root),
            started=iso(self.clock.now()),
            moved=moved,
        )
