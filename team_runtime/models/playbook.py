"""Playbooks: what a scripted model says, read from YAML. `docs/playbooks.md` has the format."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final

from team_runtime.errors import InputError
from team_runtime.types import Json

_ELEMENT: Final = re.compile(
    r"<(team_message|task_notification|scheduled)((?: [a-z_]+=\"[^\"]*\")*)>", re.ASCII
)
_TYPES: Final = {"task_notification": "notification", "scheduled": "scheduled"}
"""The type of what says it by its element."""
_ATTRIBUTE: Final = re.compile(r" ([a-z_]+)=\"([^\"]*)\"", re.ASCII)
_BOOLEAN: Final = "tag:yaml.org,2002:bool"
_SURPRISES: Final = {_BOOLEAN, "tag:yaml.org,2002:timestamp"}
_NAME: Final = re.compile(r"(\$?)\$\{([a-z_]+)\}", re.ASCII)


@dataclass(frozen=True)
class Reply:
    """One model call's answer: text, tool calls, or both. Without calls it ends the turn."""

    say: str = ""
    calls: tuple[tuple[str, Mapping[str, Json]], ...] = ()

    def filled(self, values: Mapping[str, str]) -> Reply:
        """With `${name}` replaced in all its texts. Raises `InputError` for an unknown name."""
        return Reply(
            _filled(self.say, values),
            tuple((tool, _filled(given, values)) for tool, given in self.calls),
        )

    def before(self, later: Reply) -> Reply:
        """Both texts, and the calls of `later`: for a text that must not end the turn yet."""
        return Reply("\n\n".join(filter(None, (self.say, later.say))), later.calls)


@dataclass(frozen=True)
class Rule:
    """Replies to play when every one of `messages` has arrived."""

    messages: tuple[Mapping[str, str], ...]
    replies: tuple[Reply, ...]
    each_time: bool
    """Whether it fires for every such message (`message`) or once (`all`)."""


@dataclass(frozen=True)
class Script:
    """What one agent says."""

    start: tuple[Reply, ...]
    rules: tuple[Rule, ...]
    otherwise: Reply


def arrivals(text: str) -> list[dict[str, str]]:
    """The attributes of the messages that were injected in `text`, in order."""
    found = []
    for element, attributes in _ELEMENT.findall(text):
        given = {name: unescape(value) for name, value in _ATTRIBUTE.findall(attributes)}
        found.append({"type": _TYPES[element], **given} if element in _TYPES else given)
    return found


def read_playbook(path: Path) -> dict[str, Script]:
    """The scripts by agent. Raises `InputError` naming the file and the place in it."""
    try:
        data = _parsed(path)
        agents = _Place("agents", _Place("", data).fields({"agents"}).get("agents"))
        return {name: _script(agents.key(name)) for name in agents.fields()}
    except _Wrong as wrong:
        raise InputError(f"playbook {path}: {wrong}") from None


def _parsed(path: Path) -> Any:
    """The file's data. Only `true` and `false` are booleans and dates stay texts, so that `on` is a
    key like any other."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag not in _SURPRISES]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(_BOOLEAN, re.compile("^(true|false)$"), ["t", "f"])
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise InputError(f"playbook {path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise InputError(f"playbook {path} is not valid YAML: {problem}") from None


class _Wrong(Exception):
    """Something is not as a playbook has it; the text names the place."""


@dataclass(frozen=True)
class _Place:
    """A value in the file and the keys that lead to it."""

    path: str
    value: Any

    def wrong(self, problem: str) -> _Wrong:
        return _Wrong(f"{self.path or 'the file'}: {problem}")

    def key(self, name: str) -> _Place:
        return _Place(f"{self.path}.{name}", self.value.get(name))

    def fields(self, allowed: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(self.value, dict):
            raise self.wrong("a mapping is expected")
        for name in self.value:
            if not isinstance(name, str) or (allowed is not None and name not in allowed):
                known = f"; allowed are {', '.join(sorted(allowed))}" if allowed else ""
                raise self.wrong(f"unknown key {name!r}{known}")
        return self.value

    def items(self) -> list[_Place]:
        if not isinstance(self.value, list):
            raise self.wrong("a list is expected")
        return [_Place(f"{self.path}[{number}]", item) for number, item in enumerate(self.value)]

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.wrong("a text is expected")
        return self.value


def _script(place: _Place) -> Script:
    fields = place.fields({"start", "on", "otherwise"})
    return Script(
        start=_replies(place.key("start")) if "start" in fields else (),
        rules=tuple(map(_rule, place.key("on").items())) if "on" in fields else (),
        otherwise=_reply(place.key("otherwise")) if "otherwise" in fields else Reply("Done."),
    )


def _rule(place: _Place) -> Rule:
    fields = place.fields({"message", "all", "replies"})
    if ("message" in fields) == ("all" in fields):
        raise place.wrong("exactly one of `message` and `all` is expected")
    each_time = "message" in fields
    wanted = [place.key("message")] if each_time else place.key("all").items()
    return Rule(tuple(map(_attributes, wanted)), _replies(place.key("replies")), each_time)


def _attributes(place: _Place) -> dict[str, str]:
    if not place.fields():
        raise place.wrong("at least one attribute is expected")
    for name, value in place.fields().items():
        if not isinstance(value, str):
            raise place.key(name).wrong("a text is expected; put numbers in quotes")
    return place.fields()


def _replies(place: _Place) -> tuple[Reply, ...]:
    return tuple(map(_reply, place.items()))


def _reply(place: _Place) -> Reply:
    fields = place.fields({"say", "calls"})
    say = place.key("say").text() if "say" in fields else ""
    calls = tuple(map(_call, place.key("calls").items())) if "calls" in fields else ()
    if not say.strip() and not calls:
        raise place.wrong("a reply needs `say`, `calls`, or both")
    return Reply(say, calls)


def _call(place: _Place) -> tuple[str, Mapping[str, Json]]:
    fields = place.fields({"tool", "input"})
    given = place.key("input").fields() if "input" in fields else {}
    try:
        json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise place.key("input").wrong(f"this is not JSON ({error})") from None
    return place.key("tool").text(), given


def reply_of(value: Any) -> Reply:
    """The reply that a Python playbook returned: a text, or the fields of a YAML reply. Raises
    `InputError`."""
    try:
        return _reply(_Place("reply", {"say": value} if isinstance(value, str) else value))
    except _Wrong as wrong:
        raise InputError(str(wrong)) from None


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _NAME.sub(lambda match: _value(match, values), value)
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    escaped, name = match.groups()
    if escaped:
        return "${" + name + "}"
    if name not in values:
        known = ", ".join(sorted(values))
        raise InputError(
            f"${{{name}}} stands for nothing here; known are: {known or 'no names'}. "
            f"Write $${{{name}}} for the text itself"
        )
    return values[name]
