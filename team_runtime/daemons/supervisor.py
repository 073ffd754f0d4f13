"""Daemons: coroutines beside the agents, watched, restarted when they fail, and never missing in
silence.

One that fails more often than the limit allows fails upward: whoever hosts it is told, and decides
what that ends.
"""

from __future__ import annotations

import enum
import traceback
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio import to_thread

from team_runtime.clock import Clock
from team_runtime.errors import DaemonFailed, Held
from team_runtime.events import Emit
from team_runtime.store.locks import Hold

RESTARTS: Final = 3
WITHIN_SECONDS: Final = 5.0
"""A daemon may be restarted `RESTARTS` times in this time; the next fault is its last."""
STANDBY_SECONDS: Final = 1.0
"""Between two looks at whether the process that has a daemon's lock has died."""


class DaemonState(enum.Enum):
    """What a daemon is doing."""

    STANDBY = "standby"
    """Another process of the workspace runs it."""
    RUNNING = "running"
    RESTARTING = "restarting"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass
class _Daemon:
    name: str
    run: Callable[[], Awaitable[None]]
    hold: Callable[[], Hold] | None
    state: DaemonState | None = None
    faults: deque[float] = field(default_factory=deque)
    """When it failed, by the monotonic clock, within the time that counts."""


class Supervisor:
    """The daemons of one run. Its methods are called on the loop."""

    def __init__(
        self, clock: Clock, emit: Emit, on_failure: Callable[[DaemonFailed], None]
    ) -> None:
        """`on_failure` is told when a daemon is given up; the others go on until `run` is
        cancelled."""
        self._clock = clock
        self._emit = emit
        self._on_failure = on_failure
        self._daemons: list[_Daemon] = []

    def add(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        hold: Callable[[], Hold] | None = None,
    ) -> None:
        """A daemon for `run`. With a `hold` only the process that has that lock runs it, and
        another takes over when it dies; `hold` is called on a worker thread and raises `Held`."""
        self._daemons.append(_Daemon(name, run, hold))

    def states(self) -> dict[str, DaemonState | None]:
        """What each daemon is doing; `None` before it was started."""
        return {daemon.name: daemon.state for daemon in self._daemons}

    async def run(self) -> None:
        """Keep all daemons going until cancelled, or until each has stopped by itself."""
        async with anyio.create_task_group() as group:
            for daemon in self._daemons:
                group.start_soon(self._supervise, daemon)

    async def _supervise(self, daemon: _Daemon) -> None:
        hold = await self._chosen(daemon)
        try:
            while not await self._has_ended(daemon):
                self._change(daemon, DaemonState.RESTARTING)
        finally:
            if hold is not None:
                hold.release()

    async def _chosen(self, daemon: _Daemon) -> Hold | None:
        """Wait until this process is the one that runs it."""
        while daemon.hold is not None:
            try:
                return await to_thread.run_sync(daemon.hold)
            except Held as held:
                self._change(daemon, DaemonState.STANDBY, f"process {held.pid} runs it")
            await anyio.sleep(STANDBY_SECONDS)
        return None

    async def _has_ended(self, daemon: _Daemon) -> bool:
        """Run it once; `False` when it failed and may be started again."""
        self._change(daemon, DaemonState.RUNNING)
        try:
            await daemon.run()
        except Exception as error:
            self._emit("notice", text=f"daemon {daemon.name}: {traceback.format_exc()}")
            return self._is_given_up(daemon, str(error) or repr(error))
        self._change(daemon, DaemonState.STOPPED)
        return True

    def _is_given_up(self, daemon: _Daemon, cause: str) -> bool:
        now = self._clock.monotonic()
        daemon.faults.append(now)
        while daemon.faults[0] < now - WITHIN_SECONDS:
            daemon.faults.popleft()
        if len(daemon.faults) <= RESTARTS:
            return False
        self._change(daemon, DaemonState.FAILED, cause)
        self._on_failure(DaemonFailed(daemon.name, len(daemon.faults), cause))
        return True

    def _change(self, daemon: _Daemon, state: DaemonState, cause: str | None = None) -> None:
        if daemon.state is not state:
            daemon.state = state
            self._emit("daemon_state", daemon=daemon.name, state=state.value, cause=cause)
