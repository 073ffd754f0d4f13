"""What the sandbox costs a command, beside bubblewrap called by hand.

All run `true` a few hundred times through the same runner, in turn. By hand means a careful
command line: the same namespaces, a read-only view of the machine, one writable folder and hidden
`/tmp` and `/run`, without our filter, limits and list of secrets. "The same places" by hand is a
command line that hides and protects what we do, found out once. Prints medians in milliseconds and
their ratios; the goal is 1.2.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from team_runtime.app.confinement import Confining
from team_runtime.process.base import Command
from team_runtime.process.detection import detect
from team_runtime.process.environment import scrubbed
from team_runtime.process.landlock import Landlock, version
from team_runtime.process.run import BlockingRunner
from team_runtime.store.layout import Layout

ROUNDS = 300
BY_HAND = (
    "bwrap", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net",
    "--disable-userns", "--die-with-parent", "--new-session", "--ro-bind", "/", "/",
    "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run",
)  # fmt: skip

OURS = ("--seccomp", "--info-fd", "--block-fd")


def main() -> None:
    env = scrubbed(os.environ)
    runner = BlockingRunner()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        Layout(folder).prepare()
        Layout(folder).tasks.mkdir()

        def confined(confining: Confining) -> None:
            assert runner.run(confining.confine(Command(["true"], folder, env, 10))).status == 0

        def bare(*argv: str) -> None:
            assert runner.run(Command(argv, folder, env, 10)).status == 0

        bubblewrap = Confining(detect("required", env), Layout(folder), os.environ)
        landlock = Confining(Landlock(version()), Layout(folder), os.environ)
        same = by_hand(bubblewrap.confine(Command(["true"], folder, env, 10)).argv)
        rows: dict[str, Callable[[], None]] = {
            "no sandbox": lambda: bare("true"),
            "bwrap by hand": lambda: bare(*BY_HAND, "--bind", name, name, "--", "true"),
            "the same places": lambda: bare(*same),
            "sandbox": lambda: confined(bubblewrap),
            "landlock": lambda: confined(landlock),
        }
        found: dict[str, list[float]] = {who: [] for who in rows}
        for _ in range(ROUNDS):
            for who, run in rows.items():
                began = time.perf_counter()
                run()
                found[who].append((time.perf_counter() - began) * 1000)
    for who, times in found.items():
        print(f"{who:<15} median {statistics.median(times):6.2f} ms   "  # noqa: T201
              f"p95 {statistics.quantiles(times, n=20)[-1]:6.2f} ms")  # fmt: skip
    ours = statistics.median(found["sandbox"])
    for who, note in (("bwrap by hand", " (goal: 1.2)"), ("the same places", " by hand")):
        ratio = ours / statistics.median(found[who])
        print(f"the sandbox takes {ratio:.2f} times {who}{note}")  # noqa: T201


def by_hand(argv: Sequence[str]) -> list[str]:
    """A command line of ours without the filter and the limits, which nobody can type."""
    pairs = zip(["", *argv], argv, strict=False)
    return [part for before, part in pairs if before not in OURS and part not in OURS]


if __name__ == "__main__":
    main()
