"""`team daemon`: fire schedules with no terminal open."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import click

from team_runtime.cli.common import Shared, only_a_person, shared_options
from team_runtime.cli.options import setting_options
from team_runtime.errors import InputError, TeamError
from team_runtime.text import one_line

_ANSWER: Final = 2000
"""Characters of what a run said last; `team sessions show` has all of it."""


@click.command("daemon")
@click.option("--session", metavar="ID", help="Schedules without a session wake this one.")
@setting_options
@shared_options
def command(shared: Shared, session: str | None, **given: Any) -> None:
    """Wait for schedules and wake the session of each, until SIGTERM or Ctrl-C.

    A durable schedule wakes the session that made it, as `team run --resume` does; one that was
    made on the command line begins a new session for each firing. While a `team run` is going, its
    schedules are left to it, and others wait for its end. Nobody is asked, whatever `approvals` is
    set to: what no rule allows is refused and recorded. The options hold
    for every run that is begun here; --timeout and --max-turns for each. It does not start when no
    run could: no key, a provider that there is not, a rule that can match nothing.
    """
    only_a_person("start a daemon")
    from team_runtime.app.headless import Headless, Serving
    from team_runtime.app.preflight import (
        check_models,
        check_settings,
        goes_on_with,
        plays_program,
    )
    from team_runtime.app.workspace import Workspace
    from team_runtime.config import Settings, load

    if given["approvals"] == "wait":
        raise InputError("a daemon asks nobody; leave --approvals wait out. Nothing was started")
    workspace = Workspace(shared.root, os.environ)
    if session is not None:
        workspace.sessions.load(session)

    def settings(record: Mapping[str, Any]) -> Settings:
        said = {key: value for key, value in given.items() if value}
        return load(shared.root, os.environ, goes_on_with(record, said))

    root = workspace.repository.root
    check_settings(workspace, settings({}))

    def begun() -> None:
        records = [{}] if given["model"] else [{}, *workspace.sessions.list()]
        known = [record for record in records if not plays_program(record)]
        check_models((settings(record).model for record in known), os.environ)
        shared.say(f"team: waiting for schedules in {root} (pid {os.getpid()})")

    def tell(record: Mapping[str, Any]) -> None:
        _tell(shared, record)

    workspace.events.add(tell)

    def fault(error: TeamError) -> None:
        shared.say(f"team: {one_line(str(error))} It is tried again each second.")

    def answer(session: str, text: str) -> None:
        shared.say(f"team: {session} says: {one_line(text, _ANSWER)}")

    parts = Serving(
        workspace,
        os.environ,
        settings,
        session,
        on_event=tell,
        on_answer=answer,
        on_fault=fault,
    )
    Headless(parts).serve(begun)
    shared.say("team: the daemon has ended")


def _tell(shared: Shared, record: Mapping[str, Any]) -> None:
    """One line for what a person wants to find in a log."""
    about = {
        "run_started": ("session",),
        "run_ended": ("session", "exit_code"),
        "schedule_fired": ("schedule", "slot", "prompt"),
        "schedule_skipped": ("schedule", "count", "note"),
        "schedule_ended": ("schedule", "slot", "state", "note"),
        "permission_denied": ("agent", "tool", "reason"),
        "notice": ("text",),
        "quarantined": ("path", "where", "why"),
    }.get(record["kind"])
    if about is not None:
        known = ((key, record[key]) for key in about)
        told = " ".join(
            f"{key}={one_line(str(what), 200)}" for key, what in known if what is not None
        )
        shared.say(f"{record['ts']} {record['kind']} {told}")
