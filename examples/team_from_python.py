"""Run a team from Python: a lead and a teammate write a changelog, offline, in a new repository.

The model's replies come from `my_playbook.yaml`. For a real model leave out `model=`, set
ANTHROPIC_API_KEY, and take a repository of your own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from team_runtime import Board, RunRequest, Settings, run_team

PLAYBOOK = Path(__file__).with_name("my_playbook.yaml")


def new_repository(folder: Path) -> Path:
    """A git repository with one commit."""
    (folder / "notes.txt").write_text("0.1 can add\n0.2 can subtract\n")
    identity = ["-c", "user.name=Example", "-c", "user.email=example@localhost"]
    for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "Begin"]):
        subprocess.run(["git", *identity, *arguments], cwd=folder, check=True)
    return folder


def show(event: dict[str, Any]) -> None:
    """Called for every event, on the thread of the agent that it is about."""
    if event["kind"] in ("task_claimed", "plan_decided", "task_completed", "worktree_landed"):
        print(f"{event['agent'] or 'team':<6} {event['kind']}")


def main() -> int:
    root = new_repository(Path(tempfile.mkdtemp(prefix="team-example-")))
    settings = Settings(model=f"scripted:{PLAYBOOK}", allow=("land_worktree",))
    result = run_team(
        RunRequest(root, "Write a changelog.", settings, environ=os.environ, on_event=show)
    )
    print(result.ending.text)
    with Board.open(root) as board:
        for task in board.list():
            print(f"{task.id} {task.status}: {task.subject}")
    print((root / "CHANGELOG.md").read_text())
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
