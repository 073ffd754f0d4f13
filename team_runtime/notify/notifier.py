"""Tells people on a thread of its own, so that no agent waits for a slow service."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from team_runtime.events import Emit
from team_runtime.notify.base import Notice, NoticeLost, Sink
from team_runtime.notify.notices import notice_of

_WAITING: Final = 100
"""How many notices may wait for a slow service; further ones are counted and not sent."""


class Notifier:
    """An event sink that hands what matters to people. `close` when the run is over."""

    def __init__(self, sinks: Sequence[Sink], emit: Emit, left_out: Collection[str] = ()) -> None:
        """`left_out` are kinds of events that nobody shall be told about."""
        self._sinks = sinks
        self._emit = emit
        self._queue: queue.Queue[Notice | None] = queue.Queue(_WAITING)
        self._left_out = left_out
        self._dropped = 0
        self._failed: set[str] = set()
        self._thread = threading.Thread(target=self._work, name="notifier", daemon=True)
        self._thread.start()

    def on_event(self, record: Mapping[str, Any]) -> None:
        """Queue the notice about an event, if it is worth one. Never waits."""
        notice = None if record["kind"] in self._left_out else notice_of(record)
        if notice is None or not self._sinks:
            return
        try:
            self._queue.put_nowait(notice)
        except queue.Full:
            self._dropped += 1

    def close(self, seconds: float) -> None:
        """Deliver what waits, for at most `seconds`; says what could not be delivered."""
        try:
            self._queue.put(None, timeout=seconds)
        except queue.Full:
            self._dropped += 1
        self._thread.join(seconds)
        left = self._dropped + self._queue.qsize()
        if left:
            self._emit("notice", text=f"{left} notifications to you could not be delivered")

    def _work(self) -> None:
        while (notice := self._queue.get()) is not None:
            for sink in self._sinks:
                self._send(sink, notice)

    def _send(self, sink: Sink, notice: Notice) -> None:
        try:
            sink.send(notice)
        except NoticeLost as lost:
            if sink.name not in self._failed:  # once, not with every event of a long night
                self._emit("notice", text=f"you could not be notified by {sink.name}: {lost}")
            self._failed.add(sink.name)
        else:
            self._failed.discard(sink.name)
