"""The permissions of a run and of its teammates: settings, files and answers put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from team_runtime.app.confinement import Confining
from team_runtime.app.tools import TOOL_NAMES
from team_runtime.config import Settings
from team_runtime.errors import InputError
from team_runtime.guard.base import Verdict
from team_runtime.guard.hook_sources import NO_FILES, Loaded, OriginRule
from team_runtime.guard.permissions import NarrowedPermissions, RulePermissions
from team_runtime.guard.rules import Rule, parse
from team_runtime.types import Json

ANSWERED: Final = "an answer in this run"
"""The origin of a rule that somebody's answer has just made."""


def make_permissions(
    settings: Settings, found: Loaded = NO_FILES, confining: Confining | None = None
) -> RulePermissions:
    """The rules in force: of the settings, and of the workspace's files as far as they count.
    `confining` says what holds commands.
    Raises `InputError` for one that can match nothing."""

    def rules(verdict: Verdict, given: Sequence[str], more: Sequence[OriginRule]) -> list[Rule]:
        origin = f"{verdict.value} rule"
        placed = [rule for text in given for rule in found.placed(text, verdict, origin)]
        named = [parse(text, verdict, origin, TOOL_NAMES) for text in placed]
        return [*named, *(parse(r.text, verdict, r.origin, TOOL_NAMES) for r in more)]

    complete = confining is not None and confining.sandbox.complete
    return RulePermissions(
        settings.permission_mode,
        rules(Verdict.ALLOW, settings.allow, found.allow),
        rules(Verdict.DENY, settings.deny, found.deny),
        rules(Verdict.ASK, (), found.ask),
        commands_confined=complete and settings.sandbox_allows_commands,
        checks_confined=confining is not None and confining.isolates,
    )


def narrowed(parent: RulePermissions, given: Mapping[str, Json], name: str) -> NarrowedPermissions:
    """The permissions of a teammate that was spawned with some of its own. Raises `InputError` for
    what is none, an unknown mode, or a rule that can match nothing."""
    origin = f"permissions of {name}"
    unknown = set(given) - {"mode", *(verdict.value for verdict in Verdict)}
    if unknown or not isinstance(given.get("mode", ""), str):
        raise InputError(f"{origin}: give a mode, and lists of rules in allow, deny and ask")

    def rules(verdict: Verdict) -> list[Rule]:
        texts = given.get(verdict.value, [])
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"{origin}: {verdict.value}: a list of rules is expected")
        return [parse(text, verdict, origin, TOOL_NAMES) for text in texts]

    return NarrowedPermissions(
        parent,
        mode=given.get("mode"),
        allow=rules(Verdict.ALLOW) if "allow" in given else None,
        deny=rules(Verdict.DENY),
        ask=rules(Verdict.ASK),
    )
