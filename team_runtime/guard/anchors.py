"""Path rules of settings files that begin at the root of the file system or at a home: `//etc/**`,
`~/.ssh/**`. Inside a workspace they mean what is left of them there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Final, TypeAlias

from team_runtime.guard.base import Verdict
from team_runtime.store.beneath import folded

Parts: TypeAlias = tuple[str, ...]

_ANCHORED: Final = re.compile(
    r"\s*(Edit|Glob|Grep|MultiEdit|Read|Write)\((//|~/|~(?=\)))(.*)\)\s*", re.DOTALL
)
_ANY: Final = "**"


def in_place(text: str, verdict: Verdict, root: Path, home: Path) -> tuple[str, ...]:
    """The rule as rules about the workspace; itself when it is anchored nowhere else, and nothing
    when it is about no file of the workspace."""
    match = _ANCHORED.fullmatch(text)
    if match is None or ".." in match[3].split("/"):
        return (text,)
    name, anchor, path = match.groups()
    starts = {Path("/")} if anchor == "//" else {home, home.resolve()}
    left: set[Parts] = set()
    for start in starts:
        pattern = (*start.parts[1:], *(part for part in path.split("/") if part not in ("", ".")))
        for place in {root, root.resolve()}:
            left |= _left(pattern, place.parts[1:], verdict is Verdict.ALLOW)
    return tuple(f"{name}(/{'/'.join(parts)})" for parts in sorted(left))


def _left(pattern: Parts, root: Parts, exact: bool) -> set[Parts]:
    """What is left of the pattern below the root, in each way in which it can lead there. A deny
    rule leads there in any spelling."""

    @cache
    def left(at: int, below: int) -> frozenset[Parts]:
        if below == len(root):
            return frozenset({pattern[at:] or (_ANY,)})
        if at == len(pattern):
            return frozenset({(_ANY,)})  # a folder above is covered
        if pattern[at] == _ANY:
            return left(at + 1, below) | left(at, below + 1)
        part, name = pattern[at], root[below]
        if not exact:
            part, name = folded(part), folded(name)
        return left(at + 1, below + 1) if fnmatchcase(name, part) else frozenset()

    return set(left(0, 0))
