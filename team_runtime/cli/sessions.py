"""`team sessions`: what was said and done in each session."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import click

from team_runtime.app.archive import archive
from team_runtime.cli.common import Shared, shared_options
from team_runtime.cli.output import put_json
from team_runtime.cli.transcript import transcript_lines
from team_runtime.errors import InputError
from team_runtime.store.records import encode_line
from team_runtime.text import for_terminal, one_line
from team_runtime.types import Json


@click.group("sessions")
def command() -> None:
    """What was said and done. `team run --resume ID` goes on with a session."""


@command.command("list")
@shared_options
def list_(shared: Shared) -> None:
    """List the sessions, newest first."""
    found = shared.workspace.sessions.list()
    shared.answer(found, [_line(record) for record in found] or ["No sessions yet."])


@command.command("show")
@click.argument("session_id", metavar="ID")
@click.option("--agent", metavar="NAME", help="Only this agent's conversation.")
@click.option("--full", is_flag=True, help="The whole of each text, call and result.")
@shared_options
def show(shared: Shared, session_id: str, agent: str | None, full: bool) -> None:
    """Show the conversation of each agent."""
    sessions = shared.workspace.sessions
    record = sessions.load(session_id)
    names = sessions.agents(session_id)
    if agent is not None and agent not in names:
        known = ", ".join(names) or "none"
        raise InputError(f"{session_id} has no conversation of {agent!r}; agents: {known}")
    chosen = [name for name in names if agent in (None, name)]
    entries = {name: sessions.transcript(session_id, name).entries() for name in chosen}
    lines = [_line(record)]
    for name in chosen:
        lines += ["", f"──── {name} ────", *transcript_lines(entries[name], full)]
    shared.answer({**record, "transcripts": entries}, lines)


@command.command("export")
@click.argument("session_id", metavar="ID")
@click.option("--to", "file", metavar="FILE", help="A new file, instead of stdout.")
@shared_options
def export(shared: Shared, session_id: str, file: str | None) -> None:
    """Write everything of a session: its record, conversations, tasks, plans and events.

    One JSON object a line; its `record` says what it is. With --json, one array. It holds what the
    agents read and wrote, so look through it before you give it away.
    """
    records = archive(shared.workspace, session_id)
    if file is not None:
        count = _write(file, records)
        shared.answer({"file": file, "records": count}, [f"{count} records written to {file}"])
    elif shared.as_json:
        put_json(list(records), indent=2)
    else:
        for record in records:
            put_json(record)


def _write(file: str, records: Iterable[dict[str, Json]]) -> int:
    """Write a new file that only its owner can read; returns the number of lines."""
    data = [encode_line(record) + b"\n" for record in records]
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.writelines(data)
    except FileExistsError as error:
        raise InputError(f"{file} is there already and was left alone; name a new file") from error
    except OSError as error:
        raise InputError(f"{file} could not be written: {error.strerror}") from error
    return len(data)


def _line(record: dict[str, Any]) -> str:
    others = [agent["name"] for agent in record.get("agents", []) if agent["name"] != "lead"]
    schedule = record.get("schedule")
    request = one_line(str(record.get("prompt") or f"[{schedule}]" * bool(schedule)), 70)
    agents = for_terminal(", ".join(["lead", *others]))
    return f"{record['id']}  {agents}  {request}"
