"""Schedules are looked at when a slot has come, when something changed, and now and then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from team_runtime.daemons.attention import Attention

NOW = datetime(2026, 12, 1, 9, 0, 0, 250_000, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NEXT_SECOND = NOW.replace(second=1, microsecond=0)


def looked(*moments: datetime | None) -> Attention:
    """After a look now that found these moments."""
    attention = Attention(HOUR)
    attention.begin(NOW)
    attention.end(moments)
    return attention


def test_the_first_moment_is_waited_for() -> None:
    attention = looked(NOW + 2 * MINUTE, None, NOW + MINUTE)
    assert not attention.is_needed(NOW)
    assert attention.moment(NOW) == NOW + MINUTE
    assert attention.is_needed(NOW + MINUTE)


def test_without_a_moment_there_is_a_last_resort() -> None:
    attention = looked(None)
    assert attention.moment(NOW) == NOW + HOUR
    assert attention.is_needed(NOW + HOUR)
    assert not attention.is_due(NOW + HOUR)


def test_a_slot_that_cannot_be_dealt_with_is_tried_again_with_the_next_second() -> None:
    attention = looked(NOW - MINUTE)
    assert attention.moment(NOW) == NEXT_SECOND


def test_a_clock_that_is_set_back_needs_a_look() -> None:
    assert looked(NOW + MINUTE).is_needed(NOW - HOUR)


def test_what_changes_during_a_look_needs_another() -> None:
    rung = []
    attention = Attention()
    attention.ring = lambda: rung.append(1)
    attention.begin(NOW)
    attention.hint()
    attention.end([])
    assert attention.is_needed(NOW)
    assert rung == [1]
