"""What would happen to one call, and why: the run's own check, with nothing run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from team_runtime.app.hooks import load_hooks
from team_runtime.app.permissions import make_permissions
from team_runtime.app.tools import TOOLS
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings
from team_runtime.errors import InputError
from team_runtime.guard.base import Decision, Effect, Verdict, strictest
from team_runtime.guard.claude_names import from_claude, names_of
from team_runtime.loop.dispatch import questions_about, validated
from team_runtime.tools.base import Place, ToolFailure


def explain(
    root: Path, environ: Mapping[str, str], settings: Settings, tool: str, input: str
) -> Decision:
    """The decision about a call of the lead in the main checkout. `tool` may be Claude Code's name
    for it. Raises `InputError` for an unknown tool or an input that is no JSON object."""
    name = next((ours for ours in TOOLS if tool in names_of(ours)), None)
    if name is None:
        raise InputError(f"there is no tool {tool!r}; tools are {', '.join(sorted(TOOLS))}")
    try:
        given = json.loads(input)
    except ValueError as error:
        raise InputError(f"the tool's input is not valid JSON: {error}") from error
    if not isinstance(given, dict):
        raise InputError("the tool's input is not a JSON object")
    given = given if tool == name else from_claude(name, given)
    confining = Workspace(root, environ).confined_by(settings)
    found = load_hooks(root, environ, settings.hooks)
    permissions = make_permissions(settings, found, confining)
    place = Place(root, secrets=confining.secrets_in(root))
    try:
        validated(TOOLS[name], given)
        asked = questions_about(name, TOOLS[name].effect, given, place)
    except ToolFailure as refused:
        return Decision(Verdict.DENY, str(refused).rstrip("."), origin="boundary")
    if given.get("path") and asked[0].effect is Effect.READ and asked[0].path is None:
        refusal = f"{given['path']} is outside of the workspace"
        return Decision(Verdict.DENY, refusal, origin="boundary")
    return strictest([permissions.decide(question) for question in asked])
