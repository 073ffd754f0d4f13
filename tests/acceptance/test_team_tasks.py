"""Who works on which task in a running team, where, and what becomes of the work."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from team_runtime.team.member import Member
from team_runtime.team.settle import Settled, Settling
from tests.support.api import Seen, git
from tests.support.scripted_team import (
    Event,
    bound_task,
    call,
    complete,
    outside,
    reply,
    run_team,
    spawn,
    until,
    write,
)


def waiting(seen: Seen) -> Iterator[Any]:
    yield from ("Waiting." for _ in range(50))


def started(*first: Any) -> Any:
    """A lead that makes these calls, turn by turn, and then waits."""

    def lead(seen: Seen) -> Iterator[Any]:
        yield from first
        yield from waiting(seen)

    return lead


def own(seen: Seen) -> int:
    """The number of the task that this agent was assigned last."""
    message = seen.message(type="task_assigned")
    assert message is not None
    return int(message["task"].removeprefix("task_"))


def worker(seen: Seen) -> Iterator[Any]:
    """Idles until it has a task, does it, and goes on like this."""
    done: set[int] = set()
    while True:
        message = seen.message(type="task_assigned")
        if message is None or own(seen) in done:
            yield "Idle."
            continue
        number = own(seen)
        yield [write(f"{number}.txt")]
        yield [complete(number)]
        done.add(number)
        yield f"Did {number}."


def test_idle_teammates_claim_one_ready_task_each_until_none_is_left(root: Path) -> None:
    """claude-code#30008, claude-code-action#1124: a run ended as soon as its teammates were
    spawned, or never."""
    tasks = [part for n in range(1, 7) for part in bound_task(f"w{n}", n)]
    lead = started([spawn("anna"), spawn("ben")], tasks)
    ran = run_team(root, {"lead": lead, "anna": worker, "ben": worker})
    assert ran.result.exit_code == 0
    assert {task["status"] for task in ran.result.tasks} == {"completed"}
    held: dict[str, str | None] = {"anna": None, "ben": None}
    for event in ran.events:
        if event["kind"] == "task_claimed":
            assert held[event["agent"]] is None, "two tasks at once"
            held[event["agent"]] = event["task"]
        elif event["kind"] == "task_completed":
            assert held[event["agent"]] == event["task"]
            held[event["agent"]] = None
    for n in range(1, 7):
        assert ran.file_on(f"team/w{n}", f"{n}.txt") == "text"


def test_the_own_unfinished_task_comes_before_any_new_one(root: Path) -> None:
    lead = started(
        [*bound_task("one", 1), *bound_task("two", 2)], [spawn("anna", task_id="task_1")]
    )

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield "I stop in the middle."
        assert "[runtime] task_1 is still yours and not completed" in seen.text
        yield [complete(1)]
        yield "Now it is done."
        assert own(seen) == 2
        yield [complete(2)]
        yield "That too."

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 0
    claimed = [e["task"] for e in ran.of("task_claimed", "anna")]
    assert claimed == ["task_1", "task_2"]


def test_a_teammate_that_asked_something_waits_for_the_answer_first(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("agent_state", "anna", state="idle")
        yield [call("send_message", to="anna", content="Call it a.txt.")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("send_message", to="lead", content="Which name?")]
        yield "I wait for the answer."
        assert "Call it a.txt." in seen.text
        yield from [[write("a.txt")], [complete()], "Done."]

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 0
    assert "still yours" not in ran.shown("anna")


def test_who_is_woken_while_the_lead_looks_whether_it_waits_is_not_reminded(root: Path) -> None:
    """Its mail was not there when it was found at rest, and was read when mail was looked for."""
    read, looked, reminded = threading.Event(), threading.Event(), threading.Event()
    has_mail, check = Settling._has_mail, Settling.check

    def read_meanwhile(settling: Settling, member: Member) -> bool:
        if member.name == "anna" and not read.is_set():
            outside(root).bus.send("person", "anna", "How far are you?")
            assert read.wait(20)
        return has_mail(settling, member)

    def checked(settling: Settling) -> Settled:
        settled = check(settling)
        if read.is_set():
            looked.set()
        return settled

    def hear(event: Event) -> None:
        if event["kind"] == "message_delivered" and event["sender"] == "person":
            read.set()
        if event["kind"] == "turn_started" and (event["agent"], event["turn"]) == ("anna", 5):
            reminded.set()

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("agent_state", "anna", state="idle")
        yield [call("glob", pattern="*")]
        yield "Waiting."
        yield until("agent_state", "anna", 2, state="idle")
        yield lambda: reminded.wait(0.5)
        yield [call("send_message", to="anna", content="Call it a.txt.")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        ask = call("send_message", to="lead", content="Which name?")
        yield [ask]
        yield "I wait for the answer."
        yield [{**ask, "id": "again"}]
        yield lambda: looked.wait(20)
        yield "I still wait."
        assert "Call it a.txt." in seen.text
        yield from [[complete()], "Done."]

    with (
        patch.object(Settling, "_has_mail", read_meanwhile),
        patch.object(Settling, "check", checked),
    ):
        ran = run_team(root, {"lead": lead, "anna": anna}, also=hear)
    assert ran.result.exit_code == 0
    assert "still yours" not in ran.shown("anna")


def test_a_teammate_that_never_completes_is_reminded_and_then_the_task_is_free(
    root: Path,
) -> None:
    lead = started(bound_task(), [spawn("lazy", task_id="task_1"), spawn("ben")])

    def lazy(seen: Seen) -> Iterator[Any]:
        yield [write("half.txt")]
        yield from ("I consider it done." for _ in range(30))

    def ben(seen: Seen) -> Iterator[Any]:
        yield "Idle."
        assert own(seen) == 1
        yield [call("read_file", path="half.txt")]
        assert "text" in seen.text, "the work of the first one is there"
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "lazy": lazy, "ben": ben})
    assert ran.result.exit_code == 0
    assert ran.shown("lazy").count("is still yours") == 2
    assert "given back with its work saved" in ran.shown("lead")
    assert [(a.owner, a.outcome) for a in ran.task().attempts] == [
        ("lazy", "released"),
        ("ben", "completed"),
    ]


def test_alone_it_is_not_claimed_again_and_the_run_ends(root: Path) -> None:
    lead = started(bound_task(), [spawn("lazy", task_id="task_1")])
    ran = run_team(root, {"lead": lead, "lazy": lambda seen: iter(["Done, I think."] * 30)})
    assert ran.result.exit_code == 1
    assert ran.task().status == "pending"
    assert len(ran.of("task_claimed")) == 1
    assert ran.turns("lazy") == 3


def test_a_model_that_ends_its_turn_with_calls_every_time_does_not_run_for_ever(
    root: Path,
) -> None:
    def odd(seen: Seen) -> Iterator[Any]:
        for _ in range(50):
            yield reply("Bye.", write("a.txt"), stop="end_turn")

    lead = started(bound_task(), [spawn("odd", task_id="task_1")])
    ran = run_team(root, {"lead": lead, "odd": odd})
    assert ran.result.exit_code == 1
    assert ran.turns("odd") == 3
    assert not ran.of("tool_started", "odd")
    assert "not run" in ran.shown("odd")


def test_only_the_owner_completes_and_a_second_claim_is_refused(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task("one", 1), *bound_task("two", 2)]
        yield [spawn("anna", task_id="task_1")]
        yield [complete(1)]
        assert "only its owner can do that" in seen.text
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("claim_task", task_id="task_2"), complete(2)]
        assert "anna still has task_1" in seen.text
        assert "anna does not hold it" in seen.text
        yield [complete(1), call("claim_task", task_id="task_2")]
        assert "whose turn has not ended" in seen.text
        yield "Done."
        yield [complete(2)]
        yield "Done."

    assert run_team(root, {"lead": lead, "anna": anna}).result.exit_code == 0


def test_a_refused_claim_refuses_the_spawn_and_leaves_nothing(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [call("create_task", subject="Later", blockedBy=["task_1"])]
        for task_id in ("task_2", "task_9"):
            yield [spawn("anna", role="wrong", task_id=task_id, require_plan=True)]
            assert task_id in seen.text
        yield [call("list_teammates")]
        assert "No teammates yet." in seen.text
        session = next((root / ".team" / "sessions").glob("s-*"))
        assert not (session / "anna.jsonl").exists()
        yield [spawn("anna", role="right", task_id="task_1")]
        yield from waiting(seen)

    ran = run_team(root, {"lead": lead, "anna": worker})
    assert ran.result.exit_code == 0, "and no plan is needed"
    system = next(r for r in ran.requests if r.agent == "anna").system.decode()
    assert "Role: right" in system
    assert "task_2 cannot be claimed by anna: it waits for task_1" in ran.shown("lead")


def test_a_spawn_with_a_model_that_is_not_there_gives_its_task_back(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1", model="scripted:/nowhere.yaml")]
        assert "only a person chooses a scripted model" in seen.text
        yield [call("list_teammates"), spawn("anna", task_id="task_1")]
        assert "No teammates yet." in seen.text
        yield from waiting(seen)

    assert run_team(root, {"lead": lead, "anna": worker}).result.exit_code == 0


def test_tools_stay_in_the_worktree_until_the_turn_that_completes_has_ended(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna")]
        yield until("agent_state", "anna", state="idle")
        yield [call("send_message", to="anna", content="One more?")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("claim_task", task_id="task_1")]
        yield [write("a.txt")]
        yield [complete()]
        yield [write("late.txt"), call("bash", command="pwd")]
        assert str(root / "worktrees" / "one") in seen.text
        yield "Done."
        assert "One more?" in seen.text
        yield [write("after.txt"), call("bash", command="pwd")]
        assert "you have no task, so you can only read" in seen.text
        yield "Bye."

    ran = run_team(root, {"lead": lead, "anna": anna}, allow=("Bash(pwd)",))
    assert ran.result.exit_code == 0
    commit = ran.task().result.commit
    assert git(root, "show", f"{commit}:a.txt") == "text"
    assert ran.file_on(commit, "late.txt") is None
    assert ran.file_on("team/one", "late.txt") == "text", "kept, and not part of what was checked"
    assert not (root / "late.txt").exists()
    assert not (root / "after.txt").exists()
    assert git(root, "status", "--porcelain") == ""


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions"])
def test_a_teammate_without_a_task_cannot_edit_in_any_mode(root: Path, mode: str) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        edit = call("edit_file", path="notes.txt", old_text="as", new_text="is")
        yield [call("read_file", path="notes.txt")]
        assert "as committed" in seen.text
        yield [write("new.txt"), edit]
        assert seen.text.count("you have no task, so you can only read") == 2
        yield "I can only read."

    lead = started([spawn("anna")])
    ran = run_team(root, {"lead": lead, "anna": anna}, permission_mode=mode)
    assert ran.result.exit_code == 0
    assert git(root, "status", "--porcelain") == ""


def test_tasks_in_the_main_checkout_are_done_one_at_a_time(root: Path) -> None:
    tasks = [call("create_task", subject=f"Write {n}") for n in range(1, 5)]
    names = ["anna", "ben", "carl"]
    lead = started([spawn(name) for name in names], tasks)
    scripts = {"lead": lead, **dict.fromkeys(names, worker)}
    ran = run_team(root, scripts, permission_mode="acceptEdits")
    assert ran.result.exit_code == 0
    holder = None
    for event in ran.events:
        if event["kind"] == "task_claimed":
            assert holder is None, "two agents in the main checkout"
            holder = event["agent"]
        elif event["kind"] == "task_completed":
            holder = None
    assert sorted(p.name for p in root.glob("[1-4].txt")) == [f"{n}.txt" for n in range(1, 5)]
    assert git(root, "log", "--oneline").count("\n") == 0, "never committed by the runtime"


def test_an_agent_whose_task_was_taken_away_does_nothing_more_to_it(root: Path) -> None:
    def take_away() -> None:
        outside(root).board.release_by_force("task_1", "a person decided so")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("before.txt")]
        yield take_away
        yield [write("after.txt"), call("glob", pattern="*"), complete()]
        assert seen.text.count("anna no longer holds task_1") == 3
        yield [write("after.txt")]
        assert "anna no longer holds task_1" in seen.text
        yield "It was taken away."

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 1
    task = ran.task()
    assert (task.status, task.attempts[-1].outcome) == ("pending", "forced")
    assert len(ran.of("task_claimed")) == 1, "it does not take back what was taken from it"
    assert git(root, "log", "--oneline", "main..team/one") == "", "nothing was committed"
    assert (root / "worktrees" / "one" / "before.txt").exists(), "and nothing was lost"
    assert not (root / "worktrees" / "one" / "after.txt").exists()
    assert "still yours" not in ran.shown("anna")


def test_a_task_that_is_taken_from_an_idle_teammate_is_forgotten(root: Path) -> None:
    def take_away() -> None:
        outside(root).board.release_by_force("task_1")
        outside(root).board.cancel("task_1")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield [spawn("anna", task_id="task_1")]
        yield until("agent_state", "anna", state="idle")
        yield take_away
        yield from waiting(seen)

    def anna(seen: Seen) -> Iterator[Any]:
        yield [call("send_message", to="lead", content="Which name?")]
        yield "I wait for the answer."

    ran = run_team(root, {"lead": lead, "anna": anna})
    assert ran.result.exit_code == 0
    assert ran.turns("anna") == 2, "no reminder of what is not its own any more"


def test_whoever_has_it_next_is_not_disturbed_by_the_one_who_lost_it(root: Path) -> None:
    def hand_over() -> None:
        board = outside(root).board
        board.release_by_force("task_1")
        board.claim("task_1", "person")

    def anna(seen: Seen) -> Iterator[Any]:
        yield [write("before.txt")]
        yield hand_over
        yield [complete(), call("update_task", task_id="task_1", status="failed", note="mine!")]
        assert seen.text.count("person holds it") == 2
        yield "Lost."

    lead = started(bound_task(), [spawn("anna", task_id="task_1")])
    ran = run_team(root, {"lead": lead, "anna": anna})
    task = ran.task()
    assert (task.status, task.owner) == ("in_progress", "person")
    assert git(root, "log", "--oneline", "main..team/one") == ""


def test_a_task_that_a_person_adds_while_the_run_lasts_is_picked_up(root: Path) -> None:
    def add() -> None:
        workspace = outside(root)
        task = workspace.board.create("From the command line", worktree="added")
        workspace.work.bind("added", task.id)

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("anna")]
        yield until("agent_state", "anna", state="idle")
        yield add
        yield from waiting(seen)

    ran = run_team(root, {"lead": lead, "anna": worker})
    assert ran.result.exit_code == 0
    assert (ran.task().status, ran.task().owner) == ("completed", "anna")


def test_open_tasks_of_earlier_runs_are_left_alone(root: Path) -> None:
    board = outside(root).board
    board.create("A person's, from before")
    board.create("Of another session", session="s-20200101-000000-abcd")
    held = board.claim(board.create("Held by hand").id, "person")
    lead = started([spawn("anna")], bound_task("one", 4))
    ran = run_team(root, {"lead": lead, "anna": worker})
    assert ran.result.exit_code == 0
    assert [task["id"] for task in ran.result.tasks] == ["task_4"]
    assert [t.status for t in board.list()] == ["pending", "pending", "in_progress", "completed"]
    board.complete(held)


def test_a_task_whose_worktree_is_gone_fails_by_name_and_nobody_works_elsewhere(
    root: Path,
) -> None:
    def remove() -> None:
        (root / "worktrees" / "one").rename(root / "elsewhere")

    def lead(seen: Seen) -> Iterator[Any]:
        yield bound_task()
        yield remove
        yield [spawn("anna")]
        yield from waiting(seen)

    ran = run_team(root, {"lead": lead, "anna": worker})
    assert ran.result.exit_code == 1
    assert ran.task().status == "failed"
    assert "is gone" in ran.task().attempts[-1].note
    assert "A task could not be started" in ran.shown("lead")


def test_dependants_start_from_what_their_blockers_made(root: Path) -> None:
    tasks = [*bound_task("one", 1), *bound_task("two", 2, blockedBy=["task_1"])]

    def anna(seen: Seen) -> Iterator[Any]:
        for number in (1, 2):
            yield "Idle."
            assert own(seen) == number
            if number == 2:
                yield [call("read_file", path="1.txt")]
                assert "text" in seen.text
            yield [write(f"{number}.txt")]
            yield [complete(number)]

    ran = run_team(root, {"lead": started([spawn("anna")], tasks), "anna": anna})
    assert ran.result.exit_code == 0
    assert ran.file_on("team/two", "1.txt") == "text"


def test_a_check_that_fails_leaves_the_task_with_its_owner(root: Path) -> None:
    def anna(seen: Seen) -> Iterator[Any]:
        yield [complete()]
        assert "task_1 was not completed" in seen.text
        yield [write("needed.txt")]
        yield [complete()]
        yield "Done."

    lead = started(bound_task(check="test -f needed.txt"), [spawn("anna", task_id="task_1")])
    assert run_team(root, {"lead": lead, "anna": anna}).result.exit_code == 0
