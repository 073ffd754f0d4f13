"""Printing that survives whatever stdout and stderr are: closed, full, a pipe that nobody reads."""

from __future__ import annotations

import errno
import io
import json
import os
import stat
import sys
from typing import Any

import click

from team_runtime.errors import OutputLost
from team_runtime.text import for_terminal, json_for_terminal


def mend_streams() -> None:
    """Call once, first: no file that is opened later may become a closed stdout, and a character
    that the terminal cannot show is replaced."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def put(text: str | bytes, nl: bool = True) -> None:
    """Print a line of the answer to stdout, without what would not show; bytes are printed as they
    are. Whoever stopped reading misses the rest of it. `nl` is false for what is not whole lines.

    Raises `OutputLost` when it cannot be written, as on a full disk.
    """
    try:
        click.echo(text if isinstance(text, bytes) else for_terminal(text), nl=nl)
    except (OSError, ValueError) as error:
        unread = isinstance(error, OSError) and _is_unread(error, sys.stdout)
        _discard(sys.stdout)
        if unread:
            return
        cause = error.strerror if isinstance(error, OSError) else str(error)
        raise OutputLost(cause or str(error)) from error


def put_json(value: Any, indent: int | None = None) -> None:
    """Print one JSON value, in ASCII where stdout or its text cannot be encoded otherwise."""
    text = json_for_terminal(json.dumps(value, ensure_ascii=False, indent=indent))
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    put(text)


def say(text: str, end: str = "\n") -> None:
    """Tell a person something that is not the answer, on stderr, without what would not show. What
    nobody can read is lost."""
    _write_error(for_terminal(text) + end)


def _write_error(text: str) -> None:
    try:
        click.echo(text, err=True, nl=False)
    except (OSError, ValueError):
        _discard(sys.stderr)


def ring_bell() -> None:
    """Ring the bell of the terminal that stderr goes to; there may be none."""
    if sys.stderr.isatty():
        _write_error("\a")


def _is_unread(error: OSError, stream: Any) -> bool:
    """Whether the write failed because a pipe or a terminal was closed at its other end."""
    if error.errno != errno.EIO:
        return error.errno == errno.EPIPE
    try:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError, AttributeError):
        return False


def _discard(stream: Any) -> None:
    """Send what is left of a broken stream nowhere, or the interpreter complains at its exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError, AttributeError):
        return
