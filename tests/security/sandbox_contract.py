"""What every sandbox blocks, each named by what is blocked; subclass it and give a `sandbox`."""

from __future__ import annotations

import os
import platform
import resource
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from team_runtime.process.filter import refused_numbers
from team_runtime.process.sandbox import Limits, Sandbox
from tests.support.confined import PATH, SECRET, Cell, Grounds, make_grounds
from tests.support.tools import Desk

CONNECT = """
import socket, sys
family, kind, address = sys.argv[1:4]
with socket.socket(getattr(socket, family), getattr(socket, kind)) as s:
    s.connect((address, int(sys.argv[4])) if family == "AF_INET" else address.replace("@", chr(0)))
    s.send(b"x")
"""
AGAIN = """
import socket, sys
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.connect(sys.argv[1])
a.send(b"x")
"""
CALLS = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for number in sys.argv[1:]:
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(int(number)), *[ctypes.c_long(0)] * 5)
    print(number, result, errno.errorcode.get(ctypes.get_errno()))
"""


class SandboxContract:
    """The tests run in the worktree of a real repository, with a home full of secrets beside it."""

    @pytest.fixture
    def sandbox(self) -> Sandbox:
        raise NotImplementedError

    @pytest.fixture
    def grounds(self, tmp_path: Path) -> Grounds:
        return make_grounds(tmp_path / "a place")

    @pytest.fixture
    def cell(self, sandbox: Sandbox, grounds: Grounds) -> Cell:
        return Cell(sandbox, grounds)

    # what still works

    def test_work_in_the_worktree_goes_on(self, cell: Cell, grounds: Grounds) -> None:
        ended = cell.sh("pwd; mkdir -p src; echo hi > src/a; mv src/a src/b; ln -s b src/c; exit 7")
        assert (ended.status, ended.stdout.decode()) == (7, f"{grounds.worktree}\n")
        assert (grounds.worktree / "src" / "c").read_text() == "hi\n"

    def test_arguments_input_and_output_pass_unchanged(self, cell: Cell) -> None:
        argv = ["printf", "%s|", "$(touch x)", "--", "-n", "", "日本\n"]
        assert cell.run(*argv).stdout.decode() == "$(touch x)|--|-n||日本\n|"
        data = os.urandom(100_000)
        assert cell.run("cat", input=data).stdout == data

    def test_git_can_look(self, cell: Cell, grounds: Grounds) -> None:
        (grounds.worktree / "new").touch()
        ended = cell.sh("git status --porcelain && git log --oneline && git diff && git show")
        assert ended.status == 0, ended.stdout
        assert ended.stdout.startswith(b"?? new\n")

    def test_temporary_files_have_a_place(self, cell: Cell) -> None:
        ended = cell.sh('cd "$TMPDIR" && f="$(mktemp)" && echo text > "$f" && cat "${f##*/}"')
        assert ended.stdout == b"text\n"

    def test_only_the_given_environment_and_where_temporary_files_go(self, cell: Cell) -> None:
        names = {line.split("=")[0] for line in cell.run("env").stdout.decode().splitlines()}
        assert names - {"PWD"} == {"PATH", "HOME", "LC_ALL", "TMPDIR", "GIT_OPTIONAL_LOCKS"}

    def test_pipes_threads_and_pairs_of_sockets_work(self, cell: Cell) -> None:
        script = """
import socket, threading
a, b = socket.socketpair()
thread = threading.Thread(target=lambda: a.sendall(b"through"))
thread.start(); thread.join()
print(b.recv(10))
"""
        assert cell.python(script).stdout == b"b'through'\n"

    # writing elsewhere

    @pytest.mark.parametrize(
        "place", ["../other", "../../main-file", "../../../home/x", "/etc/x", "/usr/x", "/var/x"]
    )
    def test_no_write_outside_the_worktree(self, cell: Cell, grounds: Grounds, place: str) -> None:
        cell.refuses(f"echo x > {place}")
        assert not (grounds.worktree / place).exists()

    def test_no_change_of_files_outside(self, cell: Cell, grounds: Grounds) -> None:
        notes = grounds.home / "notes"
        for script in ("echo x >> N", "truncate -s 0 N", "rm -f N", "mv N moved", "ln N linked"):
            cell.refuses(script.replace("N", '"$HOME/notes"'))
        assert notes.read_text() == "notes"
        assert not (grounds.worktree / "linked").exists()

    def test_no_write_at_all_without_a_writable_folder(self, cell: Cell, grounds: Grounds) -> None:
        cell.refuses("echo x > file", writable=())
        assert not (grounds.worktree / "file").exists()

    @pytest.mark.parametrize(
        "script",
        [
            "git add new",
            "git stash --include-untracked",
            "git config core.fsmonitor ./x",
            "git config --worktree core.hooksPath .",
            "git commit --allow-empty -m x",
            "git update-ref refs/heads/main HEAD",
            "git update-ref refs/heads/new HEAD",
            "git branch new",
            "git hash-object -w /etc/hostname",
            "git symbolic-ref HEAD refs/heads/main",
            "git worktree add ../new2",
            "echo x > ../../.git/hooks/pre-commit",
            "echo x > ../../.git/config",
            "echo x > ../../.git/worktrees/parser/commondir",
            "mv ../../.git/hooks ../../.git/hooks2",
            "rm -rf ../../.git/objects",
        ],
    )
    def test_no_write_into_the_git_directory(
        self, cell: Cell, grounds: Grounds, script: str
    ) -> None:
        """CVE-2026-26268, CVE-2026-19592, GHSA-q5hj-mxqh-vv77."""

        def listing() -> list[tuple[Path, int]]:
            return [(path, path.lstat().st_mtime_ns) for path in sorted(grounds.git.rglob("*"))]

        before = listing()
        cell.refuses(f"touch new; {script}")
        assert listing() == before

    def test_no_protected_folder_in_a_writable_one(self, cell: Cell, grounds: Grounds) -> None:
        (grounds.main / "src").mkdir()
        open_checkout = {
            "writable": (grounds.main,),
            "readable": (*grounds.policy.readable, grounds.git),
        }
        assert cell.sh("echo x > ../../src/a", **open_checkout).status == 0
        cell.refuses("echo x > ../../.git/hooks/pre-commit", **open_checkout)
        cell.refuses("mv ../../.git ../../.git2", **open_checkout)
        cell.refuses("mv ../../.team ../../.team2", **open_checkout)
        assert (grounds.git / "config").is_file()

    @pytest.mark.parametrize(
        ("script", "path"),
        [
            ("ln -s ../../../home/notes n", "n"),
            ("ln -s ../../../home d", "d/notes"),
            ("ln -s ../../../home/new n", "n"),
            ('ln -s "$HOME/notes" n', "n"),
            ("ln -s ../../../home d; ln -s d/notes n", "n"),
            ("ln -s ../.. up; mkdir s; ln -s ../up/../home s/d", "s/d/new"),
            ("ln -s /proc/self/cwd/../../../home/notes n", "n"),
        ],
    )
    def test_no_link_through_which_the_runtime_writes(
        self, cell: Cell, grounds: Grounds, script: str, path: str
    ) -> None:
        """CVE-2026-39861: a confined command made the link, an unconfined write followed it."""
        assert cell.sh(script).status == 0
        desk = Desk(grounds.worktree, mode="bypassPermissions")
        desk.fail("write_file", path=path, content="overwritten")
        desk.fail("edit_file", path=path, old_text="notes", new_text="overwritten")
        assert sorted(p.name for p in grounds.home.iterdir()) == [".netrc", ".ssh", "notes"]
        assert (grounds.home / "notes").read_text() == "notes"

    def test_no_device_and_no_mount(self, cell: Cell) -> None:
        cell.refuses("mknod disk b 8 0")
        cell.refuses("mknod null c 1 3")
        cell.refuses("mkdir m; mount -t tmpfs none m")
        cell.refuses("mount -o remount,rw /")

    # reading secrets

    @pytest.mark.parametrize(
        "place",
        ["$HOME/.ssh/id_ed25519", "$HOME/.netrc", "../../.team/mail", "/etc/../etc/shadow"],
    )
    def test_no_secret_is_read(self, cell: Cell, grounds: Grounds, place: str) -> None:
        hidden = (*grounds.policy.hidden, Path("/etc/shadow"))
        ended = cell.sh(f"cat {place}; ln -s {place} here; cat here", hidden=hidden)
        assert ended.status != 0
        assert SECRET.encode() not in ended.stdout
        assert b"root:" not in ended.stdout

    def test_a_folder_that_is_shown_in_a_hidden_one_can_be_read(
        self, cell: Cell, grounds: Grounds
    ) -> None:
        spilled = grounds.main / ".team" / "spill"
        spilled.mkdir()
        (spilled / "output").write_text("long output")
        ended = cell.sh(
            "cat ../../.team/spill/output", readable=(*grounds.policy.readable, spilled)
        )
        assert ended.stdout == b"long output"

    def test_no_environment_of_another_process(
        self, cell: Cell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
        with process(["sleep", "1000"], {"PATH": PATH, "KEY": SECRET}) as other:
            found = cell.sh(f"cat /proc/*/environ /proc/1/environ /proc/{other}/environ; env")
        assert b"HOME=" in found.stdout  # its own is among them
        assert SECRET.encode() not in found.stdout

    # other processes

    def test_no_signal_to_another_process(self, cell: Cell) -> None:
        with process(["sleep", "1000"], {"PATH": PATH}) as other:
            ended = cell.sh(f"kill -9 {other}; kill -0 {other}")
            assert ended.status != 0
            os.kill(other, 0)

    @pytest.mark.parametrize("flag", ["-U", "-m", "-n", "-p", "-i", "-u"])
    def test_no_namespace_inside(self, cell: Cell, flag: str) -> None:
        cell.refuses(f"unshare {flag} true")
        cell.refuses(f"unshare -r {flag} true")

    def test_no_system_call_that_few_need_and_exploits_use(self, cell: Cell) -> None:
        numbers = refused_numbers(platform.machine())
        assert len(numbers) > 20
        ended = cell.python(CALLS, *map(str, numbers))
        results = [line.split() for line in ended.stdout.decode().splitlines()]
        assert [int(number) for number, _, _ in results] == numbers
        assert {(result, error) for _, result, error in results} == {("-1", "EPERM")}

    # the network and sockets

    @pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
    def test_no_network(self, cell: Cell, kind: str) -> None:
        with listening("AF_INET", kind, ("127.0.0.1", 0)) as listener:
            port = str(listener.getsockname()[1])
            cell.python(CONNECT, "AF_INET", kind, "127.0.0.1", port)
            assert not arrived(listener)
            allowed = cell.python(CONNECT, "AF_INET", kind, "127.0.0.1", port, network=True)
            assert allowed.status == 0, allowed.stdout
            assert arrived(listener)

    @pytest.mark.parametrize("network", [False, True])
    @pytest.mark.parametrize("name", ["path", "abstract"])
    @pytest.mark.parametrize("kind", ["SOCK_STREAM", "SOCK_DGRAM"])
    def test_no_socket_of_a_service_of_this_machine(
        self, cell: Cell, grounds: Grounds, kind: str, name: str, network: bool
    ) -> None:
        address = str(grounds.root / "s") if name == "path" else f"@team-test-{os.getpid()}"
        with listening("AF_UNIX", kind, address.replace("@", "\0")) as listener:
            ended = cell.python(CONNECT, "AF_UNIX", kind, address, network=network)
            assert b"PermissionError" in ended.stdout
            assert not arrived(listener)

    def test_no_socket_by_connecting_a_pair_again(self, cell: Cell, grounds: Grounds) -> None:
        address = str(grounds.root / "s")
        with listening("AF_UNIX", "SOCK_DGRAM", address) as listener:
            ended = cell.python(AGAIN, address)
            assert b"PermissionError" in ended.stdout
            assert not arrived(listener)

    @pytest.mark.parametrize("family", ["AF_VSOCK", "AF_PACKET", "AF_ALG"])
    def test_no_socket_of_another_family(self, cell: Cell, family: str) -> None:
        made = f"import socket; socket.socket(socket.{family}, socket.SOCK_STREAM, 0)"
        assert cell.python(made, network=True).status != 0

    # how much

    def test_no_file_over_the_limit(self, cell: Cell, grounds: Grounds) -> None:
        limits = Limits(file_bytes=10 * 2**20)
        cell.refuses("head -c 20000000 /dev/zero > big", limits=limits)
        assert (grounds.worktree / "big").stat().st_size <= 10 * 2**20

    def test_no_address_space_over_the_limit(self, cell: Cell) -> None:
        limits = Limits(address_space=512 * 2**20)
        assert b"MemoryError" in cell.python("bytearray(2**30)", limits=limits).stdout

    def test_no_limit_is_raised_over_that_of_the_runtime(self, cell: Cell) -> None:
        """Nobody may raise one, so to try would keep every command from starting."""
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        own = Limits(file_bytes=2**40)
        assert cell.sh("true", limits=own).status == 0
        told = cell.sh("ulimit -H -f", limits=own).stdout.decode().strip()
        expected = min(2**40, hard) if hard != resource.RLIM_INFINITY else 2**40
        assert int(told) * 512 == expected
        assert resource.getrlimit(resource.RLIMIT_FSIZE) == (soft, hard)

    def test_it_says_what_it_is(self, sandbox: Sandbox) -> None:
        assert sandbox.describe().startswith(f"{sandbox.layer}: ")
        assert "\n" not in sandbox.describe()


@contextmanager
def process(argv: list[str], env: dict[str, str]) -> Iterator[int]:
    """Another process of the user's, outside of any sandbox."""
    started = subprocess.Popen(argv, env=env)
    try:
        yield started.pid
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()


@contextmanager
def listening(family: str, kind: str, address: object) -> Iterator[socket.socket]:
    """A service of this machine, outside of any sandbox."""
    with socket.socket(getattr(socket, family), getattr(socket, kind)) as listener:
        listener.bind(address)  # type: ignore[arg-type]
        listener.setblocking(False)
        if kind == "SOCK_STREAM":
            listener.listen()
        yield listener


def arrived(listener: socket.socket) -> bool:
    """Whether somebody has connected or sent something."""
    try:
        if listener.type is socket.SOCK_STREAM:
            listener.accept()[0].close()
        else:
            listener.recv(1)
    except BlockingIOError:
        return False
    return True
