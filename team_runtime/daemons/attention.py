"""When schedules have to be looked at: in between, waiting costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

LOOK: Final = timedelta(hours=1)
"""The longest time between two looks, as a last resort: whatever changes brings a hint, and the
slow look at the folders brings those that were lost."""


def left_of_second(now: datetime) -> float:
    """Seconds until the next whole one: slots come at whole seconds."""
    return 1 - now.microsecond / 1e6


class Attention:
    """What the last look at the schedules means for the next. Hints may come from any thread."""

    def __init__(self, longest: timedelta = LOOK) -> None:
        self.longest = longest
        """The longest time between two looks."""
        self._changed = True
        self._looked: datetime | None = None
        self._next: datetime | None = None
        self.ring: Callable[[], None] = lambda: None
        """Wakes whoever waits for the next look."""

    def hint(self) -> None:
        """Something about the schedules has changed."""
        self._changed = True
        self.ring()

    def is_needed(self, now: datetime) -> bool:
        """Whether a slot has come, something has changed, or the last look is long ago."""
        if self._changed or self._looked is None:
            return True
        return self.is_due(now) or abs(now - self._looked) >= self.longest

    def is_due(self, now: datetime) -> bool:
        """Whether a slot has come."""
        return self._next is not None and self._next <= now

    def moment(self, now: datetime) -> datetime:
        """When to look at the clock again: at the next slot, when the last look will be long ago,
        or, when that has come already, with the next second."""
        moments = [self._next, (self._looked or now) + self.longest]
        first = min(moment for moment in moments if moment is not None)
        return first if first > now else now + timedelta(seconds=left_of_second(now))

    def begin(self, now: datetime) -> None:
        """A look begins now; what changes from here on needs another."""
        self._changed, self._looked = False, now

    def end(self, moments: Iterable[datetime | None]) -> None:
        """The look found that the next is needed at the first of these moments."""
        self._next = min((moment for moment in moments if moment is not None), default=None)
