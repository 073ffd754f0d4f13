"""Hooks that hang, flood, die, fork away or say nonsense: a gate never takes it for a yes."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from team_runtime.guard.hook_events import HOOK_EVENTS
from team_runtime.guard.hook_run import KEEP
from team_runtime.guard.trust import digest
from tests.support.hooking import (
    Json,
    calling,
    deciding,
    fire,
    http_hook,
    make_hooks,
    parsed,
    printing,
    shell,
    table,
)
from tests.support.state import Events

GATES = [name for name, row in HOOK_EVENTS.items() if row.gates]
FAULTS: dict[str, tuple[Json, str]] = {
    "hangs": (shell("sleep 60", timeout=0.2), "did not end within 0.2 seconds"),
    "hangs and ignores TERM": (
        shell("trap '' TERM; while :; do sleep 0.1; done", timeout=0.2),
        "did not end within 0.2 seconds",
    ),
    "floods": (shell("yes 0123456789 | head -c 100000000"), "printed more than"),
    "floods stderr": (shell("yes 0123456789 | head -c 100000000 >&2; exit 2"), "printed more than"),
    "floods for ever": (shell("yes", timeout=0.3), "did not end within"),
    "exits 1": (shell("echo oops >&2; exit 1"), "ended with status 1: oops"),
    "exits 3 with JSON that allows": (
        shell(printing(deciding("allow"))["command"] + "\nexit 3"),
        "ended with status 3",
    ),
    "cannot be executed": (shell("./data"), "ended with status 126"),
    "is not there": (shell("./no-such-program"), "ended with status 127"),
    "is not there, without a shell": (shell("no-such-program", args=[]), "could not be started"),
    "is killed": (shell("kill -9 $$"), "ended by signal 9"),
    "prints broken JSON": (shell("""echo '{"hookSpecificOutput": '"""), "broken JSON"),
    "prints an unknown field": (printing({"permissionDecision": "deny"}), "says nothing here"),
    "prints an unknown word": (printing({"decision": "deny"}), "its decision is 'deny'"),
    "prints a list": (printing([{"decision": "block"}]), "no object"),
    "prints bytes that are no text": (shell(r"printf '{\377'"), "broken JSON"),
    "exits 255": (shell("exit 255"), "ended with status 255"),
    "is ended by TERM": (shell("kill -15 $$"), "ended by signal 15"),
    "crashes": (shell("kill -11 $$"), "ended by signal 11"),
    "closes stdout": (shell("exec >&-; exit 9"), "ended with status 9"),
    "may not be executed": (
        {"type": "command", "command": "./data", "args": []},
        "could not be started",
    ),
    "is a folder": (shell("./"), "ended with status 126"),
    "prints two objects": (shell("echo '{}'; echo '{}'"), "broken JSON"),
    "prints an object after a greeting": (
        shell("echo Welcome; " + printing(deciding("deny"))["command"]),
        "JSON after other text",
    ),
    "takes back what it said": (
        shell("""echo '{"decision": "block", "decision": "approve"}'"""),
        "a key is there twice",
    ),
    "prints a broken object after a mark of its encoding": (
        shell(r"""printf '\357\273\277{"decision": "deny"'"""),
        "broken JSON",
    ),
    "prints an object that is too deep": (
        shell("head -c 100000 /dev/zero | tr '\\0' '[' | sed 's/^/{\"a\":/'"),
        "broken JSON",
    ),
    "decides by a number": (printing(deciding(5)), "its permissionDecision is 5"),
    "decides by an unknown word": (printing(deciding("allowed")), "is 'allowed'; it can be"),
    "decides with a list": (printing({"hookSpecificOutput": []}), "is no object"),
    "gives a reason that is no text": (printing(deciding("deny", 5)), "is no text"),
    "speaks of another event": (
        printing({"hookSpecificOutput": {"hookEventName": "Stop"}}),
        "hookEventName is not PreToolUse",
    ),
    "goes on with a word": (printing({"continue": "no"}), "neither true nor false"),
    "changes the input to a text": (
        printing({"hookSpecificOutput": {"updatedInput": "x"}}),
        "updatedInput is no object",
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "data").write_text("no program\n")
    yield tmp_path
    for path in tmp_path.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)


def lives(noted: Path) -> bool:
    """Whether the process whose id is in the file still runs."""
    try:
        stat = Path("/proc", noted.read_text().strip(), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_gate_fails_closed(fault: str, folder: Path) -> None:
    handler, said = FAULTS[fault]
    events = Events()
    outcome = fire(make_hooks(parsed(table("PreToolUse", handler)), folder, events))
    assert outcome.blocked
    assert said in outcome.reason
    assert "the hook itself failed" in outcome.reason
    assert events.kinds() == ["hook_ran", "notice"]


def test_who_prints_a_yes_and_exits_with_2_said_no(folder: Path) -> None:
    command = printing(deciding("allow"))["command"] + "\necho no >&2; exit 2"
    outcome = fire(make_hooks(parsed(table("PreToolUse", shell(command))), folder))
    assert (outcome.blocked, outcome.reason) == (True, "no")


def test_a_mark_of_the_encoding_hides_no_refusal(folder: Path) -> None:
    command = r"""printf '\357\273\277{"decision": "block", "reason": "no"}'"""
    outcome = fire(make_hooks(parsed(table("PreToolUse", shell(command))), folder))
    assert (outcome.blocked, outcome.reason) == (True, "no")


@pytest.mark.parametrize("event", HOOK_EVENTS)
def test_what_a_failing_hook_does_is_what_the_table_says(event: str, folder: Path) -> None:
    hooks = make_hooks(parsed(table(event, shell("exit 1"))), folder)
    subject = (HOOK_EVENTS[event].values or ("bash",))[0]
    assert fire(hooks, event, subject).blocked is (event in GATES)


@pytest.mark.parametrize("event", GATES)
def test_every_gate_may_be_told_to_go_on_and_then_does(event: str, folder: Path) -> None:
    hooks = make_hooks(parsed(table(event, shell("exit 1", on_error="allow"))), folder)
    assert not fire(hooks, event).blocked


def test_one_that_refuses_is_not_outvoted_by_one_that_fails_open(folder: Path) -> None:
    given = table(
        "PreToolUse",
        shell("exit 1", on_error="allow"),
        shell("echo no >&2; exit 2"),
        printing(deciding("allow", "fine")),
    )
    outcome = fire(make_hooks(parsed(given), folder))
    assert (outcome.blocked, outcome.reason) == (True, "no")


@pytest.mark.parametrize("setsid", ["", "setsid "])
def test_a_child_that_forks_away_with_the_pipe_delays_nothing(setsid: str, folder: Path) -> None:
    command = (
        f"{setsid}sh -c 'echo $$ > away.pid; exec sleep 60' &\nwhile [ ! -s away.pid ]; do :; done"
    )
    outcome = fire(make_hooks(parsed(table("PreToolUse", shell(command))), folder))
    assert not outcome.blocked
    if not setsid:
        assert not lives(folder / "away.pid")


def test_a_time_out_ends_the_whole_group(folder: Path) -> None:
    command = "sh -c 'echo $$ > child.pid; exec sleep 60' & sleep 60"
    hooks = make_hooks(parsed(table("PreToolUse", shell(command, timeout=2))), folder)
    assert fire(hooks).blocked
    assert not lives(folder / "child.pid")


def test_output_is_kept_up_to_its_limit(folder: Path) -> None:
    (folder / "said").write_text(json.dumps(deciding("deny", "x" * (KEEP // 2))))
    outcome = fire(make_hooks(parsed(table("PreToolUse", shell("cat said"))), folder))
    assert outcome.blocked
    assert "characters left out" in outcome.reason


def test_no_key_reaches_a_hook(folder: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "ANTHROPIC_API_KEY": "canary",
        "AWS_SECRET_ACCESS_KEY": "canary",
        "GIT_DIR": "canary",
        "BASH_ENV": "canary",
    }
    hooks = parsed(table("PreToolUse", shell("env > seen; cat /proc/$PPID/environ >> /dev/null")))
    fire(make_hooks(hooks, folder, environ=environ))
    assert "canary" not in (folder / "seen").read_text()


@pytest.mark.parametrize("error", [RuntimeError("boom"), SystemExit(0)])
def test_a_function_that_raises_denies(error: BaseException, folder: Path) -> None:
    def call(payload: object) -> None:
        raise error

    outcome = fire(make_hooks(calling(call), folder))
    assert outcome.blocked
    assert type(error).__name__ in outcome.reason


def test_a_function_that_hangs_denies(folder: Path) -> None:
    release = threading.Event()
    (hook,) = calling(lambda payload: {"systemMessage": str(release.wait(20))})
    outcome = fire(make_hooks([replace(hook, timeout=0.05)], folder))
    release.set()
    assert outcome.blocked
    assert "did not end within 0.05 seconds" in outcome.reason


def http(url: str, **more: Any) -> Json:
    return {"type": "http", "url": url, **more}


def test_an_http_hook_decides_like_a_command(folder: Path) -> None:
    seen: list[tuple[Json, Any]] = []

    def answer(body: Json, headers: Any) -> tuple[int, bytes]:
        seen.append((body, headers))
        return 200, json.dumps(deciding("deny", "not here")).encode()

    environ = {"PATH": "/usr/bin", "HOOK_KEY": "k-1"}
    more = {"headers": {"X-Key": "Bearer ${HOOK_KEY}"}, "allowedEnvVars": ["HOOK_KEY"]}
    with http_hook(answer) as url:
        given = table("PreToolUse", http(url, **more))
        outcome = fire(make_hooks(parsed(given), folder, environ=environ), tool_name="Bash")
    assert (outcome.blocked, outcome.reason) == (True, "not here")
    ((body, headers),) = seen
    assert body["tool_name"] == "Bash"
    assert headers["X-Key"] == "Bearer k-1"
    assert headers["Content-Type"] == "application/json"


HTTP_FAULTS: dict[str, tuple[int, bytes, str]] = {
    "answers 404": (404, b"", "answered 404"),
    "answers 500 with JSON that allows": (500, b'{"decision": "approve"}', "answered 500"),
    "sends it elsewhere": (302, b"http://169.254.169.254/latest", "answered 302"),
    "sends it to a file": (307, b"file:///etc/passwd", "answered 307"),
    "answers broken JSON": (200, b"{", "broken JSON"),
    "floods": (200, b" " * (KEEP + 10), "more than"),
}


@pytest.mark.parametrize("fault", HTTP_FAULTS)
def test_an_http_gate_fails_closed(fault: str, folder: Path) -> None:
    status, body, said = HTTP_FAULTS[fault]
    with http_hook(lambda *_: (status, body)) as url:
        outcome = fire(make_hooks(parsed(table("PreToolUse", http(url))), folder))
    assert outcome.blocked
    assert said in outcome.reason


def test_an_http_gate_that_nobody_answers_fails_closed(folder: Path) -> None:
    release = threading.Event()

    def answer(*_: Any) -> tuple[int, bytes]:
        release.wait(20)
        return 200, b""

    with http_hook(answer) as url:
        try:
            hooks = make_hooks(parsed(table("PreToolUse", http(url, timeout=0.1))), folder)
            assert fire(hooks).blocked
        finally:
            release.set()
    assert "could not be reached" in fire(hooks).reason


def test_a_script_that_changed_since_it_was_trusted_is_not_run(folder: Path) -> None:
    script = folder / "check.sh"
    script.write_text("exit 0\n")
    (hook,) = parsed(table("PreToolUse", shell("sh check.sh")))
    hooks = make_hooks([replace(hook, scripts={script: digest(script.read_bytes())})], folder)
    assert not fire(hooks).blocked
    script.write_text("touch ran\n")
    outcome = fire(hooks)
    assert outcome.blocked
    assert "check.sh has changed since the workspace was trusted" in outcome.reason
    script.unlink()
    assert "cannot be read" in fire(hooks).reason
    assert not (folder / "ran").exists()
