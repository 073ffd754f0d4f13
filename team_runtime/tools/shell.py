"""`bash`: one command in the agent's directory."""

from __future__ import annotations

import shutil
from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.process.base import Command, Completed
from team_runtime.tools.base import Moved, ToolContext, ToolFailure
from team_runtime.tools.inputs import Strict
from team_runtime.tools.output import bounded_bytes

TIMEOUT: Final = 120.0
LONGEST: Final = 3600.0
"""Seconds that a call may take; what takes longer belongs into the background."""


class BashInput(Strict):
    command: str = Field(min_length=1)
    timeout: float | None = Field(
        default=None,
        gt=0,
        le=86400,
        description="seconds until it goes on in the background (120), or is ended there",
    )
    run_in_background: bool = Field(default=False, description="start it as a job")


class Bash:
    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a shell command in your directory. Returns stdout and stderr together. Each call is a "
        "new shell without input; what it leaves running is ended when it exits. With "
        "run_in_background it is a job: you get its id at once and are told when it ends. "
        "One that takes too long becomes a job by itself."
    )
    effect: ClassVar[Effect] = Effect.COMMAND
    input_model: ClassVar[type[BaseModel]] = BashInput

    def run(self, input: BashInput, context: ToolContext) -> str:
        seconds = TIMEOUT if input.timeout is None else input.timeout
        command = self._command(input, context, seconds)
        if input.run_in_background:
            return self._started(input, context, command)
        if seconds > LONGEST:
            raise ToolFailure(f"No call may take {seconds:g} seconds: use run_in_background.")
        if context.background is None:
            return self._told(context.runner.run(command), seconds, context)
        ended = context.background.run(input.command, command)
        if isinstance(ended, Moved):
            return (
                f"The command still runs after {seconds:g} seconds and goes on as {ended.job}: you "
                f"are told when it ends, and job_output shows what comes. Its output so far:\n"
                f"{bounded_bytes(ended.output, context)}"
            )
        return self._told(ended, seconds, context)

    def _command(self, input: BashInput, context: ToolContext, seconds: float) -> Command:
        shell = shutil.which("bash", path=context.environment.get("PATH")) or "/bin/sh"
        return Command(
            argv=[shell, "-c", "--", input.command],
            cwd=context.place.root,
            env=context.environment,
            timeout=seconds,
            merge=True,
        )

    def _started(self, input: BashInput, context: ToolContext, command: Command) -> str:
        if context.background is None:
            raise ToolFailure("Nothing can run in the background here; the command did not run.")
        job = context.background.start(input.command, command, input.timeout)
        return (
            f"Started {job}. Go on with other work, or end your turn: you are told when it ends. "
            "job_output shows what it writes, kill_job ends it."
        )

    def _told(self, ended: Completed, seconds: float, context: ToolContext) -> str:
        output = bounded_bytes(ended.stdout, context)
        if ended.dropped:
            output += f"\n({ended.dropped} bytes of output were not kept)"
        if ended.timed_out:
            raise ToolFailure(
                f"Error: the command was ended after {seconds:g} seconds; what it did until then "
                f"stays.\n{output}"
            )
        if ended.status < 0:
            raise ToolFailure(f"Error: the command was ended by signal {-ended.status}\n{output}")
        if ended.status != 0:
            raise ToolFailure(f"Error: command exited with status {ended.status}\n{output}")
        return output
