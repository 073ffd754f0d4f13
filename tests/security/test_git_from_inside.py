"""What a command of an agent lays down for the user's git, or for ours, to run: confined it cannot,
and where nothing confines it, ours runs none of it when it commits, lands and looks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from team_runtime.errors import NotARepository
from tests.support.api import Seen, git
from tests.support.confined import bubblewrap
from tests.support.repositories import Team, commit_all, new_repository
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    make_repository,
    outside,
    run_team,
    spawn,
    until,
    write,
)

HOOKS: Final = "pre-commit post-commit post-checkout post-merge reference-transaction"
PRINT: Final = "printf '#!/bin/sh\\n%s\\n' \"$RUN\""


@dataclass(frozen=True)
class Way:
    """What an agent runs, in which `$RUN` is the program and `$C` the git directory."""

    script: list[str]
    sign: str
    """Where it is seen that it was done: a file, and what stands in it after a colon."""


WAYS: Final[dict[str, Way]] = {
    "CVE-2026-26268: a hook": Way(
        [
            "mkdir -p $C/hooks",
            f"for h in {HOOKS}; do {PRINT} > $C/hooks/$h; chmod +x $C/hooks/$h; done",
        ],
        ".git/hooks/pre-commit:touch",
    ),
    "a hook in a folder of its own": Way(
        [
            f"mkdir h; {PRINT} > h/pre-commit; chmod +x h/pre-commit",
            'git config core.hooksPath "$PWD/h"',
        ],
        ".git/config:hooksPath",
    ),
    "CVE-2026-19592: a monitor of files": Way(
        ['git config core.fsmonitor "$RUN; false"'], ".git/config:fsmonitor"
    ),
    "CVE-2026-19593: a filter, by attributes of a tree": Way(
        [
            "echo '* filter=x' > .gitattributes; git config attr.tree HEAD",
            'git config filter.x.clean "$RUN; cat"; git config filter.x.process "$RUN"',
        ],
        ".git/config:attr",
    ),
    "a filter, by attributes that no tree holds": Way(
        [
            'mkdir -p $C/info; git config filter.x.smudge "$RUN; cat"',
            "echo '* filter=x' > $C/info/attributes",
        ],
        ".git/info/attributes:filter",
    ),
    "programs that show, sign and merge": Way(
        [
            'git config diff.external "$RUN"; git config gpg.program "$RUN"',
            'git config core.pager "$RUN"; git config commit.gpgSign true',
        ],
        ".git/config:gpgSign",
    ),
    "settings that are included": Way(
        [
            'printf "[core]\\n\\tfsmonitor = \\"%s; false\\"\\n" "$RUN" > more',
            'git config includeIf.onbranch:**.path "$PWD/more"',
        ],
        ".git/config:onbranch",
    ),
    "GHSA-q5hj-mxqh-vv77: another repository in the place of the common one": Way(
        ['echo "$EVIL/.git" > $C/worktrees/one/commondir'], ".git/worktrees/one/commondir:evil"
    ),
    "another repository behind the pointer": Way(
        ['echo "gitdir: $EVIL/.git" > .git'], "worktrees/one/.git:evil"
    ),
}


def evil(folder: Path, run: str) -> Path:
    """A repository whose settings run something."""
    root = new_repository(folder, "evil")
    git(root, "config", "core.fsmonitor", f"{run}; false")
    git(root, "config", "filter.x.clean", f"{run}; cat")
    (root / ".gitattributes").write_text("* filter=x\n")
    return root


def is_done(root: Path, way: Way) -> bool:
    """Whether an agent has done what it tried."""
    name, _, text = way.sign.partition(":")
    return (root / name).exists() and text in (root / name).read_text()


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["off", "required"])
@pytest.mark.parametrize("way", WAYS)
def test_a_program_that_an_agent_lays_down_for_git(tmp_path: Path, way: str, sandbox: str) -> None:
    if sandbox == "required":
        bubblewrap()
    root, ran = make_repository(tmp_path / "work"), tmp_path / "ran"
    run = f"touch '{ran}'"
    given = {"RUN": run, "EVIL": str(evil(tmp_path, run)), "C": str(root / ".git")}
    (root / "lay.sh").write_text(
        "".join(f"{name}={shlex.quote(value)}\n" for name, value in given.items())
        + "\n".join(WAYS[way].script)
    )
    git(root, "add", "lay.sh")
    git(root, "commit", "--quiet", "--message=Lay")
    laid: list[bool] = []

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("agent_state", "anna", state="idle")
        yield [call("land_worktree", name="one"), call("create_task", subject="Two")]
        yield [call("create_worktree", name="two", task_id="task_2")]
        yield [call("update_task", task_id=f"task_{n}", status="cancelled") for n in (1, 2)]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("made.txt"), call("bash", command="sh lay.sh")]
        laid.append(is_done(root, WAYS[way]))
        yield [complete()]
        yield "Done."

    settings: dict[str, Any] = {"allow": ["Bash", "land_worktree"], "sandbox": sandbox}
    run_team(root, {"lead": lead, "anna": anna}, **settings)
    assert laid == [sandbox == "off"]
    workspace = outside(root)
    for worktree in workspace.worktrees.list():
        workspace.worktrees.losses(worktree.name)
    assert not ran.exists()


def test_a_folder_that_git_takes_for_a_repository(tmp_path: Path) -> None:
    """Whoever starts a team in there is told so, and its settings run nothing."""
    root, ran = new_repository(tmp_path), tmp_path / "ran"
    inner = evil(tmp_path, f"touch '{ran}'") / ".git"
    inner.rename(root / "vendor")
    for bare in ("true", "false"):
        git(root, "config", "--file", "vendor/config", "core.bare", bare)
        with pytest.raises(NotARepository):
            Team(root / "vendor")
    git(root, "config", "--file", "vendor/config", "core.worktree", str(root))
    (root / "a.txt").write_text("changed\n")
    assert Team(root / "vendor").repository.dirty_paths()
    assert not ran.exists()
    commit_all(root)
    assert not ran.exists()
