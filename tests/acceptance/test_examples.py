"""Every example runs as its README says."""

from __future__ import annotations

import configparser
import json
import plistlib
import subprocess
import sys
from pathlib import Path

import pytest

from team_runtime.cli.daemon import command as daemon
from tests.support.api import git, team_environment
from tests.support.cli import team_here, write_file

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """What an installed `team` and a `TMPDIR` of its own look like."""
    (tmp_path / "bin").mkdir()
    script = f'#!/bin/sh\nexec "{sys.executable}" -m team_runtime "$@"\n'
    Path(write_file(tmp_path / "bin" / "team", script)).chmod(0o755)
    found = team_environment(tmp_path)
    return {**found, "PATH": f"{tmp_path / 'bin'}:{found['PATH']}", "TMPDIR": str(tmp_path)}


def output(command: list[str], tmp_path: Path, environ: dict[str, str]) -> str:
    """What an example prints; it must end well and complain about nothing."""
    done = subprocess.run(
        command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_each_example_is_in_the_readme() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    names = {path.name for path in EXAMPLES.iterdir() if path.is_file()} - {"README.md"}
    assert names == {name for name in names if f"]({name})" in readme}


def test_a_team_from_python(tmp_path: Path, environ: dict[str, str]) -> None:
    shown = output([sys.executable, str(EXAMPLES / "team_from_python.py")], tmp_path, environ)
    assert "The changelog has landed." in shown
    assert "task_1 completed: Write the changelog" in shown
    assert "# Changelog" in shown


def test_the_board_only(tmp_path: Path, environ: dict[str, str]) -> None:
    shown = output(["sh", str(EXAMPLES / "board_only.sh")], tmp_path, environ)
    assert "Each task was done exactly once." in shown
    assert shown.count(" completed ") == 3


def test_a_build_in_the_background(root: Path) -> None:
    model = f"scripted:{EXAMPLES / 'watch_the_build.yaml'}"
    allowed = ("--allow", "Bash(python3 build.py)", "--allow", "land_worktree")
    options = ("--model", model, *allowed, "--output-format", "stream-json")
    ran = team_here(root, "run", "Keep the build green.", *options)
    stream = [json.loads(line) for line in ran.out.splitlines()]
    assert stream[-1]["result"] == "The build is green and has landed.", ran.err
    kinds = [line["kind"] for line in stream if str(line.get("kind")).startswith("job_")]
    assert kinds == ["job_started", "job_ended"] * 2
    jobs = team_here(root, "jobs", "list", "--json").json
    assert [(job["status"], job["agent"]) for job in jobs] == [
        ("failed", "builder"),
        ("completed", "builder"),
    ]
    assert "ready is missing" in team_here(root, "jobs", "output", "job_1").out
    assert "ready" in git(root, "ls-tree", "--name-only", "main")


def test_a_playbook_in_yaml(root: Path) -> None:
    model = f"scripted:{EXAMPLES / 'my_playbook.yaml'}"
    ran = team_here(root, "run", "Write it.", "--model", model, "--allow", "land_worktree")
    assert (ran.code, ran.out) == (0, "The changelog has landed.\n"), ran.err
    assert "can subtract" in git(root, "show", "main:CHANGELOG.md")


def test_a_playbook_in_python(root: Path) -> None:
    ran = team_here(root, "run", "Count.", "--model", f"scripted:{EXAMPLES / 'my_playbook.py'}")
    assert (ran.code, ran.out) == (0, "Files here: 1\n"), ran.err


def test_a_reminder(root: Path) -> None:
    model = f"scripted:{EXAMPLES / 'reminder.yaml'}"
    ran = team_here(root, "run", "Remind me about the meeting.", "--model", model)
    assert ran.code == 0, ran.err
    assert ran.out.endswith(": the meeting begins now.\n")
    assert ran.out.startswith("It is 20")


def test_a_nightly_schedule(tmp_path: Path, environ: dict[str, str]) -> None:
    done = subprocess.run(
        ["sh", str(EXAMPLES / "nightly.sh")],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=50,
        check=True,
    )
    assert "start `team daemon`" in done.stderr
    *_, before, after = done.stdout.splitlines()
    assert (before, after) == ("2026-10-25T03:30:00+01:00", "2026-10-26T03:30:00+01:00")


def test_the_units_of_the_daemon_are_well_formed_and_name_options_that_exist() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(EXAMPLES / "team-daemon.service")
    (label, arguments) = ("local.team-daemon", unit["Service"]["ExecStart"].split()[1:])
    plist = plistlib.loads((EXAMPLES / "team-daemon.plist").read_bytes())
    assert plist["Label"] == label
    started = plist["ProgramArguments"][-1].split('/team"')[1].split()
    for name, *options in (arguments, started):
        assert name == "daemon"
        daemon.make_context(name, options)
