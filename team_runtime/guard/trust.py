"""Trust: a person said that what a workspace could run may run, as it is now.

A workspace comes with somebody's files. Whatever in them starts programs or widens permissions is a
surface, listed by one of the functions in `SURFACES`. Trust is remembered for each user, under the
real path of the workspace, with a digest of all surfaces; when one changes, trust has to be given
again.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.clock import Clock, iso
from team_runtime.errors import InputError
from team_runtime.guard.claude_settings import ClaudeSettings, read_file
from team_runtime.guard.user_entries import UserEntries
from team_runtime.types import Json

FILE: Final = "trust.json"
HOOK_FILES: Final = ".claude/hooks"
MOST_FILES: Final = 1000
FILES: Final = "digest"
"""The part of a workspace that its settings files are, as trust names it on disk."""
GIT: Final = "git"
"""The part that the settings of its repository are."""
_PROJECT: Final = re.compile(r"""["']?\$\{?CLAUDE_PROJECT_DIR\}?["']?/?""")
_BETWEEN: Final = re.compile(r"""[\s"'`;|&()<>=$]+""")


@dataclass(frozen=True)
class Surface:
    """One thing in a workspace that could run something, or allow it."""

    kind: str
    place: str
    """The file, relative to the workspace, and the place in it."""
    what: str
    """For a person: the command, the address, the rule."""
    digest: str


@dataclass(frozen=True)
class Survey:
    """All surfaces of a workspace as they are now."""

    surfaces: tuple[Surface, ...]
    scripts: Mapping[Path, str]
    """The files among them, with their digests."""
    part: str = FILES
    """Which of the parts that are trusted each for itself."""

    @property
    def digest(self) -> str:
        """Names this state of all surfaces."""
        rows = sorted([s.kind, s.place, s.digest] for s in self.surfaces)
        return digest(_canonical(rows))

    def count(self, kind: str) -> int:
        """How many surfaces of a kind there are."""
        return sum(surface.kind == kind for surface in self.surfaces)


HOOK: Final = "hook"
SCRIPT: Final = "script"
RULE: Final = "permission rule"
DRIVER: Final = "git program"


def _hooks(root: Path, files: list[ClaudeSettings]) -> Iterator[Surface]:
    for settings in files:
        for place, event, matcher, handler in _handlers(settings.hooks):
            shown = _command(handler) or json.dumps(handler)
            yield Surface(
                HOOK,
                f"{settings.path.relative_to(root)}: {place}",
                f"{event} [{matcher or 'all'}]: {shown}",
                digest(_canonical([event, matcher, handler])),
            )


def _scripts(root: Path, files: list[ClaudeSettings]) -> Iterator[Surface]:
    """The files of the workspace that a hook names, and all in the folder for them. What those run
    in turn is not looked into."""
    handlers = [row for settings in files for row in _handlers(settings.hooks)]
    paths = {path for *_, handler in handlers for path in _named(_command(handler), root)}
    if handlers:
        paths.update(_below(root / HOOK_FILES))
    for path in sorted(paths):
        data = read_file(path)
        if data is not None:
            name = str(path.relative_to(root))
            yield Surface(SCRIPT, name, f"{len(data)} bytes", digest(data))


def _rules(root: Path, files: list[ClaudeSettings]) -> Iterator[Surface]:
    for settings in files:
        for key, rules in (("allow", settings.allow), ("ask", settings.ask)):
            for index, rule in enumerate(rules):
                place = f"{settings.path.relative_to(root)}: permissions.{key}[{index}]"
                yield Surface(RULE, place, f"{key} {rule}", digest(_canonical([key, rule])))


SURFACES: Final[dict[str, Callable[[Path, list[ClaudeSettings]], Iterator[Surface]]]] = {
    HOOK: _hooks,
    SCRIPT: _scripts,
    RULE: _rules,
}
"""Every kind of surface that there is, and who finds it."""


def survey_git(settings: Sequence[tuple[str, str]]) -> Survey:
    """The settings, as key and value, by which the repository would have git run programs."""
    surfaces = (
        Surface(DRIVER, ".git/config", f"{key} = {value}", digest(_canonical([key, value])))
        for key, value in settings
    )
    return Survey(tuple(surfaces), {}, GIT)


def changeable(command: str, root: Path) -> str | None:
    """The first word of a command that leads to a file which agents can change; `None` for none."""
    for word in _BETWEEN.split(command):
        is_path = "/" in word and not word.startswith(("/", "~", "-"))
        if word and (is_path or next(_named(word, root), None) is not None):
            return word
    return None


def survey(root: Path, files: list[ClaudeSettings]) -> Survey:
    """Look at a workspace and its settings, `in_workspace(root)`; nothing of it is run. Raises
    `InputError` for a file that cannot be read."""
    surfaces = tuple(surface for find in SURFACES.values() for surface in find(root, files))
    scripts = {root / s.place: s.digest for s in surfaces if s.kind == SCRIPT}
    return Survey(surfaces, scripts)


class TrustStore:
    """What one user trusts, in a file of that user's own folder."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self._entries = UserEntries(folder / FILE, clock)
        self._clock = clock

    def is_trusted(self, root: Path, found: Survey) -> bool:
        """Whether what was found is trusted as it is; where nothing was found it is. Raises
        `RecordBroken` when the file cannot be read."""
        if not found.surfaces:
            return True
        entry = self._entries.get(root)
        return isinstance(entry, dict) and entry.get(found.part) == found.digest

    def grant(self, root: Path, *found: Survey) -> None:
        """Trust what was found, and nothing that comes later."""
        parts = {each.part: each.digest for each in found}
        entry = {**parts, "at": iso(self._clock.now())}
        self._entries.change(root, lambda old: entry)

    def revoke(self, root: Path) -> bool:
        """Trust it no more. Returns whether it was in the file."""
        if self._entries.get(root) is None:
            return False
        self._entries.change(root, lambda old: None)
        return True


def _handlers(hooks: Json) -> Iterator[tuple[str, str, Json, Json]]:
    """Place, event, matcher and handler of each hook, also of one that is not well formed."""
    for event, groups in hooks.items() if isinstance(hooks, dict) else [("", hooks)]:
        for index, group in enumerate(groups if isinstance(groups, list) else [groups]):
            place = f"hooks.{event}[{index}]"
            inner = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(inner, list):
                yield place, event, None, group
                continue
            for number, handler in enumerate(inner):
                yield f"{place}.hooks[{number}]", event, group.get("matcher"), handler


def _command(handler: Json) -> str:
    """What a handler runs or calls, as one text; empty when that cannot be told."""
    if not isinstance(handler, dict):
        return ""
    args = handler.get("args")
    parts = [
        handler.get("command") or handler.get("url"),
        *(args if isinstance(args, list) else []),
    ]
    return " ".join(part for part in parts if isinstance(part, str))


def _below(folder: Path) -> list[Path]:
    found = list(itertools.islice(folder.rglob("*"), MOST_FILES + 1))
    if len(found) > MOST_FILES:
        raise InputError(f"{folder} holds more than {MOST_FILES} files; nothing was started")
    return [path for path in found if os.path.isfile(path)]  # noqa: PTH113 - never raises


def _named(command: str, root: Path) -> Iterator[Path]:
    """The files of the workspace whose paths occur in a command."""
    for word in _BETWEEN.split(_PROJECT.sub(" ", command)):
        path = Path(os.path.normpath(root / word)) if word else root
        inside = path != root and path.is_relative_to(root)
        if inside and os.path.isfile(path):  # noqa: PTH113 - never raises, whatever the word is
            yield path


def digest(data: bytes) -> str:
    """Names content."""
    return hashlib.sha256(data).hexdigest()


def _canonical(value: Json) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
