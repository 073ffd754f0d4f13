"""What hooks say against what rules say: deny beats ask beats allow, about the input that runs.

Claude Code's changelog: a hook's allow beat a deny rule, an allow rule beat an ask rule, and what a
PermissionRequest hook had changed was not decided about again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.guard.hook_config import PythonHook, python_hooks
from team_runtime.guard.permissions import RulePermissions
from team_runtime.loop.hooked import AgentHooks
from tests.support.hooking import make_hooks
from tests.support.tools import Desk, allowing, asking, denying

GIVEN, RUNS, RULE = "true", "touch made", "Bash(touch *)"
ORDER: Final = ["allow", "ask", "deny"]
MODES = pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])


def desk_with(folder: Path, rules: RulePermissions, event: str, **said: Any) -> Desk:
    """An agent under these rules, and a hook that says this about its commands."""
    answer = {"hookSpecificOutput": {"hookEventName": event, **said}}
    hooks = python_hooks([PythonHook(event, lambda payload: answer, "Bash")], TOOL_NAMES)
    desk = Desk(folder)
    told = AgentHooks("ann", hooks=make_hooks(hooks, folder))
    desk.dispatch = replace(desk.dispatch, permissions=rules, hooks=told)
    return desk


@MODES
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("said", [None, *ORDER])
@pytest.mark.parametrize("ruled", [None, *ORDER])
def test_what_a_rule_says_is_widened_by_no_hook_and_no_mode(
    tmp_path: Path, ruled: str | None, said: str | None, rewritten: bool, mode: str
) -> None:
    rules = RulePermissions(
        mode,
        allowing(RULE) if ruled in ("allow", "ask") else [],
        denying(RULE) if ruled == "deny" else [],
        asking(RULE) if ruled == "ask" else [],
    )
    decision = {"permissionDecision": said} if said else {}
    changed = {"updatedInput": {"command": RUNS}} if rewritten else {}
    desk = desk_with(tmp_path, rules, "PreToolUse", **decision, **changed)
    desk.call("bash", command=GIVEN if rewritten else RUNS)
    without_rule = "allow" if said == "allow" or mode == "bypassPermissions" else "ask"
    expected = max(ruled or without_rule, said or "allow", key=ORDER.index)
    assert (tmp_path / "made").exists() is (expected == "allow")
    asked = [checked.input.command for checked in desk.asked]
    assert asked == ([RUNS] if expected == "ask" else [])


@MODES
@pytest.mark.parametrize("denied", [False, True])
def test_what_is_changed_in_the_place_of_an_answer_is_decided_about(
    tmp_path: Path, denied: bool, mode: str
) -> None:
    rules = RulePermissions(mode, [], denying(RULE) if denied else [], asking("Bash"))
    decision = {"behavior": "allow", "updatedInput": {"command": RUNS}}
    desk = desk_with(tmp_path, rules, "PermissionRequest", decision=decision)
    desk.call("bash", command=GIVEN)
    assert (tmp_path / "made").exists() is not denied
    assert desk.asked == []
