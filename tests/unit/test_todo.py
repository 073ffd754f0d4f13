"""`todo_write`, called the way an agent's loop calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from team_runtime.clock import SystemClock
from team_runtime.crossing import Crossing
from team_runtime.events import no_events
from team_runtime.guard.permissions import RulePermissions
from team_runtime.loop.dispatch import Dispatch
from team_runtime.process.run import BlockingRunner
from team_runtime.tools.base import Place, Seen, ToolContext, definition
from team_runtime.tools.todo import TodoWrite
from team_runtime.types import Json, ToolCall, ToolResult

STEPS = [
    {"content": "read", "status": "completed"},
    {"content": "écrire", "status": "in_progress"},
    {"content": "test", "status": "pending"},
]
SHOWN = "[x] read\n[>] écrire\n[ ] test\n(1 of 3 completed)"


def call(input: Json, tmp_path: Path, gate: str | None = None) -> ToolResult:
    def never(*_: Any) -> Any:
        raise AssertionError("nothing of this is needed for a checklist")

    place = Place(tmp_path)
    dispatch = Dispatch(
        agent="anna",
        tools={"todo_write": TodoWrite()},
        permissions=RulePermissions("plan", [], []),
        place=lambda: place,
        gate=lambda effect: gate,
        outside=lambda path: None,
        context=lambda id, place: ToolContext(
            "anna", id, place, BlockingRunner(), {}, Seen(), never
        ),
        ask=never,
        wait=Crossing().wait,
        clock=SystemClock(),
        emit=no_events,
    )
    (result,) = dispatch.run([ToolCall("c1", "todo_write", input)])
    return result


@pytest.mark.parametrize("todos", [STEPS, json.dumps(STEPS)], ids=["a list", "a list in a string"])
def test_the_list_is_echoed_with_its_state(todos: Json, tmp_path: Path) -> None:
    assert call({"todos": todos}, tmp_path) == ToolResult("c1", SHOWN)


def test_it_may_be_written_while_nothing_may_be_changed(tmp_path: Path) -> None:
    assert call({"todos": STEPS}, tmp_path, gate="a plan must be approved").content == SHOWN


def test_an_empty_list_ends_it(tmp_path: Path) -> None:
    assert call({"todos": []}, tmp_path).content == "The list is empty now."


@pytest.mark.parametrize(
    ("input", "named"),
    [
        ({}, "todos: Field required"),
        ({"todos": None}, "todos: Input should be a valid list"),
        ({"todos": "write; test"}, "this text is not JSON"),
        ({"todos": "__import__('os').getcwd()"}, "this text is not JSON"),
        ({"todos": '{"content": "x"}'}, "todos: Input should be a valid list"),
        ({"todos": [*STEPS, {"content": "", "status": "pending"}]}, "todos.3.content"),
        ({"todos": [{"content": "x", "status": "done"}]}, "todos.0.status"),
        ({"todos": [{"content": "x"}]}, "todos.0.status: Field required"),
        ({"todos": STEPS, "note": "x"}, "note: Extra inputs are not permitted"),
    ],
)
def test_an_error_names_the_entry(input: Json, named: str, tmp_path: Path) -> None:
    result = call(input, tmp_path)
    assert result.is_error
    assert named in result.content


def test_the_model_is_told_to_send_a_list() -> None:
    assert definition(TodoWrite())["input_schema"]["properties"]["todos"]["type"] == "array"
