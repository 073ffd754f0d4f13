"""Questions as a person meets them: listed and answered from a second terminal, or asked about on
the first."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.api import team_environment
from tests.support.cli import OnTerminal, Ran, team_here, write_file
from tests.support.scripted_team import make_repository

ASKED = re.compile(r"team approvals allow (approval_\d+)")
EITHER = re.compile(r"team (?:plans approve|approvals allow) (plan_\d|approval_\d)")
QUESTION = re.compile(r"Allow (approval_\d+) of (\w+)\? \[y/n(/always)?\] ")
NOTE = re.compile(r"What shall it do instead\? ")
HIDING = "rm x\u202e;" + " " * 200 + "| sh \x1b[2J"
PLAYBOOK = f"""
agents:
  lead:
    start:
      - calls:
          - {{tool: create_task, input: {{subject: Make it}}}}
          - tool: spawn_teammate
            input: {{name: anna, role: maker, prompt: Make it., task_id: task_1}}
      - say: Waiting.
  anna:
    start:
      - calls:
          - {{tool: bash, input: {{command: {json.dumps(HIDING)}}}}}
      - calls:
          - {{tool: bash, input: {{command: touch made}}}}
      - calls:
          - {{tool: write_file, input: {{path: notes.txt, content: "new\\ntext\\n"}}}}
      - calls:
          - {{tool: complete_task, input: {{task_id: task_1}}}}
      - say: Done.
"""


class Team:
    """A run in a process of its own, and commands beside it."""

    def __init__(self, root: Path, environ: dict[str, str], playbook: str = PLAYBOOK) -> None:
        self.root = root
        self.environ = environ
        self.playbook = root.parent / "playbook.yaml"
        write_file(self.playbook, playbook)
        self.runs: list[subprocess.Popen[str]] = []

    @property
    def line(self) -> list[str]:
        return ["run", "Go.", "--model", f"scripted:{self.playbook}", "--sandbox", "off"]

    def start(self, *more: str, line: Sequence[str] = ()) -> subprocess.Popen[str]:
        """Begin a run that waits for answers."""
        run = subprocess.Popen(
            [sys.executable, "-m", "team_runtime", *(line or self.line), *more],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.runs.append(run)
        return run

    def asks(self, wanted: re.Pattern[str] = ASKED) -> str:
        """The id of the next question that the newest run tells of."""
        said = self.runs[-1].stdout
        assert said is not None
        for line in said:
            if match := wanted.search(line):
                return match[1]
        raise AssertionError("it asked nothing more")

    def end(self) -> tuple[int, str]:
        """How the newest run ended, and what else it said."""
        said, _ = self.runs[-1].communicate(timeout=50)
        return self.runs[-1].returncode, said

    def command(self, *arguments: str) -> Ran:
        return team_here(self.root, *arguments)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Team]:
    environ = team_environment(tmp_path)
    for name in ("HOME", "TEAM_CONFIG_DIR"):
        monkeypatch.setenv(name, environ[name])
    made = Team(make_repository(tmp_path / "repo"), environ)
    yield made
    for run in made.runs:
        run.kill()
        run.communicate()


def test_questions_are_listed_whole_and_answered_from_elsewhere(team: Team) -> None:
    team.start("--approvals", "wait")
    assert team.asks() == "approval_1"
    listed = team.command("approvals", "list").out
    assert "anna asks for task_1: bash" in listed
    assert "│ rm x<U+202E>; <200 blanks> | sh <U+001B>[2J" in listed
    assert "because no rule allows this command" in listed
    assert "this cannot be allowed always" in listed
    assert "approval_1 by anna waits for you" in team.command("status").out
    (waiting,) = team.command("status", "--json").json["approvals"]
    assert waiting == {"id": "approval_1", "agent": "anna", "task": "task_1", "tool": "bash"}
    states = {a["agent"]: a["state"] for a in team.command("status", "--json").json["agents"]}
    assert states["anna"] == "waiting for approval"

    assert team.command("approvals", "allow", "approval_1", "--always").code == 4
    denied = team.command("approvals", "deny", "approval_1", "--note", "Use touch.", "--json").json
    assert (denied["status"], denied["note"]) == ("denied", "Use touch.")
    late = team.command("approvals", "allow", "approval_1")
    assert late.code == 4
    assert "already denied by person (Use touch.); your answer changed nothing" in late.err

    assert team.asks() == "approval_2"
    assert "always would keep the rule Bash(touch made)" in team.command("approvals", "list").out
    kept = team.command("approvals", "allow", "approval_2", "--always")
    assert "The rule Bash(touch made) was kept for this workspace." in kept.out

    assert team.asks() == "approval_3"
    listed = team.command("approvals", "list").out
    change = ["@@ -1 +1,2 @@", "- as committed", "+ new", "+ text"]
    assert "\n".join(f"  │ {line}" for line in ["notes.txt", *change]) in listed
    assert team.command("approvals", "allow", "approval_3").code == 0
    code, said = team.end()
    assert code == 0, said
    assert (team.root / "made").exists()
    assert (team.root / "notes.txt").read_text() == "new\ntext\n"
    assert team.command("approvals", "list").out == "Nothing waits for you.\n"
    listed = team.command("approvals", "list", "--all").out
    assert "denied by person" in listed
    assert ": Use touch." in listed

    given = ("permissions", "explain", "bash", '{"command": "touch made"}', "--json")
    explained = team.command(*given).json
    assert (explained["decision"], explained["rule"]) == ("allow", "Bash(touch made)")
    assert explained["origin"].startswith("always allowed, ")
    assert team.command(*given, "--deny", "Bash(touch *)").json["decision"] == "deny"
    assert team.command("permissions", "always", "--json").json == ["Bash(touch made)"]
    assert team.command("permissions", "always", "--forget", "Bash(touch *)").code == 2
    assert team.command("permissions", "always", "--forget", "Bash(touch made)").code == 0
    assert team.command(*given).json["decision"] == "ask"


def test_nobody_but_a_person_answers(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM_AGENT", "anna")
    for arguments in (("allow", "approval_1"), ("deny", "approval_1"), ("allow", "x", "--always")):
        refused = team.command("approvals", *arguments)
        assert refused.code == 4
        assert "only a person may answer a question of an agent" in refused.err
    assert team.command("permissions", "always", "--forget", "Bash").code == 4
    assert team.command("approvals", "list").code == 0


@pytest.mark.parametrize("approval", ["approval_7", "x", "../plans/plan_1"])
def test_an_unknown_question_is_bad_input(team: Team, approval: str) -> None:
    for answer in ("allow", "deny"):
        ran = team.command("approvals", answer, approval)
        assert ran.code == 2
        assert "There is no approval" in ran.err


@pytest.mark.slow
def test_a_headless_run_says_what_it_refused_for_want_of_a_person(team: Team) -> None:
    team.start()
    code, said = team.end()
    assert code == 0, said
    assert "and nobody was there to answer" in said
    assert team.command("approvals", "list", "--json").json == []
    refused = team.command("approvals", "list", "--all", "--json").json
    assert [(a["status"], a["answeredBy"]) for a in refused] == [("denied", "runtime")] * 3
    assert {a["note"] for a in refused} == {"nobody was there to answer"}


@pytest.mark.slow
def test_a_question_of_a_killed_run_is_withdrawn_and_put_again(team: Team) -> None:
    """Nothing runs by an answer that comes while nobody is there who asked."""
    team.start("--approvals", "wait")
    assert team.asks() == "approval_1"
    team.runs[-1].kill()
    team.end()
    assert team.command("approvals", "list").out == "Nothing waits for you.\n"
    late = team.command("approvals", "allow", "approval_1")
    assert late.code == 4
    assert "was withdrawn (the run that asked has died)" in late.err

    team.start("--approvals", "wait", line=["run", "--continue", "--sandbox", "off"])
    assert team.asks() == "approval_2"
    listed = team.command("approvals", "list", "--all", "--json").json
    assert [approval["status"] for approval in listed] == ["withdrawn", "waiting"]
    assert listed[1]["session"] == listed[0]["session"]
    team.runs[-1].terminate()
    assert team.end()[0] == 130
    assert team.command("approvals", "list").out == "Nothing waits for you.\n"


PLANNING = """
agents:
  lead:
    start:
      - calls:
          - tool: spawn_teammate
            input: {name: anna, role: reader, prompt: Read., require_plan: true}
      - calls:
          - {tool: write_file, input: {path: notes.txt, content: new}}
      - say: Waiting.
  anna:
    start:
      - calls:
          - {tool: submit_plan, input: {plan: 1. Look}}
      - say: Planned.
"""


def on_terminal(team: Team, *more: str) -> OnTerminal:
    return OnTerminal([*team.line, *more], team.root, team.environ)


@pytest.mark.slow
def test_plans_that_wait_are_listed_with_the_questions(team: Team) -> None:
    write_file(team.playbook, PLANNING)
    team.start("--plan-review", "person", "--approvals", "wait")
    assert {team.asks(EITHER), team.asks(EITHER)} == {"approval_1", "plan_1"}
    waiting = team.command("approvals", "list", "--json").json
    assert [(each["id"], each["kind"]) for each in waiting] == [
        ("approval_1", "permission"),
        ("plan_1", "plan"),
    ]
    assert "team plans approve plan_1 --revision 1" in team.command("approvals", "list").out
    refused = team.command("approvals", "allow", "plan_1")
    assert refused.code == 2
    assert "team plans approve plan_1 --revision 1" in refused.err
    assert team.command("approvals", "allow", "approval_1").code == 0
    assert team.command("plans", "approve", "plan_1", "--revision", "1").code == 0
    assert team.end()[0] == 0


def test_a_person_on_the_terminal_is_asked_about_each_call_of_a_teammate(team: Team) -> None:
    """claude-code#36007, #46392, #48549: the question of a teammate was never shown."""
    terminal = on_terminal(team)
    first = terminal.until(QUESTION)
    assert (first[1], first[2], first[3]) == ("approval_1", "anna", None)
    assert "rm x<U+202E>; <200 blanks> | sh <U+001B>[2J" in terminal.shown
    terminal.type("always\n")
    terminal.until(re.compile("Please answer y"))
    terminal.until(QUESTION)
    terminal.type("n\n")
    terminal.until(NOTE)
    terminal.type("Use touch.\n")
    assert terminal.until(QUESTION)[3] == "/always"
    terminal.type("always\n")
    terminal.until(QUESTION)
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "a person said no: Use touch." in terminal.shown
    assert (team.root / "made").exists()
    assert (team.root / "notes.txt").read_text() == "new\ntext\n"
    assert team.command("permissions", "always", "--json").json == ["Bash(touch made)"]


@pytest.mark.slow
def test_what_is_answered_elsewhere_is_not_asked_any_more(team: Team) -> None:
    terminal = on_terminal(team)
    terminal.until(QUESTION)
    assert team.command("approvals", "deny", "approval_1").code == 0
    terminal.until(re.compile("approval_1 needs no answer any more"))
    assert terminal.until(QUESTION)[1] == "approval_2"
    terminal.type("n\n")
    terminal.until(NOTE)
    terminal.type("\n")
    terminal.until(QUESTION)
    terminal.type("y\n")
    assert terminal.end() == 0
    assert not (team.root / "made").exists()


@pytest.mark.slow
def test_a_question_that_lapses_is_not_asked_any_more(team: Team) -> None:
    terminal = on_terminal(team, "--approval-deadline", "1.5")
    terminal.until(QUESTION)
    terminal.until(re.compile("approval_1 needs no answer any more"))
    terminal.until(QUESTION)
    terminal.process.send_signal(2)
    assert terminal.end() == 130


def test_plans_and_calls_are_asked_about_one_after_the_other(team: Team) -> None:
    write_file(team.playbook, PLANNING)
    terminal = on_terminal(team, "--plan-review", "person")
    either = re.compile(
        r"(Allow approval_1 of lead|Approve plan_1 revision 1 of anna)\? \[y/n.*?\] "
    )
    first = terminal.until(either)[1]
    terminal.type("y\n")
    second = terminal.until(either)[1]
    terminal.type("y\n")
    assert {first.split()[0], second.split()[0]} == {"Allow", "Approve"}
    assert terminal.end() == 0
    assert (team.root / "notes.txt").read_text() == "new"


@pytest.mark.slow
def test_a_terminal_can_be_told_to_refuse(team: Team) -> None:
    terminal = on_terminal(team, "--approvals", "refuse")
    assert terminal.end() == 0
    assert "nobody was there to answer" in terminal.shown
    assert not QUESTION.search(terminal.shown)


@pytest.mark.slow
def test_an_answer_that_its_run_did_not_live_to_read_runs_nothing(team: Team) -> None:
    """The answer is written while the run stands still, which then dies."""
    harmless = PLAYBOOK.replace(json.dumps(HIDING), "touch first")
    write_file(team.playbook, harmless)
    team.start("--approvals", "wait")
    assert team.asks() == "approval_1"
    team.runs[-1].send_signal(signal.SIGSTOP)
    assert team.command("approvals", "allow", "approval_1").code == 0
    team.runs[-1].kill()
    team.end()

    team.start("--approvals", "wait", line=["run", "--continue", "--sandbox", "off"])
    asked = team.asks()
    assert asked == "approval_2"
    assert not (team.root / "first").exists()
    told = team.command(
        "sessions", "show", team.command("sessions", "list", "--json").json[0]["id"]
    )
    assert "whether it took effect is unknown" in told.out
    team.runs[-1].terminate()
    assert team.end()[0] == 130
