"""Getting one usable reply: what each stop reason means for the loop.

Follows the Messages API's stop reasons: only `tool_use` runs calls; a cut or refused reply never
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from team_runtime.errors import ModelFailed
from team_runtime.loop.conversation import Conversation, text_block
from team_runtime.models import base as api
from team_runtime.models.base import Model, ModelReply, ModelRequest, RetryNotice
from team_runtime.tools.base import Waiter
from team_runtime.types import Block, ToolResult

MAX_TOKENS: Final = (16_384, 65_536)
"""Output tokens of a first try, and of the second when the first was cut."""
_CONTINUATIONS: Final = 3
_REFUSALS: Final = 2
_PAUSES: Final = 10
_KNOWN: Final = {api.END_TURN, api.TOOL_USE, api.STOP_SEQUENCE}


@dataclass(frozen=True)
class Caller:
    """Whose model calls these are, and with what."""

    agent: str
    session: str
    model: Model
    model_name: str
    wait: Waiter
    on_retry: RetryNotice
    may_call: Callable[[], None]
    """Counts one model call against the limits; raises `LimitReached`."""


def ask(caller: Caller, conversation: Conversation) -> ModelReply:
    """The model's next reply, appended to the conversation unless it has to be dropped.

    Raises `ModelFailed` when no usable reply can be had.
    """
    continuations = refusals = pauses = cuts = 0
    while True:
        reply = _call(caller, conversation, MAX_TOKENS[min(cuts, len(MAX_TOKENS) - 1)])
        reason = reply.stop_reason
        if reason in _KNOWN:
            conversation.append_reply(reply)
            return reply
        if reason == api.PAUSE_TURN and pauses < _PAUSES:
            conversation.append_reply(reply)
            pauses += 1
        elif reason == api.MAX_TOKENS and cuts < len(MAX_TOKENS) - 1:
            conversation.count_dropped(reply)
            cuts += 1
        elif reason == api.MAX_TOKENS and continuations < _CONTINUATIONS:
            _keep_cut(conversation, reply)
            continuations += 1
        elif reason == api.REFUSAL and refusals < _REFUSALS:
            conversation.count_dropped(reply)
            conversation.append_user([text_block(_refused(reply))])
            refusals += 1
        else:
            conversation.count_dropped(reply)
            raise _unusable(reply)


def _call(caller: Caller, conversation: Conversation, max_tokens: int) -> ModelReply:
    caller.may_call()
    request = ModelRequest(
        model=caller.model_name,
        agent=caller.agent,
        user_id=f"{caller.session}/{caller.agent}/{conversation.epoch}",
        tools=conversation.tools,
        system=conversation.system,
        messages=conversation.messages(),
        max_tokens=max_tokens,
    )
    return caller.wait(caller.model.reply, request, caller.on_retry)


def _keep_cut(conversation: Conversation, reply: ModelReply) -> None:
    """Keep a reply that was cut at the highest limit: its calls are answered, never run."""
    conversation.append_reply(replace(reply, content=_without_cut_thinking(reply.content)))
    answers: list[Block] = [
        ToolResult(
            call.id,
            "This call was cut off by the output limit and did not run. Make it again in smaller "
            "pieces.",
            is_error=True,
        ).block()
        for call in reply.calls
    ]
    if not answers:
        answers.append(text_block("Your reply was cut off by the output limit. Continue."))
    conversation.append_user(answers)


def _without_cut_thinking(content: Sequence[Block]) -> tuple[Block, ...]:
    """The blocks but for thinking at the end: cut off, it cannot be sent back."""
    kept = list(content)
    while kept and kept[-1].get("type") in ("thinking", "redacted_thinking"):
        kept.pop()
    return tuple(kept)


def _refused(reply: ModelReply) -> str:
    category = reply.stop_details.get("category") or "unnamed"
    return (
        f"[runtime] The last reply was declined by a safety classifier (category: {category}) and "
        "was not kept; nothing of it ran. Go on with the task in another way."
    )


def _unusable(reply: ModelReply) -> ModelFailed:
    reason = reply.stop_reason
    causes = {
        api.REFUSAL: ("the model declined to answer", "rephrase the request or use another model."),
        api.MAX_TOKENS: ("the reply was cut off again and again", "ask for smaller steps."),
        api.CONTEXT_FULL: ("the conversation fills the model's context", "start a new session."),
        api.PAUSE_TURN: ("the model paused too often", "try again."),
    }
    cause, hint = causes.get(
        reason, (f"the reply ended for a reason we do not know ({reason})", "try again.")
    )
    return ModelFailed(cause=cause, kind=reason, hint=hint)
