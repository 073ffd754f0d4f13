"""Output of a program, read as it comes and kept within bounds: the head and the tail."""

from __future__ import annotations

import os
from typing import Final

CHUNK: Final = 1 << 16


class Output:
    """The reading end of one pipe. At most about `keep` bytes are held, whatever is written."""

    def __init__(self, keep: int) -> None:
        self._head_limit = keep - keep // 4
        self._tail_limit = keep // 4
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0
        self.closed = False
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)

    def read(self) -> bool:
        """Take what is there; returns whether more may come. Never blocks."""
        try:
            chunk = os.read(self.reader, CHUNK)
        except BlockingIOError:
            return True
        self._add(chunk)
        return bool(chunk)

    def _add(self, chunk: bytes) -> None:
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
