"""The output of a program on disk, within a limit: its head and its tail.

It lies in a folder of plain files, each named by the place of its first byte in the whole output,
so that other processes read it while it grows, and nothing more must be known after a crash. What
is missing between two files was dropped.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PARTS: Final = 8
"""How many files there are at most; half of them hold the head."""
_NAME: Final = re.compile(r"(\d{15})\.out")


class Spool:
    """Writes one program's output. Writing never fails: what the disk does not take is dropped."""

    def __init__(
        self, folder: Path, limit: int, clean: Callable[[bytes], bytes] = lambda data: data
    ) -> None:
        """`folder` is there and empty; `limit` is in bytes. `clean` takes out what must not be
        recorded."""
        self._folder = folder
        self._clean = clean
        self._part_limit = max(1, limit // PARTS)
        self._parts: list[Path] = []
        self._descriptor: int | None = None
        self._room = 0
        self.size = 0
        """Bytes that the program has written."""

    @property
    def full(self) -> bool:
        """Whether the head is complete, so that something will be dropped."""
        return self.size >= self._part_limit * (PARTS // 2)

    def write(self, data: bytes) -> None:
        view = memoryview(self._clean(data))
        while view:
            taken = self._write_part(view)
            if not taken:
                self.skip(len(view))
                return
            self.size += taken
            self._room -= taken
            view = view[taken:]

    def skip(self, count: int) -> None:
        """So many bytes are missing here."""
        self.close()
        self.size += count

    def close(self) -> None:
        """Nothing more is written for now. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def _write_part(self, view: memoryview) -> int:
        """How many bytes the current file took; 0 when the disk takes none."""
        try:
            if self._descriptor is None or self._room == 0:
                self._descriptor = self._next_part()
            return os.write(self._descriptor, view[: self._room])
        except OSError:
            self._drop_empty()
            return 0

    def _drop_empty(self) -> None:
        self.close()
        if self._parts and self._room == self._part_limit:
            with contextlib.suppress(OSError):
                self._parts.pop().unlink()
            self._room = 0

    def _next_part(self) -> int:
        self.close()
        if len(self._parts) >= PARTS:
            self._parts.pop(PARTS // 2).unlink(missing_ok=True)
        path = self._folder / f"{self.size:015d}.out"
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, 0o600)
        self._parts.append(path)
        self._room = self._part_limit
        return descriptor


@dataclass(frozen=True)
class Stretch:
    """Some of the output, without a gap."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def read_spool(folder: Path, start: int, end: int) -> list[Stretch]:
    """What was kept between two places; what is missing was dropped. A file that is dropped in
    this moment counts as dropped."""
    found: list[Stretch] = []
    for begin, path in _parts(folder):
        place = max(start, begin)
        if place >= end:
            break
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            file.seek(place - begin)
            data = file.read(end - place)
            if data:
                found.append(Stretch(place, data))
    return found


def next_kept(folder: Path, start: int) -> int:
    """The first place from `start` on of which something was kept; `start` when nothing was."""
    for begin, path in _parts(folder):
        with contextlib.suppress(FileNotFoundError):
            if begin + path.stat().st_size > start:
                return max(start, begin)
    return start


def end_of_spool(folder: Path) -> int:
    """Bytes that were written so far, with those that were dropped before the last ones kept."""
    for begin, path in reversed(_parts(folder)):
        with contextlib.suppress(FileNotFoundError):
            return begin + path.stat().st_size
    return 0


def kept_in(folder: Path) -> int:
    """Bytes that the output takes on disk."""
    total = 0
    for _, path in _parts(folder):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def joined(
    stretches: Sequence[Stretch], start: int, end: int, gap: Callable[[int], bytes]
) -> bytes:
    """The output between two places, with `gap(n)` where n bytes are missing."""
    return b"".join(_joined(stretches, start, end, gap))


def _joined(
    stretches: Sequence[Stretch], start: int, end: int, gap: Callable[[int], bytes]
) -> Iterator[bytes]:
    place = start
    for stretch in stretches:
        if stretch.start > place:
            yield gap(stretch.start - place)
        yield stretch.data
        place = stretch.end
    if place < end:
        yield gap(end - place)


def _parts(folder: Path) -> list[tuple[int, Path]]:
    try:
        paths = sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    return [(int(match[1]), path) for path in paths if (match := _NAME.fullmatch(path.name))]
