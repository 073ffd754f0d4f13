"""What a team that only waits costs, and a daemon, beside an idle Python process and one that does
nothing but wake every five seconds.

All wait the same number of seconds, at the same time, and measure themselves: the processor time
that they used meanwhile, in milliseconds for each second; how often one of their threads woke,
with the one time that the measuring itself takes; and their resident memory. Processor time is
counted in microseconds; one wake-up costs about a millisecond, most of it for cold caches.

`python -m benchmarks.idle 600` waits for so many seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS = float(os.environ.get("IDLE_SECONDS", "330"))
"""Holds every look that a team takes by itself, but the last resort of every hour."""
SETTLE = 75.0
"""Seconds until what has been started is at rest."""
TEAMMATES = 20
SCHEDULES = 50


def used() -> tuple[float, int]:
    """Seconds of processor time of this process so far, and how often its threads gave it up."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_nvcsw


def resident() -> int:
    """KiB of memory that are resident now."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


def measure() -> None:
    """Wait, then print what that cost."""
    time.sleep(SETTLE)
    seconds, woke = used()
    time.sleep(SECONDS)
    ended, woken = used()
    told = {"ms": (ended - seconds) / SECONDS * 1000, "woken": woken - woke, "kib": resident()}
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
    """A run with idle teammates and schedules that are not due, as `team run` is one."""
    from team_runtime.process.adoption import adopting
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

    with tempfile.TemporaryDirectory() as folder, adopting():
        root = make_repository(Path(folder) / "repository")
        run_team(root, {"lead": lead, **dict.fromkeys(names, mate)}, timeout=SECONDS + SETTLE + 60)


def daemon() -> None:
    """`team daemon` with schedules that are not due."""
    from team_runtime.app.headless import Headless, Serving
    from team_runtime.clock import SystemClock
    from team_runtime.config import Settings
    from team_runtime.daemons.schedules import Schedule
    from tests.support.api import team_environment
    from tests.support.scripted_team import make_repository, outside

    with tempfile.TemporaryDirectory() as folder:
        root = make_repository(Path(folder) / "repository")
        draft = Schedule(
            id="",
            when="@yearly",
            prompt="x",
            zone="UTC",
            created_by="person",
            created_at=SystemClock().now(),
            session=None,
        )
        for _ in range(SCHEDULES):
            outside(root).schedules.add(draft)
        environ = team_environment(root.parent)
        headless = Headless(Serving(outside(root), environ, lambda record: Settings(model="x")))

        def end() -> None:
            measure()
            headless.stop()

        measuring = threading.Thread(target=end)
        measuring.start()
        headless.serve()
        measuring.join()


def main() -> None:
    parts = {"alone": alone, "waking": waking, "team": team, "daemon": daemon}
    if sys.argv[1:2] and sys.argv[1] in parts:
        parts[sys.argv[1]]()
        return
    given = {"IDLE_SECONDS": sys.argv[1]} if sys.argv[1:] else {}
    started = {
        part: subprocess.Popen(
            [sys.executable, "-m", "benchmarks.idle", part],
            stdout=subprocess.PIPE,
            env={**os.environ, **given},
        )
        for part in parts
    }
    for part, process in started.items():
        told = json.loads(process.communicate()[0])
        cost = f"{told['ms']:7.3f} ms/s   woken {told['woken']:4} times"
        print(f"{part:<6} {cost}   {told['kib'] / 1024:6.1f} MiB", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
