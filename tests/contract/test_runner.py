from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from anyio import from_thread, to_thread

from team_runtime.crossing import Crossing, Stopped
from team_runtime.process.base import Command, Completed, Runner
from team_runtime.process.run import BlockingRunner, LoopRunner
from tests.contract.runner import ENV, RunnerContract, alive
from tests.support.interrupted import eventually


class TestBlockingRunner(RunnerContract):
    @pytest.fixture
    def runner(self) -> Runner:
        return BlockingRunner()

    def test_an_interrupt_ends_the_program_first(self, tmp_path: Path) -> None:
        pid = tmp_path / "pid"

        def interrupt() -> None:
            eventually(lambda: pid.exists() and pid.read_text())
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)

        previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                BlockingRunner().run(
                    Command(["sh", "-c", "echo $$ > pid; sleep 999"], tmp_path, ENV, 60)
                )
        finally:
            interrupting.join()
            signal.signal(signal.SIGALRM, previous)
        assert not alive(int(pid.read_text()))


class ThroughPortal:
    """A `LoopRunner` with its loop on another thread, as an agent's thread sees it."""

    def __init__(self, portal: from_thread.BlockingPortal) -> None:
        self._portal = portal

    def run(self, command: Command) -> Completed:
        async def on_worker() -> Completed:
            return await to_thread.run_sync(LoopRunner(Crossing()).run, command)

        return self._portal.call(on_worker)


class TestLoopRunner(RunnerContract):
    @pytest.fixture
    def runner(self) -> Iterator[Runner]:
        with from_thread.start_blocking_portal() as portal:
            yield ThroughPortal(portal)

    @pytest.mark.parametrize("trap", ["", "trap '' TERM;"])
    def test_a_stopped_agent_leaves_no_program(
        self, tmp_path: Path, trap: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("team_runtime.process.run.GRACE", 0.1)
        fifo = tmp_path / "started"
        os.mkfifo(fifo)
        script = f"{trap} sleep 999 & echo $! > child; echo $$ > pid; echo > started; sleep 999"
        ended: list[str] = []

        def agent(crossing: Crossing) -> None:
            try:
                LoopRunner(crossing).run(Command(["sh", "-c", script], tmp_path, ENV, 60))
            except Stopped:
                ended.extend(
                    name
                    for name in ("pid", "child")
                    if not alive(int((tmp_path / name).read_text()))
                )

        async def main() -> None:
            crossing = Crossing()
            async with anyio.create_task_group() as group:
                group.start_soon(to_thread.run_sync, agent, crossing)
                await to_thread.run_sync(fifo.read_bytes)
                crossing.stop()

        anyio.run(main)
        assert ended == ["pid", "child"]

    def test_closing_runs_programs_after_the_stop(self, tmp_path: Path) -> None:
        def agent(crossing: Crossing) -> bytes:
            with pytest.raises(Stopped):
                LoopRunner(crossing).run(Command(["true"], tmp_path, ENV, 60))
            with pytest.raises(Stopped):
                LoopRunner(crossing, closing=0.2).run(Command(["sleep", "999"], tmp_path, ENV, 60))
            command = Command(["echo", "saved"], tmp_path, ENV, 60)
            return LoopRunner(crossing, closing=30).run(command).stdout

        async def main() -> bytes:
            crossing = Crossing()
            crossing.stop()
            return await to_thread.run_sync(agent, crossing)

        assert anyio.run(main) == b"saved\n"
