"""The proxy through which confined commands reach the hosts that are allowed, and no others.

A sandbox has a network of its own with nobody in it. It hands out a socket that listens there (see
`door.py`), and this answers on it: it reads which host is wanted, asks the list, resolves the name
itself, asks the list about the address, and connects to that very address.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from team_runtime.process.domains import Domains, parse_authority
from team_runtime.text import one_line

_HEAD: Final = 64 * 1024
_CHUNK: Final = 64 * 1024
_AT_ONCE: Final = 64
"""Connections of one command; more of them wait. Each takes descriptors of ours."""
_SECONDS: Final = 30.0
"""For a request to come whole, and for a connection to be made."""
_ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
_HOPS: Final = ("connection:", "host:", "keep-alive:", "proxy-")
"""How the lines of a request begin that are for us, or that we write anew."""


class _Refused(Exception):
    """The request is answered with this status line instead."""


@dataclass(frozen=True)
class Proxy:
    """For the commands of one workspace. Each is answered on a thread of its own."""

    domains: Domains
    on_refused: Callable[[str], None]
    """Told of each host that a command wanted and must not reach, on any thread."""

    @contextmanager
    def serving(self, channel: socket.socket) -> Iterator[None]:
        """Answer on the socket that comes through `channel` until the context ends."""
        begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None]]] = Future()

        def work() -> None:
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                task = loop.create_task(self._serve(channel))
                begun.set_result((loop, task))
                with contextlib.suppress(asyncio.CancelledError):
                    loop.run_until_complete(task)

        threading.Thread(target=work, name="proxy", daemon=True).start()
        loop, task = begun.result()
        try:
            yield
        finally:
            # Not waited for: it may be looking for a name.
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                loop.call_soon_threadsafe(task.cancel)

    async def _serve(self, channel: socket.socket) -> None:
        with channel:
            listener = await _received(channel)
        if listener is None:
            return
        free = asyncio.Semaphore(_AT_ONCE)
        listener.setblocking(False)
        with listener:
            async with asyncio.TaskGroup() as open_:
                while True:
                    await free.acquire()
                    wire, _ = await asyncio.get_running_loop().sock_accept(listener)
                    task = open_.create_task(self._attend(wire))
                    task.add_done_callback(lambda _: free.release())

    async def _attend(self, wire: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=wire, limit=_HEAD)
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, and whatever both sides say until one of them ends."""
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                host, port, first = _wanted(head)
                there, back = await self._connected(host, port)
        except _Refused as refused:
            with contextlib.suppress(OSError):
                writer.write(_answered(str(refused)))
                await writer.drain()
            return
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            return
        try:
            (back if first else writer).write(first or _ESTABLISHED)
            await _joined((reader, back), (there, writer))
        finally:
            back.close()

    async def _connected(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to an allowed address of an allowed host. Raises `_Refused`."""
        if not self.domains.allow(host):
            self._refuse(host, f"{host} is not allowed; to allow it: --sandbox-domain {host}")
        try:
            found = await asyncio.get_running_loop().getaddrinfo(
                host, port, type=socket.SOCK_STREAM
            )
        except OSError as error:
            raise _Refused(f"502 {host} is not found: {error.strerror}") from error
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        allowed = [
            address
            for address in dict.fromkeys(addresses)
            if self.domains.allow_address(host, ipaddress.ip_address(address))
        ]
        if not allowed:
            self._refuse(host, f"{host} leads to {addresses[0]}, which is not on the internet")
        fault = ""
        for address in allowed:
            try:
                return await asyncio.open_connection(address, port, limit=_HEAD)
            except OSError as error:
                fault = error.strerror or str(error)
        raise _Refused(f"502 {host} cannot be reached: {fault}")

    def _refuse(self, host: str, why: str) -> None:
        self.on_refused(host)
        raise _Refused(f"403 {why}")


async def _received(channel: socket.socket) -> socket.socket | None:
    """The socket that comes through; `None` when the program ended without it."""
    channel.setblocking(False)
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(channel, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(channel)
    try:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    except OSError:
        return None
    return socket.socket(fileno=descriptors[0]) if descriptors else None


def _wanted(head: bytes) -> tuple[str, int, bytes]:
    """Host, port, and what to send there first; nothing where a tunnel is asked for. Raises
    `_Refused`."""
    try:
        line, *fields = head.decode("latin-1").split("\r\n")
        method, target, version = line.split(" ")
    except ValueError:
        raise _Refused("400 this is no request to a proxy") from None
    if method == "CONNECT":
        wanted = parse_authority(target)
        if wanted is None:
            raise _Refused(f"400 {one_line(target)} is no host with a port")
        return (*wanted, b"")
    try:
        url = urlsplit(target)
    except ValueError:
        url = urlsplit("")
    wanted = parse_authority(url.netloc, 80) if url.scheme == "http" else None
    if wanted is None:
        raise _Refused(f"400 {one_line(target)} is no address of a host; use a tunnel for https")
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [field for field in fields if field and not field.lower().startswith(_HOPS)]
    # One request for each connection, so that none goes unseen; the host is the one that was asked.
    lines = [f"{method} {path} {version}", f"Host: {url.netloc}", *kept, "Connection: close"]
    return (*wanted, "\r\n".join([*lines, "", ""]).encode("latin-1"))


def _answered(status: str) -> bytes:
    line = one_line(status, 300).encode("ascii", "replace")
    body = b"team_runtime, the sandbox's proxy: " + line[4:] + b"\n"
    return b"HTTP/1.1 %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n%s\r\n\r\n%s" % (
        line, len(body), b"Connection: close", body,
    )  # fmt: skip


async def _joined(*ways: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
    """Pass on what comes, each way until its end."""

    async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()

    await asyncio.gather(*(passed(*way) for way in ways))
