"""`team permissions explain`: the run's own check, with nothing run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.api import team, team_environment
from tests.support.scripted_team import make_repository

pytestmark = pytest.mark.slow

LS = '{"command": "ls -l"}'


def explained(root: Path, *arguments: str) -> dict[str, str | None]:
    environ = team_environment(root.parent)
    done = team(["permissions", "explain", *arguments, "--json"], root, environ)
    assert done.returncode == 0, done.stderr
    answer: dict[str, str | None] = json.loads(done.stdout)
    assert set(answer) == {"decision", "rule", "origin", "reason"}
    return answer


def test_each_decision_with_its_rule(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "w")
    assert explained(root, "bash", LS)["decision"] == "ask"
    allowed = explained(root, "Bash", LS, "--allow", "Bash(ls *)")
    assert (allowed["decision"], allowed["rule"]) == ("allow", "Bash(ls *)")
    denied = explained(root, "bash", LS, "--allow", "Bash", "--deny", "Bash(ls *)")
    assert (denied["decision"], denied["rule"]) == ("deny", "Bash(ls *)")
    bypassed = explained(root, "bash", LS, "--permission-mode", "bypassPermissions")
    assert (bypassed["decision"], bypassed["origin"]) == ("allow", "mode")


@pytest.mark.parametrize("path", ["/etc/passwd", "../x", ".git/config", ".team/x", "team.toml"])
def test_what_no_mode_allows(tmp_path: Path, path: str) -> None:
    root = make_repository(tmp_path / "w")
    call = json.dumps({"file_path": path, "content": "x"})
    answer = explained(root, "Write", call, "--permission-mode", "bypassPermissions")
    assert answer["decision"] == "deny"


@pytest.mark.parametrize(
    ("tool", "call", "reason"),
    [
        ("read_file", {"path": "/etc/passwd"}, "/etc/passwd is outside of the workspace"),
        ("Read", {"file_path": "../x"}, "../x is outside of the workspace"),
        ("Grep", {"pattern": "x", "path": "/"}, "/ is outside of the workspace"),
        ("bash", {"command": "ls", "sandbox": False}, "Extra inputs are not permitted"),
        ("read_file", {}, "path: Field required"),
        ("create_task", {"subject": "x", "check": "rm x"}, "denied by Bash(rm *)"),
    ],
)
def test_what_would_not_run_is_not_said_to_be_allowed(
    tmp_path: Path, tool: str, call: dict[str, object], reason: str
) -> None:
    root = make_repository(tmp_path / "w")
    answer = explained(root, tool, json.dumps(call), "--allow", "Bash", "--deny", "Bash(rm *)")
    assert answer["decision"] == "deny"
    assert reason in str(answer["reason"])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing", "{}"], "there is no tool 'nothing'"),
        (["bash", "{"], "is not valid JSON"),
        (["bash", "[]"], "is not a JSON object"),
        (["bash", LS, "--allow", "Bassh"], "can match nothing"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    root = make_repository(tmp_path / "w")
    done = team(["permissions", "explain", *arguments], root, team_environment(tmp_path))
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
