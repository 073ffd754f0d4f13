"""The library as its users see it: the public names, and what they do."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import team_runtime
from team_runtime import Board, ClaimRefused, Mailbox, MemoryBoard, MemoryBus, TeamError


def loaded(code: str) -> list[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    report = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True
    )
    modules: list[str] = json.loads(done.stdout)
    return modules


def test_each_public_name_can_be_used() -> None:
    for name in team_runtime.__all__:
        assert getattr(team_runtime, name) is not None
        assert name in dir(team_runtime)
    assert issubclass(ClaimRefused, TeamError)


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(team_runtime.__file__).read_text())
    guarded = next(node for node in tree.body if isinstance(node, ast.If))
    imported = {
        alias.asname or alias.name
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert imported == set(team_runtime.__all__)


def test_a_name_that_is_not_public_is_an_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'JsonBoard'"):
        _ = team_runtime.JsonBoard


def test_importing_the_package_imports_nothing_else() -> None:
    ours = [name for name in loaded("import team_runtime") if name.startswith("team_runtime")]
    assert ours == ["team_runtime"]


def test_the_board_and_the_mailbox_need_no_heavy_library() -> None:
    modules = loaded("from team_runtime import Board, Mailbox, ClaimRefused, TeamError")
    heavy = {"anthropic", "pydantic", "rich", "click", "git", "watchdog", "yaml"}
    assert heavy.isdisjoint(modules)


def test_the_board_as_a_library(tmp_path: Path) -> None:
    workspace = tmp_path / "any folder"
    with Board.open(workspace) as board:
        a = board.create("Parse the header", description="", priority=0)
        b = board.create("Parse the body", blocked_by=[a.id])
        claim = board.claim(a.id, owner="alice")
        with pytest.raises(ClaimRefused) as refused:
            board.claim(a.id, owner="bob")
        assert (refused.value.reason, refused.value.holder) == ("claimed", "alice")
        assert board.claim_next(owner="bob") is None
        assert (claim.task_id, claim.owner, claim.epoch) == (a.id, "alice", 1)
        assert claim.token
        assert board.why(b.id).state == "blocked"
        board.complete(claim, summary="done")
        assert board.get(a.id).status == "completed"
        assert [task.id for task in board.list(status="pending")] == [b.id]
        assert [task.id for task in board.ready()] == [b.id]
        claim = board.claim_next(owner="bob") or claim
        board.release(claim, note="not now")
        board.fail(board.claim(b.id, owner="bob"), note="cannot be done")
        assert board.get(b.id).status == "failed"


def test_the_mailbox_as_a_library(tmp_path: Path) -> None:
    with Mailbox.open(tmp_path, "bob") as bob, Mailbox.open(tmp_path, "alice") as box:
        message_id = box.send(to="bob", body="ready for review")
        (message,) = bob.receive(timeout=5.0)
        assert (message.id, message.sender, message.type) == (message_id, "alice", "message")
        assert message.body == "ready for review"
        assert message.at.endswith("Z")
        bob.acknowledge(message)
        assert box.receive(timeout=0.0) == []
        with pytest.raises(TeamError, match="alice, bob"):
            box.send(to="bert", body="x")


def test_the_same_in_memory() -> None:
    board = MemoryBoard.open()
    claim = board.claim(board.create("Parse the header").id, "alice")
    board.complete(claim)
    assert board.reap() == []
    bus = MemoryBus.open()
    bus.register("bob")
    sent = bus.send("alice", "bob", "done")
    assert bus.take("bob") == [sent]
