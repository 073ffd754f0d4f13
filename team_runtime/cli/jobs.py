"""`team jobs`: the agents' background commands, seen and ended from another process."""

from __future__ import annotations

import sys
import threading
from typing import Final

import click

from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.cli.output import put
from team_runtime.clock import iso
from team_runtime.daemons.job_records import Job, job_record, lost
from team_runtime.daemons.job_text import job_line
from team_runtime.store.presence import Runs
from team_runtime.store.spool import end_of_spool, next_kept, read_spool
from team_runtime.text import decode, for_terminal
from team_runtime.types import Liveness

_CHUNK: Final = 1 << 20
_LOOKS: Final = 200
_PAUSE: Final = 0.1
"""Seconds between two looks at a job that is being ended."""


@click.group("jobs")
def command() -> None:
    """The agents' background commands."""


@command.command("list")
@click.option("--running", is_flag=True, help="Only those that run.")
@shared_options
def list_(shared: Shared, running: bool) -> None:
    """List the jobs, oldest first."""
    jobs = [_now(shared, job) for job in shared.workspace.jobs.all()]
    jobs = [job for job in jobs if job.running or not running]
    lines = [for_terminal(job_line(job)) for job in jobs]
    shared.answer([job_record(job) for job in jobs], lines or ["No jobs."])


@command.command("output")
@click.argument("job_id", metavar="ID")
@click.option("--from", "start", type=click.IntRange(0), default=0, help="The first byte to show.")
@shared_options
def output(shared: Shared, job_id: str, start: int) -> None:
    """Print what job ID has written so far, byte for byte.

    On a terminal, control characters are not passed on. What was too much to keep is named on
    stderr.
    """
    jobs = shared.workspace.jobs
    job, folder = _now(shared, jobs.get(job_id)), jobs.output(job_id)
    end = end_of_spool(folder)
    if shared.as_json:
        data = b"".join(part.data for part in read_spool(folder, start, end))
        answer = {**job_record(job), "text": decode(data), "cursor": end}
        shared.answer(answer, [])
        return
    place = start
    while place < end:
        following = next_kept(folder, place)
        if following > place:
            shared.say(f"team: {following - place} bytes were not kept")
        parts = read_spool(folder, following, min(following + _CHUNK, end))
        for part in parts:
            put(for_terminal(decode(part.data)) if sys.stdout.isatty() else part.data, nl=False)
        place = parts[-1].end if parts else end


@command.command("kill")
@click.argument("job_id", metavar="ID")
@shared_options
def kill(shared: Shared, job_id: str) -> int:
    """End job ID with everything that it has started; its agent is told.

    The run that it belongs to does it, so nothing else can be hit by mistake.
    """
    only_a_person("end a job from outside of its run")
    jobs = shared.workspace.jobs
    job = _now(shared, jobs.get(job_id))
    if job.running:
        jobs.ask_to_kill(job_id)
        job = _ended(shared, job)
    if job.running:
        shared.say(f"team: {job_id} was asked to end and still runs; see team status")
    shared.answer(job_record(job), [for_terminal(job_line(job))])
    return 1 if job.running else 0


def _ended(shared: Shared, job: Job) -> Job:
    """The job once its run has ended it, or as it is after a while."""
    for _ in range(_LOOKS):
        job = _now(shared, shared.workspace.jobs.get(job.id))
        if not job.running:
            break
        threading.Event().wait(_PAUSE)
    return job


def _now(shared: Shared, job: Job) -> Job:
    """The job as it is: one whose run has died does not run, whatever its record says."""
    if not job.running:
        return job
    if Runs(shared.workspace.store).liveness(job.run) is not Liveness.DEAD:
        return job
    newest = shared.workspace.jobs.get(job.id)  # its run may have ended in this moment
    return lost(newest, iso(shared.workspace.store.clock.now())) if newest.running else newest
