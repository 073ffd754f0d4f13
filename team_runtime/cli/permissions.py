"""`team permissions`: what the rules in force say about a call."""

from __future__ import annotations

import os
from typing import Any

import click

from team_runtime.cli.common import Shared, shared_options
from team_runtime.cli.options import setting_options
from team_runtime.text import for_terminal


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
