"""What hooks are, and reading them from settings in Claude Code's form.

Everything is checked when it is read: a hook that is misspelt, that this version cannot run, or
whose matcher can match nothing, is an error that names the file and the place in it. A hole in a
gate must not be silent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from team_runtime.errors import InputError
from team_runtime.guard.hook_conditions import Condition, parse_condition
from team_runtime.guard.hook_events import HOOK_EVENTS, TIMEOUT, UNAVAILABLE, HookEvent
from team_runtime.guard.hook_handlers import (
    FIELDS,
    Handler,
    HookFunction,
    PythonHandler,
    parse_handler,
)
from team_runtime.guard.hook_matchers import Matcher, parse_matcher
from team_runtime.guard.hook_origin import At, NoEffect, Source, meant
from team_runtime.guard.rules import is_about_absent
from team_runtime.types import Json

_LONGEST: Final = 3600.0
"""Seconds that a hook may be given."""
_COMMON: Final = frozenset({"type", "if", "timeout", "on_error", "statusMessage"})
"""The fields of every handler."""
_NOT_HERE: Final = frozenset({"once", "asyncRewake"})
"""Fields of Claude Code's that change when a hook runs or counts; without them it would be another
hook."""


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


@dataclass
class Parsed:
    """What was read from one source."""

    hooks: list[Hook] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Sentences about what hooks cannot do here."""


def parse_hooks(value: Json, source: Source) -> Parsed:
    """The hooks in a `hooks` table: `{event: [{matcher, hooks: [handler]}]}`.

    Raises `InputError`, which names the place.
    """
    parsed, top = Parsed(), At(source, "hooks")
    for name, groups in top.mapping(value).items():
        for at, group in (top / name).items(groups):
            with _leaving_out(parsed, at):
                _group(name, at.mapping(group), at, parsed)
    return parsed


@contextmanager
def _leaving_out(parsed: Parsed, at: At) -> Iterator[None]:
    """Leave out what can have no effect, where it may be left out."""
    try:
        yield
    except NoEffect as reason:
        if not at.source.of_claude:
            raise at.wrong(str(reason)) from None
        parsed.left_out.append(f"{at}: {reason}")


def python_hooks(brought: Sequence[PythonHook], tools: frozenset[str]) -> list[Hook]:
    """The hooks that a program brings. Raises `InputError` as `parse_hooks` does."""
    found = []
    for index, hook in enumerate(brought):
        at = At(Source("RunRequest.hooks", tools), f"hooks[{index}]")
        try:
            event = _event(hook.event, at)
            matcher = parse_matcher(hook.matcher, event, at)
        except NoEffect as reason:
            raise at.wrong(str(reason)) from None
        if not callable(hook.call):
            raise at.wrong("call is no function")
        denies = _denies(hook.on_error, event, at)
        handler = PythonHandler(hook.call)
        timeout = _timeout(event.timeout if hook.timeout is None else hook.timeout, at)
        found.append(Hook(event.name, matcher, handler, str(at), timeout, denies))
    return found


def _group(name: str, group: Mapping[str, Json], at: At, parsed: Parsed) -> None:
    event = _event(name, at)
    if "type" in group or "command" in group:
        raise at.wrong('handlers belong into a list: {"matcher": "…", "hooks": [{"type": "…"}]}')
    at.check_fields(group, {"matcher", "hooks"})
    if "hooks" not in group:
        raise at.wrong('"hooks" is missing: the list of handlers')
    matcher = parse_matcher(group.get("matcher") or "", event, at / "matcher")
    for where, given in (at / "hooks").items(group["hooks"]):
        with _leaving_out(parsed, where):
            hook = _hook(event, matcher, where.mapping(given), where)
            parsed.hooks.append(hook)
            if hook.beside and event.blocks and not event.replaces:
                parsed.left_out.append(f"{where}: it is async, so it can refuse nothing")


def _event(name: str, at: At) -> HookEvent:
    if name in HOOK_EVENTS:
        return HOOK_EVENTS[name]
    if name in UNAVAILABLE:
        raise NoEffect(f"the event {name} is not available in this version")
    raise at.wrong(f"there is no event {name!r}{meant(name, HOOK_EVENTS)}")


def _hook(event: HookEvent, matcher: Matcher, given: Mapping[str, Json], at: At) -> Hook:
    kind = given.get("type")
    if kind in ("mcp_tool", "prompt", "agent"):
        raise at.wrong(f"hooks of type {kind!r} are not available in this version")
    if not isinstance(kind, str) or kind not in FIELDS:
        raise at.wrong(f"type is {kind!r}; it must be command or http")
    for key in sorted(_NOT_HERE & set(given)):
        if given[key]:
            raise at.wrong(f"{key!r} is not available in this version")
    at.check_fields(given, _COMMON | FIELDS[kind] | _NOT_HERE)
    handler = parse_handler(kind, given, at)
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


def _condition(value: Json, event: HookEvent, matcher: Matcher, at: At) -> Condition | None:
    if value is None:
        return None
    text = at.text(value)
    if not event.about_call:
        raise at.wrong(f"{event.name} is about no tool call")
    if is_about_absent(text):
        raise NoEffect(f"{text!r} is about no tool that there is here")
    try:
        found = parse_condition(text, str(at), at.source.tools, at.source.home)
    except InputError as error:
        raise InputError(f"{error}. Nothing was started.") from error
    if not any(map(matcher.fits, at.source.tools.intersection(found.rule.tools))):
        raise at.wrong(f"{text!r} is about no tool that the matcher {matcher.text!r} fits")
    return found


def _timeout(value: Json, at: At) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _LONGEST:
        return float(value)
    raise at.wrong(f"a timeout is a number of seconds, more than 0 and at most {_LONGEST:g}")


def _denies(value: Json, event: HookEvent, at: At) -> bool:
    if value is None:
        return event.gates
    if value not in ("deny", "allow"):
        raise at.wrong(f"on_error is {value!r}; it must be deny or allow")
    if not event.gates and not event.replaces:
        raise at.wrong(f"on_error has no meaning for {event.name}, which gates nothing")
    return str(value) == "deny"
