"""A team where folders and files have names that few programs expect."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen, git
from tests.support.scripted_team import (
    bound_task,
    call,
    complete,
    make_repository,
    outside,
    run_team,
    spawn,
    write,
)

NAMES = (
    "日本 — é.txt",
    "-x",
    "--output=y",
    "line\nbreak",
    "trailing ",
    "it's",
    '"',
    "$(id)",
    "a;b",
)


@pytest.mark.parametrize("folder", ["my repo's", "日本 — é", "-x", "a\nb", "$(touch ran) `x`"])
def test_work_is_done_checked_and_landed_whole(tmp_path: Path, folder: str) -> None:
    """schaltwerk#69, worktrunk#3486, plannotator#628, OpenHands#4321: blanks in the path of a
    worktree, and names that came quoted: no file in the review, and a copy that failed."""
    root = make_repository(tmp_path / folder / "x")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task(check='test -f "-x" && test "$(cat it\\\'s)" = text')
        yield [spawn("anna", task_id="task_1")]
        yield "Waiting."
        yield [call("land_worktree", name="one")]
        yield "Done."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write(name) for name in NAMES]
        yield [call("bash", command="pwd; ls | wc -l"), call("grep", pattern="^text$")]
        assert f"{root}/worktrees/one" in seen.text
        assert "日本 — é.txt:1:text" in seen.text
        yield [complete()]
        yield "Done."

    settings: dict[str, Any] = {"allow": ["Bash", "land_worktree"]}
    ran = run_team(root, {"lead": lead, "anna": anna}, **settings)
    assert ran.result.exit_code == 0
    assert len(ran.of("worktree_landed")) == 1
    assert not list(tmp_path.rglob("ran"))
    for name in NAMES:
        assert (root / name).read_text() == "text\n"
    assert set(git(root, "ls-files", "-z").split("\0")) == {*NAMES, "notes.txt", ""}
    assert git(root, "status", "--porcelain") == ""
    (worktree,) = outside(root).worktrees.list()
    assert set(outside(root).worktrees.changed_files(worktree)) == set(NAMES)
