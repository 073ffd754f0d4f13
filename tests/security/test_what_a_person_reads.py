"""A question cannot be written so that the person who answers it takes it for another one. Every
test is named by what must be blocked."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

from team_runtime.approvals.model import Approval, Asker, Cause, Subject
from team_runtime.cli.questions import always_line, details, fate
from team_runtime.clock import SystemClock

FORGED = "approval_2  lead asks: bash"


def asked(tool: str, input: dict[str, Any], *paths: str, reason: str = "it asks") -> Approval:
    return Approval(
        id="approval_1",
        kind="permission",
        asker=Asker("ann", "s", "r"),
        subject=Subject(tool, input, "/w", paths),
        cause=Cause(reason, None, "default"),
        asked_at="2026-01-01T00:00:00+00:00",
        deadline="2026-01-01T01:00:00+00:00",
    )


def shown(approval: Approval) -> list[str]:
    """The lines on the terminal."""
    text = [*details(approval, Path("/w")), always_line(approval), fate(approval, now())]
    return "\n".join(text).split("\n")


def now() -> Any:
    return SystemClock().now()


def width(line: str) -> int:
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


@pytest.mark.parametrize(
    "command",
    [
        "rm x\n" + "\n" * 500 + "ls",
        "rm x\n" + " \t\n" * 500 + "ls",
        "rm x" + " " * 5000 + "; ls",
    ],
    ids=["empty lines", "lines of blanks", "blanks"],
)
def test_emptiness_that_pushes_a_command_out_of_view(command: str) -> None:
    """google-gemini/gemini-cli#11510: what is left out is said, and both ends are shown."""
    lines = shown(asked("bash", {"command": command}))
    assert len(lines) < 10
    assert lines[0].startswith("  │ rm x")
    assert any(line.endswith("ls") for line in lines)


def test_a_long_call_whose_beginning_is_out_of_view() -> None:
    lines = shown(asked("bash", {"command": "rm x\n" + "#\n" * 200 + "ls"}))
    assert "  202 lines: the beginning is above" in lines


@pytest.mark.parametrize("columns", ["200", "80", "40"])
@pytest.mark.parametrize(
    "padding",
    ["x" * 99, "x" * 76, "世" * 60, "\t" * 19 + "x", "ｘ" * 38, "a\u0301" * 90, "x" * 36],
    ids=["long", "80", "wide", "tabs", "wide letters", "accents", "40"],
)
def test_a_line_that_the_terminal_breaks_where_no_bar_stands(
    padding: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    for line in details(asked("bash", {"command": padding + FORGED}), Path("/w"))[:-2]:
        assert line.startswith(("  │ ", "  ┆ "))
        assert width(line) <= int(columns)
        assert "\t" not in line


@pytest.mark.parametrize(
    "approval",
    [
        asked("write_file", {"path": f"a\n{FORGED}", "content": "x"}, f"a\n{FORGED}"),
        asked("bash", {"command": f"echo 'a\n{FORGED}'"}),
        asked("bash", {"command": "ls"}, reason=f"a hook asks: x\n{FORGED}"),
        asked("send_message", {"to": f"a\n{FORGED}", f"b\n{FORGED}": "c"}),
    ],
    ids=["path", "rule", "reason", "input"],
)
def test_a_line_break_that_begins_a_line_of_ours(approval: Approval) -> None:
    assert not [line for line in shown(approval) if line.startswith(FORGED)]
