"""Changes are found without file events."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import pytest

from team_runtime.daemons import folders
from team_runtime.daemons.folders import look_again


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(folders, "BLIND_SECONDS", 0.01)


@pytest.fixture
def boxes(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("a", "b")]
    for folder in found:
        folder.mkdir()
    return found


def first_change(of: Callable[[], Iterator[Path]], told: bool, change: Callable[[], None]) -> Path:
    """The folder that is told of first. It changes once everything was looked at."""
    looked = 0

    def looking() -> Iterator[Path]:
        nonlocal looked
        looked += 1
        if looked == 3:
            change()
        yield from of()

    async def run() -> Path:
        send, receive = anyio.create_memory_object_stream[Path](100)
        async with send, receive, anyio.create_task_group() as group:
            group.start_soon(look_again, looking, send.send_nowait, told)
            with anyio.fail_after(20):
                seen = await receive.receive()
            group.cancel_scope.cancel()
        return seen

    return anyio.run(run)


def test_only_the_folder_that_changed(boxes: list[Path]) -> None:
    seen = first_change(lambda: iter(boxes), True, (boxes[1] / "file").touch)
    assert seen == boxes[1]


def test_a_folder_that_is_new_and_one_that_is_gone(boxes: list[Path], tmp_path: Path) -> None:
    boxes[0].rmdir()
    assert first_change(lambda: iter(boxes), True, boxes[0].mkdir) == boxes[0]


def test_without_file_events_every_folder_may_have_changed(boxes: list[Path]) -> None:
    assert first_change(lambda: iter(boxes), False, lambda: None) == boxes[0]
