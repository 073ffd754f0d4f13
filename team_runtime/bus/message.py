"""What a message is, and how it is shown to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from team_runtime.clock import Clock, Entropy, iso
from team_runtime.errors import InputError
from team_runtime.text import element, scrub

NOTIFICATION: Final = "notification"
TYPES: Final = (
    "message",
    "result",
    "error",
    "idle",
    "task_assigned",
    "plan_request",
    "plan_decision",
    "shutdown_request",
    "shutdown_reply",
    NOTIFICATION,
)
SCHEDULE: Final = "schedule"
"""The attribute of a firing that holds its schedule's id; `slot` goes with it."""


@dataclass(frozen=True)
class Message:
    """One durable message. Protocol messages are made by the runtime, never parsed from text."""

    id: str
    sender: str
    to: str
    type: str
    body: str
    at: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    """Whose agents it is for; without one for whoever takes it."""

    @property
    def wakes(self) -> bool:
        """Whether it is worth a model call of its own; others ride along with the next one."""
        return self.type != "idle"


def stamped(draft: Message, clock: Clock, entropy: Entropy) -> Message:
    """`draft` with an id, if it has none, the time, and text that can be stored. Raises
    `InputError` for an unknown type."""
    if draft.type not in TYPES:
        raise InputError(f"{draft.type!r} is no type of message; use one of {', '.join(TYPES)}.")
    return replace(
        draft,
        id=draft.id or f"m-{entropy.token()}",
        at=iso(clock.now()),
        body=scrub(draft.body),
        attributes={key: scrub(value) for key, value in draft.attributes.items()},
    )


def render(message: Message) -> str:
    """The message as text for a model: wrapped and escaped, so that no body can forge another."""
    if "job" in message.attributes and message.type == NOTIFICATION:
        return element("task_notification", dict(message.attributes), message.body)
    if message.type == NOTIFICATION and SCHEDULE in message.attributes:
        firing = {"id": message.attributes[SCHEDULE], "slot": message.attributes["slot"]}
        return element("scheduled", firing, message.body)
    attributes = {"from": message.sender, "type": message.type, "id": message.id}
    return element("team_message", attributes | dict(message.attributes), message.body)
