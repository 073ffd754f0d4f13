"""`bash`: one command in the agent's directory."""

from __future__ import annotations

import shutil
from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.process.base import Command
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.files import Strict
from team_runtime.tools.output import bounded_bytes

TIMEOUT: Final = 120.0


class BashInput(Strict):
    command: str = Field(min_length=1)
    timeout: float = Field(default=TIMEOUT, gt=0, le=3600, description="seconds until it is ended")


class Bash:
    name: ClassVar[str] = "bash"
    description: ClassVar[str] = (
        "Run a shell command in your directory. Returns stdout and stderr together. Each call is a "
        "new shell without input; everything it leaves running is ended when it exits."
    )
    effect: ClassVar[Effect] = Effect.COMMAND
    input_model: ClassVar[type[BaseModel]] = BashInput

    def run(self, input: BashInput, context: ToolContext) -> str:
        shell = shutil.which("bash", path=context.environment.get("PATH")) or "/bin/sh"
        ended = context.runner.run(
            Command(
                argv=[shell, "-c", "--", input.command],
                cwd=context.place.root,
                env=context.environment,
                timeout=input.timeout,
                merge=True,
            )
        )
        output = bounded_bytes(ended.stdout, context)
        if ended.dropped:
            output += f"\n({ended.dropped} bytes of output were not kept)"
        if ended.timed_out:
            raise ToolFailure(
                f"Error: the command was ended after {input.timeout:g} seconds; what it did until "
                f"then stays.\n{output}"
            )
        if ended.status < 0:
            raise ToolFailure(f"Error: the command was ended by signal {-ended.status}\n{output}")
        if ended.status != 0:
            raise ToolFailure(f"Error: command exited with status {ended.status}\n{output}")
        return output
