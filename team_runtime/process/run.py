"""Starting programs and ending everything they started: the only code that does it.

Both runners do the same, and one contract suite holds them to it. They do not wait for the end of
the output: a grandchild may hold the pipe for ever. They wait for the program, end what it left in
its process group, and then read for a moment what is still on its way.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import selectors
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Final

import anyio
from anyio.abc import Process

from team_runtime.clock import SystemClock
from team_runtime.crossing import Crossing, Stopped
from team_runtime.errors import ProgramMissing
from team_runtime.process.base import ATTACHED, CHANNEL, PASSAGE, REPORT, Command, Completed
from team_runtime.process.gate import Gate
from team_runtime.process.output import Output
from team_runtime.process.usage import group_lives

GRACE: Final = 1.0
"""Seconds between TERM and KILL."""
DRAIN: Final = 0.2
"""Seconds in which output may still arrive once the program has ended."""
_TICK: Final = 0.01
_SLOW_TICK: Final = 0.1
_PIPE: Final = 2**14
"""Bytes that a pipe holds everywhere."""
_monotonic: Final = SystemClock().monotonic


class BlockingRunner:
    """Runs programs from plain threads: for the library and the command line."""

    def run(self, command: Command) -> Completed:
        with opened_pipes(command) as pipes:
            with _clear_errors(command):
                process = subprocess.Popen(
                    pipes.argv,
                    pass_fds=pipes.attached,
                    cwd=command.cwd,
                    env=dict(command.env),
                    stdin=pipes.stdin,
                    stdout=pipes.out.writer,
                    stderr=pipes.err.writer,
                    start_new_session=True,
                )
            pipes.close_writers()
            try:
                timed_out = _attend(process, pipes, command.timeout)
            except BaseException:
                _end_now(process)
                raise
            return pipes.completed(process.returncode, timed_out)


class LoopRunner:
    """Runs programs for one agent: started on the event loop's thread, awaited through the
    agent's crossing, so that stopping the agent ends the program first.

    With `closing`, it runs programs after the stop, within so many seconds each: for the last
    commit of an agent's work. Raises `Stopped` when they run out.
    """

    def __init__(self, crossing: Crossing, closing: float | None = None) -> None:
        self._crossing = crossing
        self._closing = closing

    def run(self, command: Command) -> Completed:
        if self._closing is None:
            return self._crossing.wait(run_on_loop, command)
        completed = self._crossing.finish(self._closing, run_on_loop, command)
        if completed is None:
            raise Stopped
        return completed


async def spawn(command: Command, pipes: Pipes) -> Process:
    """Start a program on the event loop. Raises `ProgramMissing`."""
    with _clear_errors(command):
        process = await anyio.open_process(
            pipes.argv,
            pass_fds=pipes.attached,
            cwd=command.cwd,
            env=dict(command.env),
            stdin=pipes.stdin,
            stdout=pipes.out.writer,
            stderr=pipes.err.writer,
            start_new_session=True,
        )
    pipes.close_writers()
    return process


async def run_on_loop(command: Command) -> Completed:
    """`Runner.run` for code that is on the event loop already."""
    with opened_pipes(command) as pipes:
        process = await spawn(command, pipes)
        timed_out = True
        try:
            async with anyio.create_task_group() as readers:
                for source in pipes.sources:
                    readers.start_soon(read_all, source)
                with anyio.move_on_after(command.timeout):
                    await process.wait()
                    timed_out = False
                await end_group(process.pid)
                status = await process.wait()
                readers.cancel_scope.deadline = anyio.current_time() + DRAIN
        except BaseException:
            with anyio.CancelScope(shield=True):
                await end_group(process.pid)
                await process.wait()
            raise
        return pipes.completed(status, timed_out)


@dataclass
class Pipes:
    """What a program is started with, and the ends to read of its output."""

    argv: list[str]
    attached: tuple[int, ...]
    """The further descriptors that the program gets."""
    stdin: IO[bytes] | int
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
        stdin: IO[bytes] | int = subprocess.DEVNULL
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
            with _clear_errors(command):
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


@contextmanager
def _clear_errors(command: Command) -> Iterator[None]:
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


def signal_group(pid: int, number: int) -> None:
    """Send a signal to a process group, if anything of it is left."""
    # On macOS a group of which only the dead are left is a PermissionError.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


async def end_group(pid: int) -> None:
    """TERM, then KILL for what has not ended within the grace."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        signal_group(pid, number)
        pause = _TICK
        with anyio.move_on_after(GRACE):
            while group_lives(pid):  # which looks at every process of the machine
                await anyio.sleep(pause)
                pause = min(2 * pause, _SLOW_TICK)
            return


async def read_all(source: Output | Gate) -> None:
    """Read until nothing more can come."""
    while True:
        await anyio.wait_readable(source.reader)
        if not source.read():
            return


def _attend(process: subprocess.Popen[bytes], pipes: Pipes, timeout: float) -> bool:
    """See the program to its end; returns whether it was ended for taking too long."""

    def exited() -> bool:
        return process.poll() is not None

    def gone() -> bool:
        return exited() and not group_lives(process.pid)

    with _Readers(process.pid, pipes.sources) as readers:
        timed_out = not readers.pump(timeout, exited)
        for number in (signal.SIGTERM, signal.SIGKILL):
            signal_group(process.pid, number)
            if readers.pump(GRACE, gone, _TICK):
                break
        process.wait()
        readers.pump(DRAIN, lambda: not readers.open)
    return timed_out


def _end_now(process: subprocess.Popen[bytes]) -> None:
    signal_group(process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    signal_group(process.pid, signal.SIGKILL)
    process.wait()


class _Readers:
    """Reads several sources on the calling thread while it waits for something."""

    def __init__(self, pid: int, sources: list[Output | Gate]) -> None:
        self.open = len(sources)
        self._selector = selectors.DefaultSelector()
        for source in sources:
            self._selector.register(source.reader, selectors.EVENT_READ, source)
        self._exit = _exit_descriptor(pid)
        if self._exit is not None:
            self._selector.register(self._exit, selectors.EVENT_READ)

    def __enter__(self) -> _Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        if self._exit is not None:
            os.close(self._exit)

    def pump(self, seconds: float, until: Callable[[], bool], tick: float | None = None) -> bool:
        """Read until `until()` holds, for at most `seconds`; returns whether it held."""
        deadline = _monotonic() + seconds
        tick = _TICK if self._exit is None else tick
        while not until():
            left = deadline - _monotonic()
            if left <= 0:
                return False
            for key, _ in self._selector.select(left if tick is None else min(left, tick)):
                if key.data is None:
                    self._selector.unregister(key.fileobj)
                elif not key.data.read():
                    self._selector.unregister(key.fileobj)
                    self.open -= 1
        return True


def _exit_descriptor(pid: int) -> int | None:
    """A descriptor that becomes readable when `pid` exits, where the system has such a thing."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
