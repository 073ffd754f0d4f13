"""What shell text is taken apart, what is opaque, and that bash runs just what was found."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.guard import shell
from team_runtime.guard.base import Effect, Question, Verdict
from tests.support.tools import permissions

PLAIN = {
    "ls": [["ls"]],
    "ls -la src": [["ls", "-la", "src"]],
    "  ls\t-a  ": [["ls", "-a"]],
    "a && b || c; d | e |& f & g\nh": [[word] for word in "abcdefgh"],
    "a;": [["a"]],
    "a &": [["a"]],
    "\n\na\n\nb\n": [["a"], ["b"]],
    "a &&\n\n b": [["a"], ["b"]],
    "a;\nb": [["a"], ["b"]],
    "grep 'a; b' x": [["grep", "a; b", "x"]],
    "grep '$(id) `id` * \\' x": [["grep", "$(id) `id` * \\", "x"]],
    'echo "it\'s" a"b"\'c\'d': [["echo", "it's", "abcd"]],
    "echo '' \"\"": [["echo", "", ""]],
    "echo 'two\nlines'": [["echo", "two\nlines"]],
    "make CC=gcc -j8 --x=y:z": [["make", "CC=gcc", "-j8", "--x=y:z"]],
    "git show HEAD^ a@b %x +y": [["git", "show", "HEAD^", "a@b", "%x", "+y"]],
    "cat größe 日本": [["cat", "größe", "日本"]],
    "find . -name '*.py'": [["find", ".", "-name", "*.py"]],
    "python -c 'import os; os.remove(1)'": [["python", "-c", "import os; os.remove(1)"]],
    "a 2>&1": [["a"]],
    "a >/dev/null x 2> /dev/null | b </dev/null": [["a", "x"], ["b"]],
    ">/dev/null a": [["a"]],
    "find . -exec rm '{}' +": [["find", ".", "-exec", "rm", "{}", "+"]],
    "": [],
    " \n\t\n": [],
}

OPAQUE = [
    *("echo $x", "echo ${IFS}", 'echo "$x"', "git${IFS}push", "echo $'x'", 'echo $"x"', "a $[1]"),
    *("echo $(id)", "echo `id`", 'echo "$(id)"', 'echo "`id`"', "cat <(id)", "a >(b)"),
    *("a > f", "a >> f", "a < f", "a 12>&1", "a &> f", "a <<< b", "cat <<E\nx\nE", "cat <<-'E'\nE"),
    *("(a)", "{ a; }", "a() { b; }", "a; }", "! a", "[ a ]", "[[ a ]]", "((1))"),
    *("ls *", "ls ?", "ls [ab]", "ls {a,b}", "ls ~", "ls ~root", "ls --x=~", "a # b", "a#b"),
    *("a \\\n b", "r\\m x", '"a\\b"', '"a!b"', "'a", '"a', "a 'b' \"c", "\\"),
    *("if a; then b; fi", "for x in a; do b; done", "while a; do b; done", "case a in esac"),
    *("function f", "select x", "until a", "time a", "coproc a", "'if' a", "then"),
    *("eval a", "source a", ". a", "exec a", "command a", "builtin a", "trap a 0", "alias a=b"),
    *("env a", "sudo a", "nohup a", "nice a", "ionice a", "setsid a", "timeout 1 a", "xargs a"),
    *("watch a", "stdbuf a", "/usr/bin/env a", "./sudo a", "su -c a", "doas a", "busybox a"),
    *("bash -c a", "sh x", "/bin/sh -c a", "zsh", "dash -c a", "ssh h a", "unshare a", "flock f a"),
    *("printf -v 'x[$(id)]' 1", "test -v 'x[$(id)]'", "read 'x[$(id)]'", "unset 'x[$(id)]'"),
    *("mapfile -C a", "hash -p /x ls", "enable -f x y", "compgen -C a", "jobs -x a", "export P=x"),
    *("x=1", "x=1 a", "x+=1 a", "PATH=. ls", "'x=1' a", "a && x=1", "%1"),
    *("git -c alias.x=y x", "git --exec-path=. x", "git --no-pager --config-env=a=b x"),
    *("a;;b", "a ; ; b", "&& a", "a &&", "a |", "a & ; b", "; a", "a &&\n", "a\n&& b", "a &&& b"),
    *("a\0b", "a\rb", "a\x0bb", "a\x0cb", "a\x1bb", "a\x7fb", "a\x85b", "a\udcffb", "'a\0'"),
    *("a\u00a0b", "a\u2003b", "a\u2028b", "a\u200bb", "\u00a0", "a\u202eb", "a\uff1bb", "a\u2010b"),
]  # fmt: skip


@pytest.mark.parametrize("text", PLAIN)
def test_plain_commands_are_taken_apart(text: str) -> None:
    found = shell.commands(text)
    assert found is not None
    assert [list(argv) for argv in found] == PLAIN[text]


@pytest.mark.parametrize("text", OPAQUE)
def test_everything_else_is_opaque(text: str) -> None:
    assert shell.commands(text) is None
    assert shell.commands(f"ls\n{text}") is None


def test_text_over_the_limit_is_opaque() -> None:
    assert shell.commands("a " * (shell.MAX_LENGTH // 2)) is not None
    assert shell.commands("a " * (shell.MAX_LENGTH // 2) + "b") is None


@pytest.mark.parametrize(
    "text",
    [
        "x $(rm -r y)", "x `rm y`", "r\\m y", "r''m y", 'r""m y', "'r'm y", "\"rm\" y", "r\\\nm y",
        "r${x}m y", "r$@m y", "r$()m y", "rm${IFS}y", "/bin/rm y > z", "{ rm y; }", "(rm y)",
        "if rm y; then z; fi", "x <(rm y)", "env rm y", "sudo -u z rm y", "bash -c 'rm y'",
        "a=1 rm y", "{rm,y}", "x\\;rm", "! rm y", "x >&2;rm", "x|rm", "eval 'rm y'", "`rm`",
    ],
)  # fmt: skip
def test_words_finds_a_program_however_it_is_hidden(text: str) -> None:
    assert "rm" in shell.words(text)


ANY_TEXT = st.text(
    st.one_of(
        st.sampled_from(list("ab '\"\\$`;|&\n\t(){}<>#=!~*?[]^-.:,@%+/\r\0\u00a0\u2028\udcff")),
        st.characters(),
    ),
    max_size=60,
)


@given(ANY_TEXT)
@settings(max_examples=500)
def test_no_text_makes_it_fail(text: str) -> None:
    found = shell.commands(text)
    assert found is None or all(argv for argv in found)
    assert isinstance(shell.words(text), frozenset)


HARNESS = "command_not_found_handle() { printf '%s\\0' \"$@\" > $BASHPID; }"
WORDS = [
    "aa",
    "bb",
    "-x",
    "é",
    "f^",
    "a,b@",
    "''",
    '"a b"',
    "'$(id)'",
    "'*'c",
    "'\n'",
    '"\'"d',
    "e=f",
]
JOINTS = [" ", " ", "\t", "\n", ";", "&", "|", "&&", " || ", "|&", " &&\n", ";\n"]
JOINTS += [
    " 2>&1 ",
    " >/dev/null ",
    ">&2\n",
    " 3>/dev/null|",
    " 2> /dev/null ",
    " </dev/null ",
    "&>",
]
OTHERS = [
    "2",
    ">/dev/null",
    ">&1",
    "'",
    '"',
    "\\",
    "#",
    "$x",
    "{",
    "}",
    ">q",
    "!",
    "%1",
    ".",
    "~",
    "*",
    "[",
    "(",
    "<<E",
]
PIECES = st.tuples(st.sampled_from(WORDS), st.sampled_from(JOINTS)).map("".join)
TEXTS = st.lists(PIECES, min_size=1, max_size=8).map("".join) | st.lists(
    st.sampled_from(WORDS + JOINTS + OTHERS), min_size=1, max_size=8
).map("".join)


@pytest.mark.skipif(shutil.which("bash") is None, reason="compares with bash")
@given(TEXTS)
@settings(max_examples=300)
def test_bash_runs_what_was_found_and_nothing_else(text: str) -> None:
    """Every unknown command tells its words to a file; all of them must have been foreseen."""
    found = shell.commands(text)
    if found is None or any(argv[0] in (":", ".") for argv in found):
        return
    ran, complaint = run_in_bash(text)
    foreseen = sorted(found)
    if "||" in text:
        assert all(argv in foreseen for argv in ran), text
    else:
        assert sorted(ran) == foreseen, text
    assert "syntax error" not in complaint, text


def run_in_bash(text: str) -> tuple[list[shell.Argv], str]:
    """The argv lists that bash ran for `text`, and what it complained about."""
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            ["/bin/bash", "-c", "--", f"{HARNESS}\n{text}\nwait"],
            cwd=folder,
            env={"PATH": "/nowhere", "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=20,
        )
        told = [path.read_bytes().decode() for path in Path(folder).iterdir()]
    return [tuple(words.split("\0")[:-1]) for words in told], done.stderr.decode()


@pytest.mark.parametrize(
    "piece", ["${", "$(", "`", "$x", "{a,", "[a", "$'", "a*", "(((", "; ! ", "if "]
)
def test_no_text_takes_long(piece: str) -> None:
    """A text of the greatest length costs milliseconds. What does not end in time is ended."""
    rules = permissions(
        "default", ["Bash(ls *)"], ["Bash(rmmmmmmmmmmmmmmmmmmmmmm *)", "Bash(aa *)"]
    )
    text = "aa" + piece * ((shell.MAX_LENGTH - 4) // len(piece)) + "b"
    question = Question("bash", Effect.COMMAND, {"command": text}, None, in_task=True)
    assert rules.decide(question).verdict is not Verdict.ALLOW
