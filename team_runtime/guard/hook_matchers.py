"""The matcher of a group of handlers: which tools, or which values, they are for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from team_runtime.guard.claude_names import ABSENT, names, names_of
from team_runtime.guard.hook_events import HookEvent
from team_runtime.guard.hook_origin import At, NoEffect, meant
from team_runtime.types import Json

_PLAIN: Final = re.compile(r"[A-Za-z0-9_\-\s,|]*")
_MCP_TOOL: Final = re.compile(r"mcp__.+__.+")


@dataclass(frozen=True)
class Matcher:
    """Which names a hook is for: all, some by name, or those that a pattern occurs in."""

    text: str = ""
    names: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None

    def fits(self, subject: str) -> bool:
        """Whether a value fits; a tool fits by our name and by Claude Code's."""
        if self.names is not None:
            return not self.names.isdisjoint(names_of(subject))
        if self.pattern is not None:
            return any(map(self.pattern.search, names_of(subject)))
        return True


def parse_matcher(value: Json, event: HookEvent, at: At) -> Matcher:
    """A matcher for `event`. Raises `InputError`, which names the place, when it can match nothing,
    and `NoEffect` when it could in Claude Code alone."""
    if not isinstance(value, str):
        raise at.wrong("text is expected")
    text = value.strip()
    if text in ("", "*"):
        return Matcher()
    if event.matches is None:
        raise at.wrong(f"{event.name} takes no matcher")
    known = frozenset(event.values) if event.values else names(at.source.tools)
    if _PLAIN.fullmatch(text):
        wanted = frozenset(part.strip() for part in re.split(r"[,|]", text) if part.strip())
        _refuse_mismatch(text, wanted, known, event, at)
        return Matcher(text, names=wanted)
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise at.wrong(f"{text!r} is no regular expression: {error}") from error
    may_be_mcp = not event.values and "mcp__" in text
    if not may_be_mcp and not any(pattern.search(name) for name in known):
        if any(pattern.search(name) for name in _absent(event)):
            raise _no_effect(text, event)
        raise at.wrong(f"{text!r} can match nothing; {_those(known, event)}")
    return Matcher(text, pattern=pattern)


def _refuse_mismatch(
    text: str, wanted: frozenset[str], known: frozenset[str], event: HookEvent, at: At
) -> None:
    """Each name must be one that exists, here or in Claude Code, and one of them here."""
    absent = _absent(event)
    mcp = frozenset() if event.values else {name for name in wanted if _MCP_TOOL.fullmatch(name)}
    for name in sorted(wanted - known - absent - mcp):
        if name.startswith("mcp__"):
            raise at.wrong(f"{name!r} can match nothing; write {name}__.* for all of its tools")
        raise at.wrong(f"{name!r} can match nothing{meant(name, known)}; {_those(known, event)}")
    if wanted <= absent:
        raise _no_effect(text, event)


def _absent(event: HookEvent) -> frozenset[str]:
    """What a matcher of Claude Code's can name, and nothing here brings about."""
    return frozenset(event.elsewhere) if event.values else ABSENT


def _no_effect(text: str, event: HookEvent) -> NoEffect:
    what = event.matches if event.values else "tool"
    return NoEffect(f"{text!r} matches no {what} that there is here")


def _those(known: frozenset[str], event: HookEvent) -> str:
    return f"{event.matches} is one of {', '.join(sorted(known))}"
