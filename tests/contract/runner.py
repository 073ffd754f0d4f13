"""What every `Runner` does, whatever thread it starts programs on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from team_runtime.errors import ProgramMissing
from team_runtime.process.base import ATTACHED, Command, Completed, Runner
from team_runtime.process.pipes import Pipes
from tests.support.interrupted import eventually

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
ESCAPES = (
    "setsid sh -c 'touch away; exec sleep 999' & echo $!; until [ -e away ]; do sleep 0.01; done"
)
"""Leaves a process in a session of its own that holds the output open, and prints its number."""


def alive(pid: int) -> bool:
    """Whether `pid` runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class RunnerContract:
    """Subclass it and give a `runner`."""

    @pytest.fixture
    def runner(self) -> Runner:
        raise NotImplementedError

    def sh(
        self,
        runner: Runner,
        script: str,
        cwd: Path,
        timeout: float = 30,
        keep: int = 1 << 20,
        input: bytes = b"",
        merge: bool = False,
        env: Mapping[str, str] = ENV,
    ) -> Completed:
        return runner.run(Command(["sh", "-c", script], cwd, env, timeout, input, keep, merge))

    def test_status_and_both_streams(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "echo out; echo err >&2; exit 7", tmp_path)
        assert done == Completed(7, b"out\n", b"err\n")

    def test_merged_streams_keep_the_order(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "echo 1; echo 2 >&2; echo 3", tmp_path, merge=True)
        assert (done.stdout, done.stderr) == (b"1\n2\n3\n", b"")

    def test_a_signal_is_a_negative_status(self, runner: Runner, tmp_path: Path) -> None:
        assert self.sh(runner, "kill -KILL $$", tmp_path).status == -signal.SIGKILL

    def test_arguments_are_not_interpreted(self, runner: Runner, tmp_path: Path) -> None:
        argv = ["printf", "%s|", "$(touch x)", "a b", "*", "-n", "日本\n"]
        done = runner.run(Command(argv, tmp_path, ENV, 30))
        assert done.stdout.decode() == "$(touch x)|a b|*|-n|日本\n|"
        assert list(tmp_path.iterdir()) == []

    def test_works_in_its_folder(self, runner: Runner, tmp_path: Path) -> None:
        folder = tmp_path / "it's a “folder”"
        folder.mkdir()
        assert self.sh(runner, "pwd", folder).stdout.decode() == f"{folder}\n"

    def test_only_the_given_environment(
        self, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
        done = runner.run(Command(["env"], tmp_path, {"PATH": ENV["PATH"], "A": "1"}, 30))
        assert sorted(done.stdout.split()) == [b"A=1", b"PATH=" + ENV["PATH"].encode()]

    def test_what_is_attached_can_be_read_and_nothing_else_is_open(
        self, runner: Runner, tmp_path: Path
    ) -> None:
        def ended(*argv: str) -> Completed:
            return runner.run(Command(argv, tmp_path, ENV, 30, attached=b"data"))

        assert ended("sh", "-c", "cat /dev/fd/$0", ATTACHED) == Completed(0, b"data", b"")
        assert len(ended("ls", "/proc/self/fd").stdout.split()) == 5  # with that of the folder

    def test_input_is_given_and_otherwise_empty(self, runner: Runner, tmp_path: Path) -> None:
        big = os.urandom(1 << 20)
        assert self.sh(runner, "cat", tmp_path, input=big, keep=1 << 21).stdout == big
        assert self.sh(runner, "cat", tmp_path).stdout == b""

    def test_bytes_that_are_no_text_survive(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, r"printf '\377\000\200'", tmp_path)
        assert done.stdout == b"\xff\x00\x80"

    def test_no_descriptor_is_inherited(self, runner: Runner, tmp_path: Path) -> None:
        held = os.open(tmp_path, os.O_RDONLY)
        os.set_inheritable(held, True)
        try:
            done = self.sh(runner, "ls /proc/self/fd", tmp_path)
        finally:
            os.close(held)
        assert set(done.stdout.split()) == {b"0", b"1", b"2", b"3"}  # 3: ls reads the folder

    def test_our_descriptors_are_given_back(self, runner: Runner, tmp_path: Path) -> None:
        self.sh(runner, "true", tmp_path)
        before = os.listdir("/proc/self/fd")  # noqa: PTH208
        for _ in range(3):
            self.sh(runner, "setsid sleep 0.5 & echo hi; sleep 0.05", tmp_path, input=b"x")
        assert len(os.listdir("/proc/self/fd")) == len(before)  # noqa: PTH208

    def test_a_session_of_its_own(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "echo $$; ps -o pgid=,sid= -p $$", tmp_path)
        pid, group, session = map(int, done.stdout.split())
        assert pid == group == session != os.getsid(0)

    def test_long_output_keeps_head_and_tail(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "seq 1 200000", tmp_path, keep=4000)
        whole = b"".join(b"%d\n" % n for n in range(1, 200001))
        head, tail = whole[:3000], whole[-1000:]
        gap = f"\n… [{len(whole) - 4000} bytes left out] …\n".encode()
        assert done.dropped == len(whole) - 4000
        assert done.stdout == head + gap + tail

    def test_output_is_whole_however_late_it_is_read(
        self, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A machine that stood still in that moment: the program is over before the first read."""
        close = Pipes.close_writers

        def late(pipes: Pipes) -> None:
            close(pipes)
            pid = eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
            with suppress(ChildProcessError):  # it is over, and another thread knows already
                os.waitid(os.P_PID, int(pid), os.WEXITED | os.WNOWAIT)

        monkeypatch.setattr(Pipes, "close_writers", late)
        monkeypatch.setattr("team_runtime.process.run.DRAIN", -1.0)
        done = self.sh(runner, "head -c 60000 /dev/zero; echo end >&2; echo $$ > pid", tmp_path)
        assert done == Completed(0, b"\0" * 60000, b"end\n")

    def test_output_that_just_fits_is_whole(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "printf 12345678", tmp_path, keep=8)
        assert (done.stdout, done.dropped) == (b"12345678", 0)

    def test_timeout_ends_the_whole_group(self, runner: Runner, tmp_path: Path) -> None:
        done = self.sh(runner, "sleep 999 & echo $!; sleep 999", tmp_path, timeout=2)
        assert done.timed_out
        assert done.status == -signal.SIGTERM
        assert not alive(int(done.stdout))

    def test_what_ignores_term_is_killed(
        self, runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("team_runtime.process.run.GRACE", 0.1)
        script = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
        done = self.sh(runner, script, tmp_path, timeout=2)
        assert (done.timed_out, done.status) == (True, -signal.SIGKILL)
        assert not alive(int(done.stdout))

    def test_a_child_left_in_the_group_is_ended(self, runner: Runner, tmp_path: Path) -> None:
        started = time.monotonic()
        done = self.sh(runner, "sleep 999 & echo $!", tmp_path)
        assert time.monotonic() - started < 20  # it would take 999
        assert (done.status, done.timed_out) == (0, False)
        assert not alive(int(done.stdout))

    def test_an_escaped_child_that_holds_the_pipe_delays_nothing(
        self, runner: Runner, tmp_path: Path
    ) -> None:
        started = time.monotonic()
        done = self.sh(runner, ESCAPES, tmp_path)
        assert time.monotonic() - started < 20
        os.kill(int(done.stdout), signal.SIGKILL)
        assert (done.status, done.timed_out) == (0, False)

    @pytest.mark.parametrize("program", ["no-such-program", "./data", "a\0b"])
    def test_a_program_that_cannot_start(
        self, runner: Runner, tmp_path: Path, program: str
    ) -> None:
        (tmp_path / "data").write_text("not executable")
        with pytest.raises(ProgramMissing) as caught:
            runner.run(Command([program], tmp_path, ENV, 30))
        assert caught.value.program == program

    def test_a_folder_that_is_not_there(self, runner: Runner, tmp_path: Path) -> None:
        with pytest.raises(ProgramMissing, match="gone is not there"):
            self.sh(runner, "true", tmp_path / "gone")

    @pytest.mark.slow
    def test_memory_stays_bounded(self, runner: Runner, tmp_path: Path) -> None:
        import resource

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        done = self.sh(runner, "head -c 100000000 /dev/zero", tmp_path, keep=1 << 20)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert done.dropped == 100_000_000 - (1 << 20)
        assert grown < 30_000  # KiB
