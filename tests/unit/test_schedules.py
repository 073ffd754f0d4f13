"""Which slots fire: at most once each, in time or by the misfire policy, whatever clocks do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.daemons.schedules import (
    ACKNOWLEDGED,
    ALL,
    CATCH_UP,
    FAILED,
    HISTORY,
    MISFIRES,
    ONCE,
    SKIP,
    SKIPPED,
    Firing,
    Firings,
    Schedule,
    decide,
    message_id,
    next_slot,
)
from tests.support.schedules import NOON, at, draft

SECOND = timedelta(seconds=1)


def made(when: str = "*/10 * * * *", **more: object) -> Schedule:
    return replace(draft(when, **more), id="cron_00000001")


def seen(schedule: Schedule, *moments: datetime) -> tuple[Firings, list[list[str]]]:
    """The history after a look at each of the moments, and what fired at each, as `12:10`."""
    history, fired = Firings(), []
    for moment in moments:
        history, firings = decide(schedule, history, moment, "now")
        fired.append([f"{firing.slot:%H:%M}" for firing in firings])
    return history, fired


def skipped(history: Firings) -> list[tuple[str, int]]:
    return [(f"{f.slot:%H:%M}", f.count) for f in history.firings if f.state == SKIPPED]


def test_a_slot_fires_when_it_comes_and_never_again() -> None:
    """openclaw#42640: it ran again after a restart."""
    moments = [at("12:09:59"), at("12:10"), at("12:10:01"), at("12:19:59"), at("12:20:01")]
    _, fired = seen(made(), *moments)
    assert fired == [[], ["12:10"], [], [], ["12:20"]]


def test_nothing_fires_for_a_time_before_the_schedule_was_made() -> None:
    """gascity#6029. As when a daemon has not run for days, or the schedule was made in the minute
    of a slot."""
    _, fired = seen(made(misfire=ALL), NOON, at("12:00:01"), at("12:10"))
    assert fired == [[], [], ["12:10"]]


def test_a_minute_is_no_miss() -> None:
    assert seen(made(misfire=SKIP), at("12:11:00"))[1] == [["12:10"]]
    assert seen(made(misfire=SKIP), at("12:11:01"))[1] == [[]]


@pytest.mark.parametrize(
    ("policy", "fired", "left_out"),
    [
        (SKIP, [], [("12:50", 5)]),
        (ONCE, ["12:50"], [("12:40", 4)]),
        (ALL, ["12:10", "12:20", "12:30", "12:40", "12:50"], []),
    ],
)
def test_missed_slots_follow_the_policy(
    policy: str, fired: list[str], left_out: list[tuple[str, int]]
) -> None:
    history, found = seen(made(misfire=policy), at("12:55"))
    assert found == [fired]
    assert skipped(history) == left_out
    notes = [f.note for f in history.firings if f.state == SKIPPED]
    assert all(note is not None and f"caught up by {policy!r}" in note for note in notes)


@pytest.mark.parametrize("policy", MISFIRES)
def test_a_slot_in_time_fires_beside_missed_ones_and_once_is_then_enough(policy: str) -> None:
    _, fired = seen(made(misfire=policy), at("12:30:20"))
    assert fired == [["12:10", "12:20", "12:30"] if policy == ALL else ["12:30"]]


@pytest.mark.parametrize("policy", MISFIRES)
def test_eight_hours_of_sleep(policy: str) -> None:
    """Nothing, one, or at most so many, and what was left out is said."""
    history, fired = seen(made(misfire=policy), at("12:10"), at("20:15"), at("20:20"))
    total = 48
    caught = {SKIP: 0, ONCE: 1, ALL: CATCH_UP}[policy]
    assert [len(each) for each in fired] == [1, caught, 1]
    assert sum(count for _, count in skipped(history)) == total - caught


def test_three_hours_that_a_clock_was_set_forward_are_one_catch_up() -> None:
    """claude-code#52930: slots were left out in silence."""
    history, fired = seen(made("0 * * * *"), at("12:30"), at("15:30"))
    assert fired == [[], ["15:00"]]
    assert skipped(history) == [("14:00", 2)]


JUMPS: Sequence[float] = (
    3600,
    -3600,
    7200,
    -60,
    90,
    -86400,
    86400,
    1,
    -1,
    28800,
    -7200,
    30 * 86400,
)


@pytest.mark.parametrize("policy", MISFIRES)
def test_twelve_jumps_of_the_clock_fire_nothing_twice(policy: str) -> None:
    schedule, history, moment = made(misfire=policy), Firings(), NOON
    fired = Counter[datetime]()
    for jump in JUMPS:
        for _ in range(40):  # twenty minutes pass between two jumps
            moment += timedelta(seconds=30)
            history, firings = decide(schedule, history, moment, "now")
            assert all(firing.slot <= moment for firing in firings)
            fired.update(firing.slot for firing in firings)
        moment += timedelta(seconds=jump)
    assert fired
    assert set(fired.values()) == {1}


@given(
    st.sampled_from(["* * * * *", "*/7 * * * *", "30 */2 * * *", "0 3 * * *"]),
    st.sampled_from(MISFIRES),
    st.lists(st.integers(-90_000, 200_000), min_size=1, max_size=30),
)
@settings(max_examples=80)
def test_whatever_the_clock_does_each_slot_is_decided_about_once(
    when: str, policy: str, steps: list[int]
) -> None:
    """Fired and left out together are exactly the slots up to the latest time that was seen."""
    schedule, history, moment = made(when, misfire=policy), Firings(), NOON
    fired, latest, left_out = list[datetime](), NOON, 0
    for step in steps:
        moment += timedelta(seconds=step)
        latest = max(latest, moment)
        before = set(history.firings)
        history, firings = decide(schedule, history, moment, "now")
        fired += [firing.slot for firing in firings]
        fresh = [f for f in history.firings if f not in before and f.state == SKIPPED]
        left_out += sum(firing.count for firing in fresh)
    assert len(fired) == len(set(fired))
    assert all(NOON < slot <= latest for slot in fired)
    all_slots = schedule.timing.latest(NOON, latest, 100_000)
    if len(all_slots) < 1000:
        assert len(fired) + left_out == len(all_slots)


@pytest.mark.parametrize("when", ["in 3 minutes", "at 2026-06-01T12:03"])
def test_a_one_shot_fires_once_also_late(when: str) -> None:
    """gascity#3947: what had never run never began."""
    history, fired = seen(made(when), at("12:02:59"), at("12:03"), at("12:04"), at("18:00"))
    assert fired == [[], ["12:03"], [], []]
    assert next_slot(made(when), history) is None
    assert seen(made(when), at("18:00"))[1] == [["12:03"]]
    assert seen(made(when, misfire=SKIP), at("18:00"))[1] == [[]]


def test_a_pattern_that_does_not_recur_fires_the_first_time_only() -> None:
    once = made(recurring=False)
    history, fired = seen(once, at("12:35"), at("12:40"))
    assert fired == [["12:10"], []]
    assert next_slot(once, history) is None


def test_nothing_fires_after_it_expired() -> None:
    expiring = made(expires=at("12:25"), misfire=ALL)
    history, fired = seen(expiring, at("12:55"), at("13:00"))
    assert fired == [["12:10", "12:20"], []]
    assert next_slot(expiring, history) is None


def test_failing_turns_wait_longer_each_time_and_at_most_an_hour() -> None:
    schedule = made("* * * * *")
    pauses = []
    for failures in (1, 2, 3, 5, 50):
        history = Firings(cursor=NOON, failures=failures, failed_at=NOON)
        slot = NOON
        while True:
            slot += timedelta(minutes=1)
            history, fired = decide(schedule, history, slot, "now")
            if fired:
                break
        assert all(f"{failures} failures in a row" in str(f.note) for f in history.firings[:-1])
        pauses.append((slot - NOON) / timedelta(minutes=1))
    assert pauses == [1, 2, 4, 16, 60]


def test_jitter_is_within_what_was_asked_for_and_spread_over_it() -> None:
    """claude-code#56106: it was later than documented."""
    delays = [replace(made(jitter=60), id=f"cron_{n:08x}").delay / SECOND for n in range(2000)]
    assert min(delays) == 0
    assert max(delays) == 60
    assert 27 < sum(delays) / len(delays) < 33
    assert replace(made(jitter=0), id="cron_12345678").delay == timedelta()


def test_a_late_schedule_is_late_by_the_same_time_each_time_and_loses_no_slot() -> None:
    late = replace(made(jitter=3600), id="cron_0000000a")
    assert late.delay > timedelta()
    before, after = at("12:10") + late.delay - SECOND, at("12:10") + late.delay
    assert seen(late, before, after)[1] == [[], ["12:10"]]


def test_the_history_is_bounded_and_keeps_what_is_not_over() -> None:
    schedule, history = made("* * * * *"), Firings()
    for n in range(1, HISTORY * 2):
        history, _ = decide(schedule, history, NOON + timedelta(minutes=n), "now")
        if n != 3:
            history = history.changed(NOON + timedelta(minutes=n), state=ACKNOWLEDGED)
    assert len(history.firings) == HISTORY + 1
    assert [firing.slot for firing in history.open] == [NOON + timedelta(minutes=3)]


def test_only_the_named_firing_is_changed() -> None:
    history, _ = seen(made(), at("12:10"), at("12:20"))
    changed = history.changed(at("12:20"), state=FAILED, note="no")
    assert [firing.state for firing in changed.firings] == ["recorded", FAILED]
    skipped_one = Firings(firings=(Firing(NOON, SKIPPED, "now"),))
    assert skipped_one.changed(NOON, state=FAILED) == skipped_one


def test_the_id_of_a_message_follows_from_the_slot_alone() -> None:
    assert message_id("cron_1", at("12:10")) == "m-cron_1-20260601T121000Z"


def test_a_slot_is_shown_in_the_zone_of_its_schedule() -> None:
    assert made(zone="America/New_York").shown(NOON) == "2026-06-01T08:00:00-04:00"


def test_missed_slots_are_caught_up_in_the_zone_of_the_schedule() -> None:
    """openclaw#61028: in the machine's zone."""
    daily = made("0 9 * * *", zone="Asia/Tokyo", misfire=ALL)
    _, fired = seen(daily, NOON + timedelta(days=2, hours=13))
    assert fired == [["00:00", "00:00", "00:00"]], "nine in Tokyo is midnight in UTC"
