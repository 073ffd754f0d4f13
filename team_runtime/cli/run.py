"""`team run`: let a team work on a request until it is done."""

from __future__ import annotations

import os
from typing import Any

import click

from team_runtime.cli.common import Shared, is_terminal, shared_options, text_or_stdin
from team_runtime.cli.options import setting_options
from team_runtime.cli.output import put, put_json
from team_runtime.cli.view import make_view
from team_runtime.clock import SystemClock
from team_runtime.errors import InputError


@click.command("run")
@click.argument("prompt", required=False, default="")
@setting_options
@click.option("--resume", metavar="SESSION", help="Go on with this session.")
@click.option("--continue", "latest", is_flag=True, help="Go on with the newest session.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "stream-json"]),
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

    Nobody is asked anything: what no rule allows is refused. Commands run with your own rights;
    there is no sandbox.
    """
    from team_runtime.app.run import RunRequest, run_team_in
    from team_runtime.cli.results import JsonStream, result_record
    from team_runtime.config import load
    from team_runtime.store.layout import check_agent_name

    session = _session(shared, resume, latest)
    text = text_or_stdin(prompt, "prompt") if prompt or session is None else ""
    if session is not None:
        kept = {"model": session["model"], "name": session["team"]}
        given = kept | {key: value for key, value in given.items() if value is not None}
    settings = load(shared.root, os.environ, given)
    check_agent_name(settings.name, "team")
    output = output_format or ("json" if shared.as_json else "text")
    clock = SystemClock()
    stream = JsonStream(put_json) if output == "stream-json" else None
    view = make_view(clock, shared.color, live=is_terminal() and stream is None)

    def on_event(record: dict[str, Any]) -> None:
        if record["kind"] == "run_started":
            shared.say(f"session {record['session']}")
        view.on_event(record)
        if stream is not None:
            stream.on_event(record)

    request = RunRequest(
        root=shared.root,
        prompt=text,
        settings=settings,
        environ=os.environ,
        on_event=on_event,
        on_entry=stream.on_entry if stream is not None else _ignore,
        resume=session["id"] if session is not None else None,
    )
    with view.showing():
        result = run_team_in(request)
    _report(shared, output, result, result_record(result))
    return result.exit_code


def _report(shared: Shared, output: str, result: Any, record: dict[str, Any]) -> None:
    if output != "text":
        put_json(record)
    elif result.ending.text:
        put(result.ending.text)
    if result.ending.error is not None:
        shared.say(f"team: {result.ending.error}")
    elif result.ending.interrupted:
        shared.say("team: interrupted; unfinished tasks were released with their work saved")
    if result.unfinished:
        shared.say(f"team: not finished: {', '.join(result.unfinished)}")
    if result.exit_code != 0:
        shared.say(f"team: to go on: team run --resume {result.session}")


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


def _ignore(*_: Any) -> None:
    """Nobody listens to the conversations."""
