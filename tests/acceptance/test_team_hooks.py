"""Hooks in a running team: the same for the lead and for every teammate, at every event."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from team_runtime.board.model import COMPLETED, PENDING
from team_runtime.guard.hook_config import PythonHook
from team_runtime.guard.hook_events import HOOK_EVENTS
from tests.support.api import Seen, team_environment
from tests.support.hooking import deciding, printing, shell, table
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    run_team,
    spawn,
    until,
    write,
)

MODES = ["default", "acceptEdits", "bypassPermissions"]


def settings(root: Path, hooks: Mapping[str, Any], **more: Any) -> None:
    """Write the user's settings file."""
    folder = root.parent / "config"
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"hooks": hooks, **more}))


class Log:
    """Listens to all events and says nothing but what a test wants said."""

    def __init__(self, **said: Sequence[Any]) -> None:
        self.seen: list[dict[str, Any]] = []
        self._said = {event: list(answers) for event, answers in said.items()}
        self._lock = threading.Lock()

    def hooks(self, *events: str) -> list[PythonHook]:
        return [PythonHook(event, self) for event in events or HOOK_EVENTS]

    def __call__(self, payload: Mapping[str, Any]) -> Any:
        with self._lock:
            self.seen.append(dict(payload))
            said = self._said.get(payload["hook_event_name"])
            return said.pop(0) if said else None

    def of(self, event: str, agent: str | None = None) -> list[dict[str, Any]]:
        return [
            one
            for one in self.seen
            if one["hook_event_name"] == event and agent in (None, one["agent_name"])
        ]

    def names(self) -> list[tuple[str, str]]:
        return [(one["hook_event_name"], one["agent_name"]) for one in self.seen]


def deny(reason: str = "no") -> dict[str, Any]:
    return deciding("deny", reason)


def block(reason: str = "no") -> dict[str, Any]:
    return {"decision": "block", "reason": reason}


def alone(*steps: Any) -> dict[str, Any]:
    """A team that is a lead with these replies."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield from steps
        yield "Done."

    return {"lead": lead}


def pair(*steps: Any) -> dict[str, Any]:
    """A lead that spawns anna on a bound task, and anna with these replies."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield from steps
        yield [complete()]
        yield "Completed."

    return {"lead": lead, "anna": anna}


# Around calls


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_hook_stops_lead_and_teammate_alike_in_every_mode(root: Path, mode: str) -> None:
    """claude-code#42385, #40580, #43772, #43612, #78970: no hook was asked."""
    settings(root, table("PreToolUse", shell("echo 'not with bash' >&2; exit 2"), matcher="Bash"))

    def bash(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="touch ran")]
        assert "Refused by a hook: not with bash. The call did not run." in seen.text

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield from bash(seen)
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield from bash(seen)
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "anna": anna}, permission_mode=mode, allow=("Bash",))
    denied = ran.of("permission_denied", rule="hook")
    assert sorted(event["agent"] for event in denied) == ["anna", "lead"]
    assert not list(root.rglob("ran"))
    assert ran.result.exit_code == 0


def test_a_hook_that_fails_is_a_no_for_everybody(root: Path) -> None:
    settings(root, table("PreToolUse", shell("exit 1"), matcher="Write"))
    ran = run_team(root, pair([write("a.txt")]))
    assert "the hook itself failed" in ran.shown("anna")
    assert ran.file_on("team/one", "a.txt") is None


def test_a_hook_may_allow_what_nobody_would_answer_and_no_more(root: Path) -> None:
    settings(root, table("PreToolUse", printing(deciding("allow", "fine")), matcher="Bash"))
    ran = run_team(root, alone([call("bash", command="echo here")]))
    assert "here" in ran.shown("lead")
    for more in ({"deny": ("Bash(echo *)",)}, {"permission_mode": "plan"}):
        ran = run_team(root, alone([call("bash", command="echo here")]), **more)
        assert "Permission denied" in ran.shown("lead")


def test_a_hook_may_ask_about_what_rules_allow(root: Path) -> None:
    settings(root, table("PreToolUse", printing(deciding("ask", "sure?")), matcher="Bash"))
    ran = run_team(root, alone([call("bash", command="touch ran")]), allow=("Bash",))
    assert "Permission denied: a hook asks: sure?, and nobody was there" in ran.shown("lead")
    assert not (root / "ran").exists()


def test_a_rewritten_input_is_what_runs_and_what_rules_decide_about(root: Path) -> None:
    said = deciding("allow", updatedInput={"command": "echo two", "timeout": 5000})
    settings(root, table("PreToolUse", printing(said), matcher="Bash"))
    lead = alone([call("bash", command="echo one")])
    ran = run_team(root, lead)
    assert "two\n" in ran.shown("lead")
    assert "The input was changed before the call ran: set command to echo two" in ran.shown("lead")
    ran = run_team(root, lead, deny=("Bash(echo two)",))
    assert "denied by Bash(echo two)" in ran.shown("lead")


def test_a_rewritten_input_that_does_not_fit_the_tool_does_not_run(root: Path) -> None:
    said = deciding("allow", updatedInput={"command": "touch ran", "sandbox": False})
    settings(root, table("PreToolUse", printing(said), matcher="Bash"))
    ran = run_team(root, alone([call("bash", command="touch ran")]), allow=("Bash",))
    assert "sandbox: Extra inputs are not permitted" in ran.shown("lead")
    assert not (root / "ran").exists()


def test_a_rewritten_path_is_bound_to_the_agents_directory(root: Path) -> None:
    said = deciding("allow", updatedInput={"file_path": str(root / "a.txt"), "content": "x"})
    settings(root, table("PreToolUse", printing(said), matcher="Write"))
    ran = run_team(root, pair([write("a.txt")]))
    assert "outside your directory" in ran.shown("anna")
    assert not (root / "a.txt").exists()


def test_hooks_see_claude_codes_names_and_where_the_agent_is(root: Path) -> None:
    log = Log()
    run_team(root, pair([write("src/../a.txt", "new\n")]), hooks=log.hooks())
    (before,) = [one for one in log.of("PreToolUse", "anna") if one["tool_name"] == "Write"]
    place = root / "worktrees" / "one"
    assert before["tool_input"] == {"file_path": str(place / "a.txt"), "content": "new\n"}
    assert before["cwd"] == str(place)
    assert (before["teammate_name"], before["agent_id"]) == ("anna", "anna")
    assert before["agent_type"] == "teammate"
    assert Path(before["transcript_path"]).name == "anna.jsonl"
    assert before["session_id"] in before["transcript_path"]
    (spawned,) = [one for one in log.of("PreToolUse", "lead") if one["tool_name"] == "Task"]
    assert spawned["tool_input"]["description"] == "engineer"
    assert "agent_id" not in spawned
    (after,) = [one for one in log.of("PostToolUse", "anna") if one["tool_name"] == "Write"]
    assert after["tool_response"] == {"content": "Wrote 4 bytes to src/../a.txt."}
    assert after["tool_use_id"] == before["tool_use_id"]
    assert after["duration_ms"] >= 0


def test_what_hooks_add_stands_beside_the_result(root: Path) -> None:
    log = Log(
        PreToolUse=[deciding("allow", additionalContext="before <b>")],
        PostToolUse=[{**block("format it"), "additionalContext": "after"}],
        PostToolUseFailure=[{"additionalContext": "try another"}],
    )
    hooks = log.hooks("PreToolUse", "PostToolUse", "PostToolUseFailure")
    steps = [call("glob", pattern="*.txt")], [call("read_file", path="none")]
    ran = run_team(root, alone(*steps), hooks=hooks)
    shown = ran.shown("lead")
    assert "notes.txt" in shown
    assert '<hook_context event="PreToolUse">before &lt;b&gt;</hook_context>' in shown
    assert '<hook_context event="PostToolUse">blocked: format it</hook_context>' in shown
    assert '<hook_context event="PostToolUse">after</hook_context>' in shown
    assert '<hook_context event="PostToolUseFailure">try another</hook_context>' in shown
    assert log.of("PostToolUseFailure")[0]["error"].startswith("none does not exist")


def replacing(output: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"updatedToolOutput": output}}


def everything(root: Path) -> str:
    """All that the runtime keeps, in one text."""
    files = [path for path in (root / ".team").rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


@pytest.mark.parametrize("status", [0, 3])
def test_a_replaced_result_is_all_that_is_seen_and_kept(root: Path, status: int) -> None:
    log = Log(PostToolUse=[replacing("[gone]")], PostToolUseFailure=[replacing("[gone]")])
    hooks = log.hooks("PostToolUse", "PostToolUseFailure")
    step = [call("bash", command=f"printf 'hun%s' ter2; exit {status}")]
    ran = run_team(
        root, alone(step), hooks=hooks, allow=("Bash",), permission_mode="bypassPermissions"
    )
    (told,) = log.seen
    assert "hunter2" in json.dumps(told)
    assert "[gone]" in ran.shown("lead")
    assert "hunter2" not in ran.shown("lead") + everything(root)
    assert [event["is_error"] for event in ran.of("tool_ended")] == [status != 0]


def test_a_replaced_result_is_replaced_where_it_was_spilled_too(root: Path) -> None:
    (root / "long.txt").write_text("hunter2 " * 10_000)
    log = Log(PostToolUse=[replacing("y" * 50_000)])
    step = [call("bash", command="cat long.txt")]
    ran = run_team(root, alone(step), hooks=log.hooks("PostToolUse"), allow=("Bash",))
    assert "the whole output is in" in log.seen[0]["tool_response"]["content"]
    assert "hunter2" not in ran.shown("lead") + everything(root)
    assert "20000 characters left out; the whole output is in" in ran.shown("lead")
    (kept,) = (root / ".team" / "spill").rglob("*.txt")
    assert kept.read_text() == "y" * 50_000


def test_a_replacement_holds_no_key_either(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-canary-" + "4711" * 4
    monkeypatch.setattr(
        "tests.support.scripted_team.team_environment",
        lambda home: {**team_environment(home), "ANTHROPIC_API_KEY": key},
    )
    log = Log(PostToolUse=[replacing(f"the key is {key}" + "x" * 40_000)])
    step = [call("glob", pattern="*")]
    ran = run_team(root, alone(step), hooks=log.hooks("PostToolUse"))
    assert "the key is " in ran.shown("lead")
    assert key not in ran.shown("lead") + everything(root)


def test_a_result_whose_replacement_is_not_understood_is_withheld(root: Path) -> None:
    log = Log(PostToolUse=[replacing({"stdout": "[gone]"})])
    ran = run_team(
        root,
        alone([call("read_file", path="notes.txt")]),
        hooks=log.hooks("PostToolUse"),
    )
    text = log.seen[0]["tool_response"]["content"]
    assert "The result is withheld: a hook that may replace it failed to." in ran.shown("lead")
    assert text.strip() not in ran.shown("lead")
    assert any("so the result is withheld" in event["text"] for event in ran.of("notice"))


@pytest.mark.parametrize("on_error", [None, "deny"])
def test_a_stop_amid_a_hook_that_has_to_see_a_result_keeps_it_back(
    root: Path, on_error: str | None
) -> None:
    """claude-code#31389: also the shutdown request is heard in the middle of a hook."""
    begun, release = threading.Event(), threading.Event()

    def hang(payload: Mapping[str, Any]) -> None:
        if payload["agent_name"] == "anna":
            begun.set()
            release.wait(20)

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield lambda: begun.wait(20)
        yield [call("request_shutdown", teammate="anna")]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="printf 'hun%s' ter2")]

    hooks = [PythonHook("PostToolUse", hang, "Bash", on_error=on_error)]
    run_team(root, {"lead": lead, "anna": anna}, hooks=hooks, stop_seconds=0.1, allow=("Bash",))
    release.set()
    kept = everything(root)
    assert ("hunter2" in kept, "withheld" in kept) == (on_error is None, on_error == "deny")


# Beside calls


def test_nobody_waits_for_a_hook_beside(root: Path) -> None:
    beside = {"async": True, "timeout": 20}
    waits = shell("until test -e go; do sleep 0.02; done; exit 2", **beside)
    settings(root, table("PreToolUse", waits, matcher="Glob"))

    def go() -> None:
        (root / "go").touch()

    lead = alone([call("glob", pattern="*.txt")], go, until("hook_ran", "lead"))
    ran = run_team(root, lead)
    assert "notes.txt" in ran.shown("lead")
    assert "Refused" not in ran.shown("lead")
    (event,) = ran.of("hook_ran", "lead")
    assert (event["verdict"], event["fault"]) == (None, "it ended with status 2")
    told = "\n".join(event["text"] for event in ran.of("notice"))
    assert "it is async, so it can refuse nothing" in told
    assert "failed, and was passed over: it ended with status 2" in told


def test_hooks_beside_are_capped_and_end_with_the_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("team_runtime.guard.hooks.MOST_BESIDE", 1)
    noted = root.parent / "hook.pid"
    hangs = [
        shell(f"echo $$ > {noted}; exec sleep 60", **{"async": True}),
        shell("touch second", **{"async": True}),
    ]
    settings(root, table("PostToolUse", *hangs, matcher="Glob"))
    ran = run_team(root, alone([call("glob", pattern="*")], lambda: wait_for(noted)))
    assert ran.result.exit_code == 0
    assert not Path("/proc", noted.read_text().strip()).exists()
    assert not (root / "second").exists()
    told = "\n".join(event["text"] for event in ran.of("notice"))
    assert "was not run, because 1 run already" in told
    assert "it was ended with the run" in told


# The ends of turns


def test_a_stop_hook_keeps_the_lead_at_work_until_it_agrees(root: Path) -> None:
    log = Log(Stop=[block("run the tests"), None])
    lead = alone("I am done.", [call("glob", pattern="*")], "Now I am.")
    ran = run_team(root, lead, hooks=log.hooks("Stop"))
    assert "[runtime] A Stop hook asks you to go on: run the tests" in ran.shown("lead")
    assert ran.result.ending.text == "Now I am."
    told = log.of("Stop")
    assert [one["stop_hook_active"] for one in told] == [False, True]
    assert [one["last_assistant_message"] for one in told] == ["I am done.", "Now I am."]


def test_ends_are_told_with_the_schedules_of_the_session(root: Path) -> None:
    log = Log()
    once = call("schedule_cron", cron="in 3 hours", prompt="the meeting")
    weekly = call("schedule_cron", cron="0 9 * * mon", prompt="the week")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [once, weekly, spawn("anna")]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield "Done."

    scripts = {"lead": lead, "anna": anna}
    run_team(root, scripts, hooks=log.hooks("Stop", "SubagentStop"))
    assert {one["hook_event_name"] for one in log.seen} == {"Stop", "SubagentStop"}
    for told in log.seen:
        first, second = told["session_crons"]
        assert (first["schedule"], first["recurring"], first["prompt"]) == (
            "in 3 hours",
            False,
            "the meeting",
        )
        assert (second["schedule"], second["recurring"]) == ("0 9 * * mon", True)
        assert first["id"] != second["id"]
    assert all(one["background_tasks"] == [] for one in log.of("SubagentStop"))


def test_a_permission_request_tells_what_always_would_keep(root: Path) -> None:
    log = Log()
    hooks = log.hooks("PermissionRequest")
    steps = (
        [call("bash", command="make 'a b'")],
        [call("bash", command="make $X")],
        [write("x.txt")],
    )
    run_team(root, alone(*steps), hooks=hooks)
    suggested = [one["permission_suggestions"] for one in log.seen]
    kept = {"type": "addRules", "behavior": "allow", "destination": "localSettings"}
    assert suggested == [
        [{**kept, "rules": [{"toolName": "Bash", "ruleContent": "make 'a b'"}]}],
        [],
        [{**kept, "rules": [{"toolName": "Edit", "ruleContent": "/x.txt"}]}],
    ]


def test_after_8_in_a_row_the_lead_ends_all_the_same(root: Path) -> None:
    log = Log(Stop=[block("never")] * 20)
    ran = run_team(root, alone(), hooks=log.hooks("Stop"))
    assert ran.result.exit_code == 0
    assert ran.turns("lead") == 9
    (told,) = ran.of("notice", "lead")
    assert "8 times in a row" in told["text"]


def test_stop_is_asked_again_when_the_last_teammate_has_reported(root: Path) -> None:
    """claude-code#83266, #48470, #24421, #25147: Stop was skipped for good."""
    log = Log(Stop=[block("anna still works"), None, block("look at it"), None])

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield "Done?"
        yield "Waiting."
        assert seen.message(type="result") is not None
        yield "Done?"
        yield "Looked at it."

    def anna(seen: Seen) -> Iterator[Any]:
        yield until("turn_ended", "lead", 4)
        yield [complete()]
        yield "Completed."

    ran = run_team(root, {"lead": lead, "anna": anna}, hooks=log.hooks("Stop"))
    told = log.of("Stop")
    assert [[b["id"] for b in one["background_tasks"]] for one in told[:2]] == [["anna"]] * 2
    assert ran.result.ending.text == "Looked at it."
    assert {one["agent_name"] for one in told} == {"lead"}


def test_a_teammate_is_kept_from_going_idle(root: Path) -> None:
    log = Log(TeammateIdle=[block("you forgot the notes")])
    steps = "I think that is all.", [write("notes.txt", "new\n")]
    ran = run_team(root, pair(*steps), hooks=log.hooks("TeammateIdle"))
    assert "A TeammateIdle hook asks you to go on: you forgot the notes" in ran.shown("anna")
    assert ran.file_on("team/one", "notes.txt") == "new"
    assert [one["agent_name"] for one in log.seen] == ["anna", "anna"]


def test_waiting_for_a_review_is_not_going_idle(root: Path) -> None:
    log = Log(TeammateIdle=[block()] * 20)

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1", require_plan=True)]
        yield "Waiting."
        asked = seen.message(type="plan_request")
        assert asked is not None
        assert log.seen == []
        yield [call("review_plan", request_id=asked["request_id"], approve=True)]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="1. Nothing")]
        yield "It waits."
        yield [complete()]

    ran = run_team(root, {"lead": lead, "anna": anna}, hooks=log.hooks("TeammateIdle"))
    assert ran.task().status == COMPLETED
    assert len(log.seen) == 9


@pytest.mark.parametrize("end", ["done", "asked", "forced", "failed", "interrupted", "turns"])
def test_a_teammates_start_and_stop_are_always_paired(root: Path, end: str) -> None:
    """claude-code#92716: who was killed was never said to have ended."""
    log = Log()

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        if end in ("asked", "forced"):
            yield until("turn_started", "anna")
            yield [call("request_shutdown", teammate="anna")]
        if end == "interrupted":
            yield until("turn_started", "anna")
            yield interrupt
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        if end == "failed":
            yield ValueError("the model broke")
        if end in ("forced", "interrupted"):
            yield until("run_ended")
        yield "Done."

    def interrupt() -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    run_team(
        root,
        {"lead": lead, "anna": anna},
        hooks=log.hooks("SubagentStart", "SubagentStop"),
        stop_seconds=0.2 if end == "forced" else 20.0,
        max_turns=2 if end == "turns" else None,
    )
    assert log.names() == [("SubagentStart", "anna"), ("SubagentStop", "anna")]
    assert log.seen[1]["reason"]


def test_context_at_the_start_reaches_a_new_teammate(root: Path) -> None:
    log = Log(SubagentStart=[{"additionalContext": "Use tabs."}])
    ran = run_team(root, pair(), hooks=log.hooks("SubagentStart"))
    assert '<hook_context event="SubagentStart">Use tabs.</hook_context>' in ran.shown("anna")


# A run's beginning and end


def test_a_run_tells_of_its_beginning_its_prompt_and_its_end(root: Path) -> None:
    log = Log(
        SessionStart=[{"additionalContext": "It is Monday."}],
        UserPromptSubmit=[{"additionalContext": "Mind the tests."}],
    )
    ran = run_team(root, alone(), hooks=log.hooks("SessionStart", "UserPromptSubmit", "SessionEnd"))
    assert [one["hook_event_name"] for one in log.seen] == [
        "SessionStart",
        "UserPromptSubmit",
        "SessionEnd",
    ]
    assert [log.seen[0]["source"], log.seen[1]["prompt"]] == ["startup", "Do it."]
    assert log.seen[2]["reason"] == "other"
    shown = ran.shown("lead")
    assert shown.startswith("Do it.")
    assert "It is Monday." in shown
    assert "Mind the tests." in shown


def test_a_refused_prompt_starts_no_turn_and_is_asked_again_on_resume(root: Path) -> None:
    log = Log(UserPromptSubmit=[block("name the ticket"), None])
    ran = run_team(root, alone(), hooks=log.hooks("UserPromptSubmit"))
    assert ran.result.exit_code == 4
    assert "A UserPromptSubmit hook refused: name the ticket" in str(ran.result.ending.error)
    assert ran.turns("lead") == 0
    assert len(ran.of("run_ended")) == 1
    ran = run_team(root, alone(), hooks=log.hooks("UserPromptSubmit"), resume=ran.result.session)
    assert ran.result.exit_code == 0
    assert [one["prompt"] for one in log.seen] == ["Do it."] * 2


def test_a_resumed_run_says_so_and_asks_about_nothing_it_was_not_given(root: Path) -> None:
    first = run_team(root, alone())
    log = Log(SessionStart=[{"additionalContext": "Again."}])
    ran = run_team(root, alone(), hooks=log.hooks(), resume=first.result.session)
    assert log.seen[0]["source"] == "resume"
    assert log.of("UserPromptSubmit") == []
    assert ran.turns("lead") == 0


@pytest.mark.parametrize("agent", ["lead", "anna"])
def test_continue_false_stops_the_agent_and_the_lead_stops_the_run(root: Path, agent: str) -> None:
    def stop(payload: Mapping[str, Any]) -> Any:
        if payload["agent_name"] == agent and payload["tool_name"] == "Write":
            return {"continue": False, "stopReason": "enough"}
        return None

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        if agent == "lead":
            yield [write("b.txt")]
            raise AssertionError("no turn follows")
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("a.txt")]
        assert agent == "lead"
        yield until("agent_state", "lead", state="stopping")

    ran = run_team(root, {"lead": lead, "anna": anna}, hooks=[PythonHook("PreToolUse", stop)])
    if agent == "lead":
        assert ran.result.exit_code == 4
        assert "a hook ended the run: enough" in str(ran.result.ending.error)
    else:
        assert ran.of("agent_state", "anna", state="stopped")
        assert ran.task().status == PENDING
        assert ran.task().attempts[-1].note == "a hook stopped it: enough"


def test_a_hook_may_refuse_the_whole_run_at_its_start(root: Path) -> None:
    log = Log(SessionStart=[{"continue": False, "stopReason": "not on a Sunday"}])
    ran = run_team(root, alone(), hooks=log.hooks())
    assert ran.result.exit_code == 4
    assert "A SessionStart hook refused: not on a Sunday" in str(ran.result.ending.error)
    assert ran.turns("lead") == 0


def test_who_has_ended_cannot_be_stopped_and_the_run_goes_on(root: Path) -> None:
    log = Log(SubagentStop=[{"continue": False}])
    ran = run_team(root, pair(), hooks=log.hooks("SubagentStop"))
    assert (ran.result.exit_code, len(log.seen)) == (0, 1)


# Before tasks, plans and worktrees change


GATED: dict[str, tuple[Any, str]] = {
    "TaskCreated": ([call("create_task", subject="x")], "A TaskCreated hook refused: no"),
    "WorktreeCreate": (bound_task(), "A WorktreeCreate hook refused: no"),
    "TaskClaimed": (
        [call("create_task", subject="x"), call("claim_task", task_id="task_1")],
        "task_1 cannot be claimed by lead: a hook refused: no",
    ),
    "TaskCompleted": (
        [call("create_task", subject="x"), call("claim_task", task_id="task_1"), complete()],
        "A TaskCompleted hook refused: no",
    ),
}


@pytest.mark.parametrize("event", GATED)
def test_a_gate_refuses_before_anything_is_written(root: Path, event: str) -> None:
    steps, said = GATED[event]
    log = Log(**{event: [block()] * 9})
    ran = run_team(root, alone(steps), hooks=log.hooks(event))
    assert said in ran.shown("lead")
    (told,) = log.seen
    assert told["agent_name"] == "lead"
    tasks = ran.workspace.board.list()
    assert len(tasks) == (0 if event == "TaskCreated" else 1)
    assert all(task.status == PENDING and task.worktree is None for task in tasks)
    assert not (root / "worktrees" / "one").exists()


def test_a_refused_plan_is_not_submitted_and_a_better_one_is(root: Path) -> None:
    log = Log(PlanSubmitted=[block("name the files"), None])

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1", require_plan=True)]
        yield "Waiting."
        asked = seen.message(type="plan_request")
        assert asked is not None
        assert asked["body"] == "1. a.txt"
        yield [call("review_plan", request_id=asked["request_id"], approve=True)]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("submit_plan", plan="1. Something")]
        assert "A PlanSubmitted hook refused: name the files" in seen.text
        yield [call("submit_plan", plan="1. a.txt")]
        yield "It waits."
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "anna": anna}, hooks=log.hooks("PlanSubmitted"))
    assert [one["plan"] for one in log.seen] == ["1. Something", "1. a.txt"]
    assert [one["task_id"] for one in log.seen] == ["task_1"] * 2
    assert len(ran.workspace.plans.list()[0].revisions) == 1


def test_a_refused_landing_moves_no_branch(root: Path) -> None:
    log = Log(WorktreeLand=[block("not on a Friday"), None])

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("task_completed", "anna")
        yield [call("land_worktree", name="one")]
        assert "A WorktreeLand hook refused: not on a Friday" in seen.text
        assert log.seen[0]["target"] == "main"
        yield [call("land_worktree", name="one")]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("a.txt")]
        yield [complete()]
        yield "Done."

    scripts = {"lead": lead, "anna": anna}
    ran = run_team(root, scripts, hooks=log.hooks("WorktreeLand"), allow=("land_worktree",))
    assert len(ran.of("worktree_landed")) == 1
    assert ran.file_on("main", "a.txt") == "text"


def test_a_claim_that_a_hook_keeps_from_a_teammate_is_left_alone_and_the_run_ends(
    root: Path,
) -> None:
    def may(payload: Mapping[str, Any]) -> Any:
        return block("not by anna") if payload["owner"] == "anna" else None

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna")]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield "Nothing to do."

    log = Log()
    hooks = [PythonHook("TaskClaimed", may), *log.hooks("TaskClaimed")]
    ran = run_team(root, {"lead": lead, "anna": anna}, hooks=hooks)
    assert ran.task().status == PENDING
    assert ran.result.exit_code == 1
    assert len(log.seen) == 1
    assert ran.of("message_sent", type="error") == []


def test_every_event_of_the_table_is_brought_about(root: Path) -> None:
    log = Log()

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("message_sent", "anna", to="lead", type="plan_request")
        yield [call("glob", pattern="*")]
        asked = seen.message(type="plan_request")
        assert asked is not None
        yield [call("review_plan", request_id=asked["request_id"], approve=True)]
        yield until("task_completed", "anna")
        yield [call("land_worktree", name="one")]
        yield [write("notes.txt")]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("read_file", path="none")]
        yield [call("submit_plan", plan="1. a.txt")]
        yield "It waits."
        yield [write("a.txt")]
        yield [complete()]
        yield "Done."

    run_team(
        root,
        {"lead": lead, "anna": anna},
        hooks=log.hooks(),
        allow=("land_worktree",),
        approvals="wait",
        approval_deadline=0.1,
    )
    assert {one["hook_event_name"] for one in log.seen} == set(HOOK_EVENTS)
    for one in log.seen:
        row = HOOK_EVENTS[one["hook_event_name"]]
        assert set(row.fields) <= set(one), row.name
        if row.values:
            assert one[row.matches or ""] in row.values


def test_hooks_are_read_once_when_the_run_begins(root: Path) -> None:
    def add() -> None:
        settings(root, table("PreToolUse", shell("exit 2")))
        (root.parent / "config" / "settings.json").chmod(0)

    ran = run_team(root, alone([call("glob", pattern="*")], add, [call("glob", pattern="n*")]))
    assert ran.of("permission_denied") == []
    assert ran.of("hook_ran") == []


def test_two_signals_end_a_hook_that_hangs_before_there_is_a_team(root: Path) -> None:
    release = threading.Event()

    def hang(payload: Mapping[str, Any]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        release.wait(20)

    ran = run_team(root, alone(), hooks=[PythonHook("SessionStart", hang)])
    release.set()
    assert ran.result.exit_code == 130
    assert ran.turns("lead") == 0


def test_stopping_an_agent_ends_its_hook(root: Path) -> None:
    """The hook's program is gone when the run is over."""
    noted = root.parent / "hook.pid"
    settings(root, table("PreToolUse", shell(f"echo $$ > {noted}; exec sleep 60"), matcher="Glob"))

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield lambda: wait_for(noted)
        yield [call("request_shutdown", teammate="anna")]
        yield "Waiting."
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("glob", pattern="*")]

    ran = run_team(root, {"lead": lead, "anna": anna}, stop_seconds=0.1)
    assert ran.of("agent_state", "anna", state="stopped")
    assert not Path("/proc", noted.read_text().strip()).exists()


def wait_for(path: Path) -> None:
    """Until another process has written the file."""
    for _ in range(2000):
        if path.exists() and path.read_text().endswith("\n"):
            return
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")
