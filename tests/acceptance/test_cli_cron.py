"""`team cron`: schedules from the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from team_runtime.daemons.schedules import LONGEST_PROMPT
from team_runtime.store.files import Store
from team_runtime.store.presence import RunPresence, hold_daemon
from tests.support.cli import team_here
from tests.support.schedules import draft
from tests.support.scripted_team import outside


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")


@contextmanager
def going(store: Store, session: str) -> Iterator[None]:
    """A run of the session, as others see it."""
    presence = RunPresence.start(store, {"session": session})
    try:
        yield
    finally:
        presence.end()


def test_a_schedule_is_added_listed_shown_and_removed(tmp_path: Path) -> None:
    added = team_here(tmp_path, "cron", "add", "30 9 * * mon-fri", "check the build")
    assert added.code == 0
    assert "'30 9 * * mon-fri' Europe/Berlin  wakes a new session/lead" in added.out
    assert "no daemon runs here; start `team daemon`" in added.err

    (listed,) = team_here(tmp_path, "cron", "list", "--json").json
    assert listed["prompt"] == "check the build"
    assert listed["misfire"] == "once"
    assert listed["next"][10:16] == "T09:30"
    assert "It has not fired yet." in team_here(tmp_path, "cron", "history", listed["id"]).out

    assert team_here(tmp_path, "cron", "remove", listed["id"]).code == 0
    assert team_here(tmp_path, "cron", "list", "--json").json == []
    assert team_here(tmp_path, "cron", "list").out == "No schedules.\n"


def test_one_json_value_and_nothing_else(tmp_path: Path) -> None:
    added = team_here(tmp_path, "cron", "add", "@daily", "-", "--json", stdin="from a pipe\n")
    assert json.loads(added.out)["prompt"] == "from a pipe\n"


def test_the_options_are_kept(tmp_path: Path) -> None:
    session = outside(tmp_path).sessions.create({"agents": [{"name": "anna", "role": "r"}]})["id"]
    arguments = ["--tz", "Asia/Tokyo", "--session", session, "--to", "anna", "--misfire", "all"]
    arguments += ["--once", "--expires", "2099-01-01T00:00", "--jitter", "30", "--json"]
    added = team_here(tmp_path, "cron", "add", "0 3 * * *", "x", *arguments).json
    assert added["zone"] == "Asia/Tokyo"
    assert (added["session"], added["to"]) == (session, "anna")
    assert (added["misfire"], added["recurring"], added["jitter"]) == ("all", False, 30)
    assert added["expires"] == "2098-12-31T15:00:00Z"
    listed = team_here(tmp_path, "cron", "list").out
    assert f"  until 2099-01-01T00:00:00+09:00  missed: all  wakes {session}/anna  x" in listed


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["0 0 30 2 *", "x"], "no such day"),
        (["5-1 * * * *", "x"], "runs backwards"),
        (["* * * * * *", "x"], "use five cron fields"),
        (["@reboot", "x"], "use five cron fields"),
        (["at 2001-01-01T00:00", "x"], "has passed"),
        (["@daily", "x", "--tz", "Mars/Olympus"], "no time zone"),
        (["@daily", " "], "the prompt is empty"),
        (["@daily", "é" * (LONGEST_PROMPT + 1)], f"at most {LONGEST_PROMPT}"),
        (["@daily", "x", "--to", "anna"], "name one with --session"),
        (["@daily", "x", "--session", "nope"], "no session id"),
        (["@daily", "x", "--expires", "noon"], "no ISO time"),
        (["@yearly", "x", "--expires", "2001-01-01T00:00"], "expire before"),
        (["@daily", "x", "--jitter", "-1"], "jitter"),
        (["@daily"], "PROMPT"),
    ],
)
def test_bad_input_is_refused_and_stores_nothing(
    tmp_path: Path, arguments: list[str], problem: str
) -> None:
    refused = team_here(tmp_path, "cron", "add", *arguments)
    assert refused.code == 2
    assert problem in refused.err
    assert refused.out == ""
    assert outside(tmp_path).schedules.entries() == []


def test_an_agent_of_no_session_is_refused_with_those_that_are_there(tmp_path: Path) -> None:
    session = outside(tmp_path).sessions.create({})["id"]
    refused = team_here(tmp_path, "cron", "add", "@daily", "x", "--session", session, "--to", "bob")
    assert refused.code == 2
    assert "agents: lead" in refused.err


@pytest.mark.parametrize("command", [["add", "@daily", "x"], ["remove", "cron_00000000"]])
def test_an_agent_cannot_do_it_from_a_command(
    tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_AGENT", "anna")
    refused = team_here(tmp_path, "cron", *command)
    assert refused.code == 4
    assert "only a person may" in refused.err


@pytest.mark.parametrize("command", ["remove", "history"])
def test_an_unknown_schedule_is_named(tmp_path: Path, command: str) -> None:
    refused = team_here(tmp_path, "cron", command, "cron_00000000")
    assert refused.code == 2
    assert "there is no schedule 'cron_00000000'; schedules: none" in refused.err


def test_next_prints_one_time_with_its_offset_a_line(tmp_path: Path) -> None:
    arguments = ["30 1 * * *", "--tz", "America/New_York", "--from", "2026-10-31T12:00", "-n", "3"]
    shown = team_here(tmp_path, "cron", "next", *arguments)
    assert shown.out.splitlines() == [
        *("2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00", "2026-11-03T01:30:00-05:00"),
    ]
    assert team_here(tmp_path, "cron", "next", *arguments, "--json").json == shown.out.split()
    assert list(tmp_path.iterdir()) == [], "nothing is stored"


def test_next_is_strictly_later_and_in_this_machines_zone(tmp_path: Path) -> None:
    shown = team_here(tmp_path, "cron", "next", "@hourly", "--from", "2026-06-01T09:00", "-n", "1")
    assert shown.out == "2026-06-01T10:00:00+02:00\n"


@pytest.mark.parametrize(
    ("when", "times"),
    [
        ("in 3 minutes", ["2026-06-01T09:03:00+02:00"]),
        ("at 2026-06-01T18:00", ["2026-06-01T18:00:00+02:00"]),
    ],
)
def test_next_of_a_one_shot_is_one_time(tmp_path: Path, when: str, times: list[str]) -> None:
    shown = team_here(tmp_path, "cron", "next", when, "--from", "2026-06-01T09:00", "--json")
    assert shown.json == times


@pytest.mark.parametrize(
    "arguments",
    [
        ["0 0 30 2 *"],
        ["at 2026-06-01T08:59", "--from", "2026-06-01T09:00"],
        ["@daily", "--from", "yesterday"],
        ["@daily", "--from", "9999-12-31T23:59"],
        ["@daily", "--tz", "nowhere"],
        ["@daily", "-n", "0"],
    ],
)
def test_next_refuses_what_can_never_fire(tmp_path: Path, arguments: list[str]) -> None:
    refused = team_here(tmp_path, "cron", "next", *arguments)
    assert (refused.code, refused.out) == (2, "")


def test_a_wrong_zone_of_the_machine_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Nowhere/Land")
    assert team_here(tmp_path, "cron", "next", "@daily").code == 2
    assert team_here(tmp_path, "cron", "next", "@daily", "--tz", "UTC").code == 0


def test_status_says_what_comes_next_and_that_nobody_is_there_to_fire_it(tmp_path: Path) -> None:
    assert "schedule" not in team_here(tmp_path, "status").out
    far, near = (
        team_here(tmp_path, "cron", "add", f"at {year}-12-01T09:00", "x", "--json").json["id"]
        for year in (2099, 2098)
    )
    shown = team_here(tmp_path, "status").out
    assert f"2 schedules, next {near} at 2098-12-01T09:00:00+01:00; nothing fires them" in shown
    assert [s["id"] for s in team_here(tmp_path, "status", "--json").json["schedules"]] == [
        near,
        far,
    ]
    with hold_daemon(outside(tmp_path).store):
        assert "nothing fires them" not in team_here(tmp_path, "status").out


def test_status_counts_what_a_run_beside_it_does_not_fire(tmp_path: Path) -> None:
    workspace = outside(tmp_path)
    mine, other = (workspace.sessions.create({})["id"] for _ in range(2))
    for session in (mine, other, None):
        workspace.schedules.add(draft("at 2099-12-01T09:00", session=session))
    workspace.schedules.add(draft("at 2098-12-01T09:00", session=other, durable=False))
    assert "3 schedules, next cron_" in team_here(tmp_path, "status").out
    with going(workspace.store, mine):
        assert "; nothing fires 2 of them: no daemon runs here" in team_here(tmp_path, "status").out
    with hold_daemon(workspace.store):
        assert "nothing fires" not in team_here(tmp_path, "status").out


def test_what_has_fired_and_is_not_over_is_shown_with_who_goes_on_with_it(tmp_path: Path) -> None:
    """Killed in the middle: the list said that it was over, and nobody was sent for."""
    workspace = outside(tmp_path)
    session = workspace.sessions.create({})["id"]
    id = workspace.schedules.add(draft("at 2026-06-01T14:05", session=session)).id
    assert f"{id}  2026-06-01T14:05:00+00:00  (overdue)" in team_here(tmp_path, "cron", "list").out
    workspace.schedules.decide(id, workspace.store.clock.now())

    listed = team_here(tmp_path, "cron", "list").out
    assert f"{id}  fired  (that of 2026-06-01T14:05:00+00:00 is not over)" in listed
    assert team_here(tmp_path, "cron", "list", "--json").json[0]["open"] == [
        "2026-06-01T14:05:00+00:00"
    ]
    about = f"  {id} of 2026-06-01T14:05:00+00:00 is not over; "
    resume = f"`team daemon` or `team run --resume {session}`"
    assert f"{about}nothing goes on with it: start {resume}" in team_here(tmp_path, "status").out
    with hold_daemon(workspace.store):
        assert f"{about}the daemon goes on with it" in team_here(tmp_path, "status").out
        with going(workspace.store, session):
            assert f"{about}lead is at it" in team_here(tmp_path, "status").out


@pytest.mark.parametrize(("failures", "times"), [(1, "a failure"), (2, "2 failures")])
def test_a_schedule_that_pauses_says_until_when(tmp_path: Path, failures: int, times: str) -> None:
    workspace = outside(tmp_path)
    schedules = workspace.schedules
    id = schedules.add(draft("* * * * *", zone="Asia/Tokyo", misfire="all")).id
    fired = schedules.decide(id, workspace.store.clock.now())
    for firing in fired[failures:]:
        schedules.acknowledged(id, firing.slot)
    for firing in fired[:failures]:
        schedules.failed(id, firing.slot, "no", backs_off=True)
    failed_at = schedules.get(id).history.failed_at
    assert failed_at is not None
    until = failed_at.astimezone(ZoneInfo("Asia/Tokyo")) + timedelta(minutes=failures)
    expected = f"(paused until {until.isoformat(timespec='seconds')} after {times})"
    assert expected in team_here(tmp_path, "cron", "list").out


def test_a_one_shot_does_not_recur(tmp_path: Path) -> None:
    added = team_here(tmp_path, "cron", "add", "in 3 minutes", "x", "--json").json
    assert not added["recurring"]


@pytest.mark.parametrize(
    ("folder", "name", "command"),
    [(".team/schedules", "cron_0000beef.json", "cron"), (".tasks", "task_1.json", "tasks")],
)
def test_a_command_that_sets_a_broken_file_aside_says_so(
    tmp_path: Path, folder: str, name: str, command: str
) -> None:
    """An answer without it would look as if it had never been there."""
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / folder / name).write_text("{")
    listed = team_here(tmp_path, command, "list", "--json")
    assert listed.json == []
    assert f"team: set a broken file aside: {tmp_path / folder / name} is now" in listed.err
    assert team_here(tmp_path, command, "list").err == ""


def test_a_schedule_of_a_newer_version_is_named_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".team/schedules").mkdir(parents=True)
    newer = tmp_path / ".team/schedules/cron_0000beef.json"
    newer.write_text('{"v": 99}')
    assert "was written by a newer version" in team_here(tmp_path, "cron", "list").err
    assert newer.read_text() == '{"v": 99}'
