"""What a person sees while a team works: plain lines, or a live table on a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from team_runtime.clock import Clock
from team_runtime.text import for_terminal, one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_QUIET: Final = {"turn_started", "tool_ended", "message_sent", "message_delivered", "run_ended"}


def describe(record: dict[str, Any]) -> str | None:
    """One line about an event, without who did it; `None` for what a person need not see."""
    kind = record["kind"]
    if kind in _QUIET or kind == "turn_ended":
        return None
    shown = _SENTENCES.get(kind)
    return for_terminal(shown(record)) if shown else None


def _tool(record: dict[str, Any]) -> str:
    values = record.get("input", {})
    key = next(
        (k for k in ("command", "path", "pattern", "task_id", "name", "to") if k in values), ""
    )
    return f"{record['tool']} {one_line(str(values.get(key, '')), 90)}".rstrip()


_SENTENCES: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    "run_started": lambda r: f"session {r['session']} · model {r['model']}",
    "agent_spawned": lambda r: f"spawned as {one_line(r['role'], 60)}",
    "agent_state": lambda r: f"is {r['state']}",
    "tool_started": _tool,
    "permission_denied": lambda r: f"was refused {r['tool']}: {one_line(r['reason'])}",
    "task_created": lambda r: f"created {r['task']}",
    "task_claimed": lambda r: f"claimed {r['task']}",
    "task_completed": lambda r: f"completed {r['task']}",
    "task_released": lambda r: f"gave back {r['task']}: {one_line(str(r.get('note', '')))}",
    "task_failed": lambda r: f"gave up {r['task']}: {one_line(str(r.get('note', '')))}",
    "plan_submitted": lambda r: f"submitted plan revision {r['revision']} for {r.get('task')}",
    "plan_decided": lambda r: (
        f"plan revision {r['revision']} was {r['decision']} by {r['by']}"
        + (f": {one_line(r['feedback'], 200)}" if r.get("feedback") else "")
    ),
    "worktree_created": lambda r: f"worktree {r['name']} on branch team/{r['name']}",
    "worktree_landed": lambda r: f"worktree {r['name']} landed on {r['target']}",
    "worktree_removed": lambda r: f"worktree {r['name']} removed",
    "api_retry": lambda r: (
        f"model call failed ({one_line(r['cause'])}), again in {r['delay']:.1f} s"
    ),
    "quarantined": lambda r: f"a broken file was set aside: {r.get('path')}",
}


class LineView:
    """One plain line for each thing that happens; plans in full."""

    def __init__(self, clock: Clock, write: Callable[[str], None]) -> None:
        self._clock = clock
        self._write = write
        self._began = clock.monotonic()
        self._lock = threading.Lock()

    def on_event(self, record: dict[str, Any]) -> None:
        line = describe(record)
        if line is None:
            return
        elapsed = self._clock.monotonic() - self._began
        who = record["agent"] or record.get("owner") or "team"
        lines = [f"{elapsed:6.1f}s  {who:<10} {line}"]
        if record["kind"] == "plan_submitted":
            lines += [f"         │ {text}" for text in for_terminal(record["text"]).splitlines()]
        with self._lock:
            for text in lines:
                self._write(text)

    def showing(self) -> AbstractContextManager[object]:
        return nullcontext()


@dataclass
class _Row:
    state: str = "starting"
    task: str = ""
    tool: str = ""
    tokens: int = 0
    since: float = 0.0


class LiveView:
    """A line per agent and a bar of tasks, with plans and decisions printed above."""

    def __init__(self, clock: Clock, console: Console) -> None:
        self._clock = clock
        self._console = console
        self._lock = threading.Lock()
        self._rows: dict[str, _Row] = {}
        self._tasks: dict[str, str] = {}

    def showing(self) -> AbstractContextManager[object]:
        """Show the table until the context ends."""
        from rich.live import Live

        return Live(
            console=self._console,
            get_renderable=self._table,
            refresh_per_second=8,
            transient=True,
        )

    def on_event(self, record: dict[str, Any]) -> None:
        with self._lock:
            self._note(record)
        if record["kind"] == "plan_submitted":
            self._print_plan(record)
        elif record["kind"] not in ("tool_started", "agent_state"):
            line = describe(record)
            if line is not None:
                who = record["agent"] or record.get("owner") or "team"
                self._console.print(f"{who:<10} {line}", markup=False, highlight=False)

    def _note(self, record: dict[str, Any]) -> None:
        kind, agent = record["kind"], record["agent"]
        if kind.startswith("task_"):
            status = {"created": "pending", "claimed": "in_progress", "released": "pending"}
            what = kind.removeprefix("task_")
            self._tasks[record["task"]] = status.get(what, what)
        if agent is None:
            return
        row = self._rows.setdefault(agent, _Row(since=self._clock.monotonic()))
        if kind == "agent_state":
            row.state, row.task = record["state"], record.get("task") or ""
        elif kind == "tool_started":
            row.tool = _tool(record)
        elif kind == "task_claimed":
            row.task = record["task"]
        elif kind == "turn_ended":
            row.tokens += sum(record["usage"].values())

    def _print_plan(self, record: dict[str, Any]) -> None:
        from rich.panel import Panel
        from rich.text import Text

        title = f"plan of {record['agent']} for {record.get('task')}, revision {record['revision']}"
        self._console.print(
            Panel(Text(for_terminal(record["text"])), title=title, title_align="left")
        )

    def _table(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2), expand=True)
        for ratio in (None, None, None, 1, None, None):
            table.add_column(ratio=ratio, no_wrap=True, overflow="ellipsis")
        with self._lock:
            now = self._clock.monotonic()
            for name, row in self._rows.items():
                table.add_row(
                    Text(name, style="bold"),
                    row.state,
                    row.task or "–",
                    Text(row.tool, style="dim"),
                    f"{row.tokens:,} tok",
                    f"{now - row.since:.0f}s",
                )
            total = len(self._tasks)
            done = sum(status == "completed" for status in self._tasks.values())
        bar = ProgressBar(total=max(total, 1), completed=done, width=30)
        footer = Table.grid(padding=(0, 2))
        footer.add_row(f"tasks {done}/{total}", bar)
        return Group(table, footer)


def make_view(clock: Clock, color: bool, live: bool) -> LineView | LiveView:
    """The live table on a terminal, else plain lines on stderr."""
    if live:
        from rich.console import Console

        return LiveView(clock, Console(stderr=True, no_color=not color))
    import click

    return LineView(clock, lambda line: click.echo(line, err=True))
