"""The way from an agent's thread to the event loop, and the bells that wake a waiting agent.

`from_thread.run` is interrupted by a cancel that comes while it waits, but a wait begun after the
cancel is not, and checking first leaves a window. So the stopped flag is read on the loop thread,
inside a cancel scope that the agent owns.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import from_thread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stopped(BaseException):
    """The agent was told to stop. Not an `Exception`: no tool may swallow it."""


class Crossing:
    """One agent's way over: `wait` and `finish` from worker threads, `stop` on the loop."""

    def __init__(self) -> None:
        self._stopped = False
        self._scopes: set[anyio.CancelScope] = set()

    def wait(self, func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
        """Run `func(*args)` on the loop and return its result.

        Raises `Stopped` when the agent was stopped before or while it waited.
        """
        return from_thread.run(self._guarded, func, args)

    def finish(self, seconds: float, func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T | None:
        """Like `wait`, but also after a stop, shielded, for at most `seconds`; `None` when they
        ran out. For release, snapshot and final status only."""
        return from_thread.run(self._shielded, seconds, func, args)

    def stop(self) -> None:
        """End every wait of this agent and refuse later ones. Call on the loop thread."""
        self._stopped = True
        for scope in self._scopes:
            scope.cancel()

    async def _guarded(self, func: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]) -> T:
        if self._stopped:
            raise Stopped
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await func(*args)
            finally:
                self._scopes.discard(scope)
        raise Stopped

    async def _shielded(
        self, seconds: float, func: Callable[[*Ts], Awaitable[T]], args: tuple[*Ts]
    ) -> T | None:
        with anyio.move_on_after(seconds, shield=True):
            return await func(*args)
        return None


class Bell:
    """Wakes one waiting coroutine from any thread. A ring before the wait is kept, never lost.

    Ringing never waits for the loop: whoever rings may be a thread that the loop is waiting for.
    """

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._loop = asyncio.get_running_loop()

    def ring(self) -> None:
        """Wake the waiter, from any thread. Does nothing once the loop is gone."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._event.set()

    async def wait(self, seconds: float) -> bool:
        """Wait until rung or `seconds` have passed; returns whether it was rung."""
        with anyio.move_on_after(seconds):
            await self._event.wait()
        rung = self._event.is_set()
        self._event = anyio.Event()
        return rung
