"""Writes the tables of `docs/hooks.md`. Run it when an event or a translated tool changes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from team_runtime.guard.claude_names import TRANSLATIONS
from team_runtime.guard.hook_events import table

PAGE: Final = Path(__file__).with_name("hooks.md")


def tools() -> str:
    """Our tools under the names that hooks see."""
    lines = ["| tool | to hooks | inputs to hooks |", "|---|---|---|"]
    for tool, known in TRANSLATIONS.items():
        fields = [
            f"`{ours}` is `{field.name}`" + (f" ({field.note})" if field.note else "")
            for ours, field in known.fields.items()
        ]
        lines.append(f"| `{tool}` | `{known.name}` | {', '.join(fields) or 'the same'} |")
    return "\n".join(lines) + "\n"


def written(page: str) -> str:
    """The page with both tables as they have to be."""
    for name, content in (("events", table()), ("tools", tools())):
        begin = f"<!-- {name}: written by docs/write_hooks.py -->\n"
        before, _, rest = page.partition(begin)
        after = rest.partition("<!-- end -->")[2]
        page = f"{before}{begin}{content}<!-- end -->{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
