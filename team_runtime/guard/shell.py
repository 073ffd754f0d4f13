"""Shell text taken apart into plain commands, or called opaque.

Only text that is certainly a list of plain commands is split; anything with an expansion, a
redirection, a group, an unfinished quote or a word that runs or re-reads other words is opaque: no
rule can say what it would run. What is not understood is opaque, never the other way round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from team_runtime.guard.programs import behind, carried, redefines, risks

Argv: TypeAlias = tuple[str, ...]

MAX_LENGTH: Final = 20_000
"""Characters; longer text is never looked into."""

_CONTROL: Final = r"\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff"
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[ \t]+)
    | (?P<quiet>(?:(?:\d|(?<!\d))>>?[ \t]*/dev/null | (?<!\d)<[ \t]*/dev/null
                  | (?:\d|(?<!\d))>&[12])(?=[ \t\n;|&]|\Z))
    | (?P<separator>&&|\|\||\|&|[;|\n]|&(?!>))
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
    "apptainer", "ash", "at", "autossh", "bash", "batch", "busybox", "bwrap", "caffeinate",
    "capsh", "catatonit", "catchsegv", "cgexec", "chpst", "chronic", "chroot", "chrt", "choom",
    "coresched", "cpulimit", "crontab", "csh", "dash", "daemonize", "dbus-launch",
    "dbus-run-session", "doas", "dumb-init", "eatmydata", "elvish", "entr", "env", "envdir",
    "envuidgid", "execlineb", "expect", "fakechroot", "fakeroot", "faketime", "firejail", "fish",
    "flock", "genv", "gnice", "gnohup", "gosu", "gstdbuf", "gtimeout", "gxargs", "hyperfine",
    "i386", "ifne", "ionice", "jail", "kexec", "ksh", "ld.so", "linux32", "linux64", "lksh",
    "logsave", "ltrace", "machinectl", "mksh", "mosh", "multitime", "ncat", "newgrp", "nice",
    "nohup", "nq", "nsenter", "nu", "numactl", "parallel", "pdksh", "pee", "perf", "pkexec",
    "posh", "prlimit", "proot", "proxychains", "proxychains4", "pwsh", "rbash", "rlwrap", "rr",
    "rsh", "run-parts", "run0", "runcon", "runuser", "rust-script", "screen", "script", "sem",
    "setarch", "setlock", "setpriv", "setsid", "setuidgid", "sg", "sh", "slirp4netns", "socat",
    "softlimit", "sponge", "ssh", "sshpass", "start-stop-daemon", "stdbuf", "strace", "su", "sudo",
    "sudoedit", "systemd-cat", "systemd-inhibit", "systemd-run", "taskset", "tclsh", "tcsh",
    "time", "timeout", "tini", "tmux", "torify", "torsocks", "toybox", "trickle", "ts", "tsocks",
    "tsp", "uclampset", "unbuffer", "unshare", "valgrind", "wasmtime", "watch", "watchexec",
    "x86_64", "xargs", "xonsh", "xvfb-run", "yash", "zsh",
    # words of the shell that begin something other than a plain command
    "case", "coproc", "do", "done", "elif", "else", "esac", "fi", "for", "function", "if", "in",
    "select", "then", "until", "while",
    # builtins that run their arguments, read them again, or change what later words mean
    ".", "alias", "bind", "builtin", "command", "compgen", "complete", "compopt", "declare",
    "enable", "eval", "exec", "export", "fc", "getopts", "hash", "history", "jobs", "let", "local",
    "mapfile", "printf", "read", "readarray", "readonly", "set", "shopt", "source", "test",
    "trap", "typeset", "unalias", "unset", "wait",
})  # fmt: skip
_LOADER: Final = re.compile(r"ld-.*\.so.*")
_VERSION: Final = re.compile(r"[-.\d]+\Z")
_LEADS: Final = (
    *("command", "do", "elif", "else", "env", "eval", "exec", "if", "nice", "nohup", "setsid"),
    *("sudo", "then", "time", "until", "while", "xargs"),
)
"""Words after which another command may begin."""
_OPTIONS: Final = 20
"""Words before a subcommand that are taken for options and their values."""
_MOVES: Final = frozenset({"cd", "pushd", "popd"})


@dataclass(frozen=True)
class Line:
    """One shell text, taken apart once for all rules."""

    text: str
    commands: tuple[Argv, ...] | None
    """The plain argv lists in order, or `None` when the text is opaque."""
    allowable: tuple[Argv, ...] | None
    """What is run in the end: the argv lists without wrappers that run just what follows them;
    `None` when that is not certain."""

    @cached_property
    def runs(self) -> tuple[Argv, ...]:
        """The commands, and what those may run that run some of their own words."""
        argvs = self.commands or ()
        return (*argvs, *(inner for argv in argvs for inner in carried(base(argv[0]), argv[1:])))

    @cached_property
    def forms(self) -> tuple[str, ...]:
        """What each command may be called, its words joined by NUL: with and without its folder,
        and, where options stand before a subcommand, also without those."""
        found = {}
        for argv in self.runs:
            leading = argv[1:2] and argv[1].startswith("-")
            starts = (1, *range(2, min(len(argv), _OPTIONS))) if leading else (1,)
            for name in (argv[0], base(argv[0])):
                found.update(dict.fromkeys("\0".join((name, *argv[at:])) for at in starts))
        return tuple(found)

    @cached_property
    def words(self) -> frozenset[str]:
        """Every word that could name a program."""
        return words(self.text)

    @cached_property
    def composed(self) -> tuple[re.Pattern[str], ...]:
        """Names of programs that are put together by expansions."""
        return composed(self.text)

    @cached_property
    def risky(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The programs whose arguments may run something, with all words of those arguments."""
        parts = [(base(argv[0]), argv[1:]) for argv in self.commands or ()]
        return tuple((name, words(" ".join(args))) for name, args in parts if risks(name, args))

    @cached_property
    def moves(self) -> bool:
        """Whether a part changes the directory in which the parts after it run."""
        return any(base(argv[0]) in _MOVES for argv in self.allowable or ())


@lru_cache(maxsize=256)
def read(text: str) -> Line:
    """The text as rules look at it."""
    argvs = split(text)
    if argvs is None:
        return Line(text, None, None)
    inner = tuple(map(_unwrapped, argvs))
    plain = not any(map(is_indirect, argvs))
    return Line(text, argvs if plain else None, None if any(map(is_indirect, inner)) else inner)


def commands(text: str) -> tuple[Argv, ...] | None:
    """The plain argv lists of `text` in order, or `None` when it is opaque."""
    return read(text).commands


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


def is_indirect(argv: Argv) -> bool:
    """Whether what `argv` runs is not simply its first word: an assignment, a job, a program for
    programs, one whose words are given another meaning."""
    name = base(argv[0])
    if "=" in argv[0] or argv[0].startswith("%") or _runs_others(name):
        return True
    return redefines(name, argv[1:])


def _runs_others(name: str) -> bool:
    if name in _RUN_OTHERS or _LOADER.fullmatch(name):
        return True
    return name[-1:].isdigit() and _VERSION.sub("", name) in _RUN_OTHERS  # ksh93, bash-5.2


def _unwrapped(argv: Argv) -> Argv:
    while (inner := behind(argv)) is not None:
        argv = inner
    return argv


def base(word: str) -> str:
    """The name of the program that a command word means, without its folder."""
    return word.rpartition("/")[2]


def words(text: str) -> frozenset[str]:
    """Every word of `text` that could name a program, however it is nested or quoted.

    The text is read in several ways, because quotes, backslashes and empty expansions may stand
    between words or within one. A name that is put together at run time is not found.
    """
    apart = re.sub(r"\$\{\w*:?[-=+?]", " ", text)
    apart = re.sub(r"[$`(){}<>;&|\"'\\=,!#:]", " ", apart)
    joined = re.sub(r"\\\n|[\"'\\]|\$\{[^}]{0,999}\}|\$(?:\w+|[@*#?!$-])|`\s*`|\$\(\s*\)", "", text)
    joined = re.sub(r"[$`(){}<>;&|=,!#]", " ", joined)
    found = f"{text} {apart} {joined}".split()
    found += [word[2:] for word in found if word[0] == "-"]  # what stands at its option: `-Srm`
    return frozenset(map(base, found))


_PART: Final = (
    r"\$\{[^}\s]{0,99}\}|\$\([^)]{0,99}\)|`[^`]{0,99}`|\$'[^']{0,99}'|\{[^}\s]{0,99}\}"
    r"|\[[^\]\s]{1,99}\]|\$\w+|\\.|[^\s;|&()<>`]"
)
_HEAD: Final = re.compile(
    rf"(?:^|[;|&(\n`])[ \t]*(?:(?:{'|'.join(_LEADS)}|[!{{]|-\S+)[ \t]+)*+((?:{_PART})++)"
)
_UNKNOWN: Final = ".*"
_LONGEST_NAME: Final = 255


def composed(text: str) -> tuple[re.Pattern[str], ...]:
    """Patterns of the names that may stand for a command and that expansions take part in: `r?m`,
    `g{it,}`. One of which nothing is written out is not among them."""
    found = []
    for head in _HEAD.findall(text):
        name = "".join(_could_be(part) for part in re.findall(_PART, head)).rpartition("/")[2]
        name = re.sub(r"(?:\.\*)+", _UNKNOWN, name)  # or matching could take for ever
        written = len(name.replace(_UNKNOWN, "").replace("\\", ""))
        if re.search(r"[$`{[*?]", head) and 0 < written <= _LONGEST_NAME:
            found.append(re.compile(name, re.S))
    return tuple(found)


def _could_be(part: str) -> str:
    """A pattern of what a part of a word turns into."""
    if part in ('"', "'"):
        return ""
    if part.startswith("$'"):
        try:
            return re.escape(part[2:-1].encode("latin-1").decode("unicode_escape"))
        except ValueError:
            return _UNKNOWN
    if part[0] in "$`{[*?":
        return _UNKNOWN
    return re.escape(part[-1])
