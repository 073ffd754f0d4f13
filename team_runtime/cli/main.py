"""The command line's entry: global options, lazily loaded commands, one place for errors."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

import click

from team_runtime.cli.output import mend_streams, put, say
from team_runtime.errors import TeamError
from team_runtime.process.environment import secret_values
from team_runtime.text import Redactor

COMMANDS: Final = {
    "demo": ("team_runtime.cli.demo", "See a scripted team do real work, offline."),
    "run": ("team_runtime.cli.run", "Let a team work on a request until it is done."),
    "tasks": ("team_runtime.cli.tasks", "The task board."),
    "plans": ("team_runtime.cli.plans", "Review the agents' plans."),
    "approvals": ("team_runtime.cli.approvals", "Questions that wait for you."),
    "worktrees": ("team_runtime.cli.worktrees", "See, land and remove the agents' work."),
    "jobs": ("team_runtime.cli.jobs", "The agents' background commands."),
    "mail": ("team_runtime.cli.mail", "Mailboxes: write to an agent, look at what waits."),
    "cron": ("team_runtime.cli.cron", "Schedules: prompts for later."),
    "daemon": ("team_runtime.cli.daemon", "Fire schedules with no terminal open."),
    "sessions": ("team_runtime.cli.sessions", "What was said and done in each session."),
    "status": ("team_runtime.cli.status", "Who does what, right now."),
    "trust": ("team_runtime.cli.trust", "Let this workspace's own hooks and rules count."),
    "config": ("team_runtime.cli.config", "The settings in force."),
    "permissions": ("team_runtime.cli.permissions", "What the rules say about a call."),
    "doctor": ("team_runtime.cli.doctor", "What is missing here, and how to fix it."),
}
INTERRUPTED: Final = 130


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

    put(f"team {version('team_runtime')}")
    ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("-C", "--workspace", metavar="DIR", help="The workspace (default: the repository).")
@click.option("--json", "as_json", is_flag=True, help="One JSON value on stdout, nothing else.")
@click.option("--no-color", is_flag=True, help="No colours.")
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and exit.",
)
@click.pass_context
def cli(ctx: click.Context, /, **given: Any) -> None:
    """A team of coding agents that share a task board, each in its own git worktree.

    New here? `team demo` shows everything in a few seconds, without a key. Then, in a repository
    of yours, `team doctor` says what is missing.

    These options may also stand after the command.
    """
    if ctx.invoked_subcommand is None:
        put(ctx.get_help())


def main(arguments: list[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code that the documentation promises."""
    mend_streams()
    if arguments is None:  # the process is ours
        from team_runtime.process.secrets import hide_secrets

        hide_secrets(os.environ)
    sys.exit(_guarded(lambda: cli.main(arguments, prog_name="team", standalone_mode=False)))


def _guarded(run: Callable[[], Any]) -> int:
    try:
        code = run()
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        say(_usage(error))
        return 2
    except (KeyboardInterrupt, click.Abort):
        say("team: interrupted")
        return INTERRUPTED
    except Exception as error:
        return _failed(error)
    return code if isinstance(code, int) else 0


def _usage(error: click.ClickException) -> str:
    """What was wrong, and where the command's help is."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    where = context.command_path if context is not None else "team"
    return f"team: {error.format_message()}{_others(error)}\nTry '{where} --help'."


def _others(error: click.ClickException) -> str:
    """The commands that there are, where one was named that there is not."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None or not isinstance(context.command, click.Group):
        return ""
    if not error.message.startswith("No such command"):
        return ""
    return f" Commands: {', '.join(context.command.list_commands(context))}."


def _failed(error: Exception) -> int:
    """Say in one sentence what went wrong; returns the exit code."""
    cause, known = _cause(error), Redactor(secret_values(os.environ))
    if isinstance(cause, TeamError):
        say(known.text(f"team: {cause}"))
        return cause.exit_code
    if isinstance(cause, OSError):
        say(f"team: the system refused: {cause}. What was recorded until then is kept.")
        return 1
    said = (
        f"team: this is a bug ({type(cause).__name__}: {cause}). What was recorded until then is "
        f"kept. Please report it with {_trace(error, known)}"
    )
    say(known.text(said))
    return 1


def _cause(error: Exception) -> Exception:
    """The error that a person can use, out of a group of errors that happened together."""
    if not isinstance(error, ExceptionGroup):
        return error
    causes = [_cause(inner) for inner in error.exceptions]
    known = (cause for cause in causes if isinstance(cause, TeamError | OSError))
    return next(known, causes[0])


def _trace(error: Exception, known: Redactor) -> str:
    """Where the whole trace was written."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="team-bug-", suffix=".txt", delete=False, errors="replace"
        ) as file:
            file.write(known.text("".join(traceback.format_exception(error))))
    except OSError:
        return "the way to repeat it; its trace could not be written"
    return file.name
