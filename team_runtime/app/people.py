"""Whether a person gave a command, or an agent did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from team_runtime.clock import SystemClock, SystemEntropy
from team_runtime.process.lineage import Untold, agent_above, is_in_sight
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout
from team_runtime.store.presence import Runs
from team_runtime.types import Json, Liveness


def who_else(root: Path, environ: Mapping[str, str]) -> str | None:
    """Who gave the command instead of a person, as a text; `None` when a person did. Where it
    cannot be told it was no person."""
    runs = _live(root)
    try:
        found = agent_above(environ, {int(str(run["pid"])) for run in runs})
    except Untold:
        return "somebody who cannot be told: the system does not say by which process"
    if found is not None:
        return found
    for run in runs:
        namespace = run.get("pidNamespace")
        if isinstance(namespace, str) and not is_in_sight(namespace):
            return "a process that cannot see the run of a team here; use a shell beside that"
    return None


def _live(root: Path) -> list[dict[str, Json]]:
    """The records of the runs that live in this workspace. Nothing is made where there are none."""
    runs = Runs(Store(Layout(root.absolute()), SystemClock(), SystemEntropy()))
    return [run for run in runs.known() if runs.liveness(str(run["run"])) is Liveness.ALIVE]
