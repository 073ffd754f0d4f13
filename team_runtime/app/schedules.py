"""Schedules in a run, put together: who decides about them, and what the run waits for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from team_runtime.app.workspace import Workspace
from team_runtime.daemons.cron import NAME, Cron, Surroundings
from team_runtime.daemons.schedule_store import Entry
from team_runtime.daemons.schedule_tools import Scheduling
from team_runtime.daemons.supervisor import Supervisor
from team_runtime.daemons.when import local_zone
from team_runtime.team.team import Team

AHEAD: Final = timedelta(hours=1)
"""How far ahead a run without a time limit waits for one-shots of its session."""


def scheduling_of(workspace: Workspace, team: Team) -> Scheduling:
    """What the lead's tools work with."""
    return Scheduling(
        workspace.schedules,
        workspace.store.clock,
        team.parts.session,
        local_zone(workspace.environ),
        team.names,
    )


def add_cron(
    workspace: Workspace, team: Team, supervisor: Supervisor, ends: datetime | None, waits: bool
) -> None:
    """Let the run fire the schedules of its session. `ends` is when its time limit is reached;
    `waits` says whether it waits for slots that are still to come."""
    clock = workspace.store.clock

    def waits_for(entry: Entry) -> bool:
        if not waits or entry.next is None:
            return False
        due = entry.next + entry.schedule.delay
        if ends is not None:
            return due < ends
        return not entry.schedule.repeats and due <= clock.now() + AHEAD

    cron = Cron(
        Surroundings(
            session=team.parts.session,
            schedules=workspace.schedules,
            sessions=workspace.sessions,
            bus=workspace.bus,
            clock=clock,
            emit=workspace.events.emit,
            readers=team.names,
            ready=team.ready.wait,
            waits_for=waits_for,
        )
    )
    workspace.events.add(cron.on_event)
    team.awaited.append(cron.can_come)
    supervisor.add(NAME, cron.run, lambda: workspace.store.hold(NAME, {}))
