"""The bus in memory keeps the contract."""

from __future__ import annotations

import pytest

from team_runtime.bus.base import Bus
from team_runtime.bus.memory import MemoryBus
from team_runtime.clock import SystemClock, SystemEntropy
from tests.contract.bus_contract import BusContract
from tests.support.state import Events


class TestMemoryBus(BusContract):
    @pytest.fixture(autouse=True)
    def mailboxes(self) -> None:
        self.events = Events()
        self._first = MemoryBus(SystemClock(), SystemEntropy(), self.events)

    def open_bus(self) -> Bus:
        return self._first.joined()
