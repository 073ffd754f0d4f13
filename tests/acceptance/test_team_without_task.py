"""A teammate without a task is read-only, with a sandbox and without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen
from tests.support.scripted_team import call, make_repository, run_team, spawn, write


@pytest.mark.parametrize("sandbox", ["auto", "off"])
def test_a_teammate_without_a_task_changes_nothing_in_any_mode(
    tmp_path: Path, sandbox: str
) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield "Anna looks around."

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("notes.txt", "changed\n")]
        assert "you have no task, so you can only read" in seen.text
        yield [call("bash", command="echo changed > notes.txt; echo tried")]
        yield [call("read_file", path="notes.txt")]
        assert "as committed" in seen.text
        yield "I changed nothing."

    root = make_repository(tmp_path / "w")
    scripts = {"lead": lead, "anna": anna}
    ran = run_team(root, scripts, permission_mode="bypassPermissions", sandbox=sandbox)
    assert ran.result.exit_code == 0, ran.result
    assert (root / "notes.txt").read_text() == "as committed\n"
    if sandbox == "off":
        assert [event["tool"] for event in ran.of("permission_denied")] == ["write_file", "bash"]
