"""What a permission decision costs with 200 rules, beside `fnmatch` over the same rules, and what
it adds to the dispatch of a call without hooks.

The rival splits at separators and tries every pattern, as the simplest check that one could write
would do. Prints medians in microseconds and their ratio.
"""

from __future__ import annotations

import fnmatch
import re
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns

from team_runtime.guard import shell
from team_runtime.guard.base import Decision, Effect, Question, Verdict
from team_runtime.types import ToolCall
from tests.support.tools import Desk, permissions

CALLS = 2000
COMMANDS = [
    "git status --short",
    "npm run test -- --watch=false",
    "grep -rn 'def main' src tests | head -20",
    "cat src/main.py && python -m pytest -q tests/unit/test_main.py 2>&1 | tail -5",
]
PROGRAMS = ("git", "npm run", "docker", "kubectl", "cargo", "go", "make", "pip", "aws", "terraform")
ALLOW = [f"{program} part{n} *" for program in PROGRAMS for n in range(10)]
ALLOW[-4:] = ["git status *", "npm run *", "grep *", "head *"]
DENY = [f"{program} other{n} *" for program in PROGRAMS for n in range(10)]
_SEPARATOR = re.compile(r"&&|\|\||[;|&\n]")


def rival(text: str) -> bool:
    """Whether every part is allowed and none is denied."""
    parts = [part.strip() for part in _SEPARATOR.split(text)]
    if any(fnmatch.fnmatch(f"{part} ", rule) for part in parts for rule in DENY):
        return False
    return all(any(fnmatch.fnmatch(f"{part} ", rule) for rule in ALLOW) for part in parts)


class Everything:
    """Permissions that decide nothing."""

    def decide(self, question: Question) -> Decision:
        return Decision(Verdict.ALLOW, "")


def median(run: Callable[[int], object], calls: int = CALLS) -> float:
    """Microseconds of a call, in the middle of many."""
    times = []
    for number in range(calls):
        began = perf_counter_ns()
        run(number)
        times.append(perf_counter_ns() - began)
    return statistics.median(times) / 1000


def questions(texts: Sequence[str]) -> list[Question]:
    return [Question("bash", Effect.COMMAND, {"command": text}, None, True) for text in texts]


def decisions() -> None:
    """Prints the cost of a decision: of a text seen before, and of one that is new each time."""
    guard = permissions(
        allow=[f"Bash({rule})" for rule in ALLOW], deny=[f"Bash({rule})" for rule in DENY]
    )
    for text in COMMANDS:
        (known,) = questions([text])
        fresh = questions([f"{text} {n}" for n in range(CALLS)])
        ours = median(lambda n, q=fresh: guard.decide(q[n]))  # type: ignore[misc]
        again = median(lambda n, q=known: guard.decide(q))  # type: ignore[misc]
        theirs = median(lambda n, t=text: rival(f"{t} {n}"))  # type: ignore[misc]
        print(  # noqa: T201
            f"{text[:44]:<44}  new {ours:5.1f} µs  again {again:5.1f} µs  "
            f"fnmatch {theirs:6.1f} µs  ratio {ours / theirs:.2f}"
        )
    shell.read.cache_clear()


def dispatching() -> None:
    """Prints what deciding adds to a call that does nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_text("x\n")
        desk = Desk(Path(folder), allow=[f"Bash({r})" for r in ALLOW], deny=["Read(.env)"])
        both = [desk.dispatch, replace(desk.dispatch, permissions=Everything())]
        times: tuple[list[int], list[int]] = ([], [])
        for number in range(CALLS):  # in turn, because other programs disturb both alike
            began = perf_counter_ns()
            both[number % 2].run([ToolCall(f"c{number}", "read_file", {"path": "f"})])
            times[number % 2].append(perf_counter_ns() - began)
        with_rules, without = (statistics.median(each) / 1000 for each in times)
        print(  # noqa: T201
            f"a read_file call without hooks: {with_rules:.0f} µs with rules, {without:.0f} µs "
            f"without; added {with_rules - without:.0f} µs"
        )


if __name__ == "__main__":
    decisions()
    dispatching()
