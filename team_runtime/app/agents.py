"""Agents, put together: model, tools, permissions, conversation."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from team_runtime.app.permissions import ANSWERED, narrowed
from team_runtime.app.schedules import scheduling_of
from team_runtime.app.tools import TOOL_NAMES, make_tools
from team_runtime.app.workspace import Workspace
from team_runtime.clock import SystemClock, SystemEntropy
from team_runtime.daemons.commands import AgentCommands
from team_runtime.daemons.jobs import Jobs
from team_runtime.errors import InputError
from team_runtime.guard.base import Effect, Verdict
from team_runtime.guard.hook_events import TEAMMATE
from team_runtime.guard.hook_hosts import LoopHost
from team_runtime.guard.permissions import NarrowedPermissions, RulePermissions
from team_runtime.guard.rules import parse
from team_runtime.loop.agent import Agent
from team_runtime.loop.conversation import Conversation
from team_runtime.loop.dispatch import Dispatch
from team_runtime.loop.hooked import AgentHooks
from team_runtime.loop.prompt import Identity, system_blocks
from team_runtime.loop.turn import Caller
from team_runtime.models.anthropic import AnthropicModel
from team_runtime.models.base import Model
from team_runtime.models.names import SCRIPTED, ModelName, parse_model
from team_runtime.models.retry import Patience
from team_runtime.models.scripted import ScriptedModel
from team_runtime.process.base import Command
from team_runtime.process.lineage import AGENT
from team_runtime.process.run import LoopRunner
from team_runtime.process.sandbox import ConfinedRunner
from team_runtime.sessions.transcript import Transcript
from team_runtime.team.member import Member
from team_runtime.team.questions import Questions
from team_runtime.team.team import Team
from team_runtime.tools.base import Place, Seen, Tool, ToolContext, definition
from team_runtime.types import Json, Usage


class Models:
    """The providers in use, each made once."""

    def __init__(self, retry_base: float, pace: float, brought: Mapping[str, Model] = {}) -> None:
        self._retry_base = retry_base
        self._pace = pace
        self._made: dict[str, Model] = dict(brought)

    def choose(self, name: str) -> tuple[Model, str]:
        """As `get`, for a model that a person chose; it may be a scripted one, which can be a
        program. Raises `InputError`."""
        parsed = parse_model(name)
        key = _key(name, parsed)
        if key not in self._made:
            self._made[key] = self._make(parsed.provider, parsed.model)
        return self._made[key], parsed.model

    def get(self, name: str) -> tuple[Model, str]:
        """The provider's adapter and its own name of the model. Raises `InputError`, also for a
        scripted one that no person chose."""
        if not self.may_play(name):
            raise InputError(f"{name}: only a person chooses a scripted model; use --model")
        return self.choose(name)

    def may_play(self, name: str) -> bool:
        """Whether an agent may have this model. Raises `InputError` for what is none."""
        parsed = parse_model(name)
        return parsed.provider != SCRIPTED or _key(name, parsed) in self._made

    def _make(self, provider: str, model: str) -> Model:
        if provider == SCRIPTED:
            return ScriptedModel.load(Path(model), self._pace)
        return AnthropicModel(Patience(SystemClock(), SystemEntropy(), base=self._retry_base))

    async def close(self) -> None:
        for model in self._made.values():
            await model.close()


def _key(name: str, parsed: ModelName) -> str:
    return name.strip() if parsed.provider == SCRIPTED else parsed.provider


class AgentFactory:
    """Makes the agents of one run."""

    def __init__(
        self,
        workspace: Workspace,
        models: Models,
        permissions: RulePermissions,
        questions: Questions,
        on_entry: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._permissions = permissions
        self._questions = questions
        self._on_entry = on_entry
        self._lock = threading.Lock()
        self._conversations: list[Conversation] = []
        self.jobs: Jobs | None = None
        """Where commands go on in the background; without it there are none."""
        self.may_call: Callable[[], None] = lambda: None

    def make(self, team: Team, member: Member, role: str) -> Agent:
        """An agent that goes on with its conversation of this session, or begins one."""
        workspace, parts = self._workspace, team.parts
        permissions: RulePermissions | NarrowedPermissions = self._permissions
        if member.permissions:
            permissions = narrowed(self._permissions, member.permissions, member.name)
        tools = make_tools(workspace, team, member, self.jobs)
        model, model_name = self._models.get(member.model)
        folder = workspace.store.layout.sessions / parts.session
        conversation = Conversation(
            Transcript(workspace.store, folder / f"{member.name}.jsonl"),
            lambda entry: self._on_entry(member.name, entry),
            workspace.redactor,
        )
        if conversation.epoch == 0:
            identity = Identity(member.name, parts.name, role, member.is_lead)
            commands = workspace.confining.told()
            system = system_blocks(identity, str(workspace.root), commands)
            conversation.begin(model_name, system, [definition(tool) for tool in tools])
        with self._lock:
            self._conversations.append(conversation)
        hooks = AgentHooks(
            member.name,
            member.is_lead,
            workspace.hooks,
            parts.emit,
            lambda: self._going_on(team, member),
        )
        workspace.hooks.attach(member.name, LoopHost(member.crossing))
        caller = Caller(
            agent=member.name,
            session=parts.session,
            model=model,
            model_name=model_name,
            wait=member.crossing.wait,
            on_retry=lambda cause, attempt, delay: parts.emit(
                "api_retry", member.name, cause=cause, attempt=attempt, delay=delay
            ),
            may_call=self.may_call,
        )
        return Agent(
            name=member.name,
            conversation=conversation,
            caller=caller,
            dispatch=self._dispatch(team, member, tools, hooks, permissions),
            bus=parts.bus,
            emit=parts.emit,
            check_stop=lambda: team.stopping.check(member.name),
            hooks=hooks,
            before_end=lambda text, times: self._kept(team, member, hooks, text, times),
        )

    def usage(self) -> Usage:
        """The tokens of all agents together."""
        with self._lock:
            return sum((c.usage for c in self._conversations), Usage())

    def _kept(
        self, team: Team, member: Member, hooks: AgentHooks, text: str, times: int
    ) -> str | None:
        """Why hooks keep an agent from ending its turn. One that waits for a plan's review may."""
        waits = member.planned or team.parts.assignments.waits_for_plan(member.name)
        if waits and not member.is_lead:
            return None
        return hooks.before_end(text, times)

    def _going_on(self, team: Team, member: Member) -> dict[str, list[Json]]:
        """The other teammates at work, the jobs that run and the session's schedules, as hooks are
        told."""
        others = [
            {"id": m.name, "type": TEAMMATE, "status": m.state.value, "description": m.role}
            for m in team.roster.all()
            if not m.is_lead and m.name != member.name and m.busy and not m.state.ended
        ]
        jobs = [
            {"id": job.id, "type": "shell", "status": job.status, "description": job.command}
            for job in (self.jobs.running() if self.jobs is not None else [])
        ]
        crons = [
            {"id": s.id, "schedule": s.when, "recurring": s.repeats, "prompt": s.prompt}
            for s in (entry.schedule for entry in scheduling_of(self._workspace, team).own())
        ]
        return {"background_tasks": [*others, *jobs], "session_crons": crons}

    def _dispatch(
        self,
        team: Team,
        member: Member,
        tools: list[Tool],
        hooks: AgentHooks,
        permissions: RulePermissions | NarrowedPermissions,
    ) -> Dispatch:
        name, assignments = member.name, team.parts.assignments
        runner, confining = LoopRunner(member.crossing), self._workspace.confining
        environment = {**self._workspace.environment, AGENT: name}
        spill = self._workspace.store.layout.spill / team.parts.session
        seen = Seen()

        def context(call_id: str, place: Place) -> ToolContext:
            changes = place.task_id is not None and assignments.gate(name, Effect.EDIT) is None

            def confined(command: Command) -> Command:
                return confining.confine(command, changes or command.cwd != place.root)

            def closed() -> str | None:
                return assignments.gate(name, Effect.COMMAND)

            return ToolContext(
                agent=name,
                call_id=call_id,
                place=place,
                runner=ConfinedRunner(runner, confined),
                reader=ConfinedRunner(runner, lambda command: confining.confine(command, False)),
                environment=environment,
                seen=seen,
                spill=lambda file, data: self._spill(spill, file, data),
                readable=(spill,),
                background=self._background(member, place, confined, closed),
            )

        def remember(texts: list[str]) -> None:
            rules = [parse(text, Verdict.ALLOW, ANSWERED, TOOL_NAMES) for text in texts]
            for allowances in {self._permissions.allowances, permissions.allowances}:
                allowances.add(rules)

        return Dispatch(
            agent=name,
            tools={tool.name: tool for tool in tools},
            permissions=permissions,
            place=lambda: self._placed(assignments.place(name)),
            gate=lambda effect: assignments.gate(name, effect),
            outside=lambda path: assignments.outside_plan(name, path),
            context=context,
            ask=self._questions.of(team, member, remember),
            wait=member.crossing.wait,
            clock=team.parts.clock,
            emit=team.parts.emit,
            hooks=hooks,
        )

    def _placed(self, place: Place) -> Place:
        """The place, with what no agent reads in it."""
        return replace(place, secrets=self._workspace.confining.secrets_in(place.root))

    def _background(
        self,
        member: Member,
        place: Place,
        confined: Callable[[Command], Command],
        closed: Callable[[], str | None],
    ) -> AgentCommands | None:
        if self.jobs is None:
            return None
        store = self._workspace.store
        return AgentCommands(
            jobs=self.jobs,
            agent=member.name,
            place=place,
            crossing=member.crossing,
            confined=confined,
            closed=closed,
            clock=store.clock,
            entropy=store.entropy,
        )

    def _spill(self, folder: Path, file: str, data: bytes) -> Path:
        store = self._workspace.store
        store.folder(folder)
        path = folder / f"{store.entropy.token()}-{re.sub(r'[^A-Za-z0-9._-]', '_', file)}"
        store.publish(path, self._workspace.redactor.data(data))
        return path
