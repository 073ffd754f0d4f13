"""What a person sees while a team works: plain lines, or lines above a live table on a terminal.

Agents' threads call `on_event` and `on_entry`; while a person is being asked, lines wait.
"""

from __future__ import annotations

import os
import textwrap
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from team_runtime.cli.telling import Mood, Told, tell, tell_entry, tool_line
from team_runtime.clock import Clock

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live


_BODY_WIDTH: Final = 100
"""Characters of a line of a plan, where there is no terminal that wraps it."""


class View(ABC):
    """Shows events, in their order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[Told] | None = None
        """Lines that wait until the person has answered."""

    def on_event(self, record: dict[str, Any]) -> None:
        """Show an event of the run."""
        self._tell(tell(record))

    def on_entry(self, agent: str, entry: dict[str, Any]) -> None:
        """Show what an agent said."""
        self._tell(tell_entry(agent, entry))

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Leave the terminal to a question; what happens meanwhile is shown afterwards."""
        with self._paused():
            with self._lock:
                self._held = []
            try:
                yield
            finally:
                with self._lock:
                    held, self._held = self._held, None
                    for told in held:
                        self._show(told)

    @abstractmethod
    def showing(self) -> AbstractContextManager[object]:
        """Show until the context ends."""

    @abstractmethod
    def leave(self) -> None:
        """The process ends in this moment: leave the terminal usable. Takes no lock."""

    @abstractmethod
    def _show(self, told: Told) -> None: ...

    def _paused(self) -> AbstractContextManager[object]:
        """Nothing moves on the screen until the context ends."""
        return nullcontext()

    def _tell(self, told: Told | None) -> None:
        if told is None:
            return
        with self._lock:
            if self._held is not None:
                self._held.append(told)
            else:
                self._show(told)


class LineView(View):
    """Plain lines, for logs and pipes."""

    def __init__(self, clock: Clock, write: Callable[[str], None]) -> None:
        super().__init__()
        self._clock = clock
        self._write = write
        self._began = clock.monotonic()

    def showing(self) -> AbstractContextManager[object]:
        return nullcontext()

    def leave(self) -> None:
        """Lines are whole as they are."""

    def _show(self, told: Told) -> None:
        elapsed = self._clock.monotonic() - self._began
        self._write(f"{elapsed:6.1f}s  {told.who:<10} {told.text}")
        for line in told.body.splitlines():
            for part in textwrap.wrap(line, _BODY_WIDTH) or [""]:
                self._write(f"         │ {part}")


@dataclass
class _Row:
    """What the table shows of one agent."""

    state: str = "starting"
    task: str = ""
    doing: str = ""
    tokens: int = 0
    since: float = 0.0


_COLORS: Final = ("cyan", "magenta", "yellow", "blue", "green")
_STYLES: Final = {Mood.PLAIN: "", Mood.QUIET: "dim", Mood.GOOD: "green", Mood.BAD: "red"}
_SHOW_CURSOR: Final = b"\x1b[?25h\n"
_NARROW: Final = 60
"""Columns under which the table shows only who does what."""


class LiveView(View):
    """Lines above a table with a row per agent and a bar of tasks."""

    def __init__(self, clock: Clock, console: Console) -> None:
        super().__init__()
        self._clock = clock
        self._console = console
        self._live: Live | None = None
        self._table_lock = threading.Lock()
        self._rows: dict[str, _Row] = {}
        self._tasks: dict[str, str] = {}

    @contextmanager
    def showing(self) -> Iterator[None]:
        """The table is gone afterwards, the lines stay. A terminal that is gone is no error."""
        from rich.live import Live

        live = Live(
            console=self._console,
            get_renderable=self._table,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        self._live = live
        try:
            yield
        finally:
            self._live = None
            with suppress(OSError):
                live.stop()

    def leave(self) -> None:
        with suppress(OSError):
            os.write(self._console.file.fileno(), _SHOW_CURSOR)

    @contextmanager
    def _paused(self) -> Iterator[None]:
        live = self._live
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None and self._live is live:
                live.start()

    def on_event(self, record: dict[str, Any]) -> None:
        self._note(record)
        super().on_event(record)

    def _note(self, record: dict[str, Any]) -> None:
        """Keep what the table shows."""
        kind, agent = record["kind"], record["agent"]
        with self._table_lock:
            if kind.startswith("task_"):
                status = {"created": "pending", "claimed": "in_progress", "released": "pending"}
                what = kind.removeprefix("task_")
                self._tasks[record["task"]] = status.get(what, what)
            if kind in ("agent_spawned", "agent_state"):  # so that a person is no agent
                self._rows.setdefault(agent, _Row(since=self._clock.monotonic()))
            row = self._rows.get(agent)
            if row is None:
                return
            if kind == "agent_state":
                row.state, row.task = record["state"], record.get("task") or ""
                row.since = self._clock.monotonic()
            elif kind == "task_claimed":
                row.task = record["task"]
            elif kind == "turn_started":
                row.doing = "asks the model"
            elif kind == "tool_started":
                row.doing = tool_line(record)
            elif kind == "approval_asked":
                row.doing = f"asks you: {record['approval']}"
            elif kind == "turn_ended":
                row.doing = ""
                row.tokens += sum(record["usage"].values())

    def _show(self, told: Told) -> None:
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        line = Table.grid(padding=(0, 1))
        line.add_column(min_width=min(10, self._console.width // 3), style=self._color(told.who))
        line.add_column(overflow="fold")
        line.add_row(Text(told.who), Text(told.text, style=_STYLES[told.mood]))
        self._console.print(line)
        if told.body:
            color = _STYLES[told.mood] or self._color(told.who)
            self._console.print(Panel(Text(told.body), border_style=color))

    def _color(self, who: str) -> str:
        names = list(self._rows)
        return _COLORS[names.index(who) % len(_COLORS)] if who in names else "bold"

    def _table(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        with self._table_lock:
            rows = [
                (name, row.state, row.task or "–", row.doing, _tokens(row.tokens), row.since)
                for name, row in self._rows.items()
            ]
            total = len(self._tasks)
            done = sum(status == "completed" for status in self._tasks.values())
        narrow = self._console.width < _NARROW
        return Group(Text(""), self._agents(rows, narrow), _bar(done, total, narrow))

    def _agents(
        self, rows: list[tuple[str, str, str, str, str, float]], narrow: bool
    ) -> RenderableType:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1 if narrow else 2), expand=True)
        for ratio in (None, 1) if narrow else (None, None, None, 1, None, None):
            table.add_column(ratio=ratio, no_wrap=True, overflow="ellipsis")
        now = self._clock.monotonic()
        for name, state, task, doing, tokens, since in rows:
            who = Text(name, style=self._color(name))
            if narrow:
                table.add_row(who, Text(doing or state, style="dim"))
            else:
                seconds = f"{now - since:.0f} s"
                table.add_row(who, state, task, Text(doing, style="dim"), tokens, seconds)
        return table


def _bar(done: int, total: int, narrow: bool) -> RenderableType:
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    footer = Table.grid(padding=(0, 2))
    label = f"{done} of {total} tasks done" if total else "no tasks yet"
    if narrow:
        footer.add_row(label)
    else:
        footer.add_row(label, ProgressBar(total=max(total, 1), completed=done, width=30))
    return footer


def _tokens(count: int) -> str:
    return f"{count / 1000:.1f}k tokens" if count >= 1000 else f"{count} tokens"


def make_view(clock: Clock, color: bool, live: bool) -> View:
    """The live table on a terminal, else plain lines on stderr."""
    if live:
        from rich.console import Console

        class Terminal(Console):
            def on_broken_pipe(self) -> None:
                """Let the error through; rich would close stdout and end the thread."""
                raise

        return LiveView(clock, Terminal(stderr=True, no_color=not color))
    from team_runtime.cli.output import say

    return LineView(clock, say)
