"""File events, as hints: they may come late, twice or never, so nothing may rely on them."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from team_runtime.store.coverage import is_covered

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver


class Watch:
    """A running watch. `active` is false when the system gave none; then only polling helps."""

    def __init__(self, observer: BaseObserver | None) -> None:
        self._observer = observer

    @property
    def active(self) -> bool:
        """Whether events come, also of folders that were there from the beginning."""
        observer = self._observer
        if observer is None or not observer.is_alive():
            return False
        return all(emitter.is_alive() for emitter in tuple(observer.emitters))

    def covers(self, folders: Iterable[Path]) -> bool:
        """Whether every change in these folders is sure to be told, as far as the system says."""
        return self.active and is_covered(folders)

    def close(self) -> None:
        """End the watch and wait for its thread."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join()


def watch(
    paths: Sequence[Path],
    on_change: Callable[[Path], None],
    later: Path | None = None,
    on_folders: Callable[[], None] | None = None,
    above: Sequence[Path] = (),
) -> Watch:
    """Call `on_change` with each path that changes in or under `paths`, on the watch's thread, and
    `on_folders` when a folder is made, moved or removed in or under `paths`, or in one of those
    `above` that can be read.

    The folder `later` may be missing: it is watched from when it appears, and what is in it by
    then counts as changed.
    """
    from watchdog import events
    from watchdog.observers import Observer

    changes: list[type[FileSystemEvent]] = [
        events.FileCreatedEvent,
        events.FileModifiedEvent,
        events.FileMovedEvent,
        events.FileDeletedEvent,
    ]
    moves: list[type[FileSystemEvent]] = [
        events.DirCreatedEvent,
        events.DirMovedEvent,
        events.DirDeletedEvent,
    ]
    told = changes if on_folders is None else changes + moves
    aside = {path for path in above if os.access(path, os.R_OK)}
    if later is not None and not later.is_dir():
        aside.add(later.parent)

    class Handler(events.FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            path = Path(os.fsdecode(event.dest_path or event.src_path))
            if not event.is_directory:
                on_change(path)
                return
            if on_folders is not None:
                on_folders()
            if path == later and observer is not None:
                with suppress(OSError):  # gone again, or no watch left
                    begin(observer, path)
                    for found in path.iterdir():
                        on_change(found)

    handler = Handler()

    def begin(observer: BaseObserver, folder: Path) -> None:
        observer.schedule(handler, str(folder), recursive=True, event_filter=told)

    # It says so of every folder that is made together with one below it, and nothing is lost.
    warnings.filterwarnings("ignore", r"Callback with id '\d+' already exists", RuntimeWarning)
    # It tells of events that come while it is closed, which would go to stderr.
    if not (logger := logging.getLogger("watchdog")).handlers:
        logger.addHandler(logging.NullHandler())
    observer: BaseObserver | None = None
    try:
        observer = Observer()
        for path in paths:
            begin(observer, path)
        for path in aside:
            observer.schedule(handler, str(path), event_filter=moves)
        observer.start()
        if later is not None and later.is_dir():
            begin(observer, later)
    except OSError:  # no inotify instance or watch left, or nothing to watch there
        if observer is not None:
            observer.stop()  # it has a thread and descriptors already
        return Watch(None)
    return Watch(observer)
