"""File events arrive, reading causes none, and their absence is no error."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from team_runtime.store.watcher import watch


def test_a_change_below_is_told(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    seen: set[Path] = set()
    told = threading.Event()

    def on_change(path: Path) -> None:
        seen.add(path)
        if path.name == "b":
            told.set()

    watching = watch([tmp_path], on_change)
    assert watching.active
    (tmp_path / "deep" / "a").write_text("x")
    (tmp_path / "deep" / "a").rename(tmp_path / "deep" / "b")
    assert told.wait(10)
    watching.close()
    watching.close()
    assert tmp_path / "deep" / "b" in seen
    assert not watching.active


def test_a_folder_that_appears_later_is_watched_from_then_on(tmp_path: Path) -> None:
    told = {name: threading.Event() for name in ("there", "then")}
    watching = watch([], lambda path: told[path.name].set(), later=tmp_path / "later")
    assert watching.active
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "there").write_text("x")
    (tmp_path / "made").rename(tmp_path / "later")
    assert told["there"].wait(10)
    (tmp_path / "later" / "then").write_text("x")
    assert told["then"].wait(10)
    watching.close()


def test_a_folder_that_may_appear_later_and_is_there_is_watched(tmp_path: Path) -> None:
    told = threading.Event()
    watching = watch([], lambda path: told.set(), later=tmp_path)
    (tmp_path / "file").write_text("x")
    assert told.wait(10)
    watching.close()


def test_a_folder_that_cannot_be_watched_is_no_error(tmp_path: Path) -> None:
    watching = watch([tmp_path / "missing"], lambda path: None)
    assert not watching.active
    watching.close()


@pytest.mark.parametrize("moment", ["__init__", "schedule", "start"])
def test_no_file_events_left_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    from watchdog.observers import Observer

    def refuse(self: object, *given: object, **named: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(Observer, moment, refuse)
    before = threading.active_count()
    assert not watch([tmp_path], lambda path: None).active
    assert threading.active_count() == before


def test_a_folder_is_covered_while_the_kernel_watches_it(tmp_path: Path) -> None:
    box = tmp_path / "mail" / "box"
    box.mkdir(parents=True)
    watching = watch([tmp_path / "mail"], lambda path: None)
    assert watching.covers([box, tmp_path / "mail", box / "not-there"])
    assert not watching.covers([tmp_path])
    watching.close()
    assert not watching.covers([box])


@pytest.mark.parametrize("how", ["replaced", "removed", "removed from above", "moved from above"])
def test_a_folder_that_is_replaced_is_told_and_is_not_covered_any_more(
    tmp_path: Path, how: str
) -> None:
    mail = tmp_path / "team" / "mail"
    mail.mkdir(parents=True)
    told = threading.Event()
    above = [mail.parent, tmp_path, tmp_path / "not-there"]
    watching = watch([mail], lambda path: None, on_folders=told.set, above=above)
    if how == "replaced":
        mail.rename(tmp_path / "old")
    elif how == "moved from above":
        mail.parent.rename(tmp_path / "old")
    else:
        shutil.rmtree(mail if how == "removed" else mail.parent)
    assert told.wait(20)
    mail.mkdir(parents=True)
    assert not watching.covers([mail])
    watching.close()


def test_a_folder_that_is_made_is_told(tmp_path: Path) -> None:
    told = threading.Event()
    watching = watch([tmp_path], lambda path: None, on_folders=told.set)
    (tmp_path / "new").mkdir()
    assert told.wait(20)
    watching.close()


def test_a_watch_that_has_died_is_not_active(tmp_path: Path) -> None:
    watching = watch([tmp_path], lambda path: None)
    assert watching._observer is not None
    for emitter in watching._observer.emitters:
        emitter.stop()
        emitter.join(20)
    assert not watching.active
    watching.close()
