"""Two runs, two workspaces, two copies, and a second hand in what an agent works on."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import git, team
from tests.support.interrupted import MODEL, Interrupted, waiting_workspace
from tests.support.kills import (
    end_processes_of,
    event_log,
    processes_of,
    prove_mail,
    prove_transcripts,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
ALLOW = ("--allow", "Bash(python3 wait.py *)", "--allow", "land_worktree")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield waiting_workspace(tmp_path)
    end_processes_of(tmp_path)


@pytest.fixture
def working(root: Path) -> Interrupted:
    """A live run in which anna's program waits."""
    run = Interrupted(root)
    run.start()
    run.reaches("program")
    return run


def command(run: Interrupted, *arguments: str, fails: int = 0) -> Any:
    """The answer of a command in the run's workspace."""
    done = team(["--json", *arguments], run.root, run.environ)
    assert done.returncode == fails, done.stderr
    return json.loads(done.stdout) if done.stdout.strip() else done.stderr


def check_checkout(root: Path) -> None:
    """Nothing in the user's checkout was touched, and nothing runs any more."""
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/trunk"
    assert processes_of(root) == []


# Two runs


def test_a_second_run_is_refused_and_names_the_first(working: Interrupted) -> None:
    pid = working.pid
    for arguments in (["run", "Something else."], ["run", "--resume", working.session]):
        refused = team([*arguments, "--model", MODEL], working.root, working.environ)
        assert refused.returncode == 2
        assert f"(pid {pid}, session {working.session})" in refused.stderr
    assert len(list((working.root / ".team" / "sessions").iterdir())) == 1
    working.let_the_program_go_on()
    assert working.ends() == 0


def test_of_two_runs_that_start_at_the_same_instant_one_is_refused(root: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.racer", str(root), "20"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for _ in range(20):
            for racer in racers:
                assert racer.stdout is not None
                assert racer.stdout.readline() == "ready\n"
            for racer in racers:
                assert racer.stdin is not None
                racer.stdin.write("go\n")
                racer.stdin.flush()
            said = [r.stdout.readline().split() for r in racers if r.stdout is not None]
            assert sorted(each[0] for each in said) in (["0", "2"], ["0", "0"])
            for mine, other in (racers, racers[::-1]):
                outcome = said[racers.index(mine)]
                if outcome[0] == "2":
                    assert outcome[1] == str(other.pid)
                    assert outcome[2].startswith("s-")
    finally:
        for racer in racers:
            racer.communicate()
    spans = [e["kind"] for e in event_log(root) if e["kind"] in ("run_started", "run_ended")]
    assert spans == ["run_started", "run_ended"] * (len(spans) // 2), "never two at once"


# Commands beside a run


def test_commands_look_at_and_add_to_what_a_team_works_on(working: Interrupted) -> None:
    assert [task["id"] for task in command(working, "tasks", "list")] == ["task_1"]
    command(working, "tasks", "add", "Mine", "--worktree", "mine")
    assert command(working, "tasks", "claim", "task_2", "--as", "me")["owner"] == "me"
    why = team(["tasks", "why", "task_1"], working.root, working.environ)
    assert "held by anna" in why.stdout
    refused = team(["tasks", "claim", "task_1", "--as", "me"], working.root, working.environ)
    assert refused.returncode == 1
    assert "anna" in refused.stderr
    status = command(working, "status")
    assert [run["liveness"] for run in status["runs"]] == ["alive"]
    assert {task["owner"] for task in status["inProgress"]} == {"anna", "me"}
    assert {w["name"] for w in command(working, "worktrees", "list")} == {"a", "mine"}
    working.let_the_program_go_on()
    assert working.ends() == 0
    assert command(working, "tasks", "show", "task_2")["owner"] == "me"
    check_checkout(working.root)


def test_a_person_can_take_a_task_from_a_run_that_hangs(working: Interrupted) -> None:
    """hermes#23442: a call of twenty minutes was taken for a death. gastown#4793,
    Kilo-Org/cloud#3538: whoever looks asks the same lock."""
    working.send(signal.SIGSTOP)
    status = command(working, "status")
    assert [run["liveness"] for run in status["runs"]] == ["alive"], "no timer calls it dead"
    command(working, "tasks", "release", "task_1", "--force")
    assert command(working, "tasks", "claim", "task_1", "--as", "me")["owner"] == "me"
    working.send(signal.SIGCONT)
    working.let_the_program_go_on()
    assert working.ends() == 1
    task = working.task()
    assert (task["status"], task["owner"]) == ("in_progress", "me")
    assert working.outcomes() == ["forced", None]
    assert (working.root / "worktrees" / "a" / "a.txt").read_text() == "written\n"
    assert "not finished: task_1" in working.stderr
    command(working, "tasks", "complete", "task_1", "--as", "me")
    assert git(working.root, "show", "team/a:a.txt") == "written"
    check_checkout(working.root)


# Two workspaces


def test_two_workspaces_with_the_same_names_do_not_hear_each_other(tmp_path: Path) -> None:
    """claude-code#95954: two teams with the same names on one machine."""
    runs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        runs.append(Interrupted(waiting_workspace(tmp_path / name)))
    for run in runs:
        run.start()
    for run in runs:
        run.reaches("program")
    runs[0].interrupt(times=2)
    assert runs[0].ends() == 130
    assert runs[1].task()["status"] == "in_progress"
    runs[1].let_the_program_go_on()
    assert runs[1].ends() == 0
    for run in runs:
        sent = {e["message"] for e in event_log(run.root) if e["kind"] == "message_sent"}
        heard = {e["id"] for e in event_log(run.root) if e["kind"] == "message_delivered"}
        assert heard <= sent
    prove_transcripts(runs[1].root)
    prove_mail(runs[1].root)
    assert (runs[0].task()["status"], runs[1].task()["status"]) == ("pending", "completed")


def files_of(root: Path) -> dict[str, bytes]:
    """Every file of a workspace that a copy must not touch."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in ("worktrees", ".tasks", ".git", ".team/runs", ".team/worktrees")
        for path in (root / folder).rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("original", ["alive", pytest.param("dead", marks=pytest.mark.slow)])
def test_a_copied_workspace_keeps_its_hands_off_the_original(
    working: Interrupted, tmp_path: Path, original: str
) -> None:
    copy = Interrupted(tmp_path / "copy" / "repo")
    shutil.copytree(working.root, copy.root, symlinks=True, dirs_exist_ok=True)
    if original == "dead":
        working.send(signal.SIGKILL)
        working.ends()
    before = files_of(working.root)
    status = command(copy, "status")
    assert [run["liveness"] for run in status["runs"]] == ["unknown"]
    assert [task["owner"] for task in status["inProgress"]] == ["anna"]
    refused = team(["worktrees", "diff", "a"], copy.root, copy.environ)
    assert refused.returncode == 2
    assert f"it is in {working.root / 'worktrees' / 'a'}" in refused.stderr

    look = tmp_path / "look.py"
    look.write_text("def reply(agent, messages):\n    return 'I looked.'\n")
    started = team(["run", "Look.", "--model", f"scripted:{look}"], copy.root, copy.environ)
    assert started.returncode == 0, started.stderr
    assert "this workspace was copied or moved" in started.stderr
    assert copy.task()["owner"] == "anna", "its claim is not judged, so it is not given back"
    command(copy, "tasks", "release", "task_1", "--force")
    assert copy.task()["status"] == "pending"
    claimed = team(["tasks", "claim", "task_1", "--as", "me"], copy.root, copy.environ)
    assert claimed.returncode == 2
    removed = team(["worktrees", "remove", "a", "--discard"], copy.root, copy.environ)
    assert removed.returncode == 2
    assert files_of(working.root) == before

    working.let_the_program_go_on()
    if original == "dead":
        assert working.resume(*ALLOW).returncode == 0
    else:
        assert working.ends() == 0
    assert working.task()["status"] == "completed"
    check_checkout(working.root)


# Two hands in one task


def test_a_worktree_that_is_deleted_under_its_agent_is_an_error_and_no_other_folder_is_used(
    working: Interrupted,
) -> None:
    shutil.rmtree(working.root / "worktrees" / "a")
    working.let_the_program_go_on()
    assert working.ends() == 1
    assert working.task()["status"] in ("pending", "failed")
    anna = (working.root / ".team" / "sessions" / working.session / "anna.jsonl").read_text()
    assert "worktrees/a is gone" in anna
    assert "not finished: task_1" in working.stderr
    assert not (working.root / "a.txt").exists()
    check_checkout(working.root)


def test_a_task_whose_text_a_person_edits_is_completed_with_the_new_text(
    working: Interrupted,
) -> None:
    file = working.root / ".tasks" / "task_1.json"
    file.write_text(file.read_text().replace('"Write a"', '"Write a, please"'))
    working.let_the_program_go_on()
    assert working.ends() == 0
    assert working.task()["subject"] == "Write a, please"
    assert working.outcomes() == ["completed"]
    assert git(working.root, "log", "-1", "--format=%s", "team/a") == "Write a, please"


@pytest.mark.parametrize("how", ["broken", pytest.param("deleted", marks=pytest.mark.slow)])
def test_a_task_that_is_lost_under_its_owner_is_reported_and_its_work_stays(
    working: Interrupted, how: str
) -> None:
    file = working.root / ".tasks" / "task_1.json"
    if how == "broken":
        file.write_text("{ this is no task")
    else:
        file.unlink()
    working.let_the_program_go_on()
    assert working.ends() == 1
    assert "not finished: task_1" in working.stderr
    assert "Traceback" not in working.stderr
    anna = (working.root / ".team" / "sessions" / working.session / "anna.jsonl").read_text()
    assert "There is no task 'task_1'" in anna
    assert (working.root / "worktrees" / "a" / "a.txt").read_text() == "written\n"
    set_aside = list((working.root / ".team" / "quarantine").glob("task_1.json.*"))
    assert len(set_aside) == (2 if how == "broken" else 0)
    check_checkout(working.root)
