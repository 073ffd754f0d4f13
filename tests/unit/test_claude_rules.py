"""Rules that a repository holds for Claude Code's tools, where some of those do not exist here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from team_runtime.app.agents import TOOL_NAMES, make_permissions
from team_runtime.config import Settings
from team_runtime.errors import InputError
from team_runtime.guard.base import Effect, Question, Verdict
from team_runtime.guard.hook_sources import Loaded, Places, load

PREPARED = {
    "allow": ["WebFetch(domain:docs.python.org)", "mcp__my-server__*", "Bash(make lint)"],
    "deny": ["WebSearch", "SendMessage"],
}


def loaded(tmp_path: Path, permissions: dict[str, list[str]]) -> Loaded:
    folder = tmp_path / "w" / ".claude"
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps({"permissions": permissions}))
    places = Places(tmp_path / "w", tmp_path / "user", tmp_path / "home")
    return load(places, lambda root, found: True, TOOL_NAMES)


def decide(found: Loaded, question: Question) -> Verdict:
    return make_permissions(Settings(), found).decide(question).verdict


def test_rules_about_tools_that_do_not_exist_here_are_told_and_start_nothing_else(
    tmp_path: Path,
) -> None:
    found = loaded(tmp_path, PREPARED)
    told = "\n".join(found.notices)
    assert all(rule in told for rule in ("mcp__my-server__*", "WebFetch(domain", "WebSearch"))
    lint = Question("bash", Effect.COMMAND, {"command": "make lint"}, None, False)
    assert decide(found, lint) is Verdict.ALLOW


def test_a_deny_rule_under_claude_codes_name_binds_our_tool(tmp_path: Path) -> None:
    found = loaded(tmp_path, PREPARED)
    send = Question("send_message", Effect.COORDINATE, {"to": "a", "content": "b"}, None, False)
    assert decide(found, send) is Verdict.DENY


@pytest.mark.parametrize("rule", ["Bassh(ls)", "WebFetchh", "mcp_x", "Taks"])
def test_a_misspelt_rule_starts_nothing(tmp_path: Path, rule: str) -> None:
    with pytest.raises(InputError, match="can match nothing"):
        make_permissions(Settings(), loaded(tmp_path, {"deny": [rule]}))
