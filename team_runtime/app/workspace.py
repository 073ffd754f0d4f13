"""The services of one workspace, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from team_runtime.app.confinement import Confining
from team_runtime.app.hooks import command_hooks
from team_runtime.app.trusting import trusts_git
from team_runtime.approvals.store import ApprovalStore
from team_runtime.board.json_board import JsonBoard
from team_runtime.board.model import Task
from team_runtime.bus.maildir import Maildir
from team_runtime.clock import SystemClock
from team_runtime.daemons.job_records import JobStore
from team_runtime.errors import InputError, NotARepository, ProgramMissing
from team_runtime.events import EventLog
from team_runtime.git.landing import Landing
from team_runtime.git.repository import Repository
from team_runtime.git.run import Git
from team_runtime.git.worktrees import Worktrees
from team_runtime.guard.hook_hosts import ThreadHost
from team_runtime.guard.hook_run import Surroundings
from team_runtime.guard.hooks import Hooks
from team_runtime.places import SETTINGS_FILE, user_folder
from team_runtime.plans.store import PlanStore
from team_runtime.process.base import Runner
from team_runtime.process.detection import detect
from team_runtime.process.domains import Domains
from team_runtime.process.environment import scrubbed, secret_values
from team_runtime.process.orphans import MARK
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import ConfinedRunner
from team_runtime.sessions.sessions import Sessions
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout
from team_runtime.store.presence import Runs
from team_runtime.store.records import encode_line
from team_runtime.team.gates import Gates
from team_runtime.team.landings import Landings
from team_runtime.team.planning import LEAD, Planning
from team_runtime.team.work import Work
from team_runtime.text import Redactor

if TYPE_CHECKING:
    from team_runtime.config import Settings
    from team_runtime.daemons.schedule_store import ScheduleStore

COMMAND_RUN: Final = "command"
"""The `run` of events that a command makes outside of any run."""


@dataclass
class Workspace:
    """The services of one workspace, each made when it is first used.

    A command uses it as it is; a run gives it the run's id and presence and a runner that starts
    programs from the event loop.
    """

    root: Path
    environ: Mapping[str, str]
    runner: Runner = field(default_factory=BlockingRunner)
    run: str | None = None
    presence: Runs | None = None

    @cached_property
    def events(self) -> EventLog:
        log = EventLog(self.run or COMMAND_RUN, SystemClock(), self.redactor)
        path = Layout(self.root.absolute()).events
        log.add(lambda record: self.store.append(path, encode_line(record)))
        return log

    @cached_property
    def store(self) -> Store:
        return Store.open(self.root, emit=lambda *a, **k: self.events.emit(*a, **k))

    @cached_property
    def board(self) -> JsonBoard:
        presence = self.presence or Runs(self.store)
        return JsonBoard(self.store, presence, self.run, self.events.emit)

    @cached_property
    def bus(self) -> Maildir:
        return Maildir(self.store, self.events.emit)

    @cached_property
    def jobs(self) -> JobStore:
        return JobStore(self.store)

    @cached_property
    def plans(self) -> PlanStore:
        return PlanStore(self.store, self.events.emit)

    @cached_property
    def approvals(self) -> ApprovalStore:
        presence = self.presence or Runs(self.store)
        return ApprovalStore(self.store, presence.liveness, self.events.emit)

    @cached_property
    def schedules(self) -> ScheduleStore:
        from team_runtime.daemons.schedule_store import ScheduleStore

        return ScheduleStore(self.store, self.events.emit)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.store)

    def told_folders(self) -> list[Path]:
        """The folders in which a change may be news for an agent, a job or a daemon."""
        layout = self.store.layout
        mail = layout.mail
        return [
            layout.tasks,
            layout.schedules,
            layout.job_requests,
            *(mail / name / "new" for name in self.store.names(mail)),
        ]

    @cached_property
    def environment(self) -> dict[str, str]:
        """What child processes get to see; those of a run carry its id. Raises `InputError` for
        settings of the user that cannot be read."""
        named: Sequence[str] = ()
        if (user_folder(self.environ) / SETTINGS_FILE).exists():
            from team_runtime.config import passed_on

            named = passed_on(self.environ)
        mark = {MARK: self.run} if self.run is not None else {}
        return {**scrubbed(self.environ, named), **mark}

    @cached_property
    def redactor(self) -> Redactor:
        """Knows what may be neither recorded nor told to a model."""
        return Redactor(secret_values(self.environ))

    @cached_property
    def repository(self) -> Repository:
        """The repository whose root the workspace is. Raises `NotARepository`."""
        git = Git(self.runner, self.environment)
        repository = Repository.open(self.root, git, trusts_git(self.root, self.environ))
        if repository.root.resolve() != self.root.resolve():
            hint = f"Use -C {repository.root}"
            raise NotARepository(str(self.root), "it is not the root of its repository", hint)
        return repository

    def create_task(self, subject: str, description: str = "", **given: Any) -> Task:
        """Add a task as `Gates.create_on` does, to a board that stays out of git."""
        self._keep_out_of_git()
        return self.gates.create_on(self.board, subject, description, **given)

    def _keep_out_of_git(self) -> None:
        """See to it that git ignores our folders, where the workspace is a repository. Git is run
        only the first time, so that the board stays quick."""
        git_folder = self.root / ".git"
        exclude = git_folder / "info" / "exclude"
        if not git_folder.exists() or (exclude.is_file() and b"/.tasks/" in exclude.read_bytes()):
            return
        with suppress(NotARepository, ProgramMissing):
            self.repository.exclude_runtime_files()

    @cached_property
    def worktrees(self) -> Worktrees:
        return Worktrees(self.repository, self.store, self.events.emit)

    @cached_property
    def landing(self) -> Landing:
        return Landing(self.repository, self.worktrees, self.store, self.events.emit)

    @cached_property
    def work(self) -> Work:
        try:
            worktrees: Worktrees | None = self.worktrees
        except (NotARepository, ProgramMissing):
            worktrees = None
        runner = ConfinedRunner(self.runner, lambda command: self.confining.confine(command))
        return Work(self.board, worktrees, self.root, runner, self.environment, self.gates)

    @cached_property
    def confining(self) -> Confining:
        """What confines the checks that a command runs; a run brings its own. Raises `InputError`,
        `SandboxMissing`."""
        from team_runtime.config import load

        return self.confined_by(load(self.root, self.environ, {}))

    def confined_by(self, settings: Settings) -> Confining:
        """What confines commands under `settings`. Raises `SandboxMissing`, and `InputError` for
        what nothing here can hold."""
        try:
            common_dir: Path | None = self.repository.tree.common_dir
        except (NotARepository, ProgramMissing):
            common_dir = None
        self.store.folder(self.store.layout.temporary)
        sandbox = detect(settings.sandbox, self.environment)
        if settings.command_memory is not None and not sandbox.limits_memory:
            raise InputError(
                "command_memory cannot be held, because prlimit is not there; install util-linux "
                "or leave the setting out. Nothing was started"
            )
        confining = Confining(
            sandbox=sandbox,
            layout=self.store.layout,
            environ=self.environ,
            common_dir=common_dir,
            network=settings.sandbox_network,
            memory=settings.command_memory,
            domains=Domains.of(settings.sandbox_domains) if settings.sandbox_domains else None,
        )
        confining.check()
        return confining.heard_by(self.events.emit)

    @cached_property
    def hooks(self) -> Hooks:
        """The hooks that a command asks; a run brings its own. Raises `InputError`."""
        host = ThreadHost(self.runner)
        return command_hooks(self.surroundings, host, self.events.emit)

    @property
    def surroundings(self) -> Surroundings:
        """What hooks get."""
        return Surroundings(self.root, self.environment, self.environ)

    @property
    def gates(self) -> Gates:
        return Gates(lambda: self.hooks)

    @cached_property
    def landings(self) -> Landings:
        return Landings(self.board, self.work, self.landing)

    def planning(self, reviewer: str = LEAD, deadline: float = 3600.0) -> Planning:
        return Planning(self.plans, self.bus, self.store.clock, reviewer, deadline, self.gates)
