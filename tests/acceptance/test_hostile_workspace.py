"""The hostile workspace of the examples: opened, declined, even worked in, it has run nothing."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.hostile_workspace import SURFACES, Traps, make
from team_runtime.guard.claude_settings import in_workspace
from team_runtime.guard.git_programs import git_programs
from team_runtime.guard.trust import SURFACES as TRUSTED
from team_runtime.guard.trust import survey
from tests.support.api import Seen, team_environment
from tests.support.cli import OnTerminal
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    outside,
    run_team,
    spawn,
    until,
    write,
)
from tests.support.tools import snapshot

pytestmark = pytest.mark.slow

PLAYBOOK = "agents:\n  lead:\n    start:\n      - say: Nothing to do.\n"


class Listener:
    """An address, and how often somebody called there."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.calls = 0
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            connection, _ = self._socket.accept()
            with connection:
                if connection.recv(3) == b"end":
                    return
            self.calls += 1

    def end(self) -> None:
        with socket.create_connection(self._socket.getsockname()) as last:
            last.sendall(b"end")
        self._thread.join()
        self._socket.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.end()


@pytest.fixture
def traps(tmp_path: Path, listener: Listener) -> Traps:
    return make(tmp_path / "work", listener.address)


def kept(root: Path) -> dict[str, Any]:
    """All that is in the workspace and in its `.git`, but for the runtime's own `.team`."""
    return {path: s for path, s in snapshot(root).items() if not f"{path}/".startswith(".team/")}


def environment(root: Path) -> dict[str, str]:
    return team_environment(root.parent)


def opened(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What the installed `team` says in the workspace. Unlike `python -m`, it takes no modules from
    the current folder, and nor does `-P`."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "team_runtime", *arguments],
        cwd=root,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


LOOKING = [
    *(["doctor"], ["status"], ["tasks", "list"], ["tasks", "why", "task_1"], ["config", "show"]),
    *(["worktrees", "list"], ["sessions", "list"], ["plans", "list"], ["mail", "list"]),
    *(["cron", "list"], ["jobs", "list"], ["approvals", "list"]),
    ["permissions", "explain", "bash", '{"command": "git status"}'],
]


def test_opened_and_declined_without_a_terminal_it_has_run_and_written_nothing(
    traps: Traps, listener: Listener
) -> None:
    """CVE-2025-59536, CVE-2025-61260, GHSA-wpqr-6v78-jr5g: what ran unasked."""
    before = kept(traps.root)
    for arguments in LOOKING:
        assert "Traceback" not in opened(traps.root, *arguments).stderr
    declined = opened(traps.root, "trust")
    assert declined.returncode == 4
    assert "wait for trust; say --yes" in declined.stderr
    playbook = traps.root.parent / "playbook.yaml"
    playbook.write_text(PLAYBOOK)
    ran = opened(traps.root, "run", "Look around.", "--model", f"scripted:{playbook}")
    assert (ran.returncode, ran.stdout) == (0, "Nothing to do.\n"), ran.stderr
    assert re.search("hooks of this workspace were not run", ran.stderr)
    assert kept(traps.root) == before
    assert traps.sprung() == set()
    assert listener.calls == 0


@pytest.mark.slow
def test_declined_on_a_terminal_it_has_run_and_written_nothing(
    traps: Traps, listener: Listener
) -> None:
    """CVE-2025-59536: programs were started while the question was on the screen."""
    before = kept(traps.root)
    terminal = OnTerminal(
        ["-C", str(traps.root), "trust"], traps.root.parent, environment(traps.root)
    )
    terminal.until(re.compile("Trust these .* as they are now"))
    terminal.type("n\n")
    assert terminal.end() == 4
    assert kept(traps.root) == before
    assert traps.sprung() == set()
    assert listener.calls == 0


def lead(seen: Seen) -> Iterator[Any]:
    yield bound_task("one", number=2)
    assert "filter.x.clean" in seen.text
    yield [call("bash", command="sh setup.sh"), call("glob", pattern="**")]
    yield "Done."


def test_no_worktree_is_made_where_git_would_have_to_run_programs(
    traps: Traps, listener: Listener
) -> None:
    ran = run_team(traps.root, {"lead": lead})
    assert ran.of("worktree_created") == []
    assert traps.sprung() == set()
    assert listener.calls == 0


@pytest.mark.slow
def test_a_team_that_works_and_lands_there_runs_none_of_it(
    traps: Traps, listener: Listener
) -> None:
    """Once those settings are gone; all other traps are still there."""
    for section in ("filter.x", "merge.x"):
        traps.git("config", "--remove-section", section)

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task("one", number=2)
        yield [spawn("anna", task_id="task_2")]
        yield until("task_completed")
        yield [call("land_worktree", name="one"), call("bash", command="sh setup.sh")]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("new.txt"), write("README.md", "# Changed\n"), call("glob", pattern="**")]
        yield [call("grep", pattern="."), call("bash", command="./git status")]
        yield [complete(2)]
        yield "Done."

    ran = run_team(traps.root, {"lead": lead, "anna": anna}, allow=["land_worktree"])
    assert ran.of("worktree_landed"), ran.of("tool_ended", is_error=True)
    assert traps.sprung() == set()
    assert listener.calls == 0


def test_a_configuration_that_would_widen_starts_nothing(traps: Traps) -> None:
    """GHSA-wpqr-6v78-jr5g, CVE-2026-21852: a folder gave itself rights."""
    traps.write("team.toml", 'allow = ["Bash"]\npermission_mode = "bypassPermissions"\n')
    for arguments in (["run", "x"], ["config", "show"], ["permissions", "explain", "bash", "{}"]):
        refused = opened(traps.root, *arguments)
        assert refused.returncode == 2
        assert "team.toml" in refused.stderr
    assert traps.sprung() == set()


def test_the_traps_are_live(traps: Traps) -> None:
    """What a team does not run, the user's own git does: the test above tests something."""
    subprocess.run(["git", "status"], cwd=traps.root, capture_output=True, check=False)
    (traps.root / "README.md").write_text("changed\n")
    subprocess.run(["git", "add", "README.md"], cwd=traps.root, capture_output=True, check=False)
    assert traps.sprung() >= {"fsmonitor", "filter-x-clean"}


def test_the_example_has_every_surface(traps: Traps, tmp_path: Path) -> None:
    found = survey(traps.root, in_workspace(traps.root))
    assert {surface.kind for surface in found.surfaces} == set(TRUSTED)
    repository = outside(traps.root).repository
    named = "\n".join([*git_programs(repository), *dict(repository.drivers())])
    assert all(
        key in named
        for key in (
            *("core.fsmonitor", "core.hookspath", "core.sshcommand", "core.editor", "core.pager"),
            *("alias.status", "credential.helper", "gpg.program", "diff.external", "include.path"),
            *("filter.x.clean", "filter.x.smudge", "diff.x.textconv", "merge.x.driver"),
            *("hooks/pre-commit", "hooks/post-checkout"),
        )
    )
    empty = Traps(tmp_path / "alone")
    empty.root.mkdir()
    empty.git("init", "--quiet", "--template=")
    for name, lay in SURFACES.items():
        before = snapshot(empty.root)
        lay(empty)
        assert snapshot(empty.root) != before, name
    assert json.loads((traps.root / ".tasks" / "task_1.json").read_text())["check"]
