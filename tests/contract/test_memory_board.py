"""The board in memory keeps the contract."""

from __future__ import annotations

import pytest

from team_runtime.board.base import Board
from team_runtime.board.memory_board import MemoryBoard
from team_runtime.clock import SystemClock, SystemEntropy
from tests.contract.board_contract import BoardContract
from tests.support.state import Events, Presences


class TestMemoryBoard(BoardContract):
    @pytest.fixture(autouse=True)
    def shelf(self) -> None:
        self.presences = Presences()
        self.events = Events()
        self._first = MemoryBoard(SystemClock(), SystemEntropy(), self.presences, None, self.events)

    def open_board(self, run: str | None = None) -> Board:
        return self._first.joined(run)
