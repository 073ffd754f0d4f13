"""The errors of the runtime.

Each class's docstring is its message: one sentence that a user understands, then what was kept
and what to do next. Fields in braces are the class's typed fields.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields
from typing import ClassVar


@dataclass(eq=False)
class TeamError(Exception):
    """The operation failed."""

    exit_code: ClassVar[int] = 1

    def __str__(self) -> str:
        template = inspect.cleandoc(type(self).__doc__ or type(self).__name__).replace("\n", " ")
        return template.format(**{f.name: getattr(self, f.name) for f in fields(self)})


@dataclass(eq=False)
class InputError(TeamError):
    """{problem}"""

    exit_code: ClassVar[int] = 2
    problem: str


@dataclass(eq=False)
class RefusedError(TeamError):
    """Refused: {reason}"""

    exit_code: ClassVar[int] = 4
    reason: str


@dataclass(eq=False)
class NameInvalid(TeamError):
    """{name!r} is not a valid {kind} name: {rule}. Nothing was changed."""

    exit_code: ClassVar[int] = 2
    kind: str
    name: str
    rule: str


@dataclass(eq=False)
class StoreBusy(TeamError):
    """{path} has been locked by another process for {seconds:.0f} seconds. Nothing was changed;
    look for a stopped process that holds it ({holder}) and try again."""

    path: str
    seconds: float
    holder: str


@dataclass(eq=False)
class StoreFailed(TeamError):
    """{path} could not be {action}: {cause}. What was there before is still there; free space or
    fix the permissions and try again."""

    path: str
    action: str
    cause: str


@dataclass(eq=False)
class RecordBroken(TeamError):
    """{path} is not a valid record: {cause}."""

    exit_code: ClassVar[int] = 2
    path: str
    cause: str


@dataclass(eq=False)
class VersionTooNew(TeamError):
    """{path} was written by a newer version (format {found}, this one reads up to {known}). It was
    left alone; upgrade team_runtime to use it."""

    exit_code: ClassVar[int] = 2
    path: str
    found: int
    known: int


@dataclass(eq=False)
class UnknownTask(TeamError):
    """There is no task {task_id!r}. {hint}"""

    exit_code: ClassVar[int] = 2
    task_id: str
    hint: str


@dataclass(eq=False)
class ClaimRefused(TeamError):
    """{task_id} cannot be claimed by {owner}: {detail}."""

    task_id: str
    owner: str
    reason: str
    """One of `not_pending`, `claimed`, `blocked`, `owner_busy`, `unknown`, `checkout_busy`,
    `worktree`, `hook`."""
    detail: str
    holder: str | None = None


@dataclass(eq=False)
class StaleClaim(TeamError):
    """{owner} no longer holds {task_id} ({why}), so nothing was written; read the task again."""

    exit_code: ClassVar[int] = 4
    task_id: str
    owner: str
    why: str


@dataclass(eq=False)
class TransitionRefused(TeamError):
    """{task_id} cannot be {action}: {detail}."""

    exit_code: ClassVar[int] = 2
    task_id: str
    action: str
    detail: str


@dataclass(eq=False)
class DependencyRefused(TeamError):
    """{task_id} cannot be blocked by {blocker!r}: {detail}. Nothing was changed."""

    exit_code: ClassVar[int] = 2
    task_id: str
    blocker: str
    detail: str


@dataclass(eq=False)
class UnknownRecipient(TeamError):
    """There is no mailbox named {name!r}; nothing was sent. Valid names: {known}."""

    exit_code: ClassVar[int] = 2
    name: str
    known: str


@dataclass(eq=False)
class MailboxBusy(TeamError):
    """Another live process already receives mail for {name!r}; sending and listing still work."""

    name: str


@dataclass(eq=False)
class PlanRefused(TeamError):
    """{problem}"""

    exit_code: ClassVar[int] = 4
    problem: str


@dataclass(eq=False)
class ApprovalRefused(TeamError):
    """{problem}"""

    exit_code: ClassVar[int] = 4
    problem: str


@dataclass(eq=False)
class CommandFailed(TeamError):
    """`{command}` ended with status {status}: {output}"""

    command: str
    status: int
    output: str


@dataclass(eq=False)
class CommandTimeout(TeamError):
    """`{command}` was ended after {seconds:g} seconds: {output}"""

    command: str
    seconds: float
    output: str


@dataclass(eq=False)
class ProgramMissing(TeamError):
    """{program} could not be started: {cause}. {hint}"""

    exit_code: ClassVar[int] = 2
    program: str
    cause: str
    hint: str


@dataclass(eq=False)
class NotARepository(TeamError):
    """{path} cannot host a team: {cause}. {hint}"""

    exit_code: ClassVar[int] = 2
    path: str
    cause: str
    hint: str


@dataclass(eq=False)
class WorktreeRefused(TeamError):
    """Worktree {name!r}: {cause}. {hint}"""

    exit_code: ClassVar[int] = 2
    name: str
    cause: str
    hint: str


@dataclass(eq=False)
class WouldLose(TeamError):
    """Worktree {name!r} was not removed because this would be lost: {losses}. Land it first, or use
    --discard, which keeps a rescue copy."""

    exit_code: ClassVar[int] = 4
    name: str
    losses: str


@dataclass(eq=False)
class LandingConflict(TeamError):
    """{name} conflicts with {target} in {files}{others}. {target} and the checkout were not
    touched; both versions are kept on their branches."""

    name: str
    target: str
    files: str
    others: str


@dataclass(eq=False)
class LandingBlocked(TeamError):
    """{name} was not landed on {target}: {cause}. Nothing was changed. {hint}"""

    name: str
    target: str
    cause: str
    hint: str


@dataclass(eq=False)
class CheckFailed(TeamError):
    """The check `{command}` failed with status {status}, so {what}. Its output: {output}"""

    command: str
    status: int
    what: str
    output: str


@dataclass(eq=False)
class ModelFailed(TeamError):
    """The model call failed: {cause}{request}. The conversation is kept; {hint}"""

    cause: str
    kind: str
    """The API's error type, or one of `connection`, `cut`, `timeout`, `refusal`, `protocol`."""
    hint: str = "try again."
    request: str = ""


@dataclass(eq=False)
class ModelRejected(ModelFailed):
    """The model service does not accept this: {cause}{request}. The conversation is kept; {hint}"""

    exit_code: ClassVar[int] = 2


@dataclass(eq=False)
class LimitReached(TeamError):
    """Stopped: the limit on {limit} ({value}) was reached. Unfinished tasks were released with
    their work saved."""

    exit_code: ClassVar[int] = 3
    limit: str
    value: str


@dataclass(eq=False)
class OutcomeUnknown(StoreFailed):
    """{path} was {action}, but the disk did not confirm it ({cause}). Read it again before you rely
    on it; check the disk."""


@dataclass(eq=False)
class Held(TeamError):
    """{name} is held by another live process (pid {pid}). Nothing was changed."""

    exit_code: ClassVar[int] = 2
    name: str
    pid: str
    info: dict[str, object]


@dataclass(eq=False)
class TeamRunning(TeamError):
    """A team already runs in {workspace} (pid {pid}, session {session}). Nothing was changed; wait
    for it or stop it. Commands for the board, mail and plans still work."""

    exit_code: ClassVar[int] = 2
    pid: str
    session: str
    workspace: str


@dataclass(eq=False)
class DaemonRunning(TeamError):
    """A team daemon already serves {workspace} (pid {pid}). Nothing was started; schedules fire
    through that one."""

    exit_code: ClassVar[int] = 2
    pid: str
    workspace: str


@dataclass(eq=False)
class WorkspaceGone(TeamError):
    """{workspace} or its .team folder was moved or removed, so the team daemon has ended. Schedules
    are kept where that folder is now; start `team daemon` there."""

    exit_code: ClassVar[int] = 2
    workspace: str


@dataclass(eq=False)
class OutputLost(TeamError):
    """The answer could not be written to stdout: {cause}. What the command did stays done."""

    cause: str


@dataclass(eq=False)
class AgentFailed(TeamError):
    """{agent} ended because of a fault in the runtime ({cause}). Its conversation is kept; the log
    of events says where it happened."""

    agent: str
    cause: str


@dataclass(eq=False)
class HookRefused(TeamError):
    """A {event} hook refused: {reason}. Nothing was changed."""

    exit_code: ClassVar[int] = 4
    event: str
    reason: str


@dataclass(eq=False)
class SandboxMissing(TeamError):
    """A sandbox is required, and none works here: {cause}. No command was run. {hint}"""

    exit_code: ClassVar[int] = 2
    cause: str
    hint: str


@dataclass(eq=False)
class DaemonFailed(TeamError):
    """The {daemon} daemon failed {times} times in a few seconds and was given up: {cause}. What it
    had recorded is kept; the log of events says where it failed."""

    daemon: str
    times: int
    cause: str


@dataclass(eq=False)
class UnknownJob(TeamError):
    """There is no job {job_id!r}. {hint}"""

    exit_code: ClassVar[int] = 2
    job_id: str
    hint: str


@dataclass(eq=False)
class JobRefused(TeamError):
    """No job was started: {reason}."""

    exit_code: ClassVar[int] = 3
    reason: str
