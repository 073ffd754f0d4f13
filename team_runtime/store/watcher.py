"""File events, as hints: they may come late, twice or never, so nothing may rely on them."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.api import BaseObserver


class Watch:
    """A running watch. `active` is false when the system gave none; then only polling helps."""

    def __init__(self, observer: BaseObserver | None) -> None:
        self._observer = observer

    @property
    def active(self) -> bool:
        return self._observer is not None

    def close(self) -> None:
        """End the watch and wait for its thread."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.stop()
            observer.join()


def watch(
    paths: Sequence[Path], on_change: Callable[[Path], None], later: Path | None = None
) -> Watch:
    """Call `on_change` with each path that changes in or under `paths`, on the watch's thread.

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
    appearances: list[type[FileSystemEvent]] = [events.DirCreatedEvent, events.DirMovedEvent]

    class Handler(events.FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            path = Path(os.fsdecode(event.dest_path or event.src_path))
            if not event.is_directory:
                on_change(path)
            elif path == later and observer is not None:
                with suppress(OSError):  # gone again, or no watch left
                    begin(observer, path)
                    for found in path.iterdir():
                        on_change(found)

    handler = Handler()

    def begin(observer: BaseObserver, folder: Path) -> None:
        observer.schedule(handler, str(folder), recursive=True, event_filter=changes)

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
        if later is not None and not later.is_dir():
            observer.schedule(handler, str(later.parent), event_filter=appearances)
        observer.start()
        if later is not None and later.is_dir():
            begin(observer, later)
    except OSError:  # no inotify instance or watch left, or nothing to watch there
        if observer is not None:
            observer.stop()  # it has a thread and descriptors already
        return Watch(None)
    return Watch(observer)
