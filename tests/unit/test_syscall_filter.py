"""The filter as the kernel runs it: an interpreter, so that every machine's program is tried."""

from __future__ import annotations

import errno
import struct

import pytest

from team_runtime.process.filter import compiled, refused_numbers

ALLOWED = 0
KILLED = -1
X86, ARM = 0xC000003E, 0xC00000B7
I386 = 0x40000003


def answer(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel would do: `ALLOWED`, `KILLED` or an errno."""
    data = struct.pack("<IIQ6Q", number, architecture, 0, *(*arguments, *[0] * 6)[:6])
    instructions = list(struct.iter_unpack("=HBBI", program))
    loaded, at = 0, 0
    while True:
        code, yes, no, operand = instructions[at]
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            loaded &= operand
        elif code == 0x06:
            if operand == 0x7FFF0000:
                return ALLOWED
            return KILLED if operand == 0x80000000 else operand & 0xFFFF
        else:
            holds = {0x15: loaded == operand, 0x35: loaded >= operand, 0x45: loaded & operand}[code]
            at += yes if holds else no


@pytest.fixture(params=["x86_64", "aarch64"])
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


CALLS = {
    "x86_64": {"read": 0, "openat": 257, "execve": 59, "socket": 41, "socketpair": 53, "clone": 56,
               "unshare": 272, "ioctl": 16, "ptrace": 101, "mount": 165, "connect": 42},
    "aarch64": {"read": 63, "openat": 56, "execve": 221, "socket": 198, "socketpair": 199,
                "clone": 220, "unshare": 97, "ioctl": 29, "ptrace": 117, "mount": 40,
                "connect": 203},
}  # fmt: skip
NEW_USER, THREAD = 0x10000000, 0x3D0F00
UNIX, INET, INET6, NETLINK, PACKET, VSOCK = 1, 2, 10, 16, 17, 40
STREAM, DGRAM, CLOSE_ON_EXEC = 1, 2, 0o2000000
TIOCSTI, TCGETS = 0x5412, 0x5401


@pytest.mark.parametrize(
    ("call", "arguments", "expected"),
    [
        ("read", (3,), ALLOWED),
        ("openat", (3,), ALLOWED),
        ("execve", (), ALLOWED),
        ("connect", (3,), ALLOWED),
        ("ptrace", (16,), errno.EPERM),
        ("mount", (), errno.EPERM),
        ("clone", (THREAD,), ALLOWED),
        ("clone", (NEW_USER | 17,), errno.EPERM),
        ("unshare", (0x400,), ALLOWED),
        ("unshare", (NEW_USER,), errno.EPERM),
        ("unshare", (0x20000,), errno.EPERM),
        ("socket", (INET, STREAM), ALLOWED),
        ("socket", (INET6, DGRAM), ALLOWED),
        ("socket", (UNIX, STREAM), errno.EPERM),
        ("socket", (VSOCK, STREAM), errno.EPERM),
        ("socket", (PACKET, DGRAM), errno.EPERM),
        ("socket", (NETLINK, DGRAM, 0), ALLOWED),
        ("socket", (NETLINK, DGRAM, 12), errno.EPERM),
        ("socket", (UNIX | 1 << 40, STREAM), errno.EPERM),
        ("socketpair", (UNIX, STREAM | CLOSE_ON_EXEC), ALLOWED),
        ("socketpair", (UNIX, DGRAM | CLOSE_ON_EXEC), errno.EPERM),
        ("ioctl", (0, TCGETS), ALLOWED),
        ("ioctl", (0, TIOCSTI), errno.EPERM),
    ],
)
def test_what_is_refused(
    machine: str, call: str, arguments: tuple[int, ...], expected: int
) -> None:
    program = compiled(machine, internet=True)
    assert program is not None
    architecture = X86 if machine == "x86_64" else ARM
    assert answer(program, architecture, CALLS[machine][call], *arguments) == expected


def test_every_other_call_is_allowed(machine: str) -> None:
    program = compiled(machine, internet=True)
    assert program is not None
    architecture = X86 if machine == "x86_64" else ARM
    refused = dict.fromkeys(refused_numbers(machine), errno.EPERM)
    refused |= {435: errno.ENOSYS, CALLS[machine]["socket"]: errno.EPERM}
    for number in range(1000):
        assert answer(program, architecture, number) == refused.get(number, ALLOWED), number


def test_no_internet_socket_when_offline(machine: str) -> None:
    program = compiled(machine, internet=False)
    assert program is not None
    architecture = X86 if machine == "x86_64" else ARM
    for family in (INET, INET6):
        assert answer(program, architecture, CALLS[machine]["socket"], family, 1) == errno.EPERM


def test_calls_that_no_filter_can_judge_are_said_to_be_unknown(machine: str) -> None:
    program = compiled(machine, internet=True)
    assert program is not None
    architecture = X86 if machine == "x86_64" else ARM
    assert answer(program, architecture, 435) == errno.ENOSYS  # clone3: its flags are in memory


def test_no_other_way_of_calling() -> None:
    program = compiled("x86_64", internet=True)
    assert program is not None
    assert answer(program, I386, 3) == KILLED
    assert answer(program, ARM, 63) == KILLED
    assert answer(program, X86, 0x40000000 | 41, INET) == errno.EPERM


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert compiled("riscv64", internet=True) is None
    assert refused_numbers("riscv64") == []
