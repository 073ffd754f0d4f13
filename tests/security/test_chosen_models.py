"""A playbook in Python is a program. Nobody but a person has one played as a model: no file of a
workspace, no record in it, and no agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from team_runtime.app.preflight import goes_on_with, plays_program
from team_runtime.errors import InputError
from tests.support.api import Seen, team_environment
from tests.support.cli import team_here
from tests.support.scripted_team import make_repository, outside, run_team, spawn

PROGRAM = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
def reply(agent, messages):
    return {"say": "Done."}
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in team_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    root = make_repository(tmp_path / "work")
    (root / "evil.py").write_text(PROGRAM)
    return root


@pytest.mark.parametrize("model", ["scripted:evil.py", " scripted:evil.py", "\tscripted:evil.py/"])
@pytest.mark.parametrize("command", [["run", "Go."], ["daemon"]])
def test_a_file_of_the_workspace_that_names_a_program(
    root: Path, command: list[str], model: str
) -> None:
    """CVE-2025-59536, GHSA-wpqr-6v78-jr5g: a folder that was opened ran something."""
    (root / "team.toml").write_text(f"model = {json.dumps(model)}\n")
    refused = team_here(root, *command)
    assert refused.code == 2
    assert "a workspace cannot choose a scripted model" in refused.err
    assert not (root / "ran").exists()


@pytest.mark.parametrize("model", ["scripted:evil.py", " scripted:evil.py", "scripted:evil.py/"])
@pytest.mark.parametrize("command", [["run", "--continue"], ["daemon"]])
def test_a_session_of_the_workspace_that_names_a_program(
    root: Path, command: list[str], model: str
) -> None:
    outside(root).sessions.create({"team": "team", "model": model, "prompt": "Go."})
    refused = team_here(root, *command)
    assert refused.code == 2
    assert not (root / "ran").exists()
    record = outside(root).sessions.latest()
    assert record is not None
    assert plays_program(record)
    with pytest.raises(InputError, match="is a program; name it again: --model"):
        goes_on_with(record, {"model": None, "name": "x"})
    assert goes_on_with(record, {"model": "m"})["model"] == "m"


def test_a_person_that_names_a_program(root: Path) -> None:
    began = team_here(root, "run", "Go.", "--model", "scripted:evil.py")
    assert (began.code, began.out) == (0, "Done.\n"), began.err
    assert (root / "ran").exists()


@pytest.mark.parametrize("model", ["scripted:{}/evil.py", " scripted:{}/evil.py"])
def test_an_agent_that_names_a_program(root: Path, model: str) -> None:
    """Who may write a file in its worktree and choose a model would run it with all rights."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna", model=model.format(root))]
        assert "only a person chooses a scripted model" in seen.text
        yield "Done."

    ran = run_team(root, {"lead": lead}, permission_mode="bypassPermissions")
    assert ran.of("agent_spawned", "anna") == []
    assert not (root / "ran").exists()


def test_a_teammate_of_a_session_that_has_a_program(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield "Waiting."

    def anna(seen: Seen) -> Iterator[Any]:
        yield "Done."

    scripts = {"lead": lead, "anna": anna}
    session = run_team(root, scripts).result.session
    place = root / ".team" / "sessions" / session / "session.json"
    record = json.loads(place.read_text())
    (known,) = [agent for agent in record["agents"] if agent["name"] == "anna"]
    known["model"] = f"scripted:{root}/evil.py"
    place.write_text(json.dumps(record))
    ran = run_team(root, scripts, resume=session)
    assert [event["model"] for event in ran.of("agent_spawned", "anna")] == ["scripted:test"]
    assert not (root / "ran").exists()
