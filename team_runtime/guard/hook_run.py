"""Running one handler, and reading how it ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from anyio import to_thread

from team_runtime.errors import TeamError
from team_runtime.guard.hook_config import Hook
from team_runtime.guard.hook_events import HOOK_EVENTS
from team_runtime.guard.hook_handlers import CommandHandler, HttpHandler, PythonHandler
from team_runtime.guard.hook_hosts import Host
from team_runtime.guard.hook_output import (
    Answer,
    Ended,
    HookFault,
    as_ended,
    read_answer,
    said_by_function,
)
from team_runtime.guard.trust import digest
from team_runtime.process.base import Command, Completed
from team_runtime.process.run import run_on_loop
from team_runtime.text import decode, one_line

KEEP: Final = 256 * 1024
"""Bytes of a handler's output; one that prints more has failed."""


@dataclass(frozen=True)
class Surroundings:
    """What handlers get, whoever's call they are about."""

    root: Path
    """The workspace: their directory, also when the agent works in a worktree. What an agent
    writes in a worktree is never what a hook of the workspace runs."""
    environment: Mapping[str, str]
    """Scrubbed."""
    user_environment: Mapping[str, str]
    """Whole; only for the headers that name a variable."""


def run_handler(
    hook: Hook, payload: Mapping[str, Any], around: Surroundings, host: Host, most: float
) -> Answer:
    """What one handler says, within its time-out or `most` seconds. Raises `HookFault`."""
    seconds = min(hook.timeout, most)
    event, handler = HOOK_EVENTS[hook.event], hook.handler
    try:
        _check_scripts(hook)
        if isinstance(handler, PythonHandler):
            # A copy, so that no function changes what others see.
            given = json.loads(json.dumps(payload))
            return said_by_function(event, host.apart(partial(handler.call, given), seconds))
        if isinstance(handler, CommandHandler):
            command = _command(handler, payload, around, seconds)
            completed = host.runner.run(command)
            if hook.beside:
                return _unheard(completed, seconds)
            ended = _heard(completed, seconds)
        else:
            ended = host.apart(
                partial(_post, handler, payload, around.user_environment, seconds), seconds
            )
    except TimeoutError:
        raise HookFault(f"it did not end within {seconds:g} seconds") from None
    except HookFault:
        raise
    except TeamError as error:
        raise HookFault(str(error)) from error
    except (Exception, SystemExit) as error:  # a function may do anything
        raise HookFault(f"{type(error).__name__}: {error}") from error
    return read_answer(event, ended)


async def run_beside(hook: Hook, payload: Mapping[str, Any], around: Surroundings) -> Answer:
    """Run a command on the loop, until its time-out or until this is cancelled; nothing is heard of
    what it says. Raises `HookFault`."""
    assert isinstance(hook.handler, CommandHandler)
    try:
        await to_thread.run_sync(_check_scripts, hook)
        command = _command(hook.handler, payload, around, hook.timeout)
        return _unheard(await run_on_loop(command), hook.timeout)
    except HookFault:
        raise
    except Exception as error:  # the run goes on, whatever it is
        raise HookFault(str(error)) from error


def _unheard(completed: Completed, seconds: float) -> Answer:
    """Nothing but whether it did what it was there for. Raises `HookFault`."""
    ended = _ended(completed, seconds)
    if ended.status != 0:
        shown = one_line(ended.stderr, 300)
        raise HookFault(f"it ended with status {ended.status}" + (f": {shown}" if shown else ""))
    return Answer()


def _check_scripts(hook: Hook) -> None:
    """Raises `HookFault` when a file is no longer the one that was trusted."""
    for path, trusted in hook.scripts.items():
        try:
            now = digest(path.read_bytes())
        except OSError as error:
            raise HookFault(f"{path} cannot be read: {error.strerror}") from error
        if now != trusted:
            raise HookFault(f"{path} has changed since the workspace was trusted")


def _command(
    handler: CommandHandler, payload: Mapping[str, Any], around: Surroundings, seconds: float
) -> Command:
    environment = {**around.environment, "CLAUDE_PROJECT_DIR": str(around.root)}
    if handler.args is None:
        shell = shutil.which("bash", path=environment.get("PATH")) or "/bin/sh"
        argv: list[str] = [shell, "-c", "--", handler.command]
    else:
        argv = [handler.command, *handler.args]
    return Command(
        argv=argv,
        cwd=around.root,
        env=environment,
        timeout=seconds,
        input=json.dumps(payload).encode(),
        keep=KEEP,
    )


def _ended(ended: Completed, seconds: float) -> Ended:
    """A command's end by itself. Raises `HookFault`."""
    if ended.timed_out:
        raise HookFault(f"it did not end within {seconds:g} seconds and was ended")
    if ended.status < 0:
        raise HookFault(f"it was ended by signal {-ended.status}")
    return as_ended(ended.status, ended.stdout, ended.stderr)


def _heard(completed: Completed, seconds: float) -> Ended:
    """A command's end, when all that it said is known. Raises `HookFault`."""
    ended = _ended(completed, seconds)
    if completed.dropped:
        raise HookFault(f"it printed more than {KEEP} bytes", ended.stdout)
    return ended


def _post(
    handler: HttpHandler,
    payload: Mapping[str, Any],
    environ: Mapping[str, str],
    seconds: float,
) -> Ended:
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, Request

    request = Request(
        handler.url,
        data=json.dumps(payload).encode(),
        headers={"Content-Type": "application/json", **handler.filled_in(environ)},
        method="POST",
    )
    # Nothing but the two schemes: no proxy, no file, and no redirect to another place.
    opener = OpenerDirector()
    opener.add_handler(HTTPHandler())
    opener.add_handler(HTTPSHandler())
    try:
        with opener.open(request, timeout=seconds) as response:
            body: bytes = response.read(KEEP + 1)
            status: int = response.status
    except HTTPError as error:
        raise HookFault(f"{handler.url} answered {error.code}") from error
    except (URLError, OSError) as error:
        cause = getattr(error, "reason", None) or error
        raise HookFault(f"{handler.url} could not be reached: {cause}") from error
    if not 200 <= status < 300:
        raise HookFault(f"{handler.url} answered {status}")
    if len(body) > KEEP:
        raise HookFault(f"{handler.url} answered more than {KEEP} bytes", decode(body))
    return Ended(0, decode(body))
