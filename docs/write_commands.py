"""Write `docs/commands.md` from the command line itself.

python docs/write_commands.py
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path

import click

from team_runtime.cli.main import cli

HEAD = """\
# Commands

`team COMMAND --help` says the same on your terminal, and `python -m team_runtime` is the same as
`team`.

Every command takes these options, before or after its name:

| option | |
|---|---|
| `-C DIR`, `--workspace DIR` | The workspace; default: the repository's root, else this folder. |
| `--json` | One JSON value on stdout and nothing else; field names as on disk. |
| `--no-color` | No colours; `NO_COLOR` does the same. |

Exit codes: 0 done · 1 the work failed or is not finished · 2 bad usage or bad input · 3 a limit was
reached · 4 refused · 130 interrupted.

What is not the answer goes to stderr.
"""
SHARED = {"workspace", "as_json", "no_color"}


def page() -> str:
    """The whole of `docs/commands.md`."""
    return "\n".join([HEAD, *commands("team", cli)])


def commands(path: str, command: click.Command) -> Iterator[str]:
    """The sections of a command and all below it."""
    context = click.Context(command, info_name=path)
    if isinstance(command, click.Group):
        if command is not cli:
            yield f"## `{path}`\n\n{text_of(command)}\n"
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from commands(f"{path} {name}", inner)
        return
    arguments = [argument(p) for p in command.params if isinstance(p, click.Argument)]
    level = "##" if path.count(" ") == 1 else "###"
    yield f"{level} `{' '.join([path, *arguments])}`\n\n{text_of(command)}\n"
    options = [p for p in command.params if isinstance(p, click.Option) and p.name not in SHARED]
    if options:
        rows = [f"| {names(option)} | {cell(option)} |" for option in options]
        yield "\n".join(["| option | |", "|---|---|", *rows, ""])


def text_of(command: click.Command) -> str:
    return inspect.cleandoc(command.help or "")


def argument(parameter: click.Argument) -> str:
    name = parameter.metavar or str(parameter.name).upper()
    many = "…" if parameter.nargs == -1 else ""
    return f"{name}{many}" if parameter.required else f"[{name}{many}]"


def names(option: click.Option) -> str:
    """The option as it is typed, in code."""
    value = ""
    if isinstance(option.type, click.Choice):
        value = " " + "\\|".join(map(str, option.type.choices))
    elif not option.is_flag:
        value = f" {option.metavar or option.type.name.upper()}"
    return f"`{', '.join([*option.opts, *option.secondary_opts])}{value}`"


def cell(option: click.Option) -> str:
    notes = [option.help or ""]
    notes += ["Required."] if option.required else []
    notes += ["May be given several times."] if option.multiple else []
    return " ".join(filter(None, notes)).replace("|", "\\|")


if __name__ == "__main__":
    Path(__file__).with_name("commands.md").write_text(page(), encoding="utf-8")
