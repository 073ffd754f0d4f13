"""Every call gets exactly one result, which says truthfully whether the tool ran."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from anyio import to_thread
from pydantic import BaseModel

from team_runtime.clock import SystemClock
from team_runtime.crossing import Crossing, Stopped
from team_runtime.errors import StaleClaim
from team_runtime.guard.base import Decision, Effect, Question, Verdict
from team_runtime.guard.permissions import RulePermissions
from team_runtime.loop.dispatch import SIDE_BY_SIDE, Dispatch
from team_runtime.models.base import INVALID_JSON
from team_runtime.process.run import BlockingRunner
from team_runtime.tools.base import Place, Seen, Tool, ToolContext, ToolFailure
from team_runtime.tools.inputs import Strict
from team_runtime.types import ToolCall, ToolResult
from tests.support.state import Events
from tests.support.tools import ask_nobody

SECONDS = 20.0
HERE = Path(__file__).parent


class NumberInput(Strict):
    number: int = 0
    path: str = "."


@dataclass
class Log:
    """What ran, in order."""

    ran: list[int] = field(default_factory=list)
    together: threading.Barrier | None = None


class Stub:
    """A tool that notes its number; subclasses say with what effect."""

    name: ClassVar[str] = "stub"
    description: ClassVar[str] = "Notes its number."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = NumberInput

    def __init__(self, log: Log) -> None:
        self.log = log

    def run(self, input: NumberInput, context: ToolContext) -> str:
        if self.log.together is not None and self.effect is Effect.READ:
            self.log.together.wait(SECONDS)
        self.log.ran.append(input.number)
        return f"{self.name} {input.number}"


class Look(Stub):
    name = "look"
    effect = Effect.READ


class Put(Stub):
    name = "put"
    effect = Effect.EDIT


class Order(Stub):
    name = "order"
    effect = Effect.COMMAND

    def run(self, input: NumberInput, context: ToolContext) -> str:
        raise AssertionError("never allowed here")


class Breaking(Stub):
    """Raises what it is given."""

    name = "breaking"

    def __init__(self, log: Log, error: BaseException) -> None:
        super().__init__(log)
        self.error = error

    def run(self, input: NumberInput, context: ToolContext) -> str:
        raise self.error


class BreakingLook(Breaking):
    name = "breaking_look"
    effect = Effect.READ


class Allowing:
    """Permissions that allow everything, or fail."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def decide(self, question: Question) -> Decision:
        if self.error is not None:
            raise self.error
        return Decision(Verdict.ALLOW, "a test")


def dispatch(tools: Sequence[Tool], crossing: Crossing, **more: Any) -> Dispatch:
    """The dispatch of an agent that may do everything, but for what `more` says."""
    context = ToolContext(
        "anna", "t", Place(HERE), BlockingRunner(), {}, Seen(), lambda name, data: Path(name)
    )
    usual: dict[str, Any] = {
        "permissions": Allowing(),
        "place": lambda: Place(HERE, "task_1", "one"),
        "gate": lambda effect: None,
        "outside": lambda path: None,
        "context": lambda call_id, place: context,
        "ask": ask_nobody,
        "emit": Events(),
    }
    return Dispatch(
        agent="anna",
        tools={tool.name: tool for tool in tools},
        wait=crossing.wait,
        clock=SystemClock(),
        **{**usual, **more},
    )


def run(tools: Sequence[Tool], calls: Sequence[ToolCall], **more: Any) -> list[ToolResult]:
    """The results of the calls, run on an agent's thread beside an event loop."""

    async def host() -> list[ToolResult]:
        return await to_thread.run_sync(dispatch(tools, Crossing(), **more).run, calls)

    return anyio.run(host)


def asks(*named: tuple[str, Any]) -> list[ToolCall]:
    return [ToolCall(f"t{i}", name, given) for i, (name, given) in enumerate(named)]


def only(results: list[ToolResult]) -> ToolResult:
    assert len(results) == 1
    return results[0]


def test_each_of_64_calls_has_its_one_result_in_order() -> None:
    log = Log()
    names = [("look", "put", "stub", "nothing")[i * 7 % 11 % 4] for i in range(64)]
    calls = asks(*[(name, {"number": i}) for i, name in enumerate(names)])
    results = run([Look(log), Put(log), Stub(log)], calls)
    assert [r.call_id for r in results] == [c.id for c in calls]
    for call, result in zip(calls, results, strict=True):
        if call.name == "nothing":
            assert result.is_error
        else:
            assert result.content == f"{call.name} {call.input['number']}"


def test_neighbouring_read_only_calls_run_side_by_side() -> None:
    log = Log(together=threading.Barrier(SIDE_BY_SIDE))
    calls = asks(*[("look", {"number": n}) for n in range(SIDE_BY_SIDE)])
    results = run([Look(log)], calls)
    assert [r.content for r in results] == [f"look {n}" for n in range(SIDE_BY_SIDE)]


def test_writers_run_in_order_and_between_the_readers_around_them() -> None:
    log = Log()
    kinds = ["look", "look", "put", "put", "stub", "look", "look", "put"]
    run([Look(log), Put(log), Stub(log)], asks(*[(k, {"number": n}) for n, k in enumerate(kinds)]))
    assert sorted(log.ran[:2]) == [0, 1]
    assert log.ran[2:5] == [2, 3, 4]
    assert sorted(log.ran[5:7]) == [5, 6]
    assert log.ran[7:] == [7]


def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    result = only(run([Stub(Log())], asks(("review_plan", {}))))
    assert result.is_error
    assert "no tool 'review_plan'" in result.content
    assert "stub" in result.content


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"number": "three"}, "number: Input should be a valid integer"),
        ({"numbre": 3}, "numbre: Extra inputs are not permitted"),
        ({INVALID_JSON: '{"number": '}, 'not valid JSON: {"number":'),
        ([1], "not a JSON object"),
        (None, "not a JSON object"),
    ],
)
def test_an_input_that_does_not_fit_is_an_error_result_and_nothing_runs(
    given: Any, said: str
) -> None:
    log = Log()
    result = only(run([Put(log)], asks(("put", given))))
    assert result.is_error
    assert said in result.content
    assert "did not run" in result.content
    assert log.ran == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ToolFailure("Only half was written."), "Only half was written."),
        (StaleClaim("task_1", "anna", "ben holds it"), "anna no longer holds task_1"),
        (ZeroDivisionError("oops"), "ZeroDivisionError: oops); its effect is unknown"),
    ],
)
def test_a_tool_that_raises_is_an_error_result_and_the_next_call_runs(
    error: Exception, said: str
) -> None:
    log = Log()
    results = run([Breaking(log, error), Stub(log)], asks(("breaking", {}), ("stub", {})))
    assert results[0].is_error
    assert said in results[0].content
    assert not results[1].is_error


@pytest.mark.parametrize("name", ["breaking", "breaking_look"])
@pytest.mark.parametrize("count", [1, 3])
def test_stopped_passes_through_as_itself(name: str, count: int) -> None:
    log = Log()
    tools = [Breaking(log, Stopped()), BreakingLook(log, Stopped()), Look(log)]
    with pytest.raises(Stopped):
        run(tools, asks(*[(name, {})] * count, ("look", {})))


def test_no_stopped_agent_starts_its_readers() -> None:
    log = Log()
    crossing = Crossing()
    crossing.stop()

    async def host() -> None:
        await to_thread.run_sync(
            dispatch([Look(log)], crossing).run, asks(("look", {}), ("look", {}))
        )

    with pytest.raises(Stopped):
        anyio.run(host)
    assert log.ran == []


def test_a_fault_in_the_check_lets_nothing_through_and_ends_nobody() -> None:
    log = Log()
    calls = asks(("put", {}), ("put", {}))
    results = run([Put(log)], calls, permissions=Allowing(KeyError("command")))
    assert len(results) == 2
    assert all(r.is_error and "could not be checked" in r.content for r in results)
    assert log.ran == []


def test_a_call_that_nobody_allows_says_that_it_did_not_run() -> None:
    log, events = Log(), Events()
    permissions = RulePermissions("default", [], [])
    place = Place(HERE)
    result = only(
        run(
            [Put(log)], asks(("put", {})), permissions=permissions, place=lambda: place, emit=events
        )
    )
    assert result.is_error
    assert result.content.startswith("Permission denied: editing the main checkout asks")
    assert "nobody was there to answer" in result.content
    assert "did not run" in result.content
    assert events.kinds() == ["permission_denied"]
    assert log.ran == []


def test_the_plan_gate_comes_before_every_permission() -> None:
    log, events = Log(), Events()
    gated: list[Effect] = []

    def gate(effect: Effect) -> str:
        gated.append(effect)
        return "your plan waits for review."

    calls = asks(("put", {}), ("order", {}), ("look", {}), ("stub", {}))
    results = run([Put(log), Order(log), Look(log), Stub(log)], calls, gate=gate, emit=events)
    for refused in results[:2]:
        assert refused.is_error
        assert refused.content == "Refused: your plan waits for review. The call did not run."
    assert [r.is_error for r in results[2:]] == [False, False]
    assert gated == [Effect.EDIT, Effect.COMMAND]


def test_an_agent_that_lost_its_task_can_do_nothing_more() -> None:
    log = Log()

    def lost() -> Place:
        raise StaleClaim("task_1", "anna", "it is pending")

    results = run([Look(log), Put(log)], asks(("look", {}), ("put", {})), place=lost)
    for result in results:
        assert "anna no longer holds task_1" in result.content
        assert "did not run" in result.content
    assert log.ran == []


def test_writing_outside_the_directory_is_refused_before_anything_is_asked() -> None:
    log = Log()
    result = only(run([Put(log)], asks(("put", {"path": "../../etc/passwd"}))))
    assert "outside your directory" in result.content
    assert log.ran == []


def test_output_that_is_no_text_still_is_a_result() -> None:
    class Surrogate(Stub):
        def run(self, input: NumberInput, context: ToolContext) -> str:
            return "half \ud83d"

    class Wrong(Stub):
        name = "wrong"

        def run(self, input: NumberInput, context: ToolContext) -> str:
            return None  # type: ignore[return-value]

    results = run([Surrogate(Log()), Wrong(Log())], asks(("stub", {}), ("wrong", {})))
    assert results[0].content == "half ?"
    assert results[1].is_error


def test_calls_that_a_reply_did_not_stop_for_are_answered_and_never_run() -> None:
    log = Log()
    results = dispatch([Stub(log)], Crossing()).leave(asks(("stub", {}), ("stub", {})))
    assert [r.call_id for r in results] == ["t0", "t1"]
    assert all(r.is_error and "not run" in r.content for r in results)
    assert log.ran == []
