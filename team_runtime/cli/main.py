"""The command line's entry: global options, lazily loaded commands, one place for errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import click

COMMANDS: Final = {
    "demo": ("team_runtime.cli.demo", "Run the main job offline, on a bundled repository."),
    "run": ("team_runtime.cli.run", "Let a team work on a request until it is done."),
    "tasks": ("team_runtime.cli.tasks", "The task board."),
    "plans": ("team_runtime.cli.plans", "Review plans."),
    "worktrees": ("team_runtime.cli.worktrees", "The git side of tasks."),
    "status": ("team_runtime.cli.status", "Who does what."),
}


class LazyGroup(click.Group):
    """Imports a command's module when it is used, so that help and the board answer at once."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[name][0])
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if not value:
        return
    from importlib.metadata import version

    click.echo(f"team {version('team_runtime')}")
    ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("-C", "--workspace", metavar="DIR", help="The workspace (default: the repository).")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version)
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """A team of coding agents that share a task board, each in its own git worktree.

    Options before the command may also stand after it.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that the documentation promises."""
    sys.exit(_guarded(lambda: cli.main(arguments, prog_name="team", standalone_mode=False)))


def _guarded(run: Callable[[], Any]) -> int:
    from team_runtime.errors import TeamError

    try:
        code = run()
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except TeamError as error:
        click.echo(f"team: {error}", err=True)
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0
