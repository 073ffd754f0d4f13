"""Permission rules in Claude Code's syntax: `Bash(npm run *)`, `Edit(src/**)`, `land_worktree`.

A rule is compiled when it is read. One that could never match is refused then: a hole in a deny
rule must not be silent.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TypeAlias

from team_runtime.errors import InputError
from team_runtime.guard import shell
from team_runtime.guard.base import Question, Verdict
from team_runtime.guard.claude_names import ABSENT, TRANSLATIONS, names_of
from team_runtime.guard.programs import risks
from team_runtime.store.beneath import folded
from team_runtime.store.globbing import matches

NAMES: Final[dict[str, tuple[str, ...]]] = {
    **{name: (tool,) for tool in TRANSLATIONS for name in names_of(tool)[1:]},
    "ListAgents": ("list_teammates",),
    "Read": ("read_file", "glob", "grep"),
    **dict.fromkeys(("Edit", "MultiEdit", "Write"), ("edit_file", "write_file")),
    "TaskUpdate": ("claim_task", "complete_task", "update_task"),
}
"""The names that users of Claude Code know, and our tools that a rule about each one covers."""
_TYPED: Final = ("Agent(", "Task(")
"""How rules begin that are about kinds of agents, of which there is one here."""
_FIELD: Final = re.compile(r"\w+:[^*/]")
"""An input and its value, as in `run_in_background:true`."""
_RULE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\((.*)\))?", re.DOTALL)
_STAR: Final = "\ua66e"
"""Stands for `*` while a pattern is read as shell text: a letter, so that it can be in a word."""


@dataclass(frozen=True)
class Command:
    """A pattern for commands: words, with `*` for any text, spaces included."""

    words: tuple[str, ...]
    text: re.Pattern[str]
    start: str
    """How every text begins that fits."""

    @property
    def program(self) -> str | None:
        """The program that it is about, without folders; `None` when that is not one name."""
        return None if "*" in self.words[0] else shell.base(self.words[0])

    def fits(self, argv: shell.Argv) -> bool:
        return self._fits("\0".join(argv))

    def _fits(self, form: str) -> bool:
        return form.startswith(self.start) and self.text.fullmatch(form) is not None

    def covers(self, argv: shell.Argv) -> bool:
        """Whether it allows one plain command. A wildcard stands for no word with which a program
        would run another one or write."""
        if not self.fits(argv):
            return False
        wild = any("*" in word for word in self.words)
        return not wild or not Counter(risks(shell.base(argv[0]), argv[1:])) - Counter(self.words)

    def denies(self, line: shell.Line) -> bool:
        """Whether any part of a command line fits. Where words may run something, the pattern's
        first word that says anything is looked for among them, wherever it stands."""
        if line.commands is None:
            composed = any(name.fullmatch(self.key) for name in line.composed)
            return composed or self._is_among(line.words)
        for form in line.forms:
            if self._fits(form):
                return True
        if not line.risky:
            return False
        rest = {word for word in self.words[1:] if "*" not in word}
        return any(
            self._is_among(words) or (name == self.program and bool(rest) and rest <= words)
            for name, words in line.risky
        )

    @property
    def key(self) -> str:
        """What to look for in a text that is not understood."""
        return shell.base(next((word for word in self.words if word.strip("*")), "*"))

    def _is_among(self, words: frozenset[str]) -> bool:
        if "*" in self.key:
            return any(fnmatchcase(word, self.key) for word in words)
        return self.key in words

    def allows(self, line: shell.Line) -> bool:
        """Whether every part of a command line fits; never for one that is opaque."""
        return bool(line.allowable) and all(map(self.covers, line.allowable or ()))


@dataclass(frozen=True)
class Paths:
    """A pattern for paths, as in `.gitignore`: it covers what lies below a folder that fits."""

    parts: tuple[str, ...]
    folded: tuple[str, ...]
    """The parts in the spelling that stands for all others."""

    def denies(self, path: str) -> bool:
        """Whether the path fits in any spelling, also as a file of a task's worktree."""
        parts = _parts(folded(path))
        if parts[:1] == ("worktrees",) and matches(self.folded, parts[2:]):
            return True
        return matches(self.folded, parts)

    def allows(self, path: str) -> bool:
        return matches(self.parts, _parts(path))


Pattern: TypeAlias = Command | Paths


@dataclass(frozen=True)
class Rule:
    """One parsed rule; without a pattern it covers every call of its tools."""

    text: str
    origin: str
    tools: tuple[str, ...]
    pattern: Pattern | None


def is_about_absent(text: str) -> bool:
    """Whether a rule of a file that was written for Claude Code is about a tool that no agent has
    here, so that leaving it out allows nothing and denies nothing."""
    name = text.strip().partition("(")[0]
    return name in ABSENT or text.strip().startswith(("mcp__", *_TYPED))


def parse(text: str, verdict: Verdict, origin: str, tools: frozenset[str]) -> Rule:
    """The rule in `text`, which allows or denies. Raises `InputError` when it can match nothing."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise InputError(f"{origin}: {text!r} is not a rule; write for example Bash(npm run *)")
    name, pattern = match.groups()
    named = NAMES.get(name, (name,))
    if not set(named) & tools:
        known = ", ".join(sorted({*NAMES, *tools}))
        raise InputError(f"{origin}: the rule {text!r} can match nothing; tools are {known}")
    if pattern is None or pattern in ("*", "**"):
        return Rule(text.strip(), origin, named, None)
    try:
        return Rule(text.strip(), origin, named, _pattern(pattern, verdict, named))
    except ValueError as error:
        raise InputError(f"{origin}: the rule {text!r} can match nothing: {error}") from error


def allows(rule: Rule, question: Question) -> bool:
    """Whether an allow rule covers the whole of the call: every command, and nothing opaque."""
    if question.tool not in rule.tools:
        return False
    pattern = rule.pattern
    if isinstance(pattern, Command):
        text = question.command
        return text is not None and pattern.allows(shell.read(text))
    return pattern is None or (question.path is not None and pattern.allows(question.path))


def denies(rule: Rule, question: Question) -> bool:
    """Whether a deny rule covers any part of the call. What may not be read may not be written."""
    if question.tool not in denied_tools(rule):
        return False
    pattern = rule.pattern
    if isinstance(pattern, Command):
        text = question.command
        return text is not None and pattern.denies(shell.read(text))
    return pattern is None or (question.path is not None and pattern.denies(question.path))


def denied_tools(rule: Rule) -> tuple[str, ...]:
    """The tools whose calls a deny rule may be about."""
    reads = rule.pattern is not None and "read_file" in rule.tools
    return (*rule.tools, *NAMES["Edit"]) if reads else rule.tools


def _pattern(pattern: str, verdict: Verdict, tools: tuple[str, ...]) -> Pattern:
    """Raises `ValueError`, which says why the pattern can match nothing."""
    if not pattern.strip():
        raise ValueError("its pattern is empty")
    if "bash" in tools:
        return _command(pattern, verdict)
    if set(tools) & {*NAMES["Read"], *NAMES["Edit"]}:
        return _paths(pattern)
    raise ValueError(f"{tools[0]} takes no pattern")


def _command(pattern: str, verdict: Verdict) -> Command:
    """`npm run *` covers `npm run` and all that follows; `npm:*` is the older way to say so."""
    if pattern.endswith(":*"):
        pattern = pattern[:-2] + " *"
    text = pattern.replace("*", _STAR)
    argvs = shell.split(text)
    runs_others = verdict is Verdict.ALLOW and any(map(shell.is_indirect, argvs or ()))
    if argvs is None or len(argvs) != 1 or runs_others:
        raise ValueError("its pattern is not one plain command")
    words = tuple(word.replace(_STAR, "*") for word in argvs[0])
    if len(words) == 1 and _FIELD.match(words[0]):
        raise ValueError("a pattern is about the command, and about no other input")
    start = "\0".join(words).partition("*")[0].rstrip("\0")
    return Command(words, _spanning(words), start)


def _spanning(words: tuple[str, ...]) -> re.Pattern[str]:
    """The words with anything in place of `*`. No pattern is slow: nothing is tried twice."""
    open_ended = len(words) > 1 and words[-1] == "*"
    first, *rest = "\0".join(words[:-1] if open_ended else words).split("*")
    inner = "".join(f"(?>.*?{re.escape(piece)})" for piece in rest[:-1])
    last = f".*{re.escape(rest[-1])}" if rest else ""
    return re.compile(re.escape(first) + inner + last + (r"(?:\0.*)?" if open_ended else ""), re.S)


def _paths(pattern: str) -> Paths:
    """As in `.gitignore`: a pattern with `/` in it begins at the agent's directory, one without
    fits a name in any folder; `*` stays within a folder, `**` does not."""
    if pattern.startswith(("//", "~")):
        raise ValueError("write the path relative to the workspace; all others are refused anyway")
    anchored = "/" in pattern.rstrip("/")
    parts: list[str] = []
    for part in _parts(pattern):
        if part != "..":
            parts.append(part)
        elif not parts or "*" in parts.pop():
            parts = []
            break
    if not parts:
        raise ValueError("its path leads nowhere below the workspace")
    whole = (*(() if anchored else ("**",)), *parts, "**")
    return Paths(whole, tuple(map(folded, whole)))


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
