"""Approvals: one answer, bound to what was asked, before it lapses and while its asker lives."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.approvals import store
from team_runtime.approvals.model import Approval, Asker, Cause, Subject
from team_runtime.approvals.store import ApprovalStore
from team_runtime.clock import SystemEntropy
from team_runtime.errors import ApprovalRefused, InputError, RecordBroken
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout
from team_runtime.types import Liveness
from tests.support.state import Events, Presences, make_store, together

PUSH = Subject("bash", {"command": "git push"}, "/work/app")
ANNA = Asker("anna", "s-1", "run-1", "task_1")
DEFAULT = Cause("no rule allows this command", None, "default")


class Hands:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2026, 11, 30, 18, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def hands() -> Hands:
    return Hands()


@pytest.fixture
def presences() -> Presences:
    return Presences()


@pytest.fixture
def approvals(tmp_path: Path, hands: Hands, presences: Presences, events: Events) -> ApprovalStore:
    layout = Layout(tmp_path)
    layout.prepare()
    files = Store(layout, hands, SystemEntropy(), "process")
    return ApprovalStore(files, presences.liveness, events)


def ask(approvals: ApprovalStore, subject: Subject = PUSH, seconds: float = 60) -> Approval:
    return approvals.ask(ANNA, subject, DEFAULT, seconds)


def refused(answer: Callable[[], object]) -> str:
    with pytest.raises(ApprovalRefused) as refusal:
        answer()
    assert refusal.value.exit_code == 4
    return str(refusal.value)


def test_a_question_is_on_disk_before_anybody_is_asked(
    approvals: ApprovalStore, events: Events, tmp_path: Path
) -> None:
    asked = ask(approvals)
    assert asked.status == "waiting"
    record = json.loads((tmp_path / ".team" / "approvals" / "approval_1.json").read_text())
    expected: dict[str, Any] = {
        "kind": "permission",
        "agent": "anna",
        "session": "s-1",
        "run": "run-1",
        "task": "task_1",
        "tool": "bash",
        "input": {"command": "git push"},
        "hash": PUSH.hash,
        "reason": "no rule allows this command",
        "rule": None,
        "origin": "default",
        "askedAt": "2026-11-30T18:00:00.000000Z",
        "deadline": "2026-11-30T18:01:00.000000Z",
        "status": "waiting",
    }
    assert {key: record[key] for key in expected} == expected
    ((kind, agent, told),) = events.seen
    assert (kind, agent, told["approval"]) == ("approval_asked", "anna", "approval_1")
    assert told["subject"] == "bash git push"


@pytest.mark.parametrize(("allow", "status"), [(True, "allowed"), (False, "denied")])
def test_an_answer_counts_once(
    approvals: ApprovalStore, events: Events, allow: bool, status: str
) -> None:
    asked = ask(approvals)
    done = approvals.answer(asked.id, allow, "because")
    assert (done.status, done.answered_by, done.note) == (status, "person", "because")
    assert approvals.get(asked.id) == done
    assert approvals.waiting() == []
    for again in (True, False):
        text = refused(partial(approvals.answer, asked.id, again))
        assert f"was already {status} by person (because)" in text
    assert approvals.get(asked.id) == done
    assert events.kinds() == ["approval_asked", "approval_answered"]


def test_an_answer_after_the_deadline_is_no(approvals: ApprovalStore, hands: Hands) -> None:
    asked = ask(approvals, seconds=60)
    hands.at += timedelta(seconds=60)
    assert approvals.waiting() == []
    assert "lapsed at 2026-11-30T18:01:00" in refused(partial(approvals.answer, asked.id, True))
    assert approvals.get(asked.id).status == "expired"


def test_an_answer_to_a_run_that_has_died_runs_nothing(
    approvals: ApprovalStore, presences: Presences
) -> None:
    asked = ask(approvals)
    presences.known["run-1"] = Liveness.DEAD
    assert approvals.waiting() == []
    text = refused(partial(approvals.answer, asked.id, True))
    assert "was withdrawn (the run that asked has died)" in text
    assert approvals.get(asked.id).status == "withdrawn"


def test_tidying_ends_what_nobody_can_answer_and_nothing_else(
    approvals: ApprovalStore, presences: Presences, hands: Hands
) -> None:
    ask(approvals, seconds=10)
    approvals.ask(replace(ANNA, run="run-2"), PUSH, DEFAULT, 100)
    kept = ask(approvals, seconds=100)
    presences.known["run-2"] = Liveness.DEAD
    hands.at += timedelta(seconds=20)
    approvals.tidy()
    assert [a.status for a in approvals.list()] == ["expired", "withdrawn", "waiting"]
    assert approvals.waiting() == [kept]


def test_a_question_that_was_answered_is_not_withdrawn(approvals: ApprovalStore) -> None:
    asked = ask(approvals)
    done = approvals.answer(asked.id, True)
    assert approvals.end(asked.id, "withdrawn", "too late") == done
    assert approvals.get(asked.id).status == "allowed"


def test_a_refusal_for_want_of_a_person_is_kept(approvals: ApprovalStore, events: Events) -> None:
    done = approvals.record_refusal(ANNA, PUSH, DEFAULT, "nobody was there")
    assert (done.status, done.answered_by) == ("denied", "runtime")
    assert approvals.waiting() == []
    assert approvals.list() == [done]
    assert events.kinds() == ["approval_answered"]


@pytest.mark.parametrize(
    "unknown", ["", "approval_0", "approval_9", "../plans/plan_1", "plan_1", "x"]
)
def test_an_unknown_approval_is_bad_input(approvals: ApprovalStore, unknown: str) -> None:
    ask(approvals)
    with pytest.raises(InputError, match="no approval"):
        approvals.answer(unknown, True)


def test_answers_that_race_count_once(tmp_path: Path, presences: Presences) -> None:
    for _ in range(5):
        asked = ask(ApprovalStore(make_store(tmp_path), presences.liveness))

        def answer(allow: bool, approval_id: str = asked.id) -> str | None:
            try:
                approvals = ApprovalStore(make_store(tmp_path), presences.liveness)
                return approvals.answer(approval_id, allow).status
            except ApprovalRefused:
                return None

        answers = together(*(partial(answer, n % 2 == 0) for n in range(6)))
        (status,) = {status for status in answers if status}
        assert answers.count(None) == 5
        approvals = ApprovalStore(make_store(tmp_path), presences.liveness)
        assert approvals.get(asked.id).status == status


@pytest.mark.parametrize(
    "change",
    [
        {"input": {"command": "git push --force"}},
        {"tool": "write_file"},
        {"directory": "/elsewhere"},
        {"paths": ["other"]},
        {"hash": "0" * 64},
    ],
)
def test_an_answer_holds_for_what_was_asked_and_for_nothing_else(
    approvals: ApprovalStore, tmp_path: Path, change: dict[str, Any]
) -> None:
    """A file whose subject was changed is never answered."""
    ask(approvals)
    path = tmp_path / ".team" / "approvals" / "approval_1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(RecordBroken, match="hashed"):
        approvals.answer("approval_1", True)


@given(
    st.tuples(st.text(), st.text(), st.text(), st.lists(st.text(), max_size=2)),
    st.tuples(st.text(), st.text(), st.text(), st.lists(st.text(), max_size=2)),
)
def test_two_calls_have_one_hash_only_when_they_are_the_same(one: Any, two: Any) -> None:
    def subject(parts: Any) -> Subject:
        tool, command, directory, paths = parts
        return Subject(tool, {"command": command}, directory, tuple(paths))

    assert (subject(one).hash == subject(two).hash) == (one == two)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b'{"id": "approval_1"}', b"\xff", b'{"v": 1, "deadline": "soon"}'],
)
def test_a_broken_approval_is_set_aside_and_blocks_no_other(
    approvals: ApprovalStore, tmp_path: Path, data: bytes
) -> None:
    ask(approvals)
    other = ask(approvals)
    (tmp_path / ".team" / "approvals" / "approval_1.json").write_bytes(data)
    assert approvals.waiting() == [other]
    assert ask(approvals).id == "approval_3"


def test_an_id_is_not_used_again_when_its_file_is_deleted(
    approvals: ApprovalStore, tmp_path: Path
) -> None:
    """Whoever read the first question must not answer the second by its name."""
    ask(approvals)
    (tmp_path / ".team" / "approvals" / "approval_1.json").unlink()
    assert ask(approvals).id == "approval_2"


def test_an_agent_that_asks_for_ever_fills_no_disk_and_no_question_is_lost(
    approvals: ApprovalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_KEPT", 5)
    waiting = ask(approvals)
    for _ in range(20):
        approvals.record_refusal(ANNA, PUSH, DEFAULT, "nobody was there")
    found = approvals.list()
    assert found[0] == waiting
    assert [each.id for each in found[1:]] == [f"approval_{n}" for n in range(17, 22)]
    assert ask(approvals).id == "approval_22"


def test_approvals_outlive_the_process_with_unknown_fields(
    approvals: ApprovalStore, tmp_path: Path
) -> None:
    ask(approvals, replace(PUSH, input={"command": "echo Grüße \ud800"}))
    path = tmp_path / ".team" / "approvals" / "approval_1.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "extra": 1}))
    approvals.answer("approval_1", True)
    assert json.loads(path.read_text())["extra"] == 1
