"""What signals do to a run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from team_runtime.crossing import Crossing
from team_runtime.team.team import Team

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """The first signal lets every turn end, within `patience` seconds; the second ends all waits;
    the third leaves at once, and recovery is then the same as after `kill -9`.

    They are also heard before there is a team, and while it is taken apart.
    """

    def __init__(self, leave: Callable[[], None], patience: float) -> None:
        self._leave = leave
        self._patience = patience
        self._team: Team | None = None
        self.before = Crossing()
        """For what is done before there is a team; it ends as agents do."""
        self.seen = 0
        self._acted_on = 0

    async def watch(self, *, task_status: TaskStatus[None]) -> None:
        """Receive signals until cancelled. Those that this process was told to ignore, as by
        `nohup`, stay ignored; whoever heard the others before hears them again afterwards."""
        before = {each: signal.getsignal(each) for each in SIGNALS}
        heard = [each for each in SIGNALS if before[each] is not signal.SIG_IGN]
        with _restoring(before), anyio.open_signal_receiver(*heard) as received:
            for each in heard:  # the receiver's own handlers lose what comes as it ends
                signal.signal(each, self._hear)
            task_status.started()
            async with anyio.create_task_group() as group:
                async for _ in received:
                    while self._acted_on < self.seen:
                        self._acted_on += 1
                        self._act(group)

    def _hear(self, number: int, frame: object) -> None:
        self.seen += 1

    def _act(self, group: TaskGroup) -> None:
        if self._acted_on == 1:
            group.start_soon(self._drain)
        elif self._acted_on == 2:
            self._say("stopping now; press Ctrl-C again to leave everything as it is")
            self._force()
        else:
            self._leave()

    def attach(self, team: Team) -> None:
        """From now on signals stop `team`, also those that came before."""
        self._team = team
        if self.seen >= 1:
            team.stopping.ask_all("the run was interrupted")
        if self.seen >= 2:
            self._force()

    def _say(self, text: str) -> None:
        if self._team is not None:
            self._team.parts.emit("notice", text=text)

    async def _drain(self) -> None:
        self._say("finishing the current turns; press Ctrl-C again to stop now")
        if self._team is not None:
            self._team.stopping.ask_all("the run was interrupted")
        await anyio.sleep(self._patience)
        self._force()

    def _force(self) -> None:
        self.before.stop()
        if self._team is not None:
            self._team.stopping.force_all()


@contextmanager
def _restoring(handlers: Mapping[signal.Signals, Any]) -> Iterator[None]:
    """The event loop leaves the default behind, which would end a process that serves on."""
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
