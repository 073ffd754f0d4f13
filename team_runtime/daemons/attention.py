"""When schedules have to be looked at: in between, a second costs one comparison."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

LOOK: Final = timedelta(minutes=1)
"""The longest time between two looks: a hint may be lost, and a clock may be set back."""


class Attention:
    """What the last look at the schedules means for the next. Hints may come from any thread."""

    def __init__(self) -> None:
        self._changed = True
        self._looked: datetime | None = None
        self._next: datetime | None = None

    def hint(self) -> None:
        """Something about the schedules has changed."""
        self._changed = True

    def is_needed(self, now: datetime) -> bool:
        """Whether a slot has come, something has changed, or the last look is long ago."""
        if self._changed or self._looked is None:
            return True
        is_due = self._next is not None and self._next <= now
        return is_due or abs(now - self._looked) >= LOOK

    def begin(self, now: datetime) -> None:
        """A look begins now; what changes from here on needs another."""
        self._changed, self._looked = False, now

    def end(self, moments: Iterable[datetime | None]) -> None:
        """The look found that the next is needed at the first of these moments."""
        self._next = min((moment for moment in moments if moment is not None), default=None)
