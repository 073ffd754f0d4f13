"""`schedule_cron`, `list_crons`, `cancel_cron`: schedules as the lead sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import BaseModel, Field

from team_runtime.clock import Clock
from team_runtime.daemons.schedule_store import Entry, ScheduleStore
from team_runtime.daemons.schedules import LONGEST_JITTER, Schedule
from team_runtime.daemons.when import parse_moment
from team_runtime.guard.base import Effect
from team_runtime.text import one_line
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import NoInput, Strict


@dataclass(frozen=True)
class Scheduling:
    """What the tools of one session work with."""

    schedules: ScheduleStore
    clock: Clock
    session: str
    zone: str
    """The IANA name of the zone of schedules that name none."""
    recipients: Callable[[], Collection[str]]
    """Names of the agents that a schedule can wake."""

    def own(self) -> list[Entry]:
        """The session's schedules that can still do something."""
        entries = self.schedules.entries()
        return [e for e in entries if e.schedule.session == self.session and not e.is_over]


class ScheduleCronInput(Strict):
    cron: str = Field(description="cron fields, @daily …, 'in 3 minutes', 'at 2026-12-01T09:00'")
    prompt: str = Field(min_length=1, description="what it is told then")
    recurring: bool = Field(default=True, description="false: only the first time")
    durable: bool = Field(default=True, description="false: only while this session runs")
    tz: str = Field(default="", description="IANA zone; default: the machine's")
    to: str = "lead"
    misfire: Literal["skip", "once", "all"] = Field(default="once", description="for missed times")
    expires: str = Field(default="", description="ISO time")
    jitter: int = Field(default=0, ge=0, le=LONGEST_JITTER, description="seconds")


class ScheduleCron:
    name: ClassVar[str] = "schedule_cron"
    description: ClassVar[str] = (
        "Be woken with a prompt at a time, once or again and again. Then end your turn: it arrives "
        "as a <scheduled> message."
    )
    effect: ClassVar[Effect] = Effect.SCHEDULE
    input_model: ClassVar[type[BaseModel]] = ScheduleCronInput

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    def run(self, input: ScheduleCronInput, context: ToolContext) -> str:
        scheduling = self._scheduling
        known = scheduling.recipients()
        if input.to not in known:
            names = ", ".join(sorted(known))
            raise ToolFailure(f"There is no {input.to!r}; nothing was scheduled. Names: {names}.")
        zone = input.tz or scheduling.zone
        schedule = Schedule(
            id="",
            when=input.cron,
            zone=zone,
            prompt=input.prompt,
            created_at=scheduling.clock.now(),
            created_by=context.agent,
            to=input.to,
            session=scheduling.session,
            durable=input.durable,
            recurring=input.recurring,
            misfire=input.misfire,
            expires=parse_moment(input.expires, zone) if input.expires else None,
            jitter=input.jitter,
        )
        added = scheduling.schedules.add(schedule)
        entry = scheduling.schedules.get(added.id)
        return f"Scheduled {described(entry)}. {lifetime(added)}"


class ListCrons:
    name: ClassVar[str] = "list_crons"
    description: ClassVar[str] = "List the schedules of this session, with the next time of each."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = NoInput

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    def run(self, input: NoInput, context: ToolContext) -> str:
        return "\n".join(map(described, self._scheduling.own())) or "No schedules."


class CancelCronInput(Strict):
    job_id: str


class CancelCron:
    name: ClassVar[str] = "cancel_cron"
    description: ClassVar[str] = "Take a schedule away, also what it has not delivered yet."
    effect: ClassVar[Effect] = Effect.COORDINATE
    input_model: ClassVar[type[BaseModel]] = CancelCronInput

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    def run(self, input: CancelCronInput, context: ToolContext) -> str:
        known = [entry.schedule.id for entry in self._scheduling.own()]
        if input.job_id not in known:
            names = ", ".join(known) or "none"
            raise ToolFailure(
                f"This session has no schedule {input.job_id!r}; nothing changed. It has: {names}."
            )
        self._scheduling.schedules.remove(input.job_id)
        return f"Cancelled {input.job_id}."


def described(entry: Entry) -> str:
    """A schedule on one line."""
    schedule = entry.schedule
    kind = "recurring" if schedule.repeats else "one-shot"
    life = "durable" if schedule.durable else "session-only"
    next_ = f"next {schedule.shown(entry.next)}" if entry.next else "no further firing"
    return (
        f"{schedule.id} {schedule.when!r} {schedule.zone} [{kind}, {life}] {next_}, "
        f"to {schedule.to}: {one_line(schedule.prompt, 60)}"
    )


def lifetime(schedule: Schedule) -> str:
    """What keeps it going, said plainly."""
    if not schedule.durable:
        return "Session-only: it fires only while a run of this session is going."
    return (
        "Durable: it is kept on disk, and fires in a run of this session, or with no terminal open "
        "while `team daemon` runs."
    )
