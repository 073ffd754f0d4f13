"""What all commands share: the global options, finding the workspace, answering."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from team_runtime.cli.output import put, put_json, say
from team_runtime.errors import InputError, RefusedError

if TYPE_CHECKING:
    from team_runtime.app.workspace import Workspace

F = TypeVar("F", bound=Callable[..., Any])
_TOLD: Final = ("notice", "quarantined")
"""Events of a command that are told on stderr, wherever they come from."""


@dataclass(frozen=True)
class Shared:
    """The options that may stand before or after any command."""

    root: Path
    as_json: bool
    color: bool

    @functools.cached_property
    def workspace(self) -> Workspace:
        """The services of the workspace, each made when it is first used."""
        from team_runtime.app.workspace import Workspace

        workspace = Workspace(self.root, os.environ)
        workspace.events.add(self._tell)
        return workspace

    def _tell(self, record: dict[str, Any]) -> None:
        """What a person should know besides the answer."""
        if record["kind"] in _TOLD:
            from team_runtime.cli.telling import tell

            if told := tell(record):
                self.say(f"team: {told.text}")

    def answer(self, value: Any, lines: Sequence[str]) -> None:
        """Print the answer to stdout: `value` as one JSON value, or `lines` for a person."""
        if self.as_json:
            put_json(value, indent=2)
        else:
            for line in lines:
                put(line)

    def say(self, text: str) -> None:
        """Tell a person something that is not the answer."""
        say(text)


def shared_options(command: F) -> F:
    """Accept the global options here too, and pass them on as one `Shared`."""

    @click.option("-C", "--workspace", metavar="DIR", help="The workspace.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout.")
    @click.option("--no-color", is_flag=True, help="No colours.")
    @click.pass_context
    @functools.wraps(command)
    def wrapped(ctx: click.Context, /, **given: Any) -> Any:
        root = ctx.find_root().params
        folder = given.pop("workspace") or root.get("workspace")
        as_json = given.pop("as_json") or root.get("as_json", False)
        no_color = given.pop("no_color") or root.get("no_color", False)
        color = not no_color and not os.environ.get("NO_COLOR")
        ctx.obj = Shared(find_workspace(folder), as_json, color)
        return command(ctx.obj, **given)

    return wrapped  # type: ignore[return-value]


def find_workspace(folder: str | None) -> Path:
    """The named folder, else the root of the enclosing git repository, else the current folder.

    Found without running git, so that the board works and answers at once everywhere.
    """
    if folder is not None:
        path = Path(folder).resolve()
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "does not exist"
            raise InputError(f"{folder} {what}; name a folder with -C")
        return path
    try:
        here = Path.cwd()
    except FileNotFoundError as error:
        raise InputError("the current folder does not exist any more; use -C DIR") from error
    for candidate in (here, *here.parents):
        if (candidate / ".git").exists():
            return candidate
    return here


def text_or_stdin(given: str, what: str) -> str:
    """`given`, or all of stdin for `-`. Raises `InputError` when it is blank or not text."""
    # An argument that the locale could not decode is UTF-8 all the same.
    text = os.fsencode(given).decode(errors="replace")
    if given == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise InputError(f"there is no stdin to read the {what} from; nothing was done")
        text = sys.stdin.buffer.read().decode(errors="replace")
    if not text.strip():
        raise InputError(f"the {what} is empty; nothing was done")
    return text


def only_a_person(what: str) -> None:
    """Refuse `what` when this process was started by an agent, or when that cannot be told."""
    from team_runtime.app.people import who_else

    shared = click.get_current_context().find_object(Shared)
    assert shared is not None, "every command that asks this has the shared options"
    if starter := who_else(shared.root, os.environ):
        raise RefusedError(f"only a person may {what}, and this was started by {starter}.")


def is_terminal() -> bool:
    """Whether a person is likely to look at stderr."""
    return sys.stderr is not None and sys.stderr.isatty()


def can_ask() -> bool:
    """Whether a person is there to answer."""
    return is_terminal() and sys.stdin is not None and sys.stdin.isatty()
