"""The permission check: deny beats ask beats allow, decided last, on the final input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from team_runtime.errors import InputError
from team_runtime.guard import shell
from team_runtime.guard.base import Decision, Effect, Question, Verdict, strictest
from team_runtime.guard.rules import Rule
from team_runtime.guard.ruleset import RuleSet
from team_runtime.guard.starters import starts_programs

MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
_CHANGES = {Effect.EDIT, Effect.COMMAND, Effect.LAND, Effect.SCHEDULE}


class Allowances:
    """Allow rules in force, perhaps of several agents. A person's answers add to them."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._given = tuple(rules)
        self.rules = RuleSet(self._given)

    def add(self, rules: Sequence[Rule]) -> None:
        """Let these count from the next decision on."""
        self._given = (*self._given, *rules)
        self.rules = RuleSet(self._given)


class RulePermissions:
    """Rules and a mode. Adding a deny rule never allows more."""

    def __init__(
        self,
        mode: str,
        allow: Sequence[Rule] | Allowances,
        deny: Sequence[Rule],
        ask: Sequence[Rule] = (),
        commands_confined: bool = False,
        checks_confined: bool = False,
    ) -> None:
        if mode not in MODES:
            raise InputError(f"unknown permission mode {mode!r}; modes are {', '.join(MODES)}")
        self.mode = mode
        self.allowances = allow if isinstance(allow, Allowances) else Allowances(allow)
        self._deny = RuleSet(deny)
        self._ask = RuleSet(ask)
        self.commands_confined = commands_confined
        self.checks_confined = checks_confined

    def decide(self, question: Question) -> Decision:
        """The verdict with its reason and the rule's origin. Total and pure."""
        decision = self._decide(question)
        if decision.verdict is Verdict.ASK and self.mode == "dontAsk":
            return Decision(Verdict.DENY, f"{decision.reason}, and the mode is dontAsk")
        return decision

    def _decide(self, question: Question) -> Decision:
        if question.effect is Effect.COMMAND:
            # First, because longer text is not taken apart: no deny rule would find its parts.
            if question.command is None:
                return Decision(Verdict.DENY, "the call names no command")
            if len(question.command) > shell.MAX_LENGTH:
                limit = f"commands over {shell.MAX_LENGTH} characters are refused"
                return Decision(Verdict.DENY, limit)
        rule = self._deny.denying(question)
        if rule is not None:
            return Decision(Verdict.DENY, f"denied by {rule.text}", rule.text, rule.origin)
        if question.protected and question.effect is not Effect.READ:
            return Decision(Verdict.DENY, "git's and the runtime's own files are never edited")
        if question.hidden:
            return Decision(Verdict.DENY, "secrets and the runtime's own records are not read")
        if self.mode == "plan" and question.effect in _CHANGES:
            return Decision(Verdict.DENY, "the mode is plan: nothing may be changed")
        rule = self._ask.denying(question)
        if rule is not None:
            return Decision(Verdict.ASK, f"{rule.text} asks", rule.text, rule.origin)
        if question.effect is Effect.EDIT and starts_programs(question.path or ""):
            return Decision(Verdict.ASK, f"{question.path} can start programs, so editing it asks")
        rules = self.allowances.rules.allowing(question)
        if rules:
            texts = " and ".join(rule.text for rule in rules)
            return Decision(Verdict.ALLOW, f"allowed by {texts}", rules[0].text, rules[0].origin)
        return self._by_default(question)

    def _by_default(self, question: Question) -> Decision:
        if question.effect in (Effect.COORDINATE, Effect.READ, Effect.SCHEDULE):
            return Decision(Verdict.ALLOW, "reading, coordinating and scheduling are allowed")
        if self.mode == "bypassPermissions":
            return Decision(Verdict.ALLOW, "the mode is bypassPermissions", origin="mode")
        if question.effect is Effect.EDIT:
            if question.in_task:
                return Decision(Verdict.ALLOW, "editing one's own task's worktree is allowed")
            if self.mode == "acceptEdits":
                return Decision(Verdict.ALLOW, "the mode is acceptEdits", origin="mode")
            return Decision(Verdict.ASK, "editing the main checkout asks")
        if question.effect is Effect.LAND:
            return Decision(Verdict.ASK, "landing moves your branch, so it asks")
        if self.commands_confined:
            return Decision(Verdict.ALLOW, "the sandbox confines commands", origin="sandbox")
        if not question.is_check:
            return Decision(Verdict.ASK, "no rule allows this command")
        if self.checks_confined:
            return Decision(Verdict.ALLOW, "the sandbox confines checks", origin="sandbox")
        return Decision(Verdict.ASK, "no rule allows the command that is its check")


class NarrowedPermissions:
    """A parent's permissions with more in the way: both have to agree, so that a child can never do
    what its parent cannot."""

    def __init__(
        self,
        parent: RulePermissions,
        mode: str | None = None,
        allow: Sequence[Rule] | None = None,
        deny: Sequence[Rule] = (),
        ask: Sequence[Rule] = (),
    ) -> None:
        self._parent = parent
        if (
            mode is None
        ):  # a list of what is allowed would say nothing beside a mode that allows all
            mode = parent.mode if allow is None else "default"
        self._own = RulePermissions(
            mode,
            parent.allowances if allow is None else allow,
            deny,
            ask,
            parent.commands_confined,
            parent.checks_confined,
        )

    @property
    def allowances(self) -> Allowances:
        """The child's own, which may be its parent's."""
        return self._own.allowances

    def decide(self, question: Question) -> Decision:
        """The stricter of the two decisions."""
        return strictest([self._parent.decide(question), self._own.decide(question)])
