"""`team status`: who does what, right now."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import click

from team_runtime.app.archive import agent_states, daemon_states
from team_runtime.approvals.model import Approval
from team_runtime.approvals.store import summary
from team_runtime.board.model import STATUSES, Task
from team_runtime.cli.common import Shared, shared_options
from team_runtime.daemons.job_records import job_record
from team_runtime.daemons.job_text import job_line
from team_runtime.plans.model import Plan
from team_runtime.store.presence import Runs, daemon_pid
from team_runtime.text import for_terminal, one_line
from team_runtime.types import Liveness

if TYPE_CHECKING:
    from team_runtime.app.workspace import Workspace
    from team_runtime.daemons.schedule_store import Entry
    from team_runtime.daemons.schedules import Firing


@click.command("status")
@shared_options
def command(shared: Shared) -> None:
    """Show the running team, the tasks that are held, and what waits for you."""
    workspace = shared.workspace
    known = Runs(workspace.store)
    runs = [
        {**record, "liveness": known.liveness(str(record["run"])).value} for record in known.known()
    ]
    alive = [str(run["run"]) for run in runs if run["liveness"] == Liveness.ALIVE.value]
    agents = [{"run": run, **state} for run in alive for state in agent_states(workspace, run)]
    daemons = [{"run": run, **state} for run in alive for state in daemon_states(workspace, run)]
    daemon = daemon_pid(workspace.store)
    tasks = workspace.board.list()
    held = [task for task in tasks if task.status == "in_progress"]
    waiting = workspace.plans.pending()
    jobs = [job for job in workspace.jobs.all() if job.running and job.run in alive]
    asked = workspace.approvals.waiting()
    schedules = _coming(workspace)
    live = {str(run["session"]) for run in runs if run["run"] in alive and run.get("session")}
    counts = {status: sum(t.status == status for t in tasks) for status in STATUSES}
    answer: dict[str, Any] = {
        "workspace": str(shared.root),
        "runs": runs,
        "agents": agents,
        "daemons": daemons,
        "daemon": daemon,
        "tasks": counts,
        "ready": [task.id for task in workspace.board.ready()],
        "inProgress": [
            {"id": t.id, "owner": t.owner, "since": t.claim.at if t.claim else None} for t in held
        ],
        "jobs": [job_record(job) for job in jobs],
        "schedules": [{"id": e.schedule.id, "next": _next(e)} for e in schedules],
        "plans": [
            {"id": p.id, "revision": p.current.number, "agent": p.agent, "task": p.task}
            for p in waiting
        ],
        "approvals": [
            {"id": a.id, "agent": a.asker.agent, "task": a.asker.task, "tool": a.subject.tool}
            for a in asked
        ],
    }
    lines = [
        f"workspace {for_terminal(str(shared.root))}",
        *([_run(run) for run in runs] or ["no team is running"]),
        *map(_agent, agents),
        *map(_daemon, daemons),
        *([f"team daemon (pid {daemon}) waits for schedules"] if daemon else []),
        *_schedules(schedules, live, bool(daemon)),
        *_open_firings(workspace, live, bool(daemon)),
        ", ".join(f"{n} {status}" for status, n in counts.items() if n) or "no tasks",
        *map(_task, held),
        *(f"  {job_line(job)}" for job in jobs),
        *map(_plan, waiting),
        *map(_approval, asked),
    ]
    shared.answer(answer, lines)


def _run(run: dict[str, Any]) -> str:
    what = f"session {run['session']}" if run.get("session") else str(run["run"])
    states = {
        Liveness.ALIVE.value: "is at work",
        Liveness.DEAD.value: "has died; its work is kept, team run --continue goes on with it",
        Liveness.UNKNOWN.value: "belongs to another machine or boot",
    }
    return f"{what} (pid {run['pid']}) {states[run['liveness']]}"


def _agent(agent: dict[str, Any]) -> str:
    task = f"  {agent['task']}" if agent["task"] else ""
    return f"  {agent['agent']:<12} {agent['state']}{task}  since {agent['since']}"


def _daemon(daemon: dict[str, Any]) -> str:
    cause = f": {one_line(daemon['cause'])}" if daemon["cause"] else ""
    return f"  daemon {daemon['daemon']} {daemon['state']} since {daemon['since']}{cause}"


def _coming(workspace: Workspace) -> list[Entry]:
    """The schedules that fire again, the next one first."""
    found = [(entry.due, entry) for entry in workspace.schedules.entries() if entry.due is not None]
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]


def _next(entry: Entry) -> str:
    """When it fires next, as its zone shows it."""
    assert entry.due is not None
    return entry.schedule.shown(entry.due)


def _schedules(entries: Sequence[Entry], live: Collection[str], daemon: bool) -> list[str]:
    """How many there are, which comes first, and whether anybody is there to fire it. Those that
    only a run of their session fires count while there is one."""
    coming = [e for e in entries if e.schedule.durable or e.schedule.session in live]
    if not coming:
        return []
    count = "1 schedule" if len(coming) == 1 else f"{len(coming)} schedules"
    left = [e for e in coming if not daemon and e.schedule.session not in live]
    which = "" if len(left) == len(coming) else f" {len(left)} of"
    them = "it" if len(coming) == 1 else "them"
    nobody = f"; nothing fires{which} {them}: no daemon runs here, start `team daemon`"
    first = f"next {coming[0].schedule.id} at {_next(coming[0])}"
    return [f"{count}, {first}{nobody if left else ''}"]


def _open_firings(workspace: Workspace, live: Collection[str], daemon: bool) -> list[str]:
    """What has fired and is not over, and who goes on with it."""
    return [
        f"  {entry.schedule.id} of {entry.schedule.shown(firing.slot)} is not over; "
        + _who_goes_on(entry, firing, live, daemon)
        for entry in workspace.schedules.entries()
        for firing in entry.history.open
    ]


def _who_goes_on(entry: Entry, firing: Firing, live: Collection[str], daemon: bool) -> str:
    if firing.session in live:
        return f"{entry.schedule.to} is at it"
    if daemon and entry.schedule.durable:
        return "the daemon goes on with it"
    ways = ["`team daemon`"] if entry.schedule.durable else []
    ways += [f"`team run --resume {firing.session}`"] if firing.session else []
    return f"nothing goes on with it: start {' or '.join(ways)}"


def _task(task: Task) -> str:
    since = task.claim.at if task.claim else "an edit by hand"
    return f"  {task.id:<9} {one_line(str(task.owner))} since {since}  {one_line(task.subject, 60)}"


def _plan(plan: Plan) -> str:
    return (
        f"  {plan.id} revision {plan.current.number} by {plan.agent} waits for review: "
        f"team plans show {plan.id}"
    )


def _approval(approval: Approval) -> str:
    return (
        f"  {approval.id} by {approval.asker.agent} waits for you: {summary(approval.subject)}\n"
        "    team approvals list"
    )
