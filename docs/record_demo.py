"""Draw `docs/demo.svg`: what `team demo` shows on a terminal, from a real run of it.

python docs/record_demo.py [FILE]
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from team_runtime.app.demo import REQUEST, run_demo
from team_runtime.cli.telling import Mood, tell
from team_runtime.cli.view import LiveView
from team_runtime.clock import SystemClock

PACE = 0.2
"""Seconds for each scripted reply, so that both teammates are seen to work at the same time."""


def record(width: int = 100) -> str:
    """The SVG: every step but the reading and editing, with all plans and their review."""
    console = Console(file=io.StringIO(), record=True, width=width, force_terminal=True)
    view = LiveView(SystemClock(), console)

    def on_event(event: dict[str, Any]) -> None:
        told = tell(event)
        if told is not None and told.mood is not Mood.QUIET:
            view.on_event(event)

    console.print(Text("$ team demo", style="bold"))
    console.print(Text(f"Request: {REQUEST}\n"))
    with tempfile.TemporaryDirectory() as folder:
        result = run_demo(Path(folder), os.environ, on_event, lambda agent, entry: None, PACE)
    assert result.succeeded
    tests = result.record["tests"]
    console.print(
        f"\n{tests['passed']} tests passed on {result.record['target']}.",
        style="bold",
        highlight=False,
    )
    return console.export_svg(title="team demo", code_format=without_fonts(), unique_id="demo")


def without_fonts() -> str:
    """The frame that rich draws, without anything that is fetched from the network."""
    return re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("demo.svg")
    target.write_text(record(), encoding="utf-8")
