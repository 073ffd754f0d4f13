"""The way between an agent's thread and the event loop."""

from __future__ import annotations

import threading

import anyio
import pytest
from anyio import to_thread

from team_runtime.crossing import Bell, Crossing, Stopped


def test_ringing_never_waits_for_the_loop() -> None:
    """The loop may be waiting for the very thread that rings, as when it ends a watch."""

    async def main() -> bool:
        bell = Bell()
        ringer = threading.Thread(target=bell.ring)
        ringer.start()
        ringer.join(10)
        assert not ringer.is_alive()
        return await bell.wait(10)

    assert anyio.run(main)


def test_a_ring_before_the_wait_is_kept_and_counts_once() -> None:
    async def main() -> tuple[bool, bool]:
        bell = Bell()
        bell.ring()
        bell.ring()
        return await bell.wait(10), await bell.wait(0.01)

    assert anyio.run(main) == (True, False)


def test_a_ring_after_the_loop_has_ended_does_nothing() -> None:
    async def main() -> Bell:
        return Bell()

    anyio.run(main).ring()


def test_a_stop_ends_waits_and_refuses_later_ones_but_not_the_finish() -> None:
    crossing = Crossing()
    seen: list[str] = []

    began: list[anyio.Event] = []

    async def forever() -> None:
        began[0].set()
        await anyio.sleep_forever()

    async def last(word: str) -> str:
        return word

    def agent() -> None:
        with pytest.raises(Stopped):
            crossing.wait(forever)
        with pytest.raises(Stopped):
            crossing.wait(forever)
        seen.append(crossing.finish(10, last, "released") or "")

    async def main() -> None:
        began.append(anyio.Event())
        async with anyio.create_task_group() as group:
            group.start_soon(to_thread.run_sync, agent)
            await began[0].wait()
            crossing.stop()

    anyio.run(main)
    assert seen == ["released"]
