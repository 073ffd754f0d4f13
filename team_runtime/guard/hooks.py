"""Hooks at work: who listens to an event, and who runs for it.

All handlers that match run side by side; `hook_outcome.py` puts together what they say.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from anyio import from_thread
from anyio.abc import TaskGroup

from team_runtime.clock import SystemClock
from team_runtime.errors import HookRefused
from team_runtime.events import Emit, no_events
from team_runtime.guard.hook_config import Hook
from team_runtime.guard.hook_hosts import Host, ThreadHost
from team_runtime.guard.hook_outcome import NOTHING, Outcome, answer_of_failed, put_together
from team_runtime.guard.hook_output import Answer, HookFault
from team_runtime.guard.hook_run import Surroundings, run_beside, run_handler
from team_runtime.types import Json

BLOCKS_IN_A_ROW: Final = 8
"""How often hooks may keep an agent from ending its turn before it ends it all the same."""
MOST_BESIDE: Final = 16
"""Hooks that nobody waits for, at once."""


@dataclass(frozen=True)
class Occasion:
    """Whose event it is."""

    agent: str | None
    """`None` for a person at the command line."""
    payload: Mapping[str, Json] = field(default_factory=dict)
    """The event's own fields; the common ones are added."""
    subject: str = ""
    """What matchers are compared with."""
    most: float = math.inf
    """Seconds that any handler may take."""


Facts: TypeAlias = Callable[[str | None], Mapping[str, Json]]
"""The common fields of a payload about an agent, or about a person's command."""


def no_facts(agent: str | None) -> Mapping[str, Json]:
    """For hooks outside of any session."""
    return {}


class Hooks:
    """The hooks of one run, or of one command. Safe for threads.

    They are read once. Where nobody listens, an event costs one look into a dictionary.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        around: Surroundings,
        host: Host,
        emit: Emit,
        facts: Facts = no_facts,
    ) -> None:
        self._by_event: dict[str, list[Hook]] = {}
        for hook in hooks:
            self._by_event.setdefault(hook.event, []).append(hook)
        self._around = around
        self._hosts: dict[str, Host] = {}
        self._lock = threading.Lock()
        self._host = host
        self._emit = emit
        self._monotonic = SystemClock().monotonic
        self._facts = facts
        self._group: TaskGroup | None = None
        self._beside = 0
        self.halt: Callable[[str, str], None] = lambda agent, reason: None
        """Stops an agent for a reason, when a hook says so."""

    def attach(self, agent: str, host: Host) -> None:
        """From now on this agent's hooks run on `host`, which ends with the agent."""
        with self._lock:
            self._hosts[agent] = host

    def detach(self, agent: str) -> None:
        """The agent has ended: what is still to be run for it runs on the host of all."""
        with self._lock:
            self._hosts.pop(agent, None)

    @contextmanager
    def beside(self, group: TaskGroup) -> Iterator[None]:
        """Meanwhile nobody waits for hooks that say so: they run in this group, and end with it.
        Before and after, and where there is no loop, they are waited for. Call on the loop."""
        self._group = group
        try:
            yield
        finally:
            self._group = None

    def listens(self, event: str) -> bool:
        """Whether any hook is there for this event."""
        return event in self._by_event

    def fire(self, event: str, occasion: Occasion) -> Outcome:
        """Run the handlers that match and put together what they said."""
        matching = self._matching(event, occasion)
        if not matching:
            return NOTHING
        payload = {"hook_event_name": event, **self._facts(occasion.agent), **occasion.payload}
        if self._group is not None:
            for hook in matching:
                if hook.beside:
                    from_thread.run_sync(self._start, hook, payload, occasion)
            matching = [hook for hook in matching if not hook.beside]
            if not matching:
                return NOTHING
        with self._lock:
            host = self._hosts.get(occasion.agent or "", self._host)
        answers = host.together(
            [partial(self._run, hook, payload, occasion, host) for hook in matching]
        )
        outcome = put_together(
            matching, answers, occasion.payload, lambda text: self._tell(occasion, text)
        )
        if outcome.halt is not None:
            self.halt(occasion.agent or "", outcome.halt)
        return outcome

    def must_see(self, event: str, occasion: Occasion) -> bool:
        """Whether some hook's failure to look counts as its no."""
        return any(hook.denies_on_error for hook in self._matching(event, occasion))

    def gate(self, event: str, occasion: Occasion) -> None:
        """Ask the hooks before something is done. Raises `HookRefused`."""
        outcome = self.fire(event, occasion)
        if outcome.blocked:
            raise HookRefused(event=event, reason=outcome.reason)

    def _matching(self, event: str, occasion: Occasion) -> list[Hook]:
        """In declared order, each handler once; the copy that is waited for counts, and of those
        the one that denies on an error."""
        found: dict[Any, Hook] = {}
        for hook in self._by_event.get(event, ()):
            if hook.fits(occasion.subject, occasion.payload):
                known = found.setdefault(hook.handler, hook)
                stricter = hook.denies_on_error and not known.denies_on_error
                if stricter or (known.beside and not hook.beside):
                    found[hook.handler] = hook
        return list(found.values())

    def _run(
        self, hook: Hook, payload: Mapping[str, Json], occasion: Occasion, host: Host
    ) -> Answer:
        started = self._monotonic()
        fault: HookFault | None = None
        try:
            answer = run_handler(hook, payload, self._around, host, occasion.most)
        except HookFault as error:
            fault, answer = error, answer_of_failed(hook, error)
        self._record(hook, occasion, answer, fault, started)
        if answer.message:
            self._tell(occasion, answer.message)
        return answer

    def _start(self, hook: Hook, payload: Mapping[str, Json], occasion: Occasion) -> None:
        """On the loop. Begin a hook that nobody waits for."""
        if self._group is None or self._beside >= MOST_BESIDE:
            why = "the run ends" if self._group is None else f"{MOST_BESIDE} run already"
            self._tell(occasion, f"the hook {hook.origin} was not run, because {why}")
            return
        self._beside += 1
        self._group.start_soon(self._alone, hook, payload, occasion)

    async def _alone(self, hook: Hook, payload: Mapping[str, Json], occasion: Occasion) -> None:
        started = self._monotonic()
        fault: HookFault | None = HookFault("it was ended with the run")
        try:
            await run_beside(hook, payload, self._around)
            fault = None
        except HookFault as error:
            fault = error
        finally:
            self._beside -= 1
            self._record(hook, occasion, Answer(), fault, started)

    def _record(
        self,
        hook: Hook,
        occasion: Occasion,
        answer: Answer,
        fault: HookFault | None,
        started: float,
    ) -> None:
        self._emit(
            "hook_ran",
            occasion.agent,
            event=hook.event,
            hook=hook.origin,
            verdict=answer.verdict.value if answer.verdict else None,
            fault=None if fault is None else str(fault),
            seconds=round(self._monotonic() - started, 6),
        )
        if fault is not None:
            follows = "so the answer is no" if answer.verdict else "and was passed over"
            if answer.output is not None:
                follows = "so the result is withheld"
            self._tell(occasion, f"the hook {hook.origin} failed, {follows}: {fault}")

    def _tell(self, occasion: Occasion, text: str) -> None:
        self._emit("notice", occasion.agent, text=text)


def no_hooks() -> Hooks:
    """Where nobody listens to anything."""
    return Hooks((), Surroundings(Path(), {}, {}), ThreadHost(), no_events)
