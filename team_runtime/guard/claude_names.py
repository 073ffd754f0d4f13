"""Our tools as hooks see them: under Claude Code's names, with Claude Code's names for inputs.

A tool that is not in the table keeps its own names, as do fields that are not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from team_runtime.types import Json


@dataclass(frozen=True)
class Field:
    """An input field under Claude Code's name, and how its value is told there and back."""

    name: str
    there: Callable[[Any, Path], Json] = lambda value, root: value
    back: Callable[[Any], Json] = lambda value: value
    note: str = ""
    """What differs beside the name."""


@dataclass(frozen=True)
class Translation:
    """A tool under Claude Code's name."""

    name: str
    fields: Mapping[str, Field] = field(default_factory=dict)


def _absolute(path: Any, root: Path) -> Json:
    # Without `..`, so that a hook that compares paths as text is not misled.
    return os.path.normpath(root / str(path))


def _scaled(value: Any, factor: float) -> Json:
    """`value` times `factor`; as it is when it is no number, which the tool then refuses."""
    return value * factor if isinstance(value, int | float) else value


_PATH: Final = Field("file_path", _absolute)
_OFFSET: Final = Field(
    "offset",
    there=lambda skipped, root: skipped + 1,
    back=lambda line: max(line - 1, 0) if isinstance(line, int) else line,
    note="the first line to read, from 1",
)
"""We count the lines to skip; Claude Code names the first line to read."""
_TIMEOUT: Final = Field(
    "timeout",
    there=lambda seconds, root: seconds if seconds is None else round(_scaled(seconds, 1000)),
    back=lambda milliseconds: _scaled(milliseconds, 0.001),
    note="milliseconds",
)
_TASK_ID: Final = Field("taskId")

TRANSLATIONS: Final[dict[str, Translation]] = {
    "bash": Translation("Bash", {"timeout": _TIMEOUT}),
    "job_output": Translation("BashOutput", {"job_id": Field("bash_id")}),
    "kill_job": Translation("KillShell", {"job_id": Field("shell_id")}),
    "read_file": Translation("Read", {"path": _PATH, "offset": _OFFSET}),
    "write_file": Translation("Write", {"path": _PATH}),
    "edit_file": Translation(
        "Edit",
        {"path": _PATH, "old_text": Field("old_string"), "new_text": Field("new_string")},
    ),
    "glob": Translation("Glob"),
    "grep": Translation("Grep", {"path": Field("path", _absolute), "ignore_case": Field("-i")}),
    "todo_write": Translation("TodoWrite"),
    "spawn_teammate": Translation("Task", {"role": Field("description")}),
    "send_message": Translation("SendMessage", {"to": Field("recipient")}),
    "submit_plan": Translation("ExitPlanMode"),
    "create_task": Translation("TaskCreate"),
    "update_task": Translation("TaskUpdate", {"task_id": _TASK_ID}),
    "list_tasks": Translation("TaskList"),
    "schedule_cron": Translation("CronCreate"),
    "list_crons": Translation("CronList"),
    "cancel_cron": Translation("CronDelete", {"job_id": Field("id")}),
    "get_task": Translation("TaskGet", {"task_id": _TASK_ID}),
}

OTHER_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "spawn_teammate": ("Agent",),
    "edit_file": ("MultiEdit",),
    "job_output": ("AgentOutputTool", "TaskOutput"),
    "kill_job": ("KillBash", "TaskStop"),
}
"""Further names that Claude Code has, or had, for what is one tool here."""
ABSENT: Final = frozenset({
    "AskUserQuestion", "Cd", "EnterPlanMode", "EnterWorktree", "ExitWorktree", "LS", "LSP",
    "ListMcpResourcesTool", "Monitor", "NotebookEdit", "NotebookRead", "PowerShell",
    "ReadMcpResourceTool", "ScheduleWakeup", "Skill", "SlashCommand", "TeamCreate", "TeamDelete",
    "ToolSearch", "WebFetch", "WebSearch", "Workflow",
})  # fmt: skip
"""Tools of Claude Code that have no counterpart here."""


def claude_name(tool: str) -> str:
    """The tool's name in a hook's payload."""
    known = TRANSLATIONS.get(tool)
    return known.name if known else tool


def names_of(tool: str) -> tuple[str, ...]:
    """Every name by which our tool can be meant: its own, and Claude Code's."""
    return (tool, claude_name(tool), *OTHER_NAMES.get(tool, ()))


def names(tools: frozenset[str]) -> frozenset[str]:
    """Every name by which a matcher can mean one of our tools."""
    return frozenset(name for tool in tools for name in names_of(tool))


def to_claude(tool: str, input: Mapping[str, Json], root: Path) -> dict[str, Json]:
    """A valid input of our `tool` as a hook sees it; paths are absolute."""
    fields = _fields(tool)
    return {
        fields[key].name if key in fields else key: (
            fields[key].there(value, root) if key in fields else value
        )
        for key, value in input.items()
    }


def from_claude(tool: str, input: Mapping[str, Json]) -> dict[str, Json]:
    """An input that a hook wrote, as our `tool` takes it. What does not fit is left as it is: the
    tool refuses it by name."""
    back = {known.name: (key, known) for key, known in _fields(tool).items()}
    return {
        back[key][0] if key in back else key: back[key][1].back(value) if key in back else value
        for key, value in input.items()
    }


def rewritten(
    tool: str,
    input: Mapping[str, Json],
    changed: Mapping[str, Json],
    removed: Collection[str],
) -> dict[str, Json]:
    """Our `input` with the fields that a hook changed or removed under Claude Code's names."""
    ours = {known.name: key for key, known in _fields(tool).items()}
    gone = {ours.get(name, name) for name in (*changed, *removed)}
    kept = {key: value for key, value in input.items() if key not in gone}
    return kept | from_claude(tool, changed)


def _fields(tool: str) -> Mapping[str, Field]:
    known = TRANSLATIONS.get(tool)
    return known.fields if known else {}
