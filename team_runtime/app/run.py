"""A run of a team, put together: settings, models, tools, members, and what is left at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from anyio import to_thread

from team_runtime.app.agents import AgentFactory, Models, make_permissions
from team_runtime.app.archive import tasks_of
from team_runtime.app.confinement import Confining
from team_runtime.app.hooks import About, begin, end, halting, load_hooks
from team_runtime.app.jobs import attach_jobs, job_limits
from team_runtime.app.listening import Listener
from team_runtime.app.recovery import Recovery
from team_runtime.app.schedules import add_cron
from team_runtime.app.workspace import Workspace
from team_runtime.board.base import Claim
from team_runtime.board.codec import task_record
from team_runtime.board.model import CANCELLED, COMPLETED
from team_runtime.clock import Clock, iso
from team_runtime.config import Settings
from team_runtime.crossing import Crossing, Stopped
from team_runtime.daemons.folders import look_again
from team_runtime.daemons.supervisor import Supervisor
from team_runtime.errors import HookRefused, LimitReached
from team_runtime.git.repository import Repository
from team_runtime.guard.hook_config import PythonHook
from team_runtime.guard.hook_run import LoopHost
from team_runtime.guard.hook_sources import Loaded
from team_runtime.guard.hooks import Hooks
from team_runtime.guard.permissions import RulePermissions
from team_runtime.models.base import Model
from team_runtime.notify.base import Sink
from team_runtime.notify.notifier import Notifier
from team_runtime.notify.sinks import make_sinks
from team_runtime.process.orphans import end_left_by
from team_runtime.process.run import BlockingRunner, LoopRunner
from team_runtime.store.presence import RunPresence, hold_team
from team_runtime.store.watcher import watch
from team_runtime.team.assignments import Assignments
from team_runtime.team.interrupts import Interrupts
from team_runtime.team.limits import Limits
from team_runtime.team.member import Spawn
from team_runtime.team.planning import LEAD, PERSON
from team_runtime.team.questions import Questions
from team_runtime.team.run import INTERRUPTED, Ending, Start, run_team
from team_runtime.team.team import STOP_SECONDS, Parts, Team
from team_runtime.types import Json, Usage

NOTIFY_SECONDS: Final = 10.0
"""How long the end of a run waits until people have been told."""


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
    """Told of every event, on the thread where it happens. When it fails it is told no more."""
    on_entry: Callable[[str, dict[str, Any]], None] = _ignore
    """Told of every entry of every conversation, with the agent's name."""
    pace: float = 0.0
    """Seconds that each reply of a scripted model takes."""
    resume: str | None = None
    """The session to go on with; its agents are where they were. `prompt` may be empty then."""
    waits_for_schedules: bool = True
    """Whether it waits for schedules of its session that are due before its time limit."""
    stop_seconds: float = STOP_SECONDS
    """Seconds that an agent may go on with its turn after it was asked to stop."""
    models: Mapping[str, Model] = field(default_factory=dict)
    """Models that the caller brings, by their `scripted:` names; the run closes them."""
    hooks: Sequence[PythonHook] = ()
    """Functions that listen to hook events, before those of any settings."""
    ring: Callable[[], None] = _ignore
    """Rings the bell of the terminal, where there is one."""
    attended: bool = False
    """Whether somebody is there who is shown what waits for a person, and can answer."""
    on_leave: Callable[[], None] = _ignore
    """Called when a third signal ends the process, and nothing else is tidied up."""

    @property
    def waits_for_answers(self) -> bool:
        """Whether a call that asks waits for a person; else it is refused at once."""
        chosen = self.settings.approvals
        return chosen == "wait" or (chosen == "auto" and self.attended)


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    ending: Ending
    session: str
    tasks: list[dict[str, Json]]
    """The tasks of this run as they are on disk."""
    lost: Sequence[str]
    """Ids of its tasks whose files are gone: deleted, or set aside because they were broken."""
    usage: Usage
    turns: int
    seconds: float
    signalled: bool = False
    """Whether a signal came, also one that was too late to change anything."""

    @property
    def unfinished(self) -> list[str]:
        """Ids of the run's tasks that are neither completed nor called off."""
        open_ = [t["id"] for t in self.tasks if t["status"] not in (COMPLETED, CANCELLED)]
        return [*open_, *self.lost]

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
    settings or an unknown session; nothing was started then.
    """
    plain = Workspace(request.root, request.environ)
    repository = plain.repository
    loaded = load_hooks(request.root, request.environ, request.settings.hooks, request.hooks)
    confining = plain.confined_by(request.settings)
    permissions = make_permissions(request.settings, loaded, confining.sandbox.complete)
    models = Models(request.settings.retry_base, request.pace, request.models)
    models.get(request.settings.model)
    sinks = make_sinks(request.settings.notify, BlockingRunner(), request.environ, request.ring)
    plain.keep_out_of_git()
    with hold_team(plain.store, request.resume) as hold:
        session = _session(plain, request)
        hold.note({"session": session})
        presence = RunPresence.start(plain.store, {"session": session, "kind": "team"})
        try:
            confining.clear()
            host = _Host(
                request,
                session,
                presence,
                loaded,
                confining,
                permissions,
                models,
                repository,
                sinks,
            )
            return anyio.run(host.run)
        finally:
            end_left_by([presence.run])
            presence.end()


def _session(plain: Workspace, request: RunRequest) -> str:
    """The id of the session that is resumed, or of a new one."""
    if request.resume is not None:
        return str(plain.sessions.load(request.resume)["id"])
    settings = request.settings
    record = {"team": settings.name, "model": settings.model, "prompt": request.prompt}
    return str(plain.sessions.create(record)["id"])


@dataclass
class _Host:
    """One run's event loop."""

    request: RunRequest
    session: str
    presence: RunPresence
    loaded: Loaded
    confining: Confining
    permissions: RulePermissions
    models: Models
    repository: Repository
    sinks: Sequence[Sink]
    touched: set[str] = field(default_factory=set)
    """Ids of the tasks that were made or claimed in this run."""

    async def run(self) -> RunResult:
        """The whole run, with an ear for signals from its beginning to its end."""
        interrupts = Interrupts(self._leave, self.request.stop_seconds)
        async with anyio.create_task_group() as group:
            if threading.current_thread() is threading.main_thread():
                await group.start(interrupts.watch)
            result = await self._run(interrupts)
            group.cancel_scope.cancel()
        return replace(result, signalled=interrupts.seen > 0)

    def _leave(self) -> None:
        end_left_by([self.presence.run], leave_git=True)
        self.request.on_leave()
        os._exit(INTERRUPTED)

    async def _run(self, interrupts: Interrupts) -> RunResult:
        workspace = self._workspace()
        clock = workspace.store.clock
        began = clock.monotonic()
        notifier = self._notifier(workspace)
        self._announce_start(workspace)
        for text in (*self.loaded.notices, *self._notices()):
            workspace.events.emit("notice", text=text)
        recovery = Recovery(workspace, self.presence)
        claims = await to_thread.run_sync(recovery.run, self.session)
        listener = Listener("on_entry", self.request.on_entry, workspace.events.emit)
        questions = self._questions(workspace)
        factory = AgentFactory(workspace, self.models, self.permissions, questions, listener)
        team = self._team(workspace, factory)
        workspace.hooks.halt = halting(team)
        jobs = attach_jobs(
            workspace, team, job_limits(self.request.settings), self.confining.sandbox
        )
        factory.jobs = jobs
        supervisor = Supervisor(clock, workspace.events.emit, lambda e: team.stop(str(e), e))
        add_cron(workspace, team, supervisor, self._ends(clock), self.request.waits_for_schedules)
        limits = Limits(self.request.settings.max_turns, lambda e: team.stop(str(e), e))
        factory.may_call = limits.count_turn
        start = self._start(workspace, claims)
        is_new = LEAD not in workspace.sessions.agents(self.session)
        layout = workspace.store.layout
        watched = [layout.mail, layout.tasks, layout.approvals, layout.job_requests]
        for folder in watched:
            workspace.store.folder(folder)

        def on_folder(folder: Path) -> None:
            team.on_folder(folder)
            jobs.on_folder(folder)

        def on_file(path: Path) -> None:
            team.on_file(path)
            questions.on_file(path)
            jobs.on_folder(path.parent)

        watching = watch(watched, on_file)
        look = partial(look_again, workspace.told_folders, on_folder, watching.active)
        supervisor.add("folders", look)
        supervisor.add("jobs", jobs.answer_requests)
        try:
            workspace.hooks.attach(LEAD, LoopHost(interrupts.before))
            start = await to_thread.run_sync(begin, workspace.hooks, start, is_new)
            async with anyio.create_task_group() as group:
                group.start_soon(supervisor.run)
                jobs.open(group)
                ending = await run_team(team, start, self.request.settings.timeout, interrupts)
                await jobs.shut_down(_why_it_ends(ending))
                group.cancel_scope.cancel()
            workspace.hooks.detach(LEAD)
            await to_thread.run_sync(end, workspace.hooks, ending)
        except HookRefused as refused:
            ending = Ending("", interrupts.seen > 0, refused)
        except Stopped:  # before there was a team
            ending = Ending("", interrupted=True)
        finally:
            watching.close()
            await self.models.close()
            workspace.bus.close()
        tasks = self._tasks(workspace)
        result = RunResult(
            ending=ending,
            session=self.session,
            tasks=tasks,
            lost=self._lost(tasks),
            usage=factory.usage(),
            turns=limits.turns,
            seconds=clock.monotonic() - began,
        )
        _announce_end(workspace, result)
        await to_thread.run_sync(notifier.close, NOTIFY_SECONDS)
        return result

    def _ends(self, clock: Clock) -> datetime | None:
        """When the time limit is reached."""
        seconds = self.request.settings.timeout
        return None if seconds is None else clock.now() + timedelta(seconds=seconds)

    def _notifier(self, workspace: Workspace) -> Notifier:
        """What tells people who are elsewhere. Plans concern them when a person reviews them."""
        by_person = self.request.settings.plan_review == PERSON
        left_out = frozenset() if by_person else frozenset({"plan_submitted"})
        notifier = Notifier(self.sinks, workspace.events.emit, left_out)
        workspace.events.add(notifier.on_event)
        return notifier

    def _announce_start(self, workspace: Workspace) -> None:
        workspace.events.emit(
            "run_started",
            session=self.session,
            model=self.request.settings.model,
            permission_mode=self.request.settings.permission_mode,
            sandbox=self.confining.sandbox.describe(),
            workspace=str(self.request.root),
            resumed=self.request.resume is not None,
        )

    def _notices(self) -> Iterator[str]:
        sandbox = self.confining.sandbox
        if self.request.settings.sandbox_allows_commands and not sandbox.complete:
            yield f"sandbox_allows_commands has no effect, because the sandbox is {sandbox.layer}"

    def _workspace(self) -> Workspace:
        """The workspace's services, with programs started from this loop."""
        workspace = Workspace(
            self.request.root,
            self.request.environ,
            LoopRunner(Crossing()),
            self.presence.run,
            self.presence,
        )
        workspace.repository = self.repository.through(workspace.runner)
        workspace.confining = self.confining.heard_by(workspace.events.emit)
        workspace.events.add(Listener("on_event", self.request.on_event, workspace.events.emit))
        settings = self.request.settings
        about = About(self.request.root, self.session, settings.name, settings.permission_mode)
        workspace.hooks = Hooks(
            self.loaded.hooks,
            workspace.surroundings,
            LoopHost(Crossing()),
            workspace.events.emit,
            about.facts,
        )
        workspace.events.add(self._note_task)
        return workspace

    def _questions(self, workspace: Workspace) -> Questions:
        deadline = self.request.settings.approval_deadline
        questions = Questions(
            approvals=workspace.approvals,
            clock=workspace.store.clock,
            emit=workspace.events.emit,
            gates=workspace.gates,
            deadline=deadline if self.request.waits_for_answers else None,
        )
        workspace.events.add(questions.on_event)
        return questions

    def _team(self, workspace: Workspace, factory: AgentFactory) -> Team:
        settings = self.request.settings
        assignments = Assignments(
            workspace.board,
            workspace.work,
            workspace.plans,
            self.request.root,
            confined=self.confining.holds,
        )
        parts = Parts(
            name=settings.name,
            session=self.session,
            run=self.presence.run,
            started_at=iso(workspace.store.clock.now()),
            model=settings.model,
            board=workspace.board,
            bus=workspace.bus,
            assignments=assignments,
            planning=workspace.planning(settings.plan_review, settings.plan_deadline),
            sessions=workspace.sessions,
            clock=workspace.store.clock,
            emit=workspace.events.emit,
            stop_seconds=self.request.stop_seconds,
        )
        team = Team(parts, factory.make)
        workspace.events.add(team.on_event)
        return team

    def _start(self, workspace: Workspace, claims: list[Claim]) -> Start:
        """What the run begins with; a resumed session with the teammates that were not sent
        away."""
        session = workspace.sessions.load(self.session)
        roster = [
            Spawn(
                name=agent["name"],
                role=agent["role"],
                prompt="",
                require_plan=agent["requirePlan"],
                model=agent["model"],
                permissions=agent.get("permissions", {}),
            )
            for agent in session.get("agents", [])
            if "role" in agent and not agent.get("dismissed")
        ]
        further = self.request.prompt if self.request.resume is not None else ""
        return Start(session["prompt"], further, claims, roster)

    def _tasks(self, workspace: Workspace) -> list[dict[str, Json]]:
        session = workspace.sessions.load(self.session)
        return [task_record(task) for task in tasks_of(workspace, session)]

    def _note_task(self, event: Mapping[str, Any]) -> None:
        if event["kind"] in ("task_created", "task_claimed"):
            self.touched.add(event["task"])

    def _lost(self, tasks: Sequence[Mapping[str, Json]]) -> list[str]:
        return sorted(self.touched.difference(task["id"] for task in tasks))


def _why_it_ends(ending: Ending) -> str:
    if ending.interrupted:
        return "the run was interrupted"
    limit = isinstance(ending.error, LimitReached)
    return "a limit of the run was reached" if limit else "the run has ended"


def _announce_end(workspace: Workspace, result: RunResult) -> None:
    workspace.events.emit(
        "run_ended",
        session=result.session,
        exit_code=result.exit_code,
        turns=result.turns,
        usage=result.usage.to_api(),
    )
