"""Landlock alone: the same list, and a proof that what it does not cover is said."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from team_runtime.process.landlock import NOT_COVERED, Landlock
from team_runtime.process.sandbox import Sandbox
from tests.security.sandbox_contract import SandboxContract
from tests.support.confined import Cell, Grounds, landlock

pytestmark = pytest.mark.slow


def not_covered(sandbox: Sandbox, what: str) -> None:
    """Assert that people are told so."""
    assert what in NOT_COVERED
    assert what in sandbox.describe().partition("not covered: ")[2]


class TestLandlock(SandboxContract):
    @pytest.fixture
    def sandbox(self) -> Sandbox:
        return landlock()

    def test_it_is_not_complete(self, sandbox: Sandbox) -> None:
        assert not sandbox.complete

    def test_the_git_pointer_is_not_covered(
        self, cell: Cell, sandbox: Sandbox, grounds: Grounds
    ) -> None:
        assert cell.sh("echo 'gitdir: /x' > .git").status == 0
        assert (grounds.worktree / ".git").read_text() == "gitdir: /x\n"
        not_covered(sandbox, "the .git file of a worktree")

    def test_names_and_modes_elsewhere_are_not_covered(
        self, cell: Cell, sandbox: Sandbox, grounds: Grounds
    ) -> None:
        assert cell.sh('ls "$HOME/.ssh"').stdout == b"id_ed25519\n"
        assert cell.sh('chmod 600 "$HOME/notes"').status == 0
        assert (grounds.home / "notes").stat().st_mode & 0o777 == 0o600
        not_covered(sandbox, "names and modes of files elsewhere")

    def test_processes_that_leave_their_session_are_not_covered(
        self, cell: Cell, sandbox: Sandbox
    ) -> None:
        ended = cell.sh("setsid sleep 1000 >/dev/null 2>&1 & echo $!")
        survivor = int(ended.stdout)
        os.kill(survivor, signal.SIGKILL)
        not_covered(sandbox, "processes that leave their session")

    def test_the_processes_of_others_are_not_covered(self, cell: Cell, sandbox: Sandbox) -> None:
        assert cell.sh(f"test -d /proc/{os.getpid()}").status == 0
        not_covered(sandbox, "the list of processes")
        not_covered(sandbox, "the number of processes")

    def test_what_an_older_kernel_does_not_cover_is_said(self) -> None:
        assert "signals to other processes" in Landlock(5).describe()
        assert "signals to other processes" not in Landlock(6).describe()

    def test_no_new_entry_beside_a_protected_folder(self, cell: Cell, grounds: Grounds) -> None:
        open_checkout = {
            "writable": (grounds.main,),
            "readable": (*grounds.policy.readable, grounds.git),
        }
        cell.refuses("echo x > ../../new", **open_checkout)
        assert cell.sh("ls ../..", **open_checkout).status == 0

    def test_a_command_that_is_not_there_is_said_to_be_not_started(self, cell: Cell) -> None:
        ended = cell.run("no-such-program")
        assert ended.status == 126
        assert b"did not start no-such-program" in ended.stdout

    def test_no_command_without_the_restriction(
        self, cell: Cell, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("team_runtime.process.landlock._ALL_BUT_DEVICE_CALLS", 1 << 62)
        ended = cell.sh("touch ran")
        assert ended.status == 126
        assert not (Path(cell.grounds.worktree) / "ran").exists()
