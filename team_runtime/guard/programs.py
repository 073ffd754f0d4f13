"""What is known of programs: how a harmless one runs another, runs code or writes a file, and which
wrappers run just what stands behind them.

A wildcard of an allow rule never covers the words named here; a rule covers one that is written out
in it. For a deny rule a command with one of them is opaque: its words are looked through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

NO_SCRIPT: Final = "-"
"""Stands for a program that reads from its input what it is to run."""


@dataclass(frozen=True)
class Options:
    """Options that run or write, wherever they stand."""

    short: str = ""
    """Letters, alone or among others behind one dash."""
    long: tuple[str, ...] = ()
    """Names without dashes; also any abbreviation of one."""
    words: tuple[str, ...] = ()
    """How other such words begin."""
    text: str = ""
    """A pattern of what in any argument runs or writes."""
    operands: int | None = None
    """How many operands there may be: a further one is written to."""

    @cached_property
    def _names(self) -> str:
        return "".join(f"\0{long}" for long in self.long)

    def risks(self, args: Sequence[str]) -> list[str]:
        operands = [arg for arg in args if not arg.startswith("-")]
        found = [arg for arg in args if self._is_risk(arg)]
        return found if self.operands is None else found + operands[self.operands :]

    def _is_risk(self, arg: str) -> bool:
        if arg.startswith("--") and arg != "--":
            name = arg[2:].partition("=")[0]
            if f"\0{name}" in self._names:
                return True
        elif arg.startswith("-") and set(self.short) & set(arg[1:]):
            return True
        if arg.startswith(self.words):
            return True
        return bool(self.text) and re.search(self.text, arg) is not None


_RUN_CODE: Final = frozenset({"asyncio", "code", "pdb", "timeit"})
"""Modules of Python that run what they are given or read."""


@dataclass(frozen=True)
class Interpreter:
    """Runs the script that is its first operand. What stands before it is harmless only when it is
    known to be; without an operand it runs what it reads."""

    harmless: frozenset[str]
    informing: frozenset[str] = frozenset({"--version", "--help"})

    def risks(self, args: Sequence[str]) -> list[str]:
        if args and self.informing.issuperset(args):
            return []
        for index, arg in enumerate(args):
            if arg == "-m" and "-m" in self.harmless:
                module = args[index + 1 : index + 2]
                return [] if module and module[0] not in _RUN_CODE else [arg]
            if not arg.startswith("-"):
                return [arg] if arg.startswith(("/dev/", "/proc/")) else []
            if arg not in self.harmless:
                return [arg]
        return [NO_SCRIPT]


_SED_PATTERN: Final = r"(?:[^/\\\n\[]|\\[^\n]|\[\[:\w+:\]\]|\[\^?[^/\\\n\[\]^][^/\\\n\[\]]*\])*+"
_SED_ADDRESS: Final = rf"(?:\d+|\$|/{_SED_PATTERN}/)"
_SED_SCRIPT: Final = re.compile(
    rf"(?:(?:{_SED_ADDRESS}(?:,{_SED_ADDRESS})?)?!?"
    rf"(?:[pdqDPgGhHxnN=]|s/{_SED_PATTERN}/(?:[^/\\\n]|\\[^\n])*+/[gpiI0-9]*+);?\s*+)++"
)
_SED_HARMLESS: Final = {"-n", "-E", "-r", "-s", "-u", "-z", "--quiet", "--silent", "--posix"}


def _sed(args: Sequence[str]) -> list[str]:
    """Its scripts write and run by letters; only the plainest are known not to."""
    risks, script = [], False
    for index, arg in enumerate(args):
        if index and args[index - 1] == "-e":
            text: str | None = arg
        elif arg.startswith("-"):
            if arg not in _SED_HARMLESS and arg != "-e":
                risks.append(arg)
            script = script or arg == "-e"
            continue
        else:
            text, script = (None if script else arg), True
        if text is not None and _SED_SCRIPT.fullmatch(text) is None:
            risks.append(text)
    return risks


_AWK_HARMLESS: Final = re.compile(r"-F.*|-v|--version|--help|--")
_AWK_RISK: Final = re.compile(r"system|getline|[|>@]")


def _awk(args: Sequence[str]) -> list[str]:
    risks, rest = [], iter(args)
    for arg in rest:
        if arg == "-F":
            next(rest, None)  # what separates the fields
        elif not _AWK_HARMLESS.fullmatch(arg) and (arg[:1] == "-" or _AWK_RISK.search(arg)):
            risks.append(arg)
    return risks


_GIT_HARMLESS: Final = {
    "--no-pager", "-P", "--version", "-v", "--help", "-h", "--no-optional-locks", "--html-path",
    "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs",
    "--no-replace-objects", "--no-lazy-fetch", "--no-advice", "--man-path", "--info-path",
}  # fmt: skip
_GIT_VALUED: Final = {
    "-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--attr-source",
    "--super-prefix", "--exec-path",
}  # fmt: skip
_GIT_REDEFINING: Final = ("-c", "--config-env", "--exec-path")
_GIT_LONG: Final = (
    "upload-pack", "receive-pack", "exec", "output", "ext-diff", "textconv", "template", "extcmd",
    "open-files-in-pager", "config", "smtp-server", "sendmail-cmd", "to-cmd", "cc-cmd",
    "header-cmd", "separate-git-dir", "interactive", "edit-description", "web",
    "filters", "index-output", "output-directory", "export-marks", "unsafe-paths",
)  # fmt: skip
_GIT_SHORT: Final = {
    "archive": "o", "clone": "cu", "format-patch": "o", "grep": "O", "help": "w", "rebase": "ix",
}  # fmt: skip
_GIT_COMMANDS: Final = {
    "bisect", "checkout-index", "citool", "config", "credential", "daemon", "difftool",
    "fast-import", "filter-branch", "for-each-repo", "gui", "hook", "http-backend", "instaweb",
    "maintenance", "mergetool", "p4", "receive-pack", "remote-ext", "remote-fd", "send-email",
    "shell", "submodule", "svn", "upload-archive", "upload-pack", "web--browse",
}  # fmt: skip
_GIT_READING: Final = {"--get", "--get-all", "--get-regexp", "--list", "-l", "get", "list"}
_REMOTE_HELPER: Final = re.compile(r"\w+::")


def _git(args: Sequence[str]) -> list[str]:
    """Its own options and settings name programs, as do some commands and remotes."""
    at = git_command(args)
    risks = [arg for arg in args[:at] if arg.startswith("-") and arg not in _GIT_HARMLESS]
    command, rest = (args[at], args[at + 1 :]) if at < len(args) else ("", ())
    reads = command == "config" and rest and rest[0] in _GIT_READING
    if command in _GIT_COMMANDS and not reads:
        risks.append(command)
    options = Options(short=_GIT_SHORT.get(command, ""), long=_GIT_LONG)
    risks += options.risks(() if reads else rest)
    return risks + [arg for arg in rest if _REMOTE_HELPER.match(arg)]


def redefines(program: str, args: Sequence[str]) -> bool:
    """Whether the first arguments can give those after them another meaning, as an alias does."""
    if program != "git":
        return False
    return any(arg.startswith(_GIT_REDEFINING) for arg in args[: git_command(args)])


def git_command(args: Sequence[str]) -> int:
    """Where among the arguments of git its command stands."""
    at = 0
    while at < len(args) and args[at].startswith("-"):
        at += 2 if args[at] in _GIT_VALUED else 1
    return min(at, len(args))


_TAR: Final = Options(
    short="IF",
    long=(
        *("checkpoint-action", "index-file", "info-script", "new-volume-script"),
        *("rmt-command", "rsh-command", "to-command", "use-compress-program"),
    ),
)


def _tar(args: Sequence[str]) -> list[str]:
    """Its first argument holds options also without a dash."""
    bundled = [args[0]] if args and _TAR.risks([f"-{args[0].lstrip('-')}"]) else []
    return bundled + _TAR.risks(args[1:]) if args[:1] and args[0][:2] != "--" else _TAR.risks(args)


_PYTHON: Final = Interpreter(
    frozenset({"-B", "-E", "-I", "-O", "-OO", "-P", "-S", "-b", "-m", "-q", "-s", "-u", "-v"}),
    frozenset({"--version", "--help", "-V", "-VV", "-h"}),
)
_PLAIN_INFORMING: Final = frozenset({"--version", "--help", "-v", "-h"})
_NODE: Final = Interpreter(frozenset({"--no-warnings", "--test"}), _PLAIN_INFORMING)
_NPM_LONG: Final = (
    *("script-shell", "shell", "prefix", "dir", "cwd", "node-options", "userconfig"),
    *("globalconfig", "git", "editor", "viewer", "browser"),
)
_LESS_KEYS: Final = ("lesskey-content", "lesskey-file", "lesskey-src")
_AWK_NAMES: Final = ("awk", "gawk", "mawk", "nawk", "original-awk")
_EDITORS: Final = ("ex", "nvim", "rvim", "vi", "view", "vim", "vimdiff")
_PAGERS: Final = ("less", "more", "most")

_KNOWN: Final[dict[str, Callable[[Sequence[str]], list[str]]]] = {
    "ack": Options(long=("pager",)).risks,
    "ag": Options(long=("pager",)).risks,
    "bat": Options(long=("pager", "config-file")).risks,
    "cargo": Options(long=("config",)).risks,
    "curl": Options(
        short="oOKDcJT",
        long=(
            *("output", "remote-name", "config", "dump-header", "cookie-jar", "upload-file"),
            *("trace", "trace-ascii", "libcurl", "stderr", "etag-save", "hsts", "alt-svc"),
            *("engine", "ssl-sessions"),
        ),
        text=r"%output\{",
    ).risks,
    "date": Options(short="s", long=("set",)).risks,
    "diff3": Options(long=("diff-program",)).risks,
    "fd": Options(short="xX", long=("exec", "exec-batch")).risks,
    "file": Options(short="C", long=("compile",)).risks,
    "find": Options(words=("-delete", "-exec", "-fls", "-fprint", "-ok")).risks,
    "fzf": Options(long=("preview", "bind", "with-shell", "tmux", "listen-unsafe")).risks,
    "gcc": Options(words=("-wrapper", "-fplugin", "-B", "@")).risks,
    "git": _git,
    "gdb": Options(text=".").risks,
    "gh": Options(text="^(alias|extensions?|ext|codespace|cs)$").risks,
    "go": Options(words=("-exec", "-toolexec", "-vettool", "--exec", "--toolexec")).risks,
    "iconv": Options(short="o", long=("output",)).risks,
    "ip": Options(text="^(netns|vrf|exec|-b.*|-force)$").risks,
    "journalctl": Options(long=("vacuum-size", "vacuum-time", "rotate", "flush")).risks,
    "lua": Interpreter(frozenset(), frozenset({"-v"})).risks,
    "make": Options(
        short="fECI",
        long=("eval", "file", "makefile", "directory", "include-dir"),
        text=r"^[^-=]+=(?!(?:\d+|yes|no|true|false)?$)",
    ).risks,
    "man": Options(short="PHC", long=("pager", "html", "config-file")).risks,
    "mysql": Options(short="e", long=("execute", "pager", "init-command", "tee")).risks,
    "nc": Options(short="ec", long=("exec", "sh-exec", "lua-exec")).risks,
    "node": _NODE.risks,
    "npm": Options(short="C", long=_NPM_LONG).risks,
    "openssl": Options(words=("-out", "-engine", "-provider", "-writerand")).risks,
    "pandoc": Options(short="FLo", long=("filter", "lua-filter", "output", "pdf-engine")).risks,
    "perl": Interpreter(frozenset({"-w", "-W", "-t", "-T"}), _PLAIN_INFORMING).risks,
    "php": Interpreter(frozenset({"-n", "-q"}), _PLAIN_INFORMING).risks,
    "psql": Options(
        short="cfoL", long=("command", "file", "output", "log-file"), text=r"\\[!ogw]"
    ).risks,
    "pylint": Options(long=("init-hook", "load-plugins", "rcfile")).risks,
    "rg": Options(long=("pre", "hostname-bin")).risks,
    "rsync": Options(short="e", long=("rsh", "rsync-path", "daemon")).risks,
    "ruby": Interpreter(frozenset({"-w", "-W"}), _PLAIN_INFORMING).risks,
    "scp": Options(short="So").risks,
    "sdiff": Options(short="o", long=("diff-program", "output")).risks,
    "sed": _sed,
    "shuf": Options(short="o", long=("output",)).risks,
    "sort": Options(short="o", long=("compress-program", "output")).risks,
    "split": Options(long=("filter",)).risks,
    "sqlite3": Options(
        words=("-cmd", "-init", "-A"),
        text=r"(?:^|\n)\s*\.|(?i:load_ext|writefile|attach|\binto\s|\bedit\s*\(|tokenizer)",
    ).risks,
    "tar": _tar,
    "tcpdump": Options(short="wz").risks,
    "tree": Options(short="o").risks,
    "uniq": Options(operands=1).risks,
    "wget": Options(
        short="eioaOP",
        long=(
            *("execute", "use-askpass", "config", "input-file", "output-document", "output-file"),
            *("append-output", "directory-prefix", "save-cookies", "hsts-file"),
        ),
    ).risks,
    "xxd": Options(short="r", operands=1).risks,
    "yq": Options(short="i", long=("inplace",)).risks,
    "zip": Options(short="T", long=("unzip-command",)).risks,
    **dict.fromkeys(_AWK_NAMES, _awk),
    **dict.fromkeys(
        _EDITORS, Options(short="cSuUwWsiVq", long=("cmd", "startuptime"), words=("+",)).risks
    ),
    **dict.fromkeys(
        _PAGERS,
        Options(
            short="oOkPtT",
            long=("log-file", "prompt", *_LESS_KEYS, "tag", "tag-file"),
            words=("+",),
        ).risks,
    ),
}  # fmt: skip
_VERSIONED: Final = re.compile(r"(python|pypy|perl|ruby|lua|php|node)[\d.]*")
_ALIASES: Final = {
    "cc": "gcc", "c++": "gcc", "clang": "gcc", "clang++": "gcc", "g++": "gcc", "fdfind": "fd",
    "gfind": "find", "gmake": "make", "gsed": "sed", "gsort": "sort", "gtar": "tar",
    "batcat": "bat", "bsdtar": "tar", "mariadb": "mysql", "netcat": "nc", "nodejs": "node",
    "pnpm": "npm", "pypy": "python", "ripgrep": "rg", "yarn": "npm",
}  # fmt: skip


def risks(program: str, args: Sequence[str]) -> list[str]:
    """The arguments with which `program`, a name without folders, would run or write something."""
    name = _ALIASES.get(program, program)
    known = _KNOWN.get(name)
    if known is None and (match := _VERSIONED.fullmatch(name)):
        known = _PYTHON.risks if match[1] in ("python", "pypy") else _KNOWN[match[1]]
    return known(args) if known else []


_CARRIERS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(subcommands.split())
    for names, subcommands in {
        "bunx concurrently cross-env dotenv env-cmd nix-shell nodemon npx pnpx uvx": "",
        "asdf direnv doppler infisical mise op aws-vault chamber": "exec run x",
        "bun bundle lerna nx yarn": "dlx exec run x",
        "npm pnpm": "dlx exec x",
        "conda hatch mamba micromamba pdm pipenv pipx pixi poetry rye uv rustup": "run tool",
        "docker docker-compose nerdctl podman kubectl oc lxc": "compose debug exec run",
        "cargo": "watch",
        "distrobox flatpak nix toolbox": "develop enter run shell",
        "fnm jenv nodenv nvm pyenv rbenv volta": "exec run",
    }.items()
    for name in names.split()
}  # fmt: skip
"""Programs that run some of their own words, and the words behind which those stand."""
_CARRIED: Final = 20
"""So many words are taken for the beginning of what is run with all that follows, and later ones
with so many of those that follow, so that a long command costs no more than it has words."""


def carried(program: str, args: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """What such a program may run: which of its words are options and what they take is not known,
    so its words from each of them on. For deny rules alone."""
    leads = _CARRIERS.get(program)
    if leads is None:
        return
    words = " ".join(args).split()
    start = next((at + 1 for at, word in enumerate(words) if word in leads), len(words))
    for at in range(start if leads else 0, len(words)):
        if not words[at].startswith("-"):
            yield tuple(words[at:] if at < _CARRIED else words[at : at + _CARRIED])


_DURATION: Final = r"\d+(?:\.\d+)?[smhd]?"
_WRAPPERS: Final = {
    "command": r"",
    "nice": r"(?:-n\0-?\d+\0|-n-?\d+\0|--adjustment=-?\d+\0|--?\d+\0)?",
    "nohup": r"",
    "stdbuf": r"(?:-[ioe](?:[0L]|\d+)\0)+",
    "time": r"(?:-p\0)?",
    "timeout": rf"(?:--foreground\0|--preserve-status\0|-v\0|-[ks]\0\w+\0|--(?:signal|kill-after)"
    rf"=\w+\0)*{_DURATION}\0",
}
_INNER: Final = {name: re.compile(options) for name, options in _WRAPPERS.items()}


def behind(argv: tuple[str, ...]) -> tuple[str, ...] | None:
    """What a wrapper runs, or `None` when `argv` is no wrapper that is known to run just that."""
    options = _INNER.get(argv[0])
    if options is None:
        return None
    text = "\0".join(argv[1:])
    match = options.match(text)
    if match is None:
        return None
    inner = text[match.end() :].split("\0")
    return tuple(inner) if inner[0] and not inner[0].startswith("-") else None
