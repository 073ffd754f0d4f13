"""`team permissions`: what the rules in force say about a call."""

from __future__ import annotations

import os
from typing import Any

import click

from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.cli.options import setting_options
from team_runtime.errors import InputError
from team_runtime.text import escaped_line, for_terminal


@click.group("permissions")
def command() -> None:
    """What agents may do."""


@command.command("explain")
@click.argument("tool")
@click.argument("input_json")
@setting_options
@shared_options
def explain(shared: Shared, tool: str, input_json: str, **given: Any) -> None:
    """Say what would happen to a call, and why. Nothing is run.

    TOOL is a tool's name, ours or Claude Code's; INPUT_JSON its input, such as
    '{"command": "git push"}'. *ask* means no while nobody is there to answer. The call is taken as
    one of the lead's, in the main checkout.
    """
    from team_runtime.app.explain import explain as explained
    from team_runtime.config import load

    settings = load(shared.root, os.environ, given)
    decision = explained(shared.root, os.environ, settings, tool, input_json)
    answer = {
        "decision": decision.verdict.value,
        "rule": decision.rule,
        "origin": decision.origin,
        "reason": decision.reason,
    }
    rule = f" (rule {decision.rule}, {decision.origin})" if decision.rule else ""
    line = f"{decision.verdict.value}: {for_terminal(decision.reason)}{for_terminal(rule)}"
    shared.answer(answer, [line])


@command.command("always")
@click.option("--forget", metavar="RULE", help="Keep this rule no more; write it as it is listed.")
@shared_options
def always(shared: Shared, forget: str | None) -> None:
    """List what you have always allowed in this workspace, or take it back.

    Such rules come from `team approvals allow --always`, and from that answer on a terminal. They
    are kept in your own configuration. A run that has begun goes on with those it began with.
    """
    from team_runtime.app.hooks import always_rules

    kept = always_rules(os.environ)
    if forget is not None:
        only_a_person("take back what was allowed")
        if not kept.forget(shared.root, forget):
            raise InputError(f"{forget!r} is none of the rules kept here; nothing was changed")
    rules = kept.of(shared.root)
    shared.answer(
        list(rules), [escaped_line(rule) for rule in rules] or ["No rules are kept here."]
    )
