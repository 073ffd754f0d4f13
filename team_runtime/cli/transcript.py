"""A conversation as a person reads it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from team_runtime.text import for_terminal, one_line
from team_runtime.types import Block

_LINES: Final = 8
"""Lines of a result that are shown unless all are asked for."""
_WIDTH: Final = 160


def transcript_lines(entries: Iterable[dict[str, Any]], full: bool = False) -> list[str]:
    """The entries of one transcript, safe to print; long ones cut unless `full`."""
    return [line for entry in entries for line in _entry(entry, full)]


def _entry(entry: dict[str, Any], full: bool) -> Iterator[str]:
    kind = entry["kind"]
    if kind == "epoch":
        yield f"[conversation {entry['epoch']} with {one_line(entry['model'])}]"
    elif kind == "set_aside":
        yield f"[{len(entry['messages'])} messages for an earlier agent of this name, set aside]"
    elif kind == "dropped":
        yield f"[a reply that was not kept: {one_line(entry['stopReason'])}]"
    for block in entry.get("blocks", []):
        yield from _block(kind, block, full)


def _block(kind: str, block: Block, full: bool) -> Iterator[str]:
    what = block.get("type")
    if what == "text":
        yield from _marked(">" if kind == "user" else "•", block["text"], full, cut=kind == "user")
    elif what == "thinking":
        yield from _marked("~", block.get("thinking") or "(thinking that is not shown)", full)
    elif what == "tool_use":
        given = json.dumps(block["input"], ensure_ascii=False)
        shown = for_terminal(given) if full else one_line(given, _WIDTH)
        yield f"→ {one_line(block['name'])} {shown}"
    elif what == "tool_result":
        mark = "✗" if block.get("is_error") else "="
        yield from _marked(mark, _result_text(block), full)
    else:
        yield f"[{one_line(str(what))}]"


def _result_text(block: Block) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in content)


def _marked(mark: str, text: str, full: bool, cut: bool = True) -> Iterator[str]:
    """The text with a mark before its first line and the others below it."""
    lines = for_terminal(text).splitlines() or [""]
    shown = lines if full or not cut else [_cut(line) for line in lines[:_LINES]]
    yield f"{mark} {shown[0]}"
    yield from (f"  {line}" for line in shown[1:])
    if len(shown) < len(lines):
        yield f"  … {len(lines) - len(shown)} more lines"


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 1]}…"
