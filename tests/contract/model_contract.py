"""What holds for every model. A provider's test class inherits this and says how to script it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TypeAlias

import anyio

from team_runtime.models.base import END_TURN, TOOL_USE, Model, ModelReply, ModelRequest
from team_runtime.types import Json
from tests.support.talk import Talk

Line: TypeAlias = str | tuple[str, Json]
"""A text, or a tool and its input."""


def no_retry(cause: str, attempt: int, delay: float) -> None:
    raise AssertionError(f"unexpected retry: {cause}")


class ModelContract(ABC):
    """Inherit, and implement `playing`."""

    @abstractmethod
    def playing(self, *replies: Sequence[Line]) -> AbstractContextManager[Model]:
        """A model that gives these replies to agent `lead`, one a call."""

    def ask(self, model: Model, *requests: ModelRequest) -> list[ModelReply]:
        """The answers, one after the other, on one event loop; the model is closed after."""

        async def main() -> list[ModelReply]:
            try:
                return [await model.reply(request, no_retry) for request in requests]
            finally:
                await model.close()

        return anyio.run(main)

    def test_a_text_ends_the_turn(self) -> None:
        with self.playing(["Hello, wörld"]) as model:
            [reply] = self.ask(model, Talk("hi").request())

        assert reply.text == "Hello, wörld"
        assert reply.stop_reason == END_TURN
        assert reply.calls == []
        assert reply.model

    def test_usage_is_counted(self) -> None:
        with self.playing(["Hello"]) as model:
            [reply] = self.ask(model, Talk("hi").request())

        assert reply.usage.prompt > 0
        assert reply.usage.output > 0

    def test_tool_calls_come_with_text_in_order(self) -> None:
        lines: list[Line] = ["Looking.", ("bash", {"command": "ls"}), ("read_file", {"path": "a"})]
        with self.playing(lines) as model:
            [reply] = self.ask(model, Talk("hi").request())

        assert reply.stop_reason == TOOL_USE
        assert reply.text == "Looking."
        assert [(call.name, call.input) for call in reply.calls] == lines[1:]

    def test_a_conversation_goes_on_from_what_was_appended(self) -> None:
        talk = Talk("hi")

        async def main(model: Model) -> list[ModelReply]:
            replies = []
            for _ in range(3):
                replies.append(await model.reply(talk.request(), no_retry))
                talk.answer(replies[-1])
            await model.close()
            return replies

        with self.playing([("bash", {})], ["Again.", ("bash", {})], ["Done."]) as model:
            replies = anyio.run(main, model)

        assert [reply.text for reply in replies] == ["", "Again.", "Done."]
        ids = [call.id for reply in replies for call in reply.calls]
        assert len(set(ids)) == 2

    def test_closing_twice_does_no_harm(self) -> None:
        async def main(model: Model) -> None:
            await model.close()
            await model.close()

        with self.playing(["Hello"]) as model:
            anyio.run(main, model)
