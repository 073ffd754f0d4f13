"""The board in files keeps the contract, also between processes and beside people who edit."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from team_runtime.board.base import Board
from team_runtime.board.json_board import JsonBoard
from team_runtime.errors import ClaimRefused, InputError, StaleClaim, UnknownTask, VersionTooNew
from team_runtime.types import Json
from tests.contract.board_contract import BoardContract
from tests.support.state import Events, Presences, in_child, make_store, outputs, program


class TestJsonBoard(BoardContract):
    @pytest.fixture(autouse=True)
    def workspace(self, tmp_path: Path) -> None:
        self._workspace = tmp_path
        self.presences = Presences()
        self.events = Events()

    def open_board(self, run: str | None = None) -> Board:
        return JsonBoard(make_store(self._workspace), self.presences, run, self.events)


@pytest.fixture
def board(tmp_path: Path) -> JsonBoard:
    return JsonBoard.open(tmp_path, durability="process")


def edit_file(path: Path, **changes: Json) -> None:
    """What a person does in an editor."""
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, **changes}))


def test_the_library_example_works_as_documented(tmp_path: Path) -> None:
    with JsonBoard.open(tmp_path / "new" / "folder") as board:
        a = board.create("Parse the header", description="", priority=0)
        b = board.create("Parse the body", blocked_by=[a.id])
        claim = board.claim(a.id, owner="alice")
        assert board.claim_next(owner="bob") is None
        assert claim.run is None
        assert [task.id for task in board.complete(claim, summary="done")] == [b.id]
        assert board.list(status="pending") == board.ready() == [board.get(b.id)]


def test_the_file_is_for_people(tmp_path: Path, board: JsonBoard) -> None:
    task = board.create("Grüße", blocked_by=[board.create("first").id])
    path = tmp_path / ".tasks" / f"{task.id}.json"
    record = json.loads(path.read_text())
    assert list(record)[:8] == [
        "v", "id", "subject", "description", "status", "owner", "blockedBy", "worktree",
    ]  # fmt: skip
    assert not any("_" in key for key in record)
    assert '  "subject": "Grüße",\n' in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_task_too_large_to_be_read_again_is_refused(board: JsonBoard) -> None:
    with pytest.raises(InputError, match="limit"):
        board.create("x", "y" * (17 * 2**20))
    assert board.list() == []


# People


def test_a_hand_made_task_needs_only_a_subject(tmp_path: Path, board: JsonBoard) -> None:
    (tmp_path / ".tasks" / "task_5.json").write_text('{"subject": "by hand"}')
    assert [task.subject for task in board.ready()] == ["by hand"]
    board.complete(board.claim("task_5", "alice"))
    assert board.create("next").id == "task_6"


def test_a_hand_edit_is_honoured_at_the_next_operation(tmp_path: Path, board: JsonBoard) -> None:
    task = board.create("x")
    path = tmp_path / ".tasks" / f"{task.id}.json"
    for n in range(20):
        edit_file(path, subject=f"edit {n:02}")  # same size, and often the same time stamp
        assert board.get(task.id).subject == f"edit {n:02}"
    edit_file(path, status="cancelled")
    with pytest.raises(ClaimRefused, match="cancelled"):
        board.claim(task.id, "alice")


def test_a_claim_by_hand_is_manual_and_counts(tmp_path: Path, board: JsonBoard) -> None:
    task, other = board.create("x"), board.create("y")
    edit_file(tmp_path / ".tasks" / f"{task.id}.json", status="in_progress", owner="alice")
    claim = board.claim_of(task.id)
    assert (claim.owner, claim.token, claim.epoch, claim.run) == ("alice", "", 1, None)
    with pytest.raises(ClaimRefused) as caught:
        board.claim(other.id, "alice")
    assert caught.value.reason == "owner_busy"
    board.release(claim, "enough")
    assert [a.outcome for a in board.get(task.id).attempts] == ["released"]
    edit_file(tmp_path / ".tasks" / f"{task.id}.json", status="in_progress", owner="alice")
    with pytest.raises(StaleClaim, match="epoch 2"):
        board.complete(claim)
    board.complete(board.claim_of(task.id))


def test_a_task_given_to_somebody_else_by_hand_is_lost_to_its_owner(
    tmp_path: Path, board: JsonBoard
) -> None:
    claim = board.claim(board.create("x").id, "alice")
    edit_file(tmp_path / ".tasks" / "task_1.json", owner="bob")
    with pytest.raises(StaleClaim, match="bob"):
        board.complete(claim)
    board.complete(board.claim_of("task_1"))


def test_a_task_set_to_pending_by_hand_can_be_claimed_anew(
    tmp_path: Path, board: JsonBoard
) -> None:
    claim = board.claim(board.create("x").id, "alice")
    edit_file(tmp_path / ".tasks" / "task_1.json", status="pending", owner=None)
    with pytest.raises(StaleClaim, match="pending"):
        board.release(claim)
    assert board.claim("task_1", "bob").epoch == 2
    assert [a.outcome for a in board.get("task_1").attempts] == ["released", None]


def test_a_pending_task_assigned_by_hand_waits_for_that_owner(
    tmp_path: Path, board: JsonBoard
) -> None:
    board.create("x")
    edit_file(tmp_path / ".tasks" / "task_1.json", owner="alice")
    assert board.claim_next("bob") is None
    with pytest.raises(ClaimRefused, match="assigned to alice"):
        board.claim("task_1", "bob")
    assert board.claim_next("alice") is not None


def test_in_progress_without_an_owner_is_said_and_can_be_released(
    tmp_path: Path, board: JsonBoard
) -> None:
    board.create("x")
    edit_file(tmp_path / ".tasks" / "task_1.json", status="in_progress")
    assert "nobody" in board.why("task_1").detail
    with pytest.raises(ClaimRefused):
        board.claim("task_1", "alice")
    board.release_by_force("task_1")
    board.claim("task_1", "alice")


def test_fields_that_we_do_not_know_survive(tmp_path: Path, board: JsonBoard) -> None:
    board.create("x", metadata={"a": [1, {"b": None}]})
    path = tmp_path / ".tasks" / "task_1.json"
    edit_file(path, activeForm="Doing x", blocks=["task_2"])
    board.complete(board.claim("task_1", "alice"))
    record = json.loads(path.read_text())
    assert (record["activeForm"], record["blocks"]) == ("Doing x", ["task_2"])
    assert record["metadata"] == {"a": [1, {"b": None}]}


def test_an_edit_between_reading_and_writing_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / ".tasks" / "task_1.json"
    edits = iter(["once", "twice"])

    def save(moment: str, beside: Path) -> None:
        subject = next(edits, None) if moment == "before write" and path.exists() else None
        if subject:
            edit_file(path, subject=subject)

    board = JsonBoard(make_store(tmp_path, save), Presences(), None)
    JsonBoard.open(tmp_path, durability="process").create("x")
    board.claim("task_1", "alice")
    assert (board.get("task_1").subject, board.get("task_1").owner) == ("twice", "alice")


def test_a_deleted_blocker_still_blocks_and_is_named(tmp_path: Path, board: JsonBoard) -> None:
    """detent#972: a deleted dependency was dropped or blocked without a word."""
    board.create("x")
    board.create("y", blocked_by=["task_1"])
    (tmp_path / ".tasks" / "task_1.json").unlink()
    assert board.ready() == []
    with pytest.raises(ClaimRefused, match=r"task_1 \(missing\)"):
        board.claim("task_2", "alice")


def test_a_cycle_made_by_hand_is_explained(tmp_path: Path, board: JsonBoard) -> None:
    board.create("x")
    board.create("y", blocked_by=["task_1"])
    edit_file(tmp_path / ".tasks" / "task_1.json", blockedBy=["task_2"])
    assert "task_1 → task_2 → task_1" in board.why("task_1").detail


def test_ids_are_never_used_again(tmp_path: Path, board: JsonBoard) -> None:
    for _ in range(3):
        board.create("x")
    (tmp_path / ".tasks" / "task_3.json").unlink()
    (tmp_path / ".tasks" / "task_2.json").write_text("broken")
    assert board.create("x").id == "task_4"
    (tmp_path / ".team" / "board.json").write_text("broken")
    (tmp_path / ".tasks" / "task_4.json").unlink()
    assert JsonBoard.open(tmp_path).create("x").id == "task_3"  # the mark itself was lost


def test_a_vanished_folder_is_an_empty_board(tmp_path: Path, board: JsonBoard) -> None:
    (tmp_path / ".tasks").rmdir()
    assert board.list() == []
    assert board.create("x").id == "task_1"


# Broken files


BROKEN: dict[str, bytes] = {
    "empty": b"",
    "blank": b" \n",
    "null": b"null",
    "list": b"[]",
    "number": b"7",
    "cut": b'{"id": "task_2", "subject": "x", "sta',
    "zeros": b"\0" * 300,
    "garbage after": b'{"subject": "x"} oops',
    "no subject": b'{"status": "pending"}',
    "null subject": b'{"subject": null}',
    "number as subject": b'{"subject": 3}',
    "unknown status": b'{"subject": "x", "status": "done"}',
    "null status": b'{"subject": "x", "status": null}',
    "text as blockers": b'{"subject": "x", "blockedBy": "task_1"}',
    "number as blocker": b'{"subject": "x", "blockedBy": [1]}',
    "truth as priority": b'{"subject": "x", "priority": true}',
    "fraction as priority": b'{"subject": "x", "priority": 1.5}',
    "text as plan": b'{"subject": "x", "planRequired": "no"}',
    "list as metadata": b'{"subject": "x", "metadata": []}',
    "text as claim": b'{"subject": "x", "claim": "alice"}',
    "claim without a token": b'{"subject": "x", "claim": {"epoch": 1}}',
    "attempts of text": b'{"subject": "x", "attempts": ["a"]}',
    "result without commit type": b'{"subject": "x", "result": {"commit": 1}}',
    "NaN": b'{"subject": "x", "metadata": {"a": NaN}}',
    "infinite": b'{"subject": "x", "metadata": {"a": 1e999}}',
    "endless number": b'{"subject": "x", "priority": ' + b"9" * 5000 + b"}",
    "deep": b'{"subject": "x", "metadata": ' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    "twice the same key": b'{"subject": "x", "subject": "y"}',
    "invalid UTF-8": b'{"subject": "\xff\xfe"}',
    "UTF-16": '{"subject": "x"}'.encode("utf-16"),
    "other id": b'{"id": "task_9", "subject": "x"}',
    "text as version": b'{"v": "1", "subject": "x"}',
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_is_set_aside_and_blocks_nothing(tmp_path: Path, data: bytes) -> None:
    events = Events()
    board = JsonBoard(make_store(tmp_path, emit=events), Presences(), None)
    first = board.create("x")
    path = tmp_path / ".tasks" / "task_2.json"
    path.write_bytes(data)
    assert [task.id for task in board.list()] == [first.id]
    with pytest.raises(UnknownTask):
        board.get("task_2")
    assert not path.exists()
    kept, notice = sorted((tmp_path / ".team" / "quarantine").iterdir())
    assert kept.read_bytes() == data
    assert notice.name == kept.name + ".why"
    assert str(path) in notice.read_text()
    told = [fields for kind, _, fields in events.seen if kind == "quarantined"]
    assert [fields["where"] for fields in told] == [str(kept)]
    board.complete(board.claim(first.id, "alice"))
    assert board.create("y").id == "task_3"


def test_no_file_is_a_task_when_it_is_a_folder_a_link_or_a_pipe(
    tmp_path: Path, board: JsonBoard
) -> None:
    tasks = tmp_path / ".tasks"
    (tmp_path / "elsewhere").write_text('{"subject": "secret"}')
    (tasks / "task_1.json").mkdir()
    (tasks / "task_2.json").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(tasks / "task_3.json")
    assert board.list() == []
    assert len(list((tmp_path / ".team" / "quarantine").glob("*.why"))) == 3
    assert (tmp_path / "elsewhere").exists()


def test_an_editor_that_is_still_saving_is_waited_for(
    tmp_path: Path, board: JsonBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / ".tasks" / f"{board.create('x').id}.json"
    whole = path.read_bytes()
    path.write_bytes(b"")

    class Saved:
        def wait(self, seconds: float) -> None:
            path.write_bytes(whole)

    monkeypatch.setattr("team_runtime.board.json_board.threading.Event", Saved)
    assert [task.subject for task in board.list()] == ["x"]


@pytest.mark.parametrize("text", ['﻿{"subject": "x"}', '{"subject": "\\ud800", "extra": "\\udfff"}'])
def test_a_byte_order_mark_and_lone_surrogates_are_no_harm(
    tmp_path: Path, board: JsonBoard, text: str
) -> None:
    (tmp_path / ".tasks" / "task_1.json").write_text(text)
    board.complete(board.claim("task_1", "alice"))
    assert len(board.list("completed")) == 1


def test_a_file_of_a_newer_version_is_left_alone_and_refused_by_name(
    tmp_path: Path, board: JsonBoard
) -> None:
    path = tmp_path / ".tasks" / "task_3.json"
    path.write_text('{"v": 2, "subject": "from the future", "status": "paused"}')
    before = path.read_bytes()
    board.create("x")
    assert [task.id for task in board.list()] == ["task_4"]
    with pytest.raises(VersionTooNew, match=r"task_3\.json"):
        board.claim("task_3", "alice")
    assert path.read_bytes() == before


def test_other_files_are_left_alone(tmp_path: Path, board: JsonBoard) -> None:
    names = {
        "README.md",
        "task_01.json",
        "task_0.json",
        "task_x.json",
        "task_1.json~",
        ".task_1.swp",
    }
    for name in names:
        (tmp_path / ".tasks" / name).write_text("mine")
    board.create("x")
    assert len(board.list()) == 1
    assert {path.name for path in (tmp_path / ".tasks").iterdir()} == names | {"task_1.json"}


# Processes


CREATE = """
import sys
from team_runtime.board.json_board import JsonBoard
board = JsonBoard.open(sys.argv[1], durability="process")
print(*(board.create(f"{sys.argv[2]} {n}").id for n in range(25)))
"""

WORK = """
import sys
from team_runtime.board.json_board import JsonBoard
board = JsonBoard.open(sys.argv[1], durability="process", run=True)
print("ready", flush=True)
sys.stdin.readline()
while claim := board.claim_next(sys.argv[2]):
    print(claim.task_id)
    board.complete(claim)
board.close()
"""

CLAIM = """
import sys
from team_runtime.board.json_board import JsonBoard
from team_runtime.errors import ClaimRefused
board = JsonBoard.open(sys.argv[1], durability="process", run=True)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print(board.claim(line.strip(), sys.argv[2]).run, flush=True)
    except ClaimRefused as refused:
        print(refused.reason, flush=True)
"""


def test_processes_that_create_at_once_lose_nothing(tmp_path: Path, board: JsonBoard) -> None:
    """claude-code#21060: two sessions overwrote each other's tasks."""
    made = [program(CREATE, tmp_path, name) for name in ("a", "b", "c")]
    ids = " ".join(outputs(made)).split()
    assert sorted(ids, key=lambda id_: int(id_[5:])) == [f"task_{n}" for n in range(1, 76)]
    assert len({task.subject for task in board.list()}) == 75


def test_processes_share_the_work_without_doing_any_twice(tmp_path: Path, board: JsonBoard) -> None:
    for n in range(40):
        board.create(f"task {n}")
    workers = [program(WORK, tmp_path, f"agent-{n}") for n in range(4)]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    done = " ".join(outputs(workers)).split()
    assert sorted(done) == sorted(task.id for task in board.list("completed"))
    assert len(done) == 40


def test_two_processes_of_one_name_cannot_both_win(tmp_path: Path, board: JsonBoard) -> None:
    """beads#5998."""
    racers = [program(CLAIM, tmp_path, "alice") for _ in range(2)]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for _ in range(20):
        task = board.create("x")
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(f"{task.id}\n")
            racer.stdin.flush()
        answers = [racer.stdout.readline().strip() for racer in racers if racer.stdout]
        won = [answer for answer in answers if answer.startswith("run-")]
        assert len(won) == 1
        assert sorted(answers)[0] == "claimed"
        assert board.claim_of(task.id).run == won[0]
        board.complete(board.claim_of(task.id))
    outputs(racers)


def test_kill_9_gives_the_task_back_and_a_restart_finds_the_same_list(
    tmp_path: Path, board: JsonBoard
) -> None:
    """claude-code#76844: after a restart ids started again and tasks were lost."""
    for n in range(5):
        board.create(f"task {n}")
    worker = program(CLAIM, tmp_path, "alice")
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write("task_5\n")
    worker.stdin.flush()
    worker.stdout.readline()
    run = worker.stdout.readline().strip()
    assert board.reap() == []
    worker.kill()
    worker.communicate()

    reopened = JsonBoard.open(tmp_path, durability="process")
    assert [task.id for task in reopened.reap()] == ["task_5"]
    attempt = reopened.get("task_5").attempts[-1]
    assert (attempt.run, attempt.outcome, attempt.owner) == (run, "lost", "alice")
    assert reopened.edit("task_5", subject="changed").subject == "changed"
    assert reopened.create("six").id == "task_6"


def test_a_board_works_on_in_a_forked_child(tmp_path: Path) -> None:
    with JsonBoard.open(tmp_path, durability="process", run=True) as board:
        board.create("x")
        assert in_child(lambda: board.complete(board.claim("task_1", "child"))) == 0
        assert board.get("task_1").status == "completed"
        claim = board.claim(board.create("y").id, "parent")
        assert in_child(lambda: None) == 0
        assert board.reap() == []
        assert board.claim_of("task_2") == claim


def test_a_claim_that_failed_half_way_can_be_looked_up(tmp_path: Path) -> None:
    """beadhive#8: the claim landed, the caller saw an error."""

    def fail(moment: str, path: Path) -> None:
        if moment == "before fsync folder" and path.name == ".tasks":
            raise OSError(5, "Input/output error")

    JsonBoard.open(tmp_path, durability="process").create("x")
    board = JsonBoard(make_store(tmp_path, fail, "power"), Presences(), None)
    with pytest.raises(Exception, match="Read it again"):
        board.claim("task_1", "alice")
    JsonBoard.open(tmp_path).complete(board.claim_of("task_1"))
