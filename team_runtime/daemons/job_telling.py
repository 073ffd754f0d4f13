"""Who is told what of a run's jobs: one message to an agent for each, after a crash too."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from team_runtime.bus.message import NOTIFICATION
from team_runtime.daemons.job_parts import JobParts
from team_runtime.daemons.job_records import COMPLETED, FAILED, KILLED, Job
from team_runtime.daemons.job_text import job_line, notification
from team_runtime.errors import TeamError

_ENDED: Final = ("stopped", "failed")


@dataclass
class JobTelling:
    """The messages and events about the jobs of one run."""

    parts: JobParts
    lock: threading.RLock
    """Held while a record is changed."""
    save: Callable[[Job], None]
    _gone: set[str] = field(default_factory=set)
    """Agents that have ended before the team did."""

    def on_event(self, record: Mapping[str, Any]) -> None:
        """An event sink: what an agent leaves is handed to the lead."""
        agent, kind = record["agent"], record["kind"]
        if kind == "agent_spawned":
            self._gone.discard(agent)
            return
        has_ended = kind == "agent_state" and record["state"] in _ENDED
        if has_ended and agent != self.parts.lead and not self.parts.is_ending():
            self._hand_over(agent)

    def _hand_over(self, agent: str) -> None:
        """From now on the lead is told about this agent's jobs, also what it has not read."""
        try:
            with self.lock:  # so that nothing is sent to it once its mail was looked at
                self._gone.add(agent)
                unread = self.parts.bus.unread(agent)
            for message in unread:
                if message.type == NOTIFICATION:
                    self._send(self.parts.lead, message.body, message.attributes, message.id)
        except TeamError as error:
            self.parts.emit("notice", agent, text=f"the lead was not told of its jobs: {error}")

    def catch_up(self, delivered: Mapping[str, Container[str]]) -> None:
        """Tell the agents of a resumed session what an earlier run could not tell them. `delivered`
        holds the ids of the messages that each of them has."""
        for job in self.parts.store.all():
            if job.session != self.parts.session or job.running or job.told:
                continue
            if job.agent not in delivered:
                self._gone.add(job.agent)
            if any(job.message_id in ids for ids in delivered.values()):
                self.save(replace(job, told=True))
            else:
                self.tell(job)

    def tell(self, job: Job) -> None:
        """Send the one message about a job's end, and record that it was sent."""
        body = notification(job, self.parts.store.output(job.id), self.parts.contained)
        shown = job.status if job.status in (COMPLETED, FAILED) else KILLED
        attributes = {"job": job.id, "status": shown, "exit_code": job.code}
        with self.lock:
            to = self.parts.lead if job.agent in self._gone else job.agent
            self._send(to, body, attributes, job.message_id)
            self.save(replace(job, told=True))

    def _send(self, to: str, body: str, attributes: Mapping[str, str], message_id: str) -> None:
        self.parts.bus.send("runtime", to, body, NOTIFICATION, attributes, message_id)

    def ask_about(self, jobs: Iterable[Job]) -> None:
        """Ask the lead whether these are meant to go on."""
        lines = "\n".join(map(job_line, jobs))
        body = (
            f"Nothing else is left to wait for but this, which has run for long:\n{lines}\n"
            "End with kill_job what does not end by itself; you are told about the rest."
        )
        self.parts.bus.send("runtime", self.parts.lead, body)

    def announce(self, job: Job, seconds: float, problem: TeamError | None) -> None:
        """The events of a job's end; `problem` is why it could not be recorded."""
        if problem is not None:
            text = f"the end of {job.id} could not be recorded: {problem}"
            self.parts.emit("notice", job.agent, text=text)
        self.parts.emit(
            "job_ended",
            job.agent,
            job=job.id,
            status=job.status,
            exit_code=job.code,
            reason=job.reason,
            survivors=len(job.survivors),
            seconds=round(seconds, 6),
        )
