"""Every tool there is, and how it is made for an agent: a new one is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from team_runtime.app.schedules import scheduling_of
from team_runtime.daemons.job_tools import JobOutput, KillJob, ListJobs
from team_runtime.daemons.jobs import Jobs
from team_runtime.daemons.schedule_tools import CancelCron, ListCrons, ScheduleCron
from team_runtime.guard.base import Effect
from team_runtime.team.member import Member
from team_runtime.team.plan_tools import RequestPlan, ReviewPlan, SubmitPlan
from team_runtime.team.task_tools import ClaimTask, CompleteTask, UpdateTask
from team_runtime.team.team import Team
from team_runtime.team.tools import ListTeammates, RequestShutdown, SendMessage, SpawnTeammate
from team_runtime.team.worktree_tools import CreateWorktree, LandWorktree
from team_runtime.tools.base import Tool
from team_runtime.tools.board import CreateTask, GetTask, ListTasks
from team_runtime.tools.files import EditFile, ReadFile, WriteFile
from team_runtime.tools.search import Glob, Grep
from team_runtime.tools.shell import Bash
from team_runtime.tools.todo import TodoWrite

if TYPE_CHECKING:
    from team_runtime.app.workspace import Workspace


@dataclass(frozen=True)
class _Given:
    """What tools are made from."""

    workspace: Workspace
    team: Team
    member: Member


Make: TypeAlias = Callable[[_Given], Tool]

_OF_ALL: Final[Mapping[type[Tool], Make]] = {
    Bash: lambda given: Bash(),
    ReadFile: lambda given: ReadFile(),
    WriteFile: lambda given: WriteFile(),
    EditFile: lambda given: EditFile(),
    Glob: lambda given: Glob(),
    Grep: lambda given: Grep(),
    TodoWrite: lambda given: TodoWrite(),
    CreateTask: lambda given: CreateTask(given.workspace.create_task, given.team.parts.session),
    ListTasks: lambda given: ListTasks(given.workspace.board),
    GetTask: lambda given: GetTask(given.workspace.board),
    ClaimTask: lambda given: ClaimTask(given.team),
    CompleteTask: lambda given: CompleteTask(given.team),
    UpdateTask: lambda given: UpdateTask(given.team),
    SendMessage: lambda given: SendMessage(given.team),
}
_WITH_JOBS: Final[Mapping[type[Tool], Callable[[Jobs, Member], Tool]]] = {
    ListJobs: lambda jobs, member: ListJobs(jobs),
    JobOutput: lambda jobs, member: JobOutput(jobs),
    KillJob: lambda jobs, member: KillJob(jobs, member.crossing, may_end_all=member.is_lead),
}
_OF_TEAMMATES: Final[Mapping[type[Tool], Make]] = {
    SubmitPlan: lambda given: SubmitPlan(given.team),
}
_OF_LEAD: Final[Mapping[type[Tool], Make]] = {
    SpawnTeammate: lambda given: SpawnTeammate(given.team, given.member),
    ListTeammates: lambda given: ListTeammates(given.team),
    RequestShutdown: lambda given: RequestShutdown(given.team, given.member),
    RequestPlan: lambda given: RequestPlan(given.team, given.workspace.plans),
    ReviewPlan: lambda given: ReviewPlan(given.team),
    CreateWorktree: lambda given: CreateWorktree(given.workspace.work),
    LandWorktree: lambda given: LandWorktree(given.workspace.landings),
    ScheduleCron: lambda given: ScheduleCron(scheduling_of(given.workspace, given.team)),
    ListCrons: lambda given: ListCrons(scheduling_of(given.workspace, given.team)),
    CancelCron: lambda given: CancelCron(scheduling_of(given.workspace, given.team)),
}

TOOLS: Final[Mapping[str, type[Tool]]] = {
    tool.name: tool for table in (_OF_ALL, _WITH_JOBS, _OF_TEAMMATES, _OF_LEAD) for tool in table
}
"""Every tool there is."""
EFFECTS: Final[Mapping[str, Effect]] = {name: tool.effect for name, tool in TOOLS.items()}
"""What kind of thing each does."""
TOOL_NAMES: Final = frozenset(TOOLS)


def make_tools(workspace: Workspace, team: Team, member: Member, jobs: Jobs | None) -> list[Tool]:
    """The tools of one member; those of jobs where there can be any."""
    given, own = _Given(workspace, team, member), _OF_LEAD if member.is_lead else _OF_TEAMMATES
    of_jobs = [make(jobs, member) for make in _WITH_JOBS.values()] if jobs is not None else []
    return [
        *(make(given) for make in _OF_ALL.values()),
        *of_jobs,
        *(make(given) for make in own.values()),
    ]
