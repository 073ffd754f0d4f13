"""`team run`: let a team work on a request until it is done."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

import click

from team_runtime.cli.common import Shared, can_ask, is_terminal, shared_options, text_or_stdin
from team_runtime.cli.options import setting_options
from team_runtime.cli.output import put, put_json, ring_bell
from team_runtime.cli.view import View, make_view
from team_runtime.clock import SystemClock
from team_runtime.errors import InputError

if TYPE_CHECKING:
    from team_runtime.app.request import RunRequest, RunResult

TEXT: Final = "text"
JSON: Final = "json"
STREAM: Final = "stream-json"


@click.command("run")
@click.argument("prompt", required=False, default="")
@setting_options
@click.option("--resume", metavar="SESSION", help="Go on with this session.")
@click.option("--continue", "latest", is_flag=True, help="Go on with the newest session.")
@click.option(
    "--output-format",
    type=click.Choice([TEXT, JSON, STREAM]),
    help="text: the lead's report; json: one result; stream-json: every step.",
)
@shared_options
def command(
    shared: Shared,
    prompt: str,
    output_format: str | None,
    resume: str | None,
    latest: bool,
    **given: Any,
) -> int:
    """Let a team work on PROMPT (- reads it from stdin) until the request is done.

    With --resume or --continue the lead and every teammate go on where they were; a PROMPT is then
    one more request.

    On a terminal you are asked about what no rule allows or denies. Without one it is refused, or
    with --approvals wait it waits for your answer from another terminal (team approvals). Commands
    run in a sandbox where the machine has one; the first line says which.
    """
    from team_runtime.cli.results import failure_record, result_record

    output = output_format or (JSON if shared.as_json else TEXT)
    try:
        session = _session(shared, resume, latest)
        text = text_or_stdin(prompt, "prompt") if prompt or session is None else ""
        result = _watched(shared, _request(shared, text, session, given), output)
    except Exception as error:
        if output != TEXT:
            put_json(failure_record(error))
        raise
    if output != TEXT:
        put_json(result_record(result))
    elif result.ending.text:
        put(result.ending.text)
    _report(shared, result)
    return result.exit_code


def _request(
    shared: Shared, text: str, session: Mapping[str, Any] | None, given: dict[str, Any]
) -> RunRequest:
    """The run that was asked for. Raises `InputError` for bad settings."""
    from team_runtime.app.preflight import goes_on_with
    from team_runtime.app.request import RunRequest
    from team_runtime.config import load
    from team_runtime.store.layout import check_agent_name

    given = given if session is None else goes_on_with(session, given)
    settings = load(shared.root, os.environ, given)
    check_agent_name(settings.name, "team")
    resume = session["id"] if session is not None else None
    return RunRequest(shared.root, text, settings, os.environ, resume=resume, attended=can_ask())


def _watched(shared: Shared, request: RunRequest, output: str) -> RunResult:
    """Run the team and show what it does."""
    from team_runtime.app.run import run_team_in
    from team_runtime.cli.results import JsonStream
    from team_runtime.cli.review import reviewed
    from team_runtime.process.adoption import adopting

    view = make_view(SystemClock(), shared.color, live=is_terminal() and output != STREAM)
    stream = JsonStream(put_json if output == STREAM else lambda _: None)
    by_person = request.settings.plan_review == "person"
    plans, calls = by_person and can_ask(), request.waits_for_answers and can_ask()
    with (
        view.showing(),
        reviewed(view, request.root, plans=plans, calls=calls) as on_shown_event,
    ):

        def say(text: str) -> None:
            with view.asking():  # what moves on the screen makes room
                shared.say(text)

        def on_event(record: dict[str, Any]) -> None:
            if record["kind"] == "run_started":
                say(f"session {record['session']} (sandbox {record['sandbox']})")
            on_shown_event(record)
            if record["kind"] == "plan_submitted" and by_person and not can_ask():
                say(_how_to_decide(record))
            elif record["kind"] == "approval_asked" and not can_ask():
                say(_how_to_answer(record))
            stream.on_event(record)

        def on_entry(agent: str, entry: dict[str, Any]) -> None:
            view.on_entry(agent, entry)
            stream.on_entry(agent, entry)

        heard = replace(
            request,
            on_event=on_event,
            on_entry=on_entry,
            on_leave=partial(_leave, view),
            ring=ring_bell,
        )
        with adopting():
            return run_team_in(heard)


def _leave(view: View) -> None:
    from team_runtime.process.adoption import end_adopted

    end_adopted(leave_git=True)
    view.leave()


def _how_to_decide(record: dict[str, Any]) -> str:
    which = f"{record['plan']} --revision {record['revision']}"
    return (
        f"team: {record['agent']} waits for you: team plans approve {which}\n"
        f"      or: team plans reject {which} --feedback TEXT"
    )


def _how_to_answer(record: dict[str, Any]) -> str:
    return (
        f"team: {record['agent']} waits for you: team approvals list\n"
        f"      then: team approvals allow {record['approval']}, or deny"
    )


def _report(shared: Shared, result: RunResult) -> None:
    """Tell a person what is left to do."""
    if result.ending.error is not None:
        shared.say(f"team: {result.ending.error}")
    elif result.ending.interrupted:
        shared.say("team: interrupted; unfinished tasks were released with their work saved")
    if result.unfinished:
        shared.say(f"team: not finished: {', '.join(result.unfinished)}")
    for line in _schedules_left(shared, result.session):
        shared.say(f"team: {line}")
    if result.exit_code != 0:
        shared.say(f"team: to go on: {_to_go_on(shared, result.session)}")


def _to_go_on(shared: Shared, session: str) -> str:
    """The command that resumes the session. A model that is a program has to be named again."""
    from team_runtime.app.preflight import plays_program

    record = shared.workspace.sessions.load(session)
    more = f" --model {quote(record['model'])}" if plays_program(record) else ""
    return f"team run --resume {session}{more}"


def _schedules_left(shared: Shared, session: str) -> Iterator[str]:
    """What is still to come, and what it needs."""
    for entry in shared.workspace.schedules.entries():
        schedule = entry.schedule
        if schedule.session != session or entry.next is None:
            continue
        needs = "team daemon" if schedule.durable else f"team run --resume {session}"
        due = schedule.shown(entry.next)
        yield f"{schedule.id} is due {due}; with this run over it needs: {needs}"


def _session(shared: Shared, resume: str | None, latest: bool) -> dict[str, Any] | None:
    """The record of the session to go on with. Raises `InputError` when there is none."""
    if resume is None and not latest:
        return None
    sessions = shared.workspace.sessions
    if resume is not None:
        return sessions.load(resume)
    newest = sessions.latest()
    if newest is None:
        raise InputError("there is no session to continue in this workspace; nothing was started")
    return newest
