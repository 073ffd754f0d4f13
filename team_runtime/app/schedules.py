"""Schedules in a run, put together: who decides about them, and what the run waits for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from team_runtime.daemons.cron import NAME, Cron, Surroundings
from team_runtime.daemons.schedule_store import Entry
from team_runtime.daemons.schedule_tools import Scheduling
from team_runtime.daemons.supervisor import Supervisor
from team_runtime.daemons.when import local_zone
from team_runtime.models.retry import is_outage
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team

if TYPE_CHECKING:
    from team_runtime.app.workspace import Workspace

AHEAD: Final = timedelta(hours=1)
"""How far ahead a run without a time limit waits for one-shots of its session."""


def scheduling_of(workspace: Workspace, team: Team) -> Scheduling:
    """What the lead's tools work with."""
    return Scheduling(
        workspace.schedules,
        workspace.store.clock,
        team.parts.session,
        local_zone(workspace.environ),
        team.roster.readers,
    )


def add_cron(
    workspace: Workspace, team: Team, supervisor: Supervisor, ends: datetime | None, waits: bool
) -> Cron:
    """Let the run fire the schedules of its session. `ends` is when its time limit is reached;
    `waits` says whether it waits for slots that are still to come."""
    clock, told = workspace.store.clock, set[str]()

    def is_open() -> bool:
        return LEAD in team.roster.readers() and not team.stopping.of_all

    def waits_for(entry: Entry) -> bool:
        schedule = entry.schedule
        if entry.next is None or not (entry.is_due(clock.now()) or (waits and comes(entry))):
            return False
        if schedule.id not in told:
            told.add(schedule.id)
            text = f"waiting for {schedule.id}, due {schedule.shown(entry.next)}"
            workspace.events.emit("notice", text=text)
        return True

    def outage(agent: str) -> str | None:
        """Its own, or that of the lead, which has ended the run for all."""
        errors = (team.roster.get(agent).error, team.roster.get(LEAD).error)
        return next((str(error) for error in errors if is_outage(error)), None)

    def failure(agent: str) -> str:
        return str(team.roster.get(agent).error or "")

    def comes(entry: Entry) -> bool:
        """Whether it is due before the run's end, or soon when there is none."""
        limit = ends or clock.now() + AHEAD
        return entry.is_due(limit) and (ends is not None or not entry.schedule.repeats)

    cron = Cron(
        Surroundings(
            session=team.parts.session,
            schedules=workspace.schedules,
            sessions=workspace.sessions,
            bus=team.parts.bus,
            clock=clock,
            emit=workspace.events.emit,
            readers=team.roster.readers,
            ready=team.ready.wait,
            is_open=is_open,
            waits_for=waits_for,
            outage=outage,
            failure=failure,
            on_quiet=lambda: team.roster.ring(LEAD),
        )
    )
    workspace.events.add(cron.on_event)
    team.awaited.append(cron.can_come)
    supervisor.add(NAME, cron.run, lambda: workspace.store.hold(NAME, {}))
    return cron
