"""Plans: only the current revision counts, only for its claim, only by somebody else's word."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from team_runtime.errors import InputError, PlanRefused, RecordBroken
from team_runtime.plans.files import check_files, covers
from team_runtime.plans.model import Gate, Plan, Revision
from team_runtime.plans.store import PlanStore
from tests.support.state import Events, make_store, together

AT = ("alice", "task_1", 1)
MINE = (*AT, "s-1")


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def plans(tmp_path: Path, events: Events) -> PlanStore:
    return PlanStore(make_store(tmp_path), events)


def test_a_plan_opens_the_gate_when_it_is_approved(plans: PlanStore, events: Events) -> None:
    assert plans.gate(*AT) is Gate.NONE
    plan, revision = plans.submit(*MINE, "1. do\n2. check")
    assert (plan.id, revision.number, revision.state) == ("plan_1", 1, "pending")
    assert plans.gate(*AT) is Gate.PENDING
    assert plans.pending() == [plan]
    _, decided = plans.decide(revision.request_id, True, "lead", "go")
    assert (decided.state, decided.decided_by, decided.feedback) == ("approved", "lead", "go")
    assert decided.hash == revision.hash
    assert plans.gate(*AT) is Gate.APPROVED
    assert plans.pending() == []
    common = {"request_id": revision.request_id, "revision": 1, "task": "task_1", "plan": "plan_1"}
    assert events.seen == [
        ("plan_submitted", "alice", {**common, "text": "1. do\n2. check"}),
        (
            "plan_decided",
            "alice",
            {**common, "decision": "approved", "by": "lead", "feedback": "go"},
        ),
    ]


def test_a_rejected_plan_stays_shut_until_a_new_revision_is_approved(plans: PlanStore) -> None:
    """claude-code#27265: a later reject was ignored."""
    _, first = plans.submit(*MINE, "one")
    plans.decide(first.request_id, False, "lead", "too short")
    assert plans.gate(*AT) is Gate.REJECTED
    _, second = plans.submit(*MINE, "two")
    assert second.number == 2
    assert second.request_id != first.request_id
    for late in (True, False):
        with pytest.raises(PlanRefused, match="not the current one; that is revision 2"):
            plans.decide(first.request_id, late, "lead")
    assert plans.gate(*AT) is Gate.PENDING
    plans.decide(second.request_id, True, "lead")
    assert plans.gate(*AT) is Gate.APPROVED


def test_only_one_revision_waits_at_a_time(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    with pytest.raises(PlanRefused, match=revision.request_id):
        plans.submit(*MINE, "two")
    assert plans.get("plan_1").revisions == (revision,)


def test_a_blank_plan_is_no_plan(plans: PlanStore) -> None:
    with pytest.raises(InputError):
        plans.submit(*MINE, " \n")
    assert plans.list() == []


def test_a_decision_counts_once(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    plans.decide(revision.request_id, False, "lead")
    with pytest.raises(PlanRefused, match="already rejected by lead"):
        plans.decide(revision.request_id, True, "person")
    assert plans.gate(*AT) is Gate.REJECTED


def test_nobody_reviews_their_own_plan(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    for decide in (
        partial(plans.decide, revision.request_id),
        partial(plans.decide_revision, "plan_1", 1),
    ):
        with pytest.raises(PlanRefused, match="alice"):
            decide(True, "alice")
    assert plans.gate(*AT) is Gate.PENDING


@pytest.mark.parametrize(
    "forged",
    ["", "plan_1", "plan_1-r1-00000000", "plan_9-r1-00000000", "../plan_1-r1-00000000", "yes"],
)
def test_a_forged_request_id_decides_nothing(plans: PlanStore, forged: str) -> None:
    plans.submit(*MINE, "one")
    with pytest.raises(PlanRefused, match="no plan request"):
        plans.decide(forged, True, "lead")
    assert plans.gate(*AT) is Gate.PENDING


def test_request_ids_cannot_be_guessed_from_each_other(plans: PlanStore) -> None:
    ids = [plans.submit("alice", "task_1", n, "s-1", "x")[1].request_id for n in range(20)]
    assert len({id_.rpartition("-")[2] for id_ in ids}) == 20


def test_a_demand_shuts_the_gate_and_voids_what_was_approved(plans: PlanStore) -> None:
    _, first = plans.submit(*MINE, "one")
    plans.decide(first.request_id, True, "lead")
    plan, wanted = plans.demand(*MINE, "say how you test it")
    assert [r.state for r in plan.revisions] == ["superseded", "requested"]
    assert (wanted.number, wanted.feedback) == (2, "say how you test it")
    assert plans.gate(*AT) is Gate.REQUESTED
    with pytest.raises(PlanRefused, match="not the current"):
        plans.decide(first.request_id, True, "lead")
    with pytest.raises(PlanRefused, match="not been submitted"):
        plans.decide(wanted.request_id, True, "lead")
    assert len(plans.demand(*MINE, "again")[0].revisions) == 2
    _, second = plans.submit(*MINE, "two")
    assert second.number == 2
    plans.decide(second.request_id, True, "lead")
    assert plans.gate(*AT) is Gate.APPROVED


def test_a_demand_while_one_is_pending_voids_that_one(plans: PlanStore) -> None:
    _, old = plans.submit(*MINE, "one")
    plans.demand(*MINE)
    with pytest.raises(PlanRefused):
        plans.decide(old.request_id, True, "lead")
    assert plans.gate(*AT) is Gate.REQUESTED


def test_an_approval_holds_for_its_agent_task_and_claim_only(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    plans.decide(revision.request_id, True, "lead")
    for other in (("bob", "task_1", 1), ("alice", "task_2", 1), ("alice", "task_1", 2)):
        assert plans.gate(*other) is Gate.NONE
    assert plans.gate("alice", None, 1) is Gate.NONE
    _, free = plans.submit("alice", None, 0, "s-1", "before any task")
    assert plans.gate("alice", None, 0) is Gate.PENDING
    assert free.request_id.startswith("plan_2-r1-")


def test_an_approval_carries_over_to_the_resumed_claim(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    _, approved = plans.decide(revision.request_id, True, "lead")
    carried = plans.carry_over("alice", "task_1", 1, 2)
    assert carried is not None
    assert carried.revisions == (approved,)
    assert plans.gate("alice", "task_1", 2) is Gate.APPROVED
    assert plans.gate(*AT) is Gate.NONE
    assert plans.carry_over("alice", "task_1", 1, 2) is None
    assert plans.carry_over("bob", "task_1", 2, 3) is None


def test_a_pending_plan_can_still_be_decided_after_a_resume(plans: PlanStore) -> None:
    _, revision = plans.submit(*MINE, "one")
    plans.carry_over("alice", "task_1", 1, 2)
    plans.decide(revision.request_id, True, "person")
    assert plans.gate("alice", "task_1", 2) is Gate.APPROVED


def test_a_person_decides_by_number(plans: PlanStore) -> None:
    plans.submit(*MINE, "one")
    plans.decide_revision("plan_1", 1, False, "person", "no")
    plans.submit(*MINE, "two")
    with pytest.raises(PlanRefused, match="not the current"):
        plans.decide_revision("plan_1", 1, True, "person")
    with pytest.raises(PlanRefused, match="no revision 3"):
        plans.decide_revision("plan_1", 3, True, "person")
    with pytest.raises(InputError, match="no plan 'plan_7'"):
        plans.decide_revision("plan_7", 1, True, "person")
    plans.decide_revision("plan_1", 2, True, "person")
    assert plans.gate(*AT) is Gate.APPROVED


def test_reviewers_that_race_decide_once(plans: PlanStore, tmp_path: Path) -> None:
    for n in range(5):
        _, revision = plans.submit("alice", "task_1", n, "s-1", "x")

        def decide(approve: bool, request_id: str = revision.request_id) -> str | None:
            try:
                return PlanStore(make_store(tmp_path)).decide(request_id, approve, "lead")[1].state
            except PlanRefused:
                return None

        answers = together(*(partial(decide, k % 2 == 0) for k in range(6)))
        (decision,) = {answer for answer in answers if answer}
        assert answers.count(None) == 5
        assert plans.gate("alice", "task_1", n).value == decision


def test_plans_outlive_the_process_with_unknown_fields(plans: PlanStore, tmp_path: Path) -> None:
    _, revision = plans.submit(*MINE, "Grüße")
    path = tmp_path / ".team" / "plans" / "plan_1.json"
    record = json.loads(path.read_text())
    assert set(record) == {"v", "id", "agent", "task", "epoch", "session", "revisions"}
    assert record["revisions"][0]["requestId"] == revision.request_id
    path.write_text(json.dumps({**record, "extra": 1}))
    again = PlanStore(make_store(tmp_path))
    again.decide(revision.request_id, True, "lead")
    assert json.loads(path.read_text())["extra"] == 1
    assert again.list()[0].revisions[0].text == "Grüße"


def test_a_text_that_was_changed_after_submission_is_not_approved(
    plans: PlanStore, tmp_path: Path
) -> None:
    _, revision = plans.submit(*MINE, "harmless")
    path = tmp_path / ".team" / "plans" / "plan_1.json"
    path.write_text(path.read_text().replace("harmless", "harmful!"))
    with pytest.raises(RecordBroken, match="hashed"):
        plans.decide(revision.request_id, True, "lead")


@pytest.mark.parametrize("data", [b"", b"[]", b'{"id": "plan_1"}', b"\xff"])
def test_a_broken_plan_is_set_aside_and_blocks_no_other(
    plans: PlanStore, tmp_path: Path, data: bytes
) -> None:
    plans.submit(*MINE, "one")
    plans.submit("bob", "task_2", 1, "s-1", "two")
    (tmp_path / ".team" / "plans" / "plan_1.json").write_bytes(data)
    assert [plan.agent for plan in plans.list()] == ["bob"]
    assert plans.submit("carol", "task_3", 1, "s-1", "three")[0].id == "plan_3"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["submit", "demand", "approve", "reject", "late"]), max_size=12)
)
def test_whatever_happens_only_an_approved_newest_revision_opens_the_gate(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    plans = PlanStore(make_store(tmp_path_factory.mktemp("plans")))
    asked: list[str] = []
    expected = Gate.NONE
    for step in steps:
        with suppress(PlanRefused):
            asked, expected = take_step(plans, step, asked)
        assert plans.gate(*AT) is expected


def take_step(plans: PlanStore, step: str, asked: list[str]) -> tuple[list[str], Gate]:
    """The request ids so far and what the gate must be after a step that was not refused."""
    done: tuple[Plan, Revision]
    if step == "submit":
        done = plans.submit(*MINE, "text")
        return [*asked, done[1].request_id], Gate.PENDING
    if step == "demand":
        plans.demand(*MINE)
        return asked, Gate.REQUESTED
    if step == "late":
        plans.decide(asked[-2] if len(asked) > 1 else "none", True, "lead")
        raise AssertionError("an earlier revision was decided")
    plans.decide(asked[-1] if asked else "none", step == "approve", "lead")
    return asked, Gate.APPROVED if step == "approve" else Gate.REJECTED


@pytest.mark.parametrize(
    "file",
    ["/etc/passwd", "../x", "a/../../x", "", ".", ".git/config", ".TEAM/x", "a\nb", "x" * 201],
)
def test_a_plan_names_only_files_that_there_can_be(plans: PlanStore, file: str) -> None:
    with pytest.raises(InputError, match="cannot name"):
        plans.submit(*MINE, "one", ["ok.txt", file])
    assert plans.list() == []


def test_the_files_are_a_part_of_what_is_approved(plans: PlanStore) -> None:
    hashes = {
        plans.submit("alice", "task_1", number, "s-1", "one", files)[1].hash
        for number, files in enumerate([None, [], ["a"], ["a", "b"], ["a/"], ["a/**/b"]])
    }
    assert len(hashes) == 6


def test_files_that_were_changed_on_disk_are_not_the_ones_that_were_approved(
    plans: PlanStore, tmp_path: Path
) -> None:
    plan, revision = plans.submit(*MINE, "one", ["a.txt"])
    plans.decide(revision.request_id, True, "lead")
    assert plans.files(*MINE[:3]) == ("a.txt",)
    file = next(tmp_path.rglob(f"{plan.id}.json"))
    file.write_text(file.read_text().replace("a.txt", "b.txt"))
    assert plans.files(*MINE[:3]) is None
    assert plans.gate(*MINE[:3]) is Gate.NONE


@given(
    st.lists(st.sampled_from(["a", "a/b", "a/", "*", "a/**", "**/c", "b*"])),
    st.sampled_from(["a", "a/b", "a/b/c", "b", "bc", "c"]),
)
def test_more_files_never_cover_less(files: list[str], path: str) -> None:
    named = check_files(files)
    for count in range(len(named)):
        assert covers(named, path) or not covers(named[:count], path)
