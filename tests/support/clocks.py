"""A clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta


@dataclass
class HandClock:
    """Stands still until it is moved. A jump of the wall clock leaves the monotonic one alone."""

    wall: datetime = field(default_factory=lambda: datetime(2026, 12, 1, 9, tzinfo=UTC))
    seconds: float = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.seconds

    def pass_(self, seconds: float) -> None:
        """Let time pass on both clocks."""
        self.seconds += seconds
        self.wall += timedelta(seconds=seconds)

    def jump(self, to: datetime) -> None:
        """Set the wall clock, as a person or a time server does."""
        self.wall = to


class Skew:
    """The wall clock, some time ahead of the machine's."""

    def __init__(self) -> None:
        self.ahead = timedelta()

    def now(self, _: object = None) -> datetime:
        return datetime.now(UTC) + self.ahead

    def jump(self, **by: float) -> Callable[[], None]:
        """A step of a script."""

        def step() -> None:
            self.ahead += timedelta(**by)

        return step
