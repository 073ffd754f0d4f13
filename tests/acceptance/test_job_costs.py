"""What 100 MB of a job's output costs the runtime: memory and disk, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kills import PROJECT

MEASURED = """
import json, pathlib, sys
from team_runtime.daemons.job_parts import JobLimits
from team_runtime.process.sandbox import NoSandbox
from tests.support.confined import bubblewrap
from tests.support.yard import opened

def memory(key):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024

folder, script, how, seconds = sys.argv[1:]
sandbox = NoSandbox() if how == "off" else bubblewrap()
with opened(pathlib.Path(folder), sandbox, JobLimits(output_bytes=10_000_000)) as yard:
    yard.run("head -c 1000000 /dev/zero; echo ok")
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = memory("VmRSS")
    job = yard.run(script, float(seconds) or None)
    kept = sum(p.stat().st_size for p in yard.store.output(job.id).iterdir())
    print(json.dumps({
        "grown": memory("VmHWM") - before, "kept": kept, "bytes": job.bytes,
        "dropped": job.dropped, "status": job.status, "left": len(yard.survivors()),
    }))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("how", ["off", "bubblewrap"])
@pytest.mark.parametrize(
    ("script", "seconds", "status"),
    [
        ("head -c 100000000 /dev/zero", 0, "completed"),
        ("head -c 100000000 /dev/zero | tr '\\\\0' '\\\\n'; printf '\\\\377'", 0, "completed"),
        ("yes", 5, "killed"),
    ],
    ids=["100 MB in one line", "100 MB of lines", "yes for 5 seconds (claude-code#32964)"],
)
def test_output_costs_little(
    tmp_path: Path, how: str, script: str, seconds: float, status: str
) -> None:
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "yard"), script, how, str(seconds)]
    ended = subprocess.run(
        command,
        cwd=PROJECT,
        env={"PYTHONPATH": str(PROJECT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["status"] == status
    assert found["bytes"] >= 100_000_000
    assert found["grown"] <= 2_000_000, found
    assert found["kept"] <= 10_000_000
    assert found["dropped"] == found["bytes"] - found["kept"]
    assert found["left"] == 0
