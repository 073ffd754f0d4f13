"""A person at the terminal who decides each plan as it arrives."""

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
from typing import Any, Final

import click

from team_runtime.app.workspace import Workspace
from team_runtime.cli.output import say
from team_runtime.cli.view import View
from team_runtime.errors import TeamError
from team_runtime.plans.model import Plan

YES: Final = {"y", "yes"}
NO: Final = {"n", "no"}


class NoAnswer(Exception):
    """The run is over, or nobody is at the terminal any more."""


class Terminal:
    """Reads lines from stdin until `close`, which also ends a read that waits."""

    def __init__(self) -> None:
        self._wake, self._ring = os.pipe()
        self._rest = b""

    def ask(self, question: str) -> str:
        """The answer, without blanks around it. What was typed before the question was there is no
        answer to it. Raises `NoAnswer`."""
        self._rest = b""
        with suppress(termios.error):  # the terminal is gone, which reading will show
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        click.echo(f"{question} ", err=True, nl=False)
        while b"\n" not in self._rest:
            self._rest += self._read()
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode(errors="replace").strip()

    def close(self) -> None:
        """End what waits for an answer. Safe from any thread."""
        os.write(self._ring, b"x")

    def _read(self) -> bytes:
        stdin = sys.stdin.fileno()
        with selectors.DefaultSelector() as selector:
            selector.register(stdin, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            ready = {key.fd for key, _ in selector.select()}
        data = b"" if self._wake in ready else os.read(stdin, 4096)
        if not data:
            raise NoAnswer
        return data


@dataclass(frozen=True)
class Asked:
    """A revision that waits for the person."""

    plan: str
    revision: int
    agent: str


class Reviewer:
    """Asks for a decision on each plan, one after the other, on a thread of its own."""

    def __init__(self, workspace: Workspace, view: View, terminal: Terminal) -> None:
        self._workspace = workspace
        self._view = view
        self._terminal = terminal
        self._plans: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        self._over = threading.Event()

    def on_event(self, record: dict[str, Any]) -> None:
        """An event sink: each submitted plan is shown and asked about, and in a resumed session
        each that waits since an earlier run."""
        self._view.on_event(record)
        if record["kind"] == "plan_submitted":
            self._plans.put(Asked(record["plan"], record["revision"], record["agent"]))
        elif record["kind"] == "run_started" and record["resumed"]:
            for plan in self._workspace.plans.pending():
                if plan.session == record["session"]:
                    self.on_event(_submitted(plan))

    @contextmanager
    def reviewing(self) -> Iterator[None]:
        """Ask until the context ends."""
        thread = threading.Thread(target=self._work, name="reviewer", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._plans.put(None)
            self._terminal.close()
            thread.join()

    def _work(self) -> None:
        self._workspace.events.add(self._view.on_event)
        try:
            while (asked := self._plans.get()) is not None:
                with self._view.asking():
                    decision = self._ask(asked)
                self._decide(asked, *decision)
        except (NoAnswer, OSError):
            if not self._over.is_set():
                say("team: nobody is at the terminal any more, so the run is interrupted")
                os.kill(os.getpid(), signal.SIGINT)

    def _ask(self, asked: Asked) -> tuple[bool, str]:
        """Whether the person approves, and the feedback otherwise."""
        name = f"{asked.plan} revision {asked.revision}"
        while True:
            answer = self._terminal.ask(f"Approve {name} of {asked.agent}? [y/n]").lower()
            if answer in YES:
                return True, ""
            if answer in NO:
                break
            say("Please answer y (it goes ahead) or n (it is revised with your feedback).")
        while True:
            feedback = self._terminal.ask("What must change?")
            if feedback:
                return False, feedback
            say(f"Please say what must change; {asked.agent} revises the plan by it.")

    def _decide(self, asked: Asked, approve: bool, feedback: str) -> None:
        planning = self._workspace.planning()
        try:
            planning.decide_as_person(asked.plan, asked.revision, approve, feedback)
        except TeamError as error:  # such as decided elsewhere, or too late
            say(f"team: {error}")


@contextmanager
def reviewed(view: View, folder: Path, ask: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """The sink for a run's events: the view, and with `ask` the questions about its plans."""
    if not ask:
        yield view.on_event
        return
    reviewer = Reviewer(Workspace(folder, os.environ), view, Terminal())
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
        "text": plan.current.text,
    }
