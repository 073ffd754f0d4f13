"""What a session notes about each member, for the run that goes on with it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from team_runtime.sessions.sessions import Sessions
from team_runtime.types import Json


class Notes:
    """The notes of one session. Safe for threads."""

    def __init__(self, sessions: Sessions, session: str) -> None:
        self._sessions = sessions
        self._session = session
        self._lock = threading.Lock()

    def of(self, name: str) -> Mapping[str, Json]:
        """What is noted about a member; empty if nothing is."""
        return next((noted for noted in self._all() if noted["name"] == name), {})

    def add(self, name: str, **fields: Json) -> None:
        """Note these fields about a member; the others stay."""
        with self._lock:
            noted = {"name": name, **self.of(name), **fields}
            others = [other for other in self._all() if other["name"] != name]
            self._sessions.save(self._session, {"agents": [*others, noted]})

    def _all(self) -> list[dict[str, Json]]:
        agents: list[dict[str, Json]] = self._sessions.load(self._session).get("agents", [])
        return agents
