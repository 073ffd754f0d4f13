"""Background commands of a team: who is told what and when, what waits for them, what ends them."""

from __future__ import annotations

import re
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import pytest

from team_runtime.daemons.job_parts import JobLimits
from team_runtime.daemons.job_records import Job
from team_runtime.daemons.jobs import Jobs
from team_runtime.errors import InputError
from team_runtime.guard.hook_config import PythonHook
from team_runtime.types import Block
from tests.support.api import Seen, team_environment
from tests.support.cli import team_here
from tests.support.confined import bubblewrap
from tests.support.interrupted import eventually
from tests.support.scripted_team import (
    Event,
    Ran,
    Script,
    bound_task,
    call,
    complete,
    make_repository,
    outside,
    run_team,
    spawn,
    until,
    when_idle,
)

ENDED = until("job_ended")
IDLE = until("agent_state", "lead", state="idle")
UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"
"""What a job of the lead does until there is a file `go`."""
KEY = "canary-" + "4711" * 4
NOTIFICATION = re.compile(r"<task_notification ([^>]*)>(.*?)</task_notification>", re.DOTALL)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "it's a «repo»")


def job(command: str, **more: Any) -> Block:
    """A call that starts a job."""
    return call("bash", command=command, run_in_background=True, **more)


def run(root: Path, lead: Script, **more: Any) -> Ran:
    """A run whose lead may run any command."""
    scripts = {"lead": lead, **more.pop("scripts", {})}
    return run_team(root, scripts, **{"allow": ("Bash",), "sandbox": "off", **more})


def jobs_in(root: Path) -> list[Job]:
    return outside(root).jobs.all()


def told(ran: Ran, agent: str = "lead") -> list[tuple[str, str]]:
    """The attributes and the text of each notification that the agent got."""
    return NOTIFICATION.findall(ran.shown(agent))


def test_slow_work_returns_a_placeholder_and_wakes_the_idle_agent_once(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job(f"echo '<b>'; {UNTIL_GO}; exit 3")]
        assert "Started job_1." in seen.text
        yield "I wait."
        yield "I have seen it."

    ran = run(root, lead, also=when_idle("lead", (root / "go").touch))
    assert ran.result.ending.text == "I have seen it."
    ((attributes, text),) = told(ran)
    assert attributes == 'job="job_1" status="failed" exit_code="3"'
    assert "failed with exit code 3" in text
    assert text.endswith("Its output:\n&lt;b&gt;\n")
    (ended,) = jobs_in(root)
    assert (ended.status, ended.exit_code, ended.told, ended.bytes) == ("failed", 3, True, 4)
    assert [e["moved"] for e in ran.of("job_started", "lead")] == [False]
    assert [e["status"] for e in ran.of("job_ended", "lead")] == ["failed"]


def test_words_in_a_command_start_no_job(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command="echo pip install, npm test, make, docker build")]
        yield "Done."

    assert not run(root, lead).of("job_started")


def test_a_command_that_outlives_its_time_goes_on_without_losing_a_byte(root: Path) -> None:
    lines = "for i in $(seq {} {}); do echo line $i; done"
    command = f"{lines.format(1, 200)}; {UNTIL_GO}; {lines.format(201, 400)}; echo end $$"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("bash", command=command, timeout=0.5)]
        assert "goes on as job_1" in seen.text
        yield [call("job_output", job_id="job_1")]
        yield (root / "go").touch
        yield ENDED
        yield "Waiting."
        yield [call("job_output", job_id="job_1", cursor=0)]
        expected = "".join(f"line {i}\n" for i in range(1, 401))
        assert expected in seen.text
        yield "Done."

    ran = run(root, lead)
    assert ran.result.exit_code == 0
    ((attributes, text),) = told(ran)
    assert 'status="completed" exit_code="0"' in attributes
    assert "line 400\nend " in text
    assert [e["moved"] for e in ran.of("job_started")] == [True]


def test_output_is_read_on_and_nothing_new_appears_after_the_end(root: Path) -> None:
    """claude-code#7479: phantom output after the exit."""
    gate = root / "go"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [
            job("printf 'a\\303'; until [ -e go ]; do sleep 0.02; done; printf '\\251b\\377\\000c'")
        ]
        part = root / ".team/jobs/job_1/000000000000000.out"
        yield lambda: wait_for(lambda: part.exists() and part.stat().st_size)
        yield [call("job_output", job_id="job_1")]
        assert "cursor=1\na" in seen.text
        gate.touch()
        yield ENDED
        yield [call("job_output", job_id="job_1")]
        assert "cursor=7\néb\ufffd\0c" in seen.text
        yield [call("job_output", job_id="job_1")]
        assert "cursor=7\n(no new output)" in seen.text
        yield "Done."

    assert run(root, lead).result.exit_code == 0


def wait_for(holds: Any) -> None:
    """Look until it holds."""
    for _ in range(1000):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it never held")


def test_an_agent_sees_all_jobs_and_ends_only_its_own(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 60"), *bound_task(), spawn("ann", task_id="task_1")]
        yield until("job_started", "ann")
        yield [call("list_jobs"), call("kill_job", job_id="job_2")]
        assert "job_2 was ended." in seen.text
        yield until("task_completed")
        yield [call("kill_job", job_id="job_1")]
        yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 60"), call("list_jobs"), call("kill_job", job_id="job_1")]
        assert "job_1 of lead: running since" in seen.text
        assert "job_1 belongs to lead, who may end it; it goes on." in seen.text
        yield until("job_ended", job="job_2")
        yield [complete()]
        yield "Done."

    ran = run(root, lead, scripts={"ann": ann})
    assert [job.status for job in jobs_in(root)] == ["killed", "killed"]
    ((attributes, text),) = told(ran, "ann")
    assert 'job="job_2" status="killed" exit_code="143"' in attributes
    assert "was ended: lead ended it" in text


def test_a_task_is_not_completed_while_its_job_runs_and_nobody_is_reminded(root: Path) -> None:
    """claude-code#94221: nothing is committed, landed or removed under a job that still writes."""
    gate = root / "go"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task(), spawn("ann", task_id="task_1")]
        yield until("agent_state", "ann", state="idle")
        assert outside(root).board.get("task_1").status == "in_progress"
        gate.touch()
        yield "Waiting."
        yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [job("until [ -e ../../go ]; do sleep 0.02; done; echo late >made.txt")]
        yield [complete()]
        assert "job_1 still runs in its directory" in seen.text
        yield "I wait for it."
        assert "task_notification" in seen.text
        yield [complete()]
        yield "Done."

    ran = run(root, lead, scripts={"ann": ann})
    assert ran.result.exit_code == 0, ran.result
    assert ran.file_on("team/one", "made.txt") == "late"
    assert "is still yours" not in ran.shown("ann")


def test_a_job_that_ends_just_when_it_is_looked_for_reminds_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its mail was not there when the mail was looked at, and is there once it has ended."""
    runs = Jobs.can_wake

    def ends_meanwhile(jobs: Jobs, agent: str) -> bool:
        if runs(jobs, agent):
            (root / "go").touch()
            wait_for(lambda: not runs(jobs, agent))
        return False

    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task(), spawn("ann", task_id="task_1")]
        yield until("task_completed")
        while True:
            yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [job("until [ -e ../../go ]; do sleep 0.01; done")]
        yield "I wait for it."
        yield [complete()]
        yield "Done."

    monkeypatch.setattr(Jobs, "can_wake", ends_meanwhile)
    ran = run(root, lead, scripts={"ann": ann})
    assert ran.result.exit_code == 0, ran.result
    assert len(told(ran, "ann")) == 1
    assert "is still yours" not in ran.shown("ann")


def test_a_run_goes_on_when_a_job_ends_and_is_told_while_its_end_is_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the looks at who works and at who has mail its agent is woken and takes it in."""
    told_of = threading.Event()
    is_awaited = Jobs.is_awaited

    def meanwhile(jobs: Jobs) -> bool:
        (root / "go").touch()
        assert told_of.wait(20)
        return is_awaited(jobs)

    def hear(event: Event) -> None:
        if event["kind"] == "message_delivered" and event["type"] == "notification":
            told_of.set()

    def ann(seen: Seen) -> Iterator[Any]:
        for _ in range(2):
            yield [job(f"cd ../..; {UNTIL_GO}; sleep 0.5")]
            yield "I wait for it."
        yield [complete()]
        yield "Done."

    monkeypatch.setattr(Jobs, "is_awaited", meanwhile)
    lead = [bound_task(), [spawn("ann", task_id="task_1")], *["Waiting."] * 9]
    ran = run(root, lambda seen: iter(lead), scripts={"ann": ann}, also=hear)
    assert ran.result.exit_code == 0
    assert ran.task().status == "completed"


@pytest.mark.parametrize("how", ["fails", "stops"])
def test_the_jobs_of_a_task_that_is_given_back_are_ended_first(root: Path, how: str) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [*bound_task(), spawn("ann", task_id="task_1")]
        yield until("job_started", "ann")
        if how == "stops":
            yield [call("request_shutdown", teammate="ann")]
        yield ENDED
        yield "Done."
        while True:
            yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [job("while :; do date +%N >made.txt; done")]
        if how == "fails":
            yield [call("update_task", task_id="task_1", status="failed", note="No.")]
        else:
            yield until("agent_state", "ann", state="stopping")
        yield "Done."

    ran = run(root, lead, scripts={"ann": ann})
    (ended,) = jobs_in(root)
    assert ended.status == "killed"
    kind = "task_failed" if how == "fails" else "task_released"
    assert ran.place("job_ended") < ran.place(kind)


def test_the_job_of_an_agent_that_ended_is_handed_to_the_lead(root: Path) -> None:
    """claude-code#17764: a job outlives its agent and somebody still watches it."""
    gate = root / "go"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [spawn("ann")]
        yield until("job_started", "ann")
        yield [call("request_shutdown", teammate="ann")]
        yield until("agent_state", "ann", state="stopped")
        gate.touch()
        yield "Waiting."
        while True:
            yield "Done."

    def ann(seen: Seen) -> Iterator[Any]:
        yield [job("until [ -e go ]; do sleep 0.02; done; echo for whom")]
        yield until("agent_state", "ann", state="stopping")
        yield "Done."

    ran = run(root, lead, scripts={"ann": ann}, sandbox="auto", sandbox_allows_commands=True)
    if not ran.of("job_started"):
        pytest.skip("no sandbox here, so an agent without a task runs nothing")
    ((_, text),) = told(ran)
    assert text.endswith("for whom\n")


@pytest.mark.parametrize("per", ["agent", "team"])
def test_too_many_jobs_are_refused_and_a_slow_command_is_ended_then(root: Path, per: str) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 60"), job("sleep 60"), job("sleep 60")]
        assert "No job was started: " in seen.text
        yield [call("bash", command="echo slow; sleep 60", timeout=0.2)]
        assert "Error: the command was ended after 0.2 seconds" in seen.text
        assert seen.text.count("No job was started: ") == 1
        yield [call("kill_job", job_id="job_1"), call("kill_job", job_id="job_2")]
        yield "Done."

    ran = run(root, lead, **{f"jobs_per_{per}": 2})
    assert [job.status for job in jobs_in(root)] == ["killed", "killed"]
    assert ran.result.exit_code == 0


def test_a_job_that_takes_too_long_is_ended(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 60", timeout=0.2), job("sleep 60")]
        yield "Waiting."
        while True:
            yield "Done."

    ran = run(root, lead, job_seconds=0.4)
    assert [text.split(".")[0] for _, text in told(ran)] == [
        "`sleep 60` was ended: it took longer than 0",
        "`sleep 60` was ended: it took longer than 0",
    ]


def test_the_lead_is_asked_once_about_a_job_that_goes_on_and_on(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 60; : development server")]
        yield "Waiting."
        assert "Nothing else is left to wait for but this" in seen.text
        assert ": development server" in seen.text
        yield "I let it run."
        yield "Done."

    with patch(
        "team_runtime.app.assembly.job_limits", lambda s: JobLimits(long_seconds=0.2, seconds=2)
    ):
        ran = run(root, lead)
    assert ran.shown("lead").count("Nothing else is left") == 1
    assert ran.turns("lead") == 4


def test_no_key_is_kept_in_a_jobs_output(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "key").write_text(KEY)
    environ = {**team_environment(root.parent), "OTHER_API_KEY": KEY}
    monkeypatch.setattr("tests.support.scripted_team.team_environment", lambda home: environ)

    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("cat key")]
        yield "Waiting."
        yield "Done."

    ran = run(root, lead)
    assert "[secret]" in told(ran)[0][1]
    kept = [p.read_bytes() for p in (root / ".team").rglob("*") if p.is_file()]
    assert not any(KEY.encode() in data for data in kept)


@pytest.mark.parametrize("sandbox", ["off", "auto"])
def test_memory_is_limited_when_asked_for(root: Path, sandbox: str) -> None:
    eats = "python3 -c 'x = bytearray(2 ** 29); print(len(x))'"

    def lead(seen: Seen) -> Iterator[Any]:
        yield [job(eats), call("bash", command=eats)]
        assert "MemoryError" in seen.text
        yield "Waiting."
        yield "Done."

    ran = run(root, lead, sandbox=sandbox, command_memory=2**28)
    assert "MemoryError" in told(ran)[0][1]


def test_a_memory_limit_that_nothing_can_hold_is_an_error(root: Path) -> None:
    with (
        patch("team_runtime.process.detection._limiter", lambda path: None),
        pytest.raises(InputError, match="prlimit is not there"),
    ):
        run(root, lambda seen: iter(()), sandbox="off", command_memory=2**28)


def test_a_time_limit_ends_jobs_and_the_resumed_agent_is_told_once(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("sleep 61 & setsid sleep 61 & echo begun; touch begun; wait")]
        yield lambda: eventually((root / "begun").exists)
        yield "Waiting."

    first = run(root, lead, timeout=0.1, timed_from=IDLE)
    assert first.result.exit_code == 3
    (ended,) = jobs_in(root)
    assert (ended.status, ended.reason) == ("killed", "a limit of the run was reached")
    assert ended.told

    def again(seen: Seen) -> Iterator[Any]:
        yield "I know."

    second = run(root, again, resume=first.result.session)
    ((attributes, text),) = told(second)
    assert 'status="killed"' in attributes
    assert "begun" in text
    third = run(root, again, resume=first.result.session)
    assert third.turns("lead") == 0


def test_ids_still_mean_the_same_jobs_after_a_restart(root: Path) -> None:
    """claude-code#29193, claude-code#29263, claude-code#90036: ids are unknown later, so results
    are lost and work is begun twice."""

    def lead(seen: Seen) -> Iterator[Any]:
        names = ("one", "two", "three")
        yield [job(f"echo {name}; touch {name}; sleep 60") for name in names]
        yield lambda: eventually(lambda: all((root / name).exists() for name in names))
        yield "Waiting."

    def again(seen: Seen) -> Iterator[Any]:
        yield [call("list_jobs"), call("job_output", job_id="job_2"), job("sleep 60")]
        assert seen.text.count("was ended: a limit of the run was reached") >= 3
        assert "cursor=4\ntwo\n" in seen.text
        assert "Started job_4." in seen.text
        yield [call("kill_job", job_id="job_4")]
        yield "Done."

    first = run(root, lead, timeout=0.1, timed_from=IDLE)
    second = run(root, again, resume=first.result.session)
    assert len(told(second)) == 4


def test_a_stop_hook_is_told_what_runs_and_asked_again_when_it_has_ended(root: Path) -> None:
    """claude-code#83266: a Stop hook is neither skipped for a job nor blocked by one that has
    ended."""
    asked: list[list[Any]] = []

    def note(payload: Any) -> None:
        asked.append(payload["background_tasks"])
        (root / "go").touch()

    def lead(seen: Seen) -> Iterator[Any]:
        yield [job(UNTIL_GO)]
        yield "Waiting."
        yield "Done."

    run(root, lead, hooks=[PythonHook("Stop", note)])
    assert [[(t["id"], t["status"]) for t in tasks] for tasks in asked] == [
        [("job_1", "running")],
        [],
    ]


def test_the_command_line_lists_shows_and_ends_jobs_of_a_live_run(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen_there: dict[str, Any] = {}

    def look() -> None:
        seen_there["list"] = team_here(root, "jobs", "list", "--json").json
        seen_there["status"] = team_here(root, "status", "--json").json["jobs"]
        wait_for(lambda: team_here(root, "jobs", "output", "job_1").out == "hello\n")
        monkeypatch.setenv("TEAM_AGENT", "lead")
        seen_there["refused"] = team_here(root, "jobs", "kill", "job_1").code
        monkeypatch.delenv("TEAM_AGENT")
        seen_there["kill"] = team_here(root, "jobs", "kill", "job_1")

    def lead(seen: Seen) -> Iterator[Any]:
        yield [job("echo hello; sleep 60")]
        yield look
        yield "Waiting."
        yield "Done."

    ran = run(root, lead)
    assert [each["status"] for each in seen_there["list"]] == ["running"]
    assert [each["id"] for each in seen_there["status"]] == ["job_1"]
    assert seen_there["refused"] == 4
    assert seen_there["kill"].code == 0
    assert "job_1 of lead: was ended: a person ended it" in seen_there["kill"].out
    assert len(told(ran)) == 1
    assert list((root / ".team/jobs/requests").iterdir()) == []
    assert team_here(root, "jobs", "output", "job_9").code == 2


def test_a_job_whose_limits_cannot_be_set_says_so(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bubblewrap()  # found before limits fail

    def fail() -> None:
        monkeypatch.setattr(resource, "prlimit", Mock(side_effect=PermissionError(1, "not you")))

    def lead(seen: Seen) -> Iterator[Any]:
        yield fail
        yield [job("touch ran")]
        yield ENDED
        while True:
            yield "Fine."

    ran = run(root, lead, sandbox="required")
    assert "was ended: its limits cannot be set" in ran.shown("lead")
    assert not (root / "ran").exists()
