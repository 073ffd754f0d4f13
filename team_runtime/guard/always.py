"""Rules that follow from answers: "always allow" for exactly the call that was asked about.

They are kept for each user, under the real path of the workspace, never in the repository.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from team_runtime.clock import Clock
from team_runtime.errors import InputError, RefusedError
from team_runtime.guard import shell
from team_runtime.guard.base import DEFAULT, Effect, Question, Verdict
from team_runtime.guard.rules import allows, parse
from team_runtime.guard.user_entries import UserEntries

FILE: Final = "always.json"
_WILD: Final = frozenset("*?[\\")


def exact_rules(questions: Sequence[Question], origin: str) -> list[str]:
    """The allow rules that cover the call of these questions and no other. `origin` is what made a
    person be asked. Raises `RefusedError`, which says why there can be none."""
    if origin != DEFAULT:
        raise _no_rule("a rule or a hook asks about it each time, and that beats what allows it")
    return list(dict.fromkeys(_exact_rule(question) for question in questions))


def _exact_rule(question: Question) -> str:
    text = _written(question)
    rule = parse(text, Verdict.ALLOW, FILE, frozenset({question.tool}))
    if not allows(rule, question):
        raise _no_rule("no rule can be written for exactly this")
    return text


def _written(question: Question) -> str:
    if question.protected:
        raise _no_rule("it is about git's or the runtime's own files")
    if question.effect is Effect.COMMAND:
        return f"Bash({_plain(question.command or '')})"
    if question.effect in (Effect.EDIT, Effect.READ) and question.path not in (None, "", "."):
        assert question.path is not None
        if not _WILD.isdisjoint(question.path):
            raise _no_rule("the path has characters that a rule reads as a pattern")
        kind = "Edit" if question.effect is Effect.EDIT else "Read"
        return f"{kind}(/{question.path})"
    raise _no_rule(f"a rule about {question.tool} would cover more than this call")


def _plain(command: str) -> str:
    """The command as a rule has to write it."""
    argvs = shell.commands(command)
    if not argvs:
        raise _no_rule("what the shell makes of it cannot be told beforehand")
    if len(argvs) != 1:
        raise _no_rule("it is more than one command, and each would be allowed on its own too")
    written = shlex.join(argvs[0])
    if "*" in written:
        raise _no_rule("a rule would read its * as any text")
    return written


def _no_rule(why: str) -> RefusedError:
    return RefusedError(f"this cannot be allowed always: {why}. Allow it once, or deny it.")


class AlwaysRules:
    """What one user has allowed for always, in a file of that user's own folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._entries = UserEntries(folder / FILE, clock)

    @property
    def path(self) -> Path:
        """The file, which a person may edit."""
        return self._entries.path

    def of(self, root: Path) -> tuple[str, ...]:
        """The rules for a workspace. Raises `InputError` when the file is not right."""
        return self._checked(self._entries.get(root))

    def add(self, root: Path, rules: Sequence[str]) -> None:
        """Keep rules for a workspace; one that is there already does not matter."""

        def added(old: object) -> list[str]:
            return list(dict.fromkeys((*self._checked(old), *rules)))

        self._entries.change(root, added)

    def forget(self, root: Path, rule: str) -> bool:
        """Keep a rule no more. Returns whether it was kept."""
        if rule not in self.of(root):
            return False
        self._entries.change(root, lambda old: [r for r in self._checked(old) if r != rule] or None)
        return True

    def _checked(self, entry: object) -> tuple[str, ...]:
        if entry is None:
            return ()
        if not isinstance(entry, list) or not all(isinstance(rule, str) for rule in entry):
            raise InputError(f"{self.path}: a list of rules is expected for each workspace")
        return tuple(entry)
