"""Output of a program, read as it comes and kept within bounds: the head and the tail."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import Final, Protocol

CHUNK: Final = 1 << 16
_FLOOD: Final = 1 << 18
"""Bytes read at once, and the size of the pipe, while most of what comes is not kept anyway."""


class Sink(Protocol):
    """Where output goes that is not held in memory. Never blocks, never raises."""

    def write(self, data: bytes) -> None: ...

    def skip(self, count: int) -> None:
        """So many bytes are missing here."""
        ...

    @property
    def full(self) -> bool:
        """Whether something is dropped from now on."""
        ...


class Output:
    """The reading end of one pipe. At most about `keep` bytes are held, whatever is written."""

    def __init__(self, keep: int) -> None:
        self._head_limit = keep - keep // 4
        self._tail_limit = keep // 4
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self._sink: Sink | None = None
        self._flooded = False
        self.closed = False
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def read(self) -> bool:
        """Take what is there; returns whether more may come. Never blocks."""
        try:
            chunk = os.read(self.reader, _FLOOD if self._flooded else CHUNK)
        except BlockingIOError:
            return True
        self._add(chunk)
        return bool(chunk)

    def flooded(self) -> bool:
        """Whether so much came that only the end of the rest is kept: there is no hurry then."""
        full = self._total > self._head_limit if self._sink is None else self._sink.full
        if full and not self._flooded:
            self._flooded = True
            with suppress(AttributeError, OSError):
                fcntl.fcntl(self.reader, fcntl.F_SETPIPE_SZ, _FLOOD)
        return full

    def divert(self, sink: Sink) -> None:
        """Give what was kept to `sink`, and all that is still to come."""
        sink.write(bytes(self._head))
        if self.dropped:
            sink.skip(self.dropped)
        sink.write(bytes(self._tail[max(0, len(self._tail) - self._tail_limit) :]))
        self._head, self._tail = bytearray(), bytearray()
        self._sink = sink

    def _add(self, chunk: bytes) -> None:
        if self._sink is not None:
            self._sink.write(chunk)
            return
        self._total += len(chunk)
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit + CHUNK:
            del self._tail[: len(self._tail) - self._tail_limit]

    @property
    def dropped(self) -> int:
        """Bytes that were read and not kept."""
        return max(0, self._total - self._head_limit - self._tail_limit)

    def kept(self) -> bytes:
        """What was kept; a line in the middle says how much is missing, if anything is."""
        tail = self._tail[max(0, len(self._tail) - self._tail_limit) :]
        gap = f"\n… [{self.dropped} bytes left out] …\n".encode() if self.dropped else b""
        return bytes(self._head) + gap + bytes(tail)

    def close_writer(self) -> None:
        """Our copy of the writing end, once the program has its own."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Give both ends back. Idempotent."""
        self.close_writer()
        if not self.closed:
            self.closed = True
            os.close(self.reader)
