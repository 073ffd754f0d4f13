"""Keeping what this process was started with from the processes around it.

The system shows a process's first environment to every process of the same user, and to root,
for as long as it lives: `/proc/PID/environ`, `ps e`. What children may not see is wiped there, in
place. Starting anew without it would leave the same and cost every command a second start.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from team_runtime.process.control import DUMPABLE, control
from team_runtime.process.environment import is_secret, scrubbed
from team_runtime.process.usage import User, environment_of, processes, user_of

_KEPT: Final = (
    "TEAM_", "PYTHON", "LD_", "DYLD_", "MALLOC_", "GLIBC_", "RES_", "LOCALDOMAIN", "HOSTALIASES",
    "OPENSSL_", "NSS_", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "BROWSER",
)  # fmt: skip
"""What the runtime leaves for others to see, C libraries look up late, or desktops need."""


def hide_secrets(environ: Mapping[str, str]) -> None:
    """Wipe what children may not see from this process's own environment block, and let no process
    of the same user look into its memory. For a process of ours, before it starts anything.

    `os.environ` keeps all of it: it is a copy. Whatever the system does not offer stays undone.
    """
    control(DUMPABLE, 0)
    kept = scrubbed(environ)
    names = {os.fsencode(name) for name in environ if name not in kept and not _stays(name)}
    if not names:
        return
    import ctypes

    for address in _entries():
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name in names:
            ctypes.memset(address + len(name) + 1, 0, len(value))


def shown_by(values: Collection[str]) -> list[User]:
    """The other processes whose environment shows one of these values to commands without a
    sandbox, such as the shell that a key was given to."""
    wanted = [os.fsencode(value) for value in values if value]
    return [
        user_of(entry)
        for entry in processes()
        if int(entry.name) != os.getpid() and _shows(entry, wanted)
    ]


def _shows(entry: Path, values: Collection[bytes]) -> bool:
    return any(value in shown for shown in environment_of(entry) for value in values)


def _stays(name: str) -> bool:
    return name.startswith(_KEPT) and not is_secret(name)


def _entries() -> Iterator[int]:
    """The addresses of the texts `NAME=value` that the C library knows."""
    import ctypes

    vector = ctypes.POINTER(ctypes.c_void_p)
    library = ctypes.CDLL(None)
    if sys.platform == "darwin":
        library._NSGetEnviron.restype = ctypes.POINTER(vector)
        entries = library._NSGetEnviron().contents
    else:
        entries = vector.in_dll(library, "environ")
    index = 0
    while entries[index] is not None:
        yield int(entries[index] or 0)
        index += 1
