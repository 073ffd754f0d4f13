"""Shell text taken apart into plain commands, or called opaque.

Only text that is certainly a list of plain commands is split; anything with an expansion, a
redirection, a group or an unfinished quote is opaque: no rule can say what it would run.
"""

from __future__ import annotations

import shlex
from typing import Final

MAX_LENGTH: Final = 20_000
_OPAQUE: Final = frozenset("$`(){}<>\\*?[]~#!\r\0")
_SEPARATORS: Final = ("&&", "||", "|&", ";", "|", "&", "\n")
_WRAPPERS: Final = frozenset(
    [
        "env",
        "sudo",
        "nohup",
        "nice",
        "ionice",
        "setsid",
        "timeout",
        "time",
        "xargs",
        "watch",
        "stdbuf",
        "command",
        "exec",
        "builtin",
    ]
)
_KEYWORDS: Final = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "for",
        "while",
        "until",
        "do",
        "done",
        "case",
        "esac",
        "function",
        "select",
        "time",
        "coproc",
        "eval",
        "source",
        ".",
        "trap",
        "alias",
    ]
)


def commands(text: str) -> list[list[str]] | None:
    """The plain argv lists of `text` in order, or `None` when it is opaque."""
    parts: list[str] = []
    current: list[str] = []
    quote = ""
    i = 0
    while i < len(text):
        char = text[i]
        if quote:
            if quote == '"' and char in "$`\\!":
                return None
            if char == quote:
                quote = ""
            current.append(char)
        elif char in "'\"":
            quote = char
            current.append(char)
        elif (
            separator := next((s for s in _SEPARATORS if text.startswith(s, i)), None)
        ) is not None:
            parts.append("".join(current))
            current = []
            i += len(separator) - 1
        elif char in _OPAQUE:
            return None
        else:
            current.append(char)
        i += 1
    if quote:
        return None
    parts.append("".join(current))
    argvs = [shlex.split(part) for part in parts if part.strip()]
    return None if any(_indirect(argv) for argv in argvs) else argvs


def _indirect(argv: list[str]) -> bool:
    """Whether what `argv` runs is not simply its first word."""
    return argv[0] in _KEYWORDS or argv[0] in _WRAPPERS or "=" in argv[0]


def words(text: str) -> set[str]:
    """Every word of `text` that could name a program, however it is nested or quoted."""
    for char in "$`(){}<>;&|\"'\\\n\t=":
        text = text.replace(char, " ")
    return {word.rpartition("/")[2] for word in text.split()}
