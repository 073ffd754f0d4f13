"""One run of a team on the event loop: the lead's thread, signals, the time limit, the end."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import to_thread
from anyio.abc import TaskStatus

from team_runtime.board.base import Claim
from team_runtime.errors import LimitReached, TeamError
from team_runtime.team.lead import Lead
from team_runtime.team.member import Spawn
from team_runtime.team.team import Team
from team_runtime.team.teammate import live_in

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LIMIT_GRACE: Final = 10.0
"""Seconds that turns may still take once a limit is reached."""
INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Ending:
    """How a run ended."""

    text: str
    """The lead's last report."""
    interrupted: bool = False
    error: TeamError | None = None


@dataclass(frozen=True)
class Start:
    """What a run begins with."""

    prompt: str
    """Empty when a resumed session just goes on."""
    claims: Sequence[Claim] = ()
    """Claims that were carried over from an earlier run."""
    roster: Sequence[Spawn] = ()
    """Teammates of an earlier run."""


async def run_team(
    team: Team,
    start: Start,
    timeout: float | None,  # noqa: ASYNC109 - a limit of the run with an end of its own
    signals: bool = True,
) -> Ending:
    """Let the lead work until nothing can wake it, then shut the teammates down."""
    interrupts = Interrupts(team)
    async with anyio.create_task_group() as group:
        team.open(group)
        member, agent = team.add_lead()
        lead = Lead(team, member, agent)
        await to_thread.run_sync(_adopt, team, start.claims)
        agent.go_on(start.prompt)
        for spawn in start.roster:
            await team.restore(spawn, live_in(team))
        if signals:
            await group.start(interrupts.watch)
        group.start_soon(_enforce_limits, team)
        if timeout is not None:
            group.start_soon(_watch_time, team, timeout)
        await team.host(lambda _member, _agent: lead.run(), member, agent)
        await team.shut_down()
        group.cancel_scope.cancel()
    return Ending(lead.text, interrupts.seen > 0, lead.error or team.stop_error)


def _adopt(team: Team, claims: Sequence[Claim]) -> None:
    """Give each agent its task back; one whose directory is gone gives it up, and says so."""
    for claim in claims:
        try:
            team.parts.assignments.adopt(claim)
        except TeamError as error:
            team.parts.board.release(claim, f"its directory cannot be used: {error}")
            team.parts.emit("notice", text=f"{claim.task_id} was given back: {error}")


class Interrupts:
    """What signals do: the first lets every turn end, the second ends all waits, the third leaves
    at once; recovery is then the same as after `kill -9`."""

    def __init__(self, team: Team) -> None:
        self._team = team
        self.seen = 0

    async def watch(self, *, task_status: TaskStatus[None]) -> None:
        """Receive signals until cancelled."""
        with anyio.open_signal_receiver(*SIGNALS) as received:
            task_status.started()
            async for _ in received:
                self.seen += 1
                if self.seen == 1:
                    self._team.stop("the run was interrupted")
                elif self.seen == 2:
                    for member in self._team.members():
                        self._team.force(member.name)
                else:
                    os._exit(INTERRUPTED)


async def _watch_time(team: Team, seconds: float) -> None:
    await anyio.sleep(seconds)
    team.stop("the time limit was reached", LimitReached("time", f"{seconds:g} s"))


async def _enforce_limits(team: Team) -> None:
    """Once a limit is reached every turn may end within the grace, then all waits are ended."""
    await team.limit_reached.wait(math.inf)
    await anyio.sleep(min(LIMIT_GRACE, team.parts.stop_seconds))
    for member in team.members():
        team.force(member.name)
