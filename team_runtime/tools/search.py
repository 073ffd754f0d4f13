"""`glob` and `grep`: finding files by name and lines by content."""

from __future__ import annotations

import itertools
import json
import sys
from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.process.base import Command
from team_runtime.store.beneath import Beneath, printable, relative
from team_runtime.store.globbing import matches
from team_runtime.text import decode, one_line
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.files import MAX_BYTES, explained
from team_runtime.tools.inputs import Strict

MAX_PATHS: Final = 500
MAX_MATCHES: Final = 200
MAX_FILES: Final = 50_000
"""Files that one call looks at."""
MAX_PATTERN: Final = 1000
GREP_SECONDS: Final = 20.0
_LOOKED_AT: Final = f"... (only the first {MAX_FILES} files were looked at; name a folder)"


class GlobInput(Strict):
    pattern: str = Field(
        min_length=1,
        max_length=MAX_PATTERN,
        description="for example src/**/*.py; ** means any depth",
    )


class Glob:
    name: ClassVar[str] = "glob"
    description: ClassVar[str] = "List the files whose path matches a pattern, sorted."
    effect: ClassVar[Effect] = Effect.READ
    input_model: ClassVar[type[BaseModel]] = GlobInput

    def run(self, input: GlobInput, context: ToolContext) -> str:
        with explained(input.pattern, context.place.root):
            parts = tuple(relative(context.place.root, input.pattern).split("/"))
            fixed = len(list(itertools.takewhile(_is_literal, parts[:-1])))
            try:
                listing = _Listing("/".join(parts[:fixed]) or ".", context)
            except (FileNotFoundError, NotADirectoryError):
                return "(no matches)"
        found = sorted(
            path for path, _ in listing.files if matches(parts[fixed:], listing.inner(path))
        )
        shown = [printable(path) for path in found[:MAX_PATHS]]
        if len(found) > MAX_PATHS:
            shown.append(f"... ({len(found) - MAX_PATHS} more files)")
        return "\n".join([*(shown or ["(no matches)"]), *listing.notes])


class GrepInput(Strict):
    pattern: str = Field(
        min_length=1, max_length=MAX_PATTERN, description="a Python regular expression"
    )
    path: str = Field(default=".", description="file or folder to search")
    glob: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_PATTERN,
        description="only files whose path or name matches, as in glob",
    )
    ignore_case: bool = False


class Grep:
    name: ClassVar[str] = "grep"
    description: ClassVar[str] = (
        f"Search file contents line by line. Returns path:line:text, at most {MAX_MATCHES} lines."
    )
    effect: ClassVar[Effect] = Effect.READ
    input_model: ClassVar[type[BaseModel]] = GrepInput

    def __init__(self, seconds: float = GREP_SECONDS) -> None:
        self._seconds = seconds

    def run(self, input: GrepInput, context: ToolContext) -> str:
        with explained(input.path, context.place.root):
            try:
                listing = _Listing(input.path, context)
                files = [path for path, is_regular in listing.files if is_regular]
                notes = listing.notes
            except NotADirectoryError:
                where = Beneath(context.place.root).resolve(input.path)
                files, notes = [where] if context.may(where) else [], []
        if input.glob is not None:
            with explained(input.glob, context.place.root):
                wanted = tuple(relative(context.place.root, input.glob).split("/"))
            files = [path for path in files if _fits(wanted, path)]
        return "\n".join([self._search(input, files, context), *notes])

    def _search(self, input: GrepInput, files: list[str], context: ToolContext) -> str:
        question = {
            "pattern": input.pattern,
            "ignoreCase": input.ignore_case,
            "root": str(context.place.root),
            "files": files,
            "bytes": MAX_BYTES,
            "most": MAX_MATCHES,
        }
        # A model's pattern may backtrack for ever and would hold up the whole process, so it runs
        # in a child with a time limit.
        child = context.runner.run(
            Command(
                argv=[sys.executable, "-I", "-m", "team_runtime.tools.grep_child"],
                cwd=context.place.root,
                env=context.environment,
                timeout=self._seconds,
                input=json.dumps(question).encode(),
            )
        )
        if child.timed_out:
            raise ToolFailure(f"The search took more than {self._seconds:g} seconds; narrow it.")
        if child.status != 0:
            raise ToolFailure(one_line(decode(child.stderr).strip().rpartition("\n")[2], 300))
        return decode(child.stdout).rstrip("\n") or "(no matches)"


class _Listing:
    """The files below a folder that the call may read, each with whether it is a regular one."""

    def __init__(self, below: str, context: ToolContext) -> None:
        beneath = Beneath(context.place.root)
        self._below = beneath.resolve(below)
        found = list(itertools.islice(beneath.walk(self._below), MAX_FILES + 1))
        self.notes = [_LOOKED_AT] if len(found) > MAX_FILES else []
        self.files = [file for file in found[:MAX_FILES] if context.may(file[0])]

    def inner(self, path: str) -> tuple[str, ...]:
        """The parts of a path of this listing that are below its folder."""
        return tuple(path.removeprefix(f"{self._below}/").split("/"))


def _is_literal(part: str) -> bool:
    return not set(part) & set("*?[")


def _fits(wanted: tuple[str, ...], path: str) -> bool:
    parts = tuple(path.split("/"))
    return matches(wanted, parts) or (len(wanted) == 1 and matches(wanted, parts[-1:]))
