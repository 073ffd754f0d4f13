"""All hooks and rules that a run or a command begins with, read once from where they may stand.

The declared order: the program's own, the user's files, the user's file for Claude Code, the
workspace's files. Before a workspace is trusted it may only narrow: of its files the deny rules
count, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from team_runtime.errors import InputError
from team_runtime.guard.anchors import in_place
from team_runtime.guard.base import Verdict
from team_runtime.guard.claude_settings import (
    IN_HOME,
    IN_WORKSPACE,
    ClaudeSettings,
    in_workspace,
    read_settings,
)
from team_runtime.guard.hook_config import Hook, Parsed, PythonHook, parse_hooks, python_hooks
from team_runtime.guard.hook_origin import Source
from team_runtime.guard.rules import is_about_absent, parse
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
    def of_claude(self) -> Path:
        """The user's own file for Claude Code."""
        return self.home / IN_HOME

    @property
    def files(self) -> tuple[Path, ...]:
        """Every settings file there may be."""
        workspace = (self.root / name for name in IN_WORKSPACE)
        return (self.user_folder / USER_FILE, self.of_claude, *workspace)


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
    places: Places | None = None
    """Where it was looked for."""

    def placed(self, text: str, verdict: Verdict, origin: str) -> tuple[str, ...]:
        """A rule that a person gave, as rules about the workspace. Raises `InputError` for one that
        is about no file of it."""
        if self.places is None:
            return (text,)
        found = in_place(text, verdict, self.places.root, self.places.home)
        if not found:
            why = "it is about no file of the workspace, and all others are refused anyway"
            raise InputError(f"{origin}: the rule {text!r} can match nothing: {why}")
        return found


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
    user = _read(places)
    of_user, off = _of_user(places, user, tools, own)
    workspace = in_workspace(places.root)
    found = survey(places.root, workspace)
    trusted = is_trusted(places.root, found)
    ours, of_ours = _rules_of(places, user, tools)
    rules, without = _rules_of(places, workspace, tools)
    counts = trusted and not off
    of_workspace = _of_workspace(places, workspace, found, tools) if counts else Parsed()
    notices = [*of_user.left_out, *of_workspace.left_out]
    if off:
        notices.append(f"no hooks are run: {off} says disableAllHooks")
    if not trusted:
        notices.append(_untrusted(found))
    notices += [*of_ours, *without]
    hooks = [] if off else [*of_user.hooks, *of_workspace.hooks]
    return Loaded(
        hooks=(*python_hooks(brought, tools), *hooks),
        allow=(*ours[Verdict.ALLOW], *(rules[Verdict.ALLOW] if trusted else ())),
        ask=(*ours[Verdict.ASK], *(rules[Verdict.ASK] if trusted else ())),
        deny=(*ours[Verdict.DENY], *rules[Verdict.DENY]),
        notices=tuple(notices),
        places=places,
    )


def _read(places: Places) -> list[ClaudeSettings]:
    """The user's files that are there."""
    found = map(read_settings, (places.user_folder / USER_FILE, places.of_claude))
    return [settings for settings in found if settings is not None]


def _of_user(
    places: Places, files: Sequence[ClaudeSettings], tools: frozenset[str], own: Json
) -> tuple[Parsed, Path | None]:
    """The user's hooks, and the file that switches all files' hooks off."""
    parsed = Parsed()
    if own:
        _add(
            parsed,
            parse_hooks(own, Source(str(places.user_folder / "team.toml"), tools, places.home)),
        )
    off = None
    for settings in files:
        of_claude = settings.path == places.of_claude
        source = Source(str(settings.path), tools, places.home, of_claude=of_claude)
        _add(parsed, parse_hooks(settings.hooks, source))
        off = off or (settings.path if settings.disables_hooks else None)
    return parsed, off


def _of_workspace(
    places: Places, files: Sequence[ClaudeSettings], found: Survey, tools: frozenset[str]
) -> Parsed:
    parsed = Parsed()
    for settings in files:
        # In a workspace's file this switches off its own hooks alone: it may not widen.
        if not settings.disables_hooks:
            source = Source(str(settings.path), tools, places.home, of_workspace=True)
            _add(parsed, parse_hooks(settings.hooks, source))
    parsed.hooks = [replace(hook, scripts=found.scripts) for hook in parsed.hooks]
    return parsed


def _add(parsed: Parsed, more: Parsed) -> None:
    parsed.hooks += more.hooks
    parsed.left_out += more.left_out


def _rules_of(
    places: Places, files: Sequence[ClaudeSettings], tools: frozenset[str]
) -> tuple[dict[Verdict, tuple[OriginRule, ...]], list[str]]:
    """The rules of settings files as they count in this workspace, and what to tell of those that
    change nothing in it."""
    found: dict[Verdict, tuple[OriginRule, ...]] = dict.fromkeys(Verdict, ())
    absent, outside, told = [], [], []
    for rule, verdict in _given(files, places.of_claude):
        if is_about_absent(rule.text):
            absent.append(rule.text)
            continue
        placed = in_place(rule.text, verdict, places.root, places.home)
        if not placed:
            outside.append(rule.text)
        elif rule.origin == str(places.of_claude) and (fault := _fault(placed, rule, tools)):
            told.append(f"{fault}; it does not count here")
        else:
            found[verdict] += tuple(OriginRule(text, rule.origin) for text in placed)
    if absent:
        said = "rules about tools that no agent has here say nothing"
        told.append(f"{said}: {', '.join(sorted(absent))}")
    if outside:
        said = "rules about files outside of the workspace say nothing, because all are refused"
        told.append(f"{said}: {', '.join(sorted(outside))}")
    return found, told


def _given(
    files: Sequence[ClaudeSettings], of_claude: Path
) -> Iterator[tuple[OriginRule, Verdict]]:
    """The rules in the files; of the user's file for Claude Code those that narrow."""
    for settings in files:
        for verdict in Verdict:
            if verdict is Verdict.ALLOW and settings.path == of_claude:
                continue
            for text in getattr(settings, verdict.value):
                yield OriginRule(text, str(settings.path)), verdict


def _fault(texts: Sequence[str], rule: OriginRule, tools: frozenset[str]) -> str | None:
    """Why one of the texts is no rule here, or `None`."""
    try:
        for text in texts:
            parse(text, Verdict.DENY, rule.origin, tools)
    except InputError as error:
        return str(error)
    return None


def _untrusted(found: Survey) -> str:
    parts = []
    for kind, done in ((HOOK, "run"), (RULE, "used")):
        if count := found.count(kind):
            what = (
                f"{kind} of this workspace was" if count == 1 else f"{kind}s of this workspace were"
            )
            parts.append(f"{count} {what} not {done}")
    return f"{' and '.join(parts)}, because it is not trusted as it is now: team trust"
