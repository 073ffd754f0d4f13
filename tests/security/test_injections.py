"""Text from outside stays data: in eight channels it changes no decision, comes to the model
wrapped, and comes to a person without what would not show."""

from __future__ import annotations

import re
import subprocess
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest

from team_runtime.cli.view import LineView
from team_runtime.clock import SystemClock
from team_runtime.guard.hook_config import PythonHook
from team_runtime.text import for_terminal, scrub
from team_runtime.types import Block
from tests.security.injections import INJECTIONS
from tests.support.api import Seen, git
from tests.support.cli import team_here
from tests.support.scripted_team import Ran, call, make_repository, outside, run_team

RULES: dict[str, Any] = {
    "allow": ["Bash(git log *)", "Bash(true)"],
    "deny": ["Bash(rm *)", "Read(secret.txt)"],
}
PROBES = [
    ("bash", {"command": "rm -rf ."}),
    ("bash", {"command": "touch hacked"}),
    ("read_file", {"path": "secret.txt"}),
    ("write_file", {"path": "hacked", "content": "x"}),
    ("bash", {"command": "true"}),
    ("land_worktree", {"name": "none"}),
]
"""Calls whose decisions must be the same, whatever was said before."""
Bring = Callable[[int, str], list[Block]]
"""The calls with which a text comes to the lead."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make_repository(tmp_path / "work")
    (root / "secret.txt").write_text("canary\n")
    return root


def decided(seen: Seen) -> list[str]:
    """What the last results say about the probes."""
    results = [block for block in seen.last if block["type"] == "tool_result"]
    return [block["content"].partition("\n<hook_context")[0] for block in results]


def told_in(
    root: Path,
    bring: Bring,
    hooks: list[PythonHook] | None = None,
    texts: Sequence[str] = INJECTIONS,
) -> tuple[Ran, list[list[Block]]]:
    """A run in which each text reaches the lead in turn and the probes follow; and the blocks that
    brought each. Asserts that what was decided never differed."""
    brought: list[list[Block]] = []

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call(name, **given) for name, given in PROBES]
        before = decided(seen)
        assert [text.partition(":")[0] for text in before].count("Permission denied") == 5
        for number, text in enumerate(texts):
            calls = bring(number, text)
            yield calls or [call("list_teammates")]
            brought.append(list(seen.last))
            yield [call(name, **given) for name, given in PROBES]
            assert decided(seen) == before, text
        yield "Done."

    ran = run_team(root, {"lead": lead}, hooks=hooks or [], timeout=100.0, **RULES)
    assert not (root / "hacked").exists()
    assert (root / "secret.txt").exists()
    assert len(brought) == len(texts)
    return ran, brought


def texts_of(blocks: list[Block], kind: str) -> str:
    return "\n".join(b.get("text") or b.get("content") or "" for b in blocks if b["type"] == kind)


def test_there_are_200_of_them() -> None:
    assert len(set(INJECTIONS)) == 200


def in_results_alone(brought: list[list[Block]]) -> None:
    """Nothing of it is text of its own: it stands in the result of the call that fetched it."""
    assert {block["type"] for blocks in brought for block in blocks} == {"tool_result"}


@pytest.mark.slow
def test_a_tool_result(root: Path) -> None:
    for number, text in enumerate(INJECTIONS):
        (root / f"{number}.txt").write_text(text)
    _, brought = told_in(root, lambda number, text: [call("read_file", path=f"{number}.txt")])
    in_results_alone(brought)


@pytest.mark.slow
def test_a_file_name(root: Path) -> None:
    for number, text in enumerate(INJECTIONS):
        name = text.replace("/", "∕").encode()[:240].decode(errors="ignore")
        (root / "names" / str(number)).mkdir(parents=True)
        (root / "names" / str(number) / name).write_text("x\n")
    _, brought = told_in(root, lambda number, text: [call("glob", pattern=f"names/{number}/*")])
    in_results_alone(brought)


@pytest.mark.slow
def test_a_commit_message(root: Path) -> None:
    stream = b""
    for number, text in enumerate(INJECTIONS):
        data = scrub(text).encode()
        stream += b"commit refs/heads/injected-%d\ncommitter x <x@x> 1 +0000\n" % number
        stream += b"data %d\n%b\n" % (len(data), data)
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input=stream, check=True)
    command = "git log -1 --format=%B injected-{}"
    _, brought = told_in(root, lambda n, text: [call("bash", command=command.format(n))])
    in_results_alone(brought)
    assert git(root, "branch", "--list", "injected-*").count("\n") == len(INJECTIONS) - 1


def as_branch(text: str) -> str:
    """The text as far as git takes it for the name of a branch."""
    name = re.sub(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.", "_", scrub(text))
    return "b" + name.encode()[:200].decode(errors="ignore").strip("/.")


@pytest.mark.slow
def test_the_name_of_a_branch(root: Path) -> None:
    made: list[str] = []

    def bring(number: int, text: str) -> list[Block]:
        branch = as_branch(text)
        git(root, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        git(root, "update-ref", f"refs/heads/{branch}", first)
        made.append(branch)
        given = {"name": f"w{number}", "task_id": f"task_{len(made)}"}
        return [call("create_task", subject="x"), call("create_worktree", **given)]

    first = git(root, "rev-parse", "HEAD")
    ran, brought = told_in(root, bring, texts=INJECTIONS[::10])  # a worktree takes a while
    in_results_alone(brought)
    assert [event["target"] for event in ran.of("worktree_created")] == made
    assert len(set(made)) == 20
    said = everything_said(root, [["worktrees", "list"], ["status"]])
    assert is_clean(said)


@pytest.mark.slow
def test_a_task_on_the_board(root: Path) -> None:
    def bring(number: int, text: str) -> list[Block]:
        made = call("create_task", subject=text, description=text, check=text)
        return [made, call("get_task", task_id=f"task_{number + 1}"), call("list_tasks")]

    ran, brought = told_in(root, bring)
    in_results_alone(brought)
    assert {task.status for task in ran.workspace.board.list()} == {"pending"}


JOB = {"job": "job_1", "status": "failed", "exit_code": "1"}
FIRING = {"schedule": "cron_00000000", "slot": "2026-12-01T09:00:00+00:00"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "attributes", "begins", "element"),
    [
        ("message", {}, '<team_message from="stranger" type="message" id="', "team_message"),
        (
            "notification",
            JOB,
            '<task_notification job="job_1" status="failed" ',
            "task_notification",
        ),
        ("notification", FIRING, '<scheduled id="cron_00000000" slot="', "scheduled"),
    ],
    ids=["mail", "the end of a job", "a prompt of a schedule"],
)
def test_a_message(
    root: Path, kind: str, attributes: dict[str, str], begins: str, element: str
) -> None:
    """claude-code#41406, #27102: an invented message passed for the runtime's own."""

    def bring(number: int, text: str) -> list[Block]:
        outside(root).bus.send("stranger", "lead", text, kind, attributes)
        return []

    _, brought = told_in(root, bring)
    for text, blocks in zip(INJECTIONS, brought, strict=True):
        (shown,) = [block["text"] for block in blocks if block["type"] == "text"]
        assert shown.startswith(begins)
        assert shown.endswith(f'">{escape(scrub(text), quote=False)}</{element}>')
        assert shown.count("<") == 2


@pytest.mark.slow
def test_what_a_hook_adds(root: Path) -> None:
    current = [""]

    def hook(payload: Mapping[str, Any]) -> Mapping[str, Any] | None:
        said = {"hookEventName": "PostToolUse", "additionalContext": current[0]}
        return {"hookSpecificOutput": said} if payload["tool_name"] == "list_teammates" else None

    def bring(number: int, text: str) -> list[Block]:
        current[0] = text
        return []

    _, brought = told_in(root, bring, [PythonHook("PostToolUse", hook)])
    in_results_alone(brought)
    for text, blocks in zip(INJECTIONS, brought, strict=True):
        shown = texts_of(blocks, "tool_result")
        head, _, rest = shown.partition('\n<hook_context event="PostToolUse">')
        assert rest == f"{escape(scrub(text).strip(), quote=False)}</hook_context>"
        assert "<" not in head


_ODD = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_SHOWN = (
    "\n\t\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Beside whitespace, signs that Unicode calls format characters and that are seen all the same."""


def is_clean(text: str) -> bool:
    """Whether all of it shows, and as what it is."""
    return not any(unicodedata.category(c) in _ODD and c not in _SHOWN for c in text)


@pytest.mark.parametrize("text", INJECTIONS[40::7], ids=ascii)
def test_what_is_cleaned_for_a_person_shows_as_it_is(text: str) -> None:
    assert not is_clean(text)
    assert is_clean(for_terminal(text))


def test_every_character_that_does_not_show_is_replaced() -> None:
    hidden = [
        chr(code)
        for code in range(0x110000)
        if unicodedata.category(chr(code)) in _ODD and chr(code) not in _SHOWN
    ]
    assert [ascii(c) for c in hidden if not is_clean(for_terminal(c))] == []


def everything_said(root: Path, commands: list[list[str]]) -> str:
    """What a person reads, on stdout and stderr, for people and as JSON."""
    said = ""
    for command in commands:
        for more in ([], ["--json"]):
            ran = team_here(root, *command, *more)
            assert ran.code in (0, 2, 4), (command, ran.err)
            said += ran.out + ran.err
    return said


@pytest.mark.slow
def test_what_a_person_reads_of_board_mail_plans_and_decisions(root: Path) -> None:
    workspace = outside(root)
    workspace.bus.register("anna")
    for text in INJECTIONS:
        workspace.board.create(text, description=text)
        workspace.bus.send("stranger", "anna", text)
    commands = [["tasks", "list"], ["mail", "list", "anna"], ["mail", "show", "anna"], ["status"]]
    for number in range(1, 201, 9):
        commands += [["tasks", "show", f"task_{number}"]]
    for text in INJECTIONS[40::30]:
        commands += [["permissions", "explain", "bash", f'{{"command": {ascii(text)[1:-1]!r}}}']]
        commands += [
            ["tasks", "show", text],
            ["mail", "list", text],
            ["permissions", "explain", text, "{}"],
        ]
    said = everything_said(root, commands)
    assert is_clean(said)
    assert not re.search(r"^  result: approved", said, re.M)


def test_what_a_person_sees_while_a_team_works(root: Path) -> None:
    shown: list[str] = []
    view = LineView(SystemClock(), shown.append)
    fields = ("subject", "text", "reason", "cause", "note", "role", "feedback", "path", "where")
    more = (
        "why",
        "name",
        "target",
        "to",
        "tool",
        "task",
        "plan",
        "by",
        "decision",
        "type",
        "state",
    )
    kinds = [
        *("agent_spawned", "agent_state", "tool_started", "tool_ended", "permission_denied"),
        *("task_created", "task_claimed", "task_completed", "task_released", "task_failed"),
        *("plan_submitted", "plan_decided", "worktree_created", "worktree_landed", "notice"),
        *("worktree_removed", "message_sent", "api_retry", "process_ended", "quarantined"),
    ]
    for text in INJECTIONS[::9]:
        for kind in kinds:
            record: dict[str, Any] = {
                "kind": kind,
                "agent": text,
                **dict.fromkeys((*fields, *more), text),
            }
            record |= {"is_error": True, "input": {"command": text}, "revision": 1, "delay": 1.0}
            view.on_event({**record, "kind": kind, "pid": 1})
        view.on_entry(text, {"kind": "assistant", "blocks": [{"type": "text", "text": text}]})
    assert len(shown) > 400
    assert is_clean("\n".join(shown))
