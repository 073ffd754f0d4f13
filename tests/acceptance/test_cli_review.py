"""A person at a terminal reviews the plans of a run, with the live view around the questions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.api import events, team_environment
from tests.support.cli import OnTerminal, team_here, write_file

pytestmark = pytest.mark.slow

QUESTION = re.compile(r"Approve (plan_\d) revision (\d) of (\w+)\? \[y/n\] ")
FEEDBACK = re.compile(r"What must change\? ")
PLAYBOOK = """
agents:
  lead:
    start:
      - calls:
          - tool: spawn_teammate
            input: {name: anna, role: reader, prompt: Read., require_plan: true}
      - say: Waiting.
  anna:
    start:
      - calls:
          - {tool: submit_plan, input: {plan: 1. Look}}
      - say: Planned.
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return team_environment(tmp_path)


def demo(tmp_path: Path, environ: Mapping[str, str]) -> tuple[OnTerminal, Path]:
    place = tmp_path / "demo"
    arguments = ["demo", "--interactive", "--pace", "0", "--dir", str(place)]
    return OnTerminal(arguments, tmp_path, environ), place


def test_a_rejected_plan_is_revised_and_asked_about_again(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    terminal, place = demo(tmp_path, environ)
    first = terminal.until(QUESTION)
    assert first.start() > terminal.shown.index(f"submitted {first[1]} revision 1")
    terminal.type("perhaps\n")
    terminal.until(re.compile("Please answer y"))
    terminal.until(QUESTION)
    terminal.type("N\n")
    terminal.until(FEEDBACK)
    terminal.type("\n")
    terminal.until(FEEDBACK)
    terminal.type("Übersetze es.\n")
    asked = [terminal.until(QUESTION)]
    terminal.type("y\n")
    asked.append(terminal.until(QUESTION))
    terminal.type("yes\n")
    assert terminal.end() == 0
    other = "plan_2" if first[1] == "plan_1" else "plan_1"
    assert {(match[1], match[2]) for match in asked} == {(first[1], "2"), (other, "1")}
    assert f"rejected {first[1]} revision 1 of {first[3]}" in terminal.shown
    assert "38 passed" in terminal.shown
    plan = team_here(place, "plans", "show", first[1], "--json").json
    states = [(r["state"], r["decidedBy"], r["feedback"]) for r in plan["revisions"]]
    assert states == [("rejected", "person", "Übersetze es."), ("approved", "person", "")]


def test_the_end_of_the_input_interrupts_the_run(tmp_path: Path, environ: dict[str, str]) -> None:
    terminal, place = demo(tmp_path, environ)
    terminal.until(QUESTION)
    terminal.type("\x04")
    assert terminal.end() == 130
    assert "nobody is at the terminal any more" in terminal.shown
    assert events(place)[-1]["kind"] == "run_ended"


def test_a_terminal_that_is_closed_ends_the_run_in_order(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    terminal, place = demo(tmp_path, environ)
    terminal.until(QUESTION)
    terminal.hang_up()
    terminal.process.wait(50)
    assert events(place)[-1]["kind"] == "run_ended"


def test_a_run_reviewed_by_a_person_asks_on_the_terminal(
    root: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    playbook = write_file(tmp_path / "playbook.yaml", PLAYBOOK)
    line = ["run", "x", "--plan-review", "person", "--model", f"scripted:{playbook}"]
    terminal = OnTerminal(line, root, environ)
    terminal.until(QUESTION)
    terminal.type("y\n")
    assert terminal.end() == 0
    assert "approved plan_1 revision 1 of anna" in terminal.shown


def test_a_plan_that_waits_since_an_earlier_run_is_asked_about(
    root: Path, tmp_path: Path, environ: dict[str, str]
) -> None:
    playbook = write_file(tmp_path / "playbook.yaml", PLAYBOOK)
    line = ["run", "x", "--plan-review", "person", "--model", f"scripted:{playbook}"]
    first = OnTerminal(line, root, environ)
    first.until(QUESTION)
    first.process.send_signal(9)
    first.end()
    again = OnTerminal(["run", "--continue", "--plan-review", "person"], root, environ)
    match = again.until(QUESTION)
    assert again.shown.index("1. Look") < match.start()
    again.type("y\n")
    assert again.end() == 0
    plan = team_here(root, "plans", "show", "plan_1", "--json").json
    assert [r["decidedBy"] for r in plan["revisions"]] == ["person"]


def test_what_was_typed_before_the_question_is_no_answer(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    terminal, place = demo(tmp_path, environ)
    terminal.type("y\ny\ny\ny\n")
    terminal.until(QUESTION)
    terminal.type("perhaps\n")
    terminal.until(re.compile("Please answer y"))
    terminal.process.send_signal(2)
    assert terminal.end() == 130
    assert {e["kind"] for e in events(place)}.isdisjoint({"plan_decided"})
