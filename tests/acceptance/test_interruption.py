"""Signals, on a terminal and without one: turns end or are ended, work is saved, and the session
goes on afterwards.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import FakeMessages, Seen, TeamScript, git
from tests.support.fake_messages import tool
from tests.support.interrupted import Interrupted, Terminal, eventually, waiting_workspace
from tests.support.kills import end_processes_of, processes_of, prove_mail, prove_transcripts

pytestmark = pytest.mark.slow

SLOW = pytest.mark.slow
SIGNALS = [
    signal.SIGINT,
    pytest.param(signal.SIGTERM, marks=SLOW),
    pytest.param(signal.SIGHUP, marks=SLOW),
]
ALLOW = ("--allow", "Bash(python3 wait.py *)", "--allow", "land_worktree")


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    yield waiting_workspace(tmp_path)
    end_processes_of(tmp_path)


def check_saved(run: Interrupted) -> None:
    """The task was given back with its work on its branch, and nothing is left running."""
    assert run.task()["status"] == "pending"
    assert run.outcomes() == ["released"]
    assert git(run.root, "show", "team/a:a.txt") == "written"
    assert git(run.root, "status", "--porcelain") == ""
    assert processes_of(run.root) == []


def check_completed(run: Interrupted, *outcomes: str) -> None:
    """The session went on and completed the task."""
    assert run.task()["status"] == "completed"
    assert run.outcomes() == list(outcomes)
    assert git(run.root, "show", "trunk:a.txt") == "written"
    assert git(run.root, "status", "--porcelain") == ""
    assert processes_of(run.root) == []
    prove_mail(run.root)
    prove_transcripts(run.root)


@pytest.mark.parametrize("number", SIGNALS)
def test_after_one_signal_the_turn_ends_and_the_work_is_saved(
    root: Path, number: signal.Signals
) -> None:
    run = Interrupted(root)
    run.start()
    run.reaches("program")
    run.interrupt(number)
    run.let_the_program_go_on()
    assert run.ends() == 130
    assert "finishing the current turns; press Ctrl-C again to stop now" in run.stderr
    assert f"to go on: team run --resume {run.session}" in run.stderr
    assert "Traceback" not in run.stderr
    check_saved(run)
    anna = (root / ".team" / "sessions" / run.session / "anna.jsonl").read_text()
    assert "it went on to its end" in anna
    done = run.resume(*ALLOW)
    assert done.returncode == 0, done.stderr
    check_completed(run, "released", "completed")


@pytest.mark.parametrize(
    ("number", "how"),
    [
        (signal.SIGTERM, "stubbornly"),
        pytest.param(signal.SIGINT, "politely", marks=SLOW),
        pytest.param(signal.SIGHUP, "politely", marks=SLOW),
    ],
)
def test_after_two_signals_a_running_program_is_ended(
    root: Path, number: signal.Signals, how: str
) -> None:
    run = Interrupted(root, TEAM_TEST_WAIT=how)
    run.start()
    run.reaches("program")
    run.interrupt(number, times=2)
    assert run.ends() == 130
    check_saved(run)
    done = run.resume(*ALLOW)
    assert done.returncode == 0, done.stderr
    check_completed(run, "released", "completed")


@pytest.mark.slow
def test_after_three_signals_the_process_leaves_at_once_and_leaves_no_program(root: Path) -> None:
    run = Interrupted(root, TEAM_TEST_WAIT="stubbornly")
    run.start()
    run.reaches("program")
    run.interrupt(times=3)
    assert run.ends() == 130
    assert run.task()["status"] == "in_progress", "nothing was tidied up"
    assert processes_of(root) == []
    done = run.resume(*ALLOW)
    assert done.returncode == 0, done.stderr
    check_completed(run, "resumed", "completed")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_team_that_only_waits_ends_at_the_first_signal(
    root: Path, number: signal.Signals
) -> None:
    run = Interrupted(root, TEAM_TEST_PLAN="1")
    run.start("--plan-review", "person")
    run.reaches("plan")
    run.interrupt(number)
    assert run.ends() == 130
    assert run.outcomes() == ["released"]
    assert processes_of(root) == []
    done = run.resume(*ALLOW, "--plan-review", "lead")
    assert done.returncode == 0, done.stderr
    check_completed(run, "released", "completed")


@pytest.mark.slow
def test_a_hanging_model_call_ends_at_the_second_signal(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [tool("create_task", {"subject": "Write a"})]
        yield [tool("create_worktree", {"name": "a", "task_id": "task_1"})]
        given = {"name": "anna", "role": "writer", "prompt": "Write a.", "task_id": "task_1"}
        yield [tool("spawn_teammate", given)]
        while not seen.message(type="result"):
            yield "I wait."
        yield [tool("land_worktree", {"name": "a"})]
        yield "It is done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [tool("write_file", {"path": "a.txt", "content": "written\n"})]
        yield {"content": ["half a"], "cut": 3, "how": "hang:30"}
        yield [tool("complete_task", {"task_id": "task_1"})]
        yield "I have handed it in."

    with FakeMessages(TeamScript({"lead": lead, "anna": anna})) as api:
        run = Interrupted(root, ANTHROPIC_BASE_URL=api.url, ANTHROPIC_API_KEY="sk-canary")
        run.start(model="claude-opus-5-5")
        eventually(lambda: sum(_of_anna(record) for record in api.log) == 2)
        eventually(lambda: run.has("agent_state", agent="lead", state="idle"))
        run.interrupt(times=2)
        assert run.ends() == 130
        check_saved(run)
        done = run.resume(*ALLOW)
        assert done.returncode == 0, done.stderr
        assert api.problems() == []
    check_completed(run, "released", "completed")


def _of_anna(record: dict[str, Any]) -> bool:
    return str(record["conversation"]).split("/")[1] == "anna"


@pytest.mark.parametrize(
    ("times", "outcome"), [(3, "resumed"), pytest.param(2, "released", marks=SLOW)]
)
def test_ctrl_c_at_a_terminal(root: Path, times: int, outcome: str) -> None:
    terminal = Terminal()
    run = Interrupted(root, terminal, TEAM_TEST_WAIT="stubbornly")
    run.start()
    run.reaches("program")
    terminal.opened()
    run.interrupt(times=times)
    assert run.ends() == 130
    assert processes_of(root) == []
    hidden, visible = b"\x1b[?25l", b"\x1b[?25h"
    eventually(lambda: terminal.seen.rfind(visible) > terminal.seen.rfind(hidden))
    assert b"Traceback" not in terminal.seen
    terminal.close()
    done = run.resume(*ALLOW)
    assert done.returncode == 0, done.stderr
    check_completed(run, outcome, "completed")


def test_a_person_who_is_asked_about_a_plan_can_press_ctrl_c(root: Path) -> None:
    terminal = Terminal()
    run = Interrupted(root, terminal, TEAM_TEST_PLAN="1")
    run.start("--plan-review", "person")
    run.reaches("plan")
    terminal.opened()
    run.interrupt()
    assert run.ends() == 130
    assert run.outcomes() == ["released"]
    assert b"Traceback" not in terminal.seen
    terminal.close()


def test_closing_the_terminal_is_a_first_signal(root: Path) -> None:
    terminal = Terminal()
    run = Interrupted(root, terminal)
    run.start()
    run.reaches("program")
    terminal.opened()
    terminal.close()
    eventually(lambda: run.has("agent_state", agent="anna", state="stopping"))
    run.let_the_program_go_on()
    assert run.ends() == 130
    check_saved(run)
    done = run.resume(*ALLOW)
    assert done.returncode == 0, done.stderr
    check_completed(run, "released", "completed")


def test_a_run_under_nohup_goes_on_when_its_terminal_is_closed(root: Path) -> None:
    run = Interrupted(root)
    run.start(prefix="trap '' HUP;")
    run.reaches("program")
    run.send(signal.SIGHUP)
    run.let_the_program_go_on()
    assert run.ends() == 0
    check_completed(run, "completed")
