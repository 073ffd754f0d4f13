"""Whether every change in a folder is told, so that nobody has to look for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from team_runtime.store.watcher import Watch, watch


class Ear:
    """Hears what changes in a folder, and that one of those above was moved or removed. Unsure
    until something has been looked at."""

    def __init__(self, folder: Path, above: Sequence[Path], on_change: Callable[[], None]) -> None:
        """`on_change` is called from any thread."""
        self._folder = folder
        self._above = above
        self._on_change = on_change
        self._watch = Watch(None)
        self._has_heard = False
        self.is_sure = False
        """Whether every change since the last look is told."""

    def hear(self, path: Path | None = None) -> None:
        """Something has changed."""
        self._has_heard = True
        self._on_change()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Hear, until the context ends."""
        self._watch = watch([self._folder], self.hear, on_folders=self.hear, above=self._above)
        try:
            yield
        finally:
            self._watch.close()

    @contextmanager
    def looking(self) -> Iterator[None]:
        """A look at the folder. It is no sure one after a change: behind it others may be lost."""
        heard, self._has_heard, self.is_sure = self._has_heard, False, False
        yield
        self.is_sure = not heard and self._watch.covers([self._folder, *self._above])
