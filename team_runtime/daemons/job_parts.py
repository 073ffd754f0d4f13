"""What the jobs of a run are made of, and how much they may take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from team_runtime.bus.base import Bus
from team_runtime.clock import Clock
from team_runtime.daemons.job_records import JobStore
from team_runtime.events import Emit


@dataclass(frozen=True)
class JobLimits:
    """How much background commands may take."""

    per_agent: int = 8
    per_team: int = 16
    seconds: float | None = 24 * 3600.0
    output_bytes: int = 10_000_000
    """Of each job's output on disk: half for the head, half for the tail."""
    long_seconds: float = 900.0
    """After so long the lead is asked about a job for which alone the run goes on."""


@dataclass(frozen=True)
class JobParts:
    """What the jobs of a run are made of."""

    store: JobStore
    bus: Bus
    clock: Clock
    emit: Emit
    session: str
    run: str
    lead: str
    """Who is told about the jobs of agents that are gone."""
    is_ending: Callable[[], bool]
    """Whether the whole team stops, so that its agents are told when they are resumed."""
    wake: Callable[[], None]
    """Lets those who wait look again: a job has ended, or goes on for long."""
    limits: JobLimits = field(default_factory=JobLimits)
    clean: Callable[[bytes], bytes] = lambda data: data
    """Takes out of output what must not be recorded."""
    contained: bool = False
    """Whether the kernel ends what a command leaves running before anybody could count it."""
