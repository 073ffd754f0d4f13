"""Canaries in the environment of a run, and everybody in it who looks for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pytest

from team_runtime.process.environment import secret_values
from team_runtime.text import SECRET, Redactor
from tests.support.api import Seen, TeamScript, team_environment
from tests.support.confined import bubblewrap, landlock
from tests.support.fake_messages import FakeMessages, error, tool
from tests.support.kills import PROJECT
from tests.support.scripted_team import make_repository

CANARIES: Final = {
    "ANTHROPIC_API_KEY": "sk-ant-canary-",
    "ANTHROPIC_AUTH_TOKEN": "bearer-canary-",
    "AWS_SECRET_ACCESS_KEY": "aws/canary+",
    "MADE_UP": "made-up-canary-",
}
LOOK: Final = """
{ env; cat /proc/*/environ; cat /proc/$PPID/environ; cat /proc/self/environ; ps eww -A; set
  git -c alias.look='!env; cat /proc/*/environ' look; cat /proc/[0-9]*/task/[0-9]*/environ
} 2>/dev/null | tr '\\0' '\\n'
"""
START: Final = """
import sys
from team_runtime.process import detection
from team_runtime.process.landlock import Landlock, version
from team_runtime.process.sandbox import NoSandbox
layer = sys.argv.pop(1)
chosen = {"landlock": lambda: Landlock(version()), "none": NoSandbox}
if layer in chosen:
    found = chosen[layer]()
    detection._best = lambda path: (found, "")
from team_runtime.cli.main import main
main()
"""


@pytest.fixture
def canaries() -> dict[str, str]:
    """Of this test alone: who looks at all processes sees those of the tests beside it too, and a
    runtime that has just been started has not hidden anything yet."""
    number = token_hex(6)
    return {name: begins + number for name, begins in CANARIES.items()}


def lead(seen: Seen, key: str) -> Iterator[Any]:
    yield error("overloaded_error", f"{key} has to wait")
    check = "sh look.sh > checked.txt"
    yield [tool("create_task", {"subject": "Look", "check": check})]
    yield [tool("create_worktree", {"name": "look", "task_id": "task_1"})]
    spawn = {"name": "anna", "role": "spy", "prompt": "Look.", "task_id": "task_1"}
    yield [tool("spawn_teammate", spawn)]
    yield "I wait."
    yield [tool("read_file", {"path": "found.txt"})]
    assert SECRET in seen.text
    yield "Done."


def anna(seen: Seen) -> Iterator[Any]:
    yield [tool("bash", {"command": "sh look.sh > looked.txt; sh look.sh"})]
    assert "TEAM_AGENT=anna" in seen.text
    yield [tool("bash", {"command": "cat found.txt"})]
    assert SECRET in seen.text
    yield [tool("bash", {"command": 'yes "$(cat found.txt)" | head -n 20000'})]
    yield [tool("complete_task", {"task_id": "task_1", "summary": "I have looked."})]
    yield "I have looked."


def hostile(folder: Path, canaries: Mapping[str, str]) -> Path:
    """A repository with a program that looks, and with keys that somebody committed."""
    root = make_repository(folder / "repository")
    (root / "look.sh").write_text(LOOK)
    known = [value for name, value in canaries.items() if name != "MADE_UP"]
    (root / "found.txt").write_text("\n".join(known))
    subprocess.run(["git", "add", "--all"], cwd=root, check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "Look"], cwd=root, check=True)
    return root


def run(
    root: Path, layer: str, url: str, canaries: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """A run with canaries, whose user has a hook that looks too."""
    home = root.parent / "home"
    (home / "config").mkdir(parents=True, exist_ok=True)
    (root.parent / "tmp").mkdir(exist_ok=True)
    hook = {"type": "command", "command": f"cd '{root}'; sh look.sh >> '{home}/hook.txt'"}
    hooks = {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}
    (home / "config" / "settings.json").write_text(json.dumps({"hooks": hooks}))
    options = ["--output-format", "stream-json", "--allow", "Bash", "--timeout", "40"]
    return subprocess.run(
        [sys.executable, "-c", START, layer, "run", "Look.", *options],
        cwd=root,
        env={
            **team_environment(home, url),
            **canaries,
            "PYTHONPATH": str(PROJECT),
            "TMPDIR": str(root.parent / "tmp"),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )


def assert_nowhere(canaries: Mapping[str, str], folder: Path, *shown: str) -> None:
    """No canary in what was shown, nor in any file but the one that had them all along."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != "found.txt"]
    places = {str(path): path.read_bytes() for path in files}
    places |= {f"output {number}": text.encode() for number, text in enumerate(shown)}
    leaks = [
        (place, name)
        for place, data in places.items()
        for name, canary in canaries.items()
        if canary.encode() in data
    ]
    assert leaks == []


@pytest.mark.parametrize(
    "layer",
    [
        "none",
        pytest.param("landlock", marks=pytest.mark.slow),
        pytest.param("bubblewrap", marks=pytest.mark.slow),
    ],
)
def test_keys_are_found_nowhere(tmp_path: Path, layer: str, canaries: dict[str, str]) -> None:
    """Claude Code's changelog: keys in logs; and `/proc/1/environ` of the sandbox told them."""
    if layer != "none":
        {"landlock": landlock, "bubblewrap": bubblewrap}[layer]()
    root = hostile(tmp_path, canaries)
    key = canaries["ANTHROPIC_API_KEY"]
    with FakeMessages(TeamScript({"lead": lambda seen: lead(seen, key), "anna": anna})) as api:
        done = run(root, layer, api.url, canaries)
        assert done.returncode == 0, done.stdout + done.stderr
        assert api.problems() == []
        asked = json.dumps([record["body"] for record in api.log])
    assert layer in done.stdout
    assert_nowhere(canaries, tmp_path, done.stdout, done.stderr, asked)


@pytest.mark.slow
def test_an_error_that_echoes_the_key_is_shown_without_it(
    tmp_path: Path, canaries: dict[str, str]
) -> None:
    root = hostile(tmp_path, canaries)
    keys = [value for name, value in canaries.items() if name.startswith("ANTHROPIC")]
    said = error("authentication_error", f"no: {' '.join(keys)}")
    with FakeMessages([said] * 3) as api:
        done = run(root, "none", api.url, canaries)
    assert done.returncode == 2
    assert_nowhere(canaries, tmp_path, done.stdout, done.stderr)


def test_the_environment_is_wiped_where_the_system_shows_it() -> None:
    program = """
import os
from pathlib import Path
from team_runtime.process.secrets import hide_secrets
shown = Path("/proc/self/environ")
assert b"canary" in shown.read_bytes()
hide_secrets(os.environ)
assert b"canary" not in shown.read_bytes()
assert os.environ["MADE_UP"] == "canary" and b"PATH=/bin" in shown.read_bytes()
assert b"TEAM_RUN=run-1" in shown.read_bytes()
"""
    environ = {"PATH": "/bin", "MADE_UP": "canary", "A_KEY": "canary", "TEAM_RUN": "run-1",
               "TEAM_TOKEN": "canary", "PYTHONPATH": str(PROJECT)}  # fmt: skip
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_nobody_else_looks_into_the_memory(tmp_path: Path) -> None:
    """A process of the same user that is not root."""
    program = """
import os, subprocess, sys
from team_runtime.process.secrets import hide_secrets
hide_secrets(os.environ)
os.setgid(65534), os.setuid(65534)
for name in ("mem", "environ"):
    look = f"head -c 1 /proc/{os.getpid()}/{name}"
    done = subprocess.run(["sh", "-c", look], env={"PATH": "/bin:/usr/bin"}, capture_output=True)
    assert b"denied" in done.stderr, done
assert os.listdir("/proc/self/fd")
"""
    environ = {"PATH": "/bin", "A_KEY": "canary", "PYTHONPATH": str(PROJECT)}
    subprocess.run([sys.executable, "-c", program], env=environ, check=True)


def test_only_values_that_are_secrets_are_looked_for() -> None:
    environ = {
        "ANTHROPIC_API_KEY": "sk-ant-1234", "GH_TOKEN": "gh-12345",
        "AWS_ACCESS_KEY_ID": "AKIA1234", "GIT_AUTHOR_NAME": "Jane Developer",
        "SSH_AUTH_SOCK": "/tmp/agent.1", "SHORT_KEY": "abc",
        "KEYBOARD_LAYOUT": "german-nodeadkeys", "SECRET_KEY": "development",
    }  # fmt: skip
    assert secret_values(environ) == ["sk-ant-1234", "gh-12345", "AKIA1234"]


def test_secrets_are_taken_out_of_everything_that_is_recorded() -> None:
    known = Redactor(["hunter22", "hunter22-and-more"])
    told = {"a": ["hunter22!", 1, None], "b": {"c": "x hunter22-and-more y"}}
    assert known.value(told) == {"a": [f"{SECRET}!", 1, None], "b": {"c": f"x {SECRET} y"}}
    assert known.data(b"\xff hunter22") == b"\xff " + SECRET.encode()
    assert Redactor().value(told) is told
