"""Hooks as one agent meets them: around its tool calls, at the end of its turns, at its beginning
and its end. The same for the lead and for every teammate."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from team_runtime.crossing import Stopped
from team_runtime.errors import TeamError
from team_runtime.events import Emit, no_events
from team_runtime.guard.claude_names import claude_name, rewritten, to_claude
from team_runtime.guard.hook_events import (
    PERMISSION_REQUEST,
    POST_TOOL_USE,
    POST_TOOL_USE_FAILURE,
    PRE_TOOL_USE,
    STOP,
    SUBAGENT_START,
    SUBAGENT_STOP,
    TEAMMATE,
    TEAMMATE_IDLE,
)
from team_runtime.guard.hook_outcome import NOTHING, WITHHELD, Outcome
from team_runtime.guard.hooks import BLOCKS_IN_A_ROW, Hooks, Occasion, no_hooks
from team_runtime.loop.asking import Checked
from team_runtime.text import element
from team_runtime.tools.base import Place, ToolContext
from team_runtime.tools.output import instead
from team_runtime.types import Json, ToolCall, ToolResult

CLOSING_SECONDS: Final = 10.0
"""How long a hook may take that is told of an end."""


@dataclass(frozen=True)
class AgentHooks:
    """The hooks of a run, for one agent."""

    agent: str = ""
    is_lead: bool = True
    hooks: Hooks = field(default_factory=no_hooks)
    emit: Emit = no_events
    going_on: Callable[[], Mapping[str, Json]] = dict
    """What the run still does and will do, as hooks are told at an end."""

    def before_call(self, call: ToolCall, place: Place) -> tuple[ToolCall, Outcome]:
        """Ask about a call whose input is valid. Returns it as the hooks rewrote it, which is yet
        to be validated and decided about, and what they said."""
        if not self.hooks.listens(PRE_TOOL_USE):
            return call, NOTHING
        outcome = self._fire(PRE_TOOL_USE, _told(call, place), call.name)
        return _rewritten(call, outcome), outcome

    def instead_of_person(self, checked: Checked) -> tuple[ToolCall, Outcome]:
        """Let hooks answer what a person would be asked. Returns the call as they rewrote it, which
        is yet to be decided about, and what they said."""
        call = checked.call
        if not self.hooks.listens(PERMISSION_REQUEST):
            return call, NOTHING
        payload = {
            **_told(call, checked.place),
            "reason": checked.decision.reason,
            "permission_suggestions": _suggested(checked.always),
        }
        outcome = self._fire(PERMISSION_REQUEST, payload, call.name)
        return _rewritten(call, outcome), outcome

    def after_call(
        self, call: ToolCall, context: ToolContext, result: ToolResult, seconds: float
    ) -> ToolResult:
        """The result with what hooks have to say about it, or what they put in its place. A stop
        meanwhile does not lose it, unless some hook has to see it."""
        event = POST_TOOL_USE_FAILURE if result.is_error else POST_TOOL_USE
        if not self.hooks.listens(event):
            return result
        answer: Json = result.content if result.is_error else {"content": result.content}
        payload = {
            **_told(call, context.place),
            "error" if result.is_error else "tool_response": answer,
            "duration_ms": round(seconds * 1000),
        }
        try:
            outcome = self._fire(event, payload, call.name)
        except Stopped:
            must = self.hooks.must_see(event, Occasion(self.agent, payload, call.name))
            outcome = Outcome(output=WITHHELD) if must else NOTHING
        if outcome.output is not None:
            result = _replaced(result, outcome.output, context)
        said = f"blocked: {outcome.reason}" if outcome.blocked else ""
        return with_context(with_context(result, event, said), event, outcome.context)

    def before_end(self, text: str, times: int) -> str | None:
        """Why the agent may not end its turn yet, or `None`. It ended it with `text`, and was kept
        from it `times` in a row."""
        event = STOP if self.is_lead else TEAMMATE_IDLE
        if not self.hooks.listens(event):
            return None
        payload: dict[str, Json] = {"stop_hook_active": times > 0, "last_assistant_message": text}
        if self.is_lead:
            payload |= self.going_on()
        outcome = self._fire(event, payload)
        if not outcome.blocked or outcome.halt is not None:
            return None
        if times >= BLOCKS_IN_A_ROW:
            kept = f"hooks kept {self.agent} from ending its turn {times} times in a row"
            self.emit("notice", self.agent, text=f"{kept}; now it ends: {outcome.reason}")
            return None
        return f"[runtime] A {event} hook asks you to go on: {outcome.reason}"

    def begun(self) -> str:
        """Tell that a teammate's life begins. Returns context for its first request."""
        if self.is_lead or not self.hooks.listens(SUBAGENT_START):
            return ""
        return shown(SUBAGENT_START, self._fire(SUBAGENT_START, {}, TEAMMATE).context)

    def ended(self, reason: str) -> None:
        """Tell that a teammate's life has ended, whatever ended it."""
        if not self.is_lead and self.hooks.listens(SUBAGENT_STOP):
            self.hooks.detach(self.agent)  # its own waits may have been stopped
            self.hooks.fire(
                SUBAGENT_STOP,
                Occasion(
                    self.agent, {"reason": reason, **self.going_on()}, TEAMMATE, CLOSING_SECONDS
                ),
            )

    def _fire(self, event: str, payload: Mapping[str, Json], subject: str = "") -> Outcome:
        return self.hooks.fire(event, Occasion(self.agent, payload, subject))


def _replaced(result: ToolResult, output: str, context: ToolContext) -> ToolResult:
    """The result with another content, of whatever size."""
    try:
        content = instead(output, context)
    except (TeamError, OSError) as error:
        content = f"{WITHHELD} ({error})"
    return replace(result, content=content)


def shown(event: str, context: str) -> str:
    """What hooks added, as text for a model; empty when they added nothing."""
    return element("hook_context", {"event": event}, context) if context else ""


def with_context(result: ToolResult, event: str, context: str) -> ToolResult:
    """The result, followed by what a hook added to it."""
    if not context:
        return result
    return replace(result, content=f"{result.content}\n{shown(event, context)}")


def _suggested(rules: Sequence[str]) -> list[Json]:
    """What a person who says "always" would have kept, in Claude Code's form."""
    if not rules:
        return []
    parts = [re.fullmatch(r"(\w+)\((.*)\)", rule, re.DOTALL) for rule in rules]
    told = [{"toolName": part[1], "ruleContent": part[2]} for part in parts if part]
    return [
        {"type": "addRules", "rules": told, "behavior": "allow", "destination": "localSettings"}
    ]


def _rewritten(call: ToolCall, outcome: Outcome) -> ToolCall:
    if not outcome.changed and not outcome.removed:
        return call
    return replace(call, input=rewritten(call.name, call.input, outcome.changed, outcome.removed))


def _told(call: ToolCall, place: Place) -> dict[str, Json]:
    return {
        "cwd": str(place.root),
        "tool_name": claude_name(call.name),
        "tool_input": to_claude(call.name, call.input, place.root),
        "tool_use_id": call.id,
    }
