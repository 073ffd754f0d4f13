"""`team config show` and `team doctor`: what a run here would be like, and what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import git
from tests.support.cli import Ran, team_here, write_file

SECRET = "sk-canary-not-a-key"


@pytest.fixture(autouse=True)
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_CONFIG_DIR", str(tmp_path / "user"))
    (tmp_path / "user").mkdir()


def test_each_setting_has_its_value_and_origin(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "user" / "team.toml").write_text('allow = ["Bash(make *)"]\nname = "mine"\n')
    (root / "team.toml").write_text("max_turns = 9\n")
    monkeypatch.setenv("TEAM_MODEL", "claude-x")
    arguments = ("config", "show", "--allow", "land_worktree", "--timeout", "60")
    answer = team_here(root, *arguments, "--json").json
    mine, local = str(tmp_path / "user" / "team.toml"), str(root / "team.toml")
    assert answer["settings"]["model"] == {"value": "claude-x", "origin": ["TEAM_MODEL"]}
    assert answer["settings"]["max_turns"] == {"value": 9, "origin": [local]}
    assert answer["settings"]["timeout"] == {"value": 60.0, "origin": ["command line"]}
    assert answer["settings"]["plan_review"] == {"value": "lead", "origin": ["default"]}
    assert answer["settings"]["allow"] == {
        "value": ["Bash(make *)", "land_worktree"],
        "origin": [mine, "command line"],
    }
    assert answer["files"] == {mine: True, local: True}
    lines = team_here(root, *arguments).out.splitlines()
    assert "max_turns        9" in "\n".join(lines)
    assert f"{local}: read" in lines


def test_no_key_and_no_password_is_ever_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://user:{SECRET}@localhost:1/v1?key={SECRET}")
    for arguments in (("config", "show"), ("doctor",)):
        for form in ((), ("--json",)):
            ran = team_here(root, *arguments, *form)
            assert SECRET not in ran.out + ran.err
            assert "http://localhost:1/v1" in ran.out
    answer = team_here(root, "config", "show", "--json").json
    assert answer["keys"] == {"ANTHROPIC_API_KEY": True, "ANTHROPIC_AUTH_TOKEN": False}


def test_addresses_of_services_are_not_shown(root: Path, tmp_path: Path) -> None:
    (tmp_path / "user" / "team.toml").write_text(f'notify = ["bell", "json://{SECRET}@host/"]\n')
    for form in ((), ("--json",)):
        ran = team_here(root, "config", "show", *form)
        assert SECRET not in ran.out + ran.err
        assert "json://…" in ran.out


def test_a_way_to_be_told_that_cannot_work_is_found_before_a_run(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "user" / "team.toml").write_text('notify = ["pigeon"]\n')
    playbook = write_file(tmp_path / "playbook.py", "def reply(agent, messages):\n    return ''\n")
    for command in (("run", "hello", "--model", f"scripted:{playbook}"), ("doctor",)):
        ran = team_here(root, *command)
        assert ran.code in (1, 2)
        assert "'pigeon' is none of bell, desktop" in ran.out + ran.err
    assert not (root / ".team" / "sessions").exists()


def findings(ran: Ran) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(ran.out)}


def test_where_all_is_well_the_doctor_exits_0(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    ran = team_here(root, "doctor", "--json")
    assert ran.code == 0, ran.out
    found = findings(ran)
    assert {row["state"] for row in found.values()} <= {"ok", "note"}
    assert found["branch"]["detail"] == "work lands on main"
    assert found["sandbox"]["detail"].split(":")[0] in ("bubblewrap", "landlock", "none")
    assert team_here(root, "doctor").out.splitlines()[-1] == "A team can run here."
    assert not (root / ".team").exists(), "looking leaves nothing behind"
    assert git(root, "status", "--porcelain") == ""


def test_what_keeps_a_team_from_running_is_a_problem_with_a_hint(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    ran = team_here(plain, "doctor", "--json")
    assert ran.code == 1
    found = findings(ran)
    assert found["workspace"]["state"] == "problem"
    assert "git init" in found["workspace"]["detail"]
    assert found["key"]["state"] == "problem"
    assert "team demo" in found["key"]["hint"]
    assert team_here(plain, "doctor").out.splitlines()[-1] == "2 to fix first."


def test_no_key_is_needed_for_a_scripted_model(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_MODEL", f"scripted:{tmp_path / 'playbook.yaml'}")
    ran = team_here(root, "doctor", "--json")
    assert ran.code == 0
    assert "key" not in findings(ran)


@pytest.mark.parametrize(
    ("setting", "detail"),
    [
        ("model = ", "is not valid TOML"),
        ("colour = 1", "there is no such setting"),
        ('deny = ["Nothing(x)"]', "can match nothing"),
        ('model = "foo:bar"', "unknown model provider"),
    ],
)
def test_bad_settings_are_a_problem(root: Path, setting: str, detail: str) -> None:
    (root / "team.toml").write_text(setting)
    found = findings(team_here(root, "doctor", "--json"))
    assert found["settings"]["state"] == "problem"
    assert detail in found["settings"]["detail"]


def test_what_earlier_runs_left_is_noted(root: Path) -> None:
    team_here(root, "tasks", "add", "one")
    (root / ".tasks" / "task_1.json").write_text("{")
    team_here(root, "tasks", "list")
    found = findings(team_here(root, "doctor", "--json"))
    assert "1 file could not be read" in found["quarantine"]["detail"]
    (root / "notes.txt").write_text("changed")
    git(root, "checkout", "--quiet", "--detach")
    found = findings(team_here(root, "doctor", "--json"))
    assert found["checkout"]["detail"] == "1 change is not committed"
    assert found["branch"]["detail"] == "HEAD is detached"


def test_a_dead_run_is_noted(root: Path) -> None:
    board = "from team_runtime import Board; Board.open(sys.argv[1], run=True)"
    code = f"import os, sys; {board}; os._exit(9)"
    assert subprocess.run([sys.executable, "-c", code, root], check=False).returncode == 9
    found = findings(team_here(root, "doctor", "--json"))
    assert found["dead runs"]["state"] == "note"
    assert "team run --continue" in found["dead runs"]["hint"]
