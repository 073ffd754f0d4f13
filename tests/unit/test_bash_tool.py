"""`bash`, called as a model's calls are."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from team_runtime.guard.shell import MAX_LENGTH
from team_runtime.tools.output import LIMIT
from tests.contract.runner import ESCAPES, alive
from tests.support.tools import Desk

KEY = "sk-canary-not-a-key"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = tmp_path / "it's a «root»"
    root.mkdir()
    return Desk(root, environ={"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": KEY})


def test_both_streams_in_order(desk: Desk) -> None:
    assert desk.do("bash", command="echo 1; echo 2 >&2; echo 3") == "1\n2\n3\n"


def test_no_output_is_said(desk: Desk) -> None:
    result = desk.call("bash", command="true")
    assert not result.is_error
    assert result.block()["content"] == "(no output)"


def test_a_status_is_an_error_with_its_output(desk: Desk) -> None:
    text = desk.fail("bash", command="echo why; exit 7")
    assert text == "Error: command exited with status 7\nwhy\n"
    assert desk.fail("bash", command="kill -9 $$") == "Error: the command was ended by signal 9\n"


def test_works_in_its_directory(desk: Desk) -> None:
    """Claude Code's changelog: where one command had gone, the next began."""
    assert desk.do("bash", command="pwd -P") == f"{desk.root}\n"
    desk.do("bash", command="cd / && touch /dev/null")
    assert desk.do("bash", command="pwd -P") == f"{desk.root}\n"


def test_is_bash(desk: Desk) -> None:
    assert desk.do("bash", command='x=(a b); [[ b == b* ]] && echo "${x[1]}"') == "b\n"


@pytest.mark.parametrize("command", ["-x", "--version", "+o", "-c id"])
def test_a_command_is_no_option_of_the_shell(desk: Desk, command: str) -> None:
    assert "not found" in desk.fail("bash", command=command)


def test_no_input_is_waited_for(desk: Desk) -> None:
    assert desk.do("bash", command="cat; read x || echo none") == "none\n"


def test_the_environment_has_the_agent_and_no_secret(desk: Desk) -> None:
    environment = desk.do("bash", command="env; cat /proc/self/environ | tr '\\0' '\\n'")
    assert "TEAM_AGENT=ann" in environment.split("\n")
    assert KEY not in environment


def test_a_timeout_keeps_the_output(desk: Desk) -> None:
    text = desk.fail("bash", command="echo started; touch done; sleep 999", timeout=2)
    assert text.startswith("Error: the command was ended after 2 seconds")
    assert text.endswith("\nstarted\n")
    assert (desk.root / "done").exists()


@pytest.mark.parametrize("escapes", [False, True])
def test_what_is_left_running_delays_nothing(desk: Desk, escapes: bool) -> None:
    command = ESCAPES if escapes else "sleep 999 & echo $!"
    pid = int(desk.do("bash", command=command, timeout=60))
    if escapes:
        os.kill(pid, signal.SIGKILL)
    else:
        assert not alive(pid)


def test_long_output_is_kept_in_a_file_that_can_be_read(desk: Desk) -> None:
    text = desk.do("bash", command="seq 1 700000")
    assert len(text) < LIMIT + 500
    assert text.startswith("1\n2\n3\n")
    assert text.endswith("699999\n700000\n")
    found = re.search(r"the whole output is in (\S.*?\.txt)\]", text)
    assert found is not None
    assert Path(found[1]).read_bytes().count(b"\n") == 700_000
    assert desk.do("read_file", path=found[1], offset=500_000, limit=2).startswith("500001\n500002")
    other = Path(found[1]).with_name("..") / "root" / "x"
    assert "outside" in desk.fail("read_file", path=str(other))


def test_output_that_is_no_text_is_shown_and_kept(desk: Desk) -> None:
    assert desk.do("bash", command=r"printf 'a\377\000b\r\n'") == "a\ufffd\0b\r\n"
    text = desk.do("bash", command=f"head -c {LIMIT + 1} /dev/zero | tr '\\0' '\\377'")
    (kept,) = desk.spilled.iterdir()
    assert kept.read_bytes() == b"\xff" * (LIMIT + 1)
    assert "\ufffd" in text


@pytest.mark.parametrize("command", ["echo a\0b", "echo \ud800"])
def test_what_can_be_no_command_is_an_error(desk: Desk, command: str) -> None:
    desk.fail("bash", command=command)


def test_a_command_over_the_limit_does_not_run(desk: Desk) -> None:
    text = desk.fail("bash", command="touch x;" + " " * MAX_LENGTH)
    assert "are refused" in text
    assert list(desk.root.iterdir()) == []


def test_without_a_rule_nobody_runs_a_command(desk: Desk) -> None:
    asking = Desk(desk.root, allow=[])
    text = asking.fail("bash", command="touch x")
    assert text.startswith("Permission denied: no rule allows this command, and nobody was there")
    assert [asked.subject.input for asked in asking.asked] == [{"command": "touch x"}]
    assert asking.events.kinds() == ["permission_denied"]
    assert list(desk.root.iterdir()) == []
    asking.answer = True
    asking.do("bash", command="touch x")
    assert [path.name for path in desk.root.iterdir()] == ["x"]
