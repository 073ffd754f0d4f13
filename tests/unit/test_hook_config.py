"""Hooks as they are read: what counts, and what is refused by file and place."""

from __future__ import annotations

from typing import Any

import pytest

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.errors import InputError
from team_runtime.guard.hook_config import PythonHook, parse_hooks, python_hooks
from team_runtime.guard.hook_events import HOOK_EVENTS, UNAVAILABLE
from team_runtime.guard.hook_handlers import CommandHandler, HttpHandler
from team_runtime.guard.hook_origin import Source
from tests.support.hooking import ORIGIN, parsed, shell, table


def test_a_table_as_claude_code_has_it_is_read_in_order() -> None:
    given = {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [shell("a"), shell("b", timeout=5)]},
            {"hooks": [{"type": "http", "url": "https://localhost:1/x", "headers": {"A": "b"}}]},
        ],
        "Stop": [{"matcher": "*", "hooks": [shell("c", args=["1", "2"], statusMessage="…")]}],
    }
    hooks = parsed(given)
    assert [hook.event for hook in hooks] == ["PreToolUse"] * 3 + ["Stop"]
    assert [hook.handler for hook in hooks] == [
        CommandHandler("a"),
        CommandHandler("b"),
        HttpHandler("https://localhost:1/x", (("A", "b"),)),
        CommandHandler("c", ("1", "2")),
    ]
    assert hooks[1].timeout == 5
    assert hooks[1].origin == f"{ORIGIN}: hooks.PreToolUse[0].hooks[1]"
    assert [hook.denies_on_error for hook in hooks] == [True, True, True, False]


@pytest.mark.parametrize(
    ("matcher", "fits", "fits_not"),
    [
        ("", ["bash", "grep", "mcp__a__b"], []),
        ("*", ["bash", "grep"], []),
        ("Bash", ["bash"], ["read_file"]),
        ("bash", ["bash"], ["read_file"]),
        ("Write|Edit", ["write_file", "edit_file"], ["bash", "read_file"]),
        ("Write, Edit", ["write_file", "edit_file"], ["bash"]),
        ("Edit|MultiEdit|NotebookEdit", ["edit_file"], ["write_file"]),
        ("Write", ["write_file"], ["edit_file", "todo_write"]),
        ("Writ.", ["write_file", "todo_write"], ["edit_file"]),
        ("^(Read|Grep)$", ["read_file", "grep"], ["bash", "glob"]),
        ("_file$", ["read_file", "write_file", "edit_file"], ["bash"]),
        ("mcp__git__push", ["mcp__git__push"], ["mcp__git__pull", "bash"]),
        ("mcp__git__.*", ["mcp__git__push"], ["mcp__gitlab__push", "bash"]),
        ("Task", ["spawn_teammate"], ["create_task"]),
        ("Agent", ["spawn_teammate"], ["create_task"]),
        ("KillShell|TaskOutput", ["kill_job", "job_output"], ["list_jobs"]),
        ("^(Agent|TaskStop)$", ["spawn_teammate", "kill_job"], ["list_jobs"]),
        ("TaskCreate", ["create_task"], ["spawn_teammate"]),
    ],
)
def test_matchers_mean_what_they_mean_in_claude_code(
    matcher: str, fits: list[str], fits_not: list[str]
) -> None:
    (hook,) = parsed(table("PreToolUse", shell("x"), matcher=matcher))
    assert [tool for tool in [*fits, *fits_not] if hook.matcher.fits(tool)] == fits


def test_each_event_with_values_matches_them_alone() -> None:
    for event in HOOK_EVENTS.values():
        for value in event.values:
            (hook,) = parsed(table(event.name, shell("x"), matcher=value))
            assert [v for v in event.values if hook.matcher.fits(v)] == [value]
        if event.matches is not None:
            with pytest.raises(InputError, match="can match nothing"):
                parsed(table(event.name, shell("x"), matcher="Explore"))
        else:
            with pytest.raises(InputError, match="takes no matcher"):
                parsed(table(event.name, shell("x"), matcher="Bash"))


def group(**given: Any) -> dict[str, Any]:
    return {"PreToolUse": [given]}


def handler(**given: Any) -> dict[str, Any]:
    return group(hooks=[given])


def conditional(rule: Any, event: str = "PreToolUse", matcher: str = "") -> dict[str, Any]:
    return table(event, shell("x", **{"if": rule}), matcher=matcher)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "hooks: an object is expected"),
        ({"PreToolUse": {}}, r"hooks\.PreToolUse: a list is expected"),
        ({"PreToolUse": ["x"]}, r"hooks\.PreToolUse\[0\]: an object is expected"),
        ({"pretooluse": [{}]}, r"no event 'pretooluse' \(did you mean PreToolUse\?\)"),
        ({"PreToolUsed": [{}]}, r"did you mean PreToolUse\?"),
        (group(type="command", command="x"), "handlers belong into a list"),
        (group(matcher="Bash"), '"hooks" is missing'),
        (group(matchers="Bash", hooks=[]), r"no field 'matchers' \(did you mean matcher\?\)"),
        (group(matcher="Bsh", hooks=[]), r"matcher: 'Bsh' can match nothing \(did you mean Bash\?"),
        (group(matcher="Bash|Raed", hooks=[]), "'Raed' can match nothing"),
        (group(matcher="^Bsh$", hooks=[]), r"'\^Bsh\$' can match nothing"),
        (group(matcher="mcp__git", hooks=[]), r"write mcp__git__\.\* for all"),
        (group(matcher="(Bash", hooks=[]), "no regular expression"),
        (group(matcher=5, hooks=[]), "matcher: text is expected"),
        (group(matcher="WebFetch", hooks=[]), "matches no tool that there is here"),
        (group(matcher="Web.*", hooks=[]), "matches no tool that there is here"),
        (group(hooks={}), r"PreToolUse\[0\]\.hooks: a list is expected"),
        (handler(command="x"), r"hooks\[0\]: type is None; it must be command or http"),
        (handler(type="Command", command="x"), "type is 'Command'"),
        (handler(type=["command"], command="x"), r"type is \['command'\]; it must be"),
        (handler(type="prompt", prompt="x"), "type 'prompt' are not available in this version"),
        (handler(type="agent", prompt="x"), "type 'agent' are not available in this version"),
        (handler(type="mcp_tool", tool="x"), "type 'mcp_tool' are not available"),
        (handler(type="command"), "command: text is expected"),
        (handler(type="command", command=" "), "command: text is expected"),
        (handler(type="command", command=["x"]), "command: text is expected"),
        (handler(type="command", command="x", args="y"), "args: a list is expected"),
        (handler(type="command", command="x", args=[1]), "args: a list of texts"),
        (handler(type="command", command="x", timout=3), r"'timout' \(did you mean timeout\?\)"),
        (handler(type="command", command="x", timeout=0), "timeout: a timeout is a number"),
        (handler(type="command", command="x", timeout=True), "timeout: a timeout is a number"),
        (handler(type="command", command="x", timeout="9"), "timeout: a timeout is a number"),
        (handler(type="command", command="x", timeout=1e9), "timeout: a timeout is a number"),
        (handler(type="command", command="x", shell="powershell"), "shell can only be bash"),
        (handler(type="command", command="x", on_error="ignore"), "must be deny or allow"),
        (handler(type="command", command="x", once=True), "'once' is not available"),
        (handler(type="command", command="x", asyncRewake=True), "'asyncRewake' is not available"),
        (handler(type="command", command="x", **{"async": "yes"}), "async: true or false"),
        (handler(type="http", url="http://h", **{"async": True}), "there is no field 'async'"),
        (
            handler(type="command", command="x", on_error="deny", **{"async": True}),
            "on_error has no meaning for an async hook",
        ),
        (conditional(""), r"hooks\[0\]\.if: text is expected"),
        (conditional(5), "if: text is expected"),
        (conditional(["Bash(rm *)"]), "if: text is expected"),
        (conditional("Bsh(rm *)"), r"if: the rule 'Bsh\(rm \*\)' can match nothing"),
        (conditional("Bash(rm *) and more"), "is not a rule"),
        (conditional("Bash(rm && ls)"), "not one plain command"),
        (conditional("Edit(../*)"), "leads nowhere below the workspace"),
        (conditional("Bash(run_in_background:true)"), "about the command, and about no other"),
        (conditional("WebFetch(domain:x)"), "is about no tool that there is here"),
        (conditional("mcp__git"), "is about no tool that there is here"),
        (conditional("Bash(rm *)", matcher="Write|Edit"), "no tool that the matcher 'Write|Edit'"),
        (conditional("Bash(rm *)", event="Stop"), "Stop is about no tool call"),
        (conditional("Bash(rm *)", event="TaskCreated"), "TaskCreated is about no tool call"),
        (handler(type="command", command="x", url="http://x"), "no field 'url'"),
        (handler(type="http"), "url: text is expected"),
        (handler(type="http", url="file:///etc/passwd"), "must begin with http"),
        (handler(type="http", url="http:///x"), "name a host"),
        (handler(type="http", url="http://a:b@host/"), "must not hold a name or password"),
        (handler(type="http", url="http://host:x/"), "is no URL"),
        (handler(type="http", url="http://h", headers={"A": "$KEY"}), "KEY is not in allowedEnv"),
        (handler(type="http", url="http://h", headers={"A": "x\ny"}), "a header is one line"),
        (table("Stop", shell("x", on_error="deny")), "on_error has no meaning for Stop"),
    ],
)
def test_what_is_not_right_is_refused_with_its_place(given: Any, said: str) -> None:
    """Among them CVE-2025-6514: an address that no web server has."""
    with pytest.raises(InputError, match=said) as refused:
        parsed(given)
    assert str(refused.value).startswith(f"{ORIGIN}: hooks")
    assert str(refused.value).endswith("Nothing was started.")


def test_a_hook_that_does_not_say_has_the_time_that_claude_code_gives_it() -> None:
    post = {"type": "http", "url": "http://h"}
    brought = python_hooks([PythonHook("Stop", lambda payload: None)], TOOL_NAMES)
    seconds = {
        event: [hook.timeout for hook in parsed(table(event, shell("x"), post))]
        for event in ("Stop", "PreToolUse", "UserPromptSubmit")
    }
    assert seconds == {"Stop": [600] * 2, "PreToolUse": [600] * 2, "UserPromptSubmit": [30] * 2}
    assert [hook.timeout for hook in brought] == [600]


def test_a_hook_that_nobody_waits_for_is_said_to_refuse_nothing() -> None:
    beside = shell("x", **{"async": True})
    for event, said in (("PreToolUse", 1), ("Stop", 1), ("PostToolUse", 0), ("SessionStart", 0)):
        found = parse_hooks(table(event, beside), Source("x", TOOL_NAMES))
        assert [(hook.beside, hook.denies_on_error) for hook in found.hooks] == [(True, False)]
        told = f"x: hooks.{event}[0].hooks[0]: it is async, so it can refuse nothing"
        assert found.left_out == [told] * said


@pytest.mark.parametrize("event", sorted(UNAVAILABLE))
def test_an_event_that_nothing_here_brings_about_is_refused(event: str) -> None:
    with pytest.raises(InputError, match=f"{event} is not available in this version"):
        parsed(table(event, shell("x")))


def test_the_users_file_for_claude_code_may_hold_what_has_no_effect_here() -> None:
    given = {
        **table("PreCompact", shell("a")),
        "Notification": [
            {"matcher": "idle_prompt", "hooks": [shell("d")]},
            {"matcher": "permission_prompt", "hooks": [shell("e")]},
        ],
        "PreToolUse": [
            {"matcher": "WebFetch", "hooks": [shell("b")]},
            {"matcher": "Bash", "hooks": [shell("f", **{"if": "WebFetch"}), shell("c")]},
        ],
    }
    found = parse_hooks(given, Source("x", TOOL_NAMES, of_claude=True))
    assert [hook.handler for hook in found.hooks] == [CommandHandler("e"), CommandHandler("c")]
    assert found.left_out == [
        "x: hooks.PreCompact[0]: the event PreCompact is not available in this version",
        "x: hooks.Notification[0]: 'idle_prompt' matches no notification_type that there is here",
        "x: hooks.PreToolUse[0]: 'WebFetch' matches no tool that there is here",
        "x: hooks.PreToolUse[1].hooks[0]: 'WebFetch' is about no tool that there is here",
    ]


def test_but_a_gate_in_it_that_cannot_run_is_refused() -> None:
    for given in (
        {"type": "prompt", "prompt": "Is it safe?"},
        {"type": "command", "command": "x", "asyncRewake": True},
    ):
        with pytest.raises(InputError, match="not available in this version"):
            parsed(table("PreToolUse", given), of_claude=True)


def test_a_workspace_may_not_send_the_users_environment_away() -> None:
    given = {
        "type": "http",
        "url": "http://h",
        "headers": {"A": "$KEY"},
        "allowedEnvVars": ["KEY"],
    }
    (hook,) = parsed(table("PreToolUse", given))
    assert hook.handler == HttpHandler("http://h", (("A", "$KEY"),))
    with pytest.raises(InputError, match="may not have your environment sent"):
        parsed(table("PreToolUse", given), of_workspace=True)


def test_hooks_of_a_program_are_checked_alike() -> None:
    def look(payload: object) -> None:
        """Say nothing."""

    (hook,) = python_hooks([PythonHook("PreToolUse", look, "Bash", on_error="allow")], TOOL_NAMES)
    assert hook.matcher.fits("bash")
    assert not hook.denies_on_error
    for wrong, said in (
        (PythonHook("PreToolUes", look), "no event"),
        (PythonHook("PreCompact", look), "not available in this version"),
        (PythonHook("PreToolUse", look, "Bsh"), "can match nothing"),
        (PythonHook("PreToolUse", look, "WebFetch"), "no tool that there is here"),
        (PythonHook("PreToolUse", look, timeout=-1), "a timeout is"),
        (PythonHook("PreToolUse", "look"), "no function"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=f"RunRequest.hooks: .*{said}"):
            python_hooks([wrong], TOOL_NAMES)
