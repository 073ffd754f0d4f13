"""Questions of a team's agents for a person: each agent waits for its own, all others go on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from team_runtime.approvals.model import (
    ALLOWED,
    DENIED,
    EXPIRED,
    WAITING,
    WITHDRAWN,
    Approval,
    Asker,
)
from team_runtime.approvals.store import ApprovalStore, is_approval, summary
from team_runtime.clock import Clock
from team_runtime.crossing import Bell
from team_runtime.errors import RefusedError
from team_runtime.events import Emit
from team_runtime.guard.always import exact_rules
from team_runtime.guard.hook_events import PERMISSION_PROMPT
from team_runtime.loop.asking import NOBODY, Answer, Checked
from team_runtime.team.gates import Gates
from team_runtime.team.member import Member, State
from team_runtime.team.team import Team

POLL_SECONDS: Final = 1.0
"""The floor under the hints that an answer has come."""
LAPSED: Final = "nobody answered in time"


@dataclass
class Questions:
    """The questions of one run. `deadline` is in seconds; `None` when nobody is there to answer."""

    approvals: ApprovalStore
    clock: Clock
    emit: Emit
    gates: Gates
    deadline: float | None
    _lock: threading.RLock = field(default_factory=threading.RLock)
    """Entered again when a change of state, made under it, is an event."""
    _bells: dict[str, Bell] = field(default_factory=dict)
    """One for each question that waits, by its id."""
    _open: Counter[str] = field(default_factory=Counter)
    """How many questions of each agent wait."""
    _refused: set[tuple[str, str]] = field(default_factory=set)
    """Agents and hashes of what was refused for want of a person: recorded once."""

    def of(
        self, team: Team, member: Member, remember: Callable[[list[str]], None]
    ) -> Callable[[Checked], Answer]:
        """How this member asks. `remember` puts rules in force for the rest of the run."""

        def ask(checked: Checked) -> Answer:
            asker = Asker(member.name, team.parts.session, team.parts.run, checked.place.task_id)
            if self.deadline is None:
                return self._refuse(asker, checked)
            done = self._asked(team, member, asker, checked, self.deadline)
            if done.always and done.status == ALLOWED:
                self._keep(checked, remember)
            return _answer(done)

        return ask

    def on_event(self, record: Mapping[str, Any]) -> None:
        """An event sink: whoever is asked to stop stops waiting."""
        if record["kind"] == "agent_state":
            self._ring_all()

    def on_file(self, path: Path) -> None:
        """A hint that another process has answered."""
        if is_approval(path):
            with self._lock:
                bell = self._bells.get(path.stem)
            if bell is not None:
                bell.ring()

    def _refuse(self, asker: Asker, checked: Checked) -> Answer:
        key = (asker.agent, checked.subject.hash)
        with self._lock:
            is_known = key in self._refused
            self._refused.add(key)
        if not is_known:
            self.approvals.record_refusal(asker, checked.subject, checked.cause, NOBODY)
        return Answer(False, NOBODY, lacks_person=True)

    def _asked(
        self, team: Team, member: Member, asker: Asker, checked: Checked, seconds: float
    ) -> Approval:
        """The approval with its end."""
        asked = self.approvals.ask(asker, checked.subject, checked.cause, seconds)
        try:
            with self._waiting(team, member, asked) as bell:
                text = f"{member.name} asks whether it may: {summary(asked.subject)}"
                self.gates.notify(PERMISSION_PROMPT, member.name, asked.id, text)
                return self._wait(asked, member, bell)
        except BaseException:
            self.approvals.end(asked.id, WITHDRAWN, "its agent was stopped")
            raise

    @contextmanager
    def _waiting(self, team: Team, member: Member, asked: Approval) -> Iterator[Bell]:
        """The bell that rings for this question, while everybody can see that it waits."""
        bell = member.crossing.wait(_new_bell)
        with self._lock:
            self._bells[asked.id] = bell
            self._open[member.name] += 1
            team.roster.change(member.name, State.WAITING)
        try:
            yield bell
        finally:
            with self._lock:
                del self._bells[asked.id]
                self._open[member.name] -= 1
                if not self._open[member.name]:
                    team.roster.change(member.name, State.WORKING)

    def _wait(self, asked: Approval, member: Member, bell: Bell) -> Approval:
        """Until it has an end: an answer, the deadline, or that its agent is to stop."""
        while (now := self.approvals.get(asked.id)).status == WAITING:
            left = (asked.due - self.clock.now()).total_seconds()
            if left <= 0:
                return self.approvals.end(asked.id, EXPIRED, LAPSED)
            if member.stop_reason is not None:
                return self.approvals.end(asked.id, WITHDRAWN, member.stop_reason)
            member.crossing.wait(bell.wait, min(left, POLL_SECONDS))
        if now.subject.hash != asked.subject.hash:
            raise RefusedError(f"{asked.id} was answered, but it asks about another call now.")
        return now

    def _ring_all(self) -> None:
        with self._lock:
            bells = list(self._bells.values())
        for bell in bells:
            bell.ring()

    def _keep(self, checked: Checked, remember: Callable[[list[str]], None]) -> None:
        """Whoever answered has kept the rules for later runs; here they count from now on."""
        try:
            remember(exact_rules(checked.questions, checked.decision.origin))
        except RefusedError as error:
            self.emit("notice", text=str(error))


async def _new_bell() -> Bell:
    return Bell()


def _answer(done: Approval) -> Answer:
    """The end of a question, as its agent is told."""
    note = f": {done.note}" if done.note else ""
    if done.status == ALLOWED:
        return Answer(True)
    if done.status == DENIED:
        return Answer(False, f"a person said no{note}")
    if done.status == EXPIRED:
        return Answer(False, LAPSED, lacks_person=True)
    return Answer(False, f"the question was withdrawn{note}")
