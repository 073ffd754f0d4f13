"""A `team run` that a test interrupts at a known place, on a terminal or without one."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.api import git, team, team_environment
from tests.support.kills import PROJECT, event_log

MODEL = f"scripted:{PROJECT / 'tests' / 'support' / 'waiting.py'}"
WAIT = '''"""Waits for the file `go`; stubbornly, it ignores a polite end."""
import pathlib, signal, sys, time
if sys.argv[1] == "stubbornly":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path("reached").write_text("here\\n")
while not pathlib.Path("../../.git/go").exists():
    time.sleep(0.01)
print("it went on to its end")
'''
SECONDS = 20.0


def eventually(holds: Callable[[], Any]) -> Any:
    """What `holds` returns once it is true; fails when it takes too long."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.01)
    raise AssertionError(f"it did not happen within {SECONDS:g} seconds: {holds}")


def waiting_workspace(folder: Path) -> Path:
    """A repository whose program waits."""
    root = folder / "repo"
    root.mkdir()
    (root / "wait.py").write_text(WAIT)
    git(root, "init", "--quiet", "--initial-branch=trunk")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Start")
    return root


@dataclass
class Terminal:
    """A pseudo-terminal whose output is read all the time."""

    master: int = field(init=False)
    path: str = field(init=False)
    seen: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.master, slave = pty.openpty()
        self.path = os.ttyname(slave)
        self._slave = slave
        self._enough, self._stop = os.pipe()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def press_ctrl_c(self) -> None:
        os.write(self.master, b"\x03")

    def opened(self) -> None:
        """The program has opened it; from now on it ends with the program."""
        os.close(self._slave)

    def close(self) -> None:
        """As when a person closes the window. The reading ends first: it would keep it open."""
        os.close(self._stop)
        self._reader.join()
        os.close(self._enough)
        os.close(self.master)

    def _read(self) -> None:
        ends = [self.master, self._enough]
        with suppress(OSError):  # the program has closed it
            while self._enough not in select.select(ends, [], [])[0]:
                if not (data := os.read(self.master, 4096)):
                    return
                self.seen += data


class Interrupted:
    """The run, from its start to its end and on to its resumption."""

    def __init__(self, root: Path, terminal: Terminal | None = None, **environ: str) -> None:
        self.root = root
        self.terminal = terminal
        self.home = root.parent / "home"
        self.home.mkdir(parents=True, exist_ok=True)
        self.environ = {**team_environment(self.home), "PYTHONPATH": str(PROJECT), **environ}
        self.stderr = ""
        self._process: subprocess.Popen[str]

    def start(self, *options: str, model: str = MODEL, prefix: str = "") -> None:
        self._model = model
        arguments = [sys.executable, "-m", "team_runtime", "run", "Write a.", "--model", model]
        arguments += ["--allow", "Bash(python3 wait.py *)", "--allow", "land_worktree", *options]
        redirect = f'0<>"{self.terminal.path}" >&0 2>&0' if self.terminal else "</dev/null"
        self._process = subprocess.Popen(
            ["sh", "-c", f'{prefix} exec "$@" {redirect}', "sh", *arguments],
            cwd=self.root,
            env=self.environ | ({"TERM": "xterm"} if self.terminal else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def reaches(self, place: str) -> None:
        """Wait until anna's program runs, or until everybody waits for a plan."""
        if place == "program":
            eventually((self.root / "worktrees" / "a" / "reached").exists)
        else:
            eventually(lambda: self.has("agent_state", state="waiting for approval"))
            eventually(lambda: self.has("agent_state", agent="lead", state="idle"))

    def has(self, kind: str, **fields: str) -> bool:
        return any(
            event["kind"] == kind and fields.items() <= event.items()
            for event in event_log(self.root)
        )

    def interrupt(self, number: signal.Signals = signal.SIGINT, times: int = 1) -> None:
        """Send a signal, or press Ctrl-C, so many times; each after the one before was heard."""
        for nth in range(1, times + 1):
            if self.terminal is not None:
                self.terminal.press_ctrl_c()
            else:
                self.send(number)
            if nth < 3:
                eventually(lambda n=nth: self._notices() >= n)  # type: ignore[misc]

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _notices(self) -> int:
        return sum("Ctrl-C" in str(e.get("text")) for e in event_log(self.root))

    def let_the_program_go_on(self) -> None:
        (self.root / ".git" / "go").touch()

    def ends(self) -> int:
        """Wait for the end; returns the exit status."""
        _, self.stderr = self._process.communicate(timeout=SECONDS)
        return self._process.returncode

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def session(self) -> str:
        (folder,) = (self.root / ".team" / "sessions").iterdir()
        return folder.name

    def resume(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Go on where it was, without the wait."""
        self.let_the_program_go_on()
        again = ["run", "--resume", self.session, "--model", self._model]
        return team([*again, *options], self.root, self.environ)

    def task(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.root / ".tasks" / "task_1.json").read_text())
        return record

    def outcomes(self) -> list[str]:
        return [attempt["outcome"] for attempt in self.task()["attempts"]]
