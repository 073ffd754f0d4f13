"""`team worktrees`: the git side of tasks, for a person."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.errors import InputError, RefusedError, TeamError
from team_runtime.git.record import worktree_record
from team_runtime.git.rescue import Rescued
from team_runtime.text import for_terminal


@click.group("worktrees")
def command() -> None:
    """One git worktree per bound task, in worktrees/, on a branch of its own."""


@command.command("list")
@shared_options
def list_(shared: Shared) -> None:
    """List the worktrees and whether they have landed."""
    found = shared.workspace.worktrees.list()
    lines = [
        f"{w.name:<16} {w.task:<9} {w.branch} → {w.target}  "
        + (f"landed as {w.landed[-1].merge[:12]}" if w.landed else "not landed")
        for w in found
    ]
    shared.answer([worktree_record(w) for w in found], lines or ["No worktrees."])


@command.command("create")
@click.argument("name")
@click.option("--task", "task_id", required=True, metavar="ID", help="The pending task it is for.")
@shared_options
def create(shared: Shared, name: str, task_id: str) -> None:
    """Make a worktree for a pending task."""
    workspace = shared.workspace
    made = workspace.work.bind(name, task_id)
    shared.answer(worktree_record(made), [f"{made.path} on {made.branch}, lands on {made.target}"])


@command.command("diff")
@click.argument("name")
@shared_options
def diff(shared: Shared, name: str) -> None:
    """Show what a worktree changes."""
    worktrees = shared.workspace.worktrees
    text = worktrees.diff(worktrees.get(name))
    shared.answer({"name": name, "diff": text}, [text.rstrip("\n")] if text else [])


@command.command("land")
@click.argument("names", nargs=-1, required=True)
@click.option("--onto", metavar="BRANCH", help="Another branch than the recorded target.")
@shared_options
def land(shared: Shared, names: tuple[str, ...], onto: str | None) -> int:
    """Merge completed work into its target branch. Your checkout is never half-merged.

    Exit 1 when any was not landed; the others are landed all the same.
    """
    only_a_person("land a worktree")
    workspace = shared.workspace
    rows, lines, worst = [], [], 0
    for name in names:
        try:
            landed = workspace.landings.land(name, onto)
        except TeamError as error:
            worst = max(worst, error.exit_code)
            rows.append({"name": name, "error": str(error)})
            shared.say(f"team: {error}")
            continue
        rows.append(
            {"name": name, "commit": landed.commit, "merge": landed.merge, "target": landed.target}
        )
        lines.append(
            f"{name} landed on {landed.target} as {landed.merge[:12]}{for_terminal(landed.remark)}"
        )
    shared.answer(rows, lines)
    return worst


@command.command("remove")
@click.argument("name")
@click.option("--discard", is_flag=True, help="Also what would be lost; a rescue copy is kept.")
@shared_options
def remove(shared: Shared, name: str, discard: bool) -> None:
    """Remove a worktree's folder. Refused while work would be lost."""
    only_a_person("remove a worktree")
    worktrees = shared.workspace.worktrees
    if discard:
        losses = worktrees.losses(name)
        if losses:
            shared.say(f"to be discarded, with a rescue copy: {for_terminal(str(losses))}")
        if losses and sys.stdin.isatty() and not click.confirm("Remove it with these?", err=True):
            raise RefusedError(f"worktree {name} was left as it is.")
    rescued = worktrees.remove(name, discard).rescued
    lines = [f"{name} was removed"]
    if rescued is not None:
        lines.append(f"a copy is kept: team worktrees rescue restore {rescued.ref}")
        if rescued.folder is not None:
            lines.append(f"ignored files are in {rescued.folder}")
    shared.answer({"name": name, "rescued": _rescued(rescued) if rescued else None}, lines)


def _rescued(rescued: Rescued) -> dict[str, str | None]:
    folder = str(rescued.folder) if rescued.folder is not None else None
    return {"ref": rescued.ref, "commit": rescued.commit, "folder": folder}


@command.group("rescue")
def rescue() -> None:
    """What was kept of removed worktrees."""


@rescue.command("list")
@shared_options
def rescue_list(shared: Shared) -> None:
    """List the rescue refs."""
    found = shared.workspace.worktrees.rescue_list()
    shared.answer(
        [_rescued(r) for r in found],
        [f"{r.ref}  {r.commit[:12]}" for r in found] or ["Nothing was rescued."],
    )


@rescue.command("restore")
@click.argument("ref")
@click.option("--to", "folder", metavar="DIR", help="An absent or empty folder.")
@shared_options
def rescue_restore(shared: Shared, ref: str, folder: str | None) -> None:
    """Write a rescued tree to a folder."""
    only_a_person("restore what was rescued")
    workspace = shared.workspace
    if folder is None and not ref.strip("/"):
        raise InputError("name a rescue ref; see team worktrees rescue list")
    default = (
        workspace.root
        / f"rescued-{ref.strip('/').replace('/', '-').removeprefix('refs-team-rescue-')}"
    )
    target = Path(folder) if folder is not None else default
    workspace.worktrees.rescue_restore(ref, target)
    shared.answer(
        {"ref": ref, "to": str(target)},
        [f"written to {target}", f"as a branch: git branch NAME {ref}"],
    )
