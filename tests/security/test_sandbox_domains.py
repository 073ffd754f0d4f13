"""The list of hosts that confined commands may reach, and what tries to get around it."""

from __future__ import annotations

import http.server
import ipaddress
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings, load
from team_runtime.errors import InputError, SandboxMissing
from team_runtime.process.base import Completed
from team_runtime.process.domains import Domains, parse_authority
from team_runtime.process.proxy import Proxy
from team_runtime.process.run import BlockingRunner
from tests.support.api import Seen, team_environment
from tests.support.confined import Cell, bubblewrap, make_grounds
from tests.support.scripted_team import call, make_repository, run_team

FETCH = """
import sys, urllib.request
try:
    print("got", urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())
except Exception as error:
    print("failed", error, getattr(error, "read", bytes)().decode())
"""
SPEAK = """
import socket, sys
with socket.create_connection(("127.0.0.1", 3128), 10) as wire:
    wire.sendall(sys.stdin.buffer.read())
    wire.shutdown(socket.SHUT_WR)
    while data := wire.recv(4096):
        sys.stdout.buffer.write(data)
"""


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("pypi.org", True), ("PyPI.org.", True), ("files.pythonhosted.org", True),
        ("a.b.pythonhosted.org", True), ("pythonhosted.org", False), ("xpypi.org", False),
        ("pypi.org.evil.com", False), ("www.pypi.org", False), ("evilpythonhosted.org", False),
        ("pypi.org@evil.com", False), ("evil.com", False), ("", False), (".", False),
        ("pythonhosted.org.", False), (".pythonhosted.org", True), ("127.0.0.1", False),
    ],
)  # fmt: skip
def test_a_host_is_listed_by_whole_names(host: str, expected: bool) -> None:
    """CVE-2026-24052: a host was compared with how it begins."""
    assert Domains.of(["pypi.org", "*.pythonhosted.org"]).allow(host) is expected


@pytest.mark.parametrize(
    "name", ["*", "*.org", "", "https://pypi.org", "pypi.org/x", "a b", "*.*.org", "a..b", "x:80",
             "user@pypi.org", "-a.org", "*pypi.org", "a" * 64 + ".org"],
)  # fmt: skip
def test_what_is_no_host_is_an_error(name: str) -> None:
    with pytest.raises(InputError, match="is no host"):
        Domains.of([name])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pypi.org:443", ("pypi.org", 443)), ("[::1]:80", ("::1", 80)), ("pypi.org", None),
        ("a@pypi.org:443", None), ("pypi.org:443:80", None), ("pypi.org:0", None),
        ("pypi.org:65536", None), ("pypi.org:443/x", None), ("pypi.org :443", None),
        ("pypi.org:4４3", None), ("pypi.org%00evil:80", None), (":80", None),
        ("p\u00fcpi.org:1", None),
    ],
)  # fmt: skip
def test_only_a_plain_host_and_port_are_one(text: str, expected: Any) -> None:
    assert parse_authority(text) == expected


@pytest.mark.parametrize(
    ("address", "by_name", "by_pattern"),
    [
        ("151.101.0.223", True, True), ("127.0.0.1", True, False), ("10.0.0.1", True, False),
        ("192.168.1.1", True, False), ("169.254.169.254", False, False), ("0.0.0.0", False, False),
        ("::1", True, False), ("fe80::1", False, False), ("fd00::1", True, False),
        ("::ffff:127.0.0.1", True, False), ("::ffff:169.254.169.254", False, False),
        ("64:ff9b::7f00:1", True, False), ("64:ff9b::a9fe:a9fe", False, False),
        ("2002:7f00:1::", True, False), ("224.0.0.1", False, False), ("100.64.0.1", True, False),
    ],
)  # fmt: skip
def test_an_address_nearby_needs_the_hosts_own_name(
    address: str, by_name: bool, by_pattern: bool
) -> None:
    domains = Domains.of(["git.corp.example", "*.example.org"])
    found = ipaddress.ip_address(address)
    assert domains.allow_address("git.corp.example", found) is by_name
    assert domains.allow_address("www.example.org", found) is by_pattern


def test_an_address_that_is_listed_itself_is_reached() -> None:
    assert Domains.of(["169.254.169.254"]).allow_address(
        "169.254.169.254", ipaddress.ip_address("169.254.169.254")
    )


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://evil.example/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = f"{self.headers['Host']} {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


@contextmanager
def served() -> Iterator[int]:
    """A web server on this machine; its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.02])
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def port() -> Iterator[int]:
    with served() as port:
        yield port


class Inside:
    """Runs commands that may reach the host `localhost`."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.refused: list[str] = []
        self._proxy = Proxy(Domains.of(names or ["localhost"]), self.refused.append)
        self._cell = Cell(bubblewrap(), make_grounds(folder), BlockingRunner())

    def python(self, script: str, *arguments: str, input: bytes = b"") -> Completed:
        command = (sys.executable, "-I", "-S", "-c", script, *arguments)
        return self._cell.run(*command, input=input, proxy=self._proxy)

    def fetched(self, url: str) -> str:
        """What a program gets that heeds the usual variables, but for those of hosts nearby."""
        script = "import os; os.environ.pop('no_proxy'); os.environ.pop('NO_PROXY')\n" + FETCH
        return self.python(script, url).stdout.decode()

    def spoken(self, data: bytes) -> bytes:
        """The answer of the proxy."""
        return self.python(SPEAK, input=data).stdout


@pytest.fixture
def inside(tmp_path: Path) -> Inside:
    return Inside(tmp_path / "grounds")


def test_a_listed_host_is_reached(inside: Inside, port: int) -> None:
    url = f"http://localhost:{port}/a?b=c"
    assert inside.fetched(url) == f"got localhost:{port} /a?b=c\n"


def test_a_tunnel_to_a_listed_host_is_made(inside: Inside, port: int) -> None:
    request = b"CONNECT localhost:%d HTTP/1.1\r\n\r\nGET /x HTTP/1.0\r\n\r\n" % port
    answer = inside.spoken(request)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert answer.endswith(b"None /x")


def test_another_host_is_refused_by_name_with_the_way_to_allow_it(inside: Inside) -> None:
    answer = inside.fetched("http://evil.example/")
    assert "evil.example is not allowed; to allow it: --sandbox-domain evil.example" in answer
    assert inside.spoken(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n").startswith(
        b"HTTP/1.1 403 evil.example is not allowed"
    )
    assert inside.refused == ["evil.example"] * 2


def test_a_redirect_to_another_host_is_refused(inside: Inside, port: int) -> None:
    """CVE-2026-24052: each hop is decided about."""
    assert "evil.example is not allowed" in inside.fetched(f"http://localhost:{port}/away")


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT localhost@evil.example:443 HTTP/1.1\r\n\r\n",
        b"GET http://localhost@evil.example/ HTTP/1.1\r\n\r\n",
        b"GET http://localhost:80@evil.example/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.example\\@localhost/ HTTP/1.1\r\n\r\n",
        b"GET http://evil.example#@localhost/ HTTP/1.1\r\n\r\n",
        b"GET http://[localhost/ HTTP/1.1\r\n\r\n",
        b"GET https://localhost/ HTTP/1.1\r\n\r\n",
        b"GET ftp://localhost/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT localhost HTTP/1.1\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n",
        b"CONNECT 2130706433:80 HTTP/1.1\r\n\r\n",
        b"CONNECT localhost.:x HTTP/1.1\r\n\r\n",
    ],
)
def test_a_request_that_hides_its_host_is_refused(inside: Inside, request_: bytes) -> None:
    """CVE-2026-24052: `docs.python.org@evil`."""
    assert inside.spoken(request_).split(b" ")[1] in (b"400", b"403")


def test_the_host_header_cannot_name_another(inside: Inside, port: int) -> None:
    request = b"GET http://localhost:%d/ HTTP/1.1\r\nHost: evil.example\r\n\r\n" % port
    assert inside.spoken(request).endswith(b"localhost:%d /" % port)


def test_a_pattern_does_not_reach_this_machine(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a name of the open internet is made to lead to an address nearby."""
    inside, resolve = Inside(tmp_path / "grounds", "*.localhost.example"), socket.getaddrinfo

    def nearby(host: str, *rest: Any, **more: Any) -> Any:
        return resolve("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", nearby)
    request = b"CONNECT a.localhost.example:%d HTTP/1.1\r\n\r\n" % port
    assert b"leads to 127.0.0.1" in inside.spoken(request)


def test_there_is_no_other_way_out(inside: Inside, port: int) -> None:
    script = """
import socket, sys
for family, address in ((socket.AF_INET, ("127.0.0.1", int(sys.argv[1]))),
                        (socket.AF_INET, ("93.184.216.34", 80)), (socket.AF_UNIX, "/x")):
    try:
        socket.socket(family).connect(address)
        print("out", address)
    except OSError:
        pass
import os
print(sorted(os.listdir("/proc/self/fd"))[3:])
"""
    assert inside.python(script, str(port)).stdout in (b"['3']\n", b"[]\n")


@pytest.mark.slow
def test_many_connections_at_once(inside: Inside, port: int) -> None:
    script = f"""
import threading, urllib.request, os
os.environ.pop("no_proxy"), os.environ.pop("NO_PROXY")
got = []
def fetch(n): got.append(urllib.request.urlopen("http://localhost:{port}/%d" % n).read())
threads = [threading.Thread(target=fetch, args=[n]) for n in range(150)]
[t.start() for t in threads]; [t.join() for t in threads]
print(len(set(got)))
"""
    assert inside.python(script).stdout == b"150\n"


def test_a_program_that_ends_at_once_leaves_nothing_waiting(inside: Inside) -> None:
    assert inside.python("").status == 0
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("proxy") <= 1


# In a run


def test_a_run_reaches_the_hosts_that_were_given_to_it(tmp_path: Path, port: int) -> None:
    bubblewrap()
    root = make_repository(tmp_path / "repository")
    fetch = f"{sys.executable} -c '{FETCH}'"
    commands = [f"NO_PROXY= no_proxy= {fetch} http://{host}/" for host in
                (f"localhost:{port}", "evil.example")]  # fmt: skip

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command=command) for command in commands]
        assert f"got localhost:{port} /" in seen.text
        assert "evil.example is not allowed" in seen.text
        yield "Done."

    ran = run_team(root, {"lead": lead}, allow=("Bash",), sandbox_domains=("localhost",))
    assert [e["host"] for e in ran.of("network_refused")] == ["evil.example"]


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"sandbox": "off"}, SandboxMissing, "needs bubblewrap"),
        ({"sandbox_network": True}, InputError, "give one of them"),
        ({"sandbox_domains": ("*",)}, InputError, "is no host"),
    ],
)
def test_a_list_that_would_not_hold_is_an_error(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], said: str
) -> None:
    workspace = Workspace(make_repository(tmp_path / "repository"), team_environment(tmp_path))
    with pytest.raises(error, match=said):
        workspace.confined_by(Settings(**{"sandbox_domains": ("pypi.org",), **settings}))


def test_a_workspace_allows_no_host(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text('sandbox_domains = ["evil.example"]')
    with pytest.raises(InputError, match="cannot be set by a workspace"):
        load(tmp_path, {"TEAM_CONFIG_DIR": str(tmp_path / "own")}, {})
