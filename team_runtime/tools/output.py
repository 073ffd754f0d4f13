"""How large results are cut before they enter the conversation."""

from __future__ import annotations

from typing import Final

from team_runtime.text import cut, decode, scrub
from team_runtime.tools.base import ToolContext

LIMIT: Final = 30_000
"""Characters of one result that a model sees; the rest is spilled to a file it can read."""


def bounded(text: str, context: ToolContext, raw: bytes | None = None) -> str:
    """`text` whole when it is short, else its head and tail and where the whole of it is."""
    if len(text) <= LIMIT:
        return scrub(text)
    data = raw if raw is not None else scrub(text).encode()
    path = context.spill(f"{context.call_id}.txt", data)
    context.spilled.append(path)
    return cut(scrub(text), LIMIT, f"; the whole output is in {path}")


def instead(text: str, context: ToolContext) -> str:
    """`text`, bounded, in place of the call's output so far, none of which stays anywhere."""
    while context.spilled:
        context.spilled[-1].unlink(missing_ok=True)
        context.spilled.pop()
    return bounded(text, context)


def bounded_bytes(data: bytes, context: ToolContext) -> str:
    """Like `bounded`, for output that may not be text."""
    return bounded(decode(data), context, raw=data)
