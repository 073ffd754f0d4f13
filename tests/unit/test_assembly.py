"""A reply is put together from raw events exactly as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.models.assembly import Assembly, parse_input
from team_runtime.models.base import INVALID_JSON, ModelReply
from team_runtime.types import Usage

Event = dict[str, Any]


def start(block: Event, index: int = 0) -> Event:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(kind: str, index: int = 0, **fields: Any) -> Event:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def message(*events: Event, stop_reason: str | None = "end_turn") -> list[Event]:
    return [
        {"type": "message_start", "message": {"model": "m-1", "usage": {"input_tokens": 9}}},
        *events,
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop_reason},
            "usage": {"output_tokens": 5, "input_tokens": None},
        },
        {"type": "message_stop"},
    ]


def assembled(*events: Event) -> ModelReply:
    assembly = Assembly()
    for event in message(*events):
        assembly.feed(event)
    return assembly.reply("asked")


def tool_input(*pieces: str) -> Any:
    block = {"type": "tool_use", "id": "t", "name": "bash", "input": {}}
    deltas = [delta("input_json_delta", partial_json=piece) for piece in pieces]
    return assembled(start(block), *deltas).calls[0].input


def test_blocks_come_out_in_order_and_whole() -> None:
    reply = assembled(
        start({"type": "thinking", "thinking": "", "signature": ""}),
        delta("thinking_delta", thinking="h"),
        delta("thinking_delta", thinking="m"),
        delta("signature_delta", signature="sig"),
        start({"type": "redacted_thinking", "data": "xyz"}, 1),
        start({"type": "text", "text": ""}, 2),
        delta("text_delta", 2, text="gr"),
        delta("text_delta", 2, text="üß"),
    )

    assert reply.content == (
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "grüß"},
    )
    assert (reply.model, reply.usage) == ("m-1", Usage(input=9, output=5))


def test_an_omitted_thought_keeps_its_signature() -> None:
    reply = assembled(
        start({"type": "thinking", "thinking": "", "signature": ""}),
        delta("signature_delta", signature="sig"),
    )

    assert reply.content == ({"type": "thinking", "thinking": "", "signature": "sig"},)


def test_unknown_events_blocks_and_deltas_are_tolerated_and_kept() -> None:
    reply = assembled(
        {"type": "weather"},
        start({"type": "future", "data": 1}),
        delta("future_delta", note="a"),
        delta("future_delta", note="b", data=2),
    )

    assert reply.content == ({"type": "future", "data": 2, "note": "ab"},)


def test_citations_are_collected() -> None:
    reply = assembled(
        start({"type": "text", "text": "", "citations": None}),
        delta("text_delta", text="x"),
        delta("citations_delta", citation={"n": 1}),
        delta("citations_delta", citation={"n": 2}),
    )

    assert reply.content == ({"type": "text", "text": "x", "citations": [{"n": 1}, {"n": 2}]},)


@pytest.mark.parametrize(
    "events",
    [
        message(stop_reason=None),
        message()[:-1],
        message()[:1],
        [],
    ],
    ids=["no stop reason", "no message_stop", "only the start", "nothing"],
)
def test_a_reply_without_a_proper_end_is_not_complete(events: list[Event]) -> None:
    assembly = Assembly()
    for event in events:
        assembly.feed(event)

    assert not assembly.complete


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        delta("text_delta", 7, text="for a block that never began"),
        {"type": "content_block_start", "index": 0},
        {"type": "content_block_start", "index": 0, "content_block": {"text": "no type"}},
        {"type": "message_delta", "delta": None},
    ],
    ids=repr,
)
def test_an_event_of_the_wrong_shape_is_a_value_error(event: Any) -> None:
    with pytest.raises(ValueError, match="unexpected shape"):
        Assembly().feed(event)


def test_a_tool_call_without_a_name_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="without an id or a name"):
        assembled(start({"type": "tool_use", "id": "t", "input": {}}))


def test_two_tool_calls_with_one_id_are_a_value_error() -> None:
    twice = {"type": "tool_use", "id": "t", "name": "n", "input": {}}
    with pytest.raises(ValueError, match="two tool calls with one id"):
        assembled(start(twice), start(twice, 1))


def test_no_deltas_are_an_empty_input() -> None:
    assert tool_input() == {}
    assert tool_input("") == {}


@pytest.mark.parametrize(
    "text",
    ['{"path": "a.py", "con', "{'a': 1}", "[1]", '"x"', '{"n": NaN}', "[" * 100_000, "x"],
    ids=["cut", "single quotes", "a list", "a text", "NaN", "too deep", "no JSON"],
)
def test_input_that_is_no_json_object_is_kept_as_text(text: str) -> None:
    assert tool_input(text[:3], text[3:]) == {INVALID_JSON: text}


def test_half_a_character_never_reaches_a_tool() -> None:
    broken = '{"text": "\\ud83d"}'

    assert tool_input(broken) == {INVALID_JSON: broken}


def test_an_escaped_pair_is_one_character() -> None:
    assert tool_input('{"text": "\\ud83d', '\\ude00"}') == {"text": "😀"}


def test_a_character_whose_halves_come_in_two_events_is_whole_again() -> None:
    reply = assembled(
        start({"type": "text", "text": ""}),
        delta("text_delta", text="a\ud83d"),
        delta("text_delta", text="\ude00b\ud83d"),
    )

    assert reply.text == "a😀b\ufffd"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), st.data())
def test_any_input_survives_any_cutting_into_pieces(value: Any, data: st.DataObject) -> None:
    text = json.dumps({"value": value}, ensure_ascii=data.draw(st.booleans()))
    at = data.draw(st.integers(0, len(text)))

    assert tool_input(text[:at], text[at:]) == {"value": value}


@given(st.text(st.characters(codec=None)))
def test_whatever_was_streamed_can_be_encoded(text: str) -> None:
    json.dumps(parse_input(text), ensure_ascii=False).encode()
