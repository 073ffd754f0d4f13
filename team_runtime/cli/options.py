"""The options that are settings of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Final = (
    click.option("--model", metavar="NAME", help="provider:model; a bare name means anthropic."),
    click.option(
        "--permission-mode",
        metavar="MODE",
        help="default, acceptEdits, plan, dontAsk, bypassPermissions.",
    ),
    click.option("--allow", metavar="RULE", multiple=True, help="Allow, such as 'Bash(npm test)'."),
    click.option("--deny", metavar="RULE", multiple=True, help="Deny; beats every allow."),
    click.option(
        "--sandbox",
        type=click.Choice(["auto", "required", "off"]),
        help="auto: the best there is; required: run nothing without one; off: your own rights.",
    ),
    click.option(
        "--sandbox-network",
        is_flag=True,
        default=None,
        help="Let commands in the sandbox use the network.",
    ),
    click.option(
        "--sandbox-domain",
        "sandbox_domains",
        metavar="HOST",
        multiple=True,
        help="Let commands in the sandbox reach this host (or *.HOST) and no others.",
    ),
    click.option(
        "--sandbox-allows-commands",
        is_flag=True,
        default=None,
        help="Let agents run commands without a rule while bubblewrap confines them.",
    ),
    click.option("--plan-review", type=click.Choice(["lead", "person"]), help="Who decides plans."),
    click.option(
        "--approvals",
        type=click.Choice(["auto", "wait", "refuse"]),
        help="What asks: wait for a person, refuse at once; auto waits on a terminal.",
    ),
    click.option(
        "--approval-deadline",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="When a question without an answer is answered with no.",
    ),
    click.option(
        "--max-turns", type=click.IntRange(1), metavar="N", help="Model calls of the whole team."
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0, min_open=True),
        metavar="SECONDS",
        help="The longest that the run may take.",
    ),
    click.option(
        "--notify",
        metavar="SINK",
        multiple=True,
        help="Tell me when I am needed: bell, desktop, or an address for apprise.",
    ),
    click.option("--name", metavar="TEAM", help="The team's name."),
)


def setting_options(command: F) -> F:
    """Add an option for each setting; one that was not given is passed on as `None` or `()`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
