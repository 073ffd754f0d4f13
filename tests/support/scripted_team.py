"""A team in this process: real threads, files and git, with a model that Python generators play.

A script is a generator that gets what its agent's latest request shows (`Seen`) and yields steps: a
reply (a text, a list of texts and `call`s, or a whole `ModelReply`), something to wait for (an
`Until`), an exception for the model call to raise, or a function to run on a thread meanwhile.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
from anyio import to_thread

from team_runtime.app.request import RunRequest, RunResult
from team_runtime.app.run import run_team_in
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings
from team_runtime.crossing import Bell
from team_runtime.guard.hook_config import PythonHook
from team_runtime.models.base import END_TURN, TOOL_USE, ModelReply, ModelRequest, RetryNotice
from team_runtime.team import run as team_run
from team_runtime.team.team import STOP_SECONDS, Team
from team_runtime.types import Block, Usage
from tests.support.api import Seen, git, team_environment

MODEL = "scripted:test"
SECONDS = 40.0
"""The time limit of a run here: a test that hangs ends with exit 3."""

Event = dict[str, Any]
Script = Callable[[Seen], Iterator[Any]]
_ids = itertools.count(1)


def call(name: str, /, **given: Any) -> Block:
    """A tool call."""
    return {"type": "tool_use", "id": f"toolu_{next(_ids)}", "name": name, "input": given}


def reply(*parts: str | Block, stop: str | None = None, **more: Any) -> ModelReply:
    """A reply of texts and calls; `stop` is its reason when that is not the obvious one."""
    content = tuple({"type": "text", "text": p} if isinstance(p, str) else p for p in parts)
    calls = any(block["type"] == "tool_use" for block in content)
    reason = stop or (TOOL_USE if calls else END_TURN)
    return ModelReply(content, reason, Usage(input=10, output=1), "test", **more)


@dataclass(frozen=True)
class Until:
    """Wait until what was recorded satisfies this."""

    holds: Callable[[Sequence[Event]], bool]


def until(kind: str, agent: str | None = None, count: int = 1, **fields: Any) -> Until:
    """Until `count` such events have been recorded."""
    return Until(lambda events: len(matching(events, kind, agent, **fields)) >= count)


def matching(
    events: Sequence[Event], kind: str, agent: str | None = None, **fields: Any
) -> list[Event]:
    """The events of this kind, of this agent, with these fields."""
    return [
        event
        for event in events
        if event["kind"] == kind
        and agent in (None, event["agent"])
        and all(event.get(key) == value for key, value in fields.items())
    ]


@dataclass
class Recorder:
    """The events of a run, in order, and whoever waits for them. Safe for threads."""

    events: list[Event] = field(default_factory=list)
    _bells: list[Bell] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    also: Callable[[Event], None] = lambda event: None

    def record(self, event: Event) -> None:
        self.also(event)
        with self._lock:
            self.events.append(event)
            bells = list(self._bells)
        for bell in bells:
            bell.ring()

    async def happened(self, until: Until) -> None:
        """Return once it holds. Cancelled when its agent is stopped."""
        bell = Bell()
        with self._lock:
            self._bells.append(bell)
        try:
            while not until.holds(list(self.events)):
                await bell.wait(SECONDS)
        finally:
            with self._lock:
                self._bells.remove(bell)


@dataclass
class Playing:
    """The model of all agents of a run."""

    scripts: Mapping[str, Script]
    recorder: Recorder
    requests: list[ModelRequest] = field(default_factory=list)
    failures: list[AssertionError] = field(default_factory=list)
    """Assertions of scripts that did not hold."""
    _running: dict[str, tuple[Seen, Iterator[Any]]] = field(default_factory=dict)

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        agent = request.agent
        assert agent is not None
        self.requests.append(request)
        if agent not in self._running:
            seen = Seen()
            self._running[agent] = (seen, self.scripts[agent](seen))
        seen, steps = self._running[agent]
        seen.body = {"messages": json.loads(request.messages)}
        while True:
            step = self._step(steps)
            if isinstance(step, Until):
                await self.recorder.happened(step)
            elif isinstance(step, BaseException):
                raise step
            elif callable(step):
                await to_thread.run_sync(step)
            elif isinstance(step, ModelReply):
                return step
            else:
                return reply(step) if isinstance(step, str) else reply(*step)

    def _step(self, steps: Iterator[Any]) -> Any:
        try:
            return next(steps, "Nothing left to do.")
        except AssertionError as failure:
            self.failures.append(failure)
            raise

    async def close(self) -> None:
        """Nothing to give back."""


@dataclass(frozen=True)
class Ran:
    """A run that has ended, and what was seen of it."""

    root: Path
    result: RunResult
    events: list[Event]
    requests: list[ModelRequest]

    def of(self, kind: str, agent: str | None = None, **fields: Any) -> list[Event]:
        """The events like this, in order."""
        return matching(self.events, kind, agent, **fields)

    def place(self, kind: str, agent: str | None = None, **fields: Any) -> int:
        """Where in the run the first such event was."""
        return self.events.index(self.of(kind, agent, **fields)[0])

    def shown(self, agent: str) -> str:
        """Everything that the agent was told in the whole run, as its last request has it."""
        last = [r for r in self.requests if r.agent == agent][-1]
        return "\n".join(
            str(block.get("text") or block.get("content") or "")
            for message in json.loads(last.messages)
            if message["role"] == "user"
            for block in message["content"]
        )

    def turns(self, agent: str) -> int:
        """How many model calls the agent made."""
        return sum(request.agent == agent for request in self.requests)

    @property
    def workspace(self) -> Workspace:
        """The workspace, as a command sees it afterwards."""
        return outside(self.root)

    def task(self, task_id: str = "task_1") -> Any:
        """The task as it is on disk."""
        return self.workspace.board.get(task_id)

    def file_on(self, branch: str, path: str) -> str | None:
        """A file's text on a branch; `None` when it is not there."""
        try:
            return git(self.root, "show", f"{branch}:{path}")
        except subprocess.CalledProcessError:
            return None


def outside(root: Path) -> Workspace:
    """The services of a workspace as another process has them."""
    return Workspace(root, team_environment(root.parent))


def make_repository(root: Path) -> Path:
    """A small repository with one commit on `main`."""
    root.mkdir(parents=True)
    (root / "notes.txt").write_text("as committed\n")
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Begin")
    return root


def run_team(
    root: Path,
    scripts: Mapping[str, Script],
    *,
    also: Callable[[Event], None] = lambda event: None,
    resume: str | None = None,
    stop_seconds: float = STOP_SECONDS,
    hooks: Sequence[PythonHook] = (),
    timed_from: Until | None = None,
    **settings: Any,
) -> Ran:
    """Run a team with these scripts to its end. `also` is told of each event as it happens. The
    time limit counts from when `timed_from` holds.

    Raises the first assertion of a script that did not hold.
    """
    recorder = Recorder(also=also)
    model = Playing(scripts, recorder)
    request = RunRequest(
        root=root,
        prompt="" if resume else "Do it.",
        settings=Settings(**{"model": MODEL, "timeout": SECONDS, **settings}),
        environ=team_environment(root.parent),
        on_event=recorder.record,
        resume=resume,
        stop_seconds=stop_seconds,
        models={MODEL: model},
        hooks=hooks,
    )
    with timing(recorder, timed_from):
        ran = Ran(root, run_team_in(request), recorder.events, model.requests)
    for failure in model.failures:
        raise failure
    return ran


def timing(recorder: Recorder, begins: Until | None) -> AbstractContextManager[object]:
    """Within it a run's time limit counts from when this holds, at the latest from `SECONDS` on."""
    if begins is None:
        return nullcontext()
    watch = team_run._watch_time

    async def later(team: Team, seconds: float) -> None:
        with anyio.move_on_after(SECONDS):
            await recorder.happened(begins)
        await watch(team, seconds)

    return patch.object(team_run, "_watch_time", later)


def when_idle(agent: str, act: Callable[[], None]) -> Callable[[Event], None]:
    """For `also`: act whenever the agent has become idle."""

    def hear(event: Event) -> None:
        if (event["kind"], event["agent"], event.get("state")) == ("agent_state", agent, "idle"):
            act()

    return hear


def bound_task(name: str = "one", number: int = 1, **given: Any) -> list[Block]:
    """Calls that make the task of this number, with a worktree of this name."""
    return [
        call("create_task", **{"subject": f"Write {name}", **given}),
        call("create_worktree", name=name, task_id=f"task_{number}"),
    ]


def spawn(name: str, **more: Any) -> Block:
    """A call that spawns a teammate."""
    return call("spawn_teammate", **{"name": name, "role": "engineer", "prompt": "Work.", **more})


def complete(number: int = 1) -> Block:
    """A call that completes the task of this number."""
    return call("complete_task", task_id=f"task_{number}", summary="Done.")


def write(path: str, content: str = "text\n") -> Block:
    """A call that writes a file."""
    return call("write_file", path=path, content=content)
