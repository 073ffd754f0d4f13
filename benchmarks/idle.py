"""What a team that only waits costs, beside an idle Python process and one that does nothing but
wake every five seconds.

All wait the same number of seconds, at the same time, and measure themselves: the processor time
that they used meanwhile, in milliseconds for each second, and their resident memory.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = 60.0
"""Holds every look that a run takes by itself, but the last resort of every 5 minutes."""
SETTLE = 35.0
"""Seconds until what has been started is at rest."""
TEAMMATES = 20
SCHEDULES = 50


def used() -> float:
    """Seconds of processor time of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident() -> int:
    """KiB of memory that are resident now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def measure() -> None:
    """Wait, then print what that cost."""
    time.sleep(SETTLE)
    before = used()
    time.sleep(SECONDS)
    told = {"ms": (used() - before) / SECONDS * 1000, "kib": resident()}
    print(json.dumps(told), flush=True)  # noqa: T201


def alone() -> None:
    """An idle process with an event loop."""
    asyncio.run(asyncio.to_thread(measure))


def waking() -> None:
    """An event loop that wakes every five seconds and does nothing."""

    async def wake() -> None:
        measuring = asyncio.create_task(asyncio.to_thread(measure))
        for _ in range(int((SETTLE + SECONDS) / 5)):
            await asyncio.sleep(5)
        await measuring

    asyncio.run(wake())


def team() -> None:
    """A run with idle teammates and schedules that are not due."""
    from tests.support.api import Seen
    from tests.support.scripted_team import call, make_repository, run_team, spawn, until

    names = [f"mate-{number}" for number in range(TEAMMATES)]

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn(name) for name in names]
        yield [call("schedule_cron", cron="@yearly", prompt="x") for _ in range(SCHEDULES)]
        yield until("agent_state", None, TEAMMATES, state="idle")
        yield measure
        yield "Done."

    def mate(seen: Seen) -> Iterator[Any]:
        yield "Nothing to do."

    with tempfile.TemporaryDirectory() as folder:
        root = make_repository(Path(folder) / "repository")
        run_team(root, {"lead": lead, **dict.fromkeys(names, mate)}, timeout=SECONDS + SETTLE + 60)


def main() -> None:
    parts = {"alone": alone, "waking": waking, "team": team}
    if len(sys.argv) > 1:
        parts[sys.argv[1]]()
        return
    started = {
        part: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.idle", part], stdout=subprocess.PIPE
        )
        for part in parts
    }
    for part, process in started.items():
        told = json.loads(process.communicate()[0])
        print(f"{part:<6} {told['ms']:6.2f} ms/s   {told['kib'] / 1024:6.1f} MiB")  # noqa: T201


if __name__ == "__main__":
    main()
