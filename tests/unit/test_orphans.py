"""What a dead run left running is ended, and nothing else."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from team_runtime.process import orphans
from team_runtime.process.orphans import MARK, end_left_by, left_by

RUN, OTHER = f"run-{os.getpid()}", f"other-{os.getpid()}"
"""No other process that runs these tests may take ours for its own."""


class Programs:
    """Programs that are ended with the test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._all: list[subprocess.Popen[bytes]] = []

    def start(self, run: str, code: str = "exec sleep 99", name: str = "tool") -> int:
        """A program called `name`, started by `run`; collected as soon as it ends."""
        script = self._folder / name
        script.write_text(f"#!/bin/sh\n{code}\n")
        script.chmod(0o700)
        environ: Mapping[str, str] = {MARK: run, "PATH": os.environ["PATH"]}
        program = subprocess.Popen([str(script)], env=environ, start_new_session=True)
        threading.Thread(target=program.wait, daemon=True).start()
        self._all.append(program)
        return program.pid

    def end(self) -> None:
        for program in self._all:
            program.kill()
            program.wait()


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    programs = Programs(tmp_path)
    yield programs
    programs.end()


def test_only_the_processes_of_the_dead_runs_are_ended(programs: Programs) -> None:
    stubborn = programs.start(RUN, "trap '' TERM HUP; while :; do sleep 99; done")
    other = programs.start(OTHER)
    ended = [user.pid for user in end_left_by([RUN])]
    assert stubborn in ended
    assert other not in ended
    assert left_by([RUN]) == []
    assert [user.pid for user in left_by([OTHER])] == [other]


def test_git_may_finish(programs: Programs, tmp_path: Path) -> None:
    wrote = tmp_path / "written"
    programs.start(RUN, f"sleep 0.2; echo whole > {wrote}", name="git-work")
    assert "git-work" not in [user.name for user in end_left_by([RUN])]
    assert wrote.read_text() == "whole\n"
    assert left_by([RUN]) == []


def test_whoever_is_in_a_hurry_leaves_git_to_itself(programs: Programs) -> None:
    git = programs.start(RUN, "kill -STOP $$", name="git-work")
    other = programs.start(RUN)
    ended = [user.pid for user in end_left_by([RUN], leave_git=True)]
    assert other in ended
    assert git not in ended
    assert git in [user.pid for user in left_by([RUN])]


def test_git_that_does_not_end_is_ended(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "_GIT_LOOKS", 5)
    hung = programs.start(RUN, "while :; do sleep 0.05; done", name="git-hangs")
    assert hung in [user.pid for user in end_left_by([RUN])]


def test_where_nobody_tells_which_processes_there_are_none_is_ended(
    programs: Programs, tmp_path: Path
) -> None:
    programs.start(RUN)
    assert end_left_by([RUN], proc=tmp_path / "no-proc") == []
    assert len(left_by([RUN])) == 1
