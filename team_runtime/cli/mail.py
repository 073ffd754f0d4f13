"""`team mail`: write to an agent, and look into mailboxes without taking anything out."""

from __future__ import annotations

from dataclasses import asdict

import click

from team_runtime.bus.message import Message
from team_runtime.cli.common import Shared, only_a_person, shared_options, text_or_stdin
from team_runtime.team.planning import PERSON
from team_runtime.text import for_terminal, one_line


@click.group("mail")
def command() -> None:
    """The agents' mailboxes. Only their owners take mail out of them."""


@command.command("send")
@click.option("--to", "name", required=True, metavar="NAME", help="An agent, such as lead.")
@click.argument("text")
@shared_options
def send(shared: Shared, name: str, text: str) -> None:
    """Write TEXT (- reads it from stdin) to an agent.

    It reads the message before its next model call; one that is idle is woken.
    """
    only_a_person("write to an agent as a person")
    body = text_or_stdin(text, "message")
    message = shared.workspace.bus.send(PERSON, name, body)
    shared.answer(asdict(message), [f"{message.id} waits in the mailbox of {name}"])


@command.command("list")
@click.argument("name", required=False)
@shared_options
def list_(shared: Shared, name: str | None) -> None:
    """List what NAME has not read yet. Without NAME, list all mailboxes."""
    bus = shared.workspace.bus
    if name is None:
        counts = {box: len(bus.unread(box)) for box in bus.names()}
        lines = [f"{box:<16} {count} unread" for box, count in counts.items()]
        rows = [{"name": box, "unread": count} for box, count in counts.items()]
        shared.answer(rows, lines or ["No mailboxes yet; a run makes one for each agent."])
        return
    found = bus.unread(name)
    shared.answer([asdict(m) for m in found], [_line(m) for m in found] or ["Nothing unread."])


@command.command("show")
@click.argument("name")
@shared_options
def show(shared: Shared, name: str) -> None:
    """Show in full what NAME has not read yet."""
    found = shared.workspace.bus.unread(name)
    lines = [line for message in found for line in _whole(message)]
    shared.answer([asdict(m) for m in found], lines or ["Nothing unread."])


def _line(message: Message) -> str:
    return f"{_head(message)}  {one_line(message.body, 80)}"


def _head(message: Message) -> str:
    return f"{message.at}  {one_line(message.sender)}  {message.type}"


def _whole(message: Message) -> list[str]:
    notes = [f"{key} {value}" for key, value in sorted(message.attributes.items())]
    head = "  ".join([_head(message), message.id, *map(one_line, notes)])
    return [head, *(f"  {line}" for line in for_terminal(message.body).splitlines()), ""]
