"""Rules that a repository holds for Claude Code's tools, where some of those do not exist here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from team_runtime.app.permissions import make_permissions
from team_runtime.app.tools import TOOL_NAMES
from team_runtime.config import Settings
from team_runtime.errors import InputError
from team_runtime.guard.anchors import in_place
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


@pytest.mark.parametrize("name", ["KillShell", "KillBash", "TaskStop"])
def test_every_name_that_a_tool_has_had_binds_it(tmp_path: Path, name: str) -> None:
    question = Question("kill_job", Effect.COORDINATE, {"job_id": "job_1"}, None, False)
    assert decide(loaded(tmp_path, {"deny": [name]}), question) is Verdict.DENY


def test_rules_about_kinds_of_agents_are_told(tmp_path: Path) -> None:
    found = loaded(tmp_path, {"deny": ["Agent(Explore)", "Task(general-purpose)"]})
    assert found.deny == ()
    assert "Agent(Explore), Task(general-purpose)" in "\n".join(found.notices)


def reading(path: str) -> Question:
    return Question("read_file", Effect.READ, {"path": path}, path, False)


@pytest.mark.parametrize(
    ("rule", "denied", "left"),
    [
        ("Read(~/w/.env)", [".env"], ["src/.env", "a"]),
        ("Read(~/w/secrets/**)", ["secrets/a/b", "SECRETS/a"], ["secret", "src/secrets/a"]),
        ("Read(~/*/keys)", ["keys", "keys/a"], ["src/keys"]),
        ("Read(~/W/keys)", ["keys"], ["a"]),
        ("Read(~/**)", ["a", "src/b"], []),
        ("Read(~)", ["a", "src/b"], []),
        ("Read(~/**/.env)", [".env", "src/.env"], ["env"]),
        ("Read(//**/*.pem)", ["a.pem", "src/a.pem"], ["a.py"]),
        ("Read(//ROOT/src/**)", ["src/a"], ["a"]),
        ("Edit(//ROOT/src)", [], ["src/a"]),
    ],
)
def test_a_path_from_the_root_or_a_home_means_what_it_covers_of_the_workspace(
    tmp_path: Path, rule: str, denied: list[str], left: list[str]
) -> None:
    rule = rule.replace("/ROOT", str(tmp_path / "w")).replace("~/", f"/{tmp_path}/")
    if rule == "Read(~)":
        rule = f"Read(/{tmp_path})"
    found = loaded(tmp_path, {"deny": [rule]})
    assert [path for path in [*denied, *left] if decide(found, reading(path)) is Verdict.DENY] == (
        denied
    )


def test_a_home_is_the_users(tmp_path: Path) -> None:
    root, home = tmp_path / "home" / "w", tmp_path / "home"
    assert in_place("Read(~/w/a/*)", Verdict.DENY, root, home) == ("Read(/a/*)",)
    assert in_place("Read(~)", Verdict.DENY, root, home) == ("Read(/**)",)
    assert in_place("Read(~other/w/a)", Verdict.DENY, root, home) == ("Read(~other/w/a)",)
    assert in_place("Read(~/w/x/../a)", Verdict.DENY, root, home) == ("Read(~/w/x/../a)",)
    assert in_place("Bash(~/w/run.sh *)", Verdict.ALLOW, root, home) == ("Bash(~/w/run.sh *)",)
    assert in_place("Edit(~/W/a)", Verdict.ALLOW, root, home) == ()
    (tmp_path / "link").symlink_to(home)
    assert in_place("Read(~/w/a)", Verdict.DENY, root, tmp_path / "link") == ("Read(/a)",)


def test_rules_about_places_outside_are_told_because_all_of_those_are_refused(
    tmp_path: Path,
) -> None:
    rules = ["Read(~/.ssh/**)", "Read(//etc/**)"]
    found = loaded(tmp_path, {"deny": rules, "allow": ["Read(~/notes/**)"]})
    assert found.deny == found.allow == ()
    assert "Read(//etc/**), Read(~/.ssh/**), Read(~/notes/**)" in "\n".join(found.notices)


def test_a_rule_that_a_person_gives_may_begin_at_the_root_or_a_home_too(tmp_path: Path) -> None:
    found = loaded(tmp_path, {})
    absolute = f"Edit(/{tmp_path}/w/migrations/**)"
    with pytest.raises(InputError, match="relative to the workspace"):
        make_permissions(Settings(deny=("Read(~/../w/x)",)), found)
    permissions = make_permissions(Settings(deny=(absolute,), allow=("Edit",)), found)
    for path, verdict in (("migrations/1.sql", Verdict.DENY), ("src/a.py", Verdict.ALLOW)):
        question = Question("edit_file", Effect.EDIT, {"path": path}, path, False)
        assert permissions.decide(question).verdict is verdict


@pytest.mark.parametrize("rule", ["Read(~/.ssh/**)", "Edit(//etc/**)", "Read(~)"])
@pytest.mark.parametrize("kind", ["allow", "deny"])
def test_but_one_that_a_person_gives_about_places_outside_is_an_error(
    tmp_path: Path, rule: str, kind: str
) -> None:
    found = loaded(tmp_path, {})
    settings = Settings(allow=(rule,)) if kind == "allow" else Settings(deny=(rule,))
    with pytest.raises(InputError, match=f"{kind} rule: .*is about no file of the workspace"):
        make_permissions(settings, found)


def of_user(tmp_path: Path, place: str, permissions: dict[str, list[str]]) -> Loaded:
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"permissions": permissions}))
    places = Places(tmp_path / "w", tmp_path / "user", tmp_path / "home")
    return load(places, lambda root, found: False, TOOL_NAMES)


COMMANDS = {"allow": ["Bash(make *)"], "ask": ["Bash(git push *)"], "deny": ["Bash(rm *)"]}


def test_the_rules_of_the_users_own_settings_count(tmp_path: Path) -> None:
    found = of_user(tmp_path, "user/settings.json", COMMANDS)
    for text, verdict in (("make x", "allow"), ("git push", "ask"), ("rm x", "deny")):
        question = Question("bash", Effect.COMMAND, {"command": text}, None, False)
        assert decide(found, question).value == verdict
    with pytest.raises(InputError, match="can match nothing"):
        make_permissions(Settings(), of_user(tmp_path / "b", "user/settings.json", {"deny": ["x"]}))


def test_of_the_users_file_for_claude_code_the_rules_count_that_narrow(tmp_path: Path) -> None:
    given = {**COMMANDS, "deny": ["Bash(rm *)", "Bash(curl * | sh)"]}
    found = of_user(tmp_path, "home/.claude/settings.json", given)
    assert found.allow == ()
    assert [rule.text for rule in (*found.ask, *found.deny)] == ["Bash(git push *)", "Bash(rm *)"]
    assert "'Bash(curl * | sh)' can match nothing" in "\n".join(found.notices)
