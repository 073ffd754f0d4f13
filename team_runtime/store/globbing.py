"""Path patterns where `**` stands for any number of folders."""

from __future__ import annotations

import fnmatch
from functools import lru_cache


@lru_cache(maxsize=4096)
def _part_matches(pattern: str, part: str) -> bool:
    return fnmatch.fnmatchcase(part, pattern)


@lru_cache(maxsize=256)
def _without_repeats(pattern: tuple[str, ...]) -> tuple[str, ...]:
    """Where `**` follows `**`, one of them says the same."""
    return tuple(
        part for at, part in enumerate(pattern) if part != "**" or pattern[at - 1 : at] != ("**",)
    )


def matches(pattern: tuple[str, ...], path: tuple[str, ...]) -> bool:
    """Whether the path's parts match the pattern's, where `**` stands for any number of parts.

    Walks both once, keeping the set of pattern positions, so that no pattern is slow.
    """
    pattern = _without_repeats(pattern)
    positions = _skip(pattern, {0})
    for part in path:
        step = set()
        for at in positions:
            if at == len(pattern):
                continue
            if pattern[at] == "**":
                step.add(at)
            elif _part_matches(pattern[at], part):
                step.add(at + 1)
        positions = _skip(pattern, step)
        if not positions:
            return False
    return len(pattern) in positions


def _skip(pattern: tuple[str, ...], positions: set[int]) -> set[int]:
    """`positions` and those reached when a `**` stands for nothing."""
    out = set(positions)
    for at in sorted(positions):
        while at < len(pattern) and pattern[at] == "**":
            at += 1
            out.add(at)
    return out
