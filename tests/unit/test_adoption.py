"""A run as the parent of what its children leave behind; each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import Final

import pytest

HEAD: Final = """
import os, subprocess, sys, threading, time
from pathlib import Path
from team_runtime.process import adoption
from team_runtime.process.adoption import adopting, end_adopted
LEAVE = '''import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print(os.getpid(), flush=True)
os.close(1)
time.sleep(float(sys.argv[1]))
'''
def leave(seconds):
    done = subprocess.run([sys.executable, "-c", LEAVE, str(seconds)], stdout=subprocess.PIPE,
                          start_new_session=True, env={})
    return int(done.stdout)
def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])
def until(holds):
    for _ in range(1000):
        if holds(): return
        time.sleep(0.01)
    raise SystemExit("it did not happen")
adoption._PAUSE = adoption._CHILDLESS = 0.02
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux alone adopts")


def passes(program: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", HEAD + program],
            env={**os.environ, "TMPDIR": folder},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


def test_a_daemon_becomes_its_child_and_ends_with_it() -> None:
    passes("""
with adopting():
    pid = leave(300)
    until(lambda: parent(pid) == os.getpid())
    assert Path("/proc/self/comm").read_text() == "team run\\n"
assert not Path(f"/proc/{pid}").exists()
assert subprocess.run(["sh", "-c", "(sleep 0 &) &"]).returncode == 0
""")


def test_what_the_adopted_left_is_collected() -> None:
    passes("""
with adopting():
    pid = leave(0)
    until(lambda: not Path(f"/proc/{pid}").exists())
""")


def test_nobody_elses_status_is_taken() -> None:
    passes("""
with adopting():
    for new_session in (True, False):
        child = subprocess.Popen(["sh", "-c", "exit 7"], start_new_session=new_session)
        leave(0)
        assert child.wait() == 7
    late = subprocess.Popen(["sh", "-c", "exit 7"])
    gone = leave(0)
    until(lambda: not Path(f"/proc/{gone}").exists())
    assert late.wait() == 7
""")


def test_git_may_finish_where_it_is_asked_for() -> None:
    passes("""
import shutil
git = shutil.copy(shutil.which("sleep"), os.path.join(os.environ["TMPDIR"], "git-slow"))
with adopting():
    slow = subprocess.Popen([git, "300"], start_new_session=True)
    other = subprocess.Popen(["sleep", "300"], start_new_session=True)
    end_adopted(leave_git=True)
    assert not Path(f"/proc/{other.pid}").exists()
    assert slow.poll() is None
assert not Path(f"/proc/{slow.pid}").exists()
other.wait(), slow.wait()
""")


def test_what_the_adopted_start_while_they_are_ended_ends_too() -> None:
    passes("""
with adopting():
    many = '(while :; do setsid sleep 300 & sleep 0.005; done) &'
    subprocess.run(["sh", "-c", many], start_new_session=True)
    time.sleep(0.1)
children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
assert children == "", children
""")
