"""What is allowed, asked and denied in each mode, with and without rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.app.permissions import narrowed
from team_runtime.errors import InputError
from team_runtime.guard.base import Decision, Effect, Question, Verdict, strictest
from team_runtime.guard.permissions import MODES, NarrowedPermissions
from team_runtime.guard.shell import MAX_LENGTH
from tests.support.tools import allowing, asking, denying, permissions

READ = Question("read_file", Effect.READ, {"path": "a"}, "a", in_task=False)
MAIN = Question("edit_file", Effect.EDIT, {"path": "a"}, "a", in_task=False)
TASK = replace(MAIN, in_task=True)
BASH = Question("bash", Effect.COMMAND, {"command": "ls -l"}, None, in_task=True)
LAND = Question("land_worktree", Effect.LAND, {"name": "w"}, None, in_task=False)
BOARD = Question("create_task", Effect.COORDINATE, {"subject": "s"}, None, in_task=False)
GIT = replace(TASK, path=".git/config", protected=True)

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
TABLE = {
    # mode: read, edit of the main checkout, edit of the own task, command, landing, board
    "default": (ALLOW, ASK, ALLOW, ASK, ASK, ALLOW),
    "acceptEdits": (ALLOW, ALLOW, ALLOW, ASK, ASK, ALLOW),
    "plan": (ALLOW, DENY, DENY, DENY, DENY, ALLOW),
    "dontAsk": (ALLOW, DENY, ALLOW, DENY, DENY, ALLOW),
    "bypassPermissions": (ALLOW, ALLOW, ALLOW, ALLOW, ALLOW, ALLOW),
}


def verdict(
    question: Question, mode: str = "default", allow: Sequence[str] = (), deny: Sequence[str] = ()
) -> Verdict:
    return permissions(mode, allow, deny).decide(question).verdict


def test_the_table_has_every_mode() -> None:
    assert set(TABLE) == set(MODES)
    with pytest.raises(InputError, match="unknown permission mode"):
        permissions("yolo")


@pytest.mark.parametrize("mode", TABLE)
def test_without_rules_the_mode_decides(mode: str) -> None:
    questions = (READ, MAIN, TASK, BASH, LAND, BOARD)
    assert tuple(verdict(question, mode) for question in questions) == TABLE[mode]


@pytest.mark.parametrize("mode", MODES)
def test_the_files_of_git_and_the_runtime_are_never_edited(mode: str) -> None:
    assert verdict(GIT, mode, allow=["Edit", "Edit(.git/**)"]) is DENY
    assert verdict(replace(READ, path=".git/config", protected=True), mode) is ALLOW


@pytest.mark.parametrize("mode", MODES)
def test_a_deny_rule_holds_in_every_mode_and_against_every_allow_rule(mode: str) -> None:
    allow = ["Bash", "Bash(ls *)", "Edit", "Read", "land_worktree"]
    assert verdict(BASH, mode, allow, ["Bash(ls *)"]) is DENY
    assert verdict(TASK, mode, allow, ["Edit(a)"]) is DENY
    assert verdict(READ, mode, allow, ["Read"]) is DENY
    assert verdict(LAND, mode, allow, ["land_worktree"]) is DENY
    assert verdict(BOARD, mode, allow, ["create_task"]) is DENY


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "dontAsk", "bypassPermissions"])
def test_an_allow_rule_spares_the_question(mode: str) -> None:
    assert verdict(BASH, mode, ["Bash(ls *)"]) is ALLOW
    assert verdict(MAIN, mode, ["Edit(a)"]) is ALLOW
    assert verdict(LAND, mode, ["land_worktree"]) is ALLOW


def test_the_mode_plan_beats_allow_rules() -> None:
    allow = ["Bash", "Edit", "land_worktree"]
    assert {verdict(question, "plan", allow) for question in (MAIN, TASK, BASH, LAND)} == {DENY}


def test_a_bare_rule_covers_what_is_opaque_and_a_pattern_does_not() -> None:
    opaque = replace(BASH, input={"command": "ls > x"})
    assert verdict(opaque, allow=["Bash"]) is ALLOW
    assert verdict(opaque, allow=["Bash(*)"]) is ALLOW
    assert verdict(opaque, allow=["Bash(ls *)"]) is ASK


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["true; " * MAX_LENGTH + "rm x", "a" * (MAX_LENGTH + 1)])
def test_a_command_over_the_limit_is_denied(mode: str, text: str) -> None:
    question = replace(BASH, input={"command": text})
    assert verdict(question, mode, ["Bash"], ["Bash(rm *)"]) is DENY


@pytest.mark.parametrize("input", [{}, {"command": None}, {"command": ["ls"]}, [], None, "ls"])
def test_a_command_call_without_a_command_is_denied(input: object) -> None:
    assert verdict(replace(BASH, input=input), "bypassPermissions", ["Bash"]) is DENY


def test_a_decision_names_its_rule() -> None:
    denied = permissions(deny=["Bash(ls *)"]).decide(BASH)
    assert (denied.rule, denied.origin) == ("Bash(ls *)", "deny rule")
    assert "Bash(ls *)" in denied.reason
    allowed = permissions(allow=["Bash(ls *)"]).decide(BASH)
    assert (allowed.rule, allowed.origin) == ("Bash(ls *)", "allow rule")
    assert permissions("dontAsk").decide(BASH).reason.endswith("the mode is dontAsk")


def test_the_strictest_decision_is_the_first_that_none_beats() -> None:
    allow, ask, deny, other = (Decision(v, str(n)) for n, v in enumerate([ALLOW, ASK, DENY, DENY]))
    assert strictest([allow]) is allow
    assert strictest([allow, ask, allow]) is ask
    assert strictest([ask, deny, other, allow]) is deny


RULES = [
    *("Bash", "Bash(ls *)", "Bash(* -l)", "Bash(git:*)", "Read", "Read(a)", "Read(./b/**)", "Edit"),
    *("Edit(*.py)", "Write(a)", "grep", "land_worktree", "create_task", "Glob(b)"),
]  # fmt: skip
RULE_LISTS = st.lists(st.sampled_from(RULES), max_size=4)
PATHS = st.sampled_from(["a", ".", "b/x.py", "worktrees/w/a", ".git/config", "b"]) | st.none()
COMMANDS = st.sampled_from(["ls", "ls -l", "git x; ls", "ls > y", "eval git", "x" * 30_000, ""])
QUESTIONS = st.one_of(
    st.builds(
        Question,
        st.sampled_from(["read_file", "glob", "grep"]),
        st.just(Effect.READ),
        st.just({}),
        PATHS,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(
        Question,
        st.sampled_from(["edit_file", "write_file"]),
        st.just(Effect.EDIT),
        st.just({}),
        PATHS,
        st.booleans(),
        st.booleans(),
    ),
    st.builds(lambda text: replace(BASH, input={"command": text}), COMMANDS),
    st.sampled_from([LAND, BOARD]),
)
MODE = st.sampled_from(MODES)


@given(QUESTIONS, MODE, RULE_LISTS, RULE_LISTS, st.sampled_from(RULES))
def test_a_further_deny_rule_never_allows_more(
    question: Question, mode: str, allow: list[str], deny: list[str], further: str
) -> None:
    order = list(Verdict)
    before = verdict(question, mode, allow, deny)
    after = verdict(question, mode, allow, [*deny, further])
    assert order.index(after) >= order.index(before)


@given(QUESTIONS, MODE, RULE_LISTS, RULE_LISTS, st.sampled_from(RULES))
def test_a_further_allow_rule_never_denies_and_never_lifts_a_denial(
    question: Question, mode: str, allow: list[str], deny: list[str], further: str
) -> None:
    order = list(Verdict)
    before = permissions(mode, allow, deny).decide(question)
    after = permissions(mode, [*allow, further], deny).decide(question)
    assert order.index(after.verdict) <= order.index(before.verdict)
    if before.verdict is DENY and before.origin == "deny rule":
        assert after == before


@given(QUESTIONS, MODE, RULE_LISTS, RULE_LISTS)
def test_the_same_question_has_the_same_answer(
    question: Question, mode: str, allow: list[str], deny: list[str]
) -> None:
    decider = permissions(mode, allow, deny)
    first = decider.decide(question)
    assert first.reason
    assert decider.decide(question) == first == permissions(mode, allow, deny).decide(question)


@given(
    QUESTIONS,
    st.tuples(MODE, RULE_LISTS, RULE_LISTS),
    st.tuples(MODE | st.none(), RULE_LISTS | st.none(), RULE_LISTS, RULE_LISTS),
    RULE_LISTS,
)
def test_a_child_is_never_wider_than_its_parent(
    question: Question,
    given: tuple[str, list[str], list[str]],
    own: tuple[str | None, list[str] | None, list[str], list[str]],
    answered: list[str],
) -> None:
    """Whatever it was given, and whatever a person allows while it works."""
    order = list(Verdict)
    parent = permissions(*given)
    mode, allow, deny, ask = own
    child = NarrowedPermissions(
        parent,
        mode,
        None if allow is None else allowing(*allow),
        denying(*deny),
        asking(*ask),
    )
    for _ in range(2):
        above, below = parent.decide(question), child.decide(question)
        assert order.index(below.verdict) >= order.index(above.verdict)
        child.allowances.add(allowing(*answered))


@given(QUESTIONS, MODE, RULE_LISTS, RULE_LISTS)
def test_a_child_with_nothing_of_its_own_is_as_its_parent(
    question: Question, mode: str, allow: list[str], deny: list[str]
) -> None:
    parent = permissions(mode, allow, deny)
    assert NarrowedPermissions(parent).decide(question) == parent.decide(question)


def test_what_is_allowed_while_it_works_counts_at_once() -> None:
    parent = permissions()
    child = NarrowedPermissions(parent, deny=denying("Bash(ls -a)"))
    assert child.decide(BASH).verdict is ASK
    parent.allowances.add(allowing("Bash(ls *)"))
    assert parent.decide(BASH).verdict is child.decide(BASH).verdict is ALLOW
    assert child.decide(replace(BASH, input={"command": "ls -a"})).verdict is DENY


@pytest.mark.parametrize(
    ("own", "command", "expected"),
    [
        ({"deny": ["Bash(ls *)"]}, "ls .", "denied by Bash(ls *)"),
        ({"allow": ["Bash(cat *)"]}, "ls .", "no rule allows this command"),
        ({"allow": ["Bash(cat *)"]}, "cat a", "allowed by Bash(cat *)"),
        ({"allow": ["Bash"]}, "touch x", "no rule allows this command"),
        ({"ask": ["Bash(ls *)"]}, "ls .", "Bash(ls *) asks"),
        ({"mode": "plan"}, "ls .", "the mode is plan: nothing may be changed"),
        ({"mode": "dontAsk"}, "touch x", "no rule allows this command, and the mode is dontAsk"),
        ({"mode": "bypassPermissions"}, "touch x", "no rule allows this command"),
        ({"mode": "bypassPermissions", "allow": []}, "ls .", "allowed by Bash(ls *)"),
    ],
)
def test_what_a_teammate_is_given_narrows_what_its_parent_may(
    own: dict[str, Any], command: str, expected: str
) -> None:
    parent = permissions("default", ["Bash(ls *)", "Bash(cat *)"])
    question = replace(BASH, input={"command": command})
    assert narrowed(parent, own, "anna").decide(question).reason == expected


def test_an_allow_list_of_a_teammate_narrows_whatever_the_mode_of_its_parent() -> None:
    child = narrowed(permissions("bypassPermissions"), {"allow": ["Bash(ls *)"]}, "anna")
    assert child.decide(BASH).verdict is ALLOW
    assert child.decide(replace(BASH, input={"command": "touch x"})).verdict is ASK


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"mode": "none"}, "unknown permission mode"),
        ({"mode": ["plan"]}, "give a mode"),
        ({"allow": "Bash"}, "allow: a list of rules is expected"),
        ({"deny": [1]}, "deny: a list of rules is expected"),
        ({"ask": ["Bsh"]}, "permissions of anna: the rule 'Bsh' can match nothing"),
        ({"more": ["Bash"]}, "give a mode, and lists of rules in allow, deny and ask"),
    ],
)
def test_what_cannot_narrow_is_an_error(own: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        narrowed(permissions(), own, "anna")


@given(QUESTIONS, MODE, st.permutations(RULES), st.permutations(RULES), st.data())
def test_the_order_of_rules_changes_no_verdict(
    question: Question, mode: str, allow: list[str], deny: list[str], data: st.DataObject
) -> None:
    allow, deny = allow[:5], deny[:2]
    other = data.draw(st.permutations(allow)), data.draw(st.permutations(deny))
    assert verdict(question, mode, allow, deny) is verdict(question, mode, *other)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
ANY_TEXT = st.text(st.characters(codec=None), max_size=40) | st.text(
    st.sampled_from("ls git -c=;&|\n'\"$`(){}<>*?[]~!#\\/\0\r"), max_size=40
)


@given(st.sampled_from([READ, MAIN, TASK, BASH, LAND, BOARD]), ANYTHING, ANY_TEXT, MODE, RULE_LISTS)
def test_every_call_has_a_decision(
    question: Question, input: object, text: str, mode: str, rules: list[str]
) -> None:
    """Whatever the input, the path and the command are."""
    decider = permissions(mode, rules, rules[::-1])
    asked = [replace(question, input=input), replace(question, path=text)]
    asked += [replace(BASH, input={"command": text}), replace(question, path=None)]
    for each in asked:
        decision = decider.decide(each)
        assert decision.verdict in Verdict
        assert decision.reason


@given(ANY_TEXT, st.sampled_from(RULES), RULE_LISTS)
def test_a_further_deny_rule_never_allows_any_text_more(
    text: str, further: str, allow: list[str]
) -> None:
    question, order = replace(BASH, input={"command": text}), list(Verdict)
    before = verdict(question, "bypassPermissions", allow)
    assert order.index(verdict(question, "bypassPermissions", allow, [further])) >= order.index(
        before
    )
