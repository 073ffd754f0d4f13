"""A playbook in which anna writes a file, then runs a program that waits, then completes her task.

With a task that needs a plan she submits one when she is told to.
"""

from __future__ import annotations

import os
from typing import Any

from tests.support.careful import history, last_calls, plans_in, say

_PLANNED = "TEAM_TEST_PLAN" in os.environ
_WAIT = f"python3 wait.py {os.environ.get('TEAM_TEST_WAIT', 'politely')}"


def reply(agent: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    past = list(history(messages).values())
    done = {call["name"] for call in past if call["done"]}
    return _lead(done, messages) if agent == "lead" else _anna(done, past, messages)


def _lead(done: set[str], messages: list[dict[str, Any]]) -> dict[str, Any]:
    steps: dict[str, dict[str, Any]] = {
        "create_task": {"subject": "Write a", "plan_required": _PLANNED},
        "create_worktree": {"name": "a", "task_id": "task_1"},
        "spawn_teammate": {
            "name": "anna", "role": "writer", "prompt": "Write a.", "task_id": "task_1",
        },
    }  # fmt: skip
    for name, given in steps.items():
        if name not in done:
            return say("I go on.", (name, given))
    if "review_plan" not in done and (plans := plans_in(messages)):
        return say("I approve.", ("review_plan", {"request_id": plans[0], "approve": True}))
    if "Anna has handed it in." not in str(messages):
        return say("I wait.")
    if "land_worktree" not in done:
        return say("It lands.", ("land_worktree", {"name": "a"}))
    return say("It is done.")


def _anna(
    done: set[str], past: list[dict[str, Any]], messages: list[dict[str, Any]]
) -> dict[str, Any]:
    last = (last_calls(messages) or [{"name": "", "text": ""}])[0]
    if "write_file" not in done:
        if last["name"] == "submit_plan" or "waits for review" in last["text"]:
            return say("My plan waits.")
        if last["name"] == "write_file" and "submit_plan" in last["text"]:
            return say("I plan.", ("submit_plan", {"plan": "Write a.txt."}))
        return say("I write.", ("write_file", {"path": "a.txt", "content": "written\n"}))
    if not any(call["name"] == "bash" for call in past):
        return say("I wait for a program.", ("bash", {"command": _WAIT}))
    if last["name"] == "complete_task" and "complete_task" not in done:
        return say(f"I could not complete it: {last['text']}")
    if "complete_task" not in done:
        return say("I complete it.", ("complete_task", {"task_id": "task_1"}))
    return say("Anna has handed it in.")
