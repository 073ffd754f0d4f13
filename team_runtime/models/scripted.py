"""A model that plays a playbook: offline, deterministic, and the same after a restart."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio

from team_runtime.errors import InputError
from team_runtime.models.base import END_TURN, TOOL_USE, ModelReply, ModelRequest, RetryNotice
from team_runtime.models.playbook import (
    Reply,
    Rule,
    Script,
    arrivals,
    read_playbook,
    reply_of,
)
from team_runtime.models.retry import Sleep
from team_runtime.types import Block, Usage

Chooser: TypeAlias = Callable[[str, list[dict[str, Any]]], Reply]
"""Picks an agent's next reply from its conversation so far, and from nothing else."""

CHARACTERS_PER_TOKEN: Final = 4
"""For estimates of usage: nothing counts tokens here."""


class ScriptedModel:
    """Plays what a playbook says. Nothing is remembered between calls: the place in the script is
    worked out from the conversation, so a restarted agent goes on where it was."""

    def __init__(self, choose: Chooser, pace: float = 0.0, sleep: Sleep = anyio.sleep) -> None:
        self._choose = choose
        self._pace = pace
        self._sleep = sleep

    @classmethod
    def load(cls, path: Path | str, pace: float = 0.0, sleep: Sleep = anyio.sleep) -> ScriptedModel:
        """From a `.py` file with a function `reply(agent, messages)`, or from a YAML file. Each
        reply takes `pace` seconds. Raises `InputError` naming the file and the place in it."""
        path = Path(path)
        choose = _python_chooser(path) if path.suffix == ".py" else _yaml_chooser(path)
        return cls(choose, pace, sleep)

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        """See `Model.reply`. Raises `InputError` when the playbook cannot answer."""
        if self._pace:
            await self._sleep(self._pace)
        messages: list[dict[str, Any]] = json.loads(request.messages)
        if request.agent is None:
            reply = Reply("A scripted model has nothing to add.")
            agent = "host"
        else:
            agent = request.agent
            reply = self._choose(agent, messages)
        content = _blocks(reply, agent, 1 + _replies_in(messages))
        return ModelReply(
            content=tuple(content),
            stop_reason=TOOL_USE if reply.calls else END_TURN,
            usage=Usage(
                input=_tokens(request.tools, request.system, request.messages),
                output=_tokens(json.dumps(content).encode()),
            ),
            model=request.model,
        )

    async def close(self) -> None:
        """Nothing to give back."""


def _blocks(reply: Reply, agent: str, number: int) -> list[Block]:
    blocks: list[Block] = [{"type": "text", "text": reply.say}] if reply.say.strip() else []
    for place, (tool, given) in enumerate(reply.calls, 1):
        call_id = f"toolu_{agent}_{number}_{place}"
        blocks.append({"type": "tool_use", "id": call_id, "name": tool, "input": dict(given)})
    return blocks


def _replies_in(messages: Iterable[Mapping[str, Any]]) -> int:
    return sum(message["role"] == "assistant" for message in messages)


def _tokens(*parts: bytes) -> int:
    return sum(map(len, parts)) // CHARACTERS_PER_TOKEN


def _yaml_chooser(path: Path) -> Chooser:
    scripts = read_playbook(path)

    def choose(agent: str, messages: list[dict[str, Any]]) -> Reply:
        script = scripts.get(agent)
        if script is None:
            known = ", ".join(sorted(scripts)) or "nobody"
            raise InputError(f"playbook {path} has no script for agent {agent!r}, only for {known}")
        try:
            return _Performance(script).next_after(messages)
        except InputError as error:
            raise InputError(f"playbook {path}, agent {agent}: {error.problem}") from None

    return choose


class _Performance:
    """One agent's script, played through its conversation up to now."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._queue: deque[tuple[Reply, bool]] = deque()
        """Replies to come, each with whether it is the last of those queued with it."""
        self._seen: list[dict[str, str]] = []
        self._fired: set[int] = set()
        self._enqueue(reply.filled({}) for reply in script.start)

    def next_after(self, messages: Iterable[Mapping[str, Any]]) -> Reply:
        """The reply that comes after `messages`."""
        for message in messages:
            if message["role"] == "assistant":
                self._pop()
            elif message["role"] == "user":
                for arrived in arrivals(_text(message["content"])):
                    self._arrive(arrived)
        return self._pop()

    def _enqueue(self, replies: Iterable[Reply]) -> None:
        group = list(replies)
        self._queue += [(reply, place == len(group)) for place, reply in enumerate(group, 1)]

    def _arrive(self, message: dict[str, str]) -> None:
        """Queue the replies of the first rule for this message, and of every `all` it completes."""
        self._seen.append(message)
        answered = False
        for number, rule in enumerate(self._script.rules):
            if rule.each_time:
                if not answered and _matches(rule.messages[0], message):
                    answered = True
                    self._enqueue(reply.filled(message) for reply in rule.replies)
            elif number not in self._fired and self._all_seen(rule):
                self._fired.add(number)
                self._enqueue(reply.filled(message) for reply in rule.replies)

    def _all_seen(self, rule: Rule) -> bool:
        return all(any(_matches(wanted, seen) for seen in self._seen) for wanted in rule.messages)

    def _pop(self) -> Reply:
        """The next reply. A text that ends its rule's replies does not end the turn while replies
        to another message wait: that message has arrived and would not wake the agent again."""
        if not self._queue:
            return self._script.otherwise
        reply, last = self._queue.popleft()
        if reply.calls or not last or not self._queue:
            return reply
        return reply.before(self._pop())


def _matches(wanted: Mapping[str, str], message: Mapping[str, str]) -> bool:
    return all(message.get(name) == value for name, value in wanted.items())


def _text(content: str | list[Block]) -> str:
    """The text of a user message, without what tools wrote."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in content if block["type"] == "text")


def _python_chooser(path: Path) -> Chooser:
    spec = spec_from_file_location("team_playbook", path)
    if spec is None or spec.loader is None:
        raise InputError(f"playbook {path} is not a Python file")
    module = module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"playbook {path} cannot be loaded: {error!r}") from error
    answer = getattr(module, "reply", None)
    if not callable(answer):
        raise InputError(f"playbook {path} has no function reply(agent, messages)")

    def choose(agent: str, messages: list[dict[str, Any]]) -> Reply:
        try:
            return reply_of(answer(agent, messages))
        except InputError as error:
            raise InputError(f"playbook {path}, agent {agent}: {error.problem}") from None
        except Exception as error:
            raise InputError(f"playbook {path}, agent {agent}: {error!r}") from error

    return choose
