"""The table of the events that hooks can listen to.

A hook event is one row here and one place that fires it. `docs/hooks.md` shows the table; tests
keep all three in step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRE_TOOL_USE: Final = "PreToolUse"
POST_TOOL_USE: Final = "PostToolUse"
POST_TOOL_USE_FAILURE: Final = "PostToolUseFailure"
PERMISSION_REQUEST: Final = "PermissionRequest"
NOTIFICATION: Final = "Notification"
USER_PROMPT_SUBMIT: Final = "UserPromptSubmit"
STOP: Final = "Stop"
TEAMMATE_IDLE: Final = "TeammateIdle"
SESSION_START: Final = "SessionStart"
SESSION_END: Final = "SessionEnd"
SUBAGENT_START: Final = "SubagentStart"
SUBAGENT_STOP: Final = "SubagentStop"
TASK_CREATED: Final = "TaskCreated"
TASK_CLAIMED: Final = "TaskClaimed"
TASK_COMPLETED: Final = "TaskCompleted"
PLAN_SUBMITTED: Final = "PlanSubmitted"
WORKTREE_CREATE: Final = "WorktreeCreate"
WORKTREE_LAND: Final = "WorktreeLand"

PERMISSION_PROMPT: Final = "permission_prompt"
PLAN_REVIEW: Final = "plan_review"
"""With `PERMISSION_PROMPT`: what a person is notified of."""
TEAMMATE: Final = "teammate"
"""The `agent_type` of a teammate."""


TIMEOUT: Final = 600.0
"""Seconds that a hook may take when neither it nor its event says: a `Stop` hook runs tests."""


@dataclass(frozen=True)
class HookEvent:
    """One row."""

    name: str
    when: str
    fields: tuple[str, ...] = ()
    """The payload's own fields, beside those that say where and for whom it is asked."""
    matches: str | None = None
    """The field that a matcher is compared with; `None` when the event takes no matcher."""
    values: tuple[str, ...] = ()
    """All that this field can be; empty for names of tools."""
    elsewhere: tuple[str, ...] = ()
    """What it can be in Claude Code and never is here."""
    blocks: str | None = None
    """What a hook that blocks brings about; `None` when none can block."""
    gates: bool = False
    """Whether it comes before something is done: then a hook that fails refuses it."""
    context: str | None = None
    """Where context that a hook adds goes; `None` when it cannot add any."""
    replaces: bool = False
    """Whether a hook may replace the result that it is told of."""
    timeout: float = TIMEOUT
    """Seconds that a hook may take when it does not say."""

    @property
    def about_call(self) -> bool:
        """Whether it is about one call of a tool."""
        return self.matches == "tool_name"


_TOOL: Final = ("tool_name", "tool_input", "tool_use_id")
_TASK: Final = ("task_id", "task_subject", "task_description")

_ROWS: Final = (
    HookEvent(
        SESSION_START,
        "A run begins, or goes on with an earlier session.",
        ("source",),
        matches="source",
        values=("startup", "resume"),
        elsewhere=("clear", "compact", "fork"),
        context="the lead's first request",
    ),
    HookEvent(
        USER_PROMPT_SUBMIT,
        "The lead is about to be given the request.",
        ("prompt",),
        blocks="the run ends before its first turn",
        gates=True,
        context="the lead's first request",
        timeout=30.0,
    ),
    HookEvent(
        PRE_TOOL_USE,
        "A tool call was read, and is about to be decided about and run.",
        _TOOL,
        matches="tool_name",
        blocks="the call does not run",
        gates=True,
        context="the call's result",
    ),
    HookEvent(
        PERMISSION_REQUEST,
        "A person is about to be asked whether a tool call may run. A hook can answer instead; "
        "deny rules and the plan gate hold all the same.",
        (*_TOOL, "reason", "permission_suggestions"),
        matches="tool_name",
        blocks="the call does not run",
    ),
    HookEvent(
        NOTIFICATION,
        "A question or a plan begins to wait for a person.",
        ("message", "title", "notification_type", "waiting_id"),
        matches="notification_type",
        values=(PERMISSION_PROMPT, PLAN_REVIEW),
        elsewhere=("auth_success", "elicitation_dialog", "idle_prompt"),
    ),
    HookEvent(
        POST_TOOL_USE,
        "A tool call has succeeded.",
        (*_TOOL, "tool_response", "duration_ms"),
        matches="tool_name",
        blocks="the agent reads the reason beside the result",
        context="the call's result",
        replaces=True,
    ),
    HookEvent(
        POST_TOOL_USE_FAILURE,
        "A tool call ran and failed.",
        (*_TOOL, "error", "duration_ms"),
        matches="tool_name",
        blocks="the agent reads the reason beside the result",
        context="the call's result",
        replaces=True,
    ),
    HookEvent(
        STOP,
        "The lead wants to end its turn.",
        ("stop_hook_active", "last_assistant_message", "background_tasks", "session_crons"),
        blocks="the lead goes on, with the reason as its request",
    ),
    HookEvent(
        TEAMMATE_IDLE,
        "A teammate wants to end its turn and report.",
        ("stop_hook_active", "last_assistant_message"),
        blocks="the teammate goes on, with the reason as its request",
    ),
    HookEvent(
        SUBAGENT_START,
        "A teammate's life begins.",
        (),
        matches="agent_type",
        values=(TEAMMATE,),
        context="the teammate's first request",
    ),
    HookEvent(
        SUBAGENT_STOP,
        "A teammate's life has ended, whatever ended it.",
        ("reason", "background_tasks", "session_crons"),
        matches="agent_type",
        values=(TEAMMATE,),
    ),
    HookEvent(
        TASK_CREATED,
        "A task is about to be added; it has no id yet.",
        _TASK,
        blocks="the task is not added",
        gates=True,
    ),
    HookEvent(
        TASK_CLAIMED,
        "A task is about to be claimed.",
        (*_TASK, "owner"),
        blocks="the claim is refused",
        gates=True,
    ),
    HookEvent(
        TASK_COMPLETED,
        "A task's check has passed, and it is about to be committed and completed.",
        (*_TASK, "owner", "summary"),
        blocks="the task stays in progress",
        gates=True,
    ),
    HookEvent(
        PLAN_SUBMITTED,
        "A plan is about to be submitted for review.",
        ("plan", "task_id"),
        blocks="the plan is not submitted",
        gates=True,
    ),
    HookEvent(
        WORKTREE_CREATE,
        "A worktree is about to be made.",
        ("name", "task_id"),
        blocks="the worktree is not made",
        gates=True,
    ),
    HookEvent(
        WORKTREE_LAND,
        "A completed task's worktree is about to be landed.",
        ("name", "task_id", "target"),
        blocks="nothing is landed",
        gates=True,
    ),
    HookEvent(
        SESSION_END,
        "A run has ended; the teammates have stopped.",
        ("reason",),
        matches="reason",
        values=("other", "interrupted", "error"),
        elsewhere=("clear", "logout", "prompt_input_exit", "resume"),
    ),
)

HOOK_EVENTS: Final[dict[str, HookEvent]] = {row.name: row for row in _ROWS}

UNAVAILABLE: Final = frozenset({
    "ConfigChange", "CwdChanged", "DirectoryAdded", "Elicitation", "ElicitationResult",
    "FileChanged", "InstructionsLoaded", "MessageDisplay", "PermissionDenied", "PostCompact",
    "PostToolBatch", "PreCompact", "Setup", "StopFailure",
    "UserPromptExpansion", "WorktreeRemove",
})  # fmt: skip
"""Events of Claude Code that nothing here brings about."""


def table() -> str:
    """The events as a table in Markdown, for the documentation."""
    lines = ["| event | when | payload | matcher | a block means |", "|---|---|---|---|---|"]
    for row in HOOK_EVENTS.values():
        fields = ", ".join(f"`{field}`" for field in row.fields) or "–"
        matcher = f"`{row.matches}`" if row.matches else "–"
        if row.values:
            matcher += f" ({', '.join(row.values)})"
        gate = " **(gate)**" if row.gates else ""
        lines.append(
            f"| `{row.name}`{gate} | {row.when} | {fields} | {matcher} | {row.blocks or '–'} |"
        )
    return "\n".join(lines) + "\n"
