"""The system calls that a confined command is refused, as a seccomp program for the kernel.

Files and addresses are the business of the layers; this closes what they cannot see: sockets that
no network namespace holds back, new user namespaces, tracing, and the parts of the kernel that few
programs need and many exploits use.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, operand."""
_Stretch = tuple[int, list[Instruction]]
"""The first of some numbers that follow each other, and what to do for them."""

_LOAD: Final = 0x20
_AND: Final = 0x54
_IF_EQUAL: Final = 0x15
_IF_AT_LEAST: Final = 0x35
_IF_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | errno.EPERM
_UNKNOWN: Final = 0x00050000 | errno.ENOSYS
_KILL: Final = 0x80000000

_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = (16, 24, 32)
"""Where the low halves of the first three arguments are, on a little-endian machine."""

_AF_INET: Final = 2
_AF_INET6: Final = 10
_AF_NETLINK: Final = 16
_SOCK_DGRAM: Final = 2
_NETLINK_ROUTE: Final = 0
_TERMINAL_INPUT: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing for the user
_NAMESPACES: Final = 0x7E020000  # the CLONE_NEW… flags that `clone` and `unshare` share

_SAME_EVERYWHERE: Final = {
    "clone3": 435,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_getfd": 438,
    "mount_setattr": 442,
    "open_tree_attr": 467,
}
_REFUSED: Final = (
    "add_key", "bpf", "fsconfig", "fsmount", "fsopen", "fspick", "io_uring_enter",
    "io_uring_register", "io_uring_setup", "keyctl", "mount", "mount_setattr", "move_mount",
    "open_tree", "open_tree_attr", "perf_event_open", "pidfd_getfd", "pivot_root",
    "process_vm_readv", "process_vm_writev", "ptrace", "request_key", "setns", "umount2",
    "userfaultfd",
)  # fmt: skip


@dataclass(frozen=True)
class _Machine:
    audit: int
    """What the kernel calls the architecture."""
    numbers: Mapping[str, int]
    foreign: int | None = None
    """From this number on, calls belong to another way of calling (x32)."""


_MACHINES: Final = {
    "x86_64": _Machine(
        0xC000003E,
        _SAME_EVERYWHERE
        | {
            "add_key": 248, "bpf": 321, "clone": 56, "ioctl": 16, "keyctl": 250, "mount": 165,
            "perf_event_open": 298, "pivot_root": 155, "process_vm_readv": 310,
            "process_vm_writev": 311, "ptrace": 101, "request_key": 249, "setns": 308,
            "socket": 41, "socketpair": 53, "umount2": 166, "unshare": 272, "userfaultfd": 323,
        },
        foreign=0x40000000,
    ),
    "aarch64": _Machine(
        0xC00000B7,
        _SAME_EVERYWHERE
        | {
            "add_key": 217, "bpf": 280, "clone": 220, "ioctl": 29, "keyctl": 219, "mount": 40,
            "perf_event_open": 241, "pivot_root": 41, "process_vm_readv": 270,
            "process_vm_writev": 271, "ptrace": 117, "request_key": 218, "setns": 268,
            "socket": 198, "socketpair": 199, "umount2": 39, "unshare": 97, "userfaultfd": 282,
        },
    ),
}  # fmt: skip


def compiled(machine: str, internet: bool) -> bytes | None:
    """The program for a `platform.machine()`, or `None` for one that is not known here.

    `internet` says whether sockets of the internet may be made at all.
    """
    known = _MACHINES.get(machine)
    if known is None:
        return None
    program = [*_head(known), *_sought(_stretches(known, internet))]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def refused_numbers(machine: str) -> list[int]:
    """The numbers of the calls that are refused whatever their arguments are."""
    known = _MACHINES.get(machine)
    return [known.numbers[name] for name in _REFUSED] if known else []


def _head(machine: _Machine) -> list[Instruction]:
    """Programs of another architecture have other numbers, so they are ended."""
    return [_load(_ARCHITECTURE), (_IF_EQUAL, 1, 0, machine.audit), _end(_KILL), _load(_NUMBER)]


def _stretches(machine: _Machine, internet: bool) -> list[_Stretch]:
    """What happens to every number there is."""
    numbers, refuse, allow = machine.numbers, [_end(_REFUSE)], [_end(_ALLOW)]
    single = {numbers[name]: refuse for name in _REFUSED}
    # Its flags are in memory, where no filter can look; libraries fall back to `clone`.
    single[numbers["clone3"]] = [_end(_UNKNOWN)]
    for name in ("clone", "unshare"):
        single[numbers[name]] = _without_namespaces()
    single[numbers["socket"]] = _only_internet(internet)
    single[numbers["socketpair"]] = _only_connected()
    single[numbers["ioctl"]] = _without_typing()
    edges = {0, *single, *(number + 1 for number in single)}
    found = [(first, single.get(first, allow)) for first in sorted(edges)]
    if machine.foreign is not None:
        found.append((machine.foreign, refuse))
    pairs = zip([(-1, []), *found], found, strict=False)
    return [each for before, each in pairs if each[1] != before[1]]


def _sought(stretches: Sequence[_Stretch]) -> list[Instruction]:
    """Halve until one is left. The kernel goes through a filter with every number when it is set,
    so that it matters how many steps each takes."""
    if len(stretches) == 1:
        return stretches[0][1]
    half = len(stretches) // 2
    below = _sought(stretches[:half])
    return [(_IF_AT_LEAST, len(below), 0, stretches[half][0]), *below, *_sought(stretches[half:])]


def _without_namespaces() -> list[Instruction]:
    refuse = [(_IF_ANY_BIT, 0, 1, _NAMESPACES), _end(_REFUSE)]
    return [_load(_ARGUMENTS[0]), *refuse, _end(_ALLOW)]


def _only_internet(allowed: bool) -> list[Instruction]:
    """No socket that reaches a service of this machine by a path, by a name or as a virtual
    machine's guest. Asking which interfaces there are changes nothing and is common."""
    internet = [*_answer(_AF_INET, _ALLOW), *_answer(_AF_INET6, _ALLOW)] if allowed else []
    asking = [_load(_ARGUMENTS[2]), *_answer(_NETLINK_ROUTE, _ALLOW), _end(_REFUSE)]
    netlink = [(_IF_EQUAL, 0, len(asking), _AF_NETLINK), *asking]
    return [_load(_ARGUMENTS[0]), *internet, *netlink, _end(_REFUSE)]


def _only_connected() -> list[Instruction]:
    """A pair of datagram sockets can be connected again, to a path."""
    kind = [_load(_ARGUMENTS[1]), (_AND, 0, 0, 0xF)]
    return [*kind, *_answer(_SOCK_DGRAM, _REFUSE), _end(_ALLOW)]


def _without_typing() -> list[Instruction]:
    refused = [part for request in _TERMINAL_INPUT for part in _answer(request, _REFUSE)]
    return [_load(_ARGUMENTS[1]), *refused, _end(_ALLOW)]


def _answer(value: int, verdict: int) -> list[Instruction]:
    """The verdict when the number that is loaded is `value`; else on with what follows."""
    return [(_IF_EQUAL, 0, 1, value), _end(verdict)]


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _end(verdict: int) -> Instruction:
    return (_RETURN, 0, 0, verdict)
