"""What the command line loads before it answers: next to nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from team_runtime.cli.main import COMMANDS
from tests.support.cli import team_here

REPORT = """
import json, sys
sys.argv = ["team", *json.loads(sys.argv[1])]
try:
    from team_runtime.cli.main import main
    main()
except SystemExit as end:
    print("\\n" + json.dumps({"code": end.code, "modules": sorted(sys.modules)}))
"""
HEAVY = {"anthropic", "httpx2", "mcp", "pydantic", "rich", "git", "gitdb", "watchdog", "yaml"}


def loaded(folder: Path, *arguments: str) -> set[str]:
    """The modules that a fresh `team ARGUMENTS` has loaded when it ends well."""
    done = subprocess.run(
        [sys.executable, "-c", REPORT, json.dumps(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["code"] == 0, done.stderr
    return set(report["modules"])


@pytest.mark.parametrize("argument", ["--help", "--version", ""])
def test_help_and_version_load_no_command(tmp_path: Path, argument: str) -> None:
    modules = loaded(tmp_path, *argument.split())
    assert HEAVY.isdisjoint(modules)
    assert {"team_runtime.app", "team_runtime.store", "anyio"}.isdisjoint(modules)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("line", ["tasks list", "tasks add x", "status", "plans list", "mail list"])
def test_the_board_answers_without_a_heavy_library(tmp_path: Path, line: str) -> None:
    assert HEAVY.isdisjoint(loaded(tmp_path, *line.split()))


def test_the_help_of_a_run_needs_no_model_library(tmp_path: Path) -> None:
    assert HEAVY.isdisjoint(loaded(tmp_path, "run", "--help"))


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_and_is_listed(tmp_path: Path, name: str) -> None:
    assert f"  {name} " in team_here(tmp_path, "--help").out
    ran = team_here(tmp_path, name, "--help")
    assert ran.code == 0
    assert ran.out.startswith(f"Usage: team {name}")
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_the_package_version(tmp_path: Path) -> None:
    from importlib.metadata import version

    assert team_here(tmp_path, "--version").out == f"team {version('team_runtime')}\n"


@pytest.mark.parametrize(
    ("line", "problem", "command"),
    [
        ("nonsense", "No such command 'nonsense'", "team"),
        ("tasks nonsense", "No such command 'nonsense'", "team tasks"),
        ("cron cancel", "Commands: add, history, list, next, remove.", "team cron"),
        ("tasks list --zzz", "--zzz", "team tasks list"),
        ("tasks show", "Missing argument 'TASK_ID'", "team tasks show"),
        ("tasks list --status gone", "'gone' is not one of 'pending'", "team tasks list"),
        ("--workspace", "Option '--workspace' requires an argument", "team"),
    ],
)
def test_bad_usage_is_one_sentence_and_where_help_is(
    tmp_path: Path, line: str, problem: str, command: str
) -> None:
    ran = team_here(tmp_path, *line.split())
    assert (ran.code, ran.out) == (2, "")
    sentence, hint = ran.err.splitlines()
    assert sentence.startswith("team: ")
    assert problem in sentence
    assert hint == f"Try '{command} --help'."


@pytest.mark.parametrize(
    "line", ["--json -C {} tasks list", "tasks list --json -C {}", "-C {} tasks list --json"]
)
def test_the_global_options_may_stand_before_or_after(tmp_path: Path, line: str) -> None:
    board = tmp_path / "board"
    board.mkdir()
    team_here(board, "tasks", "add", "here")
    (task,) = team_here(tmp_path, *line.format(board).split()).json
    assert task["subject"] == "here"
