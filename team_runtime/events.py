"""The table of events and the log that records them.

An event is one row here and one `emit`; a test keeps both in step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from team_runtime.clock import Clock, iso
from team_runtime.text import Redactor

EVENTS: Final[dict[str, str]] = {
    "run_started": "A process began a run: session, model, permission mode, sandbox, workspace.",
    "run_ended": "The run ended: outcome, turns, tokens.",
    "agent_spawned": "An agent exists: role, model, task.",
    "agent_state": "An agent is now working, idle, waiting, stopping or stopped.",
    "turn_started": "A model call begins: turn number, task.",
    "turn_ended": "The turn's model call and tools are done: stop reason, tokens, tools.",
    "tool_started": "A tool call was allowed and begins.",
    "tool_ended": "A tool call has its result: whether it is an error, seconds.",
    "permission_denied": "A tool call was refused: rule, reason, whether nobody could answer.",
    "task_created": "A task was added to the board.",
    "task_claimed": "A task was claimed: owner, epoch.",
    "task_completed": "A task was completed: owner, commit.",
    "task_released": "A task went back to pending: owner, note.",
    "task_failed": "A task was given up: owner, note.",
    "task_cancelled": "A task was called off.",
    "plan_submitted": "A plan revision waits for review: request, revision, task, text.",
    "plan_decided": "A plan revision was decided: decision, by whom, feedback.",
    "approval_asked": "A question waits for a person: tool, subject, task, reason, rule, deadline.",
    "approval_answered": "A question has ended: decision, by whom, note, whether for always.",
    "worktree_created": "A worktree and its branch exist: base, target.",
    "worktree_landed": "A worktree's work is on the target branch: commit, merge.",
    "worktree_removed": "A worktree's folder is gone: what was rescued.",
    "message_sent": "A message is durable in a mailbox.",
    "message_delivered": "A message entered the recipient's conversation.",
    "api_retry": "A model call failed and will be tried again: cause, delay in seconds.",
    "job_started": "A background command runs: job, command, task, whether it was moved there.",
    "job_ended": "A background command has ended: job, status, exit code, reason, seconds.",
    "network_refused": "A command wanted to reach a host that is not allowed: host.",
    "hook_ran": "A hook has run: event, hook, verdict, what went wrong, seconds.",
    "process_ended": "A process that a dead run had left behind was ended: pid, name.",
    "schedule_added": "A schedule was made: when.",
    "schedule_removed": "A schedule was taken away.",
    "schedule_fired": "A slot fires: schedule, slot, session, prompt.",
    "schedule_skipped": "Slots of a schedule do not fire: how many, the last one, why.",
    "schedule_ended": "A firing is over: acknowledged or failed, why.",
    "daemon_state": "A daemon is now running, standby, restarting, stopped or failed: cause.",
    "notice": "Something that a person should look at.",
    "quarantined": "A file that could not be read was set aside: where.",
}


class Emit(Protocol):
    """How code reports an event."""

    def __call__(self, kind: str, agent: str | None = None, **fields: Any) -> None: ...


class EventLog:
    """Builds each event's record once and hands it to every sink, in order.

    Sinks are called on the emitting thread and must be thread-safe and quick.
    """

    def __init__(self, run: str, clock: Clock, redactor: Redactor | None = None) -> None:
        self.run = run
        self._clock = clock
        self._redactor = redactor or Redactor()
        self._sinks: list[Callable[[dict[str, Any]], None]] = []

    def add(self, sink: Callable[[dict[str, Any]], None]) -> None:
        """Send every later event to `sink` too."""
        self._sinks.append(sink)

    def emit(self, kind: str, agent: str | None = None, **fields: Any) -> None:
        """Record an event of the table. Raises `KeyError` for a kind that has no row."""
        EVENTS[kind]
        record = {
            "ts": iso(self._clock.now()),
            "run": self.run,
            "agent": agent,
            "kind": kind,
            **self._redactor.value(fields),
        }
        for sink in self._sinks:
            sink(record)


def no_events(kind: str, agent: str | None = None, **fields: Any) -> None:
    """An `Emit` that records nothing, for code used without a run."""
