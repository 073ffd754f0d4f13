"""`team mail` and `team sessions`: writing to agents, and reading what they did."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen
from tests.support.cli import team_here
from tests.support.scripted_team import (
    Ran,
    bound_task,
    call,
    complete,
    make_repository,
    outside,
    run_team,
    spawn,
    until,
    write,
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A session in which anna did one task with an approved plan; tests only look at it."""
    root = make_repository(tmp_path_factory.mktemp("ran") / "repository")

    def lead(seen: Seen) -> Iterator[Any]:
        yield ["I split the work.", *bound_task(plan_required=True)]
        yield [spawn("anna", task_id="task_1")]
        yield "Waiting."
        request = seen.message(type="plan_request")
        assert request is not None
        yield [call("review_plan", request_id=request["request_id"], approve=True)]
        yield "Approved."
        yield "All done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="1. Write it")]
        yield "Planned."
        yield [call("todo_write", todos=[{"content": "write", "status": "in_progress"}])]
        yield [write("one.txt", "\x1b]0;title\x07" + "line\n" * 30), call("nonsense")]
        yield [complete()]
        yield "Written."

    return run_team(root, {"lead": lead, "anna": anna})


def test_a_message_reaches_a_teammate_of_a_live_run(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield until("agent_state", "anna", state="idle")
        yield lambda: sent.append(team_here(root, "mail", "send", "--to", "anna", "Hello <b>"))
        yield until("message_sent", "anna", to="lead", type="result", count=2)
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield "Ready."
        message = seen.message(type="message")
        assert message is not None
        assert (message["from"], message["body"]) == ("person", "Hello <b>")
        yield "Read it."

    sent: list[Any] = []
    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 0
    assert sent[0].code == 0, sent[0].err
    assert sent[0].out.endswith(" waits in the mailbox of anna\n")


def test_looking_at_mail_consumes_nothing(tmp_path: Path) -> None:
    bus = outside(tmp_path).bus
    bus.register("anna")
    text = "Please look:\n\x1b[2Jand answer"
    sent = team_here(tmp_path, "mail", "send", "--to", "anna", "-", "--json", stdin=text).json
    assert (sent["sender"], sent["type"], sent["body"]) == ("person", "message", text)
    for look in ("list", "show", "list"):
        assert team_here(tmp_path, "mail", look, "anna", "--json").json == [sent]
    line = team_here(tmp_path, "mail", "list", "anna").out
    assert line.endswith("  person  message  Please look: �[2Jand answer\n")
    shown = team_here(tmp_path, "mail", "show", "anna").out
    assert shown.endswith("\n  Please look:\n  �[2Jand answer\n\n")
    boxes = team_here(tmp_path, "mail", "list", "--json").json
    assert boxes == [{"name": "anna", "unread": 1}]
    assert [m.body for m in bus.take("anna")] == [text]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("send", "--to", "typo", "x"), "Valid names: anna, lead."),
        (("list", "typo"), "Valid names: anna, lead."),
        (("show", "../anna"), "Valid names: anna, lead."),
        (("send", "--to", "anna", " \n"), "the message is empty"),
        (("send", "--to", "anna", "-"), "the message is empty"),
    ],
)
def test_mail_that_cannot_be_sent_is_exit_2(
    ran: Ran, arguments: tuple[str, ...], sentence: str
) -> None:
    done = team_here(ran.root, "mail", *arguments)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert sorted(p.name for p in (ran.root / ".team" / "mail").iterdir()) == ["anna", "lead"]


def test_sessions_are_listed_newest_first(root: Path) -> None:
    ran = [run_team(root, {"lead": lambda seen: iter(["Nothing."])}) for _ in range(2)]
    listed = team_here(root, "sessions", "list", "--json").json
    assert [record["id"] for record in listed] == [r.result.session for r in reversed(ran)]
    line = team_here(root, "sessions", "list").out.splitlines()[1]
    assert line == f"{ran[0].result.session}  lead  Do it."


def test_a_session_is_shown_agent_by_agent_and_safe_to_print(ran: Ran) -> None:
    shown = team_here(ran.root, "sessions", "show", ran.result.session).out
    assert shown.index("──── lead ────") < shown.index("──── anna ────")
    for part in (
        "> Do it.",
        "• I split the work.",
        '→ create_task {"subject"',
        "✗ Error: there is no tool 'nonsense'",
        '> <team_message from="lead" type="plan_decision"',
        "• Written.",
    ):
        assert part in shown
    assert "\x1b" not in shown
    only = team_here(ran.root, "sessions", "show", ran.result.session, "--agent", "anna").out
    assert "──── lead ────" not in only
    assert (
        "more lines"
        not in team_here(ran.root, "sessions", "show", ran.result.session, "--full").out
    )


def test_a_session_is_exported_whole(ran: Ran, tmp_path: Path) -> None:
    session, file = ran.result.session, tmp_path / "session.jsonl"
    lines = team_here(ran.root, "sessions", "export", session).out.splitlines()
    records = [json.loads(line) for line in lines]
    assert team_here(ran.root, "sessions", "export", session, "--json").json == records
    assert team_here(ran.root, "sessions", "export", session, "--to", str(file)).code == 0
    assert [json.loads(line) for line in file.read_text().splitlines()] == records
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    by_kind: dict[str, list[Any]] = {}
    for record in records:
        by_kind.setdefault(record["record"], []).append(record)
    assert [r["id"] for r in by_kind["session"]] == [session]
    assert {r["agent"] for r in by_kind["entry"]} == {"lead", "anna"}
    assert [(r["id"], r["status"]) for r in by_kind["task"]] == [("task_1", "completed")]
    assert [(r["id"], r["agent"]) for r in by_kind["plan"]] == [("plan_1", "anna")]
    assert {r["kind"] for r in by_kind["event"]} >= {"run_started", "run_ended", "plan_decided"}


def test_an_export_never_overwrites(ran: Ran, tmp_path: Path) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("mine")
    done = team_here(ran.root, "sessions", "export", ran.result.session, "--to", str(file))
    assert (done.code, file.read_text()) == (2, "mine")
    assert "was left alone" in done.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show", "s-20260101-000000-0000"), "There is no session"),
        (("show", "../../etc"), "is no session id"),
        (("export", "nope"), "is no session id"),
        (("export", "{}", "--to", "/nonexistent/file"), "could not be written: No such file"),
        (("show", "{}", "--agent", "bob"), "no conversation of 'bob'; agents: lead, anna"),
    ],
)
def test_unknown_sessions_are_exit_2(ran: Ran, arguments: tuple[str, ...], sentence: str) -> None:
    named = [argument.format(ran.result.session) for argument in arguments]
    done = team_here(ran.root, "sessions", *named)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err


def test_a_workspace_without_sessions_says_so(tmp_path: Path) -> None:
    assert team_here(tmp_path, "sessions", "list").out == "No sessions yet.\n"
    assert team_here(tmp_path, "sessions", "list", "--json").json == []
    assert team_here(tmp_path, "mail", "list", "--json").json == []


def test_status_shows_the_agents_of_a_live_run(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task(plan_required=True)
        yield [spawn("anna", task_id="task_1")]
        yield until("agent_state", "anna", state="waiting for approval")
        yield lambda: shown.extend(team_here(root, "status", *form) for form in ([], ["--json"]))
        yield [call("request_shutdown", teammate="anna")]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="1. Look")]
        yield "Planned."

    shown: list[Any] = []
    ran = run_team(root, {"lead": lead, "anna": anna})
    lines = shown[0].out.splitlines()
    assert lines[1].startswith(f"session {ran.result.session} (pid ")
    assert lines[1].endswith(" is at work")
    assert lines[3].startswith("  anna         waiting for approval  task_1  since ")
    assert "  plan_1 revision 1 by anna waits for review: team plans show plan_1" in lines
    states = {agent["agent"]: agent["state"] for agent in shown[1].json["agents"]}
    assert states == {"lead": "working", "anna": "waiting for approval"}
    assert team_here(root, "status", "--json").json["agents"] == []
