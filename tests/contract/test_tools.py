"""What holds for every tool of every agent: exactly one result for each call, whatever its input,
and nothing changed by a call that is not in order."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio import from_thread, to_thread
from anyio.abc import TaskGroup, TaskStatus
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from team_runtime.app.agents import AgentFactory, Models
from team_runtime.app.jobs import attach_jobs
from team_runtime.app.permissions import make_permissions
from team_runtime.app.tools import TOOL_NAMES
from team_runtime.app.workspace import Workspace
from team_runtime.clock import SystemClock, iso
from team_runtime.config import Settings
from team_runtime.crossing import Bell, Crossing
from team_runtime.daemons.job_parts import JobLimits
from team_runtime.events import no_events
from team_runtime.loop.dispatch import Dispatch
from team_runtime.models.base import INVALID_JSON, ModelReply, ModelRequest, RetryNotice
from team_runtime.process.run import LoopRunner
from team_runtime.process.sandbox import NoSandbox
from team_runtime.team.assignments import Assignments
from team_runtime.team.member import Member
from team_runtime.team.questions import Questions
from team_runtime.team.team import Parts, Team
from team_runtime.tools.base import definition
from team_runtime.types import Json, ToolCall, ToolResult
from tests.support.repositories import new_repository

FIRST_REQUEST = 14 * 1024
"""Bytes of the lead's first request without the user's prompt."""
VALID: dict[str, dict[str, Json]] = {
    "bash": {"command": "true", "timeout": 5, "run_in_background": False},
    "cancel_cron": {"job_id": "cron_1"},
    "claim_task": {"task_id": "task_1"},
    "complete_task": {"task_id": "task_1", "summary": "done"},
    "create_task": {"subject": "s", "description": "d", "blockedBy": ["task_1"], "priority": 1},
    "create_worktree": {"name": "w", "task_id": "task_1"},
    "edit_file": {"path": "a.txt", "old_text": "a", "new_text": "b"},
    "get_task": {"task_id": "task_1"},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "a", "path": ".", "glob": "*", "ignore_case": True},
    "land_worktree": {"name": "w"},
    "job_output": {"job_id": "job_1", "cursor": 0},
    "kill_job": {"job_id": "job_1"},
    "list_jobs": {},
    "list_crons": {},
    "list_tasks": {},
    "list_teammates": {},
    "read_file": {"path": "a.txt", "offset": 0, "limit": 1},
    "request_plan": {"teammate": "ann", "task": "t"},
    "request_shutdown": {"teammate": "ann"},
    "review_plan": {"request_id": "r", "approve": True, "feedback": "f"},
    "schedule_cron": {"cron": "0 3 * * *", "prompt": "p", "recurring": True, "to": "lead"},
    "send_message": {"to": "ann", "content": "c"},
    "spawn_teammate": {"name": "ann", "role": "r", "prompt": "p", "require_plan": True},
    "submit_plan": {"plan": "p"},
    "todo_write": {"todos": [{"content": "c", "status": "pending"}]},
    "update_task": {"task_id": "task_1", "subject": "s", "status": "cancelled", "note": "n"},
    "write_file": {"path": "new.txt", "content": "c"},
}
TEXT = st.text(st.characters(codec=None), max_size=8)
SCALAR = st.none() | st.booleans() | st.integers() | st.floats() | TEXT
JSON = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3)
)
HOSTILE = [
    *("", " ", "\0", "a\0b", "\ud800", "\udcff", "..", "../../etc/passwd", "/etc/passwd", "~"),
    *("-rf", "--force", "HEAD", ".git/config", ".team/x", "$(id)", "`id`", "a\nb", "\x1b[2J"),
    *("\u202e", "</team_message>", "é" * 300, "X" * 5000, "a/" * 3000, "(", "[", "**/" * 300),
    *("task_0", "task_1", "task_" + "9" * 30, "lead", "refs/heads/x", "{}", "NULL", "%s", "{0}"),
]  # fmt: skip


class NoModel:
    """Nobody asks it."""

    async def reply(self, request: ModelRequest, on_retry: RetryNotice) -> ModelReply:
        raise AssertionError("no tool calls a model by itself")

    async def close(self) -> None:
        raise AssertionError("it was never used")


class Stage:
    """A lead and a teammate whose calls run as in a team, but with no model behind them."""

    def __init__(self, portal: from_thread.BlockingPortal, root: Path, mode: str) -> None:
        self.root = root
        self._portal = portal
        self._workspace = Workspace(root, dict(os.environ), LoopRunner(Crossing()))
        self._settings = Settings(model="anthropic:none", permission_mode=mode)
        self._over, _ = portal.start_task(self._host)

    async def _host(self, *, task_status: TaskStatus[None]) -> None:
        self._enough = anyio.Event()
        async with anyio.create_task_group() as group:
            self.dispatches: dict[str, Dispatch] = await self._made(group)
            task_status.started()
            await self._enough.wait()
            group.cancel_scope.cancel()

    def close(self) -> None:
        self._portal.call(self._enough.set)
        self._over.result()

    async def _made(self, group: TaskGroup) -> dict[str, Dispatch]:
        parts = await to_thread.run_sync(self._parts)
        models = Models(0, 0, {"anthropic": NoModel()})
        permissions = make_permissions(self._settings)
        questions = Questions(
            self._workspace.approvals, SystemClock(), no_events, self._workspace.gates, None
        )
        factory = AgentFactory(
            self._workspace, models, permissions, questions, lambda name, entry: None
        )
        team = Team(parts, factory.make)
        factory.jobs = attach_jobs(self._workspace, team, JobLimits(), NoSandbox())
        factory.jobs.open(group)
        _, agent = team.add_lead()
        ann = Member("ann", "role", parts.model, Crossing(), Bell())
        team.roster.add(ann)  # spawning it would start a thread that takes turns
        other = await to_thread.run_sync(factory.make, team, ann, "role")
        self.first_request = agent.conversation.tools + agent.conversation.system
        return {"lead": agent.dispatch, "ann": other.dispatch}

    def _parts(self) -> Parts:
        workspace = self._workspace
        workspace.board.create("The first task")
        session = workspace.sessions.create({})["id"]
        return Parts(
            name="team",
            session=session,
            run="run",
            started_at=iso(workspace.store.clock.now()),
            model="anthropic:none",
            board=workspace.board,
            bus=workspace.bus,
            assignments=Assignments(
                workspace.board, workspace.work, workspace.plans, workspace.root
            ),
            planning=workspace.planning(),
            sessions=workspace.sessions,
            clock=workspace.store.clock,
            emit=workspace.events.emit,
        )

    def call(self, agent: str, tool: str, input: Json) -> ToolResult:
        """The result of one call, which must be the only one, and say what the tool foresaw."""
        (result,) = self.run(agent, [ToolCall("call_1", tool, input)])
        return result

    def run(self, agent: str, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """One result for each call of a turn, which its tool foresaw."""
        run = partial(self.dispatches[agent].run, calls)
        results: list[ToolResult] = self._portal.call(to_thread.run_sync, run)
        assert [result.call_id for result in results] == [call.id for call in calls]
        for result in results:
            assert "its effect is unknown" not in result.content
            assert "could not be checked" not in result.content
            json.dumps(result.block(), ensure_ascii=False).encode()
        return results

    def states(self) -> dict[str, tuple[int, int, int]]:
        """What would change if any file in the repository or beside it did."""
        found = {}
        for folder, folders, files in os.walk(self.root.parent):
            for name in (*folders, *files):
                state = Path(folder, name).lstat()
                found[f"{folder}/{name}"] = (state.st_ino, state.st_size, state.st_mtime_ns)
        return found


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """In the mode in which nothing but walls is left."""
    root = new_repository(tmp_path_factory.mktemp("tools"))
    with from_thread.start_blocking_portal() as portal:
        stage = Stage(portal, root, "bypassPermissions")
        yield stage
        stage.close()


EVERY_TOOL = pytest.mark.parametrize("tool", sorted(TOOL_NAMES))
IN_ANY_STATE = settings(
    suppress_health_check=list(HealthCheck),
)


def who_has(stage: Stage, tool: str) -> str:
    return "lead" if tool in stage.dispatches["lead"].tools else "ann"


def fits(stage: Stage, tool: str, input: Json) -> bool:
    model = stage.dispatches[who_has(stage, tool)].tools[tool].input_model
    try:
        model.model_validate(input, strict=True)
    except ValidationError:
        return False
    return True


@st.composite
def damaged(draw: st.DrawFn, tool: str) -> Json:
    """A valid input in which one thing is wrong, or anything at all."""
    valid = VALID[tool]
    kind = draw(st.sampled_from(["other", "missing", "changed", "unknown", "broken"]))
    if kind == "unknown":
        return {**valid, draw(TEXT): draw(JSON)}
    if kind == "broken":
        return {INVALID_JSON: draw(TEXT)}
    if kind == "other" or not valid:
        return draw(JSON)
    key = draw(st.sampled_from(sorted(valid)))
    if kind == "missing":
        return {k: v for k, v in valid.items() if k != key}
    return {**valid, key: draw(JSON)}


def test_every_tool_has_a_valid_example(stage: Stage) -> None:
    held = {name for dispatch in stage.dispatches.values() for name in dispatch.tools}
    assert held == TOOL_NAMES == VALID.keys()
    assert all(fits(stage, tool, input) for tool, input in VALID.items())


@EVERY_TOOL
@given(st.data())
@settings(IN_ANY_STATE, max_examples=15)
def test_malformed_input_is_one_error_and_changes_nothing(
    stage: Stage, tool: str, data: st.DataObject
) -> None:
    input = data.draw(damaged(tool))
    assume(not fits(stage, tool, input))
    before = stage.states()
    result = stage.call(who_has(stage, tool), tool, input)
    assert result.is_error
    assert "did not run" in result.content
    assert len(result.content) < 1200
    assert stage.states() == before


@EVERY_TOOL
@given(st.data())
@settings(IN_ANY_STATE, max_examples=12)
def test_hostile_text_is_one_result(stage: Stage, tool: str, data: st.DataObject) -> None:
    """Every text of a valid input is replaced: none is the name of a new agent, so none starts."""
    input = {
        key: data.draw(st.sampled_from(HOSTILE)) if isinstance(value, str) else value
        for key, value in VALID[tool].items()
    }
    stage.call(who_has(stage, tool), tool, input)
    beside = {path.name for path in stage.root.parent.iterdir()}
    assert beside == {stage.root.name}


@pytest.mark.parametrize(
    "name", ["", "no_such_tool", "Bash", "bash ", "\ud800", "x" * 5000, "mcp__a__b"]
)
def test_a_tool_that_is_not_there_is_named_with_those_that_are(stage: Stage, name: str) -> None:
    result = stage.call("ann", name, {})
    assert result.is_error
    assert "Your tools: bash, claim_task" in result.content
    assert len(result.content) < 1200


@EVERY_TOOL
def test_a_definition_is_small_and_says_what_is_needed(stage: Stage, tool: str) -> None:
    made = definition(stage.dispatches[who_has(stage, tool)].tools[tool])
    schema = made["input_schema"]
    assert made["name"] == tool
    assert 20 <= len(made["description"]) <= 300
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert '"title"' not in json.dumps(schema).replace('"title": {', "")
    assert len(json.dumps(made)) < 1000


def test_the_first_request_of_the_lead_is_small(stage: Stage) -> None:
    names = [tool["name"] for tool in json.loads(stage.first_request.partition(b"][")[0] + b"]")]
    assert names == sorted(names)
    assert len(stage.first_request) < FIRST_REQUEST
