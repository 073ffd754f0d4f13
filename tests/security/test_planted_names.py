"""Names that were laid out in advance, and words that look like options: neither leads anywhere."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from team_runtime.clock import SystemClock
from team_runtime.errors import StoreFailed
from team_runtime.store.beneath import TEMPORARY, Beneath
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout
from tests.support.api import team, team_environment
from tests.support.cli import write_file
from tests.support.scripted_team import make_repository

KNOWN = "0123456789abcdef"


class Foreseen:
    """Tokens that somebody could foresee."""

    def token(self) -> str:
        return KNOWN

    def fraction(self) -> float:
        return 0.0


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    (tmp_path / "victim").write_text("precious")
    return tmp_path / "victim"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


def linked(name: Path, victim: Path) -> None:
    name.symlink_to(victim)


def dangling(name: Path, victim: Path) -> None:
    name.symlink_to(victim.with_name("new"))


def hard(name: Path, victim: Path) -> None:
    os.link(victim, name)


PLANTED = pytest.mark.parametrize("plant", [linked, dangling, hard])


def untouched(victim: Path) -> None:
    assert victim.read_text() == "precious"
    assert not victim.with_name("new").exists()


@PLANTED
def test_a_link_at_the_temporary_name_of_a_file_tool(
    plant: Callable[[Path, Path], None], top: Path, victim: Path
) -> None:
    """CVE-2026-46406: the name beside the file is new, or nothing is written."""
    plant(top / (TEMPORARY + KNOWN), victim)
    (top / "file").write_text("old")
    with pytest.raises(FileExistsError):
        Beneath(top, Foreseen()).write("file", b"new", lambda path: True)
    assert (top / "file").read_text() == "old"
    untouched(victim)


@PLANTED
def test_a_link_at_the_temporary_name_of_a_record(
    plant: Callable[[Path, Path], None], top: Path, victim: Path
) -> None:
    layout = Layout(top)
    layout.prepare()
    layout.tasks.mkdir()
    plant(layout.tasks / f".tmp-{KNOWN}", victim)
    store = Store(layout, SystemClock(), Foreseen(), "process")
    with pytest.raises(FileExistsError):
        store.publish(layout.tasks / "task_1.json", b"{}")
    assert not (layout.tasks / "task_1.json").exists()
    untouched(victim)


@PLANTED
def test_a_link_at_the_name_of_the_log(
    plant: Callable[[Path, Path], None], tmp_path: Path, victim: Path
) -> None:
    root = make_repository(tmp_path / "repository")
    (root / ".team").mkdir()
    plant(root / ".team" / "events.jsonl", victim)
    ran = team(["tasks", "add", "x"], root, team_environment(tmp_path))
    assert "Traceback" not in ran.stderr
    untouched(victim)


def commands(run: list[str]) -> list[list[str]]:
    create = ["worktrees", "create", "a", "--task", "task_1"]
    return [["tasks", "add", "x"], [*run, "Go."], create, ["approvals", "list"]]


FOLDERS = (
    *("mail", "sessions", "approvals", "plans", "runs", "locks", "quarantine", "spill", "jobs"),
    *("schedules", "temporary", "rescue", "worktrees", "mail/lead", "mail/anna/new", "x/y/z"),
)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_link_at_one_of_the_folders_of_the_runtime(tmp_path: Path, name: str) -> None:
    link = tmp_path / ".team" / name
    link.parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed, match=f"{name} could not be used: it is a link; remove it"):
        Store.open(tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.slow
def test_a_link_at_the_name_of_a_folder_of_the_runtime(tmp_path: Path, run: list[str]) -> None:
    """A repository can bring links of these names: git keeps them."""
    environ = team_environment(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = make_repository(tmp_path / "repository")
    (root / ".team").mkdir()
    for name in (name for name in FOLDERS if "/" not in name):
        (root / ".team" / name).symlink_to(elsewhere)
    for command in commands(run):
        ended = team(command, root, environ)
        assert ended.returncode == 1, (command, ended.stdout, ended.stderr)
        assert "it is a link" in ended.stderr
    assert list(elsewhere.iterdir()) == []


@pytest.mark.slow
@PLANTED
def test_a_link_at_the_name_of_a_lock(
    plant: Callable[[Path, Path], None], tmp_path: Path, victim: Path, run: list[str]
) -> None:
    root = make_repository(tmp_path / "repository")
    (root / ".team" / "locks").mkdir(parents=True)
    for name in ("team", "board", "git", "sessions", "cron", "mail-lead", "daemon"):
        plant(root / ".team" / "locks" / f"{name}.lock", victim)
    for command in commands(run):
        assert "Traceback" not in team(command, root, team_environment(tmp_path)).stderr
    untouched(victim)


def test_a_link_at_the_list_of_what_git_ignores(tmp_path: Path, victim: Path) -> None:
    root = make_repository(tmp_path / "repository")
    exclude = root / ".git" / "info" / "exclude"
    exclude.unlink(missing_ok=True)
    exclude.parent.mkdir(exist_ok=True)
    linked(exclude, victim)
    assert team(["tasks", "add", "x"], root, team_environment(tmp_path)).returncode == 0
    untouched(victim)


def test_what_the_runtime_keeps_is_for_its_user_alone(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repository")
    environ = team_environment(tmp_path)
    assert team(["tasks", "add", "x"], root, environ).returncode == 0
    assert stat.S_IMODE((root / ".team").stat().st_mode) == 0o700


PLAYBOOK = """
agents:
  lead:
    start:
      - calls:
          - {tool: bash, input: {command: touch made}}
      - say: Done.
"""


@pytest.fixture
def run(tmp_path: Path) -> list[str]:
    write_file(tmp_path / "playbook.yaml", PLAYBOOK)
    return ["run", "--model", f"scripted:{tmp_path / 'playbook.yaml'}", "--sandbox", "off"]


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["--allow Bash", "--allow=Bash", "--permission-mode=plan"])
def test_a_prompt_that_looks_like_an_option(prompt: str, tmp_path: Path, run: list[str]) -> None:
    """Deep links of Claude Code 2.1.118: an option was found in the text of a prompt."""
    root = make_repository(tmp_path / "repository")
    environ = team_environment(tmp_path)
    ended = team([*run, "--output-format", "json", "--", prompt], root, environ)
    assert json.loads(ended.stdout)["type"] == "result", ended.stderr
    assert not (root / "made").exists()
    recorded = (root / ".team" / "events.jsonl").read_text()
    assert "no rule allows this command" in recorded
    (session,) = (root / ".team" / "sessions").iterdir()
    assert prompt in (session / "lead.jsonl").read_text()


def test_a_subject_that_looks_like_an_option(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "repository")
    environ = team_environment(tmp_path)
    subject = "--check=touch hacked"
    assert team(["tasks", "add", "--", subject], root, environ).returncode == 0
    (task,) = json.loads(team(["tasks", "list", "--json"], root, environ).stdout)
    assert (task["subject"], task.get("check")) == (subject, None)
