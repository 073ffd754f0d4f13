"""What a hook says, read from its exit status and output.

Exit 0 with JSON on stdout says something; exit 2 blocks, whatever is printed; any other exit is a
fault, unless the JSON refuses. What does not fit the form is a fault too: whoever wrote `deny` in
the wrong place meant something, and it is not for us to take it for a yes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from team_runtime.guard.base import Verdict
from team_runtime.guard.hook_events import (
    PERMISSION_REQUEST,
    POST_TOOL_USE,
    POST_TOOL_USE_FAILURE,
    PRE_TOOL_USE,
    SESSION_START,
    SUBAGENT_START,
    USER_PROMPT_SUBMIT,
    HookEvent,
)
from team_runtime.text import cut, decode, one_line, scrub
from team_runtime.types import Json

BLOCKED: Final = 2
"""The exit status that blocks."""
LONGEST_TEXT: Final = 10_000
"""Characters of a reason, context or message."""
_TOP: Final = {
    "continue", "stopReason", "suppressOutput", "systemMessage", "decision", "reason",
    "hookSpecificOutput", "additionalContext",
}  # fmt: skip
_OUTPUT: Final = "updatedToolOutput"
_SPECIFIC: Final = {
    PRE_TOOL_USE: {"permissionDecision", "permissionDecisionReason", "updatedInput"},
    PERMISSION_REQUEST: {"decision"},
    POST_TOOL_USE: {_OUTPUT},
    POST_TOOL_USE_FAILURE: {_OUTPUT},
}
"""What `hookSpecificOutput` may hold beside what all events have."""
_DECISION: Final = {"behavior", "message", "updatedInput", "interrupt"}
_BEHAVIORS: Final = {"allow": Verdict.ALLOW, "deny": Verdict.DENY}
_BOM: Final = "\ufeff"
_PLAIN_TEXT_IS_CONTEXT: Final = {SESSION_START, USER_PROMPT_SUBMIT, SUBAGENT_START}


class HookFault(Exception):
    """The hook itself failed; the text says how. `said` is what it had put out."""

    def __init__(self, text: str, said: object = "") -> None:
        super().__init__(text)
        self.said = said

    @property
    def meant_to_replace(self) -> bool:
        """Whether it seems to have had something to say in place of a result."""
        return _OUTPUT in str(self.said)


@dataclass(frozen=True)
class Ended:
    """How a handler ended, in a command's terms."""

    status: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True)
class Answer:
    """What one handler said."""

    verdict: Verdict | None = None
    """`DENY` also for a block of an event that is no tool call."""
    reason: str = ""
    updated: Mapping[str, Json] | None = None
    """The whole input that the call shall have."""
    output: str | None = None
    """What the agent shall read instead of the call's result."""
    context: str = ""
    message: str = ""
    """For the person."""
    halt: str | None = None
    """Why the agent shall stop, when it shall."""


def read_answer(event: HookEvent, ended: Ended) -> Answer:
    """What the handler said. Raises `HookFault`."""
    try:
        return _read(event, ended)
    except HookFault as fault:
        fault.said = ended.stdout
        raise


def _read(event: HookEvent, ended: Ended) -> Answer:
    said = _object(event, ended.stdout)
    if ended.status == BLOCKED:
        return _blocked(event, said, ended)
    answer = _answer(event, said) if said is not None else Answer()
    if ended.status != 0 and answer.verdict is not Verdict.DENY:
        shown = one_line(ended.stderr or ended.stdout, 300)
        raise HookFault(f"it ended with status {ended.status}" + (f": {shown}" if shown else ""))
    if said is None and event.name in _PLAIN_TEXT_IS_CONTEXT:
        return Answer(context=_short(ended.stdout))
    return answer


def said_by_function(event: HookEvent, said: object) -> Answer:
    """What a Python function returned, read as the JSON that a command prints. Raises
    `HookFault`."""
    if said is None:
        return Answer()
    if not isinstance(said, Mapping):
        raise HookFault(f"it returned {type(said).__name__} instead of a mapping or None", said)
    try:
        return _answer(event, dict(said))
    except HookFault as fault:
        fault.said = said
        raise


def _blocked(event: HookEvent, said: Mapping[str, Json] | None, ended: Ended) -> Answer:
    if event.blocks is None:
        raise HookFault(f"it ended with status 2, but {event.name} cannot be blocked")
    specific = (said or {}).get("hookSpecificOutput")
    inner = specific if isinstance(specific, dict) else {}
    told = (said or {}).get("reason") or inner.get("permissionDecisionReason")
    reason = _short(ended.stderr) or _short(str(told or "")) or "it gave no reason"
    return Answer(Verdict.DENY, reason, output=_output(inner) if event.replaces else None)


def _object(event: HookEvent, stdout: str) -> dict[str, Json] | None:
    """The JSON object on stdout; `None` for plain text. Raises `HookFault` for broken JSON, for
    JSON that is no object, and for JSON that other text hides, such as a greeting of the shell."""
    text = stdout.removeprefix(_BOM).strip()
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        if text.startswith("{"):
            raise HookFault(f"its output is broken JSON: {one_line(str(error), 200)}") from error
        if event.name not in _PLAIN_TEXT_IS_CONTEXT and re.search(r"^\s*{", text, re.MULTILINE):
            raise HookFault("its output is JSON after other text") from error
        return None
    if isinstance(value, dict):
        return value
    if isinstance(value, list | str):
        raise HookFault("its output is JSON, but no object")
    return None


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object, in which nothing takes back what was said before."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _answer(event: HookEvent, said: dict[str, Json]) -> Answer:
    _refuse_unknown(said, _TOP, "")
    specific = said.get("hookSpecificOutput")
    specific = {} if specific is None else specific
    if not isinstance(specific, dict):
        raise HookFault("hookSpecificOutput is no object")
    _refuse_unknown(
        specific,
        {"hookEventName", "additionalContext", *_SPECIFIC.get(event.name, ())},
        "hookSpecificOutput.",
    )
    if specific.get("hookEventName", event.name) != event.name:
        raise HookFault(f"its hookEventName is not {event.name}")
    if (decided := specific.get("decision")) is not None:
        specific = {**specific, **_as_before_a_call(decided)}
    verdict, reason = _verdict(event, said, specific)
    context = "\n".join(
        filter(None, (_text(said, "additionalContext"), _text(specific, "additionalContext")))
    )
    if context and event.context is None:
        raise HookFault(f"it adds context, and {event.name} takes none")
    updated = specific.get("updatedInput")
    if updated is not None and not isinstance(updated, dict):
        raise HookFault("updatedInput is no object")
    return Answer(
        verdict=verdict,
        reason=reason,
        updated=updated,
        output=_output(specific),
        context=context,
        message=_text(said, "systemMessage"),
        halt=_halt(said) or specific.get("halt"),
    )


def _output(specific: Mapping[str, Json]) -> str | None:
    """What is put in place of a result: text, a list of text blocks, or an object with such a
    `content`, as `tool_response` is one."""
    value = specific.get(_OUTPUT)
    if isinstance(value, dict) and set(value) == {"content"}:
        value = value["content"]
    if value is None and _OUTPUT not in specific:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(map(_is_text_block, value)):
        return "\n".join(block["text"] for block in value)
    raise HookFault(f"its {_OUTPUT} is neither text nor a list of text blocks")


def _is_text_block(value: Json) -> bool:
    keys = set(value) if isinstance(value, dict) else set()
    return keys == {"type", "text"} and value["type"] == "text" and isinstance(value["text"], str)


def _as_before_a_call(decision: Json) -> dict[str, Json]:
    """A `PermissionRequest` hook's decision in the words of a `PreToolUse` hook."""
    if not isinstance(decision, dict):
        raise HookFault("its decision is no object")
    _refuse_unknown(decision, _DECISION, "decision.")
    verdict = _word(decision.get("behavior"), _BEHAVIORS, "decision.behavior")
    if "updatedInput" in decision and verdict is not Verdict.ALLOW:
        raise HookFault("it denies, and changes the input of what it denies")
    interrupts = decision.get("interrupt", False)
    if not isinstance(interrupts, bool):
        raise HookFault("its decision.interrupt is neither true nor false")
    message = _text(decision, "message")
    return {
        "permissionDecision": verdict.value,
        "permissionDecisionReason": message,
        "updatedInput": decision.get("updatedInput"),
        "halt": (message or "it gave no reason") if interrupts else None,
    }


def _verdict(
    event: HookEvent, said: Mapping[str, Json], specific: Mapping[str, Json]
) -> tuple[Verdict | None, str]:
    """The decision under its new name, and under the old one that Claude Code still reads."""
    found: list[tuple[Verdict, str]] = []
    if (word := specific.get("permissionDecision")) is not None:
        verdicts = {verdict.value: verdict for verdict in Verdict}
        found.append(
            (
                _word(word, verdicts, "permissionDecision"),
                _text(specific, "permissionDecisionReason"),
            )
        )
    if (word := said.get("decision")) is not None:
        verdicts = {"block": Verdict.DENY} if event.blocks is not None else {}
        if event.name == PRE_TOOL_USE:
            verdicts["approve"] = Verdict.ALLOW
        found.append((_word(word, verdicts, "decision"), _text(said, "reason")))
    if not found:
        return None, ""
    verdict, reason = max(found, key=lambda pair: list(Verdict).index(pair[0]))
    return verdict, reason or "it gave no reason"


def _word(word: Json, known: Mapping[str, Verdict], key: str) -> Verdict:
    if not isinstance(word, str) or word not in known:
        words = " or ".join(known) or "nothing: the event cannot be blocked"
        raise HookFault(f"its {key} is {one_line(repr(word), 80)}; it can be {words}")
    return known[word]


def _halt(said: Mapping[str, Json]) -> str | None:
    going = said.get("continue", True)
    if not isinstance(going, bool):
        raise HookFault("its continue is neither true nor false")
    return None if going else _text(said, "stopReason") or "it gave no reason"


def _text(values: Mapping[str, Any], key: str) -> str:
    value = values.get(key)
    if value is not None and not isinstance(value, str):
        raise HookFault(f"its {key} is no text")
    return _short(value or "")


def _short(text: str) -> str:
    return cut(scrub(text).strip(), LONGEST_TEXT)


def _refuse_unknown(values: Mapping[str, Json], known: set[str], prefix: str) -> None:
    for key in values:
        if key not in known:
            raise HookFault(
                f"its output has {prefix}{one_line(str(key), 60)}, which says nothing here"
            )


def as_ended(status: int, stdout: bytes, stderr: bytes) -> Ended:
    """A command's end, with its output as text."""
    return Ended(status, decode(stdout), decode(stderr))
