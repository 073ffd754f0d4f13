"""A live `team run` that is killed and goes on, and the proof that nothing was lost by it.

The proof is read from git, the task files and the transcripts, never from what was counted here.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import careful
from tests.support.api import git, team_environment

BUILD = '''"""Builds slowly and leaves programs running."""
import pathlib, subprocess, sys, time
letter = sys.argv[1]
subprocess.Popen(["sleep", "300"], start_new_session=letter == "b")
time.sleep(0.1)
pathlib.Path(f"{letter}.out").write_text(f"built {letter}\\n")
'''
PROJECT = Path(__file__).parents[2]
PLAYBOOK = Path(careful.__file__)
DYING = PLAYBOOK.with_name("dying.py")
OPTIONS = ("--allow", "Bash(python3 build.py *)", "--allow", "land_worktree", "--timeout", "40")
LETTERS = ("a", "b", "c")


def new_workspace(folder: Path) -> Path:
    """A repository with one commit on `trunk`."""
    root = folder / "it's a repo"
    root.mkdir(parents=True)
    (root / "build.py").write_text(BUILD)
    git(root, "init", "--quiet", "--initial-branch=trunk")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Start")
    return root


@dataclass
class Life:
    """One workspace's team, run after run."""

    root: Path
    playbook: Path = PLAYBOOK
    options: tuple[str, ...] = OPTIONS
    kills: Counter[str] = field(default_factory=Counter)
    """What was under way when it was killed."""

    def start(self, playbook: Path | None = None, **environ: str) -> subprocess.Popen[str]:
        """Begin, or go on where the last run was killed."""
        playbook = playbook or self.playbook
        arguments = ["run", *self.options, "--model", f"scripted:{playbook}"]
        environ["TEAM_TEST_PLAYS"] = self.playbook.stem
        arguments += ["--continue"] if self._has_session() else ["Write all three."]
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        return subprocess.Popen(
            [sys.executable, "-m", "team_runtime", *arguments],
            cwd=self.root,
            env={**team_environment(home), "PYTHONPATH": str(PROJECT), **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def killed_after(self, seconds: float) -> bool:
        """Start the next run and kill it after so many seconds, unless it ends before."""
        known = self._runs()
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        return self._has_died(process, known)

    def killed_at(self, step: int) -> bool:
        """Let the next run die right before its nth step, if it has so many."""
        known = self._runs()
        return self._has_died(self.start(DYING, TEAM_TEST_DIE_AT=str(step)), known)

    def killed_on(self, kind: str, number: int = 1) -> bool:
        """Let the next run die right after its nth event of this kind, if it has so many."""
        known = self._runs()
        return self._has_died(self.start(DYING, TEAM_TEST_DIE_ON=f"{kind}:{number}"), known)

    def interrupted_after(self, seconds: float, number: signal.Signals) -> bool:
        """Start the next run and send it a signal after so many seconds; whether it heard it."""
        process = self.start()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        output, _ = process.communicate(timeout=50)
        assert process.returncode in (0, 130, -number), output
        return process.returncode != 0

    def finish(self) -> None:
        """Go on until the end."""
        process = self.start()
        output, _ = process.communicate(timeout=50)
        assert process.returncode == 0, output

    def _has_died(self, process: subprocess.Popen[str], known: set[str]) -> bool:
        output, _ = process.communicate(timeout=50)
        if process.returncode == -signal.SIGKILL:
            self.kills[self._under_way(known)] += 1
            return True
        assert process.returncode == 0, output
        return False

    def _has_session(self) -> bool:
        return any((self.root / ".team" / "sessions").glob("*/session.json"))

    def _runs(self) -> set[str]:
        return {str(e["run"]) for e in event_log(self.root)}

    def _under_way(self, known: set[str]) -> str:
        """The newest step that had begun and not ended in the run that is not in `known`."""
        log = [e for e in event_log(self.root) if e["run"] not in known]
        if not any(e["kind"] == "run_started" for e in log):
            return "starting"
        if not any(e["kind"] == "turn_started" for e in log):
            return "recovering"
        under_way: dict[str, str] = {}
        for event in log:
            kind, agent = event["kind"], str(event["agent"])
            if kind in ("tool_started", "turn_started"):
                under_way.pop(agent, None)
                under_way[agent] = event.get("tool", "model call")
            elif kind in ("tool_ended", "turn_ended"):
                under_way.pop(agent, None)
        return list(under_way.values())[-1] if under_way else "between two steps"


def event_log(root: Path) -> list[dict[str, Any]]:
    """The events that were written whole."""
    try:
        text = (root / ".team" / "events.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def prove_whole(root: Path) -> None:
    """Every promise that must hold after the last run, however often it was killed."""
    prove_tasks(root)
    prove_git(root)
    prove_mail(root)
    prove_transcripts(root)
    prove_everybody_was_told(root)
    prove_nothing_left(root)


def prove_tasks(root: Path) -> None:
    """Each task was completed by exactly one attempt, the last."""
    files = sorted((root / ".tasks").glob("task_*.json"))
    tasks = [json.loads(file.read_text()) for file in files]
    assert [t["subject"] for t in tasks] == [f"Write {letter}" for letter in LETTERS]
    for task in tasks:
        assert task["status"] == "completed"
        assert task["claim"] is None
        attempts = task["attempts"]
        *earlier, last = [attempt["outcome"] for attempt in attempts]
        assert last == "completed"
        assert set(earlier) <= {"resumed", "lost", "released"}
        assert [a["epoch"] for a in attempts] == list(range(1, len(attempts) + 1))
        assert all(attempt["ended"] for attempt in attempts)
        git(root, "merge-base", "--is-ancestor", task["result"]["commit"], "trunk")


def prove_git(root: Path) -> None:
    """The work is on the target, landed once, and the user's checkout is clean at its tip."""
    for letter in LETTERS:
        assert git(root, "show", f"trunk:{letter}.txt") == f"written {letter}"
        assert git(root, "show", f"trunk:{letter}.out") == f"built {letter}"
        assert git(root / "worktrees" / letter, "status", "--porcelain") == ""
    subjects = Counter(git(root, "log", "--format=%s", "trunk").splitlines())
    for letter in LETTERS:
        assert subjects[f"Land {letter} on trunk"] == 1
        record = json.loads((root / ".team" / "worktrees" / f"{letter}.json").read_text())
        assert record["state"] == "ready"
        (landed,) = record["landed"]
        git(root, "merge-base", "--is-ancestor", landed["merge"], "trunk")
    assert git(root, "symbolic-ref", "HEAD") == "refs/heads/trunk"
    assert git(root, "status", "--porcelain", "--untracked-files=all") == ""
    assert (root / "c.out").read_text() == "built c\n"
    assert [str(p) for p in (root / ".git").rglob("*.lock")] == []
    git(root, "fsck", "--strict", "--no-dangling")


def prove_mail(root: Path) -> None:
    """Nothing that should have woken somebody is left in a mailbox."""
    left = [*(root / ".team" / "mail").glob("*/new/*"), *(root / ".team" / "mail").glob("*/cur/*")]
    waking = [m for f in left if (m := json.loads(f.read_text()))["type"] != "idle"]
    assert waking == []


def prove_transcripts(root: Path) -> None:
    """Each call has exactly one result, directly after it, and no message came twice."""
    for file in (root / ".team" / "sessions").glob("*/*.jsonl"):
        entries = [json.loads(line) for line in file.read_text().splitlines() if _is_whole(line)]
        mail = [message for e in entries for message in e.get("mail", ())]
        assert len(mail) == len(set(mail)), file
        spoken = [e for e in entries if e["kind"] in ("user", "assistant")]
        for entry, after in zip(spoken, [*spoken[1:], {"blocks": []}], strict=True):
            calls = [b["id"] for b in entry["blocks"] if b["type"] == "tool_use"]
            results = [b["tool_use_id"] for b in after["blocks"] if b["type"] == "tool_result"]
            assert calls == results or entry["kind"] == "user", file
        results = [b["tool_use_id"] for e in spoken for b in e["blocks"] if "tool_use_id" in b]
        assert len(results) == len(set(results)), file


def prove_everybody_was_told(root: Path) -> None:
    """The lead has each teammate's last report and each plan, the author has each decision."""
    for session in (root / ".team" / "sessions").iterdir():
        if not (session / "session.json").exists():
            continue  # killed before there was anything in it
        entries = {
            file.stem: [
                json.loads(line) for line in file.read_text().splitlines() if _is_whole(line)
            ]
            for file in session.glob("*.jsonl")
        }
        has = {
            name: {m for e in found for m in e.get("mail", ())} for name, found in entries.items()
        }
        for name in entries.keys() - {"lead"}:
            replies = sum(entry["kind"] == "assistant" for entry in entries[name])
            assert f"m-{session.name}-{name}-{replies}" in has["lead"]
        for file in (root / ".team" / "plans").glob("*.json"):
            plan = json.loads(file.read_text())
            for revision in plan["revisions"]:
                assert f"m-{revision['requestId']}" in has["lead"]
                assert f"m-{revision['requestId']}-decision" in has[plan["agent"]]


def _is_whole(line: str) -> bool:
    return line.endswith("}")


def prove_nothing_left(root: Path) -> None:
    """No process, no litter of writers that died, nothing set aside as broken."""
    assert processes_of(root) == []
    assert [str(p) for p in (root / ".team").rglob(".tmp-*")] == []
    assert [str(p) for p in (root / ".tasks").glob(".tmp-*")] == []
    assert not (root / ".team" / "landing.json").exists()
    assert not list((root / ".team" / "quarantine").glob("*"))


def processes_of(root: Path) -> list[str]:
    """Everything alive that a run of this workspace started, or that works in it."""
    runs = {f"TEAM_RUN={e['run']}".encode() for e in event_log(root)}
    return [f"{pid} {name}" for pid, name in _processes() if _belongs(pid, runs, root)]


def end_processes_of(root: Path) -> None:
    """For the end of a test that failed in the middle."""
    for process in processes_of(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(process.split()[0]), signal.SIGKILL)


def _processes() -> Iterator[tuple[int, str]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue
            if rest.split()[0] not in "ZX":
                yield int(entry.name), name


def _belongs(pid: int, runs: set[bytes], root: Path) -> bool:
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        place = Path(f"/proc/{pid}/cwd").readlink()
    except OSError:
        return False
    return not runs.isdisjoint(environ) or place.is_relative_to(root)


def steps_of_a_life(folder: Path) -> int:
    """How many steps a run takes that nobody kills."""
    place = folder / "steps"
    process = Life(new_workspace(folder)).start(DYING, TEAM_TEST_STEPS=str(place))
    output, _ = process.communicate(timeout=50)
    assert process.returncode == 0, output
    return int(place.read_text())


def seconds_of_a_life(folder: Path) -> float:
    """How long a run takes that nobody kills."""
    life = Life(new_workspace(folder))
    began = time.monotonic()
    life.finish()
    return time.monotonic() - began
