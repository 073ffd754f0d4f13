"""What a process can set about itself, where the system is Linux."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

DUMPABLE: Final = 4
"""Whether processes of the same user may look into this one."""
THREAD_NAME: Final = 15
"""What the system calls the calling thread, in at most 15 bytes."""
CHILD_SUBREAPER: Final = 36
"""Whether what its descendants leave behind becomes its own children."""


_PROCESSES: Final = 0x9FA0
"""The kind of file system that describes processes."""


def control(option: int, value: int | bytes) -> bool:
    """Set it with `prctl`; returns whether the system did."""
    if sys.platform != "linux":
        return False
    import ctypes

    given = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    unused = [ctypes.c_ulong(0)] * 3
    return bool(ctypes.CDLL(None).prctl(option, given, *unused) == 0)


def describes_processes(folder: Path) -> bool:
    """Whether the kernel itself answers in `folder`, and no other file system in its place."""
    import ctypes

    found = (ctypes.c_long * 32)()  # begins with the kind; longer than any there is
    done = ctypes.CDLL(None).statfs(os.fsencode(folder), found)
    return bool(done == 0 and found[0] == _PROCESSES)
