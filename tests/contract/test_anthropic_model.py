"""The Messages API adapter, through the real SDK and real sockets, against a scripted service."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from team_runtime.clock import SystemClock, SystemEntropy
from team_runtime.errors import ModelFailed, ModelRejected
from team_runtime.models.anthropic import AnthropicModel, Waits
from team_runtime.models.base import (
    INVALID_JSON,
    MAX_TOKENS,
    REFUSAL,
    TOOL_USE,
    Model,
    ModelReply,
)
from team_runtime.models.retry import Patience
from tests.contract.model_contract import Line, ModelContract
from tests.support import fake_messages as fake
from tests.support.fake_messages import FakeMessages
from tests.support.talk import Talk

KEY = "sk-test-1234567890"
SHORT = Waits(idle=0.3, wall=5, goodbye=0.3)
LONG_TEXT = "A reply that comes in several pieces, with an ümlaut or two. " * 4


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("API_KEY", "AUTH_TOKEN", "BASE_URL", "PROFILE", "CUSTOM_HEADERS"):
        monkeypatch.delenv(f"ANTHROPIC_{name}", raising=False)
    monkeypatch.delenv("ANTHROPIC_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def api() -> Iterator[Any]:
    with FakeMessages() as service:
        yield service


def adapter(api: Any, waits: Waits = SHORT) -> AnthropicModel:
    patience = Patience(SystemClock(), SystemEntropy(), base=0.001)
    return AnthropicModel(patience, api_key=KEY, base_url=api.url, waits=waits)


def ask(model: Model, talk: Talk) -> tuple[ModelReply, list[str]]:
    """The reply, and the causes of the retries before it."""
    causes: list[str] = []

    async def main() -> ModelReply:
        try:
            return await model.reply(talk.request(), lambda cause, *_: causes.append(cause))
        finally:
            await model.close()

    return anyio.run(main), causes


class TestAnthropicModel(ModelContract):
    @contextmanager
    def playing(self, *replies: Sequence[Line]) -> Iterator[Model]:
        script = [
            [line if isinstance(line, str) else fake.tool(*line) for line in reply]
            for reply in replies
        ]
        with FakeMessages(script) as api:
            yield adapter(api)
            assert api.problems() == []


def test_a_conversation_with_thoughts_goes_back_byte_for_byte(api: Any) -> None:
    api.push(
        [fake.thinking("Let me see… 😀"), "Looking.", fake.tool("bash", {"command": "ls «x»"})],
        [fake.thinking(""), fake.tool("bash", {"command": "b"}), fake.tool("read_file", {"a": 1})],
        [{"type": "redacted_thinking", "data": "xyz"}, fake.thinking("So."), "Done."],
        "And again.",
    )
    model = adapter(api)
    talk = Talk("Do it")

    async def main() -> None:
        for follow_up in ("", "", "Once more"):
            reply = await model.reply(talk.request(), lambda *_: None)
            talk.answer(reply, *filter(None, [follow_up]))
        await model.reply(talk.request(), lambda *_: None)
        await model.close()

    anyio.run(main)

    assert api.problems() == []
    assert [record["outcome"] for record in api.log] == ["ok"] * 4
    assert api.connections == 1


def test_the_request_is_the_encoded_parts_and_names_the_conversation(api: Any) -> None:
    api.push("Hello.")

    ask(adapter(api), Talk("hi"))

    body = api.log[0]["body"]
    assert body["model"] == "claude-opus-5-5"
    assert body["metadata"] == {"user_id": "session/lead/1"}
    assert body["stream"] is True
    assert [tool["name"] for tool in body["tools"]] == ["bash", "read_file"]
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        ({"cut": 6, "how": "rst"}, "connection failed"),
        ({"cut": 6, "how": "fin"}, "connection failed"),
        ({"cut": 6, "how": "eof"}, "cut off"),
        ({"cut": 6, "how": "error:overloaded_error"}, "overloaded_error"),
        ({"cut": 6, "how": "garbage"}, "could not be read"),
        ({"cut": 6, "how": "hang:20"}, "no whole reply"),
        ({"cut": 0, "how": "eof"}, "cut off"),
        ({"delay": 20}, "no whole reply"),
    ],
    ids=str,
)
def test_a_reply_that_breaks_off_is_discarded_and_asked_for_again(
    api: Any, fault: dict[str, Any], cause: str
) -> None:
    api.push({"content": [LONG_TEXT, fake.tool("bash", {"command": "rm"})], **fault}, "Whole.")

    reply, causes = ask(adapter(api), Talk("hi"))

    assert reply.text == "Whole."
    assert reply.calls == []
    [told] = causes
    assert cause in told


@contextmanager
def pinging_service(first: bytes = b"") -> Iterator[str]:
    """The address of a service that sends `first`, then only pings until the client leaves."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            size = 0
            while (line := self.rfile.readline().lower()).strip():
                if line.startswith(b"content-length:"):
                    size = int(line.split(b":")[1])
            self.rfile.read(size)
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + first)
            with suppress(ConnectionError):
                while not stopped.wait(0.02):
                    self.wfile.write(b'event: ping\ndata: {"type": "ping"}\n\n')

    stopped = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            stopped.set()
            server.shutdown()


def test_a_service_that_only_pings_is_given_up() -> None:
    patience = Patience(SystemClock(), SystemEntropy(), base=0.001, tries=2)
    with pinging_service() as url, pytest.raises(ModelFailed, match="no whole reply") as caught:
        ask(AnthropicModel(patience, api_key=KEY, base_url=url, waits=SHORT), Talk("hi"))

    assert caught.value.kind == "timeout"


def test_a_whole_reply_counts_even_if_the_connection_then_stays_open() -> None:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 1}}},
        {
            "type": "content_block_start",
            "index": 0,
            "content_block": {"type": "text", "text": "Hi"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    sent = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    patience = Patience(SystemClock(), SystemEntropy())
    with pinging_service(sent.encode()) as url:
        model = AnthropicModel(patience, api_key=KEY, base_url=url, waits=SHORT)
        reply, causes = ask(model, Talk("hi"))

    assert (reply.text, causes) == ("Hi", [])


def test_a_reply_that_never_comes_whole_names_its_last_request(api: Any) -> None:
    api.push(*[{"content": [LONG_TEXT], "cut": 6, "how": "rst"}] * 2)
    patience = Patience(SystemClock(), SystemEntropy(), base=0.001, tries=2)

    with pytest.raises(ModelFailed, match=r"2 tries\) \(request req_fake000002\)") as caught:
        ask(AnthropicModel(patience, api_key=KEY, base_url=api.url), Talk("hi"))

    assert caught.value.kind == "connection"


def test_one_try_has_a_wall_limit_however_busy_the_stream(api: Any) -> None:
    api.push({"content": [LONG_TEXT * 9], "gap": 0.02, "piece": 1}, "Whole.")

    reply, causes = ask(adapter(api, Waits(idle=5, wall=0.3)), Talk("hi"))

    assert (reply.text, len(causes)) == ("Whole.", 1)


@pytest.mark.parametrize("count", [1, 12])
def test_an_overloaded_service_is_asked_again(api: Any, count: int) -> None:
    api.push(*[fake.error("overloaded_error")] * count, "At last.")

    reply, causes = ask(adapter(api), Talk("hi"))

    assert reply.text == "At last."
    assert len(causes) == count


def test_retry_after_is_waited_for(api: Any) -> None:
    api.push(fake.error("rate_limit_error", retry_after=0.2), "Now.")

    reply, _ = ask(adapter(api), Talk("hi"))

    first, second = api.log
    assert reply.text == "Now."
    assert second["t_ns"] - first["t_done_ns"] >= 0.19e9


@pytest.mark.parametrize(
    ("reply", "error", "kind"),
    [
        (fake.error("authentication_error", "invalid key"), ModelRejected, "authentication_error"),
        (fake.error("permission_error"), ModelRejected, "permission_error"),
        (fake.error("not_found_error", "no such model"), ModelRejected, "not_found_error"),
        (fake.error("invalid_request_error", "bad field"), ModelRejected, "invalid_request_error"),
        (fake.error("request_too_large"), ModelFailed, "request_too_large"),
        (
            fake.error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            ModelFailed,
            "prompt_too_long",
        ),
        (
            fake.error("rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
            ModelFailed,
            "rate_limit_error",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_cannot_work_is_asked_once(
    api: Any, reply: Any, error: type[ModelFailed], kind: str
) -> None:
    api.push(reply)

    with pytest.raises(ModelFailed) as caught:
        ask(adapter(api), Talk("hi"))

    assert type(caught.value) is error
    assert caught.value.kind == kind
    assert "req_fake000001" in str(caught.value)
    assert len(api.log) == 1


def test_an_unknown_model_is_named() -> None:
    with FakeMessages(models=["claude-opus-5-5"]) as api, pytest.raises(ModelRejected) as caught:
        ask(adapter(api), Talk("hi", model="claude-nope"))

    assert "claude-nope" in str(caught.value)


def test_a_body_over_the_limit_is_the_callers_to_shrink() -> None:
    with FakeMessages(max_body=100) as api, pytest.raises(ModelFailed) as caught:
        ask(adapter(api), Talk("hi"))

    assert caught.value.kind == "request_too_large"


def test_without_a_key_nothing_is_sent_and_the_hint_says_how_to_set_one(api: Any) -> None:
    patience = Patience(SystemClock(), SystemEntropy())

    with pytest.raises(ModelRejected, match="ANTHROPIC_API_KEY") as caught:
        ask(AnthropicModel(patience, base_url=api.url), Talk("hi"))

    assert caught.value.kind == "authentication_error"
    assert api.log == []


@pytest.mark.parametrize("key", ["sk-secret\nkey", "sk-secret\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(api: Any, key: str) -> None:
    patience = Patience(SystemClock(), SystemEntropy(), base=0.001)

    with pytest.raises(ModelRejected, match="API key") as caught:
        ask(AnthropicModel(patience, api_key=key, base_url=api.url), Talk("hi"))

    assert "sk-secret" not in str(caught.value)


def test_a_key_that_the_service_repeats_is_not_shown(api: Any) -> None:
    api.push(fake.error("authentication_error", f"invalid key {KEY}"))

    with pytest.raises(ModelRejected, match=r"invalid key \[key\]") as caught:
        ask(adapter(api), Talk("hi"))

    assert KEY not in str(caught.value)


@pytest.mark.parametrize("url", ["htp://x", "no address", "http://host:port"])
def test_a_bad_endpoint_is_refused_at_once(url: str) -> None:
    patience = Patience(SystemClock(), SystemEntropy(), base=0.001)

    with pytest.raises(ModelRejected):
        ask(AnthropicModel(patience, api_key=KEY, base_url=url), Talk("hi"))


def test_a_refusal_is_a_reply_whose_stop_reason_says_so(api: Any) -> None:
    api.push(fake.REFUSAL)

    reply, _ = ask(adapter(api), Talk("hi"))

    assert reply.stop_reason == REFUSAL
    assert reply.stop_details["category"] == "cyber"


@pytest.mark.parametrize(
    ("raw", "stop_reason", "expected"),
    [
        ('{"command": "rm -rf /tm', MAX_TOKENS, {INVALID_JSON: '{"command": "rm -rf /tm'}),
        ("{'command': 1}", TOOL_USE, {INVALID_JSON: "{'command': 1}"}),
        ('{"c": "\\ud83d"}', TOOL_USE, {INVALID_JSON: '{"c": "\\ud83d"}'}),
        ('{"c": "\\ud83d\\ude00"}', TOOL_USE, {"c": "😀"}),
        ("", TOOL_USE, {}),
    ],
    ids=["cut by max_tokens", "no JSON", "half a character", "escaped pair", "no input"],
)
def test_tool_input_is_kept_whatever_it_is(
    api: Any, raw: str, stop_reason: str, expected: Any
) -> None:
    api.push({"content": [fake.tool("bash", raw_input=raw)], "stop_reason": stop_reason})

    reply, causes = ask(adapter(api), Talk("hi"))

    assert (reply.stop_reason, reply.calls[0].input, causes) == (stop_reason, expected, [])


def test_events_cut_anywhere_in_a_character_are_whole(api: Any) -> None:
    api.push({"content": ["ümläut 😀 日本", fake.tool("bash", {"c": "日本"})], "split": 3})

    reply, _ = ask(adapter(api), Talk("hi"))

    assert reply.text == "ümläut 😀 日本"
    assert reply.calls[0].input == {"c": "日本"}


def test_blocks_and_stop_reasons_of_the_future_pass(api: Any) -> None:
    api.push({"content": [{"type": "hologram", "data": [1]}, "Hi"], "stop_reason": "bored"})

    reply, _ = ask(adapter(api), Talk("hi"))

    assert reply.content[0] == {"type": "hologram", "data": [1]}
    assert reply.stop_reason == "bored"


def test_usage_and_model_are_the_services_last_word(api: Any) -> None:
    api.push({"content": ["Hi"], "model": "claude-other", "usage": {"output_tokens": 77}})

    reply, _ = ask(adapter(api), Talk("hi"))

    assert (reply.model, reply.usage.output) == ("claude-other", 77)


async def until(condition: Callable[[], Any]) -> None:
    """Wait for something the service, on its own thread, has no event for."""
    while not condition():  # noqa: ASYNC110
        await anyio.sleep(0.005)


def test_cancelling_closes_the_connection(api: Any) -> None:
    api.push({"content": [LONG_TEXT], "gap": 0.05, "piece": 2}, "Whole.")
    model = adapter(api, Waits())

    async def main() -> ModelReply:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(model.reply, Talk("hi").request(), lambda *_: None)
                await until(lambda: api.log and api.log[0]["t_first_ns"])
                scope.cancel()
        await until(lambda: api.log[0]["outcome"])
        reply = await model.reply(Talk("hi").request(), lambda *_: None)
        await model.close()
        return reply

    reply = anyio.run(main)

    assert "client left" in api.log[0]["outcome"]
    assert reply.text == "Whole."
