"""Kill -9 of a live run with jobs: no job outlives it, none is forgotten, none is told twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from team_runtime.process.orphans import left_by
from tests.support import building
from tests.support.building import notifications
from tests.support.kills import (
    PROJECT,
    Life,
    end_processes_of,
    event_log,
    new_workspace,
    processes_of,
)

OPTIONS = ("--allow", "Bash", "--timeout", "40", "--sandbox", "off")


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    life = Life(new_workspace(tmp_path), Path(building.__file__), OPTIONS)
    yield life
    end_processes_of(life.root)


def prove_told(root: Path) -> None:
    """Each job has ended, and the lead was told of it exactly once; nothing is left of it."""
    (transcript,) = (root / ".team" / "sessions").glob("*/lead.jsonl")
    lines = transcript.read_text().splitlines()
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    users = [{"role": "user", "content": e["blocks"]} for e in entries if e["kind"] == "user"]
    told = notifications(users)
    records = [json.loads(p.read_text()) for p in (root / ".team" / "jobs").glob("job_*.json")]
    assert sorted(job for job, _, _ in told) == sorted(record["id"] for record in records)
    statuses = {job: (status, code) for job, status, code in told}
    for record in records:
        assert record["told"], record
        expected = {"failed": ("failed", "3"), "lost": ("killed", "unknown")}
        assert statuses[record["id"]] == expected[record["status"]], record
    assert processes_of(root) == []
    assert list((root / ".team" / "jobs" / "requests").iterdir()) == []
    assert [str(p) for p in (root / ".team").rglob(".tmp-*")] == []


def check(life: Life, how: str) -> None:
    try:
        life.finish()
        prove_told(life.root)
    except AssertionError as error:
        error.add_note(f"{how}, killed while {life.kills}; see {life.root}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["job_started", "job_ended", "message_sent", "message_delivered"])
def test_killed_right_after_an_event(life: Life, kind: str) -> None:
    for number in (1, 2):
        life.killed_on(kind, number)
    assert life.kills
    check(life, kind)


@pytest.mark.fault
@pytest.mark.timeout(1000)
@pytest.mark.parametrize("seed", range(10))
def test_killed_at_random_moments_and_steps(life: Life, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(4):
        if chance.random() < 0.5:
            life.killed_after(chance.uniform(0.5, 3.0))
        else:
            life.killed_at(chance.randint(60, 400))
    check(life, f"seed {seed}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_jobs_with_the_run(life: Life, number: signal.Signals) -> None:
    """opencode#12913, opencode#14504: a terminal that closes takes everything with it."""
    process = life.start()
    while not any(e["kind"] == "job_started" for e in event_log(life.root)):
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    output, _ = process.communicate(timeout=50)
    assert process.returncode == 130, output
    runs = {str(e["run"]) for e in event_log(life.root)}
    assert left_by(runs) == []
    (record,) = [json.loads(p.read_text()) for p in (life.root / ".team/jobs").glob("*.json")]
    assert record["status"] in ("killed", "failed")


DYING_WRITER = """
import os, pathlib, signal, sys, threading
from team_runtime.process.sandbox import NoSandbox
from tests.support.confined import bubblewrap
from tests.support.yard import opened

folder, layer = sys.argv[1:]
with opened(pathlib.Path(folder), NoSandbox() if layer == "off" else bubblewrap()) as yard:
    yard.start("while :; do echo x; done")
    while not yard.output(yard.jobs.running()[0]):
        threading.Event().wait(0.01)
    print(yard.run_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["off", "bubblewrap"])
def test_a_job_that_writes_dies_with_a_runtime_that_is_killed(tmp_path: Path, layer: str) -> None:
    """claude-code#32964, claude-code#35886, claude-code#33743, claude-code#41540: the output file
    goes on growing after the parent has crashed."""
    arguments = [sys.executable, "-c", DYING_WRITER, str(tmp_path / "yard"), layer]
    environ = {"PYTHONPATH": str(PROJECT), "PATH": os.environ["PATH"]}
    died = subprocess.run(arguments, env=environ, capture_output=True, text=True, check=False)
    assert died.returncode == -signal.SIGKILL, died.stderr
    run = died.stdout.strip()
    for _ in range(500):
        if not left_by([run]):
            break
        time.sleep(0.02)
    assert left_by([run]) == []
