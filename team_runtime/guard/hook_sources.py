"""All hooks and rules that a run or a command begins with, read once from where they may stand.

The declared order: the program's own, the user's files, the user's file for Claude Code, the
workspace's files. Before a workspace is trusted it may only narrow: of its files the deny rules
count, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from team_runtime.guard.claude_settings import (
    IN_HOME,
    IN_WORKSPACE,
    ClaudeSettings,
    in_workspace,
    read_settings,
)
from team_runtime.guard.hook_config import (
    Hook,
    Parsed,
    PythonHook,
    Source,
    parse_hooks,
    python_hooks,
)
from team_runtime.guard.rules import is_about_absent
from team_runtime.guard.trust import HOOK, RULE, Survey, survey
from team_runtime.types import Json

USER_FILE: Final = "settings.json"


@dataclass(frozen=True)
class Places:
    """Where to look."""

    root: Path
    user_folder: Path
    home: Path

    @property
    def files(self) -> tuple[Path, ...]:
        """Every settings file there may be."""
        workspace = (self.root / name for name in IN_WORKSPACE)
        return (self.user_folder / USER_FILE, self.home / IN_HOME, *workspace)


@dataclass(frozen=True)
class OriginRule:
    """A permission rule, and the file that it stands in."""

    text: str
    origin: str


@dataclass(frozen=True)
class Loaded:
    """What was found, as far as it counts."""

    hooks: tuple[Hook, ...] = ()
    allow: tuple[OriginRule, ...] = ()
    ask: tuple[OriginRule, ...] = ()
    deny: tuple[OriginRule, ...] = ()
    notices: tuple[str, ...] = ()
    """What a person should know about what was found and does not count."""


NO_FILES: Final = Loaded()


def load(
    places: Places,
    is_trusted: Callable[[Path, Survey], bool],
    tools: frozenset[str],
    own: Json = None,
    brought: Sequence[PythonHook] = (),
) -> Loaded:
    """Read everything. `own` is the `hooks` table of the user's team.toml; `is_trusted` answers for
    the workspace as it was found.

    Raises `InputError`, which names the file and the place, for anything that is not right.
    """
    of_user, off = _of_user(places, tools, own)
    workspace = in_workspace(places.root)
    found = survey(places.root, workspace)
    trusted = is_trusted(places.root, found)
    of_workspace = _of_workspace(workspace, found, tools) if trusted and not off else Parsed()
    notices = [*of_user.left_out, *of_workspace.left_out]
    if off:
        notices.append(f"no hooks are run: {off} says disableAllHooks")
    if not trusted:
        notices.append(_untrusted(found))
    notices += _without_effect(workspace)
    hooks = [] if off else [*of_user.hooks, *of_workspace.hooks]
    return Loaded(
        hooks=(*python_hooks(brought, tools), *hooks),
        allow=_rules(workspace, "allow") if trusted else (),
        ask=_rules(workspace, "ask") if trusted else (),
        deny=_rules(workspace, "deny"),
        notices=tuple(notices),
    )


def _of_user(places: Places, tools: frozenset[str], own: Json) -> tuple[Parsed, Path | None]:
    """The user's hooks, and the file that switches all files' hooks off."""
    parsed = Parsed()
    if own:
        _add(parsed, parse_hooks(own, Source(str(places.user_folder / "team.toml"), tools)))
    off = None
    for path, of_claude in (
        (places.user_folder / USER_FILE, False),
        (places.home / IN_HOME, True),
    ):
        settings = read_settings(path)
        if settings is not None:
            source = Source(str(path), tools, of_claude=of_claude)
            _add(parsed, parse_hooks(settings.hooks, source))
            off = off or (path if settings.disables_hooks else None)
    return parsed, off


def _of_workspace(files: Sequence[ClaudeSettings], found: Survey, tools: frozenset[str]) -> Parsed:
    parsed = Parsed()
    for settings in files:
        # In a workspace's file this switches off its own hooks alone: it may not widen.
        if not settings.disables_hooks:
            source = Source(str(settings.path), tools, of_workspace=True)
            _add(parsed, parse_hooks(settings.hooks, source))
    parsed.hooks = [replace(hook, scripts=found.scripts) for hook in parsed.hooks]
    return parsed


def _add(parsed: Parsed, more: Parsed) -> None:
    parsed.hooks += more.hooks
    parsed.left_out += more.left_out


def _rules(files: Sequence[ClaudeSettings], key: str) -> tuple[OriginRule, ...]:
    return tuple(
        OriginRule(rule, str(settings.path))
        for settings in files
        for rule in getattr(settings, key)
        if not is_about_absent(rule)
    )


def _without_effect(files: Sequence[ClaudeSettings]) -> list[str]:
    """Tells which rules are about tools that no agent has here."""
    rules = [
        rule
        for settings in files
        for rule in (*settings.allow, *settings.ask, *settings.deny)
        if is_about_absent(rule)
    ]
    if not rules:
        return []
    return [f"rules about tools that no agent has here say nothing: {', '.join(sorted(rules))}"]


def _untrusted(found: Survey) -> str:
    parts = []
    for kind, done in ((HOOK, "run"), (RULE, "used")):
        if count := found.count(kind):
            what = (
                f"{kind} of this workspace was" if count == 1 else f"{kind}s of this workspace were"
            )
            parts.append(f"{count} {what} not {done}")
    return f"{' and '.join(parts)}, because it is not trusted as it is now: team trust"
