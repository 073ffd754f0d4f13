"""Kill -9 of a whole live team, again and again, and no work is lost.

Only the runtime dies: what it had started lives on, as it does for a user. A kill comes at a random
moment of the run's life, or right before a random step of it; then the session goes on, and may be
killed again.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.kills import (
    Life,
    end_processes_of,
    new_workspace,
    prove_whole,
    seconds_of_a_life,
    steps_of_a_life,
)

Kill = Callable[[Life, random.Random], bool]
"""Starts the next run and kills it; false when it ended before."""
MOST = 3
"""Kills in one life."""


@pytest.fixture(scope="module")
def at_a_moment(tmp_path_factory: pytest.TempPathFactory) -> Kill:
    seconds = seconds_of_a_life(tmp_path_factory.mktemp("seconds"))
    return lambda life, chance: life.killed_after(chance.uniform(0.1, seconds))


@pytest.fixture(scope="module")
def at_a_step(tmp_path_factory: pytest.TempPathFactory) -> Kill:
    steps = steps_of_a_life(tmp_path_factory.mktemp("steps"))
    return lambda life, chance: life.killed_at(chance.randint(1, steps))


def check(life: Life, how: str) -> None:
    """Let it go on to its end, and look at what it left."""
    try:
        life.finish()
        prove_whole(life.root)
    except AssertionError as error:
        error.add_note(f"{how}, killed while {life.kills}; see {life.root}")
        raise
    finally:
        end_processes_of(life.root)


@pytest.mark.timeout(1100)
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(25, marks=pytest.mark.slow),
        pytest.param(100, marks=pytest.mark.fault),
    ],
)
@pytest.mark.parametrize("how", ["at_a_moment", "at_a_step"])
def test_a_team_that_is_killed_completes_every_task_once(
    how: str, kills: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    kill: Kill = request.getfixturevalue(how)
    seen: Counter[str] = Counter()
    seed = 0
    while seen.total() < kills:
        seed += 1
        chance = random.Random(f"{how} {seed}")
        life = Life(new_workspace(tmp_path / str(seed)))
        for _ in range(chance.randint(1, MOST)):
            if not kill(life, chance):
                break
        check(life, f"{how}, seed {seed}")
        seen += life.kills
    print(f"\n{seen.total()} kills in {seed} lives: {dict(seen.most_common())}")  # noqa: T201


@pytest.mark.parametrize(
    "kind",
    [
        "plan_decided",
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in (
                *("run_started", "agent_spawned", "agent_state", "turn_started", "turn_ended"),
                *("tool_started", "tool_ended", "permission_denied", "task_created"),
                *("task_claimed", "task_completed", "worktree_created", "worktree_landed"),
                *("message_sent", "message_delivered", "plan_submitted"),
            )
        ),
    ],
)
def test_a_team_that_is_killed_between_a_change_and_what_follows_it_goes_on(
    kind: str, tmp_path: Path
) -> None:
    life = Life(new_workspace(tmp_path))
    number = 1
    while life.killed_on(kind, number) and number < MOST:
        number += 1
    check(life, kind)
    assert life.kills.total() > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_a_team_that_is_interrupted_at_any_moment_completes_every_task_once(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(f"interrupted {seed}")
    life = Life(new_workspace(tmp_path))
    for number in chance.sample([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], 3):
        if not life.interrupted_after(chance.uniform(0.1, 1.5), number):
            break
    check(life, f"seed {seed}")
