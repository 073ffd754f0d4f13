"""What a run is asked to do, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from team_runtime.board.model import CANCELLED, COMPLETED
from team_runtime.config import Settings
from team_runtime.guard.hook_config import PythonHook
from team_runtime.models.base import Model
from team_runtime.team.run import INTERRUPTED, Ending
from team_runtime.team.team import STOP_SECONDS
from team_runtime.types import Json, Usage


def _ignore(*_: Any) -> None:
    """For those who do not listen."""


@dataclass(frozen=True)
class RunRequest:
    """What a run is asked to do."""

    root: Path
    prompt: str
    settings: Settings
    environ: Mapping[str, str]
    on_event: Callable[[dict[str, Any]], None] = _ignore
    """Told of every event, on the thread where it happens. When it fails it is told no more."""
    on_entry: Callable[[str, dict[str, Any]], None] = _ignore
    """Told of every entry of every conversation, with the agent's name."""
    pace: float = 0.0
    """Seconds that each reply of a scripted model takes."""
    resume: str | None = None
    """The session to go on with; its agents are where they were. `prompt` may be empty then."""
    waits_for_schedules: bool = True
    """Whether it waits for schedules of its session that are due before its time limit."""
    waits_for_reviews: bool = True
    """Whether it waits for a person to review a plan; else it ends and leaves the plan pending."""
    stop_seconds: float = STOP_SECONDS
    """Seconds that an agent may go on with its turn after it was asked to stop."""
    models: Mapping[str, Model] = field(default_factory=dict)
    """Models that the caller brings, by their `scripted:` names; the run closes them."""
    hooks: Sequence[PythonHook] = ()
    """Functions that listen to hook events, before those of any settings."""
    ring: Callable[[], None] = _ignore
    """Rings the bell of the terminal, where there is one."""
    attended: bool = False
    """Whether somebody is there who is shown what waits for a person, and can answer."""
    on_leave: Callable[[], None] = _ignore
    """Called when a third signal ends the process, and nothing else is tidied up."""

    @property
    def waits_for_answers(self) -> bool:
        """Whether a call that asks waits for a person; else it is refused at once."""
        chosen = self.settings.approvals
        return chosen == "wait" or (chosen == "auto" and self.attended)


@dataclass(frozen=True)
class RunResult:
    """How a run ended."""

    ending: Ending
    session: str
    tasks: list[dict[str, Json]]
    """The tasks of this run as they are on disk."""
    lost: Sequence[str]
    """Ids of its tasks whose files are gone: deleted, or set aside because they were broken."""
    usage: Usage
    turns: int
    seconds: float
    signalled: bool = False
    """Whether a signal came, also one that was too late to change anything."""

    @property
    def unfinished(self) -> list[str]:
        """Ids of the run's tasks that are neither completed nor called off."""
        open_ = [t["id"] for t in self.tasks if t["status"] not in (COMPLETED, CANCELLED)]
        return [*open_, *self.lost]

    @property
    def exit_code(self) -> int:
        """As the documentation promises: 0, 1, 2, 3, 4 or 130."""
        if self.ending.interrupted:
            return INTERRUPTED
        if self.ending.error is not None:
            return self.ending.error.exit_code
        return 1 if self.unfinished else 0
