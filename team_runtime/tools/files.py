"""`read_file`, `write_file`, `edit_file`: files below the agent's directory and nowhere else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar, Final

from pydantic import BaseModel, Field

from team_runtime.guard.base import Effect
from team_runtime.store.beneath import Beneath, OutsideRoot, is_protected
from team_runtime.text import decode, one_line, scrub
from team_runtime.tools.base import ToolContext, ToolFailure
from team_runtime.tools.inputs import Strict

MAX_LINES: Final = 2000
MAX_CHARACTERS: Final = 50_000
MAX_BYTES: Final = 32 * 2**20


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
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        if not lines:
            return f"{input.path} is empty."
        if input.offset >= len(lines):
            return f"{input.path} has only {len(lines)} lines."
        shown = _shown(lines[input.offset : input.offset + min(input.limit, MAX_LINES)])
        left = len(lines) - input.offset - len(shown)
        return "\n".join([*shown, f"... ({left} more lines)"] if left else shown)


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
        with explained(input.path, context.place.root):
            where = Beneath(context.place.root).resolve(input.path)
            if _key(where, context) in context.seen.digests:
                with suppress(FileNotFoundError):
                    _current(input.path, context)
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
        with explained(input.path, context.place.root):
            data = _current(input.path, context)
        old, new = scrub(input.old_text).encode(), scrub(input.new_text).encode()
        if b"\n" in data and data.count(b"\r\n") == data.count(b"\n"):
            old, new = _with_crlf(old), _with_crlf(new)
        at = data.find(old)
        if at < 0:
            raise ToolFailure(f"old_text was not found in {input.path}; nothing was changed.")
        if data.find(old, at + 1) >= 0:
            raise ToolFailure(
                f"old_text occurs more than once in {input.path}; add context to make it unique. "
                "Nothing was changed."
            )
        write_whole(input.path, data[:at] + new + data[at + len(old) :], context)
        line = data[:at].count(b"\n") + 1
        return f"Edited {input.path} at line {line}."


def read_whole(path: str, context: ToolContext) -> bytes:
    """The file's bytes, remembered as seen by this agent. Raises `ToolFailure`."""
    with explained(path, context.place.root):
        spilled = next((r for r in context.readable if Path(path).is_relative_to(r)), None)
        if spilled is not None:
            return Beneath(spilled).read(path, lambda where: True, MAX_BYTES)[1]
        where, data = Beneath(context.place.root).read(path, context.may, MAX_BYTES)
        context.seen.digests[_key(where, context)] = _digest(data)
        return data


def write_whole(path: str, data: bytes, context: ToolContext) -> None:
    """Replace the file and remember what it holds now. Raises `ToolFailure`."""

    def may(where: str) -> bool:
        return context.may(where) and not is_protected(where)

    with explained(path, context.place.root):
        where = Beneath(context.place.root).write(path, data, may)
        context.seen.digests[_key(where, context)] = _digest(data)


@contextmanager
def explained(path: str, root: Path) -> Iterator[None]:
    """Turns what the file system says about `path` into one sentence for the model."""
    shown = one_line(path, 300)
    try:
        yield
    except OutsideRoot as error:
        raise ToolFailure(f"{shown} is outside your directory {root}; nothing was done.") from error
    except FileNotFoundError as error:
        raise ToolFailure(f"{shown} does not exist in {root}.") from error
    except IsADirectoryError as error:
        raise ToolFailure(f"{shown} is a folder; use glob to list it.") from error
    except OSError as error:
        raise ToolFailure(f"{shown}: {error.strerror or error}; nothing was changed.") from error


def _shown(lines: list[bytes]) -> list[str]:
    """As many of the lines as fit, and of the first one at least a part."""
    shown: list[str] = []
    room = MAX_CHARACTERS
    for line in map(decode, lines):
        if len(line) > room and shown:
            break
        more = len(line) - room
        shown.append(
            f"{line[:room]}... ({more} more characters in this line)" if more > 0 else line
        )
        room -= len(line) + 1
    return shown


def _current(path: str, context: ToolContext) -> bytes:
    """The file's content, unless it changed since this agent last read it."""
    where, data = Beneath(context.place.root).read(path, context.may, MAX_BYTES)
    if context.seen.digests.get(_key(where, context), _digest(data)) != _digest(data):
        raise ToolFailure(
            f"{path} has changed since you read it; nothing was written. Read it again first."
        )
    return data


def _with_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _key(where: str, context: ToolContext) -> str:
    return f"{context.place.root}:{where}"


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
