"""The parts of one run, put together: services, agents, and what runs beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from team_runtime.app.agents import AgentFactory, Models
from team_runtime.app.confinement import Confining
from team_runtime.app.hooks import About, halting
from team_runtime.app.jobs import attach_jobs, job_limits
from team_runtime.app.listening import Listener
from team_runtime.app.request import RunRequest
from team_runtime.app.schedules import add_cron
from team_runtime.app.workspace import Workspace
from team_runtime.bus.session_bus import SessionBus
from team_runtime.clock import iso
from team_runtime.crossing import Crossing
from team_runtime.daemons.cron import Cron
from team_runtime.daemons.folders import Floor
from team_runtime.daemons.jobs import Jobs
from team_runtime.daemons.supervisor import Supervisor
from team_runtime.git.repository import Repository
from team_runtime.guard.hook_hosts import LoopHost
from team_runtime.guard.hook_sources import Loaded
from team_runtime.guard.hooks import Hooks
from team_runtime.guard.permissions import RulePermissions
from team_runtime.notify.base import Sink
from team_runtime.notify.notifier import Notifier
from team_runtime.process.run import LoopRunner
from team_runtime.store.presence import RunPresence
from team_runtime.store.watcher import Watch, watch
from team_runtime.team.assignments import Assignments
from team_runtime.team.limits import Limits
from team_runtime.team.planning import PERSON
from team_runtime.team.questions import Questions
from team_runtime.team.team import Parts, Team


@dataclass(frozen=True)
class RunParts:
    """What a run has before its loop begins: all that can be refused has been."""

    request: RunRequest
    session: str
    presence: RunPresence
    loaded: Loaded
    confining: Confining
    permissions: RulePermissions
    models: Models
    repository: Repository
    sinks: Sequence[Sink]


@dataclass(frozen=True)
class Assembled:
    """The parts of a run that is about to begin."""

    team: Team
    factory: AgentFactory
    jobs: Jobs
    supervisor: Supervisor
    limits: Limits
    watching: Watch


def make_workspace(prepared: RunParts) -> Workspace:
    """The workspace's services, with programs started from this loop."""
    workspace = Workspace(
        prepared.request.root,
        prepared.request.environ,
        LoopRunner(Crossing()),
        prepared.presence.run,
        prepared.presence,
    )
    workspace.repository = prepared.repository.through(workspace.runner)
    workspace.confining = prepared.confining.heard_by(workspace.events.emit)
    workspace.events.add(Listener("on_event", prepared.request.on_event, workspace.events.emit))
    settings = prepared.request.settings
    about = About(prepared.request.root, prepared.session, settings.name, settings.permission_mode)
    workspace.hooks = Hooks(
        prepared.loaded.hooks,
        workspace.surroundings,
        LoopHost(Crossing()),
        workspace.events.emit,
        about.facts,
    )
    return workspace


def make_notifier(prepared: RunParts, workspace: Workspace) -> Notifier:
    """What tells people who are elsewhere. Plans concern them when a person reviews them."""
    by_person = prepared.request.settings.plan_review == PERSON
    left_out = frozenset() if by_person else frozenset({"plan_submitted"})
    notifier = Notifier(prepared.sinks, workspace.events.emit, left_out)
    workspace.events.add(notifier.on_event)
    return notifier


def assemble(prepared: RunParts, workspace: Workspace) -> Assembled:
    """Make the team and what runs beside it; nothing of it has begun. Call on the loop."""
    request, emit = prepared.request, workspace.events.emit
    listener = Listener("on_entry", request.on_entry, emit)
    questions = _questions(request, workspace)
    factory = AgentFactory(workspace, prepared.models, prepared.permissions, questions, listener)
    team = _team(prepared, workspace, factory)
    workspace.hooks.halt = halting(team)
    limits = Limits(request.settings.max_turns, lambda e: team.stopping.ask_all(str(e), e))
    factory.may_call = limits.count_turn
    sandbox = prepared.confining.sandbox
    factory.jobs = jobs = attach_jobs(workspace, team, job_limits(request.settings), sandbox)
    supervisor = Supervisor(workspace.store.clock, emit, lambda e: team.stopping.ask_all(str(e), e))
    ends = _ends(request, workspace)
    cron = add_cron(workspace, team, supervisor, ends, request.waits_for_schedules)
    supervisor.add("jobs", jobs.answer_requests)
    watching = _watch(workspace, Heard(team, jobs, questions, cron), supervisor)
    return Assembled(team, factory, jobs, supervisor, limits, watching)


@dataclass(frozen=True)
class Heard:
    """Whoever is told of changed files."""

    team: Team
    jobs: Jobs
    questions: Questions
    cron: Cron

    def on_folder(self, folder: Path) -> None:
        if self.cron.on_folder(folder):
            return
        self.team.roster.on_folder(folder)
        self.jobs.on_folder(folder)

    def on_file(self, path: Path) -> None:
        if self.cron.on_folder(path.parent):
            return
        self.team.roster.on_file(path)
        self.questions.on_file(path)
        self.jobs.on_folder(path.parent)


def _watch(workspace: Workspace, heard: Heard, supervisor: Supervisor) -> Watch:
    """File events, and under them a daemon that looks at the folders themselves."""
    layout = workspace.store.layout
    watched = [layout.mail, layout.approvals, layout.schedules, layout.job_requests]
    for folder in watched:
        workspace.store.folder(folder)
    floor = Floor(workspace.told_folders, heard.on_folder)

    def on_file(path: Path) -> None:
        floor.hear()
        heard.on_file(path)

    above = [layout.team, layout.job_requests.parent, layout.workspace]
    watching = watch(watched, on_file, layout.tasks, floor.hear, above)
    supervisor.add("folders", partial(floor.run, watching))
    return watching


def _questions(request: RunRequest, workspace: Workspace) -> Questions:
    deadline = request.settings.approval_deadline
    questions = Questions(
        approvals=workspace.approvals,
        clock=workspace.store.clock,
        emit=workspace.events.emit,
        gates=workspace.gates,
        deadline=deadline if request.waits_for_answers else None,
    )
    workspace.events.add(questions.on_event)
    return questions


def _team(prepared: RunParts, workspace: Workspace, factory: AgentFactory) -> Team:
    settings = prepared.request.settings
    assignments = Assignments(
        workspace.board,
        workspace.work,
        workspace.plans,
        prepared.request.root,
        confined=prepared.confining.holds,
    )
    parts = Parts(
        name=settings.name,
        session=prepared.session,
        run=prepared.presence.run,
        started_at=iso(workspace.store.clock.now()),
        model=settings.model,
        board=workspace.board,
        bus=SessionBus(workspace.bus, prepared.session),
        assignments=assignments,
        planning=workspace.planning(settings.plan_review, settings.plan_deadline),
        sessions=workspace.sessions,
        clock=workspace.store.clock,
        emit=workspace.events.emit,
        stop_seconds=prepared.request.stop_seconds,
        waits_for_reviews=prepared.request.waits_for_reviews,
    )
    team = Team(parts, factory.make)
    assignments.on_free = team.roster.ring_all
    workspace.events.add(team.roster.on_event)
    return team


def _ends(request: RunRequest, workspace: Workspace) -> datetime | None:
    """When the time limit is reached."""
    seconds = request.settings.timeout
    return None if seconds is None else workspace.store.clock.now() + timedelta(seconds=seconds)
