"""Telling the caller of a run what happens, without letting it disturb the agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from team_runtime.events import Emit


class Listener:
    """Calls a function that the caller of a run gave. Agents' threads do that, so when it fails
    they go on: a notice says so, and it is not called again."""

    def __init__(self, name: str, call: Callable[..., object], emit: Emit) -> None:
        self._name = name
        self._call = call
        self._emit = emit
        self._failed = False

    def __call__(self, *args: Any) -> None:
        if self._failed:
            return
        try:
            self._call(*args)
        except Exception as error:
            self._failed = True
            self._emit("notice", text=f"{self._name} failed and is not told any more: {error!r}")
