"""Commands that only a person may give, tried by agents that hide where they come from.

The team is a real one, without a sandbox. Each way is a command of an agent that tries to approve
a plan and to give trust.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from team_runtime.plans.model import APPROVED, PENDING
from tests.support.api import Seen, git, team_environment
from tests.support.cli import OnTerminal
from tests.support.confined import bubblewrap
from tests.support.interrupted import eventually
from tests.support.kills import PROJECT
from tests.support.scripted_team import call, make_repository, outside, run_team

PLAYBOOK: Final = PROJECT / "tests" / "support" / "hiding.py"
PATH: Final = os.environ["PATH"]
DETACHED: Final = """
import os, sys
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.execv("/bin/sh", ["sh", *sys.argv[1:]])
"""
HELPER: Final = """
import os, subprocess, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
subprocess.run(open(sys.argv[1]).read(), shell=True, env={"PATH": "/usr/bin:/bin"})
"""
OVER: Final = """run=$PPID; while [ "$(cat /proc/$run/comm)" != "team run" ]; do
run=$(cut -d" " -f4 /proc/$run/stat); done
env -i run=$run unshare --map-root-user --mount sh -c '{}; TRY'"""
WAYS: Final[dict[str, str]] = {
    "openly": "TRY",
    "without our variables": "env -u TEAM_AGENT -u TEAM_RUN TRY",
    "with an empty environment": "env -i TRY",
    "in a session of its own": "env -i setsid TRY",
    "in the background": "env -i nohup TRY >/dev/null 2>&1 &",
    "after two forks": "env -i sh -c '(TRY &) &'",
    "as a daemon": "env -i PYTHON -c DETACHED TRIED",
    "as a daemon by perl": "env -i perl -MPOSIX -e 'fork and exit; setsid; exec @ARGV' TRY",
    "on a terminal": "env -i script -qec 'TRY' /dev/null </dev/null",
    "in another shell": "env -i sh -c 'sh -c \"exec TRY\"'",
    "under another name": "env -i bash -c 'exec -a systemd TRY'",
    "from a here-document": "env -i sh <<'END'\nTRY\nEND",
    "as an alias of git": "env -i PATH=$PATH git -c alias.x='!TRY' x",
    "by make": "printf 'all:\\n\\t@TRY\\n' | env -i make -s -f -",
    "by a helper that was left behind": "env -i PYTHON -c HELPER JOB; printf '%s' 'TRY' > JOB",
    "in a terminal that was left behind": "env -i tmux -L JOB_NAME new-session -d 'TRY'",
    "with nothing over its parents": OVER.format("mount -t tmpfs none /proc/$run"),
    "with a file over its parents": OVER.format("mount --bind /proc/1/stat /proc/$run/stat"),
    "with another list of processes": OVER.format("mount -t tmpfs none /proc"),
    "among processes of its own": "env -i unshare --map-root-user --pid --fork --mount-proc TRY",
}  # fmt: skip
QUICK: Final = ("with an empty environment", "as a daemon")


@dataclass(frozen=True)
class Doors:
    """A workspace with a plan and with something that waits for trust, and a team in it."""

    root: Path

    @property
    def environ(self) -> dict[str, str]:
        return {**team_environment(self.root.parent), "PYTHONPATH": str(PROJECT)}

    def commands(self, ways: Sequence[str]) -> list[str]:
        """What the agent runs; each way is waited for."""
        waiting = "for i in $(seq 600); do {}; sleep 0.05; done"
        planned = waiting.format("grep -qs '\"pending\"' .team/plans/plan_1.json && break")
        return [planned, *(self._command(way, waiting) for way in ways)]

    def _command(self, way: str, waiting: str) -> str:
        tried = f"/bin/sh {shlex.quote(str(self._trying(way)))}"
        text = WAYS[way]
        for name, value in {
            "TRY": tried,
            "TRIED": tried.removeprefix("/bin/sh "),
            "PYTHON": shlex.quote(sys.executable),
            "DETACHED": shlex.quote(DETACHED),
            "HELPER": shlex.quote(HELPER),
            "JOB": str(self.root.parent / "job"),
            "JOB_NAME": f"test-{os.getpid()}",
        }.items():
            text = _replaced(text, name, value)
        return text + "\n" + waiting.format(f"[ -s {self._answer(way)} ] && break")

    def _trying(self, way: str) -> Path:
        """The script that tries it, in a place without blanks."""
        script = self._answer(way).with_suffix(".sh")
        names = ("HOME", "TEAM_CONFIG_DIR", "PYTHONPATH")
        given = "\n".join(f"export {name}={shlex.quote(self.environ[name])}" for name in names)
        said, run = script.with_suffix(".said"), f"{shlex.quote(sys.executable)} -m team_runtime"
        script.write_text(
            f"cd {shlex.quote(str(self.root))}\n{given}\n"
            f"{run} plans approve plan_1 --revision 1 >{said} 2>&1\nfirst=$?\n"
            f"{run} trust --yes >>{said} 2>&1\n"
            f'echo "$first $?" >{script}.part; mv {script}.part {self._answer(way)}\n'
        )
        return script

    def _answer(self, way: str) -> Path:
        return self.root.parent / f"{way.replace(' ', '-')}.codes"

    def answers(self, ways: Sequence[str]) -> Mapping[str, str]:
        """The exit codes of both commands, by way; what was said when they are not as promised."""
        found = {}
        for way in ways:
            codes = self._answer(way).read_text().strip() if self._answer(way).exists() else "none"
            said = self._answer(way).with_suffix(".said")
            found[way] = codes if codes == "4 4" else f"{codes}: {said.read_text()}"
        return found

    def has_tried(self, way: str, run: subprocess.Popen[str]) -> bool:
        return self._answer(way).exists() or run.poll() is not None

    @property
    def state(self) -> str:
        plans = outside(self.root).plans.list()
        return plans[0].current.state if plans else ""


def _replaced(text: str, name: str, value: str) -> str:
    return re.sub(rf"\b{name}\b", lambda _: value, text)


@pytest.fixture
def doors(tmp_path: Path) -> Doors:
    root = make_repository(tmp_path / "repository")
    (root / ".claude").mkdir()
    settings = {"permissions": {"allow": ["Bash"]}}
    (root / ".claude" / "settings.json").write_text(json.dumps(settings))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=Settings")
    return Doors(root)


def started(doors: Doors, ways: Sequence[str]) -> subprocess.Popen[str]:
    """The team, whose lead tries these ways."""
    file = doors.root.parent / "commands.json"
    file.write_text(json.dumps(doors.commands(ways)))
    options = ["--sandbox", "off", "--allow", "Bash", "--plan-review", "person"]
    return subprocess.Popen(
        [sys.executable, "-m", "team_runtime", "run", "Go.", "--timeout", "150", *options,
         "--model", f"scripted:{PLAYBOOK}"],
        cwd=doors.root,
        env={**doors.environ, "TEAM_TEST_COMMANDS": str(file)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def approved_by_a_person(doors: Doors, run: subprocess.Popen[str]) -> None:
    """The same commands on the person's own terminal, and the end of the run."""
    for arguments in (["plans", "approve", "plan_1", "--revision", "1"], ["trust", "--yes"]):
        terminal = OnTerminal(arguments, doors.root, doors.environ)
        assert terminal.end() == 0, terminal.shown
    output, _ = run.communicate(timeout=60)
    assert run.returncode == 0, output
    assert doors.state == APPROVED


def tried(doors: Doors, ways: Sequence[str]) -> None:
    """Assert that the agent is refused in every way, and that a person is not."""
    run = started(doors, ways)
    try:
        for way in ways:
            eventually(partial(doors.has_tried, way, run))
        assert doors.answers(ways) == dict.fromkeys(ways, "4 4")
        assert doors.state == PENDING
        approved_by_a_person(doors, run)
    finally:
        run.kill()
        run.communicate()


def test_an_agent_cannot_approve_or_trust(doors: Doors) -> None:
    """claude-code#92060, #85614: what a message relays is no consent."""
    tried(doors, QUICK)


def test_a_person_may_from_a_shell_whose_parents_have_gone(doors: Doors) -> None:
    """As in tmux, which leaves every terminal and parent behind like an agent's daemon."""
    outside(doors.root).plans.submit("bob", None, 0, "s", "Open the doors.")
    approve = shlex.join(
        [sys.executable, "-m", "team_runtime", "plans", "approve", "plan_1", "--revision", "1"]
    )
    subprocess.run(
        [sys.executable, "-c", DETACHED, "-c", approve],
        cwd=doors.root,
        env=doors.environ,
        check=True,
    )
    eventually(lambda: doors.state == APPROVED)


def test_the_sandbox_keeps_an_agent_from_approving_and_trusting(doors: Doors) -> None:
    bubblewrap()
    workspace = outside(doors.root)
    workspace.plans.submit("bob", None, 0, "s", "Open the doors.")
    environ = [f"{name}={value}" for name, value in doors.environ.items()]
    hidden = ["env", "-i", *environ, sys.executable, "-m", "team_runtime"]
    commands = [
        f"cd {shlex.quote(str(doors.root))}; {shlex.join([*hidden, *given])}; echo ended with $?"
        for given in (["plans", "approve", "plan_1", "--revision", "1"], ["trust", "--yes"])
    ]

    def alone(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command=command) for command in commands]
        assert seen.text.count("ended with") == 2
        assert "ended with 0" not in seen.text
        yield "Done."

    run_team(doors.root, {"lead": alone}, allow=("Bash",), sandbox="required")
    assert doors.state == PENDING
    assert not list((doors.root.parent / "config").rglob("*"))


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_an_agent_cannot_approve_or_trust_however_it_hides(doors: Doors) -> None:
    programs = {"perl", "script", "git", "make", "tmux", "unshare"}
    missing = {name for name in programs if shutil.which(name) is None}
    tried(doors, [way for way, text in WAYS.items() if missing.isdisjoint(text.split())])
    if missing:
        pytest.skip(f"without the ways that need {', '.join(sorted(missing))}")
