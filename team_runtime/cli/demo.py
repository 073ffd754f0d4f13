"""`team demo`: the main job, offline, in well under half a minute."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from team_runtime.cli.common import Shared, can_ask, is_terminal, shared_options
from team_runtime.cli.view import make_view
from team_runtime.clock import SystemClock
from team_runtime.errors import InputError

_PACE: Final = 0.8
"""Seconds a scripted reply takes when a person watches."""


@click.command("demo")
@click.option(
    "--dir", "folder", metavar="DIR", help="An absent or empty folder for the repository."
)
@click.option(
    "--pace",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help=f"How long each scripted reply takes; {_PACE} on a terminal, else 0.",
)
@click.option("--interactive", is_flag=True, help="You review the plans.")
@shared_options
def command(shared: Shared, folder: str | None, pace: float | None, interactive: bool) -> int:
    """Let a scripted team refactor a bundled web shop: worktrees, reviewed plans, landing.

    It needs no key and no network. Exit 0 only when both tasks have landed with reviewed plans and
    the shop's own tests pass.
    """
    from team_runtime.app.demo import REQUEST, run_demo
    from team_runtime.cli.review import reviewed
    from team_runtime.process.adoption import adopting

    if interactive and not can_ask():
        raise InputError("--interactive asks you about each plan, so it needs a terminal")
    target = Path(folder).resolve() if folder else Path(tempfile.mkdtemp(prefix="team-demo-"))
    live = is_terminal() and not shared.as_json
    view = make_view(SystemClock(), shared.color, live)
    shared.say("The models' replies are scripted. Everything else is real: the repository, the")
    shared.say("worktrees, the agents' threads, the edits, the tests, the commits, the landing.")
    shared.say(f"\nRequest: {REQUEST}\nRepository: {target}")
    with (
        adopting(),
        view.showing(),
        reviewed(view, target, plans=interactive, calls=interactive) as on_shown_event,
    ):

        def on_event(record: dict[str, Any]) -> None:
            if record["kind"] == "run_started":
                shared.say(f"Sandbox: {record['sandbox']}\n")
            on_shown_event(record)

        result = run_demo(
            target,
            os.environ,
            on_event,
            view.on_entry,
            _pace(pace, live),
            "person" if interactive else "lead",
        )
    shared.answer(result.record, _summary(result))
    if not result.succeeded:
        shared.say(f"team: the demo did not succeed; everything is kept in {target}")
        if result.tests.failed:
            shared.say(result.tests.output)
    return 0 if result.succeeded else result.run.exit_code or 1


def _pace(given: float | None, live: bool) -> float:
    if given is not None:
        return given
    return _PACE if live else 0.0


def _summary(result: Any) -> list[str]:
    record = result.record
    tests = record["tests"]
    plans = [task["plan"] for task in record["tasks"] if task["plan"]]
    look = [
        (f"cd {shlex.quote(record['workspace'])}", ""),
        ("git log --graph --oneline", "a branch for each task, landed"),
        ("team tasks list", "the board; its files are in .tasks/"),
        *(
            (f"team plans show {plan['id']}", "its revisions and their review")
            for plan in sorted(plans, key=lambda plan: plan["revision"])[-1:]
        ),
        (f"team sessions show {result.run.session}", "who said and did what"),
        ("less .team/events.jsonl", "everything that happened, in order"),
    ]
    width = max(len(command) for command, _ in look[1:])
    return [
        "",
        result.run.ending.text,
        "",
        *(line for task in record["tasks"] for line in _fate(task)),
        f"tests   {tests['passed']} passed, {tests['failed']} failed: {tests['command']}",
        f"time    {record['seconds']:.1f} seconds",
        "",
        "Look around:",
        *(
            f"  {command:<{width}}  {'# ' + what if what else ''}".rstrip()
            for command, what in look
        ),
        "",
        "Next, in a repository of your own: team doctor",
    ]


def _fate(task: dict[str, Any]) -> list[str]:
    """What became of a task."""
    by = f" by {task['owner']}" if task["owner"] else ""
    where = f" in worktrees/{task['worktree']}" if task["worktree"] else ""
    commit = f", commit {task['commit'][:12]}" if task["commit"] else ""
    plan = task["plan"]
    lines = [f"{task['id']}  {task['subject']}", f"{task['status']}{by}{where}{commit}"]
    if plan:
        lines.append(f"{plan['id']}, revision {plan['revision']}, approved by {plan['approvedBy']}")
    return [lines[0], *(f"        {line}" for line in lines[1:])]
