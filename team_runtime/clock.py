"""Time and randomness, as parameters: the only module that reads a clock or draws bytes."""

from __future__ import annotations

import random
import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where code gets the time from."""

    def now(self) -> datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start; never goes back."""
        ...


class Entropy(Protocol):
    """Where code gets identifiers and jitter from."""

    def token(self) -> str:
        """16 fresh lower-case hexadecimal digits."""
        ...

    def fraction(self) -> float:
        """A number in [0, 1)."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SystemEntropy:
    """The operating system's random source."""

    def token(self) -> str:
        return secrets.token_hex(8)

    def fraction(self) -> float:
        return random.random()


def iso(moment: datetime) -> str:
    """`2026-11-30T18:15:27.123456Z`: UTC with six decimals, as all records write it."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
