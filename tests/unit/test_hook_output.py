"""What a hook's exit status and output mean; whatever is unclear is never a silent yes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from team_runtime.guard.base import Verdict
from team_runtime.guard.hook_events import HOOK_EVENTS
from team_runtime.guard.hook_output import Answer, Ended, HookFault, read_answer, said_by_function
from tests.support.hooking import deciding

GATE = HOOK_EVENTS["PreToolUse"]


def read(said: Any, status: int = 0, stderr: str = "", event: str = "PreToolUse") -> Answer:
    stdout = said if isinstance(said, str) else json.dumps(said)
    return read_answer(HOOK_EVENTS[event], Ended(status, stdout, stderr))


@pytest.mark.parametrize("said", ["", "all is well\n", "[INFO] looked at it", "0", "true"])
def test_exit_0_without_json_says_nothing(said: str) -> None:
    assert read(said) == Answer()


@pytest.mark.parametrize(
    ("word", "verdict"), [("allow", Verdict.ALLOW), ("ask", Verdict.ASK), ("deny", Verdict.DENY)]
)
def test_a_permission_decision_is_read(word: str, verdict: Verdict) -> None:
    answer = read(deciding(word, "because", updatedInput={"command": "pwd"}))
    assert (answer.verdict, answer.reason) == (verdict, "because")
    assert answer.updated == {"command": "pwd"}


@pytest.mark.parametrize(("word", "verdict"), [("block", Verdict.DENY), ("approve", Verdict.ALLOW)])
def test_the_older_words_for_a_tool_call_are_read_too(word: str, verdict: Verdict) -> None:
    """claude-code#4669: `approve` and `block` are of an older form."""
    answer = read({"decision": word, "reason": "because"})
    assert (answer.verdict, answer.reason) == (verdict, "because")


def test_of_an_old_and_a_new_word_the_stricter_one_counts() -> None:
    assert read({**deciding("deny", "no"), "decision": "approve"}).verdict is Verdict.DENY
    assert read({**deciding("allow"), "decision": "block", "reason": "no"}).reason == "no"


@pytest.mark.parametrize("status", [2])
@pytest.mark.parametrize(
    ("said", "stderr", "reason"),
    [
        ("", "not here\n", "not here"),
        (deciding("allow", "fine"), "not here", "not here"),
        ({"decision": "approve", "reason": "fine"}, "", "fine"),
        ("", "", "it gave no reason"),
    ],
)
def test_exit_2_blocks_whatever_is_printed(
    status: int, said: Any, stderr: str, reason: str
) -> None:
    answer = read(said, status, stderr)
    assert (answer.verdict, answer.reason) == (Verdict.DENY, reason)


def test_json_that_refuses_counts_with_any_status_and_json_that_allows_does_not() -> None:
    assert read(deciding("deny", "no"), status=1).reason == "no"
    with pytest.raises(HookFault, match="ended with status 1"):
        read(deciding("allow"), status=1)


@pytest.mark.parametrize("status", [1, 3, 126, 127, 255])
def test_any_other_status_is_a_fault_that_shows_what_was_said(status: int) -> None:
    with pytest.raises(HookFault, match=f"status {status}: No such thing"):
        read("", status, "No such thing\n")


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("{", "broken JSON"),
        ('{"decision": "block"', "broken JSON"),
        ('{"decision": "block"} done', "broken JSON"),
        ("{" * 100_000, "broken JSON"),
        ('[{"decision": "block"}]', "no object"),
        ('"deny"', "no object"),
        ({"decision": "deny"}, "its decision is 'deny'; it can be block or approve"),
        ({"decision": "Block"}, "its decision is 'Block'"),
        ({"decision": "allow"}, "its decision is 'allow'"),
        ({"decision": True}, "its decision is True"),
        ({"permissionDecision": "deny"}, "output has permissionDecision, which says nothing"),
        ({"permission": "deny"}, "output has permission, which"),
        ({"block": True}, "output has block, which"),
        ({"ok": False, "reason": "no"}, "output has ok, which"),
        ({"hookSpecificOutput": "deny"}, "hookSpecificOutput is no object"),
        ({"hookSpecificOutput": {"decision": "deny"}}, "hookSpecificOutput.decision, which"),
        ({"hookSpecificOutput": {"permission": "deny"}}, "hookSpecificOutput.permission, which"),
        (deciding("block"), "its permissionDecision is 'block'; it can be allow or ask or deny"),
        (deciding("defer"), "its permissionDecision is 'defer'"),
        (deciding("Deny"), "its permissionDecision is 'Deny'"),
        (deciding("deny", hookEventName="PostToolUse"), "hookEventName is not PreToolUse"),
        (deciding("allow", updatedInput="ls"), "updatedInput is no object"),
        (deciding("allow", updated_input={}), "hookSpecificOutput.updated_input, which"),
        ({"continue": "false"}, "its continue is neither true nor false"),
        ({"reason": 5, "decision": "block"}, "its reason is no text"),
        ({"systemMessage": ["x"]}, "its systemMessage is no text"),
    ],
)
def test_what_does_not_fit_the_form_is_a_fault(said: Any, fault: str) -> None:
    """claude-code#4669, #46537, #37597: a refusal in another form was no refusal."""
    with pytest.raises(HookFault, match=fault):
        read(said)


def test_an_event_that_cannot_be_blocked_is_not_blocked_in_silence() -> None:
    with pytest.raises(HookFault, match="SessionEnd cannot be blocked"):
        read("", 2, "no", event="SessionEnd")
    with pytest.raises(HookFault, match="the event cannot be blocked"):
        read({"decision": "block"}, event="SessionStart")
    with pytest.raises(HookFault, match="permissionDecision, which says nothing"):
        read(deciding("deny", hookEventName="Stop"), event="Stop")


def test_continue_false_halts_with_its_reason() -> None:
    assert read({"continue": False, "stopReason": "enough"}).halt == "enough"
    assert read({"continue": False}).halt == "it gave no reason"
    assert read({"continue": True, "suppressOutput": True}).halt is None


@pytest.mark.parametrize("event", [name for name, row in HOOK_EVENTS.items() if row.context])
def test_context_is_taken_where_it_goes_somewhere(event: str) -> None:
    specific = {"hookEventName": event, "additionalContext": "in"}
    said = {"additionalContext": "out", "hookSpecificOutput": specific}
    assert read(said, event=event).context == "out\nin"


@pytest.mark.parametrize("event", [name for name, row in HOOK_EVENTS.items() if not row.context])
def test_context_is_a_fault_where_it_would_be_lost(event: str) -> None:
    with pytest.raises(HookFault, match=f"{event} takes none"):
        read({"additionalContext": "lost"}, event=event)


def test_plain_text_is_context_where_claude_code_takes_it_so() -> None:
    assert read("It is Monday.\n", event="SessionStart").context == "It is Monday."
    assert read("It is Monday.\n", event="UserPromptSubmit").context == "It is Monday."
    assert read("It is Monday.\n").context == ""


def test_long_texts_are_cut() -> None:
    reason = read("", 2, "x" * 50_000).reason
    assert len(reason) < 10_200
    assert "characters left out" in reason


def test_a_function_says_the_same() -> None:
    assert said_by_function(GATE, None) == Answer()
    assert said_by_function(GATE, deciding("deny", "no")).reason == "no"
    for wrong, fault in ((False, "returned bool"), ("deny", "returned str"), ({"x": 1}, "has x")):
        with pytest.raises(HookFault, match=fault):
            said_by_function(GATE, wrong)


def replacing(output: Any, event: str = "PostToolUse") -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, "updatedToolOutput": output}}


BLOCKS = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]


@pytest.mark.parametrize("event", ["PostToolUse", "PostToolUseFailure"])
@pytest.mark.parametrize(
    ("output", "text"),
    [("x", "x"), ("", ""), (BLOCKS, "a\nb"), ([], ""), ({"content": "x"}, "x")],
)
def test_what_replaces_a_result_is_read(event: str, output: Any, text: str) -> None:
    assert read(replacing(output, event), event=event).output == text
    blocked = read(replacing(output, event), 2, "no", event=event)
    assert (blocked.verdict, blocked.reason, blocked.output) == (Verdict.DENY, "no", text)
    said = said_by_function(HOOK_EVENTS[event], replacing(output, event))
    assert said.output == text


@pytest.mark.parametrize(
    "output",
    [None, 5, True, ["x"], [*BLOCKS, {"type": "image"}], {"stdout": "x"}, [{"text": "x"}]],
)
def test_what_cannot_replace_a_result_is_a_fault_that_is_known_to_be_meant_so(output: Any) -> None:
    for status in (0, 2):
        with pytest.raises(HookFault, match="neither text nor a list") as fault:
            read(replacing(output), status, event="PostToolUse")
        assert fault.value.meant_to_replace


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({"updatedToolOutput": "x"}, 0),
        ({"hookSpecificOutput": {"updatedToolOutput": "x", "more": 1}}, 0),
        (json.dumps(replacing("x"))[:-1], 0),
        (replacing("x"), 1),
    ],
)
def test_a_replacement_in_output_that_is_not_understood_is_noticed(said: Any, status: int) -> None:
    with pytest.raises(HookFault) as fault:
        read(said, status, event="PostToolUse")
    assert fault.value.meant_to_replace
    with pytest.raises(HookFault) as fault:
        read("", 1, "Traceback", event="PostToolUse")
    assert not fault.value.meant_to_replace


def decided(**decision: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": REQUEST, "decision": decision}}


REQUEST = "PermissionRequest"


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        ({"behavior": "allow"}, Answer(Verdict.ALLOW, "it gave no reason")),
        ({"behavior": "deny", "message": "no"}, Answer(Verdict.DENY, "no")),
        (
            {"behavior": "allow", "updatedInput": {"command": "ls"}},
            Answer(Verdict.ALLOW, "it gave no reason", {"command": "ls"}),
        ),
        (
            {"behavior": "deny", "message": "no", "interrupt": True},
            Answer(Verdict.DENY, "no", halt="no"),
        ),
    ],
)
def test_an_answer_in_place_of_a_person_is_read(decision: Any, answer: Answer) -> None:
    assert read(decided(**decision), event=REQUEST) == answer


@pytest.mark.parametrize(
    ("decision", "fault"),
    [
        ({}, "decision.behavior is None"),
        ({"behavior": "ask"}, "can be allow or deny"),
        ({"behavior": ["allow"]}, "can be allow or deny"),
        ({"behavior": "deny", "updatedInput": {}}, "changes the input of what it denies"),
        ({"behavior": "allow", "updatedInput": "ls"}, "updatedInput is no object"),
        ({"behavior": "allow", "updatedPermissions": []}, "decision.updatedPermissions"),
        ({"behavior": "deny", "interrupt": "yes"}, "neither true nor false"),
        ({"behavior": "deny", "message": 1}, "message is no text"),
    ],
)
def test_an_unclear_answer_in_place_of_a_person_is_a_fault(decision: Any, fault: str) -> None:
    with pytest.raises(HookFault, match=fault):
        read(decided(**decision), event=REQUEST)


def test_the_words_of_one_event_say_nothing_at_another() -> None:
    with pytest.raises(HookFault, match="decision, which says nothing here"):
        read(decided(behavior="allow") | {"hookSpecificOutput": {"decision": {}}})
    with pytest.raises(HookFault, match="permissionDecision, which says nothing here"):
        read({"hookSpecificOutput": {"permissionDecision": "allow"}}, event=REQUEST)
    with pytest.raises(HookFault, match="decision is no object"):
        read({"hookSpecificOutput": {"decision": "allow"}}, event=REQUEST)
    assert read("", 2, "no", event=REQUEST) == Answer(Verdict.DENY, "no")
