"""A run of a team, put together: settings, models, tools, members, and what is left at the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from anyio import to_thread

from team_runtime.app.agents import AgentFactory, Models, make_permissions
from team_runtime.app.workspace import Workspace
from team_runtime.board.codec import task_record
from team_runtime.board.model import CANCELLED, COMPLETED
from team_runtime.clock import iso
from team_runtime.config import Settings
from team_runtime.crossing import Crossing
from team_runtime.errors import Held, NotARepository, TeamRunning
from team_runtime.git.repository import Repository
from team_runtime.guard.base import Permissions
from team_runtime.process.run import LoopRunner
from team_runtime.store.presence import RunPresence
from team_runtime.store.watcher import watch
from team_runtime.team.assignments import Assignments
from team_runtime.team.limits import Limits
from team_runtime.team.run import INTERRUPTED, Ending, run_team
from team_runtime.team.team import Parts, Team
from team_runtime.types import Json, Usage


def _ignore(*_: Any) -> None:
    """For those who do not listen."""


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do."""

    root: Path
    prompt: str
    settings: Settings
    environ: Mapping[str, str]
    on_event: Callable[[dict[str, Any]], None] = _ignore
    """Told of every event, on the thread where it happens."""
    on_entry: Callable[[str, dict[str, Any]], None] = _ignore
    """Told of every entry of every conversation, with the agent's name."""
    pace: float = 0.0
    """Seconds that each reply of a scripted model takes."""


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    ending: Ending
    session: str
    tasks: list[dict[str, Json]]
    """The tasks of this run as they are on disk."""
    usage: Usage
    turns: int
    seconds: float

    @property
    def unfinished(self) -> list[str]:
        """Ids of the run's tasks that are neither completed nor called off."""
        return [t["id"] for t in self.tasks if t["status"] not in (COMPLETED, CANCELLED)]

    @property
    def exit_code(self) -> int:
        """As the documentation promises: 0, 1, 2, 3, 4 or 130."""
        if self.ending.interrupted:
            return INTERRUPTED
        if self.ending.error is not None:
            return self.ending.error.exit_code
        return 1 if self.unfinished else 0


def run_team_in(request: RunRequest) -> RunResult:
    """Run a team in a workspace until its request is done.

    Raises `TeamRunning` when one runs there already, `NotARepository`, or `InputError` for bad
    settings; nothing was started then.
    """
    plain = Workspace(request.root, request.environ)
    repository = plain.repository
    if repository.root.resolve() != request.root.resolve():
        hint = f"Use -C {repository.root}"
        raise NotARepository(str(request.root), "it is not the root of its repository", hint)
    permissions = make_permissions(request.settings)
    models = Models(request.settings.retry_base, request.pace)
    models.get(request.settings.model)
    session = plain.sessions.create(
        {"team": request.settings.name, "model": request.settings.model, "prompt": request.prompt}
    )["id"]
    try:
        hold = plain.store.hold("team", {"session": session, "workspace": str(request.root)})
    except Held as error:
        other = str(error.info.get("session", "unknown"))
        raise TeamRunning(error.pid, other, str(request.root)) from error
    with hold:
        presence = RunPresence.start(plain.store, {"session": session, "kind": "team"})
        try:
            host = _Host(request, session, presence, permissions, models, repository)
            return anyio.run(host.run)
        finally:
            presence.end()


@dataclass
class _Host:
    """One run's event loop."""

    request: RunRequest
    session: str
    presence: RunPresence
    permissions: Permissions
    models: Models
    repository: Repository

    async def run(self) -> RunResult:
        settings = self.request.settings
        crossing = Crossing()
        workspace = Workspace(
            self.request.root,
            self.request.environ,
            LoopRunner(crossing),
            self.presence.run,
            self.presence,
        )
        workspace.repository = self.repository.through(workspace.runner)
        workspace.events.add(self.request.on_event)
        clock = workspace.store.clock
        started, began = iso(clock.now()), clock.monotonic()
        await to_thread.run_sync(self._recover, workspace)
        assignments = Assignments(
            workspace.board, workspace.work, workspace.plans, self.request.root
        )
        parts = Parts(
            name=settings.name,
            session=self.session,
            run=self.presence.run,
            started_at=started,
            model=settings.model,
            board=workspace.board,
            bus=workspace.bus,
            assignments=assignments,
            planning=workspace.planning(settings.plan_review, settings.plan_deadline),
            sessions=workspace.sessions,
            clock=clock,
            emit=workspace.events.emit,
        )
        factory = AgentFactory(workspace, self.models, self.permissions, self.request.on_entry)
        team = Team(parts, factory.make)
        limits = Limits(settings.max_turns, lambda error: team.stop(str(error), error))
        factory.may_call = limits.count_turn
        workspace.events.add(team.on_event)
        workspace.events.emit(
            "run_started",
            session=self.session,
            model=settings.model,
            permission_mode=settings.permission_mode,
            workspace=str(self.request.root),
        )
        watching = watch([workspace.store.layout.mail, workspace.store.layout.tasks], team.on_file)
        try:
            ending = await run_team(team, self.request.prompt, settings.timeout)
        finally:
            watching.close()
            await self.models.close()
            workspace.bus.close()
        result = RunResult(
            ending=ending,
            session=self.session,
            tasks=self._tasks(workspace),
            usage=factory.usage(),
            turns=limits.turns,
            seconds=clock.monotonic() - began,
        )
        workspace.events.emit(
            "run_ended",
            session=self.session,
            exit_code=result.exit_code,
            turns=result.turns,
            usage=result.usage.to_api(),
        )
        return result

    def _recover(self, workspace: Workspace) -> None:
        """Put right what an earlier process left in the middle, before any agent starts."""
        workspace.repository.exclude_runtime_files()
        workspace.landing.recover()
        workspace.board.reap()
        workspace.work.worktrees.list()

    def _tasks(self, workspace: Workspace) -> list[dict[str, Json]]:
        return [
            task_record(task)
            for task in workspace.board.list()
            if task.session == self.session
            or any(attempt.run == self.presence.run for attempt in task.attempts)
        ]
