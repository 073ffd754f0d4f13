"""The bus in memory keeps the contract, and so does the view that a session has of a bus."""

from __future__ import annotations

import pytest

from team_runtime.bus.base import Bus
from team_runtime.bus.memory import MemoryBus
from team_runtime.bus.session_bus import SessionBus
from team_runtime.clock import SystemClock, SystemEntropy
from tests.contract.bus_contract import BusContract
from tests.support.state import Events


class TestSessionBus(BusContract):
    @pytest.fixture(autouse=True)
    def mailboxes(self) -> None:
        self.events = Events()
        self._first = MemoryBus(SystemClock(), SystemEntropy(), self.events)

    def open_bus(self, session: str = "s-1") -> SessionBus:
        return SessionBus(self._first.joined(), session)

    def test_mail_of_another_session_is_neither_shown_nor_lost(self, bus: Bus) -> None:
        other = self.open_bus("s-2")
        texts = {"of one": bus.send, "of two": other.send, "of nobody": self._first.send}
        for text, send in texts.items():
            send("lead", "alice", text)
        bus.send("lead", "alice", "to two", session="s-2")
        assert [m.body for m in other.unread("alice")] == ["of two", "of nobody", "to two"]
        taken = bus.take("alice")
        assert [m.body for m in taken] == ["of one", "of nobody"]
        bus.acknowledge("alice", [m.id for m in taken])
        bus.close()
        assert [m.body for m in other.take("alice")] == ["of two", "to two"]


class TestMemoryBus(BusContract):
    @pytest.fixture(autouse=True)
    def mailboxes(self) -> None:
        self.events = Events()
        self._first = MemoryBus(SystemClock(), SystemEntropy(), self.events)

    def open_bus(self) -> Bus:
        return self._first.joined()
