"""Daemons are restarted when they fail, given up loudly, and run by one process of a workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from team_runtime.crossing import Bell
from team_runtime.daemons import supervisor as module
from team_runtime.daemons.supervisor import RESTARTS, WITHIN_SECONDS, DaemonState, Supervisor
from team_runtime.errors import DaemonFailed
from tests.support.clocks import HandClock
from tests.support.state import Events, make_store, program


@dataclass
class Watched:
    """A supervisor and what it told."""

    clock: HandClock
    events: Events
    failures: list[DaemonFailed]
    supervisor: Supervisor

    def states(self) -> list[str]:
        return [fields["state"] for kind, _, fields in self.events.seen if kind == "daemon_state"]


def watched() -> Watched:
    clock, events, failures = HandClock(), Events(), list[DaemonFailed]()
    return Watched(clock, events, failures, Supervisor(clock, events, failures.append))


def failing(times: int, after: Callable[[], Any] = lambda: None) -> Callable[[], Awaitable[None]]:
    """A daemon that fails so often, then ends."""
    left = [times]

    async def run() -> None:
        await anyio.lowlevel.checkpoint()
        after()
        left[0] -= 1
        if left[0] >= 0:
            raise RuntimeError("broken")

    return run


def test_a_daemon_that_fails_is_started_again_and_says_so() -> None:
    seen = watched()
    seen.supervisor.add("cron", failing(RESTARTS))
    anyio.run(seen.supervisor.run)

    assert seen.states() == ["running", *["restarting", "running"] * RESTARTS, "stopped"]
    assert seen.failures == []
    assert seen.supervisor.states() == {"cron": DaemonState.STOPPED}
    assert "RuntimeError: broken" in seen.events.seen[1][2]["text"]


def test_one_that_keeps_failing_is_given_up_and_fails_upward() -> None:
    seen = watched()
    seen.supervisor.add("cron", failing(100))
    anyio.run(seen.supervisor.run)

    assert seen.states()[-1] == "failed"
    assert str(seen.failures.pop()).startswith(
        "The cron daemon failed 4 times in a few seconds and was given up: broken. What it had "
    )
    assert not seen.failures


def test_faults_that_are_far_apart_never_count_together() -> None:
    seen = watched()

    def later() -> None:
        seen.clock.pass_(WITHIN_SECONDS + 0.001)

    seen.supervisor.add("cron", failing(50, later))
    anyio.run(seen.supervisor.run)

    assert seen.states()[-1] == "stopped"
    assert seen.failures == []


def test_a_daemon_that_is_given_up_leaves_the_others_alone() -> None:
    seen = watched()
    other = anyio.Event()

    async def patient() -> None:
        await other.wait()

    seen.supervisor.add("bad", failing(100, lambda: None))
    seen.supervisor.add("good", patient)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(seen.supervisor.run)
            while not seen.failures:
                await anyio.lowlevel.checkpoint()
            other.set()

    anyio.run(main)
    assert seen.supervisor.states() == {"bad": DaemonState.FAILED, "good": DaemonState.STOPPED}


HOLD = """
import sys
from pathlib import Path
from team_runtime.store.files import Store
hold = Store.open(Path(sys.argv[1])).hold("cron", {})
print("held", flush=True)
sys.stdin.readline()
"""


def test_one_process_runs_it_and_another_takes_over_when_that_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STANDBY_SECONDS", 0.01)
    store = make_store(tmp_path)
    other = program(HOLD, tmp_path)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    states = []

    async def main() -> None:
        standing_by, ran = Bell(), anyio.Event()

        def emit(kind: str, agent: str | None = None, **fields: Any) -> None:
            states.append((fields["state"], fields["cause"]))
            standing_by.ring()

        async def run() -> None:
            ran.set()

        supervisor = Supervisor(HandClock(), emit, lambda failure: None)
        supervisor.add("cron", run, lambda: store.hold("cron", {}))
        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(supervisor.run)
                assert await standing_by.wait(20)
                assert not ran.is_set()
                other.kill()

    anyio.run(main)
    other.communicate()
    other_has_it = ("standby", f"process {other.pid} runs it")
    assert states == [other_has_it, ("running", None), ("stopped", None)]
    store.hold("cron", {}).release()
