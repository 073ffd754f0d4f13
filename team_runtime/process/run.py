"""Starting programs and ending everything they started: the only code that does it.

Both runners do the same, and one contract suite holds them to it. They do not wait for the end of
the output: a grandchild may hold the pipe for ever. They wait for the program, end what it left in
its process group, and then read for a moment what is still on its way.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
from collections.abc import Callable
from typing import Final

import anyio
from anyio.abc import Process

from team_runtime.clock import SystemClock
from team_runtime.crossing import Crossing, Stopped
from team_runtime.process.base import Command, Completed
from team_runtime.process.gate import Gate
from team_runtime.process.output import Output
from team_runtime.process.pipes import Pipes, clear_errors, opened_pipes, read_all
from team_runtime.process.usage import group_lives

GRACE: Final = 1.0
"""Seconds between TERM and KILL."""
DRAIN: Final = 0.2
"""Seconds in which others may still write to a program's output once it has ended."""
_TICK: Final = 0.01
_SLOW_TICK: Final = 0.1
_monotonic: Final = SystemClock().monotonic


class BlockingRunner:
    """Runs programs from plain threads: for the library and the command line."""

    def run(self, command: Command) -> Completed:
        with opened_pipes(command) as pipes:
            with clear_errors(command):
                process = subprocess.Popen(
                    pipes.argv,
                    pass_fds=pipes.attached,
                    cwd=command.cwd,
                    env=dict(command.env),
                    stdin=pipes.stdin or subprocess.DEVNULL,
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
    with clear_errors(command):
        process = await anyio.open_process(
            pipes.argv,
            pass_fds=pipes.attached,
            cwd=command.cwd,
            env=dict(command.env),
            stdin=pipes.stdin or subprocess.DEVNULL,
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
            pipes.read_rest()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await end_group(process.pid)
                await process.wait()
            raise
        return pipes.completed(status, timed_out)


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
    pipes.read_rest()
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
