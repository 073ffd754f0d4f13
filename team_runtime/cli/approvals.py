"""`team approvals`: questions that wait for a person, and the answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from team_runtime.approvals.model import WAITING, Approval, approval_record
from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.errors import InputError
from team_runtime.plans.model import Plan
from team_runtime.text import escaped_line, one_line

if TYPE_CHECKING:
    from team_runtime.guard.trust import Surface


TRUST: Final = "trust"
"""The id and the kind of the question whether a workspace is trusted."""


@click.group("approvals")
def command() -> None:
    """Questions of agents that wait for you."""


@command.command("list")
@click.option("--all", "everything", is_flag=True, help="Also those that have ended.")
@shared_options
def list_(shared: Shared, everything: bool) -> None:
    """Show what waits for you: each call in full, who asks, why, and until when.

    Characters that do not show are named. With --all also what was answered, what lapsed, and what
    was refused because nobody was there. Plans that wait are shown too, and what this workspace
    would run or allow once you trust it.
    """
    from team_runtime.app.trusting import untrusted

    workspace = shared.workspace
    workspace.approvals.tidy()
    found = workspace.approvals.list() if everything else workspace.approvals.waiting()
    plans = workspace.plans.pending()
    trust = untrusted(workspace)
    answer = [
        *map(approval_record, found),
        *map(_plan_record, plans),
        *([_trust_record(trust)] if trust else []),
    ]
    texts = [*_shown(shared, found), *map(_plan_text, plans), *([_trust_text(trust)] * bool(trust))]
    shared.answer(answer, "\n\n".join(texts).split("\n") if texts else ["Nothing waits for you."])


@command.command("allow")
@click.argument("approval_id", metavar="ID")
@click.option("--always", is_flag=True, help="From now on also without asking: exactly this call.")
@shared_options
def allow(shared: Shared, approval_id: str, always: bool) -> None:
    """Let the call run that was asked about, and nothing else.

    With --always a rule for exactly this call is kept in your own configuration, for this
    workspace. Deny rules beat it.
    """
    from team_runtime.app.answering import allow as answer

    only_a_person("answer a question of an agent")
    _refuse_plan(shared, approval_id)
    done, rules = answer(shared.workspace, approval_id, always)
    kept = [f"The rule {escaped_line(rule)} was kept for this workspace." for rule in rules]
    shared.answer(approval_record(done), [_sentence(done), *kept])


@command.command("deny")
@click.argument("approval_id", metavar="ID")
@click.option("--note", default="", metavar="TEXT", help="The agent is told, such as what to do.")
@shared_options
def deny(shared: Shared, approval_id: str, note: str) -> None:
    """Refuse the call that was asked about. Its agent goes on without it."""
    only_a_person("answer a question of an agent")
    _refuse_plan(shared, approval_id)
    done = shared.workspace.approvals.answer(approval_id, False, note)
    shared.answer(approval_record(done), [_sentence(done)])


def _sentence(done: Approval) -> str:
    return f"{done.id} is {done.status}; {done.asker.agent} goes on."


def _refuse_plan(shared: Shared, given: str) -> None:
    """A plan is answered in its own words, because a revision has to be named, and so is trust."""
    if given == TRUST:
        raise InputError("Trust is given with everything in view: team trust")
    if given.startswith("plan_"):
        number = shared.workspace.plans.get(given).current.number
        raise InputError(f"{given} is a plan: team plans approve {given} --revision {number}")


def _shown(shared: Shared, approvals: Sequence[Approval]) -> Iterator[str]:
    """Each question in full."""
    if shared.as_json or not approvals:
        return
    from team_runtime.cli.questions import always_line, details, fate, heading

    now = shared.workspace.store.clock.now()
    for approval in approvals:
        lines = [heading(approval), *details(approval, shared.root), fate(approval, now)]
        if approval.status == WAITING:
            lines += [always_line(approval), f"  team approvals allow {approval.id}"]
        yield "\n".join(lines)


def _plan_text(plan: Plan) -> str:
    task = f" for {plan.task}" if plan.task else ""
    number = plan.current.number
    return (
        f"{plan.id}  {plan.agent} submitted revision {number} of its plan{task}\n"
        f"  {one_line(plan.current.text)}\n"
        f"  team plans show {plan.id}\n"
        f"  team plans approve {plan.id} --revision {number}"
    )


def _trust_text(waiting: Sequence[Surface]) -> str:
    first = [f"  {one_line(f'{surface.kind}: {surface.what}', 160)}" for surface in waiting[:5]]
    more = [f"  and {len(waiting) - 5} more"] if len(waiting) > 5 else []
    head = (
        f"{TRUST}  {len(waiting)} things that this workspace would run or allow, and does not yet"
    )
    return "\n".join([head, *first, *more, "  team trust"])


def _trust_record(waiting: Sequence[Surface]) -> dict[str, Any]:
    surfaces = [{"kind": each.kind, "place": each.place, "what": each.what} for each in waiting]
    return {"id": TRUST, "kind": TRUST, "agent": None, "surfaces": surfaces, "status": WAITING}


def _plan_record(plan: Plan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "kind": "plan",
        "agent": plan.agent,
        "session": plan.session,
        "task": plan.task,
        "revision": plan.current.number,
        "hash": plan.current.hash,
        "askedAt": plan.current.submitted_at,
        "status": WAITING,
    }
