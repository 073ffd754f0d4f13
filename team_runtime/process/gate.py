"""The limits of a process that a program makes and holds back until they are set.

The kernel counts processes for each user namespace, so the limit on them has to be set once the
process is in its own. To start one more program inside for that costs more than to do it from here.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Mapping
from typing import Final

_PROCESS: Final = re.compile(rb'"child-pid"\s*:\s*(\d+)\D')
_REPORT: Final = 4096
"""Bytes, more than any report has."""


class Gate:
    """The program says which process it has made, and that process waits. It is let through when
    it has its limits, and in no other case."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        """Raises `OSError` when there is no descriptor left."""
        self._limits = limits
        self._reported = b""
        self.fault = ""
        """Why the process was ended instead of let through."""
        self._passage = _passage()
        try:
            self.reader, self._writer = os.pipe()
        except OSError:
            os.close(self._passage)
            raise
        os.set_blocking(self.reader, False)

    @property
    def descriptors(self) -> tuple[int, int]:
        """Where the program reports, and where its process waits."""
        return self._writer, self._passage

    def read(self) -> bool:
        """Take what is reported; returns whether more may come. Never blocks."""
        try:
            chunk = os.read(self.reader, _REPORT)
        except BlockingIOError:
            return True
        self._reported += chunk
        found = _PROCESS.search(self._reported)
        if found is None:
            return bool(chunk)
        self._let_through(int(found[1]))
        return False

    def _let_through(self, pid: int) -> None:
        import resource

        try:
            for name, value in self._limits.items():
                resource.prlimit(pid, getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
        except ProcessLookupError:
            return  # it has failed before, and says why itself
        except (OSError, ValueError) as error:
            self.fault = f"its limits cannot be set ({error})"
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            return
        os.write(self._passage, b"x")

    def close_writer(self) -> None:
        """Our copy of the program's end."""
        if self._writer >= 0:
            os.close(self._writer)
            self._writer = -1

    def close(self) -> None:
        """Give everything back. Who waits still is not let through."""
        self.close_writer()
        os.close(self.reader)
        os.close(self._passage)


def _passage() -> int:
    """One descriptor to read and to write: who waits at it has it open for writing, and so sees no
    end of the pipe, which would let it through, when this process dies."""
    ends = os.pipe()
    try:
        return os.open(f"/proc/self/fd/{ends[0]}", os.O_RDWR | os.O_CLOEXEC)
    finally:
        for end in ends:
            os.close(end)
