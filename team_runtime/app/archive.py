"""Everything that is on disk about one session."""

from __future__ import annotations

from collections.abc import Iterator

from team_runtime.app.workspace import Workspace
from team_runtime.approvals.model import approval_record
from team_runtime.board.codec import task_record
from team_runtime.board.model import Task
from team_runtime.errors import RecordBroken
from team_runtime.plans.model import plan_record
from team_runtime.store.records import decode_record
from team_runtime.types import Json


def archive(workspace: Workspace, session: str) -> Iterator[dict[str, Json]]:
    """The session's record, then its conversations, tasks, plans, approvals and events, each with
    the `record` that it is. Raises `InputError` for an unknown session."""
    record = workspace.sessions.load(session)
    yield {"record": "session", **record}
    for agent in workspace.sessions.agents(session):
        for entry in workspace.sessions.transcript(session, agent).entries():
            yield {"record": "entry", "agent": agent, **entry}
    for task in tasks_of(workspace, record):
        yield {"record": "task", **task_record(task)}
    for plan in workspace.plans.list():
        if plan.session == session:
            yield {"record": "plan", **plan_record(plan)}
    for approval in workspace.approvals.list():
        if approval.asker.session == session:
            yield {"record": "approval", **approval_record(approval)}
    runs = set(record.get("runs", []))
    for event in _events(workspace):
        if event.get("run") in runs:
            yield {"record": "event", **event}


def agent_states(workspace: Workspace, run: str) -> list[dict[str, Json]]:
    """What each agent of a run said last about its state: `agent`, `state`, `task`, `since`."""
    latest: dict[str, dict[str, Json]] = {}
    for event in _events(workspace, b'"agent_state"', run.encode()):
        if event.get("run") == run and event["kind"] == "agent_state":
            agent = str(event["agent"])
            latest[agent] = {
                "agent": agent,
                "state": event["state"],
                "task": event.get("task"),
                "since": event["ts"],
            }
    return list(latest.values())


def daemon_states(workspace: Workspace, run: str) -> list[dict[str, Json]]:
    """What is known of each daemon of a run: `daemon`, `state`, `cause`, `since`."""
    latest: dict[str, dict[str, Json]] = {}
    for event in _events(workspace, b'"daemon_state"', run.encode()):
        if event.get("run") == run and event["kind"] == "daemon_state":
            told = {key: event.get(key) for key in ("daemon", "state", "cause")}
            latest[str(event["daemon"])] = {**told, "since": event["ts"]}
    return list(latest.values())


def tasks_of(workspace: Workspace, session: dict[str, Json]) -> list[Task]:
    """The tasks that were made or worked on in a session, given by its record."""
    runs = set(session.get("runs", []))
    return [
        task
        for task in workspace.board.list()
        if task.session == session["id"] or any(attempt.run in runs for attempt in task.attempts)
    ]


def _events(workspace: Workspace, *parts: bytes) -> Iterator[dict[str, Json]]:
    """The logged events whose lines hold all of `parts`."""
    path = workspace.store.layout.events
    for line in workspace.store.read_lines(path):
        if not all(part in line for part in parts):
            continue
        try:
            yield decode_record(line, path, version=1)
        except RecordBroken:
            continue  # torn by a crash
