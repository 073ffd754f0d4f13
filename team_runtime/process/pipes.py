"""What a program is started with, and the reading of what it writes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

import anyio

from team_runtime.errors import ProgramMissing
from team_runtime.process.base import ATTACHED, CHANNEL, PASSAGE, REPORT, Command, Completed
from team_runtime.process.gate import Gate
from team_runtime.process.output import Output

_PIPE: Final = 2**14
"""Bytes that a pipe holds everywhere."""


@dataclass
class Pipes:
    """What a program is started with, and the ends to read of its output."""

    argv: list[str]
    attached: tuple[int, ...]
    """The further descriptors that the program gets."""
    stdin: IO[bytes] | None
    """`None` when it has no input."""
    out: Output
    err: Output
    channel: socket.socket | None = None
    """The program's end of it."""
    gate: Gate | None = None
    outputs: list[Output] = field(init=False)

    def __post_init__(self) -> None:
        self.outputs = [self.out] if self.err is self.out else [self.out, self.err]

    @property
    def sources(self) -> list[Output | Gate]:
        """Everything that is to be read."""
        return [*self.outputs, *([self.gate] if self.gate is not None else [])]

    def close_writers(self) -> None:
        for source in self.sources:
            source.close_writer()
        if self.channel is not None:
            self.channel.close()

    def read_rest(self) -> None:
        """Take what the program wrote and nobody has read yet, however late it is by now: one read
        takes all that a pipe holds."""
        for output in self.outputs:
            output.read()

    def completed(self, status: int, timed_out: bool) -> Completed:
        """How it ended. Raises `ProgramMissing` when its limits kept it from starting."""
        if self.gate is not None and self.gate.fault:
            raise ProgramMissing(self.argv[0], self.gate.fault, "Nothing was run.")
        stderr = b"" if self.err is self.out else self.err.kept()
        dropped = sum(output.dropped for output in self.outputs)
        return Completed(status, self.out.kept(), stderr, dropped, timed_out)


@contextmanager
def opened_pipes(command: Command) -> Iterator[Pipes]:
    """The pipes of `command`, closed at the end."""
    # Input comes from an unnamed file, so that nobody has to feed a pipe while reading others.
    with contextlib.ExitStack() as stack:
        stdin: IO[bytes] | None = None
        if command.input:
            stdin = stack.enter_context(tempfile.TemporaryFile())
            stdin.write(command.input)
            stdin.seek(0)
        argv = list(command.argv)
        attached: tuple[int, ...] = ()
        if command.attached:
            number = stack.enter_context(_filled_pipe(command.attached))
            argv = [str(number) if part == ATTACHED else part for part in argv]
            attached = (number,)
        theirs = None
        if command.served_by is not None:
            ours, theirs = socket.socketpair()
            stack.callback(theirs.close)
            stack.enter_context(command.served_by.serving(ours))
            argv = [str(theirs.fileno()) if part == CHANNEL else part for part in argv]
            attached = (*attached, theirs.fileno())
        gate = None
        if command.limits:
            with clear_errors(command):
                gate = Gate(command.limits)
            stack.callback(gate.close)
            names = dict(zip((REPORT, PASSAGE), map(str, gate.descriptors), strict=True))
            argv = [names.get(part, part) for part in argv]
            attached = (*attached, *gate.descriptors)
        out = Output(command.keep)
        stack.callback(out.close)
        err = out
        if not command.merge:
            err = Output(command.keep)
            stack.callback(err.close)
        yield Pipes(argv, attached, stdin, out, err, theirs, gate)


@contextmanager
def _filled_pipe(data: bytes) -> Iterator[int]:
    """The end to read of a pipe that holds `data`: it needs no disk, which may be full."""
    reader, writer = os.pipe()
    try:
        with os.fdopen(writer, "wb", buffering=0) as end:
            if len(data) > _PIPE:
                fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, len(data))
            os.set_blocking(writer, False)
            if end.write(data) != len(data):
                raise OSError(errno.E2BIG, "more is attached than a pipe holds")
        yield reader
    finally:
        os.close(reader)


async def read_all(source: Output | Gate) -> None:
    """Read until nothing more can come."""
    while True:
        await anyio.wait_readable(source.reader)
        if not source.read():
            return


@contextmanager
def clear_errors(command: Command) -> Iterator[None]:
    """Whatever keeps `command` from starting is a `ProgramMissing` that names it."""
    program = str(command.argv[0]) if command.argv else ""
    try:
        yield
    except (OSError, ValueError, IndexError) as error:
        cause = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        hint = "Nothing was run."
        if not command.cwd.is_dir():
            cause = f"its folder {command.cwd} is not there"
        elif isinstance(error, FileNotFoundError | PermissionError):
            hint = "Install it or put it on the PATH, and try again."
        raise ProgramMissing(program, cause, hint) from error
