"""The `if` of a handler: one permission rule about the calls that it is for.

A hook is asked once too often rather than once too seldom: about a call of which cannot be told
beforehand what it does, it is asked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from team_runtime.guard import shell
from team_runtime.guard.base import Verdict
from team_runtime.guard.rules import Command, Paths, Rule, parse

_ANCHORED: Final = re.compile(
    r"\s*(Edit|Glob|Grep|MultiEdit|Read|Write)\((//|~/)(.*)\)\s*", re.DOTALL
)
_SEARCHES: Final = frozenset({"glob", "grep"})
"""Tools that find the files themselves."""


@dataclass(frozen=True)
class Condition:
    """Which calls a hook is for."""

    rule: Rule
    base: Path | None = None
    """Where the rule's path begins; `None` for the agent's directory."""

    def fits(self, tool: str, payload: Mapping[str, Any]) -> bool:
        """Whether a call of our `tool` may be one that the rule is about. `payload` is what hooks
        are told of it."""
        if tool not in self.rule.tools:
            return False
        pattern, given = self.rule.pattern, payload["tool_input"]
        if isinstance(pattern, Command):
            return _may_run(pattern, given.get("command"))
        if pattern is None or tool in _SEARCHES:
            return True
        return self._may_lead(pattern, str(given.get("file_path")), str(payload["cwd"]))

    def _may_lead(self, pattern: Paths, path: str, cwd: str) -> bool:
        """Whether a path fits as it is named, or where links lead. Outside of the agent's directory
        a rule about what is in it says nothing."""
        base = cwd if self.base is None else str(self.base)
        bases = {base, os.path.realpath(base)}
        for named in {path, os.path.realpath(path)}:
            inside = [Path(named).relative_to(b) for b in bases if Path(named).is_relative_to(b)]
            if any(pattern.denies(str(below)) for below in inside):
                return True
            if not inside and self.base is None:
                return True
        return False


def parse_condition(text: str, origin: str, tools: frozenset[str], home: Path) -> Condition:
    """The condition in `text`. Raises `InputError` when it can match nothing."""
    anchored = _ANCHORED.fullmatch(text)
    if anchored is None:
        return Condition(parse(text, Verdict.DENY, origin, tools))
    name, anchor, path = anchored.groups()
    rule = parse(f"{name}(/{path})", Verdict.DENY, origin, tools)
    return Condition(rule, Path("/") if anchor == "//" else home)


def _may_run(pattern: Command, text: Any) -> bool:
    if not isinstance(text, str) or len(text) > shell.MAX_LENGTH:
        return True
    line = shell.read(text)
    return line.commands is None or pattern.denies(line)
