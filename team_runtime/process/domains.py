"""Which hosts confined commands may reach: the list, and what an address must be."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from team_runtime.errors import InputError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_LABEL: Final = r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?"
_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_AUTHORITY: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{1,5}))?")
_TRANSLATED: Final = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 addresses that lead to the IPv4 address in their last 32 bits."""


@dataclass(frozen=True)
class Domains:
    """Host names, and `*.` names for all that is below one."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, given: Sequence[str]) -> Domains:
        """The list that was given. Raises `InputError` for what is no host."""
        return cls(tuple(_checked(name) for name in given))

    def allow(self, host: str) -> bool:
        """Whether the list names this host, or what it is below."""
        host = normal(host)
        return host in self.names or any(
            name.startswith("*.") and host.endswith(name[1:]) for name in self.names
        )

    def allow_address(self, host: str, address: Address) -> bool:
        """Whether this address of an allowed host may be connected to. One of this machine or of a
        network around it only for a host that is listed by its very name; one that is no host's
        only where it is listed itself."""
        address = _meant(address)
        if str(address) in self.names:
            return True
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return False
        return address.is_global or normal(host) in self.names


def normal(host: str) -> str:
    """A host without letter case and without the dot at its end."""
    return host.lower().removesuffix(".")


def parse_authority(text: str, port: int | None = None) -> tuple[str, int] | None:
    """Host and port of `host:port` or `[address]:port`, `port` where none is given; `None` for
    anything else, such as one with a user's name."""
    match = _AUTHORITY.fullmatch(text)
    if match is None:
        return None
    number = int(match[3]) if match[3] is not None else port
    if number is None or not 0 < number < 65536:
        return None
    return match[1] or match[2], number


def _checked(name: str) -> str:
    try:
        host = normal(name.encode("idna").decode() if not name.isascii() else name)
    except UnicodeError:
        host = ""
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        pass
    # A star at the very top would be the whole network.
    rest = host.removeprefix("*.")
    if _NAME.fullmatch(rest) and len(rest) < 254 and (rest == host or "." in rest):
        return host
    raise InputError(
        f"{name!r} is no host: write pypi.org, or *.pythonhosted.org for all that is below it"
    )


def _meant(address: Address) -> Address:
    """The address to which this one leads."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    teredo = address.teredo
    return address.ipv4_mapped or address.sixtofour or (teredo[1] if teredo else address)
