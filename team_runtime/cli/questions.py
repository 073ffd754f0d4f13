"""A question for a person, shown whole: nothing of a call can hide from who decides about it."""

from __future__ import annotations

import difflib
import json
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from team_runtime.app.answering import rules_for_always
from team_runtime.approvals.model import WAITING, Approval, Subject
from team_runtime.errors import RefusedError
from team_runtime.store.beneath import Beneath, OutsideRoot
from team_runtime.text import cells, decode, escaped, escaped_line, one_line

_BAR: Final = "  │ "
"""Before each line that is not ours, so that none can be taken for one."""
_MORE: Final = "  ┆ "
"""The same, where a long line goes on."""
_LARGEST_DIFF: Final = 200_000
"""Characters of both versions of a file; larger ones are not compared."""
_WIDEST: Final = 100
"""Where a line goes on in the next one, before a terminal would do it."""
_NARROWEST: Final = 20
_LONG: Final = 30
"""Lines of a call that are more than may be in view."""


def heading(approval: Approval) -> str:
    """Who asks for what, on one line."""
    asker, subject = approval.asker, approval.subject
    task = f" for {asker.task}" if asker.task else ""
    return f"{approval.id}  {asker.agent} asks{task}: {one_line(subject.tool, 60)}"


def details(approval: Approval, root: Path) -> list[str]:
    """The whole call, where it would run, and why it asks."""
    cause = approval.cause
    rule = f" ({cause.origin})" if cause.rule else ""
    call = [shown for line in _call(approval) for shown in _barred(line)]
    return [
        *call,
        *([f"  {len(call)} lines: the beginning is above"] if len(call) > _LONG else []),
        f"  in {escaped_line(_place(approval, root))}",
        f"  because {escaped_line(cause.reason + rule)}",
    ]


def fate(approval: Approval, now: datetime) -> str:
    """How it ended, or until when an answer counts."""
    if approval.status != WAITING:
        note = f": {escaped_line(approval.note)}" if approval.note else ""
        return f"  {approval.status} by {approval.answered_by} at {approval.answered_at}{note}"
    minutes = max((approval.due - now).total_seconds() / 60, 0)
    return f"  lapses at {approval.deadline}, in {minutes:.0f} minutes: then the answer is no"


def always_line(approval: Approval) -> str:
    """What `always` would mean."""
    try:
        rules = escaped_line(", ".join(rules_for_always(approval)))
        return f"  always would keep the rule {rules}"
    except RefusedError as error:
        return f"  {error.reason}"


def _place(approval: Approval, root: Path) -> str:
    directory = Path(approval.subject.directory)
    if not directory.is_relative_to(root):
        return str(directory)
    inside = str(directory.relative_to(root))
    return "the main checkout" if inside == "." else inside


def _call(approval: Approval) -> list[str]:
    """The input, line by line: a command as it is, an edit as a diff, all else as it was given."""
    given: dict[str, Any] = dict(approval.subject.input)
    lines = []
    if isinstance(given.get("command"), str):
        lines += _marked("", given.pop("command"))
    if approval.subject.paths:
        given.pop("path", None)
        lines += [escaped_line(path) for path in approval.subject.paths]
    for key, mark in (("old_text", "- "), ("new_text", "+ ")):
        if isinstance(given.get(key), str):
            lines += _marked(mark, given.pop(key))
    if isinstance(given.get("content"), str):
        waits = approval.status == WAITING  # what it would change, it has changed since
        old = _current(approval.subject) if waits else None
        lines += _written(given.pop("content"), old)
    for key, value in given.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines += _marked("", f"{key}: {text}")
    return lines


def _written(content: str, old: str | None) -> list[str]:
    """What would be in the file: as a diff where there is one already, else whole."""
    if old is None or len(old) + len(content) > _LARGEST_DIFF:
        return _marked("+ ", content)
    if old.endswith("\n") and content.endswith("\n"):
        old, content = old[:-1], content[:-1]
    changes = list(difflib.unified_diff(old.split("\n"), content.split("\n"), lineterm=""))[2:]
    lines = [line if line.startswith("@@") else f"{line[0]} {line[1:]}" for line in changes]
    return [escaped(line) for line in lines] or ["(the file stays as it is)"]


def _current(subject: Subject) -> str | None:
    """The text of the file that would be replaced; `None` where there is none."""
    try:
        where = Beneath(Path(subject.directory))
        return decode(where.read(subject.paths[-1], lambda path: True, _LARGEST_DIFF)[1])
    except (OSError, IndexError, OutsideRoot):
        return None


def _marked(mark: str, text: str) -> list[str]:
    return [mark + line for line in escaped(text).removesuffix("\n").split("\n")]


def _barred(line: str) -> list[str]:
    """A line as parts that no terminal breaks again: what it broke would stand without a bar."""
    width = max(min(_WIDEST, shutil.get_terminal_size().columns - len(_BAR)), _NARROWEST)
    parts = _parts(line.expandtabs(4), width)
    return [(_MORE if number else _BAR) + part for number, part in enumerate(parts)]


def _parts(line: str, width: int) -> Iterator[str]:
    begin = used = 0
    for at, character in enumerate(line):
        used += cells(character)
        if used > width:
            yield line[begin:at]
            begin, used = at, cells(character)
    yield line[begin:]
