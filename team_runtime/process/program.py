"""A program that runs on the event loop by itself, whoever waits for it or stops waiting.

What it started ends with it: its process group, and what left the group but still carries the
command's mark. In a process namespace of its own the kernel has seen to that already.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

import anyio
from anyio import to_thread
from anyio.abc import Process, TaskGroup

from team_runtime.clock import SystemClock
from team_runtime.process.base import Command, Completed
from team_runtime.process.orphans import COMMAND_MARK, ask_to_end, end_command
from team_runtime.process.output import Sink
from team_runtime.process.pipes import Pipes, opened_pipes, read_all
from team_runtime.process.run import DRAIN, GRACE, end_group, signal_group, spawn
from team_runtime.process.usage import User, in_group

T = TypeVar("T")
_SHORT: Final = 1.0
"""Seconds."""
_monotonic: Final = SystemClock().monotonic
_FLOOD_PAUSE: Final = 0.002
"""Seconds between two reads of output that is mostly dropped, so that it costs little."""


def marked(command: Command, mark: str) -> Command:
    """`command` with the mark by which everything that it starts is known."""
    return replace(command, env={**command.env, COMMAND_MARK: mark})


class Program:
    """A running command. Use it on the loop's thread."""

    def __init__(self, process: Process, pipes: Pipes, mark: str) -> None:
        self._process = process
        self._pipes = pipes
        self._mark = mark
        self._began = _monotonic()
        self._status = 0
        self.survivors: list[User] = []
        """What it had started and left running when it ended; this was ended too."""
        self.over = anyio.Event()
        """Set when it has ended, with all that it started, and its output has been read."""

    @classmethod
    async def start(cls, command: Command, mark: str, group: TaskGroup) -> Program:
        """Start `command`, which was given `mark`; it is attended in `group`. Raises
        `ProgramMissing`. It is started or not when this is cancelled, never half."""
        with anyio.CancelScope(shield=True), contextlib.ExitStack() as stack:
            pipes = stack.enter_context(opened_pipes(command))
            program = cls(await spawn(command, pipes), pipes, mark)
            group.start_soon(program._attend, stack.pop_all())
        return program

    def completed(self, timed_out: bool = False) -> Completed:
        """How it ended, with the output that was not given to a sink."""
        return self._pipes.completed(self._status, timed_out)

    @property
    def status(self) -> int:
        """The exit status; negative for a signal."""
        return self._status

    @property
    def fault(self) -> str:
        """Why it was ended before it began; empty if it was not."""
        return self._pipes.gate.fault if self._pipes.gate is not None else ""

    def so_far(self) -> bytes:
        """The output that is held in memory now."""
        return self._pipes.out.kept()

    def divert(self, sink: Sink) -> None:
        """Give the output so far to `sink`, and all that is still to come."""
        self._pipes.out.divert(sink)

    async def end(self) -> None:
        """End it and everything that it started, and wait until that is done. All of it gets TERM,
        and KILL when that does not end it within the grace."""
        pid = self._process.pid
        if not self.over.is_set() and not await self._on_thread(ask_to_end):
            signal_group(pid, signal.SIGTERM)
        with anyio.move_on_after(GRACE):
            await self.over.wait()
        if not self.over.is_set():
            signal_group(pid, signal.SIGKILL)
            await self.over.wait()

    async def _attend(self, stack: contextlib.ExitStack) -> None:
        pid = self._process.pid
        try:
            with stack:
                async with anyio.create_task_group() as readers:
                    readers.start_soon(self._read_output)
                    if self._pipes.gate is not None:
                        readers.start_soon(read_all, self._pipes.gate)
                    self._status = await self._process.wait()
                    left = in_group(pid)
                    await end_group(pid)
                    left += await self._on_thread(self._end_escaped)
                    self.survivors = list({user.pid: user for user in left}.values())
                    readers.cancel_scope.deadline = anyio.current_time() + DRAIN
                self._pipes.read_rest()
        except BaseException:
            with anyio.CancelScope(shield=True):
                await end_group(pid)
                self._status = await self._process.wait()
            raise
        finally:
            self.over.set()

    def _end_escaped(self, mark: str) -> list[User]:
        # The system counts its processes up: in so short a time it has not begun anew, and most of
        # them need not be looked at.
        is_short = _monotonic() - self._began < _SHORT
        return end_command(mark, after=self._process.pid if is_short else 0)

    async def _on_thread(self, call: Callable[[str], T]) -> T:
        # A limiter of its own: the default one may be held by threads that wait for this.
        return await to_thread.run_sync(call, self._mark, limiter=anyio.CapacityLimiter(1))

    async def _read_output(self) -> None:
        output = self._pipes.out
        while True:
            await anyio.wait_readable(output.reader)
            if not output.read():
                return
            if output.flooded():
                await anyio.sleep(_FLOOD_PAUSE)
