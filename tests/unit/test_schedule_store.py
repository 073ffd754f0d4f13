"""Schedules on disk: kept, read by everybody, broken files set aside, each slot given out once."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from team_runtime.daemons import schedule_store
from team_runtime.daemons.schedule_codec import schedule_record
from team_runtime.daemons.schedule_store import ScheduleStore
from team_runtime.daemons.schedules import ALL
from team_runtime.errors import InputError
from tests.support.clocks import HandClock
from tests.support.schedules import NOON, at, draft, hand_store, schedules_in
from tests.support.state import Events, program, together


@pytest.fixture
def clock() -> HandClock:
    return HandClock(NOON)


@pytest.fixture
def schedules(tmp_path: Path, clock: HandClock) -> ScheduleStore:
    return schedules_in(tmp_path, clock)


def files(root: Path) -> list[Path]:
    return sorted((root / ".team" / "schedules").iterdir())


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_what_was_added_is_read_by_everybody(
    schedules: ScheduleStore, tmp_path: Path, clock: HandClock
) -> None:
    full = draft(
        zone="Europe/Berlin",
        to="anna",
        durable=False,
        recurring=False,
        misfire=ALL,
        expires=at("18:00"),
        jitter=30,
    )
    added = schedules.add(full)
    (entry,) = schedules_in(tmp_path, clock).entries()
    assert schedule_record(entry.schedule) == schedule_record(added)
    assert entry.next == at("12:10")
    assert [path.stat().st_mode & 0o777 for path in files(tmp_path)] == [0o600]


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"when": "5-1 * * * *"}, "runs backwards"),
        ({"when": "at 2026-06-01T11:59"}, "has passed"),
        ({"zone": "Mars/Olympus"}, "no time zone"),
        ({"prompt": " \n"}, "blank"),
        ({"misfire": "maybe"}, "use one of skip, once, all"),
        ({"expires": at("12:05")}, "expire before it fires"),
    ],
)
def test_what_can_never_fire_is_refused_and_not_stored(
    schedules: ScheduleStore, tmp_path: Path, wrong: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        schedules.add(draft(**wrong))
    assert schedules.entries() == []


def test_a_schedule_that_is_both_durable_and_recurring_fires_each_time(
    schedules: ScheduleStore, clock: HandClock
) -> None:
    """claude-code#75188: listed, and never fired."""
    id = schedules.add(draft(durable=True, recurring=True)).id
    fired = [len(schedules.decide(id, NOON + timedelta(minutes=n))) for n in range(31)]
    assert sum(fired) == 3


@pytest.mark.parametrize("restarts", [False, True])
def test_a_daily_schedule_fires_each_day_for_a_month(
    schedules: ScheduleStore, tmp_path: Path, clock: HandClock, restarts: bool
) -> None:
    """gascity#2599: it vanished after days. openclaw#11912, openclaw#10021: a restart, here one
    each hour, moved its next time by two days."""
    id = schedules.add(draft("0 9 * * *")).id
    fired = []
    for hour in range(30 * 24):
        now = clock.wall = NOON + timedelta(hours=hour)
        store = schedules_in(tmp_path, clock) if restarts else schedules
        (entry,) = store.entries()
        assert entry.next is not None
        assert now - timedelta(hours=1) < entry.next <= now + timedelta(days=1)
        for firing in store.decide(id, now):
            store.acknowledged(id, firing.slot)
            fired.append(now)
    assert fired == [NOON + timedelta(hours=21, days=day) for day in range(30)]


@pytest.mark.parametrize(
    "when",
    ["2038-01-19T03:14:07", "2038-01-19T03:14:08", "2040-02-29T00:00", "2106-02-07T06:28:16"],
)
def test_moments_that_do_not_fit_into_32_bits(
    schedules: ScheduleStore, tmp_path: Path, clock: HandClock, when: str
) -> None:
    """agor#554: milliseconds in an integer of 32 bits."""
    slot = datetime.fromisoformat(when).replace(tzinfo=UTC)
    id = schedules.add(draft(f"at {when}")).id
    assert schedules_in(tmp_path, clock).get(id).next == slot
    assert schedules.decide(id, slot - timedelta(seconds=1)) == []
    (firing,) = schedules.decide(id, slot)
    schedules.delivered(id, firing.slot)
    (kept,) = schedules_in(tmp_path, clock).get(id).history.firings
    assert (kept.slot, kept.state) == (slot, "delivered")


def test_two_writers_lose_nothing(tmp_path: Path, clock: HandClock) -> None:
    stores = [schedules_in(tmp_path, clock) for _ in range(4)]
    together(*(lambda each=each: each.add(draft()) for each in stores))
    assert len(stores[0].entries()) == 4


def test_an_unchanged_schedule_is_not_read_again(schedules: ScheduleStore, tmp_path: Path) -> None:
    schedules.add(draft())
    (before,) = schedules.entries()
    assert schedules.entries()[0] is before
    edit(files(tmp_path)[0], prompt="another one")
    (after,) = schedules.entries()
    assert after.schedule.prompt == "another one"


def test_a_schedule_written_by_hand_or_by_a_hook_is_picked_up(
    schedules: ScheduleStore, tmp_path: Path
) -> None:
    schedules.add(draft())
    record = json.loads(files(tmp_path)[0].read_text())
    record |= {"id": "cron_0000beef", "when": "30 13 * * *", "mine": [1]}
    (tmp_path / ".team/schedules/cron_0000beef.json").write_text(json.dumps(record))
    assert "cron_0000beef" in [entry.schedule.id for entry in schedules.entries()]
    assert schedules.decide("cron_0000beef", at("13:30"))
    assert schedules.get("cron_0000beef").schedule.extra == {"mine": [1]}


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"v": 1}', b"\xff", b'{"v": 1, "id": "cron_ffffffff"}'],
)
def test_a_broken_schedule_is_set_aside_and_the_others_fire(
    schedules: ScheduleStore, tmp_path: Path, content: bytes
) -> None:
    schedules.add(draft())
    broken = tmp_path / ".team/schedules/cron_ffffffff.json"
    broken.write_bytes(content)
    assert len(schedules.entries()) == 1
    assert not broken.exists()
    assert len(list((tmp_path / ".team/quarantine").iterdir())) == 2
    assert len(schedules.entries()) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"when": "never"},
        {"zone": "X/Y"},
        {"jitter": "much"},
        {"jitter": -5},
        {"jitter": 10**9},
        {"to": "../bob"},
        {"createdAt": "0001-01-01T00:00:00Z"},
        {"createdAt": "9999-12-31T23:59:59-12:00"},
        {"expires": "9999-12-31T23:59:59Z"},
    ],
)
def test_an_edit_by_hand_that_makes_no_sense_is_set_aside_with_the_reason(
    schedules: ScheduleStore, tmp_path: Path, change: dict[str, object]
) -> None:
    schedules.add(draft())
    edit(files(tmp_path)[0], **change)
    assert schedules.entries() == []
    reasons = [p.read_text() for p in (tmp_path / ".team/quarantine").glob("*.why")]
    assert len(reasons) == 1


def test_a_newer_format_is_left_alone(schedules: ScheduleStore, tmp_path: Path) -> None:
    schedules.add(draft())
    edit(files(tmp_path)[0], v=99)
    assert schedules.entries() == []
    assert len(files(tmp_path)) == 1


def test_a_newer_history_silences_its_schedule_and_no_other(
    tmp_path: Path, clock: HandClock
) -> None:
    """As when two versions of the program work in one workspace."""
    events = Events()
    schedules = schedules_in(tmp_path, clock, events)
    one, other = (schedules.add(draft()).id for _ in range(2))
    schedules.decide(one, at("12:10"))
    history = tmp_path / f".team/schedules/{one}.history.json"
    edit(history, v=99)
    before = history.read_bytes()
    assert [entry.schedule.id for entry in schedules.entries()] == [other]
    assert schedules.decide(one, at("12:20")) == []
    assert history.read_bytes() == before
    assert "newer version" in next(f["text"] for kind, _, f in events.seen if kind == "notice")


@pytest.mark.parametrize(
    "change",
    [
        {"cursor": "9999-12-31T23:59:59Z"},
        {"failedAt": "0001-01-01T00:00:00+05:00"},
        {"firings": [{"slot": "0001-01-01T00:00:00Z", "state": "recorded", "at": "x"}]},
    ],
)
def test_a_history_of_moments_beyond_all_reckoning_is_a_broken_one(
    schedules: ScheduleStore, tmp_path: Path, clock: HandClock, change: dict[str, object]
) -> None:
    id = schedules.add(draft(zone="Pacific/Kiritimati")).id
    schedules.decide(id, at("12:10"))
    edit(tmp_path / f".team/schedules/{id}.history.json", **change)
    clock.jump(at("12:10"))
    assert schedules.entries()[0].next == at("12:20")
    assert schedules.decide(id, at("12:10")) == []


def test_a_broken_history_fires_nothing_a_second_time(
    schedules: ScheduleStore, tmp_path: Path, clock: HandClock
) -> None:
    id = schedules.add(draft(misfire=ALL)).id
    assert len(schedules.decide(id, at("12:10"))) == 1
    clock.jump(at("12:35"))
    files(tmp_path)[0].write_bytes(b"torn")
    assert schedules.decide(id, clock.now()) == []
    assert len(schedules.decide(id, at("12:40"))) == 1


def test_what_happened_to_a_firing_is_kept(schedules: ScheduleStore, clock: HandClock) -> None:
    id = schedules.add(draft()).id
    (firing,) = schedules.decide(id, at("12:10"))
    assert (firing.state, firing.session) == ("recorded", draft().session)
    schedules.delivered(id, firing.slot)
    schedules.acknowledged(id, firing.slot)
    (kept,) = schedules.get(id).history.firings
    assert (kept.state, bool(kept.delivered_at), bool(kept.ended_at)) == (
        "acknowledged",
        True,
        True,
    )


def test_what_is_over_stays_over_whoever_finds_it_out_last(schedules: ScheduleStore) -> None:
    """One thread takes up what an earlier process left, while the agent ends its turn."""
    id = schedules.add(draft()).id
    (firing,) = schedules.decide(id, at("12:10"))
    schedules.acknowledged(id, firing.slot)
    schedules.delivered(id, firing.slot)
    schedules.failed(id, firing.slot, "nobody there", backs_off=True)
    history = schedules.get(id).history
    assert [(f.state, f.note) for f in history.firings] == [("acknowledged", None)]
    assert history.failures == 0


def test_failures_add_up_until_one_firing_goes_well(schedules: ScheduleStore) -> None:
    id = schedules.add(draft("@hourly")).id
    counts = []
    for n, ends in enumerate("fffpaf", start=1):
        moment = NOON + timedelta(hours=n)
        (firing,) = schedules.decide(id, moment)
        if ends == "a":
            schedules.acknowledged(id, firing.slot)
        else:
            schedules.failed(id, firing.slot, "why\nso", backs_off=ends == "f")
        counts.append(schedules.get(id).history.failures)
    assert counts == [1, 2, 3, 3, 0, 1]
    assert schedules.get(id).history.firings[-1].note == "why so"


def test_a_removed_schedule_is_gone_with_what_it_had_to_deliver(
    schedules: ScheduleStore, tmp_path: Path
) -> None:
    id = schedules.add(draft()).id
    schedules.decide(id, at("12:10"))
    schedules.remove(id)
    assert files(tmp_path) == []
    assert schedules.decide(id, at("12:20")) == []
    schedules.delivered(id, at("12:10"))
    assert files(tmp_path) == []
    with pytest.raises(InputError, match="no schedule 'cron_"):
        schedules.remove(id)


@pytest.mark.parametrize("id", ["", "../x", "cron_1", "cron_00000000", "\0"])
def test_an_unknown_id_lists_those_that_are_there(schedules: ScheduleStore, id: str) -> None:
    known = schedules.add(draft()).id
    with pytest.raises(InputError, match=known):
        schedules.get(id)


def test_there_are_at_most_so_many_and_those_that_are_over_make_room(
    schedules: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_store, "MOST", 3)
    first = schedules.add(draft("in 1 minute")).id
    others = [schedules.add(draft()).id for _ in range(2)]
    with pytest.raises(InputError, match="there are 3 schedules already"):
        schedules.add(draft())
    (firing,) = schedules.decide(first, at("12:01"))
    schedules.acknowledged(first, firing.slot)
    others.append(schedules.add(draft()).id)
    assert {entry.schedule.id for entry in schedules.entries()} == set(others)


def test_everything_that_happens_is_an_event(tmp_path: Path, clock: HandClock) -> None:
    events = Events()
    schedules = schedules_in(tmp_path, clock, events)
    id = schedules.add(draft(zone="Asia/Tokyo")).id
    (firing,) = schedules.decide(id, at("12:30"))
    schedules.failed(id, firing.slot, "no", backs_off=False)
    schedules.remove(id)
    kinds = ["schedule_added", "schedule_skipped", "schedule_fired", "schedule_ended"]
    assert events.kinds() == [*kinds, "schedule_removed"]
    assert events.seen[1][2]["count"] == 2
    assert events.seen[1][2]["last"] == "2026-06-01T21:20:00+09:00"
    assert [seen[2]["slot"] for seen in events.seen[2:4]] == ["2026-06-01T21:30:00+09:00"] * 2


DECIDE = """
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from team_runtime.daemons.schedule_store import ScheduleStore
from tests.support.clocks import HandClock
from tests.support.schedules import NOON, schedules_in

workspace, id, begin, count = Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:])
schedules = schedules_in(workspace, HandClock(NOON))
for n in range(begin, count + 1):
    for firing in schedules.decide(id, NOON + timedelta(minutes=n)):
        print(firing.slot.isoformat())
        schedules.acknowledged(id, firing.slot)
"""


def raced(workspace: Path, slots: int) -> Counter[str]:
    """How often each slot was given to one of two processes that look at the same time."""
    id = schedules_in(workspace, HandClock(NOON)).add(draft("* * * * *", misfire=ALL)).id
    racers = [program(DECIDE, workspace, id, begin, slots) for begin in (1, 1)]
    texts = [racer.communicate()[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0]
    return Counter(line for text in texts for line in text.splitlines())


def test_two_daemons_on_one_workspace_give_out_each_slot_once(tmp_path: Path) -> None:
    """claude-code#66509, claude-code#54734, hermes#51329: two that look at once both fired."""
    counts = raced(tmp_path, 150)
    assert len(counts) == 150
    assert set(counts.values()) == {1}


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_ten_thousand_slots_each_once_with_two_daemons(tmp_path: Path) -> None:
    counts = raced(tmp_path, 10_000)
    assert len(counts) == 10_000
    assert set(counts.values()) == {1}


def test_the_files_survive_power_loss_before_a_firing_is_given_out(tmp_path: Path) -> None:
    steps: list[str] = []
    store = hand_store(tmp_path, HandClock(NOON), lambda step, _: steps.append(step), "power")
    schedules = ScheduleStore(store)
    id = schedules.add(draft()).id
    steps.clear()
    assert schedules.decide(id, at("12:10"))
    assert steps.index("after fsync") < steps.index("before link")
    assert "after fsync folder" in steps
