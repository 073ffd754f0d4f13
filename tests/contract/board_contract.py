"""What every board must do. A backend's test class inherits this and says how to make one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from itertools import chain
from typing import Any

import pytest

from team_runtime.board.base import Board, Claim
from team_runtime.board.model import COMPLETED, IN_PROGRESS, PENDING
from team_runtime.errors import (
    ClaimRefused,
    DependencyRefused,
    InputError,
    NameInvalid,
    StaleClaim,
    TransitionRefused,
    UnknownTask,
)
from team_runtime.types import Liveness
from tests.support.state import Events, Presences, together


class BoardContract(ABC):
    """Inherit and implement `open_board`: every call opens the same tasks."""

    presences: Presences
    events: Events

    @abstractmethod
    def open_board(self, run: str | None = None) -> Board: ...

    @pytest.fixture
    def board(self) -> Board:
        return self.open_board("run-1")

    # Creating and reading

    def test_ids_count_from_one_in_order_of_creation(self, board: Board) -> None:
        assert [board.create(f"task {n}").id for n in range(3)] == ["task_1", "task_2", "task_3"]
        assert [task.id for task in board.list()] == ["task_1", "task_2", "task_3"]

    def test_a_task_is_read_as_it_was_created(self, board: Board) -> None:
        blocker = board.create("first")
        task = board.create(
            "Zweitens – ünïcode",
            "long\ntext",
            blocked_by=[blocker.id, blocker.id],
            priority=-3,
            labels=["a", "b"],
            worktree="Fix-1.x",
            plan_required=True,
            check="make test",
            command="true",
            created_by="lead",
            session="s-1",
            metadata={"deep": [{"a": None}]},
        )
        assert self.open_board().get(task.id) == task
        assert task.blocked_by == (blocker.id,)
        assert task.status == PENDING
        assert task.created_at == task.updated_at != ""

    def test_what_a_caller_does_to_a_task_it_got_changes_nothing(self, board: Board) -> None:
        mine: dict[str, Any] = {"list": [1]}
        task = board.create("x", metadata=mine)
        mine["list"].append(2)
        task.metadata["list"].append(3)
        assert board.get(task.id).metadata == {"list": [1]}

    @pytest.mark.parametrize(
        "given",
        [
            {"subject": " \n"},
            {"subject": "x", "metadata": {"a": float("nan")}},
            {"subject": "x", "metadata": {"a": object()}},
            {"subject": "x", "priority": "high"},
            {"subject": "x", "labels": "urgent"},
            {"subject": "x", "blocked_by": "task_1"},
        ],
    )
    def test_what_cannot_be_kept_is_refused_and_creates_nothing(
        self, board: Board, given: dict[str, Any]
    ) -> None:
        with pytest.raises(InputError):
            board.create(**given)
        assert board.list() == []

    def test_a_worktree_name_that_could_be_no_folder_is_refused(self, board: Board) -> None:
        with pytest.raises(NameInvalid):
            board.create("x", worktree="../x")

    def test_a_worktree_belongs_to_one_open_task(self, board: Board) -> None:
        first = board.create("x", worktree="fix")
        with pytest.raises(InputError, match=r"bound to task_1"):
            board.create("y", worktree="fix")
        board.cancel(first.id)
        assert board.create("y", worktree="fix").worktree == "fix"

    def test_lone_surrogates_from_a_model_do_not_break_the_board(self, board: Board) -> None:
        task = board.create("bad \ud800 text", metadata={"k": "\udfff"})
        assert board.get(task.id).subject == "bad ? text"
        assert len(self.open_board().list()) == 1

    @pytest.mark.parametrize("task_id", ["task_9", "task_0", "nonsense", "../task_1", ""])
    def test_an_unknown_id_is_named(self, board: Board, task_id: str) -> None:
        board.create("x")
        with pytest.raises(UnknownTask) as caught:
            board.claim(task_id, "alice")
        assert caught.value.task_id == task_id

    def test_an_unknown_status_is_refused(self, board: Board) -> None:
        with pytest.raises(InputError, match="in_progress"):
            board.list(status="done")

    # Claiming

    def test_a_claim_holds_the_task(self, board: Board) -> None:
        task = board.create("x")
        claim = board.claim(task.id, "alice")
        held = board.get(task.id)
        assert (claim.task_id, claim.owner, claim.epoch, claim.run) == (
            task.id,
            "alice",
            1,
            "run-1",
        )
        assert (held.status, held.owner) == (IN_PROGRESS, "alice")
        assert held.claim is not None
        assert held.claim.token == claim.token != ""
        assert board.claim_of(task.id) == claim

    def test_the_loser_is_told_who_holds_it(self, board: Board) -> None:
        task = board.create("x")
        board.claim(task.id, "alice")
        with pytest.raises(ClaimRefused) as caught:
            board.claim(task.id, "bob")
        assert (caught.value.reason, caught.value.holder) == ("claimed", "alice")
        assert "alice" in str(caught.value)

    def test_the_same_name_in_another_run_loses_too(self, board: Board) -> None:
        """beads#5998: two processes with one name both "succeeded"."""
        task = board.create("x")
        board.claim(task.id, "alice")
        with pytest.raises(ClaimRefused) as caught:
            self.open_board("run-2").claim(task.id, "alice")
        assert (caught.value.reason, caught.value.holder) == ("claimed", "alice")
        assert "run-1" in str(caught.value)

    def test_a_finished_task_cannot_be_claimed(self, board: Board) -> None:
        task = board.create("x")
        board.complete(board.claim(task.id, "alice"))
        with pytest.raises(ClaimRefused) as caught:
            board.claim(task.id, "bob")
        assert caught.value.reason == "not_pending"

    def test_a_blocked_task_names_its_blockers_and_their_states(self, board: Board) -> None:
        first, second = board.create("x"), board.create("y")
        third = board.create("z", blocked_by=[first.id, second.id])
        board.claim(first.id, "alice")
        with pytest.raises(
            ClaimRefused, match=r"task_1 \(in_progress, alice\).*task_2 \(pending\)"
        ):
            board.claim(third.id, "bob")

    def test_an_owner_has_one_open_task_in_all_runs(self, board: Board) -> None:
        first, second = board.create("x"), board.create("y")
        board.claim(first.id, "alice")
        other = self.open_board("run-2")
        with pytest.raises(ClaimRefused, match="task_1") as caught:
            other.claim(second.id, "alice")
        assert caught.value.reason == "owner_busy"
        with pytest.raises(ClaimRefused, match="task_1"):
            other.claim_next("alice")

    def test_a_blank_owner_is_refused(self, board: Board) -> None:
        task = board.create("x")
        with pytest.raises(InputError):
            board.claim(task.id, " ")

    def test_claim_next_takes_the_highest_priority_then_the_oldest(self, board: Board) -> None:
        """beads_rust#168: "next" suggested tasks in progress."""
        board.create("low", priority=-1)
        board.create("old")
        board.create("new")
        board.create("high", priority=5)
        assert [task.subject for task in board.ready()] == ["high", "old", "new", "low"]
        owners = ("a", "b", "c", "d")
        taken = [claim.task_id for claim in map(board.claim_next, owners) if claim]
        assert taken == ["task_4", "task_2", "task_3", "task_1"]
        assert board.claim_next("e") is None

    def test_nobody_else_claims_while_twenty_threads_race(self, board: Board) -> None:
        """claude-code#22239: two workers did the same task."""
        for _ in range(10):
            task = board.create("x")

            def take(name: str, task_id: str = task.id) -> Claim | str | None:
                try:
                    return board.claim(task_id, name)
                except ClaimRefused as refused:
                    return refused.holder

            answers = together(*(partial(take, f"agent-{n}") for n in range(20)))
            won = [answer for answer in answers if isinstance(answer, Claim)]
            assert len(won) == 1
            assert set(answers) - set(won) == {won[0].owner}
            board.complete(won[0])

    def test_claim_next_hands_each_task_out_once(self, board: Board) -> None:
        """beads#3570: listing and claiming in two steps."""
        for n in range(24):
            board.create(f"task {n}")

        def work(name: str) -> list[str]:
            done = []
            while claim := board.claim_next(name):
                board.complete(claim)
                done.append(claim.task_id)
            return done

        done = list(chain(*together(*(partial(work, f"agent-{n}") for n in range(6)))))
        assert sorted(done) == sorted(task.id for task in board.list(COMPLETED))
        assert len(done) == 24

    # Ending a claim

    def test_completing_releases_only_what_waited_for_this_alone(self, board: Board) -> None:
        first, other = board.create("x"), board.create("o")
        ready = board.create("y", blocked_by=[first.id])
        board.create("z", blocked_by=[first.id, other.id])
        claim = board.claim(first.id, "alice")
        assert [t.id for t in board.complete(claim, "all done", "abc123")] == [ready.id]
        done = board.get(first.id)
        assert (done.status, done.owner) == (COMPLETED, "alice")
        assert done.result is not None
        assert (done.result.summary, done.result.commit) == ("all done", "abc123")
        assert [(a.outcome, a.head) for a in done.attempts] == [("completed", "abc123")]

    @pytest.mark.parametrize("end", ["fail", "cancel"])
    def test_a_failed_or_cancelled_blocker_never_releases(self, board: Board, end: str) -> None:
        """CCExtractor/ccsync#308: a failed task counted as resolved."""
        blocker = board.create("x")
        task = board.create("y", blocked_by=[blocker.id])
        if end == "fail":
            board.fail(board.claim(blocker.id, "alice"), "cannot be done")
        else:
            board.cancel(blocker.id)
        assert board.ready() == []
        assert board.why(task.id).blockers == (blocker.id,)
        assert board.get(blocker.id).status in board.why(task.id).detail

    def test_a_released_task_is_ready_again_with_its_attempt_kept(self, board: Board) -> None:
        task = board.create("x")
        claim = board.claim(task.id, "alice")
        board.set_base(claim, "base1")
        board.release(claim, "half done", "head1")
        released = board.get(task.id)
        attempt = released.attempts[-1]
        assert (released.status, released.owner, released.claim) == (PENDING, None, None)
        assert (attempt.outcome, attempt.note) == ("released", "half done")
        assert (attempt.base, attempt.head, attempt.ended is not None) == ("base1", "head1", True)
        assert board.claim(task.id, "bob").epoch == 2

    def test_a_stale_owner_can_write_nothing(self, board: Board) -> None:
        """ImL1s/oh-my-cursor#23: an expired owner finished somebody else's task."""
        task = board.create("x")
        old = board.claim(task.id, "alice")
        board.release_by_force(task.id, "it hangs")
        new = board.claim(task.id, "bob")
        before = board.get(task.id)
        for write in (
            lambda: board.complete(old),
            lambda: board.release(old),
            lambda: board.fail(old, "x"),
            lambda: board.set_base(old, "x"),
        ):
            with pytest.raises(StaleClaim, match="bob"):
                write()
        assert board.get(task.id) == before
        board.complete(new)
        with pytest.raises(StaleClaim, match="completed"):
            board.complete(new)

    def test_an_older_claim_of_the_same_owner_is_stale(self, board: Board) -> None:
        """beads PR#4727: release(task, owner) freed a newer claim."""
        task = board.create("x")
        old = board.claim(task.id, "alice")
        board.release(old)
        board.claim(task.id, "alice")
        with pytest.raises(StaleClaim, match="epoch 2"):
            board.release(old)

    def test_nobody_holds_what_nobody_claimed(self, board: Board) -> None:
        task = board.create("x")
        with pytest.raises(TransitionRefused, match="pending"):
            board.claim_of(task.id)
        with pytest.raises(TransitionRefused, match="pending"):
            board.release_by_force(task.id)

    def test_only_pending_and_failed_tasks_can_be_cancelled(self, board: Board) -> None:
        task = board.create("x")
        claim = board.claim(task.id, "alice")
        with pytest.raises(TransitionRefused, match="alice"):
            board.cancel(task.id)
        board.fail(claim, "no")
        board.cancel(task.id)
        with pytest.raises(TransitionRefused, match="cancelled"):
            board.cancel(task.id)

    # Dependencies

    def test_unknown_blockers_are_refused(self, board: Board) -> None:
        with pytest.raises(DependencyRefused, match="task_7"):
            board.create("x", blocked_by=["task_7"])
        assert board.list() == []

    def test_a_subject_given_as_blocker_is_answered_with_its_id(self, board: Board) -> None:
        board.create("Parse the header")
        with pytest.raises(DependencyRefused, match="use the id task_1"):
            board.create("x", blocked_by=["Parse the header"])

    def test_cycles_are_refused_and_their_path_is_named(self, board: Board) -> None:
        """jlevy/tbd PR#306: A → B → C → A was accepted and everything was blocked."""
        a = board.create("a")
        b = board.create("b", blocked_by=[a.id])
        c = board.create("c", blocked_by=[b.id])
        with pytest.raises(DependencyRefused, match="task_1 → task_3 → task_2 → task_1"):
            board.edit(a.id, blocked_by=[c.id])
        with pytest.raises(DependencyRefused, match="itself"):
            board.edit(a.id, blocked_by=[a.id])
        assert board.get(a.id).blocked_by == ()

    def test_two_edits_at_once_make_no_cycle(self, board: Board) -> None:
        for _ in range(5):
            a, b = board.create("a"), board.create("b")

            def wait_for(task: str, blocker: str) -> bool:
                try:
                    board.edit(task, blocked_by=[blocker])
                except DependencyRefused:
                    return False
                return True

            done = together(partial(wait_for, a.id, b.id), partial(wait_for, b.id, a.id))
            assert sorted(done) == [False, True]

    # Editing

    def test_editing_changes_what_was_named(self, board: Board) -> None:
        blocker, task = board.create("b"), board.create("x", metadata={"a": 1})
        changed = board.edit(
            task.id, subject="y", priority=2, labels=["l"], blocked_by=[blocker.id], worktree="w"
        )
        assert board.get(task.id) == changed
        assert (changed.subject, changed.priority, changed.labels) == ("y", 2, ("l",))
        assert (changed.blocked_by, changed.worktree) == ((blocker.id,), "w")
        assert changed.metadata == {"a": 1}

    @pytest.mark.parametrize(
        "changes", [{"status": "completed"}, {"owner": "x"}, {"priority": "x"}, {"subject": ""}]
    )
    def test_what_cannot_be_edited_is_refused(self, board: Board, changes: dict[str, Any]) -> None:
        task = board.create("x")
        with pytest.raises(InputError):
            board.edit(task.id, **changes)
        assert board.get(task.id) == task

    def test_a_started_task_keeps_its_dependencies_and_worktree(self, board: Board) -> None:
        other, task = board.create("o"), board.create("x")
        claim = board.claim(task.id, "alice")
        for changes in ({"blocked_by": [other.id]}, {"worktree": "w"}):
            with pytest.raises(TransitionRefused, match="in_progress"):
                board.edit(task.id, **changes)
        board.edit(task.id, description="more")
        board.complete(claim)
        assert board.get(task.id).description == "more"

    # One answer about readiness

    def test_all_views_agree(self, board: Board) -> None:
        """beads#6630: list, show and ready each computed it differently."""
        done = board.create("done")
        board.complete(board.claim(done.id, "alice"))
        held, ready = board.create("held", priority=9), board.create("r", blocked_by=[done.id])
        blocked = board.create("blocked", blocked_by=[held.id], priority=8)
        board.claim(held.id, "alice")
        states = {task.id: board.why(task.id).state for task in board.list()}
        assert states == {
            done.id: "completed",
            held.id: "in_progress",
            ready.id: "ready",
            blocked.id: "blocked",
        }
        assert [task.id for task in board.ready()] == [ready.id]
        assert (board.why(held.id).holder, board.why(held.id).since is not None) == ("alice", True)
        claim = board.claim_next("bob")
        assert claim is not None
        assert claim.task_id == ready.id

    # Dead runs

    def test_claims_of_dead_runs_go_back_and_others_stay(self, board: Board) -> None:
        """hermes#22926, gascity#4387, claude-code#80559: a dead worker's task stayed running."""
        boards = [self.open_board(run) for run in ("run-dead", "run-alive", "run-unknown", None)]
        ids = [board.create("x").id for _ in boards]
        old = [b.claim(id_, f"agent-{id_[5:]}") for b, id_ in zip(boards, ids, strict=True)]
        self.presences.known = {"run-dead": Liveness.DEAD, "run-unknown": Liveness.UNKNOWN}
        assert [task.id for task in board.reap()] == [ids[0]]
        attempt = board.get(ids[0]).attempts[-1]
        assert (attempt.outcome, attempt.run) == ("lost", "run-dead")
        assert [board.get(id_).status for id_ in ids[1:]] == [IN_PROGRESS] * 3
        assert board.reap() == []
        with pytest.raises(StaleClaim):
            board.complete(old[0])
        assert board.claim(ids[0], "bob").epoch == 2
        assert board.reap() == [], "a fresh claim inherits nothing of the old one (hermes#119155)"

    def test_a_resumed_session_adopts_its_claim(self, board: Board) -> None:
        task = board.create("x")
        old = self.open_board("run-dead").claim(task.id, "alice")
        board.set_base(old, "base1")
        self.presences.known["run-dead"] = Liveness.DEAD
        new = board.adopt("alice", "run-dead")
        assert new is not None
        assert (new.run, new.epoch, new.token != old.token) == ("run-1", 2, True)
        held = board.get(task.id)
        assert [a.outcome for a in held.attempts] == ["resumed", None]
        assert held.base == held.attempts[-1].base == "base1"
        with pytest.raises(StaleClaim):
            board.complete(old)
        assert board.adopt("alice", "run-dead") is None
        board.complete(new)

    def test_a_live_run_loses_nothing_to_adoption(self, board: Board) -> None:
        """hermes#23442: whatever its agent waits for, and however long."""
        task = board.create("x")
        claim = self.open_board("run-2").claim(task.id, "alice")
        with pytest.raises(TransitionRefused, match="alive"):
            board.adopt("alice", "run-2")
        assert board.claim_of(task.id) == claim

    def test_a_manual_claim_ends_only_by_a_command(self, board: Board) -> None:
        manual = self.open_board()
        task = manual.create("x")
        claim = manual.claim(task.id, "alice")
        assert claim.run is None
        assert board.reap() == []
        assert "manual" in board.why(task.id).detail
        manual.complete(manual.claim_of(task.id))

    # Events

    def test_every_change_is_told(self, board: Board) -> None:
        task = board.create("x", created_by="lead")
        board.release(board.claim(task.id, "alice"), "n")
        board.complete(board.claim(task.id, "bob"), commit="c1")
        other = board.create("y")
        board.fail(board.claim(other.id, "bob"), "why")
        assert self.events.seen == [
            ("task_created", "lead", {"task": "task_1", "subject": "x"}),
            ("task_claimed", "alice", {"task": "task_1", "owner": "alice", "epoch": 1}),
            (
                "task_released",
                "alice",
                {"task": "task_1", "owner": "alice", "epoch": 1, "note": "n"},
            ),
            ("task_claimed", "bob", {"task": "task_1", "owner": "bob", "epoch": 2}),
            (
                "task_completed",
                "bob",
                {"task": "task_1", "owner": "bob", "epoch": 2, "commit": "c1"},
            ),
            ("task_created", None, {"task": "task_2", "subject": "y"}),
            ("task_claimed", "bob", {"task": "task_2", "owner": "bob", "epoch": 1}),
            ("task_failed", "bob", {"task": "task_2", "owner": "bob", "epoch": 1, "note": "why"}),
        ]
