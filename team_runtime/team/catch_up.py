"""What a resumed team does first: say what a killed run had decided to say, and had not.

A process can die between a change on disk and the message about it. The id of each such message
follows from the change, so the conversations show whether it was sent, once they hold all mail.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from team_runtime.loop.agent import Agent
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team, assignment_id
from team_runtime.team.teammate import report, report_id


def catch_up(team: Team, agents: Mapping[str, Agent]) -> None:
    """Send each missing message. All of `agents` have taken in their mail, and none has started."""
    lead_has = agents[LEAD].conversation.delivered
    for name, agent in agents.items():
        if name == LEAD:
            continue
        _assign_again(team, agent)
        plan = team.parts.planning.of(name, *team.parts.assignments.plan_key(name))
        has = agent.conversation.delivered
        if plan is not None and team.parts.planning.tell_again(plan, lead_has, has):
            continue
        if _has_ended_its_turn(team, agent) and report_id(team, agent) not in lead_has:
            report(team, agent, agent.conversation.said)
    for tell in team.resuming:
        tell({name: agent.conversation.delivered for name, agent in agents.items()})


def _assign_again(team: Team, agent: Agent) -> None:
    """Unless it knows of the task from an earlier claim, which only an end of a run has ended."""
    held = team.parts.assignments.of(agent.name)
    if held is None:
        return
    own = takewhile(lambda attempt: attempt.owner == agent.name, reversed(held.task.attempts))
    ids = [assignment_id(held.task.id, attempt.epoch) for attempt in own]
    if agent.conversation.delivered.isdisjoint(ids):
        team.assign(agent.name, "runtime")


def _has_ended_its_turn(team: Team, agent: Agent) -> bool:
    conversation = agent.conversation
    if conversation.unanswered or conversation.replies == 0:
        return False
    return not team.parts.assignments.waits_for_plan(agent.name)
