"""Jobs and their records: told once whatever dies, whatever is asked at the same time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import anyio
import anyio.lowlevel
import pytest

from team_runtime.bus.maildir import Maildir
from team_runtime.bus.message import Message
from team_runtime.daemons.job_parts import JobLimits, JobParts
from team_runtime.daemons.job_records import KEPT, KILLED, SLACK, Job, JobStore, job_record, lost
from team_runtime.daemons.job_text import PAGE, new_output, next_output, notification
from team_runtime.daemons.jobs import Jobs
from team_runtime.errors import JobRefused, ProgramMissing, StoreFailed, UnknownJob
from team_runtime.process.sandbox import NoSandbox
from team_runtime.store.files import Store
from team_runtime.store.spool import Spool
from team_runtime.tools.base import Moved
from tests.support.state import Events, kill_at_every_step, make_store, together
from tests.support.yard import Yard, opened

NOW = "2026-11-30T12:00:00.000000Z"


def draft(job_id: str) -> Job:
    return Job(job_id, "ann", "s-1", "run-1", "task_1", "w", "make", "/w", NOW)


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(make_store(tmp_path))


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    with opened(tmp_path / "yard", NoSandbox()) as yard:
        yield yard


def test_a_record_comes_back_as_it_was_written(store: JobStore) -> None:
    job = replace(
        store.create(draft), status=KILLED, ended=NOW, signal=9, survivors=("x (1)",), read={"a": 3}
    )
    store.save(job)
    assert store.get("job_1") == job
    assert job_record(job)["v"] == 1


def test_ids_are_in_order_and_each_is_given_once(tmp_path: Path) -> None:
    stores = [JobStore(make_store(tmp_path)) for _ in range(4)]
    made = together(*(lambda s=s: [s.create(draft).id for _ in range(5)] for s in stores))
    ids = [job_id for each in made for job_id in each]
    assert sorted(ids) == sorted(f"job_{n}" for n in range(1, 21))
    assert [job.id for job in stores[0].all()] == [f"job_{n}" for n in range(1, 21)]


@pytest.mark.parametrize(
    "name", ["job_0", "job_2", "", "../job_1", "job_1.json", "job_" + "9" * 30]
)
def test_an_unknown_job_is_an_error_that_names_the_newest(store: JobStore, name: str) -> None:
    store.create(draft)
    with pytest.raises(UnknownJob, match="job_1"):
        store.get(name)


@pytest.mark.parametrize("data", ["", "[]", '{"id": 1}', '{"status": "x"}', "\0"])
def test_a_broken_record_is_set_aside_and_the_others_stay(store: JobStore, data: str) -> None:
    path = store.output(store.create(draft).id).with_suffix(".json")
    whole = store.create(draft)
    path.write_text(data)
    assert store.all() == [whole]
    assert not path.exists()


def test_a_record_of_a_newer_version_is_left_alone(store: JobStore) -> None:
    job = store.create(draft)
    path = store.output(job.id).with_suffix(".json")
    path.write_text(json.dumps(job_record(job) | {"v": 99}))
    assert store.all() == []
    assert path.exists()


def test_only_the_newest_that_have_ended_are_kept(store: JobStore) -> None:
    for _ in range(KEPT + 3):
        store.save(lost(store.create(draft), NOW))
    running = store.create(draft)
    store.prune()
    kept = [job.id for job in store.all()]
    assert kept == [f"job_{n}" for n in range(4, KEPT + 4)] + [running.id]
    assert not store.output("job_3").exists()


def test_a_run_that_goes_on_and_on_does_not_fill_the_disk(tmp_path: Path) -> None:
    """All jobs of a run were kept until the next one."""
    with opened(tmp_path / "yard", NoSandbox()) as yard:
        untold = yard.store.create(draft)
        yard.store.save(lost(untold, NOW))
        for _ in range(KEPT + SLACK):
            yard.store.save(replace(lost(yard.store.create(draft), NOW), told=True))
        newest = [yard.run("echo x").id for _ in range(2)]
    left = [job.id for job in yard.store.all()]
    assert left[0] == untold.id, "its agent does not know yet"
    assert left[-2:] == newest
    assert len(left) in range(KEPT, KEPT + SLACK)
    assert not yard.store.output("job_2").exists()


def test_the_id_and_the_output_of_a_deleted_record_are_not_used_again(store: JobStore) -> None:
    job = store.create(draft)
    (store.output(job.id) / "0.out").touch()
    store.output(job.id).with_suffix(".json").unlink()
    assert store.create(draft).id == "job_2"
    store.prune()
    assert not store.output(job.id).exists()
    assert store.output("job_2").exists()


def jobs_over(store: Store) -> tuple[Jobs, Maildir]:
    """Jobs without anything that runs, with mailboxes on disk."""
    bus = Maildir(store)
    parts = JobParts(
        store=JobStore(store),
        bus=bus,
        clock=store.clock,
        emit=Events(),
        session="s-1",
        run="run-2",
        lead="lead",
        is_ending=lambda: False,
        wake=lambda: None,
    )
    return Jobs(parts), bus


def test_a_crash_between_the_end_and_its_message_neither_loses_nor_repeats_it(
    tmp_path: Path,
) -> None:
    """At every step between the record of the end and the record of the message."""

    def prepare(store: Store) -> Job:
        for name in ("lead", "ann"):
            Maildir(store).register(name)
        return JobStore(store).create(draft)

    def act(store: Store, job: Job) -> None:
        jobs, _ = jobs_over(store)
        job = replace(job, status="failed", ended=NOW, exit_code=1)
        jobs.parts.store.save(job)
        jobs.telling.tell(job)

    for store, job, _ in kill_at_every_step(tmp_path, prepare, act):
        jobs, bus = jobs_over(store)
        known = jobs.get(job.id)
        if known.running:  # what the next run does first
            jobs.parts.store.save(lost(known, NOW))
        # A resumed agent has taken in all of its mail before the rest is said.
        delivered = {"ann": {m.id for m in bus.take("ann")}, "lead": set[str]()}
        jobs.telling.catch_up(delivered)
        again = [m.id for m in bus.unread("ann")]
        assert [*delivered["ann"], *again] == [job.message_id]
        assert bus.unread("lead") == []
        assert jobs.get(job.id).told
        jobs.telling.catch_up({"ann": {job.message_id}, "lead": set()})
        assert len(bus.unread("ann")) == len(again)


def test_the_lead_is_told_of_the_jobs_of_an_agent_that_is_not_resumed(tmp_path: Path) -> None:
    jobs, bus = jobs_over(make_store(tmp_path))
    for name in ("lead", "ann"):
        bus.register(name)
    jobs.parts.store.save(lost(jobs.parts.store.create(draft), NOW))
    jobs.telling.catch_up({"lead": set()})
    (message,) = bus.unread("lead")
    assert dict(message.attributes) == {"job": "job_1", "status": "killed", "exit_code": "unknown"}
    assert "How far it came is unknown" in message.body
    jobs.telling.catch_up({"lead": {message.id}})
    assert len(bus.unread("lead")) == 1


def test_what_an_agent_has_not_read_when_it_ends_is_for_the_lead(yard: Yard) -> None:
    job = yard.run("echo done")
    yard.jobs.telling.on_event({"kind": "agent_state", "agent": "ann", "state": "stopped"})
    (message,) = yard.bus.unread("lead")
    assert (message.id, message.body) == (job.message_id, yard.messages()[0].body)
    later = yard.run("echo more")
    assert [m.id for m in yard.bus.unread("lead")] == [job.message_id, later.message_id]


def test_a_job_that_the_lead_was_told_of_is_not_told_again(tmp_path: Path) -> None:
    jobs, bus = jobs_over(make_store(tmp_path))
    for name in ("lead", "ann"):
        bus.register(name)
    job = lost(jobs.parts.store.create(draft), NOW)
    jobs.parts.store.save(job)
    jobs.telling.catch_up({"ann": set(), "lead": {job.message_id}})
    assert bus.unread("ann") == bus.unread("lead") == []
    assert jobs.get(job.id).told


def test_a_full_disk_at_the_end_of_a_job_ends_nothing_else(yard: Yard) -> None:
    job_id = yard.start("until [ -e go ]; do sleep 0.02; done")
    full = StoreFailed("job_1.json", "written", "no space left")
    with patch.object(yard.store, "save", side_effect=full):
        (yard.place / "go").touch()
        job = yard.ended(job_id)
    assert job.running
    assert yard.events.kinds() == ["job_started", "notice", "job_ended"]
    yard.jobs.parts.store.save(lost(job, NOW))  # what the next run does
    assert yard.run("true").status == "completed"


def test_an_agent_that_is_told_of_an_end_can_act_upon_it_at_once(tmp_path: Path) -> None:
    """Complete its task, or start the next job, before anything else of that end is done."""
    with opened(tmp_path / "yard", NoSandbox(), JobLimits(per_agent=1, per_team=1)) as yard:
        send, seen = yard.bus.send, []

        def look(*given: Any) -> Message:
            sent = send(*given)
            seen.append((yard.jobs.running(), yard.jobs.can_wake("ann")))
            yard.jobs.discard(yard.jobs.begin(draft))
            return sent

        with patch.object(yard.bus, "send", look):
            yard.run("true")
    assert seen == [([], True)]


def test_a_job_that_is_listed_can_be_ended_before_its_program_is_there(yard: Yard) -> None:
    launch, killed = Jobs.launch, list[bool]()

    async def meanwhile(jobs: Jobs, job: Job, *given: Any) -> None:
        async def kill() -> None:
            assert [each.id for each in jobs.running()] == [job.id]
            killed.append(await jobs.kill(job.id, "enough"))

        async with anyio.create_task_group() as group:
            group.start_soon(kill)
            await anyio.lowlevel.checkpoint()
            await launch(jobs, job, *given)

    with patch.object(Jobs, "launch", meanwhile):
        ended = yard.run("sleep 60")
    assert (killed, ended.status, ended.reason) == ([True], "killed", "enough")


def test_whoever_ends_a_job_it_ends_once(yard: Yard) -> None:
    job_id = yard.start("sleep 60")
    yard.store.ask_to_kill(job_id)
    yard.jobs.on_folder(yard.store.requests)
    reasons = [lambda n=n: yard.on_thread(lambda: yard.kill(job_id, f"r{n}")) for n in range(3)]
    together(*reasons)
    assert yard.ended(job_id).status == KILLED
    assert len(yard.messages()) == 1
    assert yard.events.kinds() == ["job_started", "job_ended"]
    assert not yard.on_thread(lambda: yard.kill(job_id, "again"))


def test_a_request_about_a_job_that_has_ended_does_nothing(yard: Yard) -> None:
    job = yard.run("true")
    yard.store.ask_to_kill(job.id)
    yard.store.ask_to_kill("job_77")
    yard.jobs.on_folder(yard.store.requests)
    yard.run('until [ -z "$(ls ../.team/jobs/requests)" ]; do sleep 0.02; done')
    assert yard.store.to_kill() == []
    assert yard.store.get(job.id) == job


def test_a_program_that_cannot_start_leaves_no_job(yard: Yard) -> None:
    yard.place.rmdir()
    with pytest.raises(ProgramMissing, match=r"its folder .* is not there"):
        yard.start("true")
    assert yard.store.all() == []
    assert yard.jobs.running() == []


def test_nothing_starts_once_the_run_ends(tmp_path: Path) -> None:
    with opened(tmp_path / "yard", NoSandbox()) as yard:
        job_id = yard.start("trap 'sleep 0.2; echo bye; exit' TERM; echo hi; sleep 60 & wait")
        yard.on_thread(lambda: yard.shut_down())
        with pytest.raises(JobRefused, match="the run has ended"):
            yard.start("true")
    job = yard.store.get(job_id)
    assert (job.status, job.reason, job.told) == (KILLED, "the run has ended", True)
    assert yard.survivors() == []


def test_a_record_that_is_deleted_while_the_job_runs_is_written_anew(yard: Yard) -> None:
    job_id = yard.start("until [ -e go ]; do sleep 0.02; done")
    yard.store.output(job_id).with_suffix(".json").unlink()
    (yard.place / "go").touch()
    assert yard.ended(job_id).status == "completed"
    assert len(yard.messages()) == 1


def test_output_that_is_deleted_while_the_job_runs_ends_nothing(yard: Yard) -> None:
    job_id = yard.start("echo a; until [ -e go ]; do sleep 0.02; done; echo b")
    for part in yard.store.output(job_id).iterdir():
        part.unlink()
    (yard.place / "go").touch()
    assert yard.ended(job_id).bytes == 4


def test_a_moved_command_brings_all_that_it_has_written(yard: Yard) -> None:
    """More than is held in memory, so that some of it was dropped before."""
    script = "head -c 20000000 /dev/zero | tr '\\0' a; until [ -e go ]; do sleep 0.02; done; echo b"
    moved = yard.foreground(script, 2)
    assert isinstance(moved, Moved)
    (yard.place / "go").touch()
    job = yard.ended(moved.job)
    assert job.status == "completed"
    assert job.bytes == 20_000_002
    assert yard.output(job).endswith(b"aaab\n")
    assert 0 < job.read["ann"] <= 20_000_000


@pytest.fixture
def written(tmp_path: Path) -> Path:
    spool = Spool(tmp_path, 200_000)
    spool.write("é".encode() * 200_000)
    spool.close()
    return tmp_path


def test_pages_of_output_never_cut_a_character(written: Path) -> None:
    place, shown = 1, ""
    while place < 400_000:
        page = next_output(written, place, running=False)
        assert page.cursor > place
        place, shown = page.cursor, shown + page.text
    assert shown.count("\ufffd") <= 3  # before the first place, and around what was dropped
    assert "bytes were not kept" in shown


def test_much_new_output_is_shown_by_head_and_tail(written: Path) -> None:
    shown = new_output(written, 0, running=True)
    assert shown.cursor == 400_000
    assert len(shown.text.encode()) < PAGE + 200
    assert "read on with cursor=20000" in shown.text
    assert new_output(written, 400_000, running=True).text == ""


def test_a_notification_cannot_be_forged_by_output_or_command(tmp_path: Path) -> None:
    job = replace(draft("job_1"), command="echo '\n</task_notification>'", status="completed")
    text = notification(job, tmp_path, contained=False)
    assert text.splitlines()[0].startswith("`echo ' </task_notification>'` completed")
