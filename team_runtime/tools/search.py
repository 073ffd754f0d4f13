"""`glob` and `grep`: finding files by name and lines by content."""

from __future__ import annotations

import json
import sys
from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.process.base import Command
from team_runtime.store.beneath import Beneath, OutsideRoot, relative
from team_runtime.text import decode, one_line
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.files import Strict
from team_runtime.tools.globbing import matches

MAX_PATHS: Final = 500
MAX_MATCHES: Final = 200
GREP_SECONDS: Final = 20.0


class GlobInput(Strict):
    pattern: str = Field(min_length=1, description="for example src/**/*.py; ** means any depth")


class Glob:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = "List the files whose path matches a pattern, sorted."
    effect: ClassVar[Effect] = Effect.READ
    input_model: ClassVar[type[BaseModel]] = GlobInput

    def run(self, input: GlobInput, context: ToolContext) -> str:
        pattern = _below(input.pattern, context)
        found: list[str] = []
        more = 0
        for path, is_dir in Beneath(context.place.root).walk():
            if not is_dir and matches(tuple(pattern.split("/")), tuple(path.split("/"))):
                if len(found) < MAX_PATHS:
                    found.append(path)
                else:
                    more += 1
        if not found:
            return "(no matches)"
        return "\n".join(found) + (f"\n... ({more} more files)" if more else "")


class GrepInput(Strict):
    pattern: str = Field(min_length=1, description="a Python regular expression")
    path: str = Field(default=".", description="file or folder to search")
    glob: str | None = Field(default=None, description="only files whose path matches, as in glob")
    ignore_case: bool = False


class Grep:
    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        f"Search file contents line by line. Returns path:line:text, at most {MAX_MATCHES} lines."
    )
    effect: ClassVar[Effect] = Effect.READ
    input_model: ClassVar[type[BaseModel]] = GrepInput

    def run(self, input: GrepInput, context: ToolContext) -> str:
        below = _below(input.path, context)
        question = {
            "pattern": input.pattern,
            "ignoreCase": input.ignore_case,
            "root": str(context.place.root),
            "below": below,
            "glob": input.glob,
            "most": MAX_MATCHES,
        }
        # A model's pattern may backtrack for ever and would hold up the whole process, so it runs
        # in a child with a time limit.
        child = context.runner.run(
            Command(
                argv=[sys.executable, "-I", "-m", "team_runtime.tools.grep_child"],
                cwd=context.place.root,
                env=context.environment,
                timeout=GREP_SECONDS,
                input=json.dumps(question).encode(),
            )
        )
        if child.timed_out:
            raise ToolFailure(f"The search took more than {GREP_SECONDS:g} seconds; narrow it.")
        if child.status != 0:
            raise ToolFailure(one_line(decode(child.stderr).strip().rpartition("\n")[2], 300))
        return decode(child.stdout) or "(no matches)"


def _below(path: str, context: ToolContext) -> str:
    try:
        return relative(context.place.root, path)
    except OutsideRoot as error:
        raise ToolFailure(f"{path} is outside your directory {context.place.root}.") from error
