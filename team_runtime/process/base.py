"""What starting a program means. `run.py` beside this file is the only code that does it."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

ATTACHED: Final = "\0attached"
"""Stands in `Command.argv` for the number of the descriptor with `Command.attached`."""
CHANNEL: Final = "\0channel"
"""Stands there for the number of the program's end of the channel to `Command.served_by`."""
REPORT: Final = "\0report"
"""Stands there for the number of the descriptor in which the program says what process it has made,
as bubblewrap does it. For a program with `Command.limits`."""
PASSAGE: Final = "\0passage"
"""Stands there for the number of the descriptor in which that process waits for a byte."""


class Serving(Protocol):
    """Somebody outside who answers a program while it runs."""

    def serving(self, channel: socket.socket) -> AbstractContextManager[None]:
        """Answer until the context ends; `channel` is ours to close."""
        ...


@dataclass(frozen=True)
class Command:
    """A program to run: argv only, in a session and process group of its own."""

    argv: Sequence[str]
    cwd: Path
    env: Mapping[str, str]
    """The whole environment of the child; nothing is inherited."""
    timeout: float
    """Seconds, after which the group gets TERM, then KILL."""
    input: bytes = b""
    keep: int = 16 * 2**20
    """Bytes of output kept; the rest is read and dropped, and counted in `Completed.dropped`."""
    merge: bool = False
    """Whether stderr goes into the same stream as stdout, in the order written."""
    attached: bytes = b""
    """What the program can read from one more descriptor; no more than a pipe can be made to hold
    (1 MiB on Linux)."""
    served_by: Serving | None = None
    """Who is at the other end of the channel that the program gets."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Those of the process that the program makes, by the system's names for them. It goes on when
    they are set."""


@dataclass(frozen=True)
class Completed:
    """How a program ended. Its process group is gone."""

    status: int
    """The exit status; negative for a signal."""
    stdout: bytes
    stderr: bytes
    dropped: int = 0
    timed_out: bool = False


class Runner(Protocol):
    """Runs a program to its end. Raises `ProgramMissing` when it cannot be started."""

    def run(self, command: Command) -> Completed:
        """The end of `command`. When the program has ended, what it left running in its group is
        ended too, and a child that keeps the pipe open does not delay the return."""
        ...
