"""Where hooks come from, and errors that name the place in there."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from team_runtime.errors import InputError
from team_runtime.types import Json


@dataclass(frozen=True)
class Source:
    """Where hooks come from, and what may be in there."""

    origin: str
    tools: frozenset[str]
    """The names of our tools."""
    home: Path = Path("/")
    """What `~/` means in paths."""
    of_workspace: bool = False
    of_claude: bool = False
    """Whether it is the user's file for Claude Code, which may well listen to more than there is
    here: what can have no effect is left out, and said, instead of refused."""


class NoEffect(Exception):
    """A hook for something that Claude Code has and this does not."""


@dataclass(frozen=True)
class At:
    """A place in a source. What it checks it refuses with an `InputError` that names the place."""

    source: Source
    path: str

    def __truediv__(self, key: str | int) -> At:
        step = f"[{key}]" if isinstance(key, int) else f".{key}"
        return At(self.source, self.path + step)

    def __str__(self) -> str:
        return f"{self.source.origin}: {self.path}"

    def wrong(self, problem: str) -> InputError:
        return InputError(f"{self}: {problem}. Nothing was started.")

    def check_fields(self, given: Mapping[str, Json], known: Collection[str]) -> None:
        for key in given:
            if key not in known:
                raise self.wrong(f"there is no field {key!r}{meant(str(key), known)}")

    def mapping(self, value: Json) -> Mapping[str, Json]:
        if not isinstance(value, dict):
            raise self.wrong("an object is expected")
        return value

    def items(self, value: Json) -> Iterator[tuple[At, Json]]:
        if not isinstance(value, list | tuple):
            raise self.wrong("a list is expected")
        for index, item in enumerate(value):
            yield self / index, item

    def text(self, value: Json) -> str:
        if not isinstance(value, str) or not value.strip():
            raise self.wrong("text is expected")
        return value


def meant(word: str, known: Collection[str]) -> str:
    """A suggestion for a misspelt word, or nothing."""
    folded = {name.casefold(): name for name in sorted(known, reverse=True)}
    close = difflib.get_close_matches(word.casefold(), folded, n=1)
    return f" (did you mean {folded[close[0]]}?)" if close else ""
