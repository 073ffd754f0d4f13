"""Permission rules in Claude Code's syntax: `Bash(npm run *)`, `Edit(src/**)`, `land_worktree`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from team_runtime.errors import InputError
from team_runtime.guard import shell
from team_runtime.guard.base import Effect, Question

NAMES: Final[dict[str, tuple[str, ...]]] = {
    "Bash": ("bash",),
    "Read": ("read_file", "glob", "grep"),
    "Edit": ("edit_file", "write_file"),
    "Write": ("edit_file", "write_file"),
    "Glob": ("glob",),
    "Grep": ("grep",),
}
"""The names that users of Claude Code know, and our tools that each one means."""
_RULE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """One parsed rule."""

    text: str
    origin: str
    tools: tuple[str, ...]
    pattern: str | None


def parse(text: str, origin: str, tools: frozenset[str]) -> Rule:
    """The rule in `text`. Raises `InputError` when it can match nothing."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{origin}: {text!r} is not a rule; write for example Bash(npm run *)")
    name, pattern = match.groups()
    named = NAMES.get(name, (name,))
    if not set(named) & tools:
        known = ", ".join(sorted({*NAMES, *tools}))
        raise InputError(f"{origin}: the rule {text!r} can match nothing; tools are {known}")
    if pattern is not None and not pattern.strip():
        raise InputError(f"{origin}: the rule {text!r} has an empty pattern")
    if pattern is not None and not set(named) & _WITH_PATTERN:
        raise InputError(f"{origin}: {name} takes no pattern, so {text!r} can match nothing")
    return Rule(text.strip(), origin, named, None if pattern in (None, "*", "**") else pattern)


_WITH_PATTERN = {"bash", "read_file", "edit_file", "write_file", "glob", "grep"}


def allows(rule: Rule, question: Question) -> bool:
    """Whether an allow rule covers the whole of the call: every command, and nothing opaque."""
    if question.tool not in rule.tools:
        return False
    if rule.pattern is None:
        return True
    if question.effect is Effect.COMMAND:
        argvs = shell.commands(_command(question))
        return bool(argvs) and all(_command_matches(rule.pattern, argv) for argv in argvs or [])
    return question.path is not None and _path_matches(rule.pattern, question.path)


def denies(rule: Rule, question: Question) -> bool:
    """Whether a deny rule covers any part of the call."""
    if question.tool not in rule.tools:
        return False
    if rule.pattern is None:
        return True
    if question.effect is Effect.COMMAND:
        text = _command(question)
        argvs = shell.commands(text)
        if argvs is None:
            return rule.pattern.split()[0].rpartition("/")[2].rstrip(":*") in shell.words(text)
        return any(_command_matches(rule.pattern, argv) for argv in argvs)
    return question.path is not None and _path_matches(rule.pattern, question.path)


def _command(question: Question) -> str:
    return str(question.input.get("command", ""))


def _command_matches(pattern: str, argv: list[str]) -> bool:
    """`npm run *` covers `npm run` and all that follows; `npm:*` is the older way to say so."""
    text = " ".join(argv)
    if pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    if pattern.endswith(" *") and "*" not in pattern[:-1]:
        return text == pattern[:-2] or text.startswith(pattern[:-1])
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None


def _path_matches(pattern: str, path: str) -> bool:
    """gitignore-like: `*` stays within a folder, `**` does not; a pattern without `/` matches the
    name in any folder."""
    pattern = pattern.removeprefix("./").lstrip("/")
    if "/" not in pattern and "**" not in pattern:
        return _glob(pattern).fullmatch(path.rpartition("/")[2]) is not None
    return _glob(pattern).fullmatch(path) is not None


def _glob(pattern: str) -> re.Pattern[str]:
    out = []
    for piece in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        out.append(
            {"**/": r"(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(piece)
            or re.escape(piece)
        )
    return re.compile("".join(out), re.DOTALL)
