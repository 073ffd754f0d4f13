"""What a call needs a person's answer for, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from team_runtime.approvals.model import Cause, Subject
from team_runtime.errors import RefusedError
from team_runtime.guard.always import exact_rules
from team_runtime.guard.base import Decision, Question, Verdict
from team_runtime.tools.base import Place, Tool
from team_runtime.types import ToolCall

NOBODY: Final = "nobody was there to answer"


@dataclass(frozen=True)
class Checked:
    """A call, as it would run, and what was decided about it."""

    tool: Tool
    call: ToolCall
    input: Any
    """The call's input as the tool's model."""
    place: Place
    questions: Sequence[Question]
    """What the rules were asked; empty when something else had decided before."""
    decision: Decision
    lacks_person: bool = False
    """Whether it was refused because no person answered."""

    @property
    def subject(self) -> Subject:
        """What an answer is bound to."""
        paths = tuple(q.path for q in self.questions if q.path is not None)
        return Subject(self.call.name, self.call.input, str(self.place.root), paths)

    @property
    def always(self) -> list[str]:
        """The rules that would allow this call and no other from now on; none where none can."""
        try:
            return exact_rules(self.questions, self.decision.origin)
        except RefusedError:
            return []

    @property
    def cause(self) -> Cause:
        """Why a person has to be asked."""
        return Cause(self.decision.reason, self.decision.rule, self.decision.origin)

    def allowed(self) -> Checked:
        """The same, after somebody said yes."""
        return replace(self, decision=replace(self.decision, verdict=Verdict.ALLOW))

    def denied(self, why: str, *, by_hook: bool = False, lacks_person: bool = False) -> Checked:
        """The same, after somebody said no, or nobody said anything; `why` ends a sentence."""
        decision = replace(
            self.decision,
            verdict=Verdict.DENY,
            reason=f"{self.decision.reason}, and {why}",
            origin="hook" if by_hook else self.decision.origin,
        )
        return replace(self, decision=decision, lacks_person=lacks_person)


@dataclass(frozen=True)
class Answer:
    """What came of a question."""

    allowed: bool
    why: str = ""
    """How it came to be no, as the end of a sentence."""
    lacks_person: bool = False
    """Whether it is no because no person answered."""


Ask: TypeAlias = Callable[[Checked], Answer]
"""Asks a person about a call and waits for the answer, at most until a deadline."""
