"""Changes are found without file events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from team_runtime.crossing import Bell
from team_runtime.daemons import folders
from team_runtime.daemons.folders import Floor


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(folders, "BLIND_SECONDS", 0.01)


@pytest.fixture
def boxes(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("a", "b")]
    for folder in found:
        folder.mkdir()
        (folder / "record").write_text("old")
    return found


@dataclass
class Events:
    """File events as they may be."""

    active: bool = True
    sure: bool = False

    def covers(self, folders: Iterable[Path]) -> bool:
        return self.sure


def first_change(
    of: Callable[[], Iterator[Path]], events: Events, change: Callable[[], None]
) -> Path:
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
            group.start_soon(Floor(looking, send.send_nowait).run, events)
            with anyio.fail_after(20):
                seen = await receive.receive()
            group.cancel_scope.cancel()
        return seen

    return anyio.run(run)


def test_only_the_folder_that_changed(boxes: list[Path]) -> None:
    seen = first_change(lambda: iter(boxes), Events(), (boxes[1] / "file").touch)
    assert seen == boxes[1]


def test_a_file_that_was_edited_in_place(boxes: list[Path]) -> None:
    def edit() -> None:
        with (boxes[1] / "record").open("r+") as record:
            record.write("new, and longer")

    assert first_change(lambda: iter(boxes), Events(), edit) == boxes[1]


def test_an_edit_that_leaves_the_size_alone(boxes: list[Path]) -> None:
    path = boxes[1] / "record"

    def edit() -> None:
        path.write_text("new")
        os.utime(path, ns=(0, 1))

    assert first_change(lambda: iter(boxes), Events(), edit) == boxes[1]


def test_a_folder_that_is_new_and_one_that_is_gone(boxes: list[Path], tmp_path: Path) -> None:
    (boxes[0] / "record").unlink()
    boxes[0].rmdir()
    assert first_change(lambda: iter(boxes), Events(), boxes[0].mkdir) == boxes[0]


def test_without_file_events_every_folder_may_have_changed(boxes: list[Path]) -> None:
    assert first_change(lambda: iter(boxes), Events(active=False), lambda: None) == boxes[0]


def test_events_that_end_are_noticed(boxes: list[Path]) -> None:
    events = Events()

    def end() -> None:
        events.active = False

    assert first_change(lambda: iter(boxes), events, end) == boxes[0]


class Done(Exception):
    """The second look has begun."""


class Pauses:
    """A bell and a sleep that take no time and say how long they would have taken."""

    def __init__(self, rung: bool) -> None:
        self.rung = rung
        self.seconds: list[float] = []

    async def wait(self, seconds: float) -> bool:
        await self.sleep(seconds)
        return self.rung

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.mark.parametrize(
    ("events", "rung", "seconds"),
    [
        pytest.param(Events(sure=True), False, [300], id="all is told, and there was nothing"),
        pytest.param(Events(sure=True), True, [300, 30], id="soon after an event"),
        pytest.param(Events(), False, [30], id="not every change is sure to be told"),
        pytest.param(Events(active=False), False, [5], id="there are no events"),
    ],
)
def test_how_long_it_waits(
    events: Events, rung: bool, seconds: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    pauses, looked = Pauses(rung), 0

    def looking() -> Iterator[Path]:
        nonlocal looked
        looked += 1
        if looked == 2:
            raise Done
        return iter(())

    monkeypatch.setattr(folders, "Bell", lambda: pauses)
    monkeypatch.setattr(anyio, "sleep", pauses.sleep)
    with pytest.raises(Done):
        anyio.run(Floor(looking, lambda folder: None).run, events)
    assert pauses.seconds == seconds


def test_an_event_ends_the_long_wait_because_others_may_be_lost_behind_it(
    boxes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> Path:
        waiting = anyio.Event()
        send, receive = anyio.create_memory_object_stream[Path](100)

        class Ear(Bell):
            async def wait(self, seconds: float) -> bool:
                waiting.set()
                return await super().wait(seconds)

        monkeypatch.setattr(folders, "Bell", Ear)
        floor = Floor(lambda: boxes, send.send_nowait)
        async with send, receive, anyio.create_task_group() as group:
            group.start_soon(floor.run, Events(sure=True))
            with anyio.fail_after(20):
                await waiting.wait()
                (boxes[1] / "unheard").touch()
                floor.hear()
                seen = await receive.receive()
            group.cancel_scope.cancel()
        return seen

    assert anyio.run(run) == boxes[1]
