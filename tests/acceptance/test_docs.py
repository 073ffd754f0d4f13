"""What the documentation says is what the program does."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parents[2] / "docs"


def script(name: str) -> ModuleType:
    """A script of `docs/`, as a module."""
    spec = spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_up_to_date() -> None:
    expected = script("write_commands").page()
    assert (DOCS / "commands.md").read_text() == expected, "run: python docs/write_commands.py"


def test_each_option_is_explained() -> None:
    rows = re.findall(r"^\| `-.*", (DOCS / "commands.md").read_text(), re.MULTILINE)
    assert len(rows) > 40
    assert [row for row in rows if row.endswith("|  |")] == []


def test_the_picture_of_the_demo_is_what_the_demo_shows() -> None:
    for picture in ((DOCS / "demo.svg").read_text(), script("record_demo").record()):
        shown = re.sub(r"<[^>]*>", "\n", picture).replace("&#160;", " ")
        for part in (
            "created task_1: Refactor the authentication module",
            r"submitted plan_\d revision 1 for task_1",
            r"rejected plan_\d revision 1 of login",
            r"approved plan_\d revision 2 of login",
            "landed auth on main",
            "38 tests passed on main.",
        ):
            assert re.search(part, shown)
        addresses = set(re.findall(r"\w+://[^\s\"<)]*", picture))
        assert addresses == {"http://www.w3.org/2000/svg"}, "nothing is fetched"
        assert "/tmp" not in picture
