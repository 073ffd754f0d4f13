"""What the documentation says is what the program does."""

from __future__ import annotations

import itertools
import re
import shlex
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import click
import pytest

from team_runtime.app.permissions import make_permissions
from team_runtime.cli.main import cli
from team_runtime.config import load

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


def check_picture(picture: str) -> None:
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


def test_the_picture_of_the_demo_is_of_the_demo() -> None:
    check_picture((DOCS / "demo.svg").read_text())


@pytest.mark.slow
def test_the_picture_can_be_drawn_again() -> None:
    check_picture(script("record_demo").record())


def blocks_of(language: str) -> list[list[str]]:
    """The lines of each block in this language, in the pages that a user reads."""
    pages = [DOCS / "using.md", DOCS.parent / "README.md", DOCS.parent / "examples" / "README.md"]
    blocks = [re.findall(rf"```{language}\n(.*?)```", p.read_text(), re.DOTALL) for p in pages]
    return [block.replace("\\\n", " ").splitlines() for found in blocks for block in found]


def written_commands() -> list[list[str]]:
    """The arguments of every `team …` that the pages show."""
    found = []
    for line in itertools.chain(*blocks_of("sh")):
        for part in re.split(r" (?:&&|\|) ", line):
            words = shlex.split(part, comments=True)
            if words[:1] == ["team"]:
                found.append(words[1:])
    return found


def test_every_command_in_the_pages_is_one() -> None:
    written = written_commands()
    assert len(written) > 40
    for words in written:
        command: click.Command = cli
        context = click.Context(cli)
        while isinstance(command, click.Group):
            name = next(word for word in words if not word.startswith("-"))
            words.remove(name)
            found = command.get_command(context, name)
            assert found is not None, f"there is no command {name}"
            command = found
        command.make_context("team", words)  # raises for what it does not take


def test_every_rule_in_the_pages_is_one(tmp_path: Path) -> None:
    options = [pair for words in written_commands() for pair in itertools.pairwise(words)]
    rules = [value for option, value in options if option in ("--allow", "--deny")]
    assert len(rules) > 5
    for block in blocks_of("toml"):
        folder = {"# team.toml": tmp_path, "# your own team.toml": tmp_path / "own"}[block[0]]
        folder.mkdir(exist_ok=True)
        (folder / "team.toml").write_text("\n".join(block))
    settings = load(tmp_path, {"TEAM_CONFIG_DIR": str(tmp_path / "own")}, {"allow": rules})
    make_permissions(settings)
    assert settings.deny == ("Edit(migrations/**)",)
    assert settings.notify


def test_links_lead_somewhere() -> None:
    for page in [*DOCS.rglob("*.md"), *(DOCS.parent / "examples").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
