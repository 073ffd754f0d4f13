"""Limits of a run, enforced outside the agents."""

from __future__ import annotations

import threading
from collections.abc import Callable

from team_runtime.errors import LimitReached


class Limits:
    """Counts the model calls of the whole team."""

    def __init__(self, max_turns: int | None, reached: Callable[[LimitReached], None]) -> None:
        self._max_turns = max_turns
        self._reached = reached
        self._lock = threading.Lock()
        self.turns = 0

    def count_turn(self) -> None:
        """One more model call. Raises `LimitReached`, and tells the team, when it is too many."""
        with self._lock:
            if self._max_turns is None or self.turns < self._max_turns:
                self.turns += 1
                return
        error = LimitReached("turns", str(self._max_turns))
        self._reached(error)
        raise error
