"""The background commands of a run, joined to its team."""

from __future__ import annotations

from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings
from team_runtime.daemons.job_parts import JobLimits, JobParts
from team_runtime.daemons.jobs import Jobs
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.sandbox import Sandbox
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team


def job_limits(settings: Settings) -> JobLimits:
    """The limits that a person has set."""
    return JobLimits(
        per_agent=settings.jobs_per_agent,
        per_team=settings.jobs_per_team,
        seconds=settings.job_seconds,
        output_bytes=settings.job_output_bytes,
    )


def attach_jobs(workspace: Workspace, team: Team, limits: JobLimits, sandbox: Sandbox) -> Jobs:
    """Jobs for this team: it waits for them, and tells them who has gone and what ends."""
    jobs = Jobs(
        JobParts(
            store=workspace.jobs,
            bus=team.parts.bus,
            clock=workspace.store.clock,
            emit=workspace.events.emit,
            session=team.parts.session,
            run=team.parts.run,
            lead=LEAD,
            is_ending=lambda: team.stopping.of_all,
            wake=team.roster.ring_all,
            limits=limits,
            clean=workspace.redactor.data,
            contained=isinstance(sandbox, Bubblewrap),
        )
    )
    team.awaited.append(jobs.is_awaited)
    team.waits = jobs.can_wake
    team.resuming.append(jobs.telling.catch_up)
    team.parts.assignments.occupants = jobs
    workspace.events.add(jobs.telling.on_event)
    return jobs
