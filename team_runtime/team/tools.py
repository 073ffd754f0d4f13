"""`spawn_teammate`, `list_teammates`, `send_message`, `request_shutdown`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.models.names import parse_model
from team_runtime.team.member import Member, Spawn
from team_runtime.team.planning import LEAD
from team_runtime.team.team import Team
from team_runtime.team.teammate import live_in
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import NoInput, Strict


class SpawnTeammateInput(Strict):
    name: str = Field(description="lower-case letters, digits and -")
    role: str = Field(min_length=1)
    prompt: str = Field(min_length=1, description="what it is to do, with all it must know")
    require_plan: bool = Field(
        default=False, description="nothing may be changed before a plan is approved"
    )
    task_id: str | None = Field(default=None, description="a task it claims before its first turn")
    model: str | None = None
    permissions: dict[str, Any] = Field(
        default={}, description="mode; rules in allow, deny, ask: never more than yours"
    )


class SpawnTeammate:
    name: ClassVar[str] = "spawn_teammate"
    description: ClassVar[str] = (
        "Start a teammate that works in parallel with you. Give it its task_id, so that the task "
        "is claimed for it first. Its results arrive as messages; you need not wait."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = SpawnTeammateInput

    def __init__(self, team: Team, member: Member) -> None:
        self._team = team
        self._member = member

    def run(self, input: SpawnTeammateInput, context: ToolContext) -> str:
        if input.model is not None:
            parse_model(input.model)
        spawn = Spawn(**input.model_dump())
        return self._team.spawn(spawn, self._member.crossing, live_in(self._team))


class ListTeammates:
    name: ClassVar[str] = "list_teammates"
    description: ClassVar[str] = "List the members of the team: state, role, task, unread messages."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = NoInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: NoInput, context: ToolContext) -> str:
        parts = self._team.parts
        lines = []
        for member in self._team.roster.teammates():
            task = parts.assignments.task_of(member.name) or "no task"
            unread = len(parts.bus.unread(member.name))
            lines.append(
                f"{member.name} [{member.state.value}] {task}, {unread} unread. Role: {member.role}"
            )
        return "\n".join(lines) or "No teammates yet."


class SendMessageInput(Strict):
    to: str
    content: str = Field(min_length=1)


class SendMessage:
    name: ClassVar[str] = "send_message"
    description: ClassVar[str] = (
        "Send a message to the lead or to a teammate by name. It arrives before the recipient's "
        "next model call."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = SendMessageInput

    def __init__(self, team: Team) -> None:
        self._team = team

    def run(self, input: SendMessageInput, context: ToolContext) -> str:
        members = {m.name: m for m in self._team.roster.all()}
        if input.to not in members or input.to == context.agent:
            known = ", ".join(n for n in members if n != context.agent) or "nobody"
            raise ToolFailure(
                f"There is no {input.to!r} to send to; nothing was sent. Names: {known}."
            )
        if members[input.to].closed:
            raise ToolFailure(f"{input.to} has stopped and reads no mail; nothing was sent.")
        bus = self._team.parts.bus
        sent = bus.send(context.agent, input.to, input.content)
        if self._team.roster.get(input.to).closed and sent in bus.unread(input.to):
            raise ToolFailure(f"{input.to} stopped in this moment and did not read it.")
        self._team.roster.change(context.agent, asked=True)
        return f"Sent {sent.id} to {input.to}."


class RequestShutdownInput(Strict):
    teammate: str


class RequestShutdown:
    name: ClassVar[str] = "request_shutdown"
    description: ClassVar[str] = (
        "Ask a teammate to stop. It ends after its current turn, by force after a deadline; an "
        "unfinished task is given back with its work saved."
    )
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = RequestShutdownInput

    def __init__(self, team: Team, member: Member) -> None:
        self._team = team
        self._member = member

    def run(self, input: RequestShutdownInput, context: ToolContext) -> str:
        if input.teammate == LEAD:
            raise ToolFailure("The lead ends its turn instead; nothing was sent.")
        return self._team.request_shutdown(input.teammate, self._member.crossing)
