from __future__ import annotations

import os
import resource
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from anyio import from_thread

from team_runtime.errors import ProgramMissing
from team_runtime.process.base import Command
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.gate import Gate
from team_runtime.process.orphans import end_left_by, left_by
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import Confinement, Limits, Sandbox
from tests.contract.test_runner import ThroughPortal
from tests.security.sandbox_contract import SandboxContract
from tests.support.confined import PATH, SECRET, Cell, Grounds, bubblewrap, make_grounds

NOBODY = 65534
BECOME_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")
RUNTIME = """
import sys
from pathlib import Path
from team_runtime.process.run import BlockingRunner
from tests.support.confined import Cell, Grounds
from team_runtime.process.detection import detect

Cell(detect("required", {"PATH": sys.argv[2]}), Grounds(Path(sys.argv[1]))).sh(
    "exec 3> up; echo up >&3; setsid sleep 1000 & (sleep 1000 & sleep 1000) & sleep 1000"
)
"""

NEVER_LETS_THROUGH = """
import sys
from pathlib import Path
from team_runtime.process.base import Command
from team_runtime.process.detection import detect
from team_runtime.process.gate import Gate
from team_runtime.process.orphans import MARK
from team_runtime.process.run import BlockingRunner
from tests.support.confined import Grounds

grounds, path = Grounds(Path(sys.argv[1])), sys.argv[2]
sandbox = detect("required", {"PATH": path})
Gate._let_through = lambda gate, pid: print(pid, flush=True)
command = Command(["touch", "ran"], grounds.worktree, {"PATH": path, MARK: sys.argv[3]}, 60)
BlockingRunner().run(sandbox.confine(command, grounds.policy))
"""
RAISE = """
import resource
for name in ("NPROC", "FSIZE"):
    limit = getattr(resource, f"RLIMIT_{name}")
    soft, hard = resource.getrlimit(limit)
    print(name, soft, hard)
    try:
        resource.setrlimit(limit, (soft, hard + 1))
    except (ValueError, OSError):
        print("held")
"""


@pytest.fixture
def sandbox() -> Sandbox:
    return bubblewrap()


class TestBubblewrap(SandboxContract):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return bubblewrap()

    def test_it_is_complete(self, sandbox: Sandbox) -> None:
        assert sandbox.complete

    @pytest.mark.parametrize(
        "script",
        [
            "echo 'gitdir: /x' > .git", "mv .git old", "rm -f .git", "echo x > n; mv n .git",
            "ln .git again && echo x >> again", "chmod 666 .git", "mv ../parser ../other",
        ],
    )  # fmt: skip
    def test_no_rewriting_of_the_git_pointer(
        self, cell: Cell, grounds: Grounds, script: str
    ) -> None:
        before = (grounds.worktree / ".git").read_text()
        cell.refuses(script)
        assert (grounds.worktree / ".git").read_text() == before

    def test_no_change_of_modes_outside(self, cell: Cell, grounds: Grounds) -> None:
        cell.refuses("chmod 777 $HOME/notes")
        cell.refuses("touch $HOME/notes")

    def test_no_sight_of_other_processes(self, cell: Cell) -> None:
        ended = cell.sh("ls -d /proc/[0-9]* | wc -l")
        assert int(ended.stdout) < 10

    def test_no_names_of_secrets(self, cell: Cell) -> None:
        for folder in ('"$HOME/.ssh"', "../../.team"):
            ended = cell.sh(f"ls -A {folder}")
            assert (ended.status, ended.stdout) == (0, b"")

    def test_no_temporary_file_of_another_program(self, cell: Cell, grounds: Grounds) -> None:
        with tempfile.NamedTemporaryFile(dir="/tmp", prefix="team-test-") as other:
            cell.refuses(f"cat {other.name}")
            assert cell.sh(f"echo x > {other.name}").status == 0  # in a /tmp of its own
            assert other.read() == b""

    def test_no_survivor_when_the_command_has_ended(self, cell: Cell, grounds: Grounds) -> None:
        with fifo(grounds) as up:
            cell.sh("exec 3> up; setsid sleep 1000 & exit 0")
            assert os.read(up, 1) == b""  # waits for the last one that holds the pipe

    @pytest.mark.usefixtures("sandbox")
    def test_no_survivor_when_the_runtime_is_killed(self, grounds: Grounds) -> None:
        os.mkfifo(grounds.worktree / "up")
        argv = [sys.executable, "-c", RUNTIME, str(grounds.root), PATH]
        runtime = subprocess.Popen(argv, cwd=Path(__file__).parents[2])
        up = os.open(grounds.worktree / "up", os.O_RDONLY)
        assert os.read(up, 3) == b"up\n"
        runtime.send_signal(signal.SIGKILL)
        runtime.wait()
        assert os.read(up, 1) == b""
        os.close(up)

    def test_commands_of_an_agent_live_as_long_as_they_need(
        self, sandbox: Sandbox, grounds: Grounds
    ) -> None:
        """What dies with its parent dies with the parent's thread: an agent's goes on before."""
        with from_thread.start_blocking_portal() as portal:
            cell = Cell(sandbox, grounds, ThroughPortal(portal))
            with fifo(grounds) as up:
                assert cell.sh("sleep 0.2; echo done | tee up").stdout == b"done\n"
                assert os.read(up, 5) == b"done\n"
            cell.refuses("echo x > $HOME/x")

    def test_a_time_out_ends_everything_inside(self, cell: Cell, grounds: Grounds) -> None:
        command = Command(
            ["sh", "-c", "trap '' TERM; exec 3> up; setsid sleep 1000 & sleep 1000"],
            grounds.worktree, {"PATH": PATH}, timeout=2,
        )  # fmt: skip
        with fifo(grounds) as up:
            ended = cell.runner.run(cell.sandbox.confine(command, grounds.policy))
            assert ended.timed_out
            assert os.read(up, 1) == b""

    def test_servers_can_be_tested_inside(self, cell: Cell) -> None:
        script = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print("connected")
"""
        assert cell.python(script).stdout == b"connected\n"

    def test_hidden_folders_cannot_be_filled(self, cell: Cell) -> None:
        cell.refuses("echo x > $HOME/.ssh/y")

    def test_work_goes_on_below_what_every_sandbox_has_of_its_own(self, cell: Cell) -> None:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            own = Path(folder)
            (own / "secrets").mkdir()
            (own / "secrets" / "key").write_text(SECRET)
            ended = cell.sh(
                f"echo x > {own}/file; ls -A {own}/secrets; ls -A /dev/shm",
                writable=(own,),
                hidden=(own / "secrets",),
            )
            assert ended.stdout.decode() == f"{own.name}\n"
            assert (own / "file").read_text() == "x\n"

    def test_where_it_cannot_forbid_namespaces_the_filter_does(
        self, sandbox: Bubblewrap, grounds: Grounds
    ) -> None:
        older = replace(sandbox, forbids_namespaces=False)
        Cell(older, grounds).refuses("unshare -U true")

    def test_no_raising_of_the_limits(self, cell: Cell) -> None:
        ended = cell.python(RAISE, limits=Limits(processes=77, file_bytes=2**20))
        assert ended.stdout == b"NPROC 77 77\nheld\nFSIZE 1048576 1048576\nheld\n"

    def test_no_descriptor_of_ours(self, cell: Cell) -> None:
        listing = cell.sh("echo /proc/$$/fd/*")  # which has the folder itself open
        assert listing.stdout.split() == [f"/proc/2/fd/{n}".encode() for n in range(4)]

    @pytest.mark.parametrize("on_loop", [False, True])
    def test_no_command_without_its_limits(
        self, sandbox: Sandbox, grounds: Grounds, monkeypatch: pytest.MonkeyPatch, on_loop: bool
    ) -> None:
        monkeypatch.setattr(resource, "prlimit", Mock(side_effect=PermissionError(1, "not you")))
        with from_thread.start_blocking_portal() as portal:
            runner = ThroughPortal(portal) if on_loop else BlockingRunner()
            with pytest.raises(ProgramMissing, match=r"limits cannot be set \(.*not you"):
                Cell(sandbox, grounds, runner).sh("echo > ran")
        assert not (grounds.worktree / "ran").exists()

    @pytest.mark.usefixtures("sandbox")
    def test_no_command_when_the_runtime_dies_before_it_has_its_limits(
        self, grounds: Grounds
    ) -> None:
        """Where the kernel does not end the process that waits, the next run does, by its mark."""
        mark = secrets.token_hex(8)
        argv = [sys.executable, "-c", NEVER_LETS_THROUGH, str(grounds.root), PATH, mark]
        runtime = subprocess.Popen(argv, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE)
        assert runtime.stdout is not None
        with runtime, runtime.stdout:
            waiting = int(runtime.stdout.readline())
            runtime.send_signal(signal.SIGKILL)
        end_left_by([mark])
        assert waiting not in [user.pid for user in left_by([mark])]
        assert not (grounds.worktree / "ran").exists()

    def test_no_end_of_a_pipe_lets_a_command_through(self) -> None:
        """What the process has when the runtime is gone: it waits on."""
        gate = Gate({"nproc": 10})
        passage = os.dup(gate.descriptors[1])
        gate.close()
        os.set_blocking(passage, False)
        with pytest.raises(BlockingIOError):
            os.read(passage, 1)
        os.close(passage)

    @pytest.mark.parametrize("lacking", ["passage", "report"])
    def test_no_descriptor_stays_open_when_there_are_too_many(
        self, monkeypatch: pytest.MonkeyPatch, lacking: str
    ) -> None:
        none_left = OSError(24, "too many open files")
        made = [*os.pipe()]
        opened = os.dup(made[0])
        ways = {
            "pipe": Mock(side_effect=[tuple(made), none_left]),
            "open": Mock(side_effect=none_left if lacking == "passage" else [opened]),
        }
        with monkeypatch.context() as patched:
            for name, way in ways.items():
                patched.setattr(os, name, way)
            with pytest.raises(OSError, match="too many"):
                Gate({"nproc": 10})
        if lacking == "passage":
            os.close(opened)
        for descriptor in (*made, opened):
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)


class AsNobody:
    """The sandbox as a normal user starts it; root lays down its rights first."""

    layer = "bubblewrap"
    limits_memory = True
    complete = True

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def confine(self, command: Command, policy: Confinement) -> Command:
        if os.geteuid() != 0:
            return self._sandbox.confine(command, policy)
        # The interpreter of the tests may lie in a folder that only root may enter.
        prefixes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent}
        seen = tuple(path for path in policy.readable if path not in prefixes)
        confined = self._sandbox.confine(command, replace(policy, readable=seen))
        return replace(confined, argv=[*BECOME_NOBODY, *confined.argv])

    def describe(self) -> str:
        return self._sandbox.describe()


def limit_as_nobody(pid: int, number: int, limits: tuple[int, int]) -> None:
    """`resource.prlimit` of a process that is a normal user's."""
    names = {resource.RLIMIT_NPROC: "nproc", resource.RLIMIT_FSIZE: "fsize"}
    soft, hard = limits
    argv = ["prlimit", f"--pid={pid}", f"--{names[number]}={soft}:{hard}"]
    subprocess.run([*BECOME_NOBODY, *argv], check=True)


class TestAsANormalUser:
    """Only shell: the interpreter of the tests may lie in a folder of root's."""

    @pytest.fixture
    def cell(self, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
        if os.geteuid() == 0:
            monkeypatch.setattr(resource, "prlimit", limit_as_nobody)
        with tempfile.TemporaryDirectory(prefix="team-test-", dir="/var/tmp") as folder:
            grounds = make_grounds(Path(folder) / "place")
            if os.geteuid() == 0:
                Path(folder).chmod(0o755)
                for path in [grounds.root, *grounds.root.rglob("*")]:
                    os.chown(path, NOBODY, NOBODY)
            yield Cell(AsNobody(sandbox), grounds)

    def test_work_goes_on(self, cell: Cell) -> None:
        assert cell.sh("echo hi > file && git status --porcelain && id -u").status == 0
        assert (cell.grounds.worktree / "file").read_text() == "hi\n"

    def test_no_write_outside_the_worktree(self, cell: Cell) -> None:
        cell.refuses("echo x > $HOME/x")
        cell.refuses("echo x > .git")
        cell.refuses("echo x > ../../.git/config")

    def test_no_secret_is_read(self, cell: Cell) -> None:
        cell.refuses("cat $HOME/.ssh/id_ed25519")
        cell.refuses("cat $HOME/.netrc")

    def test_no_namespace_inside(self, cell: Cell) -> None:
        cell.refuses("unshare -U true")

    def test_no_fork_bomb_over_the_limit(self, cell: Cell) -> None:
        limits = Limits(processes=40)
        bomb = "exec > counted 2>&1; for i in $(seq 200); do sleep 1000 & echo $i; done"
        cell.sh(bomb, limits=limits)
        counted = (cell.grounds.worktree / "counted").read_text()
        assert "fork" in counted.lower()
        assert 10 < len([line for line in counted.split() if line.isdigit()]) <= 40


@contextmanager
def fifo(grounds: Grounds) -> Iterator[int]:
    """A pipe in the worktree; its end is read when nobody holds it any more."""
    os.mkfifo(grounds.worktree / "up")
    reader = os.open(grounds.worktree / "up", os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    try:
        yield reader
    finally:
        os.close(reader)
