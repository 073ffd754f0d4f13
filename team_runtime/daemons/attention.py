"""When schedules have to be looked at: in between, waiting costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Final

LOOK: Final = timedelta(minutes=1)
"""The longest time between two looks: a hint may be lost, and a clock may be set back."""

CHECK_SECONDS: Final = 5.0
"""Between two looks at the clock when no slot comes: it may be set at any time."""


def left_of_second(now: datetime) -> float:
    """Seconds until the next whole one: slots come at whole seconds."""
    return 1 - now.microsecond / 1e6


class Attention:
    """What the last look at the schedules means for the next. Hints may come from any thread."""

    def __init__(self) -> None:
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
        is_due = self._next is not None and self._next <= now
        return is_due or abs(now - self._looked) >= LOOK

    def seconds(self, now: datetime) -> float:
        """How long nothing has to be looked at: to the next slot, or what is left of the second
        when that has come, and never longer than it may take to notice that the clock was set."""
        if self._next is None:
            return CHECK_SECONDS
        left = (self._next - now).total_seconds()
        return min(left, CHECK_SECONDS) if left > 0 else left_of_second(now)

    def begin(self, now: datetime) -> None:
        """A look begins now; what changes from here on needs another."""
        self._changed, self._looked = False, now

    def end(self, moments: Iterable[datetime | None]) -> None:
        """The look found that the next is needed at the first of these moments."""
        self._next = min((moment for moment in moments if moment is not None), default=None)
