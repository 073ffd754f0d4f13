"""The files that a plan names: which of them are possible, and what they cover."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Final

from team_runtime.errors import InputError
from team_runtime.store.beneath import is_protected
from team_runtime.store.globbing import matches

MOST: Final = 200
_LONGEST: Final = 200


def check_files(files: Sequence[str]) -> tuple[str, ...]:
    """`files` in their normal form: paths below the task's directory, in which `*` and `**` stand
    for anything, and a `/` at the end for all that is below. Raises `InputError`."""
    if len(files) > MOST:
        raise InputError(f"A plan can name {MOST} files or patterns, not {len(files)}.")
    return tuple(dict.fromkeys(_checked(file) for file in files))


def covers(files: Iterable[str], path: str) -> bool:
    """Whether the normal path `path` is among `files`."""
    parts = tuple(path.split("/"))
    return any(matches(tuple(file.split("/")), parts) for file in files)


def listed(files: Sequence[str]) -> str:
    """What a reviewer reads."""
    if not files:
        return "It will change no file."
    return "\n".join(["It will change these files and no others:", *(f"- {f}" for f in files)])


def _checked(file: str) -> str:
    pure = PurePosixPath(file)
    normal = f"{pure}/**" if file.endswith("/") else str(pure)
    if not file.isprintable() or len(file) > _LONGEST:
        cause = "it holds characters that do not show, or too many"
    elif not pure.parts or pure.is_absolute() or ".." in pure.parts:
        cause = "it is no path below your directory"
    elif is_protected(normal):
        cause = "it belongs to git or to the runtime"
    else:
        return normal
    raise InputError(f"A plan cannot name {file[:_LONGEST]!r}: {cause}.")
