"""Tool calls that no tool can have asked for, by the thousand, against every tool of a real team.

Each gets one short error, none runs, none ends the loop, and nothing changes on disk.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio import from_thread

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.models.assembly import parse_input
from team_runtime.models.base import INVALID_JSON
from team_runtime.types import Json, ToolCall
from tests.contract.test_tools import HOSTILE, VALID, Stage, fits
from tests.support.repositories import new_repository
from tests.support.scripted_team import call, make_repository, reply, run_team

MOST = 64
"""Calls in one turn."""
LARGE = 2**20
BOUND = 1500
"""Characters of an error, whatever was wrong."""
OTHERS: list[Json] = [
    *(None, True, False, 0, -1, 1.5, 10**30, "", "x", [], [[]], {}, {"a": {"b": []}}, ["x", 1]),
    *(float("nan"), float("inf"), "\0", "\ud800", {"": ""}, [None] * 50),
]
PARTIAL = [
    '{"command": "touch x',
    '{"command": "touch x"',
    "{",
    "[]",
    "nul",
    '{"a": NaN}',
    "[" * 9999,
]


def unknown_tool(pick: random.Random, tool: str) -> tuple[str, Json]:
    names = [f"{tool} ", tool.upper(), f"mcp__x__{tool}", "", "\0", "../" + tool, "x" * 5000]
    return pick.choice(names), VALID[tool]


def missing_field(pick: random.Random, tool: str) -> tuple[str, Json]:
    gone = pick.choice([*VALID[tool], ""])
    return tool, {key: value for key, value in VALID[tool].items() if key != gone}


def extra_field(pick: random.Random, tool: str) -> tuple[str, Json]:
    names = ["sandbox", "dangerouslyDisableSandbox", "cwd", "env", "agent", "__class__", "\0", ""]
    return tool, {**VALID[tool], pick.choice(names): pick.choice(OTHERS)}


def wrong_type(pick: random.Random, tool: str) -> tuple[str, Json]:
    return tool, {**VALID[tool], pick.choice([*VALID[tool], "x"]): pick.choice(OTHERS)}


def no_object(pick: random.Random, tool: str) -> tuple[str, Json]:
    return tool, pick.choice([other for other in OTHERS if not isinstance(other, dict)])


def partial_json(pick: random.Random, tool: str) -> tuple[str, Json]:
    return tool, parse_input(pick.choice(PARTIAL))


def odd_text(pick: random.Random, tool: str) -> tuple[str, Json]:
    """Every text is an odd one, and one field is too many: nothing of it may have an effect."""
    texts = {k: pick.choice(HOSTILE) for k, v in VALID[tool].items() if isinstance(v, str)}
    return tool, {**VALID[tool], **texts, "cwd": "/"}


KINDS = [unknown_tool, missing_field, extra_field, wrong_type, no_object, partial_json, odd_text]


def malformed(count: int, stage: Stage) -> Iterator[tuple[str, Json]]:
    """Tools and inputs that do not fit, the same ones each time."""
    pick = random.Random(4)
    tools = itertools.cycle(sorted(TOOL_NAMES))
    made = 0
    while made < count:
        name, input = pick.choice(KINDS)(pick, next(tools))
        if name not in TOOL_NAMES or not fits(stage, name, input):
            made += 1
            yield name, input


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """In the mode in which nothing but walls is left."""
    with from_thread.start_blocking_portal() as portal:
        stage = Stage(portal, new_repository(tmp_path), "bypassPermissions")
        yield stage
        stage.close()


def all_refused(stage: Stage, count: int) -> None:
    before = stage.states()
    made = malformed(count, stage)
    for number in itertools.count():
        batch = list(itertools.islice(made, MOST if number % 3 == 0 else 7))
        if not batch:
            break
        calls = [ToolCall(f"call_{number}_{n}", *row) for n, row in enumerate(batch)]
        for agent in stage.dispatches:
            for asked, result in zip(calls, stage.run(agent, calls), strict=True):
                assert result.is_error, asked
                assert "did not run" in result.content or "there is no tool" in result.content
                assert len(result.content) < BOUND, asked
    assert stage.states() == before


def test_10000_malformed_calls_are_refused_and_change_nothing(stage: Stage) -> None:
    before = stage.states()
    made = malformed(5000, stage)
    for number in itertools.count():
        batch = list(itertools.islice(made, MOST if number % 3 == 0 else 7))
        if not batch:
            break
        calls = [ToolCall(f"call_{number}_{n}", *row) for n, row in enumerate(batch)]
        for agent in stage.dispatches:
            for asked, result in zip(calls, stage.run(agent, calls), strict=True):
                assert result.is_error, asked
                assert "did not run" in result.content or "there is no tool" in result.content
                assert len(result.content) < BOUND, asked
    assert stage.states() == before


def test_a_text_of_a_megabyte_where_it_does_not_belong_is_refused_in_a_line(stage: Stage) -> None:
    large = "x" * LARGE
    for tool in sorted(TOOL_NAMES):
        for input in (
            {**VALID[tool], "x": large},
            {**VALID[tool], large: 1},
            {INVALID_JSON: large},
        ):
            (result,) = stage.run("lead", [ToolCall("c", tool, input)])
            assert result.is_error
            assert len(result.content) < BOUND
    (named,) = stage.run("lead", [ToolCall("c", large, {})])
    assert len(named.content) < BOUND


def test_a_turn_of_malformed_calls_is_answered_and_the_loop_goes_on(tmp_path: Path) -> None:
    calls = [call(tool, **{"x": 1}) for tool in sorted(TOOL_NAMES)][:MOST]
    calls += [call("bash", command=text) for text in ("", "\0", "x" * 30_000)]
    calls += [call("read_file", path=path) for path in ("", "\0", "a/" * 3000, "../" * 99)]
    calls += [call(f"no_such_{n}") for n in range(MOST - len(calls))]

    def lead(seen: Any) -> Iterator[Any]:
        yield reply(*calls)
        results = [block for block in seen.last if block["type"] == "tool_result"]
        assert [block["tool_use_id"] for block in results] == [block["id"] for block in calls]
        assert all(block["is_error"] for block in results)
        yield "Done."

    ran = run_team(make_repository(tmp_path / "work"), {"lead": lead})
    assert ran.result.exit_code == 0
    assert ran.of("tool_ended", is_error=False) == []
