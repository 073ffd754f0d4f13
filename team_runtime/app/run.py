"""A run of a team, put together: settings, models, tools, members, and what is left at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import anyio
from anyio import to_thread

from team_runtime.app.agents import Models
from team_runtime.app.archive import tasks_of
from team_runtime.app.assembly import Assembled, RunParts, assemble, make_notifier, make_workspace
from team_runtime.app.hooks import begin, end, load_hooks
from team_runtime.app.permissions import make_permissions
from team_runtime.app.recovery import Recovery
from team_runtime.app.request import RunRequest, RunResult
from team_runtime.app.trusting import check_records, notice_of_drivers
from team_runtime.app.workspace import Workspace
from team_runtime.board.base import Claim
from team_runtime.board.codec import task_record
from team_runtime.crossing import Stopped
from team_runtime.errors import HookRefused, LimitReached, TeamError
from team_runtime.guard.hook_hosts import LoopHost
from team_runtime.notify.sinks import make_sinks
from team_runtime.process.orphans import end_left_by
from team_runtime.process.run import BlockingRunner
from team_runtime.store.presence import RunPresence, hold_team
from team_runtime.team.interrupts import Interrupts
from team_runtime.team.member import Spawn
from team_runtime.team.planning import LEAD
from team_runtime.team.run import INTERRUPTED, Ending, Start, run_team

NOTIFY_SECONDS: Final = 10.0
"""How long the end of a run waits until people have been told."""


def run_team_in(request: RunRequest) -> RunResult:
    """Run a team in a workspace until its request is done.

    Raises `TeamRunning` when one runs there already, `NotARepository`, `InputError` for bad
    settings or an unknown session, or `RefusedError` where the records of one came with the
    repository; nothing was started then.
    """
    plain = Workspace(request.root, request.environ)
    repository = plain.repository
    check_records(repository)
    loaded = load_hooks(request.root, request.environ, request.settings.hooks, request.hooks)
    confining = plain.confined_by(request.settings)
    permissions = make_permissions(request.settings, loaded, confining)
    models = Models(request.settings.retry_base, request.pace, request.models)
    models.choose(request.settings.model)
    sinks = make_sinks(request.settings.notify, BlockingRunner(), request.environ, request.ring)
    with hold_team(plain.store, request.resume) as hold:
        session = _session(plain, request)
        hold.note({"session": session})
        presence = RunPresence.start(plain.store, {"session": session, "kind": "team"})
        try:
            confining.clear()
            parts = RunParts(
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
            over = partial(hold.note, {"session": session, "end": True})
            return anyio.run(_Host(parts, over).run)
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

    parts: RunParts
    over: Callable[[], None]
    """Called before anybody is told that the run is over: others may start the next."""
    touched: set[str] = field(default_factory=set)
    """Ids of the tasks that were made or claimed in this run."""

    async def run(self) -> RunResult:
        """The whole run, with an ear for signals from its beginning to its end."""
        interrupts = Interrupts(self._leave, self.parts.request.stop_seconds)
        async with anyio.create_task_group() as group:
            if threading.current_thread() is threading.main_thread():
                await group.start(interrupts.watch)
            result = await self._run(interrupts)
            group.cancel_scope.cancel()
        return replace(result, signalled=interrupts.seen > 0)

    def _leave(self) -> None:
        end_left_by([self.parts.presence.run], leave_git=True)
        self.parts.request.on_leave()
        os._exit(INTERRUPTED)

    async def _run(self, interrupts: Interrupts) -> RunResult:
        workspace = make_workspace(self.parts)
        workspace.events.add(self._note_task)
        notifier = make_notifier(self.parts, workspace)
        began = workspace.store.clock.monotonic()
        self._announce_start(workspace)
        recovery = Recovery(workspace, self.parts.presence)
        claims = await to_thread.run_sync(recovery.run, self.parts.session)
        assembled = assemble(self.parts, workspace)
        try:
            ending = await self._work(workspace, assembled, claims, interrupts)
        finally:
            assembled.watching.close()
            await self.parts.models.close()
            workspace.bus.close()
        seconds = workspace.store.clock.monotonic() - began
        result = self._result(workspace, assembled, ending, seconds)
        with suppress(TeamError):  # the end itself stands
            self.over()
        _announce_end(workspace, result)
        await to_thread.run_sync(notifier.close, NOTIFY_SECONDS)
        return result

    async def _work(
        self,
        workspace: Workspace,
        parts: Assembled,
        claims: list[Claim],
        interrupts: Interrupts,
    ) -> Ending:
        """The team's life, between the hooks of its beginning and its end."""
        start, hooks = self._start(workspace, claims), workspace.hooks
        is_new = LEAD not in workspace.sessions.agents(self.parts.session)
        timeout = self.parts.request.settings.timeout
        try:
            hooks.attach(LEAD, LoopHost(interrupts.before))
            start = await to_thread.run_sync(begin, hooks, start, is_new)
            async with anyio.create_task_group() as group:
                group.start_soon(parts.supervisor.run)
                parts.jobs.open(group)
                with hooks.beside(group):
                    ending = await run_team(parts.team, start, timeout, interrupts)
                await parts.jobs.shut_down(_why_it_ends(ending))
                group.cancel_scope.cancel()
            hooks.detach(LEAD)
            await to_thread.run_sync(end, hooks, ending)
        except HookRefused as refused:
            return Ending("", interrupts.seen > 0, refused)
        except Stopped:  # before there was a team
            return Ending("", interrupted=True)
        return ending

    def _result(
        self, workspace: Workspace, parts: Assembled, ending: Ending, seconds: float
    ) -> RunResult:
        session = workspace.sessions.load(self.parts.session)
        tasks = [task_record(task) for task in tasks_of(workspace, session)]
        return RunResult(
            ending=ending,
            session=self.parts.session,
            tasks=tasks,
            lost=sorted(self.touched.difference(task["id"] for task in tasks)),
            usage=parts.factory.usage(),
            turns=parts.limits.turns,
            seconds=seconds,
        )

    def _announce_start(self, workspace: Workspace) -> None:
        workspace.events.emit(
            "run_started",
            session=self.parts.session,
            model=self.parts.request.settings.model,
            permission_mode=self.parts.request.settings.permission_mode,
            sandbox=self.parts.confining.sandbox.describe(),
            workspace=str(self.parts.request.root),
            resumed=self.parts.request.resume is not None,
        )
        for text in (*self.parts.loaded.notices, *self._notices()):
            workspace.events.emit("notice", text=text)

    def _notices(self) -> Iterator[str]:
        sandbox = self.parts.confining.sandbox
        if self.parts.request.settings.sandbox_allows_commands and not sandbox.complete:
            yield f"sandbox_allows_commands has no effect, because the sandbox is {sandbox.layer}"
        if (waiting := notice_of_drivers(self.parts.repository)) is not None:
            yield waiting

    def _start(self, workspace: Workspace, claims: list[Claim]) -> Start:
        """What the run begins with; a resumed session with the teammates that were not sent
        away. Of those that had a scripted model which this run has not, the run's own plays."""
        session = workspace.sessions.load(self.parts.session)
        roster = [
            Spawn(
                name=agent["name"],
                role=agent["role"],
                prompt="",
                require_plan=agent["requirePlan"],
                model=agent["model"] if self.parts.models.may_play(agent["model"]) else None,
                permissions=agent.get("permissions", {}),
            )
            for agent in session.get("agents", [])
            if "role" in agent and not agent.get("dismissed")
        ]
        further = self.parts.request.prompt if self.parts.request.resume is not None else ""
        return Start(session["prompt"], further, claims, roster)

    def _note_task(self, event: Mapping[str, Any]) -> None:
        if event["kind"] in ("task_created", "task_claimed"):
            self.touched.add(event["task"])


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
