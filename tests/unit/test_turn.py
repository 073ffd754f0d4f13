"""What each stop reason means: which replies are kept, which calls run, what is asked next."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import anyio
import pytest

from team_runtime.errors import LimitReached, ModelFailed
from team_runtime.loop.conversation import Conversation, text_block
from team_runtime.loop.turn import MAX_TOKENS, Caller, ask
from team_runtime.models.base import INVALID_JSON, ModelReply, ModelRequest, RetryNotice
from team_runtime.sessions.transcript import Transcript
from tests.support.scripted_team import call, reply
from tests.support.state import make_store

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stub:
    """A model that gives these replies in turn and keeps what it was asked."""

    def __init__(self, *replies: ModelReply) -> None:
        self._replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        self.requests.append(request)
        return self._replies.pop(0)

    async def close(self) -> None:
        """Nothing to give back."""

    @property
    def left(self) -> int:
        return len(self._replies)


def wait(func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    return anyio.run(func, *args)


@pytest.fixture
def conversation(tmp_path: Path) -> Conversation:
    store = make_store(tmp_path)
    conversation = Conversation(Transcript(store, store.layout.sessions / "s" / "a.jsonl"))
    conversation.begin("m", ["You are anna, a teammate in team t. Role: r"], [])
    conversation.append_user([text_block("go")])
    return conversation


def asked(model: Stub, conversation: Conversation) -> ModelReply:
    caller = Caller("anna", "s", model, "m", wait, lambda *_: None, lambda: None)
    return ask(caller, conversation)


def sent(conversation: Conversation) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(m["role"], m["content"]) for m in json.loads(conversation.messages())]


def texts(blocks: Sequence[dict[str, Any]]) -> str:
    return " ".join(str(b.get("text") or b.get("content") or "") for b in blocks)


@pytest.mark.parametrize("reason", ["end_turn", "stop_sequence", "tool_use"])
def test_a_reply_that_ends_properly_is_kept_as_it_came(
    conversation: Conversation, reason: str
) -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "x"}
    given = reply(thinking, "Yes.", call("glob", pattern="*"), stop=reason)
    assert asked(Stub(given), conversation) is given
    assert sent(conversation)[-1] == ("assistant", list(given.content))


def test_an_empty_end_of_turn_is_taken_as_it_is(conversation: Conversation) -> None:
    model = Stub(reply(stop="end_turn"), reply("never asked for"))
    assert asked(model, conversation).text == ""
    assert model.left == 1
    assert [role for role, _ in sent(conversation)] == ["user"]


def test_tool_use_without_a_call_asks_for_nothing(conversation: Conversation) -> None:
    answer = asked(Stub(reply("I will call.", stop="tool_use")), conversation)
    assert answer.calls == []


def test_a_reply_that_is_cut_the_first_time_is_asked_for_again_with_more_room(
    conversation: Conversation,
) -> None:
    model = Stub(reply("half", stop="max_tokens"), reply("whole"))
    assert asked(model, conversation).text == "whole"
    first, second = model.requests
    assert (first.max_tokens, second.max_tokens) == MAX_TOKENS
    assert first.messages == second.messages
    assert "half" not in texts(sent(conversation)[-1][1])
    assert conversation.usage.output == 2, "the dropped reply was paid for"


def test_a_reply_that_is_cut_again_is_kept_and_continued(conversation: Conversation) -> None:
    cut = [reply(text, stop="max_tokens") for text in ("lost", "part one,", "part two,")]
    model = Stub(*cut, reply("end."))
    assert asked(model, conversation).text == "end."
    assert [role for role, _ in sent(conversation)] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert "lost" not in str(sent(conversation))
    assert "cut off by the output limit" in texts(sent(conversation)[2][1])


def test_a_call_in_a_cut_reply_never_runs_and_is_answered(conversation: Conversation) -> None:
    broken = {**call("write_file"), "input": {INVALID_JSON: '{"path": "a'}}
    cut = reply("Writing.", call("bash", command="ls"), broken, stop="max_tokens")
    answer = asked(Stub(cut, cut, reply("In pieces, then.")), conversation)
    assert answer.calls == []
    results = sent(conversation)[2][1]
    assert [r["tool_use_id"] for r in results] == [c.id for c in cut.calls]
    assert all(r["is_error"] and "did not run" in r["content"] for r in results)
    assert conversation.open_calls == []


def test_thinking_that_was_cut_off_does_not_go_back(conversation: Conversation) -> None:
    thought = {"type": "thinking", "thinking": "I was just", "signature": ""}
    cut = reply(thought, stop="max_tokens")
    asked(Stub(cut, cut, reply("Done.")), conversation)
    assert [role for role, _ in sent(conversation)] == ["user", "assistant"]
    assert "I was just" not in str(sent(conversation))


def test_a_reply_that_is_always_cut_ends_with_an_error(conversation: Conversation) -> None:
    model = Stub(*[reply("more", stop="max_tokens")] * 20)
    with pytest.raises(ModelFailed, match="cut off again and again") as failure:
        asked(model, conversation)
    assert failure.value.kind == "max_tokens"
    assert model.left > 10


def test_a_refused_reply_is_dropped_and_its_calls_never_run(conversation: Conversation) -> None:
    refused = reply(
        "I cannot", call("bash", command="rm -r ."), stop="refusal", stop_details={"category": "x"}
    )
    answer = asked(Stub(refused, reply("Another way.")), conversation)
    assert answer.text == "Another way."
    (role, told), _ = sent(conversation)
    assert role == "user"
    assert "(category: x)" in texts(told)
    assert "nothing of it ran" in texts(told)
    assert "rm -r" not in str(sent(conversation))


def test_a_model_that_always_refuses_ends_with_an_error(conversation: Conversation) -> None:
    model = Stub(*[reply(stop="refusal")] * 20)
    with pytest.raises(ModelFailed, match="declined to answer") as failure:
        asked(model, conversation)
    assert failure.value.kind == "refusal"
    assert model.left > 10


def test_a_pause_is_sent_back_as_it_came_and_goes_on(conversation: Conversation) -> None:
    paused = reply("Searching.", stop="pause_turn")
    model = Stub(paused, paused, reply("Found."))
    assert asked(model, conversation).text == "Found."
    second = json.loads(model.requests[1].messages)
    assert second[-1] == {"role": "assistant", "content": list(paused.content)}
    assert [role for role, _ in sent(conversation)] == ["user", "assistant"]


def test_a_model_that_always_pauses_ends_with_an_error(conversation: Conversation) -> None:
    model = Stub(*[reply("Searching.", stop="pause_turn")] * 40)
    with pytest.raises(ModelFailed, match="paused too often"):
        asked(model, conversation)
    assert model.left > 20


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("model_context_window_exceeded", "fills the model's context"),
        ("compaction", "do not know"),
        ("something_new", "something_new"),
    ],
)
def test_any_other_reason_is_reported_and_nothing_runs(
    conversation: Conversation, reason: str, said: str
) -> None:
    model = Stub(reply("x", call("bash", command="ls"), stop=reason), reply("never asked for"))
    with pytest.raises(ModelFailed, match=said) as failure:
        asked(model, conversation)
    assert failure.value.kind == reason
    assert model.left == 1
    assert [role for role, _ in sent(conversation)] == ["user"]
    assert conversation.usage.output == 1


def test_every_call_of_one_turn_counts_against_the_limit(conversation: Conversation) -> None:
    counted: list[int] = []

    def may_call() -> None:
        counted.append(1)
        if len(counted) > 2:
            raise LimitReached("turns", "2")

    model = Stub(*[reply("more", stop="max_tokens")] * 9)
    caller = Caller("anna", "s", model, "m", wait, lambda *_: None, may_call)
    with pytest.raises(LimitReached):
        ask(caller, conversation)
    assert len(model.requests) == 2


def test_a_request_names_the_session_the_agent_and_the_epoch(conversation: Conversation) -> None:
    model = Stub(reply("one"), reply("two"))
    asked(model, conversation)
    conversation.begin("m", ["You are anna, a teammate in team t. Role: r"], [])
    conversation.append_user([text_block("go")])
    asked(model, conversation)
    assert [r.user_id for r in model.requests] == ["s/anna/1", "s/anna/2"]
    assert {r.agent for r in model.requests} == {"anna"}
