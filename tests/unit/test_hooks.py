"""Several hooks of one event: run side by side, put together in the order of declaration."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.errors import HookRefused
from team_runtime.guard.base import Verdict
from team_runtime.guard.hook_config import Hook
from team_runtime.guard.hook_outcome import NOTHING, WITHHELD, Outcome
from team_runtime.guard.hooks import Occasion
from tests.support.hooking import (
    INPUT,
    calling,
    deciding,
    fire,
    make_hooks,
    parsed,
    printing,
    shell,
    table,
)
from tests.support.state import Events

SECONDS = 20.0


def saying(*said: Any) -> Any:
    """Functions that return these."""
    return calling(*[lambda payload, one=one: one for one in said])


def test_where_nobody_listens_nothing_is_run(tmp_path: Path) -> None:
    events = Events()
    hooks = make_hooks(
        parsed(table("PreToolUse", shell("exit 2"), matcher="Read")), tmp_path, events
    )
    assert fire(hooks, subject="bash") is NOTHING
    assert fire(hooks, event="Stop") is NOTHING
    assert not hooks.listens("Stop")
    assert events.seen == []


def test_a_command_gets_the_payload_and_its_surroundings(tmp_path: Path) -> None:
    command = 'cat > seen.json; printf "%s\\n%s\\n%s" "$CLAUDE_PROJECT_DIR" "$PWD" "$KEY" > env.txt'
    environ = {"PATH": "/usr/bin:/bin", "KEY": "canary"}
    hooks = make_hooks(parsed(table("PreToolUse", shell(command))), tmp_path, environ=environ)
    assert not fire(hooks, session_id="s-1", tool_name="Bash").blocked
    assert json.loads((tmp_path / "seen.json").read_text()) == {
        "hook_event_name": "PreToolUse",
        "session_id": "s-1",
        "tool_name": "Bash",
        "tool_input": INPUT,
    }
    assert (tmp_path / "env.txt").read_text() == f"{tmp_path}\n{tmp_path}\n"


def test_arguments_reach_a_program_without_a_shell(tmp_path: Path) -> None:
    hooks = parsed(table("PreToolUse", shell("touch", args=["a b", "$(id)"])))
    fire(make_hooks(hooks, tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"a b", "$(id)"}


def test_matching_handlers_run_side_by_side(tmp_path: Path) -> None:
    barrier = threading.Barrier(5)

    def meet(payload: Mapping[str, Any]) -> None:
        barrier.wait(SECONDS)

    assert not fire(make_hooks(calling(*[meet] * 5), tmp_path)).blocked


def test_identical_handlers_run_once(tmp_path: Path) -> None:
    one = parsed(table("PreToolUse", shell("echo x >> ran"), matcher="Bash"))
    two = parsed(table("PreToolUse", shell("echo x >> ran", timeout=5), matcher="B.*"))
    other = parsed(table("PreToolUse", shell("echo x  >> ran")))
    fire(make_hooks([*one, *two, *one, *other], tmp_path))
    assert (tmp_path / "ran").read_text() == "x\nx\n"


def test_of_identical_handlers_the_one_that_denies_on_an_error_counts(tmp_path: Path) -> None:
    strict = parsed(table("PreToolUse", shell("exit 1")))
    lax = [replace(hook, denies_on_error=False) for hook in strict]
    assert fire(make_hooks([*lax, *strict], tmp_path)).blocked
    assert not fire(make_hooks(lax, tmp_path)).blocked


@given(st.lists(st.sampled_from(["allow", "ask", "deny", None]), max_size=6))
def test_deny_beats_ask_beats_allow_in_any_order(words: list[str | None]) -> None:
    said = [deciding(word, f"{word} {n}") if word else None for n, word in enumerate(words)]
    outcome = fire(make_hooks(saying(*said), Path.cwd()))
    order = [word for word in ("deny", "ask", "allow") if word in words]
    assert outcome.verdict == (Verdict(order[0]) if order else None)
    if order:
        reasons = [f"{order[0]} {n}" for n, word in enumerate(words) if word == order[0]]
        assert outcome.reason == "; ".join(reasons)


BESIDE: Any = {"async": True}


def test_where_there_is_no_run_a_hook_beside_is_waited_for_and_not_heard(tmp_path: Path) -> None:
    events = Events()
    handlers = [
        printing(deciding("deny", "no"), **BESIDE),
        shell("sleep 0.1; touch ran; yes | head -c 1000000", **BESIDE),
        shell("echo oops >&2; exit 2", **BESIDE),
    ]
    outcome = fire(make_hooks(parsed(table("PreToolUse", *handlers)), tmp_path, events))
    assert (outcome.verdict, outcome.reason) == (None, "")
    assert (tmp_path / "ran").exists()
    (told,) = [fields["text"] for kind, _, fields in events.seen if kind == "notice"]
    assert told.endswith("failed, and was passed over: it ended with status 2: oops")


def test_of_identical_handlers_the_one_that_is_waited_for_counts(tmp_path: Path) -> None:
    gate, beside = shell("exit 2"), shell("exit 2", **BESIDE)
    for order in ([gate, beside], [beside, gate]):
        assert fire(make_hooks(parsed(table("PreToolUse", *order)), tmp_path)).blocked


def test_one_rewrites_and_another_does_not(tmp_path: Path) -> None:
    """claude-code#15897: a hook that changed nothing undid the others."""
    said = [None, deciding("allow", updatedInput={**INPUT, "command": "pwd"}), deciding("allow")]
    for order in (said, said[::-1]):
        outcome = fire(make_hooks(saying(*order), tmp_path))
        assert outcome.changed == {"command": "pwd"}
        assert outcome.removed == frozenset()


def test_rewrites_of_different_fields_add_up(tmp_path: Path) -> None:
    one = deciding("allow", updatedInput={**INPUT, "command": "pwd"})
    two = deciding("ask", updatedInput={"command": "ls", "description": "x"})
    outcome = fire(make_hooks(saying(one, two), tmp_path))
    assert outcome.changed == {"command": "pwd", "description": "x"}
    assert outcome.removed == {"timeout"}
    assert outcome.verdict is Verdict.ASK


def test_of_two_that_rewrite_one_field_the_last_declared_wins_and_it_is_recorded(
    tmp_path: Path,
) -> None:
    events = Events()
    said = [deciding("allow", updatedInput={**INPUT, "command": c}) for c in ("one", "two", "two")]
    outcome = fire(make_hooks(saying(*said), tmp_path, events))
    assert outcome.changed == {"command": "two"}
    (told,) = [fields["text"] for kind, _, fields in events.seen if kind == "notice"]
    assert (
        told
        == "two hooks rewrote 'command'; RunRequest.hooks: hooks[1] was declared last and counts"
    )


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), max_size=4))
def test_rewrites_are_as_if_applied_field_by_field(updates: list[dict[str, int]]) -> None:
    original = {"a": 0, "b": 1}
    hooks = make_hooks(saying(*[deciding("allow", updatedInput=u) for u in updates]), Path.cwd())
    outcome = hooks.fire("PreToolUse", Occasion("anna", {"tool_input": original}, "bash"))
    expected: dict[str, Any] = dict(original)
    for update in updates:
        for key in "abc":
            if update.get(key) != original.get(key):
                expected[key] = update.get(key)
    kept = {k: v for k, v in original.items() if k not in outcome.removed}
    final = {**kept, **outcome.changed}
    assert final == {k: v for k, v in expected.items() if v is not None}


def replacing(output: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"updatedToolOutput": output}}


def after(hooks: list[Hook], root: Path, events: Events | None = None) -> Outcome:
    return fire(make_hooks(hooks, root, events), event="PostToolUse")


def says(*said: Any) -> list[Hook]:
    calls = [lambda payload, one=one: one for one in said]
    return calling(*calls, event="PostToolUse")


def test_of_two_that_replace_a_result_the_last_declared_wins_and_it_is_recorded(
    tmp_path: Path,
) -> None:
    events = Events()
    said = [replacing("one"), None, replacing("two"), replacing("two")]
    assert after(says(*said), tmp_path, events).output == "two"
    (told,) = [fields["text"] for kind, _, fields in events.seen if kind == "notice"]
    assert told.startswith("two hooks replaced the result; RunRequest.hooks: hooks[2]")


@pytest.mark.parametrize("said", [[5, "x"], ["x", 5]])
def test_nothing_makes_up_for_a_replacement_that_is_not_understood(
    tmp_path: Path, said: list[Any]
) -> None:
    events = Events()
    assert after(says(*map(replacing, said)), tmp_path, events).output == WITHHELD
    (told,) = [fields["text"] for kind, _, fields in events.seen if kind == "notice"]
    assert "so the result is withheld: its updatedToolOutput is neither" in told


def test_a_hook_that_fails_keeps_a_result_back_when_it_has_to_see_it(tmp_path: Path) -> None:
    for on_error, output in (({}, None), ({"on_error": "deny"}, WITHHELD)):
        hooks = parsed(table("PostToolUse", shell("echo secret >&2; exit 1", **on_error)))
        outcome = after(hooks, tmp_path)
        assert (outcome.output, outcome.blocked, outcome.reason) == (output, False, "")


def test_a_replacement_that_is_too_long_to_be_read_keeps_the_result_back(tmp_path: Path) -> None:
    text = tmp_path / "long.json"
    text.write_text(json.dumps(replacing("x" * 400_000)))
    hooks = parsed(table("PostToolUse", shell("cat long.json")))
    assert after(hooks, tmp_path).output == WITHHELD


def test_a_function_cannot_change_what_others_see(tmp_path: Path) -> None:
    seen = []

    def spoil(payload: Any) -> None:
        payload["tool_input"]["command"] = "rm -rf /"

    def look(payload: Any) -> None:
        seen.append(payload["tool_input"])

    hooks = make_hooks(calling(spoil, spoil, look), tmp_path)
    assert fire(hooks).changed == {}
    assert seen == [INPUT]
    assert INPUT["command"] == "ls"


def test_halting_tells_who_and_why_and_blocks_a_gate(tmp_path: Path) -> None:
    said = {"continue": False, "stopReason": "out of budget"}
    hooks = make_hooks(saying(said, deciding("allow", "fine")), tmp_path)
    halted: list[tuple[str, str]] = []
    hooks.halt = lambda agent, reason: halted.append((agent, reason))
    outcome = fire(hooks)
    assert halted == [("anna", "out of budget")]
    assert (outcome.blocked, outcome.halt, outcome.reason) == (
        True,
        "out of budget",
        "out of budget",
    )


def test_a_gate_that_is_refused_is_an_error_that_names_the_reason(tmp_path: Path) -> None:
    hooks = make_hooks(parsed(table("TaskCreated", shell("echo 'no tests' >&2; exit 2"))), tmp_path)
    with pytest.raises(HookRefused, match="A TaskCreated hook refused: no tests") as refused:
        hooks.gate("TaskCreated", Occasion(None, {"task_subject": "x"}))
    assert refused.value.exit_code == 4
    hooks.gate("TaskClaimed", Occasion(None, {}))


def test_what_ran_is_recorded_and_messages_reach_the_person(tmp_path: Path) -> None:
    events = Events()
    hooks = make_hooks(
        parsed(table("PreToolUse", printing({"systemMessage": "Hi."}))), tmp_path, events
    )
    fire(hooks)
    (kind, agent, ran), (_, _, told) = events.seen
    assert (kind, agent, ran["event"]) == ("hook_ran", "anna", "PreToolUse")
    assert ran["hook"] == "settings.json: hooks.PreToolUse[0].hooks[0]"
    assert (ran["verdict"], ran["fault"]) == (None, None)
    assert told == {"text": "Hi."}


def test_context_of_several_is_joined_in_order(tmp_path: Path) -> None:
    said = [deciding("allow", additionalContext=text) for text in ("one", "", "two")]
    assert fire(make_hooks(saying(*said), tmp_path)).context == "one\ntwo"


def test_a_failed_hook_that_gates_nothing_is_passed_over_loudly(tmp_path: Path) -> None:
    events = Events()
    hooks = make_hooks(parsed(table("Stop", shell("exit 7"))), tmp_path, events)
    assert not fire(hooks, event="Stop", subject="").blocked
    assert events.kinds() == ["hook_ran", "notice"]
    assert events.seen[0][2]["fault"] == "it ended with status 7"
    assert "was passed over" in events.seen[1][2]["text"]


def test_what_a_later_event_changes_in_an_input_counts() -> None:
    first = Outcome(changed={"a": 1, "b": 2}, removed=frozenset({"c", "d"}), context="read")
    later = Outcome(changed={"b": 3, "c": 4}, removed=frozenset({"a"}))
    both = first.followed_by(later)
    assert both.changed == {"b": 3, "c": 4}
    assert both.removed == {"a", "d"}
    assert both.context == "read"
