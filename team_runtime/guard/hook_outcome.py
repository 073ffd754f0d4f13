"""What the hooks of one event said together.

It is put together in the order in which they were declared: deny beats ask beats allow, and of two
that rewrite the same field of an input the later one wins, which is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from team_runtime.guard.base import DEFAULT, Decision, Verdict
from team_runtime.guard.hook_config import Hook
from team_runtime.guard.hook_events import HOOK_EVENTS
from team_runtime.guard.hook_output import Answer, HookFault
from team_runtime.types import Json

WITHHELD: Final = "[runtime] The result is withheld: a hook that may replace it failed to."
"""Stands for a result that a hook meant to replace, or had to see, and did not."""


@dataclass(frozen=True)
class Outcome:
    """What all handlers of one event said together."""

    verdict: Verdict | None = None
    reason: str = ""
    changed: Mapping[str, Json] = field(default_factory=dict)
    """Fields of the input with their new values."""
    removed: frozenset[str] = frozenset()
    """Fields of the input that are gone."""
    output: str | None = None
    """What the agent reads instead of the call's result."""
    context: str = ""
    halt: str | None = None
    """Why the agent was told to stop, when it was."""

    @property
    def blocked(self) -> bool:
        return self.verdict is Verdict.DENY

    def followed_by(self, later: Outcome) -> Outcome:
        """This one, with what the hooks of a later event changed in the same input."""
        changed = {key: value for key, value in self.changed.items() if key not in later.removed}
        return replace(
            self,
            changed={**changed, **later.changed},
            removed=(self.removed | later.removed) - frozenset(later.changed),
        )


NOTHING: Final = Outcome()


def weighed(decision: Decision, outcome: Outcome) -> Decision:
    """The decision of the rules and the mode about a call that hooks have spoken about. A hook may
    deny or ask; what it allows needs no answer any more, unless a rule asks or denies."""
    if outcome.verdict is Verdict.ASK and decision.verdict is Verdict.ALLOW:
        return Decision(Verdict.ASK, f"a hook asks: {outcome.reason}", origin="hook")
    unruled = decision.verdict is Verdict.ASK and decision.origin == DEFAULT
    if outcome.verdict is Verdict.ALLOW and unruled:
        return Decision(Verdict.ALLOW, "a hook allows it", origin="hook")
    return decision


def answer_of_failed(hook: Hook, fault: HookFault) -> Answer:
    """What it means that a hook failed."""
    if hook.beside:
        return Answer()
    withheld = HOOK_EVENTS[hook.event].replaces and (hook.denies_on_error or fault.meant_to_replace)
    if withheld:  # without the fault: it may show what must not be seen
        return Answer(output=WITHHELD)
    denied = Verdict.DENY if hook.denies_on_error else None
    return Answer(denied, f"the hook itself failed ({hook.origin}): {fault}")


def put_together(
    hooks: Sequence[Hook],
    answers: Sequence[Answer],
    payload: Mapping[str, Json],
    tell: Callable[[str], None],
) -> Outcome:
    """What the answers of these hooks to one event come to. `tell` hears of those that do not
    count."""
    event = HOOK_EVENTS[hooks[0].event]
    verdicts = [answer.verdict for answer in answers if answer.verdict is not None]
    verdict = max(verdicts, key=list(Verdict).index, default=None)
    reasons = [answer.reason for answer in answers if answer.verdict is verdict is not None]
    changed, removed = _rewritten(hooks, answers, payload.get("tool_input", {}), tell)
    halts = [answer.halt for answer in answers if answer.halt is not None]
    if halts and event.gates:
        verdict, reasons = Verdict.DENY, halts
    return Outcome(
        verdict=verdict,
        reason="; ".join(dict.fromkeys(reasons)),
        changed=changed,
        removed=removed,
        output=_replaced(hooks, answers, tell),
        context="\n".join(answer.context for answer in answers if answer.context),
        halt="; ".join(halts) if halts else None,
    )


def _rewritten(
    hooks: Sequence[Hook],
    answers: Sequence[Answer],
    original: Any,
    tell: Callable[[str], None],
) -> tuple[dict[str, Json], frozenset[str]]:
    """What becomes of the input. Each hook wrote a whole one, against the same original."""
    gone = object()
    final: dict[str, Any] = {}
    for hook, answer in zip(hooks, answers, strict=True):
        if answer.updated is None:
            continue
        for key in {**original, **answer.updated}:
            value = answer.updated.get(key, gone)
            if key in original and value == original[key]:
                continue
            if key in final and final[key] != value:
                tell(f"two hooks rewrote {key!r}; {hook.origin} was declared last and counts")
            final[key] = value
    changed = {key: value for key, value in final.items() if value is not gone}
    return changed, frozenset(final) - frozenset(changed)


def _replaced(
    hooks: Sequence[Hook], answers: Sequence[Answer], tell: Callable[[str], None]
) -> str | None:
    """What becomes of the result. Each hook saw the same original, so that nothing makes up
    for one that failed."""
    final: str | None = None
    for hook, answer in zip(hooks, answers, strict=True):
        if answer.output is None or answer.output == final:
            continue
        if final == WITHHELD:
            break
        if final is not None and answer.output != WITHHELD:
            tell(f"two hooks replaced the result; {hook.origin} was declared last and counts")
        final = answer.output
    return final
