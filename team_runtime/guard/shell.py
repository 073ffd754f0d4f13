"""Shell text taken apart into plain commands, or called opaque.

Only text that is certainly a list of plain commands is split; anything with an expansion, a
redirection, a group, an unfinished quote or a word that runs or re-reads other words is opaque: no
rule can say what it would run. What is not understood is opaque, never the other way round.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, TypeAlias

Argv: TypeAlias = tuple[str, ...]

MAX_LENGTH: Final = 20_000
"""Characters; longer text is never looked into."""

_CONTROL: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[ \t]+)
    | (?P<separator>&&|\|\||\|&|[;|&\n])
    | (?P<word>(?: [\w@%+=:,./^-]
                 | '[^'{_CONTROL}]*+'
                 | "[^"$`\\!{_CONTROL}]*+"
               )++)
    """,
    re.VERBOSE,
)
_QUOTED: Final = re.compile("'([^']*)'|\"([^\"]*)\"")
_NEEDS_MORE: Final = frozenset({"&&", "||", "|", "|&"})

_RUN_OTHERS: Final = frozenset({
    # programs that run the command they are given, or shell text
    "ash", "bash", "busybox", "bwrap", "chroot", "chrt", "csh", "dash", "doas", "env", "expect",
    "fakeroot", "firejail", "fish", "flock", "gosu", "ionice", "ksh", "nice", "nohup",
    "nsenter", "parallel", "pkexec", "prlimit", "runuser", "script", "setarch", "setpriv",
    "setsid", "sh", "ssh", "stdbuf", "strace", "su", "sudo", "systemd-run", "taskset", "tcsh",
    "time", "timeout", "toybox", "unshare", "watch", "xargs", "zsh",
    # words of the shell that begin something other than a plain command
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while",
    # builtins that run their arguments, read them again, or change what later words mean
    ".", "alias", "bind", "builtin", "command", "compgen", "complete", "declare", "enable",
    "eval", "exec", "export", "fc", "getopts", "hash", "history", "jobs", "let", "local",
    "mapfile", "printf", "read", "readarray", "readonly", "set", "shopt", "source", "test",
    "trap", "typeset", "unalias", "unset", "wait",
})  # fmt: skip
_RUNNING_OPTIONS: Final = {
    "find": ("-delete", "-exec", "-fls", "-fprint", "-ok"),
    "git": ("--config-env", "--exec-path", "-c"),
    "rg": ("--hostname-bin", "--pre"),
    "sort": ("--co", "--o", "-o"),
    "tar": ("--checkpoint-a", "--to-c", "--u", "-I"),
}
"""Beginnings of options with which a harmless program runs another one or writes."""


@lru_cache(maxsize=64)
def commands(text: str) -> tuple[Argv, ...] | None:
    """The plain argv lists of `text` in order, or `None` when it is opaque."""
    argvs = split(text)
    return None if argvs is None or any(map(_is_indirect, argvs)) else argvs


@lru_cache(maxsize=64)
def split(text: str) -> tuple[Argv, ...] | None:
    """Like `commands`, whatever the words mean: `sudo` and `eval` are words like others."""
    if len(text) > MAX_LENGTH:
        return None
    argvs: list[Argv] = []
    argv: list[str] = []
    at, separator = 0, ""
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        at = token.end()
        if token["word"]:
            argv.append(_QUOTED.sub(lambda m: m[1] or m[2] or "", token["word"]))
        elif token["separator"] and argv:
            argvs.append(tuple(argv))
            argv, separator = [], token["separator"]
        elif token["separator"] not in (None, "\n"):
            return None  # nothing stands before it: a syntax error
    if argv:
        argvs.append(tuple(argv))
    elif separator in _NEEDS_MORE:
        return None
    return tuple(argvs)


def _is_indirect(argv: Argv) -> bool:
    """Whether what `argv` runs is not simply its first word."""
    name = base(argv[0])
    options = _RUNNING_OPTIONS.get(name, ())
    if "=" in argv[0] or argv[0].startswith("%") or name in _RUN_OTHERS:
        return True  # an assignment, a job, a program for programs
    return any(arg.startswith(options) for arg in argv[1:])


def base(word: str) -> str:
    """The name of the program that a command word means, without its folder."""
    return word.rpartition("/")[2]


def words(text: str) -> frozenset[str]:
    """Every word of `text` that could name a program, however it is nested or quoted.

    The text is read in several ways, because quotes, backslashes and empty expansions may stand
    between words or within one. A name that is put together at run time is not found.
    """
    apart = re.sub(r"[$`(){}<>;&|\"'\\=,!#]", " ", text)
    joined = re.sub(r"\\\n|[\"'\\]|\$\{[^}]*\}|\$(?:\w+|[@*#?!$-])|`\s*`|\$\(\s*\)", "", text)
    joined = re.sub(r"[$`(){}<>;&|=,!#]", " ", joined)
    return frozenset(base(word) for word in f"{text} {apart} {joined}".split())
