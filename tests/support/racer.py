"""Starts a team in the given workspace at each `go`, and says how that ended: the exit code, or 2
with the process and session that were there first."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from team_runtime.app.request import RunRequest
from team_runtime.app.run import run_team_in
from team_runtime.config import Settings
from team_runtime.errors import TeamRunning
from tests.support.scripted_team import MODEL, Playing, Recorder


def race(root: Path) -> str:
    model = Playing({"lead": lambda _: iter(["Done."])}, Recorder())
    request = RunRequest(root, "Go.", Settings(model=MODEL), os.environ, models={MODEL: model})
    try:
        return str(run_team_in(request).exit_code)
    except TeamRunning as error:
        return f"2 {error.pid} {error.session}"


for _ in range(int(sys.argv[2])):
    print("ready", flush=True)  # noqa: T201
    sys.stdin.readline()
    print(race(Path(sys.argv[1])), flush=True)  # noqa: T201
