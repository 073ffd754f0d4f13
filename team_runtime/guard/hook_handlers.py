"""What runs for a hook: a program, a POST or a function."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from team_runtime.guard.hook_origin import At
from team_runtime.types import Json

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class CommandHandler:
    """A program: shell text, or with `args` a program and its arguments."""

    command: str
    args: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return " ".join([self.command, *(self.args or ())])


@dataclass(frozen=True)
class HttpHandler:
    """A POST of the payload. A header's `$NAME` is a variable of the user's environment."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()

    def filled_in(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The headers with the variables that they name; one that is not set is empty."""

        def value(found: re.Match[str]) -> str:
            return environ.get(found[1] or found[2], "")

        return {name: _VARIABLE.sub(value, text) for name, text in self.headers}

    def __str__(self) -> str:
        return self.url


HookFunction: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
"""Gets the payload; returns what a command would print as JSON, or `None` for nothing to say."""


@dataclass(frozen=True, eq=False)
class PythonHandler:
    """A function of the program that uses the library. Each one counts as another handler."""

    call: HookFunction

    def __str__(self) -> str:
        return getattr(self.call, "__qualname__", repr(self.call))


Handler: TypeAlias = CommandHandler | HttpHandler | PythonHandler

FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "command": frozenset({"command", "args", "shell", "async"}),
    "http": frozenset({"url", "headers", "allowedEnvVars"}),
}
"""What a handler in a file says of itself, by its type."""


def parse_handler(kind: str, given: Mapping[str, Json], at: At) -> CommandHandler | HttpHandler:
    """The handler of a type in `FIELDS`. Raises `InputError`, which names the place."""
    return _command(given, at) if kind == "command" else _http(given, at)


def _command(given: Mapping[str, Json], at: At) -> CommandHandler:
    if given.get("shell") not in (None, "bash"):
        raise at.wrong("shell can only be bash")
    command = (at / "command").text(given.get("command"))
    if "args" not in given:
        return CommandHandler(command)
    args = tuple(arg for _, arg in (at / "args").items(given["args"]))
    if not all(isinstance(arg, str) for arg in args):
        raise (at / "args").wrong("a list of texts is expected")
    return CommandHandler(command, args)


def _http(given: Mapping[str, Json], at: At) -> HttpHandler:
    where = at / "url"
    url = where.text(given.get("url"))
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise where.wrong(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise where.wrong("the URL must begin with http:// or https:// and name a host")
    if parts.username or parts.password:
        raise where.wrong("a URL must not hold a name or password; use headers")
    headers = (at / "headers").mapping(given.get("headers", {}))
    allowed = [name for _, name in (at / "allowedEnvVars").items(given.get("allowedEnvVars", []))]
    if allowed and at.source.of_workspace:
        raise at.wrong("a workspace may not have your environment sent anywhere")
    for name, text in headers.items():
        used = {a or b for a, b in _VARIABLE.findall((at / "headers" / name).text(text))}
        if missing := sorted(used - set(allowed)):
            raise (at / "headers" / name).wrong(f"{missing[0]} is not in allowedEnvVars")
        if any(character in f"{name}{text}" for character in "\r\n\0"):
            raise (at / "headers" / name).wrong("a header is one line")
    return HttpHandler(url, tuple(sorted(headers.items())))
