"""The program that gives up its rights and then becomes the command: `launcher.py FD ARGV…`.

It runs by its path in a bare interpreter, so it imports nothing of this package; what it has to do
stands in the descriptor, as `marshal` writes it. Whatever fails, the command is not started.

It is started before every command, so it imports only what is ready at once: `typing`, `json` and
`signal` would take longer than all the rest.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
_PATH_BENEATH: Final = 1
_SET_PARENT_DEATH_SIGNAL: Final = 1
_KILL: Final = 9
_SET_SECCOMP: Final = 22
_FILTER: Final = 2
_NO_NEW_PRIVILEGES: Final = 38
_CAPABILITY_VERSION: Final = 0x20080522
NOT_STARTED: Final = 126

_libc: Final = ctypes.CDLL(None, use_errno=True)


def main(arguments: list[str]) -> int:
    """Become the command. Returns the exit status of not having done so."""
    number, *argv = arguments
    try:
        with os.fdopen(int(number), "rb") as file:
            orders: dict[str, Any] = marshal.load(file)
        _give_up(orders)
        os.execvpe(argv[0], argv, orders["env"])
    except (OSError, ValueError) as error:
        print(f"the sandbox did not start {argv[0]}: {error}", file=sys.stderr)  # noqa: T201
        return NOT_STARTED


def landlock_version() -> int:
    """The version of Landlock that the kernel offers; 0 for none."""
    return max(0, int(_libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_long(0), 1)))


def _give_up(orders: dict[str, Any]) -> None:
    _control(_SET_PARENT_DEATH_SIGNAL, _KILL)
    _control(_NO_NEW_PRIVILEGES, 1)
    for name, value in orders["limits"].items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
    _restrict_paths(orders)
    _drop_capabilities()
    if orders["filter"]:
        _install(orders["filter"])


def _restrict_paths(orders: dict[str, Any]) -> None:
    attributes = struct.pack("=QQQ", orders["handled"], 0, orders["scoped"])
    ruleset = _call(_CREATE_RULESET, attributes, len(attributes), 0)
    for path, rights in orders["rules"]:
        try:
            place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # gone since it was looked at, and so nothing to grant
        _call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    _call(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)


def _drop_capabilities() -> None:
    """Nothing that root may do beyond owning files; without new privileges it stays so."""
    header, none = struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24)
    if _libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


def _install(program: bytes) -> None:
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("@HP", len(program) // 8, ctypes.addressof(code))
    _control(_SET_SECCOMP, _FILTER, head)


def _control(option: int, value: int, pointer: bytes | None = None) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), pointer, ctypes.c_ulong(0), ctypes.c_ulong(0)):
        raise OSError(ctypes.get_errno(), f"prctl {option} failed")


def _call(number: int, *arguments: int | bytes) -> int:
    given = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result = int(_libc.syscall(ctypes.c_long(number), *given))
    if result < 0:
        raise OSError(ctypes.get_errno(), f"system call {number} failed")
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
