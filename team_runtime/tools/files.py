"""`read_file`, `write_file`, `edit_file`: files below the agent's directory and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field

from team_runtime.guard.base import Effect
from team_runtime.store.beneath import Beneath, OutsideRoot, is_protected, relative
from team_runtime.text import decode, scrub
from team_runtime.tools.base import ToolContext, ToolFailure

MAX_LINES: Final = 2000
MAX_CHARACTERS: Final = 50_000
MAX_BYTES: Final = 32 * 2**20


class Strict(BaseModel):
    """A tool's input: unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class ReadFileInput(Strict):
    path: str = Field(description="relative to your directory, or absolute inside it")
    offset: int = Field(default=0, ge=0, description="lines to skip")
    limit: int = Field(default=MAX_LINES, ge=1, description="lines to return")


class ReadFile:
    name: ClassVar[str] = "read_file"
    description: ClassVar[str] = (
        f"Read a text file. Returns at most {MAX_LINES} lines; use offset and limit for more."
    )
    effect: ClassVar[Effect] = Effect.READ
    input_model: ClassVar[type[BaseModel]] = ReadFileInput

    def run(self, input: ReadFileInput, context: ToolContext) -> str:
        data = read_whole(input.path, context)
        if b"\0" in data[:8192]:
            return f"{input.path} is a binary file of {len(data)} bytes."
        lines = decode(data).splitlines(keepends=True)
        chosen = lines[input.offset : input.offset + min(input.limit, MAX_LINES)]
        text, shown = "", 0
        for line in chosen:
            if shown and len(text) + len(line) > MAX_CHARACTERS:
                break
            text += line[:MAX_CHARACTERS]
            shown += 1
        left = len(lines) - input.offset - shown
        if not lines:
            return f"{input.path} is empty."
        if left < 0 or not chosen:
            return f"{input.path} has only {len(lines)} lines."
        return text + (f"\n... ({left} more lines)" if left else "")


class WriteFileInput(Strict):
    path: str
    content: str


class WriteFile:
    name: ClassVar[str] = "write_file"
    description: ClassVar[str] = (
        "Create a file or replace its whole content. Parent folders are made."
    )
    effect: ClassVar[Effect] = Effect.EDIT
    input_model: ClassVar[type[BaseModel]] = WriteFileInput

    def run(self, input: WriteFileInput, context: ToolContext) -> str:
        data = scrub(input.content).encode()
        _refuse_stale(input.path, context)
        write_whole(input.path, data, context)
        return f"Wrote {len(data)} bytes to {input.path}."


class EditFileInput(Strict):
    path: str
    old_text: str = Field(min_length=1, description="exact text that occurs once in the file")
    new_text: str


class EditFile:
    name: ClassVar[str] = "edit_file"
    description: ClassVar[str] = (
        "Replace one exact, unique piece of text in a file. Include enough context in old_text to "
        "make it unique."
    )
    effect: ClassVar[Effect] = Effect.EDIT
    input_model: ClassVar[type[BaseModel]] = EditFileInput

    def run(self, input: EditFileInput, context: ToolContext) -> str:
        data = _refuse_stale(input.path, context)
        if data is None:
            raise ToolFailure(f"{input.path} does not exist; nothing was changed.")
        old, new = scrub(input.old_text).encode(), scrub(input.new_text).encode()
        found = data.count(old)
        if found == 0:
            raise ToolFailure(f"old_text was not found in {input.path}; nothing was changed.")
        if found > 1:
            raise ToolFailure(
                f"old_text occurs {found} times in {input.path}; add context to make it unique. "
                "Nothing was changed."
            )
        write_whole(input.path, data.replace(old, new), context)
        line = data[: data.index(old)].count(b"\n") + 1
        return f"Edited {input.path} at line {line}."


def read_whole(path: str, context: ToolContext) -> bytes:
    """The file's bytes, remembered as seen by this agent. Raises `ToolFailure`."""
    with _explained(path, context):
        root = next((r for r in context.readable if Path(path).is_relative_to(r)), None)
        if root is not None:
            return Beneath(root).read(path)
        data = Beneath(context.place.root).read(path)
        if len(data) > MAX_BYTES:
            raise ToolFailure(f"{path} has {len(data)} bytes, more than can be read at once.")
        context.seen.digests[_key(path, context)] = _digest(data)
        return data


def write_whole(path: str, data: bytes, context: ToolContext) -> None:
    """Replace the file and remember what it holds now. Raises `ToolFailure`."""
    with _explained(path, context):
        Beneath(context.place.root).write(path, data, lambda where: not is_protected(where))
        context.seen.digests[_key(path, context)] = _digest(data)


def _refuse_stale(path: str, context: ToolContext) -> bytes | None:
    """The current content, unless it changed since this agent last read it."""
    with _explained(path, context):
        try:
            data = Beneath(context.place.root).read(path)
        except FileNotFoundError:
            return None
        known = context.seen.digests.get(_key(path, context))
        if known is not None and known != _digest(data):
            raise ToolFailure(
                f"{path} has changed since you read it; nothing was written. Read it again first."
            )
        return data


def _key(path: str, context: ToolContext) -> str:
    return f"{context.place.root}:{relative(context.place.root, path)}"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@contextmanager
def _explained(path: str, context: ToolContext) -> Iterator[None]:
    """Turns what the file system says into one sentence for the model."""
    try:
        yield
    except OutsideRoot as error:
        raise ToolFailure(
            f"{path} is outside your directory {context.place.root}; nothing was done."
        ) from error
    except FileNotFoundError as error:
        raise ToolFailure(f"{path} does not exist in {context.place.root}.") from error
    except IsADirectoryError as error:
        raise ToolFailure(f"{path} is a folder; use glob to list it.") from error
    except OSError as error:
        raise ToolFailure(f"{path}: {error.strerror or error}; nothing was changed.") from error
