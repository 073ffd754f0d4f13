"""`team status`: who does what, right now."""

from __future__ import annotations

from typing import Any

import click

from team_runtime.board.model import STATUSES
from team_runtime.cli.common import Shared, shared_options
from team_runtime.store.presence import Runs
from team_runtime.text import one_line


@click.command("status")
@shared_options
def command(shared: Shared) -> None:
    """Show the running team, the tasks that are held, and the plans that wait."""
    workspace = shared.workspace
    tasks = workspace.board.list()
    runs = Runs(workspace.store)
    alive = [
        {**record, "liveness": runs.liveness(str(record["run"])).value} for record in runs.known()
    ]
    held = [task for task in tasks if task.status == "in_progress"]
    waiting = workspace.plans.pending()
    counts = {status: sum(t.status == status for t in tasks) for status in STATUSES}
    answer: dict[str, Any] = {
        "workspace": str(shared.root),
        "runs": alive,
        "tasks": counts,
        "ready": [task.id for task in workspace.board.ready()],
        "inProgress": [
            {"id": t.id, "owner": t.owner, "since": t.claim.at if t.claim else None} for t in held
        ],
        "plans": [
            {"id": p.id, "revision": p.revisions[-1].number, "agent": p.agent, "task": p.task}
            for p in waiting
        ],
    }
    lines = [f"workspace {shared.root}"]
    lines += [
        f"run {run['run']} (pid {run['pid']}, session {run.get('session')}) is {run['liveness']}"
        for run in alive
    ] or ["no team is running"]
    lines.append(", ".join(f"{n} {status}" for status, n in counts.items() if n) or "no tasks")
    lines += [
        f"  {t.id}  {t.owner} since {t.claim.at if t.claim else 'an edit by hand'}  "
        f"{one_line(t.subject, 60)}"
        for t in held
    ]
    lines += [
        f"  {p.id} revision {p.revisions[-1].number} by {p.agent} waits for review: "
        f"team plans show {p.id}"
        for p in waiting
    ]
    shared.answer(answer, lines)
