"""`list_jobs`, `job_output`, `kill_job`."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.crossing import Crossing
from team_runtime.daemons.job_text import job_line, new_output, next_output
from team_runtime.daemons.jobs import Jobs
from team_runtime.guard.base import Effect
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import NoInput, Strict

_LISTED: Final = 30
"""How many of the session's jobs are listed: all that run, and the newest of the others."""


class ListJobs:
    name: ClassVar[str] = "list_jobs"
    description: ClassVar[str] = "List the background commands of the team and how each ended."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = NoInput

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def run(self, input: NoInput, context: ToolContext) -> str:
        jobs = self._jobs.of_session()
        newest = {job.id for job in jobs[-_LISTED:]}
        shown = [job for job in jobs if job.running or job.id in newest]
        return "\n".join(map(job_line, shown)) or "No jobs yet."


class JobOutputInput(Strict):
    job_id: str
    cursor: int | None = Field(
        default=None, ge=0, description="read on from here; default: what you have not seen yet"
    )


class JobOutput:
    name: ClassVar[str] = "job_output"
    description: ClassVar[str] = (
        "Show what a job has written since you last looked, and where to read on. Do not poll: you "
        "are told when it ends."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = JobOutputInput

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def run(self, input: JobOutputInput, context: ToolContext) -> str:
        job = self._jobs.get(input.job_id)
        output = self._jobs.parts.store.output(job.id)
        if input.cursor is None:
            shown = new_output(output, job.read.get(context.agent, 0), job.running)
            self._jobs.note_read(job.id, context.agent, shown.cursor)
        else:
            shown = next_output(output, input.cursor, job.running)
        head = f"{job_line(job)}\ncursor={shown.cursor}"
        return f"{head}\n{shown.text}" if shown.text else f"{head}\n(no new output)"


class KillJobInput(Strict):
    job_id: str


class KillJob:
    name: ClassVar[str] = "kill_job"
    description: ClassVar[str] = "End one of your jobs, with everything that it has started."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = KillJobInput

    def __init__(self, jobs: Jobs, crossing: Crossing, may_end_all: bool) -> None:
        """`may_end_all` says whether the agent may end the jobs of others, as the lead may."""
        self._jobs = jobs
        self._crossing = crossing
        self._may_end_all = may_end_all

    def run(self, input: KillJobInput, context: ToolContext) -> str:
        job = self._jobs.get(input.job_id)
        if job.agent != context.agent and not self._may_end_all:
            raise ToolFailure(f"{job.id} belongs to {job.agent}, who may end it; it goes on.")
        if self._crossing.wait(self._jobs.kill, job.id, f"{context.agent} ended it"):
            return f"{job.id} was ended."
        return f"Nothing to end: {job_line(self._jobs.get(job.id))}"
