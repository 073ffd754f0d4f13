"""Who started a process, read from a made-up list of processes and from the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from team_runtime.process.lineage import NAME, Untold, agent_above, is_in_sight
from team_runtime.store.presence import pid_namespace

ME = os.getpid()


def made_up(folder: Path, parents: dict[int, int], names: dict[int, str] | None = None) -> Path:
    """A list of processes, each with its parent; `ME` is the one that looks."""
    for pid, parent in parents.items():
        place = folder / ("self" if pid == ME else str(pid))
        place.mkdir(parents=True)
        name = (names or {}).get(pid, "sh (x) y")
        (place / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0 -1 0\n")
        (place / "environ").write_bytes(b"HOME=/\0")
    return folder


def test_a_person_started_it(tmp_path: Path) -> None:
    proc = made_up(tmp_path, {ME: 20, 20: 1, 1: 0})
    assert agent_above({}, proc=proc) is None


@pytest.mark.parametrize("variable", ["TEAM_AGENT", "TEAM_RUN"])
def test_its_own_environment_says_so(tmp_path: Path, variable: str) -> None:
    assert "anna" in (agent_above({variable: "anna"}, proc=tmp_path) or "")


def test_an_ancestor_is_called_a_run(tmp_path: Path) -> None:
    proc = made_up(tmp_path, {ME: 20, 20: 19, 19: 1, 1: 0}, {19: NAME})
    assert "process 19" in (agent_above({}, proc=proc) or "")


def test_an_ancestor_is_a_known_run(tmp_path: Path) -> None:
    proc = made_up(tmp_path, {ME: 20, 20: 19, 19: 1, 1: 0})
    assert "process 19" in (agent_above({}, {19}, proc) or "")


def test_an_ancestor_carries_a_mark(tmp_path: Path) -> None:
    proc = made_up(tmp_path, {ME: 20, 20: 19, 19: 1, 1: 0})
    (proc / "19" / "environ").write_bytes(b"A=1\0TEAM_AGENT=anna\0")
    assert "process 19" in (agent_above({}, proc=proc) or "")


def test_processes_of_others_may_be_out_of_sight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def kill(pid: int, number: int) -> None:
        assert (pid, number) == (700, 0)
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    assert agent_above({}, proc=made_up(tmp_path, {ME: 20, 20: 700})) is None


def test_a_process_of_our_own_that_is_out_of_sight_is_hidden(tmp_path: Path) -> None:
    with pytest.raises(Untold):
        agent_above({}, proc=made_up(tmp_path, {ME: 20, 20: os.getppid()}))


@pytest.mark.parametrize("put_over", ["1 (init) S 0 1 1 0 -1 0\n", "", "20 (sh) S\n", "20 (sh"])
def test_a_description_of_another_process_or_of_none_is_not_believed(
    tmp_path: Path, put_over: str
) -> None:
    proc = made_up(tmp_path, {ME: 20, 20: 1, 1: 0})
    (proc / "20" / "stat").write_text(put_over)
    with pytest.raises(Untold):
        agent_above({}, proc=proc)


def test_a_process_that_shows_no_origin_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "stat").mkdir()
    with pytest.raises(Untold):
        agent_above({}, proc=tmp_path)


def test_a_chain_without_an_end_is_not_believed(tmp_path: Path) -> None:
    with pytest.raises(Untold):
        agent_above({}, proc=made_up(tmp_path, {ME: 20, 20: 19, 19: 20}))


def test_without_a_file_system_of_processes_they_are_listed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from team_runtime.process.lineage import *; "
        "print(agent_above({}, {int(sys.argv[1])}, Path(sys.argv[2])))"
    )
    shell = f'"{sys.executable}" -c "{program}" {ME} {tmp_path}; true'
    done = subprocess.run(["sh", "-c", shell], capture_output=True, text=True, check=True)
    assert f"process {ME}" in done.stdout, done.stderr


def test_the_own_namespace_is_in_sight() -> None:
    own = pid_namespace("self")
    assert own is not None
    assert is_in_sight(own)
    assert not is_in_sight("pid:[1]")
