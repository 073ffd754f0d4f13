"""`team plans`: plan review by a person."""

from __future__ import annotations

from typing import Any

import click

from team_runtime.app.workspace import Workspace
from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.plans.model import Plan, Revision, plan_record
from team_runtime.team.planning import PERSON
from team_runtime.text import for_terminal


@click.group("plans")
def command() -> None:
    """Plans that agents submitted, and your decisions on them."""


def _line(plan: Plan) -> str:
    last = plan.revisions[-1]
    return f"{plan.id:<9} {last.state:<11} revision {last.number}  {plan.agent}  {plan.task or '–'}"


@command.command("list")
@shared_options
def list_(shared: Shared) -> None:
    """List the plans and how far they are."""
    plans = shared.workspace.plans.list()
    shared.answer([plan_record(plan) for plan in plans], [_line(p) for p in plans] or ["No plans."])


@command.command("show")
@click.argument("plan_id")
@shared_options
def show(shared: Shared, plan_id: str) -> None:
    """Show each revision and its review."""
    plan = shared.workspace.plans.get(plan_id)
    lines = [_line(plan)]
    for revision in plan.revisions:
        lines += ["", f"revision {revision.number} [{revision.state}] {revision.submitted_at}"]
        lines += [f"  {line}" for line in for_terminal(revision.shown).splitlines()]
        if revision.decided_by:
            lines.append(
                f"  {revision.state} by {revision.decided_by}: {for_terminal(revision.feedback)}"
            )
    shared.answer(plan_record(plan), lines)


def _decide(shared: Shared, plan_id: str, number: int, approve: bool, feedback: str) -> None:
    only_a_person("review a plan")
    workspace = shared.workspace
    revision = workspace.planning().decide_as_person(plan_id, number, approve, feedback, PERSON)
    shared.answer(_record(workspace, plan_id), [_sentence(plan_id, revision)])


def _record(workspace: Workspace, plan_id: str) -> dict[str, Any]:
    return plan_record(workspace.plans.get(plan_id))


def _sentence(plan_id: str, revision: Revision) -> str:
    return f"{plan_id} revision {revision.number} is {revision.state}; its author was told."


@command.command("approve")
@click.argument("plan_id")
@click.option(
    "--revision", "number", type=int, metavar="N", required=True, help="The one that you read."
)
@shared_options
def approve(shared: Shared, plan_id: str, number: int) -> None:
    """Approve a plan. Refused when the revision is not the current one."""
    _decide(shared, plan_id, number, True, "")


@command.command("reject")
@click.argument("plan_id")
@click.option(
    "--revision", "number", type=int, metavar="N", required=True, help="The one that you read."
)
@click.option("--feedback", required=True, metavar="TEXT", help="What must change.")
@shared_options
def reject(shared: Shared, plan_id: str, number: int, feedback: str) -> None:
    """Reject a plan with feedback. Its author revises it."""
    _decide(shared, plan_id, number, False, feedback)
