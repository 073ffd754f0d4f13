"""The permission check: deny beats ask beats allow, decided last, on the final input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from team_runtime.errors import InputError
from team_runtime.guard import shell
from team_runtime.guard.base import Decision, Effect, Question, Verdict
from team_runtime.guard.rules import Rule
from team_runtime.guard.ruleset import RuleSet

MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")
_CHANGES = {Effect.EDIT, Effect.COMMAND, Effect.LAND}


class RulePermissions:
    """Rules and a mode. Adding a deny rule never allows more."""

    def __init__(
        self,
        mode: str,
        allow: Sequence[Rule],
        deny: Sequence[Rule],
        ask: Sequence[Rule] = (),
        commands_confined: bool = False,
    ) -> None:
        if mode not in MODES:
            raise InputError(f"unknown permission mode {mode!r}; modes are {', '.join(MODES)}")
        self.mode = mode
        self._allow = RuleSet(allow)
        self._deny = RuleSet(deny)
        self._ask = RuleSet(ask)
        self._commands_confined = commands_confined

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
        if self.mode == "plan" and question.effect in _CHANGES:
            return Decision(Verdict.DENY, "the mode is plan: nothing may be changed")
        rule = self._ask.denying(question)
        if rule is not None:
            return Decision(Verdict.ASK, f"{rule.text} asks", rule.text, rule.origin)
        rules = self._allow.allowing(question)
        if rules:
            texts = " and ".join(rule.text for rule in rules)
            return Decision(Verdict.ALLOW, f"allowed by {texts}", rules[0].text, rules[0].origin)
        return self._by_default(question)

    def _by_default(self, question: Question) -> Decision:
        if question.effect in (Effect.COORDINATE, Effect.READ):
            return Decision(Verdict.ALLOW, "reading and coordinating are allowed")
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
        if self._commands_confined:
            return Decision(Verdict.ALLOW, "the sandbox confines commands", origin="sandbox")
        return Decision(Verdict.ASK, "no rule allows this command")
