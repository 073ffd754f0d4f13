"""What a tool is: synchronous code that waits only through its context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, TypeVarTuple

from team_runtime.guard.base import Effect
from team_runtime.process.base import Command, Completed, Runner

if TYPE_CHECKING:
    from pydantic import BaseModel

    from team_runtime.store.beneath import May

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class ToolFailure(Exception):
    """The tool did not do what was asked; the text says why and whether anything changed."""


class Waiter(Protocol):
    """Runs a coroutine function on the event loop for an agent (`Crossing.wait`)."""

    def __call__(self, func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T: ...


@dataclass(frozen=True)
class Place:
    """Where an agent's tools work."""

    root: Path
    task_id: str | None = None
    worktree: str | None = None
    secrets: tuple[str, ...] = ()
    """Where secrets are in the directory, relative to it."""

    @property
    def in_task(self) -> bool:
        """Whether the directory is the worktree of the agent's own task."""
        return self.worktree is not None


@dataclass
class Seen:
    """What one agent has read: relative path under a root to the content's digest."""

    digests: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """A command that took too long and goes on as a job."""

    job: str
    output: bytes
    """What it has written so far."""


class Background(Protocol):
    """Runs the commands of one call, which may go on when the call has ended."""

    def run(self, text: str, command: Command) -> Completed | Moved:
        """`command`, which is `text` for people, to its end or until its time-out has passed."""
        ...

    def start(self, text: str, command: Command, seconds: float | None) -> str:
        """Start a job, which is ended after so many seconds, and return its id."""
        ...


def nothing(path: str) -> bool:
    """The `May` of a context for which nothing was decided."""
    return False


@dataclass(frozen=True)
class ToolContext:
    """What one call may use."""

    agent: str
    call_id: str
    place: Place
    runner: Runner
    environment: dict[str, str]
    seen: Seen
    spill: Callable[[str, bytes], Path]
    """Stores a large output under a name and returns where."""
    spilled: list[Path] = field(default_factory=list)
    """Where outputs of this call are stored."""
    reader: Runner | None = None
    """Where a sandbox holds, runs what may change nothing."""
    readable: tuple[Path, ...] = ()
    """Further folders that may be read: where outputs were spilled to."""
    may: May = nothing
    """Whether this call may use a path below the place's root, after all links."""
    background: Background | None = None
    """Where commands can go on in the background; without it they are ended after their time."""


class Tool(Protocol):
    """One thing a model can ask for."""

    name: ClassVar[str]
    description: ClassVar[str]
    effect: ClassVar[Effect]
    input_model: ClassVar[type[BaseModel]]

    def run(self, input: Any, context: ToolContext) -> str:
        """Do it. Returns what the model reads; raises `ToolFailure` or a `TeamError` for an error
        result."""
        ...


def definition(tool: Tool) -> dict[str, Any]:
    """The tool as the Messages API wants it, without the titles that pydantic adds."""
    schema = tool.input_model.model_json_schema()
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": _without_titles(schema),
    }


def _without_titles(schema: Any, in_properties: bool = False) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_titles(value, in_properties=key == "properties")
            for key, value in schema.items()
            if in_properties or key not in ("title", "default")
        }
    return [_without_titles(item) for item in schema] if isinstance(schema, list) else schema
