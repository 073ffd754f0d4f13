"""Rules made from answers: they cover the call that was asked about, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.clock import SystemClock
from team_runtime.errors import InputError, RefusedError
from team_runtime.guard.always import AlwaysRules, exact_rules
from team_runtime.guard.base import Effect, Question, Verdict
from team_runtime.guard.permissions import RulePermissions
from team_runtime.guard.rules import parse


def command(text: str) -> Question:
    return Question("bash", Effect.COMMAND, {"command": text}, None, False)


def edit(path: str | None, *, protected: bool = False) -> Question:
    given = {"path": path, "content": ""}
    return Question("write_file", Effect.EDIT, given, path, False, protected)


def with_rules(*texts: str) -> RulePermissions:
    rules = [parse(text, Verdict.ALLOW, "always", TOOL_NAMES) for text in texts]
    return RulePermissions("default", rules, [])


@pytest.mark.parametrize(
    ("question", "rule"),
    [
        (command("npm test"), "Bash(npm test)"),
        (command("  ls  -l 'a b' "), "Bash(ls -l 'a b')"),
        (command('grep "it\'s" x'), """Bash(grep 'it'"'"'s' x)"""),
        (edit("src/a.py"), "Edit(/src/a.py)"),
        (edit("notes.txt"), "Edit(/notes.txt)"),
    ],
)
def test_a_rule_for_exactly_one_call(question: Question, rule: str) -> None:
    assert exact_rules([question], "default") == [rule]
    assert with_rules(rule).decide(question).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    ("rule", "other"),
    [
        ("Bash(npm test)", command("npm test -- --watch")),
        ("Bash(npm test)", command("npm test && rm -rf x")),
        ("Bash(npm test)", command("npm test > out")),
        ("Bash(npm test)", command("npm  install")),
        ("Edit(/notes.txt)", edit("sub/notes.txt")),
        ("Edit(/src/a.py)", edit("src/b.py")),
        ("Edit(/src/a.py)", edit("other/src/a.py")),
    ],
)
def test_such_a_rule_covers_nothing_else(rule: str, other: Question) -> None:
    assert with_rules(rule).decide(other).verdict is Verdict.ASK


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (command("echo $HOME"), "cannot be told"),
        (command("ls > out"), "cannot be told"),
        (command("sudo ls"), "cannot be told"),
        (command("ls; pwd"), "more than one command"),
        (command("grep 'a*' x"), "any text"),
        (command(""), "cannot be told"),
        (edit(".git/config", protected=True), "own files"),
        (edit("a*.py"), "a pattern"),
        (edit("a[1].py"), "a pattern"),
        (edit(None), "more than this call"),
        (Question("land_worktree", Effect.LAND, {"name": "a"}, None, False), "more than this call"),
    ],
)
def test_what_no_rule_can_say_exactly_is_refused(question: Question, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        exact_rules([question], "default")


@pytest.mark.parametrize("origin", ["hook", "ask rule", ".claude/settings.json"])
def test_what_a_rule_or_a_hook_asks_about_cannot_be_allowed_always(origin: str) -> None:
    with pytest.raises(RefusedError, match="asks about it each time"):
        exact_rules([command("ls")], origin)


def test_a_path_behind_a_link_needs_a_rule_of_its_own() -> None:
    rules = exact_rules([edit("link"), edit("real.txt")], "default")
    assert rules == ["Edit(/link)", "Edit(/real.txt)"]


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_rule_ever_covers_another_command(one: str, two: str) -> None:
    try:
        rules = exact_rules([command(one)], "default")
    except RefusedError:
        return
    permissions = with_rules(*rules)
    assert permissions.decide(command(one)).verdict is Verdict.ALLOW
    if permissions.decide(command(two)).verdict is Verdict.ALLOW:
        assert exact_rules([command(two)], "default") == rules


def test_rules_are_kept_for_the_workspace_they_were_given_in(tmp_path: Path) -> None:
    kept = AlwaysRules(tmp_path / "user", SystemClock())
    one, other = tmp_path / "one", tmp_path / "other"
    kept.add(one, ["Bash(ls)"])
    kept.add(one, ["Bash(ls)", "Bash(pwd)"])
    assert kept.of(one) == ("Bash(ls)", "Bash(pwd)")
    assert kept.of(other) == ()
    one.mkdir()
    (tmp_path / "link").symlink_to(one)
    assert kept.of(tmp_path / "link") == kept.of(one)
    assert kept.path.stat().st_mode & 0o777 == 0o600


def test_a_rule_can_be_taken_back(tmp_path: Path) -> None:
    kept = AlwaysRules(tmp_path, SystemClock())
    kept.add(tmp_path, ["Bash(ls)", "Bash(pwd)"])
    assert kept.forget(tmp_path, "Bash(ls)")
    assert not kept.forget(tmp_path, "Bash(ls)")
    assert kept.of(tmp_path) == ("Bash(pwd)",)
    assert kept.forget(tmp_path, "Bash(pwd)")
    assert json.loads(kept.path.read_text())["workspaces"] == {}


@pytest.mark.parametrize("entry", ["Bash", {"allow": ["Bash"]}, ["Bash", 1]])
def test_a_file_that_is_not_right_is_an_error_and_no_rule(tmp_path: Path, entry: object) -> None:
    kept = AlwaysRules(tmp_path, SystemClock())
    kept.path.write_text(json.dumps({"v": 1, "workspaces": {str(tmp_path): entry}}))
    with pytest.raises(InputError, match="list of rules is expected"):
        kept.of(tmp_path)
