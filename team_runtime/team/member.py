"""What the team knows about one of its agents."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import anyio

from team_runtime.crossing import Bell, Crossing
from team_runtime.errors import TeamError
from team_runtime.types import Json

MEANT_FOR: Final = "meantFor"
"""The key in a task's `metadata` that names who should do it, as long as that agent is there."""


class State(enum.Enum):
    """Different conditions are different words."""

    STARTING = "starting"
    WORKING = "working"
    IDLE = "idle"
    WAITING = "waiting for approval"
    STALLED = "waiting for its model"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"

    @property
    def ended(self) -> bool:
        return self in (State.STOPPED, State.FAILED)

    @property
    def absent(self) -> bool:
        """Whether nothing is kept for it that others can do."""
        return self.ended or self is State.STALLED


@dataclass(frozen=True)
class Spawn:
    """How a teammate is to be."""

    name: str
    role: str
    prompt: str
    require_plan: bool = False
    task_id: str | None = None
    model: str | None = None
    permissions: Mapping[str, Json] = field(default_factory=dict)
    """What narrows its permissions: `mode`, and rules in `allow`, `deny` and `ask`."""


@dataclass
class Member:
    """One agent of the team. Guarded by the roster's lock, but for `crossing` and `bell`."""

    name: str
    role: str
    model: str
    crossing: Crossing
    bell: Bell
    is_lead: bool = False
    permissions: Mapping[str, Json] = field(default_factory=dict)
    """What narrows its permissions: `mode`, and rules in `allow`, `deny` and `ask`."""
    gone: anyio.Event = field(default_factory=anyio.Event)
    """Set on the loop when its thread has ended."""
    state: State = State.STARTING
    busy: bool = True
    """Whether it is in a turn or deciding what to do next: nothing is settled meanwhile."""
    woken: int = 0
    """How often it became busy."""
    stop_reason: str | None = None
    """Why it was asked to stop."""
    asked: bool = False
    """Whether it sent a message in its last shift, and may be waiting for the answer."""
    planned: bool = False
    """Whether it submitted a plan whose decision has not reached it."""
    reminders: int = 0
    """How often in a row it was reminded of its unfinished task."""
    remind: bool = False
    """Whether nothing else can happen, so that its unfinished task is worth a reminder."""
    error: TeamError | None = None
    """Why it has failed, or stands still."""
    closed: bool = False
    """Whether it reads no more mail."""
    avoided: set[str] = field(default_factory=set)
    """Tasks it gave back, which it does not claim again by itself."""
