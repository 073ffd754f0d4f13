"""The `if` of a hook: which calls it is asked about, and that none slips past a gate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.guard.hook_conditions import Condition, parse_condition
from tests.support.hooking import fire, make_hooks, parsed, shell, table

HOME = Path("/home/x")


def condition(text: str, home: Path = HOME) -> Condition:
    return parse_condition(text, "x", TOOL_NAMES, home)


def runs(rule: str, command: Any) -> bool:
    return condition(rule).fits("bash", {"tool_input": {"command": command}, "cwd": "/w"})


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("git push", True),
        ("git push origin main", True),
        ("cd src && git push -f", True),
        ("true; git push", True),
        ("ls | git push", True),
        ("/usr/bin/git push", True),
        ("git -C src push", True),
        ("timeout 5 git push", True),
        ("git pull", False),
        ("git pushy", False),
        ("ls", False),
        ("ls && cat a.txt", False),
        ("g=git; $g push", True),
        ("$(echo ls)", True),
        ("ls > a.txt", True),
        ("echo 'unfinished", True),
        ("ls " + "a" * 30_000, True),
        (None, True),
    ],
)
def test_a_command_is_asked_about_when_any_part_fits_or_cannot_be_told(
    command: Any, asked: bool
) -> None:
    assert runs("Bash(git push *)", command) is asked


def test_another_tool_is_never_asked_about() -> None:
    given = {"tool_input": {"command": "git push"}, "cwd": "/w"}
    assert not condition("Bash(git push *)").fits("read_file", given)
    assert not condition("Edit(src/**)").fits("bash", given)
    assert condition("Bash").fits("bash", given)


@pytest.mark.parametrize(
    ("rule", "path", "asked"),
    [
        ("Edit(src/**)", "src/a.py", True),
        ("Edit(/src/**)", "src/sub/a.py", True),
        ("Edit(src/**)", "SRC/a.py", True),
        ("Edit(src/**)", "test/a.py", False),
        ("Edit(*.env)", "sub/x.env", True),
        ("Edit(src/**)", "link/a.py", True),
        ("Edit(src/**)", "out/a.py", True),
        ("Edit(/test/**)", "link/a.py", False),
        ("Edit(//{root}/src/**)", "src/a.py", True),
        ("Edit(//{root}/src/**)", "link/a.py", True),
        ("Edit(//{root}/src/**)", "test/a.py", False),
        ("Edit(~/w/src/**)", "src/a.py", True),
        ("Edit(~/other/**)", "src/a.py", False),
        ("Edit", "test/a.py", True),
    ],
)
def test_a_path_is_asked_about_as_it_is_named_and_where_links_lead(
    tmp_path: Path, rule: str, path: str, asked: bool
) -> None:
    root = tmp_path / "w"
    (root / "src").mkdir(parents=True)
    (root / "link").symlink_to("src")
    (root / "out").symlink_to("/usr")
    found = condition(rule.format(root=str(root).lstrip("/")), tmp_path)
    given = {"tool_input": {"file_path": str(root / path)}, "cwd": str(root)}
    assert found.fits("write_file", given) is asked


def test_what_a_search_finds_cannot_be_told_beforehand() -> None:
    given = {"tool_input": {"pattern": "x"}, "cwd": "/w"}
    assert condition("Read(*.env)").fits("grep", given)
    assert condition("Read(*.env)").fits("glob", given)


def test_a_gate_with_a_condition_is_run_for_what_it_is_about_alone(tmp_path: Path) -> None:
    gate = shell("echo no >&2; exit 2", **{"if": "Bash(git push *)"})
    hooks = make_hooks(parsed(table("PreToolUse", gate, matcher="Bash")), tmp_path)
    for command, blocked in (("git push", True), ("git pull", False), ("eval $X", True)):
        assert fire(hooks, tool_input={"command": command}).blocked is blocked


def test_identical_handlers_with_different_conditions_run_once_for_a_call_of_both(
    tmp_path: Path,
) -> None:
    both = [shell("echo x >> ran", **{"if": rule}) for rule in ("Bash(ls *)", "Bash(pwd)")]
    hooks = make_hooks(parsed(table("PreToolUse", *both)), tmp_path)
    for command in ("ls; pwd", "pwd", "id"):
        fire(hooks, tool_input={"command": command})
    assert (tmp_path / "ran").read_text() == "x\nx\n"
