"""What a permission check answers, and what it is asked about."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from team_runtime.types import Json


class Verdict(enum.Enum):
    """`deny` beats `ask` beats `allow`."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Effect(enum.Enum):
    """What kind of thing a tool does, as far as permission is concerned."""

    COORDINATE = "coordinate"
    """Board, messages, plans, spawning: allowed for the agents that have the tool."""
    READ = "read"
    EDIT = "edit"
    COMMAND = "command"
    LAND = "land"
    SCHEDULE = "schedule"
    """Work for later: allowed like coordination, but not while nothing may be changed."""


@dataclass(frozen=True)
class Question:
    """One call, as final as it will run."""

    tool: str
    effect: Effect
    input: Json
    path: str | None
    """For `READ` and `EDIT`: the path relative to the agent's directory; `None` when the call
    names none. A path outside is never asked about: the tool refuses it. Where links lead
    elsewhere, the path they lead to is a question of its own."""
    in_task: bool
    """Whether the directory belongs to the agent's own claimed task."""
    protected: bool = False
    """Whether the path belongs to git or to the runtime's own state."""
    is_check: bool = False
    """Whether the command is a task's check, which the runtime runs in the task's folder."""
    hidden: bool = False
    """Whether no agent reads it: the runtime's records, and where secrets are."""

    @property
    def command(self) -> str | None:
        """The shell text of a `COMMAND`; `None` when the input holds none."""
        found = self.input.get("command") if isinstance(self.input, dict) else None
        return found if isinstance(found, str) else None


DEFAULT: Final = "default"
"""The origin of a decision that no rule and no mode made."""


@dataclass(frozen=True)
class Decision:
    """The answer, and where it came from."""

    verdict: Verdict
    reason: str
    rule: str | None = None
    origin: str = DEFAULT


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The first of the decisions that no other one beats."""
    order = list(Verdict)
    return max(decisions, key=lambda decision: order.index(decision.verdict))


class Permissions(Protocol):
    """Decides purely: no I/O, no waiting, the same answer for the same question."""

    def decide(self, question: Question) -> Decision: ...
