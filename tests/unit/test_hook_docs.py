"""The page about hooks has the tables that the code has."""

from __future__ import annotations

import runpy
from pathlib import Path

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.guard.claude_names import ABSENT, TRANSLATIONS, claude_name
from team_runtime.guard.hook_events import HOOK_EVENTS, UNAVAILABLE

DOCS = Path(__file__).parents[2] / "docs"


def test_the_tables_are_up_to_date() -> None:
    written = runpy.run_path(str(DOCS / "write_hooks.py"))["written"]
    page = (DOCS / "hooks.md").read_text()
    assert written(page) == page, "run: python docs/write_hooks.py"
    assert all(f"| `{event}`" in page for event in HOOK_EVENTS)


def test_no_event_is_both_there_and_not() -> None:
    assert not UNAVAILABLE & set(HOOK_EVENTS)


def test_only_tools_that_exist_are_translated_each_to_a_name_of_its_own() -> None:
    assert set(TRANSLATIONS) <= TOOL_NAMES
    assert len({claude_name(tool) for tool in TOOL_NAMES}) == len(TOOL_NAMES)
    assert not ABSENT & {claude_name(tool) for tool in TOOL_NAMES}
