"""`todo_write`: an agent's own checklist. It lives in the conversation and nowhere else."""

from __future__ import annotations

import json
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field

from team_runtime.guard.base import Effect
from team_runtime.tools.base import ToolContext
from team_runtime.tools.inputs import Strict

_MARKS: Final = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


class Todo(Strict):
    content: str = Field(min_length=1)
    status: Literal["pending", "in_progress", "completed"]


def _unquoted(value: Any) -> Any:
    """The list itself, where a model wrote it as JSON in a string."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        raise ValueError(f"a list is expected, and this text is not JSON ({error})") from None


class TodoWriteInput(Strict):
    todos: Annotated[list[Todo], BeforeValidator(_unquoted)] = Field(
        description="the whole list; it replaces the one before"
    )


class TodoWrite:
    name: ClassVar[str] = "todo_write"
    description: ClassVar[str] = (
        "Write down the steps of your own work and their state, for work of three steps or more. "
        "Call it again with the whole list whenever a state changes. Nobody else sees it; work for "
        "others belongs on the task board."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = TodoWriteInput

    def run(self, input: TodoWriteInput, context: ToolContext) -> str:
        todos = input.todos
        if not todos:
            return "The list is empty now."
        done = sum(todo.status == "completed" for todo in todos)
        lines = [f"{_MARKS[todo.status]} {todo.content}" for todo in todos]
        return "\n".join([*lines, f"({done} of {len(todos)} completed)"])
