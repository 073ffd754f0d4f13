"""The demo: the main job, offline. The model's replies are scripted; everything else is real."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, Final, Literal

from team_runtime.app.request import RunRequest, RunResult
from team_runtime.app.run import run_team_in
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings
from team_runtime.errors import InputError
from team_runtime.git.create import create_repository
from team_runtime.git.run import Git
from team_runtime.process.base import Command
from team_runtime.process.environment import scrubbed
from team_runtime.process.run import BlockingRunner
from team_runtime.text import decode
from team_runtime.types import Json

REQUEST: Final = (
    "Refactor the authentication module and login page in parallel in separate worktrees. Show me "
    "each plan before editing."
)
BRANCH: Final = "main"
TESTS: Final = "python3 -m unittest discover -s tests"
ALLOWED: Final = ("Bash(python3 -m unittest *)", "land_worktree")


@dataclass(frozen=True)
class Tests:
    """The shop's own tests on the target branch."""

    passed: int
    failed: int
    output: str


@dataclass(frozen=True)
class DemoResult:
    """What the demo left."""

    folder: Path
    run: RunResult
    tests: Tests
    record: dict[str, Json]

    @property
    def succeeded(self) -> bool:
        """Both tasks landed, each with an approved plan, and the shop's tests pass."""
        tasks, landed = self.record["tasks"], self.record["landed"]
        return (
            self.run.exit_code == 0
            and len(tasks) == len(landed) == 2
            and all(task["plan"] and task["plan"]["approvedBy"] for task in tasks)
            and self.tests.failed == 0
            and self.tests.passed > 0
        )


def run_demo(
    folder: Path,
    environ: Mapping[str, str],
    on_event: Callable[[dict[str, Any]], None],
    on_entry: Callable[[str, dict[str, Any]], None],
    pace: float,
    plan_review: Literal["lead", "person"] = "lead",
) -> DemoResult:
    """Make the shop's repository in `folder` and let the scripted team work on it.

    Raises `InputError` when the folder is there and not empty.
    """
    with as_file(files("team_runtime") / "demo") as demo:
        make_shop(demo / "shop", folder, environ)
        settings = Settings(
            name="demo",
            model=f"scripted:{demo / 'playbook.yaml'}",
            allow=ALLOWED,
            plan_review=plan_review,
        )
        attended = plan_review == "person"
        run = run_team_in(
            RunRequest(
                folder, REQUEST, settings, environ, on_event, on_entry, pace, attended=attended
            )
        )
    tests = run_tests(folder, environ)
    workspace = Workspace(folder, environ)
    return DemoResult(folder, run, tests, _record(workspace, run, tests))


def make_shop(source: Path, folder: Path, environ: Mapping[str, str]) -> None:
    """Copy the shop and make its first commit."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is not an empty folder; nothing was changed")
    git = Git(BlockingRunner(), scrubbed(environ))
    git.check_version(source)
    try:
        shutil.copytree(
            source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    except OSError as error:
        raise InputError(f"{folder} could not be written: {error}") from error
    create_repository(folder, git, BRANCH, "A small web shop")


def run_tests(folder: Path, environ: Mapping[str, str]) -> Tests:
    """Run the shop's tests in its main checkout."""
    ended = BlockingRunner().run(
        Command(
            argv=[sys.executable, *TESTS.split()[1:]],
            cwd=folder,
            env={**scrubbed(environ), "PYTHONDONTWRITEBYTECODE": "1"},
            timeout=120,
            merge=True,
        )
    )
    output = decode(ended.stdout)
    ran = re.search(r"Ran (\d+) tests?", output)
    total = int(ran[1]) if ran else 0
    failed = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", output))
    if ended.status != 0 and failed == 0:
        failed = max(total, 1)
    return Tests(max(total - failed, 0), failed, output)


def _record(workspace: Workspace, run: RunResult, tests: Tests) -> dict[str, Json]:
    landed = {w.name: w.landed for w in workspace.worktrees.list()}
    return {
        "workspace": str(workspace.root),
        "target": BRANCH,
        "tasks": [
            {
                "id": task["id"],
                "subject": task["subject"],
                "status": task["status"],
                "owner": task["owner"],
                "worktree": task["worktree"],
                "plan": _plan(workspace, task["id"]),
                "commit": (task.get("result") or {}).get("commit"),
            }
            for task in run.tasks
        ],
        "landed": [one.merge for name in landed for one in landed[name]],
        "tests": {"command": TESTS, "passed": tests.passed, "failed": tests.failed},
        "seconds": round(run.seconds, 3),
    }


def _plan(workspace: Workspace, task_id: str) -> dict[str, Json] | None:
    for plan in workspace.plans.list():
        last = plan.revisions[-1]
        if plan.task == task_id and last.state == "approved":
            return {
                "id": plan.id,
                "revision": last.number,
                "hash": last.hash,
                "approvedBy": last.decided_by,
            }
    return None
