"""The races of a running team, many times over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    make_repository,
    run_team,
    spawn,
    until,
    write,
)

pytestmark = pytest.mark.fault
TRIES = 40


@pytest.mark.parametrize("attempt", range(TRIES))
def test_a_report_is_never_lost_when_everybody_finishes_at_once(
    tmp_path: Path, attempt: int
) -> None:
    names = [f"w{n}" for n in range(6)]

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn(name) for name in names]
        for number in range(attempt % 5):
            yield [call("send_message", to=names[number], content="And?")]
        yield from ("Waiting." for _ in range(60))

    def worker(seen: Seen) -> Iterator[Any]:
        yield until("turn_started", "lead", turn=2)
        yield from ("My report." for _ in range(60))

    root = make_repository(tmp_path / "repository")
    ran = run_team(root, {"lead": lead, **dict.fromkeys(names, worker)})
    assert ran.result.exit_code == 0
    for name in ("lead", *names):
        sent = [e["message"] for e in ran.of("message_sent", to=name) if e["type"] != "idle"]
        read = [e["id"] for e in ran.of("message_delivered", name) if e["type"] != "idle"]
        missed = [e for e in ran.of("message_sent", to=name) if e["message"] not in read]
        assert {e["type"] for e in missed} <= {"idle", "shutdown_reply"}
        assert len(read) == len(set(read)) <= len(sent)


@pytest.mark.parametrize("attempt", range(TRIES // 2))
def test_every_task_is_done_exactly_once_by_whoever_comes_first(
    tmp_path: Path, attempt: int
) -> None:
    names = ["anna", "ben", "carl"]
    tasks = [part for n in range(1, 6) for part in bound_task(f"w{n}", n)]

    def lead(seen: Seen) -> Iterator[Any]:
        first, second = ([spawn(name) for name in names], tasks)
        yield from ([first, second] if attempt % 2 else [second, first])
        yield from ("Waiting." for _ in range(60))

    def worker(seen: Seen) -> Iterator[Any]:
        done: set[str] = set()
        while True:
            assigned = seen.message(type="task_assigned")
            if assigned is None or assigned["task"] in done:
                yield "Idle."
                continue
            done.add(assigned["task"])
            number = int(assigned["task"].removeprefix("task_"))
            yield [write(f"{number}.txt")]
            yield [complete(number)]
            yield "Done."

    root = make_repository(tmp_path / "repository")
    ran = run_team(root, {"lead": lead, **dict.fromkeys(names, worker)})
    assert ran.result.exit_code == 0
    assert sorted(e["task"] for e in ran.of("task_claimed")) == [f"task_{n}" for n in range(1, 6)]
    assert all(ran.file_on(f"team/w{n}", f"{n}.txt") == "text" for n in range(1, 6))
