"""`team tasks`: the board from the command line. Claims made here are manual."""

from __future__ import annotations

from typing import Any

import click

from team_runtime.app.workspace import Workspace
from team_runtime.board.base import Claim
from team_runtime.board.codec import task_record
from team_runtime.board.model import STATUSES, Task
from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.errors import InputError, RefusedError
from team_runtime.text import for_terminal, one_line


@click.group("tasks")
def command() -> None:
    """The task board. Each task is a JSON file in .tasks/, which you may edit."""


def _line(task: Task, state: str) -> str:
    owner = f"  {task.owner}" if task.owner else ""
    after = f"  after {', '.join(task.blocked_by)}" if task.blocked_by else ""
    where = f"  worktree {task.worktree}" if task.worktree else ""
    return (
        f"{task.id:<9} {state:<11} {one_line(task.subject, 70)}{for_terminal(owner)}{after}{where}"
    )


def _show(shared: Shared, board: Any, tasks: list[Task]) -> None:
    ready = {task.id for task in board.ready()}
    lines = [_line(task, "ready" if task.id in ready else _waiting(task)) for task in tasks] or [
        "No tasks."
    ]
    shared.answer([_public(task) for task in tasks], lines)


def _waiting(task: Task) -> str:
    return "blocked" if task.status == "pending" else task.status


def _public(task: Task) -> dict[str, Any]:
    return task_record(task)


def _done(shared: Shared, task: Task, sentence: str) -> None:
    shared.answer(_public(task), [sentence])


@command.command("add")
@click.argument("subject")
@click.option("--description", default="", help="What is to be done, and what counts as done.")
@click.option("--blocked-by", multiple=True, metavar="ID", help="Must be completed first.")
@click.option("--worktree", metavar="NAME", help="Make this worktree for it.")
@click.option("--check", metavar="CMD", help="Must pass before the task can be completed.")
@click.option("--priority", type=int, metavar="N", default=0, help="Higher comes first.")
@click.option("--plan", is_flag=True, help="A plan must be approved before anything is changed.")
@shared_options
def add(shared: Shared, subject: str, plan: bool, **given: Any) -> None:
    """Add a task."""
    if given["check"] is not None:
        only_a_person("say what a task has to pass")
    workspace = shared.workspace
    worktree = given.pop("worktree")
    blocked_by = [
        part for value in given.pop("blocked_by") for part in value.replace(",", " ").split()
    ]
    if worktree is not None:
        workspace.work.check_free(worktree)
    task = workspace.create_task(
        subject, blocked_by=blocked_by, plan_required=plan, worktree=worktree, **given
    )
    if worktree is not None:
        workspace.work.bind(worktree, task.id)
        task = workspace.board.get(task.id)
    _done(shared, task, f"{task.id}: {one_line(task.subject, 1000)}")


@command.command("list")
@click.option("--ready", is_flag=True, help="Only those that can be claimed now.")
@click.option("--status", type=click.Choice(STATUSES), help="Only those.")
@shared_options
def list_(shared: Shared, ready: bool, status: str | None) -> None:
    """List tasks."""
    board = shared.workspace.board
    _show(shared, board, board.ready() if ready else board.list(status))


@command.command("show")
@click.argument("task_id")
@shared_options
def show(shared: Shared, task_id: str) -> None:
    """Show one task in full."""
    board = shared.workspace.board
    task = board.get(task_id)
    why = board.why(task_id)
    lines = [
        f"{task.id}: {one_line(task.subject, 1000)}",
        f"  {why.detail}",
        *(f"  {line}" for line in for_terminal(task.description).splitlines()),
    ]
    if task.worktree:
        lines.append(f"  worktree {task.worktree}, branch team/{task.worktree}")
    if task.check:
        lines.append(f"  check: {for_terminal(task.check)}")
    for attempt in task.attempts:
        ended = f"{attempt.outcome} {attempt.ended}" if attempt.ended else "in progress"
        note = f": {one_line(attempt.note)}" if attempt.note else ""
        lines.append(f"  attempt {attempt.epoch} by {attempt.owner}: {ended}{note}")
    if task.result:
        lines.append(
            f"  result: {one_line(task.result.summary)} {task.result.commit or ''}".rstrip()
        )
    shared.answer(_public(task), lines)


@command.command("edit")
@click.argument("task_id")
@click.option("--subject", help="One line.")
@click.option("--description", help="What is to be done, and what counts as done.")
@click.option("--priority", type=int, metavar="N", help="Higher comes first.")
@click.option("--check", metavar="CMD", help="An empty text removes it.")
@click.option("--plan/--no-plan", "plan_required", default=None, help="Whether it needs a plan.")
@click.option("--label", "labels", multiple=True, help="Replaces all labels.")
@shared_options
def edit(shared: Shared, task_id: str, **given: Any) -> None:
    """Change a task's text, priority or check."""
    changes = {k: v for k, v in given.items() if v is not None and v != ()}
    if not changes:
        raise InputError("name something to change, such as --subject TEXT; nothing was changed")
    if "check" in changes or changes.get("plan_required") is False:
        only_a_person("change what a task has to pass")
    if changes.get("check") == "":
        changes["check"] = None
    task = shared.workspace.board.edit(task_id, **changes)
    _done(shared, task, f"changed {task.id}")


@command.command("next")
@shared_options
def next_(shared: Shared) -> None:
    """Show the task that would be claimed next."""
    ready = shared.workspace.board.ready()
    task = ready[0] if ready else None
    shared.answer(
        _public(task) if task else None, [_line(task, "ready") if task else "No task is ready."]
    )


@command.command("claim")
@click.argument("task_id")
@click.option("--as", "owner", required=True, metavar="NAME", help="Who claims it.")
@shared_options
def claim(shared: Shared, task_id: str, owner: str) -> None:
    """Claim a task by hand. The claim is bound to no process and ends only by a command."""
    workspace = shared.workspace
    held = workspace.gates.claim_on(workspace.board, task_id, owner)
    place = workspace.work.start(held)
    _done(shared, workspace.board.get(task_id), f"{owner} has {task_id}; work in {place.root}")


def _claim_of(workspace: Workspace, task_id: str, owner: str | None) -> Claim:
    """The claim in force, if a person may end it: a manual one, of `owner` where it is named."""
    held = workspace.board.claim_of(task_id)
    if owner is not None and held.owner != owner:
        raise RefusedError(
            f"{task_id} is held by {held.owner}, not by {owner}. Nothing was changed."
        )
    if held.run is not None:
        raise RefusedError(
            f"{task_id} is being worked on by {held.owner} in {held.run}. Nothing was changed; "
            "stop that run, or use `team tasks release --force`."
        )
    return held


@command.command("release")
@click.argument("task_id")
@click.option("--as", "owner", metavar="NAME", help="Only if NAME holds it.")
@click.option("--force", is_flag=True, help="Whoever holds it; their later writes are refused.")
@shared_options
def release(shared: Shared, task_id: str, owner: str | None, force: bool) -> None:
    """Give a claimed task back. What was done so far is committed on its branch."""
    workspace = shared.workspace
    if force:
        only_a_person("release a task by force")
        workspace.board.release_by_force(task_id, "released by a person")
    else:
        held = _claim_of(workspace, task_id, owner)
        workspace.work.give_back(held, f"released by {owner or held.owner}")
    _done(shared, workspace.board.get(task_id), f"{task_id} is pending again")


@command.command("complete")
@click.argument("task_id")
@click.option("--as", "owner", metavar="NAME", help="Only if NAME holds it.")
@click.option("--summary", default="", help="One sentence: what was done.")
@shared_options
def complete(shared: Shared, task_id: str, owner: str | None, summary: str) -> None:
    """Complete a claimed task. Its check is run and its worktree committed first."""
    workspace = shared.workspace
    finished = workspace.work.finish(_claim_of(workspace, task_id, owner), summary)
    commit = f" as {finished.commit[:12]}" if finished.commit else ""
    readied = (
        f"; now ready: {', '.join(t.id for t in finished.readied)}" if finished.readied else ""
    )
    _done(shared, finished.task, f"{task_id} is completed{commit}{readied}")


@command.command("fail")
@click.argument("task_id")
@click.option("--as", "owner", metavar="NAME", help="Only if NAME holds it.")
@click.option("--note", required=True, help="Why.")
@shared_options
def fail(shared: Shared, task_id: str, owner: str | None, note: str) -> None:
    """Give a claimed task up. What depends on it stays blocked."""
    workspace = shared.workspace
    workspace.work.give_up(_claim_of(workspace, task_id, owner), note)
    _done(shared, workspace.board.get(task_id), f"{task_id} has failed: {for_terminal(note)}")


@command.command("cancel")
@click.argument("task_id")
@shared_options
def cancel(shared: Shared, task_id: str) -> None:
    """Call off a task that nobody works on."""
    board = shared.workspace.board
    board.cancel(task_id)
    _done(shared, board.get(task_id), f"{task_id} is cancelled")


@command.command("block")
@click.argument("task_id")
@click.option("--on", "blocker", required=True, metavar="ID", help="The task to wait for.")
@shared_options
def block(shared: Shared, task_id: str, blocker: str) -> None:
    """Make a task wait for another one."""
    board = shared.workspace.board
    task = board.get(task_id)
    task = board.edit(task_id, blocked_by=[*task.blocked_by, blocker])
    _done(shared, task, f"{task_id} waits for {', '.join(task.blocked_by)}")


@command.command("why")
@click.argument("task_id")
@shared_options
def why(shared: Shared, task_id: str) -> None:
    """Say why a task is or is not ready. Also who holds it, and since when."""
    from dataclasses import asdict

    found = shared.workspace.board.why(task_id)
    shared.answer(asdict(found), [for_terminal(found.detail)])
