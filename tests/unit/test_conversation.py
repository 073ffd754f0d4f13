"""A conversation only grows, in bytes, whatever happens to it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.loop.conversation import Conversation, text_block
from team_runtime.models.base import INVALID_JSON, ModelReply
from team_runtime.sessions.transcript import Transcript
from team_runtime.types import Block, ToolResult, Usage
from tests.support.state import make_store

SYSTEM = ["The team.", "A teammate.", "You are anna, a teammate in team t. Role: r"]


@contextmanager
def transcript() -> Iterator[Transcript]:
    with tempfile.TemporaryDirectory() as folder:
        store = make_store(Path(folder))
        yield Transcript(store, store.layout.sessions / "s" / "anna.jsonl")


def begun(lines: Transcript) -> Conversation:
    conversation = Conversation(lines)
    conversation.begin("m", SYSTEM, [{"name": "b"}, {"name": "a"}])
    return conversation


def said(*content: Block, stop: str = "end_turn") -> ModelReply:
    return ModelReply(content, stop, Usage(input=3, output=2), "m")


def tool(number: int) -> Block:
    return {"type": "tool_use", "id": f"t{number}", "name": "a", "input": {"n": number}}


def roles(conversation: Conversation) -> list[str]:
    return [m["role"] for m in json.loads(conversation.messages())]


def without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_marks(v) for k, v in value.items() if k != "cache_control"}
    return [without_marks(item) for item in value] if isinstance(value, list) else value


def flat(conversation: Conversation) -> list[tuple[str, Any]]:
    """Every block of the request with its role, in order: what a prompt is made of."""
    messages = without_marks(json.loads(conversation.messages()))
    return [(m["role"], block) for m in messages for block in m["content"]]


def marked(data: bytes) -> list[Any]:
    return [b for m in json.loads(data) for b in m["content"] if "cache_control" in b]


texts = st.text(max_size=20)
blocks = st.one_of(
    texts.map(text_block),
    st.builds(
        lambda s: {"type": "thinking", "thinking": s, "signature": "sig", "unknown": [1]}, texts
    ),
    st.integers(0, 9).map(tool),
)
entries = st.lists(
    st.tuples(
        st.sampled_from(["user", "mail", "assistant", "dropped", "results", "asked"]),
        st.lists(blocks, max_size=3),
    ),
    max_size=25,
)


def apply(conversation: Conversation, number: int, kind: str, content: list[Block]) -> None:
    if kind == "user":
        conversation.append_user([b for b in content if b["type"] == "text"])
    elif kind == "mail":
        conversation.append_user([text_block(f"<mail {number}>")], [f"m{number}"])
    elif kind == "results":
        answers = [ToolResult(call, "out").block() for call in conversation.open_calls]
        conversation.append_user(answers)
    elif kind == "assistant":
        conversation.append_reply(said(*content))
    elif kind == "dropped":
        conversation.count_dropped(said(*content))


@given(entries)
@settings(max_examples=60)
def test_each_request_begins_with_the_whole_of_the_one_before(
    steps: list[tuple[str, list[Block]]],
) -> None:
    with transcript() as lines:
        conversation = begun(lines)
        before: list[tuple[str, Any]] = []
        for number, (kind, content) in enumerate(steps):
            apply(conversation, number, kind, content)
            now = flat(conversation)
            assert now[: len(before)] == before
            assert len(marked(conversation.messages())) <= 2
            before = now
        assert conversation.messages() == Conversation(lines).messages()


@given(entries)
@settings(max_examples=40)
def test_read_again_after_every_step_it_makes_the_same_requests(
    steps: list[tuple[str, list[Block]]],
) -> None:
    with transcript() as lines:
        kept = begun(lines)
        for number, (kind, content) in enumerate(steps):
            apply(kept, number, kind, content)
            again = Conversation(lines)
            assert (again.system, again.tools) == (kept.system, kept.tools)
            assert again.messages() == kept.messages()
            assert (again.usage, again.replies, again.open_calls, again.unanswered) == (
                kept.usage,
                kept.replies,
                kept.open_calls,
                kept.unanswered,
            )


def test_a_request_has_at_most_four_cache_marks_with_those_of_the_system() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        for number in range(5):
            conversation.append_user([text_block(f"question {number}")])
            conversation.messages()
            conversation.append_reply(said(text_block(f"answer {number}")))
        conversation.append_user([text_block("last")])
        system = [b for b in json.loads(conversation.system) if "cache_control" in b]
        messages = marked(conversation.messages())
        assert [b["text"] for b in messages] == ["question 4", "last"]
        assert [b["text"] for b in system] == SYSTEM[1:]


def test_the_mark_before_a_long_answer_stays_where_the_cache_has_it() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")])
        conversation.append_reply(said(*(tool(n) for n in range(64)), stop="tool_use"))
        conversation.append_user([ToolResult(f"t{n}", "out").block() for n in range(64)])
        conversation.append_user([text_block("mail")], ["m1"])
        assert [b.get("text") for b in marked(conversation.messages())] == ["go", "mail"]


def test_a_thinking_block_goes_back_exactly_as_it_came_and_never_has_a_mark() -> None:
    thinking = {"type": "thinking", "thinking": "", "signature": "é\u2028/+=", "later": None}
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")])
        conversation.append_reply(said(thinking, stop="pause_turn"))
        sent = json.loads(conversation.messages())
        assert sent[-1] == {"role": "assistant", "content": [thinking]}
        assert json.loads(Conversation(lines).messages()) == sent


@pytest.mark.parametrize("torn", [b'{"v":1,"kind":"us', b'{"v":1,"kind":"user","blocks":[]}'])
def test_a_torn_last_line_is_as_if_it_had_not_been_written(torn: bytes) -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("kept")])
        whole = conversation.messages()
        with lines.path.open("ab") as file:
            file.write(torn)
        again = Conversation(lines)
        assert again.messages() == whole
        again.append_user([text_block("more")])
        assert again.messages() == Conversation(lines).messages()
        assert [text for _, text in flat(again)] == [text_block("kept"), text_block("more")]


@pytest.mark.parametrize("blank", ["", " ", "\n\t "])
def test_blank_text_reaches_no_request(blank: str) -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block(blank)])
        assert conversation.messages() == b"[]"
        conversation.append_user([text_block("go"), text_block(blank)])
        conversation.append_reply(said(text_block(blank), tool(1), stop="tool_use"))
        conversation.append_user([ToolResult("t1", blank).block()])
        assert [b.get("text", b.get("content")) for _, b in flat(conversation)] == [
            "go",
            None,
            "(no output)",
        ]


def test_two_user_entries_become_one_message() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("one")])
        conversation.append_user([text_block("two")], ["m1"])
        assert roles(conversation) == ["user"]
        assert conversation.delivered == {"m1"}


def test_an_empty_reply_leaves_no_message_and_counts_its_tokens() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")])
        conversation.append_reply(said())
        assert roles(conversation) == ["user"]
        assert not conversation.unanswered
        assert conversation.usage == Usage(input=3, output=2)
        conversation.append_user([text_block("more")])
        assert roles(conversation) == ["user"]


def test_an_input_that_was_no_json_goes_back_as_it_began() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")])
        broken = {**tool(1), "input": {INVALID_JSON: '{"n": '}}
        conversation.append_reply(said(broken, stop="tool_use"))
        assert flat(conversation)[-1] == ("assistant", {**tool(1), "input": {}})


def test_results_answer_the_open_calls_whatever_their_order() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")])
        conversation.append_reply(said(tool(1), tool(2), tool(3), stop="tool_use"))
        conversation.append_user([ToolResult("t2", "out").block()])
        assert conversation.open_calls == ["t1", "t3"]
        assert Conversation(lines).open_calls == ["t1", "t3"]


def test_a_new_epoch_starts_from_nothing_but_keeps_what_was_used_and_delivered() -> None:
    with transcript() as lines:
        conversation = begun(lines)
        conversation.append_user([text_block("go")], ["m1"])
        conversation.append_reply(said(text_block("done")))
        conversation.begin("other", SYSTEM[:1], [])
        assert (conversation.epoch, conversation.model) == (2, "other")
        assert conversation.messages() == b"[]"
        assert conversation.delivered == {"m1"}
        assert conversation.usage == Usage(input=3, output=2)
        conversation.append_user([text_block("again")])
        assert conversation.messages() == Conversation(lines).messages()
