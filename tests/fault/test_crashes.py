"""A process dies before and after every step of every operation; the next one finds it whole."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from team_runtime.approvals.model import Asker, Cause, Subject
from team_runtime.approvals.store import ApprovalStore
from team_runtime.board.base import Claim
from team_runtime.board.json_board import JsonBoard
from team_runtime.board.model import COMPLETED, IN_PROGRESS, PENDING
from team_runtime.bus.maildir import Maildir
from team_runtime.errors import PlanRefused, StoreFailed
from team_runtime.plans.model import Gate
from team_runtime.plans.store import PlanStore
from team_runtime.sessions.sessions import Sessions
from team_runtime.sessions.transcript import Transcript
from team_runtime.store.files import Store
from team_runtime.store.presence import RunPresence, Runs
from team_runtime.types import Liveness
from tests.support.state import AtStep, Presences, kill_at_every_step, make_store

pytestmark = pytest.mark.slow

DEAD_RUN = "run-" + "0" * 16


def board_on(store: Store, run: str | None = DEAD_RUN) -> JsonBoard:
    return JsonBoard(store, Runs(store), run)


def everything_is_whole(store: Store) -> None:
    """I4 and I8: every file parses, nothing was set aside, no litter is left."""
    for path in store.layout.workspace.rglob("*.json"):
        json.loads(path.read_text())
    assert not store.layout.quarantine.exists()
    assert not list(store.layout.workspace.rglob(".tmp-*"))


def one_task(store: Store) -> None:
    board_on(store).create("first")


def one_claim(store: Store) -> Claim:
    one_task(store)
    return board_on(store).claim("task_1", "alice")


def test_create(tmp_path: Path) -> None:
    """I3: an id that was given out is there, and none is given out twice."""
    for store, _, done in kill_at_every_step(
        tmp_path, one_task, lambda store, _: board_on(store).create("second")
    ):
        board = board_on(store)
        before = {task.id: task.subject for task in board.list()}
        assert list(before.values()) in [["first", "second"], *([] if done else [["first"]])]
        new = board.create("third")
        assert new.id not in before
        assert {task.id: task.subject for task in board.list()} == {**before, new.id: "third"}
        everything_is_whole(store)


def test_claim(tmp_path: Path) -> None:
    """I1: the task is claimed once or not at all, and comes back from the dead."""
    for store, _, done in kill_at_every_step(
        tmp_path, one_task, lambda store, _: board_on(store).claim("task_1", "alice")
    ):
        board = board_on(store)
        status = board.get("task_1").status
        assert status == IN_PROGRESS if done else status in (PENDING, IN_PROGRESS)
        assert len(board.reap()) == (status == IN_PROGRESS)
        assert board.claim("task_1", "bob").epoch == (2 if status == IN_PROGRESS else 1)
        everything_is_whole(store)


ENDS: dict[str, Callable[[JsonBoard, Claim], object]] = {
    COMPLETED: lambda board, claim: board.complete(claim, "done", "abc"),
    PENDING: lambda board, claim: board.release(claim, "half"),
    "failed": lambda board, claim: board.fail(claim, "no"),
}


@pytest.mark.parametrize("end", ENDS)
def test_complete_release_and_fail(tmp_path: Path, end: str) -> None:
    """I2 and I7: the end is there as a whole, or the claim still holds and can be ended."""
    for store, claim, done in kill_at_every_step(
        tmp_path, one_claim, lambda store, claim: ENDS[end](board_on(store), claim)
    ):
        board = board_on(store)
        task = board.get("task_1")
        assert task.status == end if done else task.status in (end, IN_PROGRESS)
        if task.status == IN_PROGRESS:
            ENDS[end](board, claim)
        assert board.get("task_1").status == end
        assert [a.outcome for a in board.get("task_1").attempts] == [
            {PENDING: "released"}.get(end, end)
        ]
        everything_is_whole(store)


def test_edit_and_adopt(tmp_path: Path) -> None:
    def act(store: Store, claim: Claim) -> None:
        board = JsonBoard(store, Runs(store), "run-" + "1" * 16)
        board.edit("task_1", subject="edited")
        board.adopt("alice", DEAD_RUN)

    for store, old, _ in kill_at_every_step(tmp_path, one_claim, act):
        board = board_on(store)
        held = board.claim_of("task_1")
        assert (held == old) == (held.epoch == 1)
        assert board.get("task_1").subject == "edited" or held == old
        everything_is_whole(store)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_claim_on_a_failing_disk_is_absent_or_can_be_looked_up(tmp_path: Path, code: int) -> None:
    def fail() -> None:
        raise OSError(code, os.strerror(code))

    for n in count(1):
        workspace = tmp_path / str(n)
        one_task(make_store(workspace))
        faults = AtStep(n, fail)
        with suppress(StoreFailed):
            board_on(make_store(workspace, faults, "power")).claim("task_1", "alice")
        board = board_on(Store.open(workspace))
        is_held = board.get("task_1").owner == "alice"
        claim = board.claim_of("task_1") if is_held else board.claim("task_1", "alice")
        board.complete(claim)
        everything_is_whole(make_store(workspace))
        if faults.count < n:
            break


def box(store: Store) -> Maildir:
    bus = Maildir(store)
    bus.register("alice")
    bus.send("lead", "alice", "1")
    return bus


def test_send(tmp_path: Path) -> None:
    """I6: a message that was sent is there, any other is absent or whole."""
    for store, _, done in kill_at_every_step(
        tmp_path, box, lambda store, _: Maildir(store).send("lead", "alice", "2")
    ):
        bus = Maildir(store)
        bodies = [message.body for message in bus.take("alice")]
        assert bodies == ["1", "2"] if done else bodies in (["1"], ["1", "2"])
        everything_is_whole(store)


def test_take_and_acknowledge(tmp_path: Path) -> None:
    """I5: nothing is lost before it was acknowledged; ids never change."""

    def act(store: Store, _: Maildir) -> None:
        bus = Maildir(store)
        bus.send("lead", "alice", "2")
        bus.acknowledge("alice", [message.id for message in bus.take("alice")[:1]])

    for store, _, done in kill_at_every_step(tmp_path, box, act):
        bodies = [message.body for message in Maildir(store).take("alice")]
        assert bodies == ["2"] if done else bodies in (["1"], ["1", "2"], ["2"])
        everything_is_whole(store)


def test_register(tmp_path: Path) -> None:
    for store, _, _ in kill_at_every_step(
        tmp_path, lambda store: None, lambda store, _: Maildir(store).register("alice")
    ):
        bus = Maildir(store)
        bus.register("alice")
        bus.send("lead", "alice", "1")
        assert len(bus.take("alice")) == 1


def test_submit_and_decide(tmp_path: Path) -> None:
    """A gate is never open without an approval that was stored as a whole."""
    at = ("alice", "task_1", 1)

    def act(store: Store, _: None) -> None:
        plans = PlanStore(store)
        revision = plans.submit(*at, "s-1", "text")[1]
        plans.decide(revision.request_id, True, "lead")

    for store, _, done in kill_at_every_step(tmp_path, lambda store: None, act):
        plans = PlanStore(store)
        gate = plans.gate(*at)
        assert gate is Gate.APPROVED if done else gate in (Gate.NONE, Gate.PENDING, Gate.APPROVED)
        if gate is Gate.PENDING:
            with pytest.raises(PlanRefused):
                plans.submit(*at, "s-1", "text")
        everything_is_whole(store)


def test_ask_and_answer(tmp_path: Path) -> None:
    """A question is there as a whole before it is asked, and allowed only by a whole answer."""

    def queue(store: Store) -> ApprovalStore:
        return ApprovalStore(store, Presences().liveness)

    def act(store: Store, _: None) -> None:
        asker, cause = Asker("alice", "s-1", "run-1"), Cause("no rule", None, "default")
        asked = queue(store).ask(asker, Subject("bash", {"command": "x"}, "/"), cause, 60)
        queue(store).answer(asked.id, True)

    for store, _, done in kill_at_every_step(tmp_path, lambda store: None, act):
        states = [approval.status for approval in queue(store).list()]
        assert states == ["allowed"] if done else states in ([], ["waiting"], ["allowed"])
        for approval in queue(store).waiting():
            assert queue(store).answer(approval.id, False).status == "denied"
        everything_is_whole(store)


def test_sessions_and_transcripts(tmp_path: Path) -> None:
    def act(store: Store, session: str) -> None:
        sessions = Sessions(store)
        transcript = sessions.transcript(session, "lead")
        transcript.append({"n": 1})
        transcript.append({"n": 2})
        transcript.sync()
        sessions.save(session, {"runs": ["run-1"]})

    for store, session, done in kill_at_every_step(
        tmp_path, lambda store: str(Sessions(store).create({"team": "t"})["id"]), act
    ):
        sessions = Sessions(store)
        numbers = [entry["n"] for entry in sessions.transcript(session, "lead").entries()]
        assert numbers == [1, 2][: len(numbers)]
        assert "runs" not in sessions.load(session) or numbers == [1, 2]
        assert not done or sessions.load(session)["runs"] == ["run-1"]
        everything_is_whole(store)


def test_presence(tmp_path: Path) -> None:
    """Whatever a dying process left of its presence, nobody takes it for alive."""
    for store, _, _ in kill_at_every_step(
        tmp_path, lambda store: None, lambda store, _: RunPresence.start(store, {})
    ):
        runs = Runs(store)
        assert all(runs.liveness(record["run"]) is Liveness.DEAD for record in runs.known())
        assert not list(store.layout.runs.glob(".tmp-*"))


@pytest.mark.parametrize("kind", ["task", "message", "plan"])
def test_a_record_cut_at_any_byte_is_set_aside_alone(tmp_path: Path, kind: str) -> None:
    """I4, for a disk that kept only a part."""
    store = make_store(tmp_path)
    board, bus, plans = JsonBoard(store, Presences(), None), Maildir(store), PlanStore(store)
    bus.register("alice")
    for n in range(2):
        board.create(f"task {n}")
        bus.send("lead", "alice", str(n))
        plans.submit("alice", None, n, "s-1", "text")
    path = {
        "task": store.layout.tasks / "task_1.json",
        "message": min((store.layout.mail / "alice" / "new").iterdir()),
        "plan": store.layout.plans / "plan_1.json",
    }[kind]
    counts: dict[str, Callable[[], int]] = {
        "task": lambda: len(board.list()),
        "message": lambda: len(bus.unread("alice")),
        "plan": lambda: len(plans.list()),
    }
    whole = path.read_bytes()
    step = max(1, len(whole) // 12) if kind == "task" else 1  # each broken task waits for an editor
    for kept in range(0, len(whole) - 2, step):
        path.write_bytes(whole[:kept])
        assert counts[kind]() == 1
        assert not path.exists()
    path.write_bytes(whole)
    assert counts[kind]() == 2


def test_transcript_lines_survive_any_cut(tmp_path: Path) -> None:
    transcript = Transcript(make_store(tmp_path), tmp_path / "lead.jsonl")
    for n in range(4):
        transcript.append({"n": n})
    whole = transcript.path.read_bytes()
    for kept in range(len(whole)):
        transcript.path.write_bytes(whole[:kept] + b"\0" * (kept % 5))
        found = [entry["n"] for entry in transcript.entries()]
        assert found == list(range(whole[:kept].count(b"\n")))
