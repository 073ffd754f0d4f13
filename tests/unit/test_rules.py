"""What a permission rule covers, and which rules are refused because they cover nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.errors import InputError
from team_runtime.guard.base import Effect, Question, Verdict
from team_runtime.guard.rules import allows, denies, parse
from tests.support.tools import allowing, denying


def command(text: str) -> Question:
    return Question("bash", Effect.COMMAND, {"command": text}, None, in_task=True)


def reading(path: str | None, tool: str = "read_file") -> Question:
    return Question(tool, Effect.READ, {}, path, in_task=True)


def editing(path: str, tool: str = "edit_file") -> Question:
    return Question(tool, Effect.EDIT, {}, path, in_task=True)


def allowed(rule: str, question: Question) -> bool:
    return allows(allowing(rule)[0], question)


def denied(rule: str, question: Question) -> bool:
    return denies(denying(rule)[0], question)


NOTHING = [
    *("", "  ", "Bash(", "Bash()x", "(ls)", "ba sh", "mcp__x__*", "Nothing", "Bassh(ls)", "bash2"),
    *("Bash()", "Bash( )", "Bash(ls; id)", "Bash(ls && id)", "Bash(ls > x)", "Bash(echo $x)"),
    *("Bash('ls)", "Bash(ls\nid)", "Read()", "Read(//etc/passwd)", "Read(~/.ssh/**)"),
    *("Bash(run_in_background:true)", "Bash(timeout:5)", "Bash(git:push)"),
    *("Read(../x)", "Read(a/../../b)", "Read(/)", "Read(.)", "create_task(x)", "land_worktree(x)"),
]  # fmt: skip


@pytest.mark.parametrize("verdict", [Verdict.ALLOW, Verdict.DENY])
@pytest.mark.parametrize("rule", NOTHING)
def test_a_rule_that_can_match_nothing_is_refused(rule: str, verdict: Verdict) -> None:
    with pytest.raises(InputError) as caught:
        parse(rule, verdict, "--deny", TOOL_NAMES)
    assert "--deny" in str(caught.value)


@pytest.mark.parametrize(
    "rule", ["Bash(sudo *)", "Bash(env *)", "Bash(bash -c *)", "Bash(eval *)", "Bash(x=1 *)"]
)
def test_a_word_that_runs_others_can_be_denied_but_not_allowed(rule: str) -> None:
    with pytest.raises(InputError, match="can match nothing"):
        allowing(rule)
    text = rule[5:-1].replace("*", "ls")
    assert denied(rule, command(text))


@pytest.mark.parametrize(
    "rule", sorted([*TOOL_NAMES, "Bash", "Read", "Edit", "Write", "Glob", "Grep"])
)
def test_every_tool_and_every_known_name_can_be_named(rule: str) -> None:
    (parsed,) = allowing(rule)
    assert set(parsed.tools) <= TOOL_NAMES
    assert parsed.pattern is None


@pytest.mark.parametrize(
    ("rule", "yes", "no"),
    [
        ("Bash(npm run *)", ["npm run", "npm run a b"], ["npm runx", "npm", "npx run a"]),
        ("Bash(npm:*)", ["npm", "npm run x", "npm 'a b'"], ["npmx", "npx"]),
        ("Bash(git push)", ["git push", " git  push "], ["git push x", "git pushx", "git 'push'x"]),
        ("Bash(git * main)", ["git push -f main"], ["git main", "git push main x"]),
        ("Bash(*)", ["ls", "anything at all"], []),
        ("Bash(npm*)", ["npm", "npmx y", "npm run"], ["xnpm"]),
        ("Bash(* --version)", ["node --version"], ["--version", "node --version x"]),
        ("Bash(git add 'a b')", ["git add 'a b'", 'git add "a b"'], ["git add a b"]),
        ("Bash(npm run x)", ["npm run x"], ["npm 'run x'", "'npm run' x", "npm run x ''"]),
        ("Bash(ls *)", ["ls", "ls && ls -l", "ls | ls\nls"], ["ls && id", "id | ls", "ls; (id)"]),
        ("Bash(./run *)", ["./run x"], ["run x", "/x/run x", "../run x"]),
        ("Bash(ls *)", [], ["/tmp/ls x", "./ls", "ls *", "ls > x", "ls `id`", "x=1 ls", ""]),
        ("Bash(find *)", ["find . -name x"], ["find . -delete", "find . -exec id ';'"]),
    ],
)  # fmt: skip
def test_what_a_command_pattern_allows(rule: str, yes: list[str], no: list[str]) -> None:
    assert [text for text in yes if not allowed(rule, command(text))] == []
    assert [text for text in no if allowed(rule, command(text))] == []


HIDDEN = [
    *("git push x", "ls && git push x", "ls; git push x", "ls | git push x", "ls & git push x"),
    *("ls\ngit push x", "ls |& git push x", "ls || git push x", "(git push x)", "{ git push x; }"),
    *("echo $(git push x)", "echo `git push x`", "cat <(git push x)", "cat <<E\n$(git push x)\nE"),
    *("if true; then git push x; fi", "for i in 1; do git push x; done", "! git push x"),
    *("bash -c 'git push x'", "eval 'git push x'", "env A=1 git push x", "A=1 git push x"),
    *("sudo git push x", "timeout 5 git push x", "nohup git push x &", "xargs git push x"),
    *("/usr/bin/git push x", "./git push x", "/usr/bin/env git push x", "'git' push x"),
    *('"git" push x', "g\\it push x", 'g""it push x', "gi''t push x", "git${IFS}push x"),
    *("git \\\npush x", "g$@it push x"),
    *("git push x > /dev/null", "git push x # really", "echo a#; git push x"),
]  # fmt: skip


@pytest.mark.parametrize("text", HIDDEN)
def test_a_denied_command_is_found_in_any_part(text: str) -> None:
    assert denied("Bash(git push *)", command(text))


@pytest.mark.parametrize(
    "text",
    ["git status", "ls 'git push'", "echo git", "grep -r push .", "cat > git.txt", "x `y`", ""],
)
def test_a_deny_rule_leaves_other_commands_alone(text: str) -> None:
    assert not denied("Bash(git push *)", command(text))


@pytest.mark.parametrize(
    ("rule", "text", "expected"),
    [
        ("Bash(* --force)", "x=1 git push --force", True),
        ("Bash(* --force)", "x=1 git push", False),
        ("Bash(r*)", "(rm x)", True),
        ("Bash(* *)", "(ls)", True),
        ("Bash(/bin/rm *)", "(rm x)", True),
        ("Bash(/bin/rm *)", "rm x", False),
    ],
)
def test_a_wildcard_that_denies_also_holds_for_opaque_text(
    rule: str, text: str, expected: bool
) -> None:
    assert denied(rule, command(text)) is expected


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (".env", [".env", "a/.env", "a/b/.env", ".env/x"], ["x.env", ".envx", ".env.local"]),
        ("./.env", [".env"], ["a/.env"]),
        ("/.env", [".env"], ["a/.env"]),
        (".env*", [".env", ".env.local", "a/.env.prod"], ["env"]),
        ("src/**", ["src/a", "src/a/b.py", "src"], ["srcx/a", "lib/src/a"]),
        ("src/*.py", ["src/a.py"], ["src/a/b.py", "a.py", "x/src/a.py"]),
        ("**/src/*.py", ["src/a.py", "x/src/a.py", "x/y/src/a.py"], ["src/a/b.py"]),
        ("secrets", ["secrets", "secrets/a", "x/secrets/b/c"], ["secret", "secrets.txt"]),
        ("secrets/", ["secrets/a", "x/secrets/b"], ["secrets.txt"]),
        ("a/secrets/", ["a/secrets/x"], ["secrets/x", "b/a/secrets/x"]),
        ("*.[ck]ey", ["a.key", "x/b.cey"], ["a.pey"]),
        ("a?c", ["abc", "x/abc"], ["ac", "abbc"]),
        ("a+(b)", ["a+(b)"], ["aab"]),
        ("**", ["anything", "at/all"], []),
    ],
)
@pytest.mark.parametrize("check", [allowed, denied])
def test_what_a_path_pattern_covers(
    pattern: str, yes: list[str], no: list[str], check: object
) -> None:
    assert callable(check)
    assert [path for path in yes if not check(f"Edit({pattern})", editing(path))] == []
    assert [path for path in no if check(f"Edit({pattern})", editing(path))] == []


def test_a_path_deny_holds_in_any_letter_case_and_in_every_worktree() -> None:
    for path in (".ENV", "worktrees/w/.env", "worktrees/w/a/.env"):
        assert denied("Read(.env)", reading(path))
    assert denied("Read(./secrets/**)", reading("worktrees/w/secrets/a"))
    assert denied("Read(/a/B)", reading("A/b"))
    assert not allowed("Read(./a)", reading("A"))
    assert not allowed("Edit(./a)", editing("worktrees/w/a"))


@pytest.mark.parametrize("tool", ["read_file", "glob", "grep"])
def test_read_covers_every_tool_that_reads(tool: str) -> None:
    assert denied("Read(.env)", reading(".env", tool))
    assert denied("Read", reading("x", tool))


def test_what_may_not_be_read_may_not_be_written() -> None:
    for tool in ("edit_file", "write_file"):
        assert denied("Read(.env)", editing(".env", tool))
        assert not denied("Read", editing(".env", tool))
        assert not allowed("Read(.env)", editing(".env", tool))
        assert denied("Write(.env)", editing(".env", tool))


def test_a_pattern_covers_no_call_without_a_path() -> None:
    assert not denied("Read(.env)", reading(None))
    assert not allowed("Read(.env)", reading(None))
    assert allowed("Read", reading(None))


PATTERN = st.text(st.sampled_from("ab/.*?[]~ '\"$(){}-_:\\\n\u00e9"), min_size=1, max_size=12)


@given(st.sampled_from(["Bash", "Read", "Edit"]), PATTERN, st.sampled_from(list(Verdict)[::2]))
def test_every_text_is_a_rule_or_a_clear_error(name: str, pattern: str, verdict: Verdict) -> None:
    try:
        rule = parse(f"{name}({pattern})", verdict, "x", TOOL_NAMES)
    except InputError:
        return
    for question in (command("a b"), reading("a/b"), editing("a/b")):
        assert isinstance(allows(rule, question), bool)
        assert isinstance(denies(rule, question), bool)


@given(st.lists(st.sampled_from(["a", "*", "b"]), min_size=3, max_size=12).map("".join))
def test_no_pattern_is_slow(pattern: str) -> None:
    rule = parse(f"Bash(x {pattern}c)", Verdict.ALLOW, "x", TOOL_NAMES)
    assert not allows(rule, command("x " + "ab" * 5000))


def test_a_path_deny_holds_in_any_spelling() -> None:
    for path in (".ENV", ".env ", ".env.", "a/\uff0eenv", ".e\u200bnv"):
        assert denied("Read(.env)", reading(path))
    assert denied("Read(caf\u00e9)", reading("cafe\u0301"))
    assert denied("Read(cafe\u0301)", reading("caf\u00e9"))


@pytest.mark.parametrize(
    "rule", ["secrets/", "secrets", "./secrets//", "a/../secrets/", "/secrets"]
)
def test_a_deny_rule_says_the_same_however_its_path_is_written(rule: str) -> None:
    assert denied(f"Read({rule})", reading("secrets/key"))
    assert denied(f"Read({rule})", reading("secrets"))
    assert not denied(f"Read({rule})", reading("secrets2/key"))


@pytest.mark.parametrize("path", ["**/../x", "a/*/../../x", "a/.."])
def test_a_path_that_cannot_be_made_plain_is_an_error(path: str) -> None:
    with pytest.raises(InputError, match="leads nowhere"):
        parse(f"Read({path})", Verdict.DENY, "--deny", TOOL_NAMES)
