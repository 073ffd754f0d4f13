"""One run of a team on the event loop: the lead's thread, the time limit, the end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import anyio
from anyio import to_thread

from team_runtime.board.base import Claim
from team_runtime.errors import LimitReached, TeamError
from team_runtime.loop.agent import Agent
from team_runtime.team.catch_up import catch_up
from team_runtime.team.interrupts import Interrupts
from team_runtime.team.lead import Lead
from team_runtime.team.member import Spawn
from team_runtime.team.planning import PERSON
from team_runtime.team.team import Team
from team_runtime.team.teammate import live_in

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

    request: str
    """What the session is for; the lead is told once."""
    further: str = ""
    """What a resumed session is asked on top."""
    claims: Sequence[Claim] = ()
    """Claims that were carried over from an earlier run."""
    roster: Sequence[Spawn] = ()
    """Teammates of an earlier run."""


async def run_team(
    team: Team,
    start: Start,
    timeout: float | None,  # noqa: ASYNC109 - a limit of the run with an end of its own
    interrupts: Interrupts,
) -> Ending:
    """Let the lead work until nothing can wake it, then shut the teammates down."""
    async with anyio.create_task_group() as group:
        team.open(group)
        member, agent = team.add_lead()
        lead = Lead(team, member, agent)
        await to_thread.run_sync(_adopt, team, start.claims)
        restored = [team.restore(spawn) for spawn in start.roster]
        await to_thread.run_sync(_resume, team, start, agent, [each for _, each in restored])
        interrupts.attach(team)
        for each in restored:
            await team.begin(*each, live_in(team))
        team.ready.set()
        group.start_soon(_enforce_limits, team)
        if timeout is not None:
            group.start_soon(_watch_time, team, timeout)
        await team.host(lambda _member, _agent: lead.run(), member, agent)
        await team.stopping.end_teammates()
        group.cancel_scope.cancel()
    return Ending(lead.text, interrupts.seen > 0, lead.error or team.stopping.error)


def _adopt(team: Team, claims: Sequence[Claim]) -> None:
    """Give each agent its task back; one whose directory is gone gives it up, and says so."""
    for claim in claims:
        try:
            team.parts.assignments.adopt(claim)
        except TeamError as error:
            team.parts.board.release(claim, f"its directory cannot be used: {error}")
            team.parts.emit("notice", text=f"{claim.task_id} was given back: {error}")


def _resume(team: Team, start: Start, lead: Agent, teammates: Sequence[Agent]) -> None:
    """Let every conversation begin, or go on where it was cut off."""
    is_new = lead.conversation.is_new
    if is_new:
        lead.set_aside_old_mail(keep={PERSON})
    lead.go_on(start.request if is_new else "", start.further)
    for agent in teammates:
        agent.go_on()
    catch_up(team, {agent.name: agent for agent in (lead, *teammates)})


async def _watch_time(team: Team, seconds: float) -> None:
    await anyio.sleep(seconds)
    team.stopping.ask_all("the time limit was reached", LimitReached("time", f"{seconds:g} s"))


async def _enforce_limits(team: Team) -> None:
    """Once a limit is reached every turn may end within the grace, then all waits are ended."""
    await team.stopping.limit_reached.wait(math.inf)
    await anyio.sleep(min(LIMIT_GRACE, team.stopping.seconds))
    team.stopping.force_all()
