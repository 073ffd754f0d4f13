"""What hooks are, and reading them from settings in Claude Code's form.

Everything is checked when it is read: a hook that is misspelt, that this version cannot run, or
whose matcher can match nothing, is an error that names the file and the place in it. A hole in a
gate must not be silent.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from team_runtime.errors import InputError
from team_runtime.guard.claude_names import ABSENT, names, names_of
from team_runtime.guard.hook_conditions import Condition, parse_condition
from team_runtime.guard.hook_events import HOOK_EVENTS, TIMEOUT, UNAVAILABLE, HookEvent
from team_runtime.guard.rules import is_about_absent
from team_runtime.types import Json

LONGEST: Final = 3600.0
_PLAIN: Final = re.compile(r"[A-Za-z0-9_\-\s,|]*")
_MCP_TOOL: Final = re.compile(r"mcp__.+__.+")
_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_COMMON_KEYS: Final = {"type", "if", "timeout", "on_error", "statusMessage"}
_KEYS: Final = {
    "command": {"command", "args", "shell", "async"},
    "http": {"url", "headers", "allowedEnvVars"},
}
_NOT_HERE: Final = {"once", "asyncRewake"}
"""Fields of Claude Code's that change when a hook runs or counts; without them it would be another
hook."""


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


@dataclass(frozen=True)
class Matcher:
    """Which names a hook is for: all, some by name, or those that a pattern occurs in."""

    text: str = ""
    names: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None

    def fits(self, subject: str) -> bool:
        """Whether a value fits; a tool fits by our name and by Claude Code's."""
        if self.names is not None:
            return not self.names.isdisjoint(names_of(subject))
        if self.pattern is not None:
            return any(map(self.pattern.search, names_of(subject)))
        return True


@dataclass(frozen=True)
class Hook:
    """One handler for one event."""

    event: str
    matcher: Matcher
    handler: Handler
    origin: str
    """The file and the place in it."""
    timeout: float = TIMEOUT
    denies_on_error: bool = False
    """Whether what it gates is refused, or the result kept back, when the hook itself fails."""
    scripts: Mapping[Path, str] = field(default_factory=dict)
    """Files that it was trusted with, and the digest that each had then."""
    condition: Condition | None = None
    """Which calls of the tools that match it is for; `None` for all."""
    beside: bool = False
    """Whether nobody waits for it, nor reads what it says (`async`)."""

    def fits(self, subject: str, payload: Mapping[str, Any]) -> bool:
        """Whether it is for an event with this subject and payload."""
        if not self.matcher.fits(subject):
            return False
        return self.condition is None or self.condition.fits(subject, payload)


@dataclass(frozen=True)
class PythonHook:
    """A hook that a program brings along (`RunRequest.hooks`).

    `on_error` is `deny` or `allow`: what happens to what it gates, or to the result that it may
    replace, when it fails. `None` means `deny` for every gate.
    """

    event: str
    call: HookFunction
    matcher: str = ""
    timeout: float | None = None
    """Seconds; `None` for what its event says."""
    on_error: str | None = None


@dataclass(frozen=True)
class Source:
    """Where hooks come from, and what may be in there."""

    origin: str
    tools: frozenset[str]
    """The names of our tools."""
    home: Path = Path("/")
    """What `~/` means in paths."""
    of_workspace: bool = False
    of_claude: bool = False
    """Whether it is the user's file for Claude Code, which may well listen to more than there is
    here: what can have no effect is left out, and said, instead of refused."""


@dataclass
class Parsed:
    """What was read from one source."""

    hooks: list[Hook] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Sentences about what hooks cannot do here."""


class _NoEffect(Exception):
    """A hook for something that Claude Code has and this does not."""


@dataclass(frozen=True)
class _At:
    """A place in a source, for messages."""

    source: Source
    path: str

    def __truediv__(self, key: str | int) -> _At:
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        return _At(self.source, self.path + step)

    def __str__(self) -> str:
        return f"{self.source.origin}: {self.path}"

    def wrong(self, problem: str) -> InputError:
        return InputError(f"{self}: {problem}. Nothing was started.")

    def mapping(self, value: Json) -> Mapping[str, Json]:
        if not isinstance(value, dict):
            raise self.wrong("an object is expected")
        return value

    def items(self, value: Json) -> Iterator[tuple[_At, Json]]:
        if not isinstance(value, list | tuple):
            raise self.wrong("a list is expected")
        for index, item in enumerate(value):
            yield self / index, item

    def text(self, value: Json) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.wrong("text is expected")
        return value


def parse_hooks(value: Json, source: Source) -> Parsed:
    """The hooks in a `hooks` table: `{event: [{matcher, hooks: [handler]}]}`.

    Raises `InputError`, which names the place.
    """
    parsed, top = Parsed(), _At(source, "hooks")
    for name, groups in top.mapping(value).items():
        for at, group in (top / name).items(groups):
            with _leaving_out(parsed, at):
                _group(name, at.mapping(group), at, parsed)
    return parsed


@contextmanager
def _leaving_out(parsed: Parsed, at: _At) -> Iterator[None]:
    """Leave out what can have no effect, where it may be left out."""
    try:
        yield
    except _NoEffect as reason:
        if not at.source.of_claude:
            raise at.wrong(str(reason)) from None
        parsed.left_out.append(f"{at}: {reason}")


def python_hooks(brought: Sequence[PythonHook], tools: frozenset[str]) -> list[Hook]:
    """The hooks that a program brings. Raises `InputError` as `parse_hooks` does."""
    found = []
    for index, hook in enumerate(brought):
        at = _At(Source("RunRequest.hooks", tools), f"hooks[{index}]")
        try:
            event = _event(hook.event, at)
            matcher = _matcher(hook.matcher, event, at)
        except _NoEffect as reason:
            raise at.wrong(str(reason)) from None
        if not callable(hook.call):
            raise at.wrong("call is no function")
        denies = _denies(hook.on_error, event, at)
        handler = PythonHandler(hook.call)
        timeout = _timeout(event.timeout if hook.timeout is None else hook.timeout, at)
        found.append(Hook(event.name, matcher, handler, str(at), timeout, denies))
    return found


def _group(name: str, group: Mapping[str, Json], at: _At, parsed: Parsed) -> None:
    event = _event(name, at)
    if "type" in group or "command" in group:
        raise at.wrong('handlers belong into a list: {"matcher": "…", "hooks": [{"type": "…"}]}')
    _refuse_unknown(group, {"matcher", "hooks"}, at)
    if "hooks" not in group:
        raise at.wrong('"hooks" is missing: the list of handlers')
    matcher = _matcher(group.get("matcher") or "", event, at / "matcher")
    for where, given in (at / "hooks").items(group["hooks"]):
        with _leaving_out(parsed, where):
            hook = _hook(event, matcher, where.mapping(given), where)
            parsed.hooks.append(hook)
            if hook.beside and event.blocks and not event.replaces:
                parsed.left_out.append(f"{where}: it is async, so it can refuse nothing")


def _event(name: str, at: _At) -> HookEvent:
    if name in HOOK_EVENTS:
        return HOOK_EVENTS[name]
    if name in UNAVAILABLE:
        raise _NoEffect(f"the event {name} is not available in this version")
    raise at.wrong(f"there is no event {name!r}{_meant(name, HOOK_EVENTS)}")


def _hook(event: HookEvent, matcher: Matcher, given: Mapping[str, Json], at: _At) -> Hook:
    kind = given.get("type")
    if kind in ("mcp_tool", "prompt", "agent"):
        raise at.wrong(f"hooks of type {kind!r} are not available in this version")
    if kind not in _KEYS:
        raise at.wrong(f"type is {kind!r}; it must be command or http")
    for key in sorted(_NOT_HERE & set(given)):
        if given[key]:
            raise at.wrong(f"{key!r} is not available in this version")
    _refuse_unknown(given, _COMMON_KEYS | _KEYS[kind] | _NOT_HERE, at)
    handler = _command(given, at) if kind == "command" else _http(given, at)
    beside = given.get("async", False)
    if not isinstance(beside, bool):
        raise (at / "async").wrong("true or false is expected")
    if beside and "on_error" in given:
        raise at.wrong("on_error has no meaning for an async hook, which is not waited for")
    return Hook(
        event.name,
        matcher,
        handler,
        str(at),
        _timeout(given.get("timeout", event.timeout), at / "timeout"),
        not beside and _denies(given.get("on_error"), event, at / "on_error"),
        beside=beside,
        condition=_condition(given.get("if"), event, matcher, at / "if"),
    )


def _condition(value: Json, event: HookEvent, matcher: Matcher, at: _At) -> Condition | None:
    if value is None:
        return None
    text = at.text(value)
    if not event.about_call:
        raise at.wrong(f"{event.name} is about no tool call")
    if is_about_absent(text):
        raise _NoEffect(f"{text!r} is about no tool that there is here")
    try:
        found = parse_condition(text, str(at), at.source.tools, at.source.home)
    except InputError as error:
        raise InputError(f"{error}. Nothing was started.") from error
    if not any(map(matcher.fits, at.source.tools.intersection(found.rule.tools))):
        raise at.wrong(f"{text!r} is about no tool that the matcher {matcher.text!r} fits")
    return found


def _command(given: Mapping[str, Json], at: _At) -> CommandHandler:
    if given.get("shell") not in (None, "bash"):
        raise at.wrong("shell can only be bash")
    command = (at / "command").text(given.get("command"))
    if "args" not in given:
        return CommandHandler(command)
    args = tuple(arg for _, arg in (at / "args").items(given["args"]))
    if not all(isinstance(arg, str) for arg in args):
        raise (at / "args").wrong("a list of texts is expected")
    return CommandHandler(command, args)


def _http(given: Mapping[str, Json], at: _At) -> HttpHandler:
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


def fill_in(header: str, environ: Mapping[str, str]) -> str:
    """A header with the variables that it names; one that is not set is empty."""
    return _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], ""), header)


def _timeout(value: Json, at: _At) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= LONGEST:
        return float(value)
    raise at.wrong(f"a timeout is a number of seconds, more than 0 and at most {LONGEST:g}")


def _denies(value: Json, event: HookEvent, at: _At) -> bool:
    if value is None:
        return event.gates
    if value not in ("deny", "allow"):
        raise at.wrong(f"on_error is {value!r}; it must be deny or allow")
    if not event.gates and not event.replaces:
        raise at.wrong(f"on_error has no meaning for {event.name}, which gates nothing")
    return str(value) == "deny"


def _matcher(value: Json, event: HookEvent, at: _At) -> Matcher:
    if not isinstance(value, str):
        raise at.wrong("text is expected")
    text = value.strip()
    if text in ("", "*"):
        return Matcher()
    if event.matches is None:
        raise at.wrong(f"{event.name} takes no matcher")
    known = frozenset(event.values) if event.values else names(at.source.tools)
    if _PLAIN.fullmatch(text):
        wanted = frozenset(part.strip() for part in re.split(r"[,|]", text) if part.strip())
        _refuse_mismatch(text, wanted, known, event, at)
        return Matcher(text, names=wanted)
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise at.wrong(f"{text!r} is no regular expression: {error}") from error
    may_be_mcp = not event.values and "mcp__" in text
    if not may_be_mcp and not any(pattern.search(name) for name in known):
        if any(pattern.search(name) for name in _absent(event)):
            raise _no_effect(text, event)
        raise at.wrong(f"{text!r} can match nothing; {_those(known, event)}")
    return Matcher(text, pattern=pattern)


def _refuse_mismatch(
    text: str, wanted: frozenset[str], known: frozenset[str], event: HookEvent, at: _At
) -> None:
    """Each name must be one that exists, here or in Claude Code, and one of them here."""
    absent = _absent(event)
    mcp = frozenset() if event.values else {name for name in wanted if _MCP_TOOL.fullmatch(name)}
    for name in sorted(wanted - known - absent - mcp):
        if name.startswith("mcp__"):
            raise at.wrong(f"{name!r} can match nothing; write {name}__.* for all of its tools")
        raise at.wrong(f"{name!r} can match nothing{_meant(name, known)}; {_those(known, event)}")
    if wanted <= absent:
        raise _no_effect(text, event)


def _absent(event: HookEvent) -> frozenset[str]:
    """What a matcher of Claude Code's can name, and nothing here brings about."""
    return frozenset(event.elsewhere) if event.values else ABSENT


def _no_effect(text: str, event: HookEvent) -> _NoEffect:
    what = event.matches if event.values else "tool"
    return _NoEffect(f"{text!r} matches no {what} that there is here")


def _those(known: frozenset[str], event: HookEvent) -> str:
    return f"{event.matches} is one of {', '.join(sorted(known))}"


def _refuse_unknown(given: Mapping[str, Json], known: set[str], at: _At) -> None:
    for key in given:
        if key not in known:
            raise at.wrong(f"there is no field {key!r}{_meant(str(key), known)}")


def _meant(word: str, known: Mapping[str, Any] | set[str] | frozenset[str]) -> str:
    """A suggestion for a misspelt word, or nothing."""
    folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]}?)" if close else ""
