"""Tool calls: prepare (find, validate, hooks, plan gate, permission), execute, finalize.

Every call gets exactly one result, whatever happens, and it says truthfully whether the tool ran.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio
from anyio import to_thread

from team_runtime.clock import Clock
from team_runtime.crossing import Stopped
from team_runtime.errors import TeamError
from team_runtime.events import Emit
from team_runtime.guard.base import (
    Decision,
    Effect,
    Permissions,
    Question,
    Verdict,
    strictest,
)
from team_runtime.guard.hook_events import PRE_TOOL_USE
from team_runtime.guard.hook_outcome import Outcome, weighed
from team_runtime.loop.asking import Ask, Checked
from team_runtime.loop.hooked import AgentHooks, with_context
from team_runtime.models.base import INVALID_JSON
from team_runtime.store.beneath import (
    Beneath,
    May,
    OutsideRoot,
    is_private,
    is_protected,
    is_within,
    relative,
)
from team_runtime.text import one_line, scrub
from team_runtime.tools.base import Place, Tool, ToolContext, ToolFailure, Waiter
from team_runtime.tools.files import explained
from team_runtime.types import Json, ToolCall, ToolResult

SIDE_BY_SIDE: Final = 8
"""How many read-only calls of one turn run at once."""
_GO_ON: Final = "Do not try to get the same effect another way; go on without it or report it."
PLAN_GATE: Final = "plan gate"
"""The origin of a decision that the gate made."""
_RUN_LATER: Final = {"create_task": "check"}
"""Inputs that are commands, by tool."""
_GATED: Final = {Effect.EDIT, Effect.COMMAND, Effect.LAND, Effect.SCHEDULE}


@dataclass(frozen=True)
class Prepared:
    """A call that may run."""

    call: ToolCall
    tool: Tool
    input: Any
    context: ToolContext
    told: Outcome
    """What hooks said about it."""


@dataclass(frozen=True)
class Dispatch:
    """Runs the tool calls of one agent."""

    agent: str
    tools: Mapping[str, Tool]
    permissions: Permissions
    place: Callable[[], Place]
    """Where the agent's tools work now. Raises `TeamError` when it lost its directory."""
    gate: Callable[[Effect], str | None]
    """Why nothing may be changed in this way now (the plan gate), or `None`."""
    context: Callable[[str, Place], ToolContext]
    """Makes the context of a call from its id and place."""
    ask: Ask
    outside: Callable[[str], str | None]
    """Why an approved plan does not let this file be changed, or `None`."""
    wait: Waiter
    clock: Clock
    emit: Emit
    hooks: AgentHooks = field(default_factory=AgentHooks)

    def run(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results in the order of the calls. Neighbouring read-only calls run side by side,
        all others one after another."""
        results: list[ToolResult] = []
        for parallel, group in itertools.groupby(calls, key=self._is_read_only):
            batch = list(group)
            if parallel and len(batch) > 1:
                results += self.wait(self._side_by_side, batch)
            else:
                results += [self._one(call) for call in batch]
        return results

    def leave(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Results for calls of a reply that did not stop to have them run."""
        return [
            _error(call, "The reply did not ask for its calls to run: not run.") for call in calls
        ]

    def _is_read_only(self, call: ToolCall) -> bool:
        tool = self.tools.get(call.name)
        return tool is not None and tool.effect is Effect.READ

    async def _side_by_side(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)
        results: dict[int, ToolResult] = {}

        async def one(index: int, call: ToolCall) -> None:
            with contextlib.suppress(Stopped):
                results[index] = await to_thread.run_sync(self._one, call, limiter=limiter)

        async with anyio.create_task_group() as group:
            for index, call in enumerate(calls):
                group.start_soon(one, index, call)
        if len(results) < len(calls):  # raised here, because a task group would wrap it
            raise Stopped
        return [results[index] for index in range(len(calls))]

    def _one(self, call: ToolCall) -> ToolResult:
        try:
            prepared = self._prepare(call)
        except (ToolFailure, TeamError) as error:
            return _error(call, f"Error: {error} The call did not run.")
        except Exception as error:
            # A fault in a check must neither end the agent nor let the call through.
            text = f"Error: the call could not be checked ({type(error).__name__}: {error})."
            return _error(call, f"{text} The call did not run.")
        if isinstance(prepared, ToolResult):
            return prepared
        return self._execute(prepared)

    def _prepare(self, call: ToolCall) -> Prepared | ToolResult:
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(sorted(self.tools))
            named = one_line(call.name, 60)
            return _error(call, f"Error: there is no tool {named!r}. Your tools: {known}.")
        input = validated(tool, call.input)
        call, told = self.hooks.before_call(call, self.place())
        if told.blocked:
            self._denied(call, "hook", told.reason)
            text = f"Refused by a hook: {told.reason}. The call did not run. {_GO_ON}"
            return _error(call, text)
        if told.changed or told.removed:
            input = validated(tool, call.input)
        checked = self._check(tool, call, input, told)
        if checked.decision.verdict is Verdict.ASK:
            checked, told = self._asked(checked, told)
        if checked.decision.verdict is not Verdict.ALLOW:
            return self._refused(checked)
        context = self.context(call.id, checked.place)
        context = replace(context, may=self._may(checked.questions, checked.place))
        return Prepared(checked.call, tool, checked.input, context, told)

    def _check(self, tool: Tool, call: ToolCall, input: Any, told: Outcome) -> Checked:
        """The call as it would run now, and what gate and rules say about it."""
        place = self.place()
        closed = self.gate(tool.effect) if tool.effect in _GATED else None
        questions = [] if closed else questions_about(tool.name, tool.effect, call.input, place)
        closed = closed or self._outside(questions)
        if closed is not None:
            shut = Decision(Verdict.DENY, closed, origin=PLAN_GATE)
            return Checked(tool, call, input, place, (), shut)
        decisions = [weighed(self.permissions.decide(question), told) for question in questions]
        return Checked(tool, call, input, place, questions, strictest(decisions))

    def _asked(self, checked: Checked, told: Outcome) -> tuple[Checked, Outcome]:
        """The call after its question was answered: by a hook, else by a person."""
        call, outcome = self.hooks.instead_of_person(checked)
        if outcome.blocked:
            return checked.denied(f"a hook said no: {outcome.reason}", by_hook=True), told
        if outcome.changed or outcome.removed:
            input = validated(checked.tool, call.input)
            changed = self._check(checked.tool, call, input, told)
            is_denied = changed.decision.verdict is Verdict.DENY
            return changed if is_denied else changed.allowed(), told.followed_by(outcome)
        if outcome.verdict is not Verdict.ALLOW:
            answer = self.ask(checked)
            if not answer.allowed:
                return checked.denied(answer.why, lacks_person=answer.lacks_person), told
        return self._still(checked, told), told

    def _still(self, checked: Checked, told: Outcome) -> Checked:
        """The call after a yes: a gate or a deny rule beats that, and it counts for what was asked
        about and for nothing else."""
        again = self._check(checked.tool, checked.call, checked.input, told)
        if again.decision.verdict is Verdict.DENY:
            return again
        if again.subject.hash != checked.subject.hash:
            return checked.denied("what it is about was changed before the answer came")
        return again.allowed()

    def _refused(self, checked: Checked) -> ToolResult:
        decision, call = checked.decision, checked.call
        rule = decision.rule or decision.origin
        self._denied(call, rule, decision.reason, checked.lacks_person)
        if decision.origin == PLAN_GATE:
            return _error(call, f"Refused: {decision.reason} The call did not run.")
        return _error(call, f"Permission denied: {decision.reason}. The call did not run. {_GO_ON}")

    def _may(self, questions: Sequence[Question], place: Place) -> May:
        """Covers the paths that were decided about, and every one that is allowed outright."""
        decided = {question.path for question in questions}

        def may(path: str) -> bool:
            question = _about(questions[0], path, place)
            known = path in decided or self.permissions.decide(question).verdict is Verdict.ALLOW
            return known and self._outside([question]) is None

        return may

    def _outside(self, questions: Sequence[Question]) -> str | None:
        """Why the approved plan does not cover an edit, or `None`."""
        edited = [q.path for q in questions if q.effect is Effect.EDIT and q.path is not None]
        return next(filter(None, map(self.outside, edited)), None)

    def _denied(self, call: ToolCall, rule: str, reason: str, nobody: bool = False) -> None:
        told = {"tool": call.name, "rule": rule, "reason": reason, "nobody": nobody}
        self.emit("permission_denied", self.agent, **told)

    def _execute(self, prepared: Prepared) -> ToolResult:
        call, started = prepared.call, self.clock.monotonic()
        self.emit(
            "tool_started", self.agent, tool=call.name, id=call.id, input=_summary(call.input)
        )
        try:
            result = ToolResult(call.id, scrub(prepared.tool.run(prepared.input, prepared.context)))
        except (ToolFailure, TeamError) as error:
            result = _error(call, str(error))
        except Exception as error:
            # A tool's own fault must not end the agent; the model is told that the outcome is open.
            result = _error(
                call,
                f"Error: the tool failed ({type(error).__name__}: {error}); its effect is unknown.",
            )
        seconds = self.clock.monotonic() - started
        self.emit(
            "tool_ended",
            self.agent,
            tool=call.name,
            id=call.id,
            is_error=result.is_error,
            seconds=round(seconds, 6),
        )
        return self._finalized(prepared, result, seconds)

    def _finalized(self, prepared: Prepared, result: ToolResult, seconds: float) -> ToolResult:
        """The result with what hooks add to it."""
        told = prepared.told
        result = self.hooks.after_call(prepared.call, prepared.context, result, seconds)
        changes = [f"set {key} to {value}" for key, value in told.changed.items()]
        changes += [f"removed {key}" for key in sorted(told.removed)]
        if changes:
            said = one_line(f"The input was changed before the call ran: {'; '.join(changes)}", 500)
            result = with_context(result, PRE_TOOL_USE, said)
        return with_context(result, PRE_TOOL_USE, told.context)


def validated(tool: Tool | type[Tool], input: Json) -> Any:
    """The input as the tool's model. Raises `ToolFailure` with every fault in one line."""
    from pydantic import ValidationError

    if not isinstance(input, dict):
        raise ToolFailure("the input is not a JSON object.")
    if set(input) == {INVALID_JSON}:
        raise ToolFailure(f"the input is not valid JSON: {one_line(str(input[INVALID_JSON]), 200)}")
    try:
        return tool.input_model.model_validate(input, strict=True)
    except ValidationError as error:
        faults = [
            f"{one_line('.'.join(map(str, fault['loc'])), 60) or 'input'}: {fault['msg']}"
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise ToolFailure(f"{tool.name}: {'; '.join(faults[:5])}.") from error


def questions_about(tool: str, effect: Effect, input: Json, place: Place) -> list[Question]:
    """What the permission check is asked: about the path as it was named and, where links lead
    elsewhere, about the one they lead to. Raises `ToolFailure` for a path that cannot be."""
    question = Question(tool, effect, input, None, place.in_task)
    if effect not in (Effect.READ, Effect.EDIT):
        return [question, *_later(question)]
    named = input.get("path") or "."
    with explained(named, place.root):
        try:
            paths = dict.fromkeys([relative(place.root, named), Beneath(place.root).resolve(named)])
        except OutsideRoot:
            if effect is Effect.EDIT:
                raise
            return [question]  # the tool knows whether it may be read all the same
    return [_about(question, path, place) for path in paths]


def _later(question: Question) -> list[Question]:
    """What is asked about a command that the runtime will run because of the call."""
    given = question.input.get(_RUN_LATER.get(question.tool, ""))
    if not isinstance(given, str):
        return []
    command = {"command": given}
    return [Question("bash", Effect.COMMAND, command, None, question.in_task, is_check=True)]


def _about(question: Question, path: str, place: Place) -> Question:
    hidden = is_private(path) or is_within(path, place.secrets)
    return replace(question, path=path, protected=is_protected(path), hidden=hidden)


def _summary(input: Json) -> dict[str, str]:
    """The call's input, short enough for a log line."""
    return {key: one_line(str(value)[:1000], 200) for key, value in input.items()}


def _error(call: ToolCall, text: str) -> ToolResult:
    return ToolResult(call.id, scrub(text), is_error=True)
