"""`team demo`: the main job, offline, in well under half a minute."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from team_runtime.cli.common import Shared, is_terminal, shared_options
from team_runtime.cli.view import make_view
from team_runtime.clock import SystemClock

_PACE = 0.8
"""Seconds a scripted reply takes when a person watches."""


@click.command("demo")
@click.option(
    "--dir", "folder", metavar="DIR", help="An absent or empty folder for the repository."
)
@click.option("--pace", type=click.FloatRange(0), help="Seconds that each scripted reply takes.")
@shared_options
def command(shared: Shared, folder: str | None, pace: float | None) -> int:
    """Let a scripted team refactor a bundled web shop: worktrees, reviewed plans, landing."""
    from team_runtime.app.demo import REQUEST, run_demo

    target = Path(folder).resolve() if folder else Path(tempfile.mkdtemp(prefix="team-demo-"))
    live = is_terminal() and not shared.as_json
    view = make_view(SystemClock(), shared.color, live)
    shared.say("The model's replies are scripted. Everything else is real: the repository, the")
    shared.say("worktrees, the agents' threads, the edits, the tests, the commits and the landing.")
    shared.say(f"\nRequest: {REQUEST}\nRepository: {target}\n")
    with view.showing():
        result = run_demo(target, os.environ, view.on_event, _pace(pace, live))
    shared.answer(result.record, _summary(result))
    if not result.succeeded:
        shared.say("team: the demo did not succeed; its folder is kept")
        if result.tests.failed:
            shared.say(result.tests.output)
    return 0 if result.succeeded else 1


def _pace(given: float | None, live: bool) -> float:
    if given is not None:
        return given
    return _PACE if live else 0.0


def _summary(result: Any) -> list[str]:
    record = result.record
    lines = ["", result.run.ending.text, ""]
    for task in record["tasks"]:
        plan = task["plan"] or {}
        lines.append(
            f"{task['id']}  {task['status']} by {task['owner']} in worktrees/{task['worktree']}, "
            f"plan revision {plan.get('revision')} approved by {plan.get('approvedBy')}, "
            f"commit {str(task['commit'])[:12]}"
        )
    tests = record["tests"]
    lines += [
        f"tests on {record['target']}: {tests['passed']} passed, {tests['failed']} failed",
        f"  by {tests['command']}",
        f"{record['seconds']:.1f} seconds",
        "",
        "Look around:",
        f"  cd {record['workspace']}",
        "  git log --graph --oneline      # two branches, landed",
        "  git diff HEAD~4..HEAD --stat   # what the team changed",
        "  team tasks list                # the board; the files are in .tasks/",
        "  team plans show plan_2         # the plan that was rejected, revised and approved",
        "  team worktrees list            # the teammates' working folders",
        "  less .team/events.jsonl        # everything that happened, in order",
    ]
    return lines
