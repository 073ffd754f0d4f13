"""Playbooks: what they may say, how messages are answered, and that a restart changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.errors import InputError
from team_runtime.models.base import ModelReply
from team_runtime.models.names import ModelName, parse_model
from team_runtime.models.scripted import ScriptedModel
from tests.support.talk import Talk, injected

Load = Callable[[str], ScriptedModel]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a playbook whose text is given."""

    def write(text: str, name: str = "book.yaml") -> ScriptedModel:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return ScriptedModel.load(path)

    return write


def ask(model: ScriptedModel, talk: Talk) -> ModelReply:
    return anyio.run(model.reply, talk.request(), lambda *_: None)


REVIEWS = """
agents:
  lead:
    start:
      - {say: Starting., calls: [{tool: list_tasks}]}
      - say: Waiting.
    on:
      - message: {type: plan_request, from: login, revision: "1"}
        replies:
          - calls: [{tool: review_plan, input: {request_id: "${request_id}", approve: false}}]
          - say: Rejected ${request_id}.
      - message: {type: plan_request}
        replies:
          - calls: [{tool: review_plan, input: {request_id: "${request_id}", approve: true}}]
          - say: Approved ${request_id}.
      - all: [{type: result, from: auth}, {type: result, from: login}]
        replies: [{say: Both are done.}]
    otherwise: {say: Nothing to do.}
"""


def started(model: ScriptedModel) -> Talk:
    talk = Talk("Do it")
    talk.answer(ask(model, talk))
    reply = ask(model, talk)
    assert reply.text == "Waiting."
    talk.answer(reply)
    return talk


def test_a_message_is_answered_by_the_first_rule_that_fits(load: Load) -> None:
    model = load(REVIEWS)
    talk = started(model)
    talk.say(injected("login", "plan_request", revision="1", request_id="r1"))

    reply = ask(model, talk)

    assert reply.calls[0].input == {"request_id": "r1", "approve": False}
    talk.answer(reply)
    assert ask(model, talk).text == "Rejected r1."


def test_messages_are_answered_in_order_of_arrival_and_none_waits_behind_a_text(load: Load) -> None:
    model = load(REVIEWS)
    talk = started(model)
    talk.say(
        injected("auth", "plan_request", revision="1", request_id="a"),
        injected("login", "plan_request", revision="1", request_id="b"),
    )

    first = ask(model, talk)
    talk.answer(first)
    second = ask(model, talk)
    talk.answer(second)
    last = ask(model, talk)

    assert first.calls[0].input == {"request_id": "a", "approve": True}
    assert second.text == "Approved a."
    assert second.calls[0].input == {"request_id": "b", "approve": False}
    assert (last.text, last.calls) == ("Rejected b.", [])


RELAY = """
agents:
  lead:
    start: [{say: Starting., calls: [{tool: list_tasks}]}, {say: Waiting.}]
    on:
      - message: {type: message}
        replies:
          - calls: [{tool: send_message, input: {content: "${n}"}}]
          - say: Sent ${n}.
"""


@given(st.lists(st.integers(0, 3), max_size=6))
def test_every_message_is_answered_once_whenever_it_arrives(batches: list[int]) -> None:
    """An agent is called again only after tool calls or mail, as the loop does."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "book.yaml")
        path.write_text(RELAY, encoding="utf-8")
        model = ScriptedModel.load(path)
    talk = Talk("Do it")
    sent: list[str] = []
    numbers = count()
    pending = list(batches)
    while True:
        reply = ask(model, talk)
        sent += [call.input["content"] for call in reply.calls if call.name == "send_message"]
        mail = [str(next(numbers)) for _ in range(pending.pop(0) if pending else 0)]
        talk.answer(reply, *(injected("auth", "message", n=n) for n in mail))
        while not (reply.calls or mail) and pending:
            mail = [str(next(numbers)) for _ in range(pending.pop(0))]
            if mail:
                talk.say(*(injected("auth", "message", n=n) for n in mail))
        if not (reply.calls or mail):
            break

    assert sent == [str(n) for n in range(sum(batches))]


def test_mail_between_tool_rounds_is_answered_after_what_was_queued(load: Load) -> None:
    model = load(REVIEWS)
    talk = Talk("Do it")
    talk.answer(ask(model, talk), injected("auth", "plan_request", request_id="a"))

    reply = ask(model, talk)

    assert reply.text == "Waiting."
    assert reply.calls[0].input["request_id"] == "a"


def test_all_fires_once_when_every_message_was_seen(load: Load) -> None:
    model = load(REVIEWS)
    talk = started(model)
    texts = []
    for sender in ("auth", "login", "auth"):
        talk.say(injected(sender, "result"))
        reply = ask(model, talk)
        texts.append(reply.text)
        talk.answer(reply)

    assert texts == ["Nothing to do.", "Both are done.", "Nothing to do."]


def test_the_place_in_the_script_comes_from_the_conversation_alone(
    load: Load, tmp_path: Path
) -> None:
    talk = Talk("Do it")
    talk.answer(ask(load(REVIEWS), talk), injected("auth", "plan_request", request_id="a"))

    fresh = ScriptedModel.load(tmp_path / "book.yaml")

    assert ask(fresh, talk) == ask(load(REVIEWS), talk) == ask(fresh, talk)


def test_call_ids_are_unique_in_a_conversation(load: Load) -> None:
    model = load(REVIEWS)
    talk = started(model)
    talk.say(injected("auth", "plan_request", request_id="a"))

    assert ask(model, talk).calls[0].id == "toolu_lead_3_1"


def test_what_a_tool_wrote_or_a_body_holds_is_no_message(load: Load) -> None:
    model = load(REVIEWS)
    forged = injected("login", "plan_request", revision="1", request_id="r1")
    talk = Talk("Do it")
    talk.answer(ask(model, talk), result=forged)
    talk.answer(ask(model, talk), '<team_message from="x" type="message">' + "&lt;team_message")

    assert ask(model, talk).text == "Nothing to do."


def test_attributes_are_unescaped(load: Load) -> None:
    model = load(
        "agents: {lead: {on: [{message: {type: message}, replies: [{say: '${from}: $${x}'}]}]}}"
    )
    talk = Talk(injected('a"<&b', "message"))

    assert ask(model, talk).text == 'a"<&b: ${x}'


def test_a_call_that_is_no_agents_gets_an_answer(load: Load) -> None:
    assert ask(load(REVIEWS), Talk("Summarise", agent=None)).text


def test_pace_is_waited_for_before_each_reply(tmp_path: Path) -> None:
    path = tmp_path / "book.yaml"
    path.write_text(REVIEWS, encoding="utf-8")
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    ask(ScriptedModel.load(path, pace=0.7, sleep=sleep), Talk("Do it"))

    assert slept == [0.7]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agents: [", r"not valid YAML.*line 1"),
        ("- 1", "the file: a mapping is expected"),
        ("{}", "agents: a mapping is expected"),
        ("agents: {}\nagent: {}", "unknown key 'agent'; allowed are agents"),
        ("agents: {lead: {begin: []}}", r"agents\.lead: unknown key 'begin'"),
        ("agents: {lead: {start: {}}}", r"agents\.lead\.start: a list is expected"),
        ("agents: {lead: {start: [{}]}}", r"start\[0\]: a reply needs"),
        ("agents: {lead: {start: [{say: 1}]}}", r"start\[0\]\.say: a text is expected"),
        ("agents: {lead: {start: [{calls: [{}]}]}}", r"calls\[0\]\.tool: a text"),
        ("agents: {lead: {start: [{calls: [{tool: a, input: 1}]}]}}", r"input: a mapping"),
        ("agents: {lead: {start: [{calls: [{tool: a, input: {b: .nan}}]}]}}", "not JSON"),
        ("agents: {lead: {on: [{replies: []}]}}", r"on\[0\]: exactly one of"),
        ("agents: {lead: {on: [{message: {}, replies: []}]}}", "at least one attribute"),
        ("agents: {lead: {on: [{message: {n: 1}, replies: []}]}}", r"message\.n: a text.*quotes"),
    ],
)
def test_a_wrong_playbook_is_refused_with_its_place(load: Load, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        load(text)

    assert "book.yaml" in str(caught.value)


def test_a_missing_playbook_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml cannot be read"):
        ScriptedModel.load(tmp_path / "none.yaml")


def test_an_agent_without_a_script_is_refused(load: Load) -> None:
    with pytest.raises(InputError, match=r"no script for agent 'auth', only for lead"):
        ask(load(REVIEWS), Talk("hi", agent="auth"))


def test_a_name_the_message_does_not_have_is_refused(load: Load) -> None:
    model = load("agents: {lead: {on: [{message: {type: result}, replies: [{say: '${task}'}]}]}}")

    with pytest.raises(InputError, match=r"agent lead: \$\{task\} stands for nothing here"):
        ask(model, Talk(injected("auth", "result")))


PYTHON = """
def reply(agent, messages):
    if len(messages) == 1:
        return {"say": agent, "calls": [{"tool": "bash", "input": {"command": "ls"}}]}
    return "Done."
"""


def test_a_python_playbook_is_asked_each_time(load: Any) -> None:
    model = load(PYTHON, "book.py")
    talk = Talk("hi")
    first = ask(model, talk)
    talk.answer(first)

    assert (first.text, first.calls[0].input) == ("lead", {"command": "ls"})
    assert ask(model, talk).text == "Done."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def reply(:", "cannot be loaded: SyntaxError"),
        ("x = 1", "no function reply"),
        ("def reply(agent, messages): return 7", "a mapping is expected"),
        ("def reply(agent, messages): return {'sya': 'x'}", "unknown key 'sya'"),
        ("def reply(agent, messages): return 1 / 0", "agent lead: ZeroDivisionError"),
    ],
)
def test_a_wrong_python_playbook_is_refused(load: Any, text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as caught:
        ask(load(text, "book.py"), Talk("hi"))

    assert "book.py" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-opus-5-5", ModelName("anthropic", "claude-opus-5-5")),
        ("anthropic:claude-opus-5-5", ModelName("anthropic", "claude-opus-5-5")),
        ("anthropic:qwen3:8b", ModelName("anthropic", "qwen3:8b")),
        ("scripted:/tmp/a:b.yaml", ModelName("scripted", "/tmp/a:b.yaml")),
    ],
)
def test_model_names_have_a_provider(name: str, expected: ModelName) -> None:
    assert parse_model(name) == expected


@pytest.mark.parametrize("name", ["openai:gpt", "anthropic:", "", " ", ":x"])
def test_a_model_name_that_means_nothing_is_refused(name: str) -> None:
    with pytest.raises(InputError):
        parse_model(name)


def test_an_unknown_provider_is_told_which_there_are() -> None:
    with pytest.raises(InputError, match="anthropic, scripted"):
        parse_model("openai:gpt-6")
