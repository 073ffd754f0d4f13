"""A person at the terminal, asked about plans and calls as they arrive, one after the other."""

from __future__ import annotations

import os
import queue
import selectors
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import click

from team_runtime.app.answering import allow, rules_for_always
from team_runtime.app.workspace import Workspace
from team_runtime.approvals.model import WAITING, Approval
from team_runtime.cli.output import say
from team_runtime.cli.questions import always_line, details, heading
from team_runtime.cli.view import View
from team_runtime.errors import RefusedError, TeamError
from team_runtime.plans.model import Gate, Plan

YES: Final = {"y", "yes"}
NO: Final = {"n", "no"}
ALWAYS: Final = {"a", "always"}
LOOK_SECONDS: Final = 0.5
"""How often an open question is compared with what has become of it."""


class NoAnswer(Exception):
    """The run is over, or nobody is at the terminal any more."""


class Moot(Exception):
    """What was asked about has been decided elsewhere, or is over."""


class Terminal:
    """Reads lines from stdin until `close`, which also ends a read that waits."""

    def __init__(self) -> None:
        self._wake, self._ring = os.pipe()
        self._rest = b""

    def ask(self, question: str, waits: Callable[[], bool]) -> str:
        """The answer, without blanks around it. What was typed before the question was there is no
        answer to it. Raises `NoAnswer`, or `Moot` once it does not wait any more."""
        self._rest = b""
        with suppress(termios.error):  # the terminal is gone, which reading will show
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        click.echo(f"{question} ", err=True, nl=False)
        while b"\n" not in self._rest:
            self._rest += self._read()
            if not waits():
                click.echo(err=True)
                raise Moot
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()

    def close(self) -> None:
        """End what waits for an answer. Safe from any thread."""
        os.write(self._ring, b"x")

    def _read(self) -> bytes:
        """What was typed; nothing after a while, so that one can look whether it still matters."""
        stdin = sys.stdin.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select(LOOK_SECONDS)}
        if not ready:
            return b""
        data = b"" if self._wake in ready else os.read(stdin, 4096)
        if not data:
            raise NoAnswer
        return data


class Prompt(Protocol):
    """Something that a person decides about."""

    @property
    def name(self) -> str: ...

    def waits(self) -> bool:
        """Whether it still waits for a decision."""
        ...

    def decide(self, terminal: Terminal) -> None:
        """Ask, and do what was answered. Raises `NoAnswer`, `Moot`, `TeamError`."""
        ...


@dataclass(frozen=True)
class PlanPrompt:
    """A revision of a plan; its text was shown when it arrived."""

    workspace: Workspace
    plan: str
    revision: int
    agent: str

    @property
    def name(self) -> str:
        return f"{self.plan} revision {self.revision}"

    def waits(self) -> bool:
        plan = self.workspace.plans.get(self.plan)
        return plan.gate is Gate.PENDING and plan.current.number == self.revision

    def decide(self, terminal: Terminal) -> None:
        approve, feedback = self._ask(terminal)
        planning = self.workspace.planning()
        planning.decide_as_person(self.plan, self.revision, approve, feedback)

    def _ask(self, terminal: Terminal) -> tuple[bool, str]:
        """Whether the person approves, and the feedback otherwise."""
        while True:
            question = f"Approve {self.name} of {self.agent}? [y/n]"
            answer = terminal.ask(question, self.waits).lower()
            if answer in YES:
                return True, ""
            if answer in NO:
                break
            say("Please answer y (it goes ahead) or n (it is revised with your feedback).")
        while True:
            feedback = terminal.ask("What must change?", self.waits)
            if feedback:
                return False, feedback
            say(f"Please say what must change; {self.agent} revises the plan by it.")


@dataclass(frozen=True)
class CallPrompt:
    """A call that no rule allows."""

    workspace: Workspace
    name: str

    def waits(self) -> bool:
        return self.workspace.approvals.get(self.name).status == WAITING

    def decide(self, terminal: Terminal) -> None:
        approval = self.workspace.approvals.get(self.name)
        always = _can_be_always(approval)
        lines = [heading(approval), *details(approval, self.workspace.root)]
        say("\n".join([*lines, always_line(approval)] if always else lines))
        question = f"Allow {self.name} of {approval.asker.agent}? [y/n{'/always' * always}]"
        while True:
            answer = terminal.ask(question, self.waits).lower()
            if answer in YES or (always and answer in ALWAYS):
                allow(self.workspace, self.name, always=answer in ALWAYS)
                return
            if answer in NO:
                note = terminal.ask("What shall it do instead? (Enter: nothing)", self.waits)
                self.workspace.approvals.answer(self.name, False, note)
                return
            more = ", always (also from now on)" if always else ""
            say(f"Please answer y (it runs){more} or n (it does not).")


def _can_be_always(approval: Approval) -> bool:
    try:
        return bool(rules_for_always(approval))
    except RefusedError:
        return False


class Reviewer:
    """Asks about one thing after the other, on a thread of its own: the only one that reads."""

    def __init__(
        self, workspace: Workspace, view: View, terminal: Terminal, *, plans: bool, calls: bool
    ) -> None:
        self._workspace = workspace
        self._view = view
        self._terminal = terminal
        self._asks_plans = plans
        self._asks_calls = calls
        self._prompts: queue.SimpleQueue[Prompt | None] = queue.SimpleQueue()
        self._over = threading.Event()

    def on_event(self, record: dict[str, Any]) -> None:
        """An event sink: each plan and each call that waits for the person is asked about, and in a
        resumed session each plan that waits since an earlier run."""
        self._view.on_event(record)
        kind = record["kind"]
        if kind == "approval_asked" and self._asks_calls:
            self._prompts.put(CallPrompt(self._workspace, record["approval"]))
        elif kind == "plan_submitted" and self._asks_plans:
            plan, revision = record["plan"], record["revision"]
            self._prompts.put(PlanPrompt(self._workspace, plan, revision, record["agent"]))
        elif kind == "run_started" and record["resumed"] and self._asks_plans:
            for waiting in self._workspace.plans.pending():
                if waiting.session == record["session"]:
                    self.on_event(_submitted(waiting))

    @contextmanager
    def reviewing(self) -> Iterator[None]:
        """Ask until the context ends."""
        thread = threading.Thread(target=self._work, name="reviewer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._prompts.put(None)
            self._terminal.close()
            thread.join()

    def _work(self) -> None:
        self._workspace.events.add(self._view.on_event)
        try:
            while (prompt := self._prompts.get()) is not None:
                self._put(prompt)
        except (NoAnswer, OSError):
            if not self._over.is_set():
                say("team: nobody is at the terminal any more, so the run is interrupted")
                os.kill(os.getpid(), signal.SIGINT)

    def _put(self, prompt: Prompt) -> None:
        try:
            if prompt.waits():
                with self._view.asking():
                    prompt.decide(self._terminal)
        except Moot:
            say(f"{prompt.name} needs no answer any more.")
        except TeamError as error:  # such as decided elsewhere, or too late
            say(f"team: {error}")


@contextmanager
def reviewed(
    view: View, folder: Path, *, plans: bool, calls: bool
) -> Iterator[Callable[[dict[str, Any]], None]]:
    """The sink for a run's events: the view, and questions about its plans and calls."""
    if not plans and not calls:
        yield view.on_event
        return
    reviewer = Reviewer(Workspace(folder, os.environ), view, Terminal(), plans=plans, calls=calls)
    with reviewer.reviewing():
        yield reviewer.on_event


def _submitted(plan: Plan) -> dict[str, Any]:
    """The event of the revision that waits."""
    return {
        "kind": "plan_submitted",
        "agent": plan.agent,
        "plan": plan.id,
        "revision": plan.current.number,
        "task": plan.task,
        "text": plan.current.shown,
    }
