"""Settings files in Claude Code's form: what is read of them, in one place.

Hooks and permission rules are; everything else in them (variables, models, modes) is another
product's, and a workspace's file could widen what we may do with it, so it is never looked at.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.errors import InputError
from team_runtime.types import Json

IN_WORKSPACE: Final = (".claude/settings.json", ".claude/settings.local.json")
IN_HOME: Final = ".claude/settings.json"
LARGEST: Final = 16 * 2**20
"""Bytes of a file that is read whole."""


@dataclass(frozen=True)
class ClaudeSettings:
    """One file."""

    path: Path
    hooks: Json
    """As it stands there."""
    disables_hooks: bool
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]


def read_settings(path: Path) -> ClaudeSettings | None:
    """What the file holds, or `None` where there is none. Raises `InputError`, which names the file
    and the line or key."""
    data = read_file(path)
    if data is None:
        return None
    try:
        content = json.loads(data.decode("utf-8-sig")) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON: {error}; nothing was started") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no object; nothing was started")
    permissions = content.get("permissions", {})
    if not isinstance(permissions, dict):
        raise InputError(f"{path}: permissions: an object is expected; nothing was started")
    return ClaudeSettings(
        path=path,
        hooks=content.get("hooks", {}),
        disables_hooks=content.get("disableAllHooks") is True,
        allow=_rules(permissions, "allow", path),
        ask=_rules(permissions, "ask", path),
        deny=_rules(permissions, "deny", path),
    )


def in_workspace(root: Path) -> list[ClaudeSettings]:
    """The files of a workspace that are there."""
    found = (read_settings(root / name) for name in IN_WORKSPACE)
    return [settings for settings in found if settings is not None]


def read_file(path: Path) -> bytes | None:
    """A regular file's content, or `None` where there is none. Raises `InputError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{path} is not a regular file; nothing was started")
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise InputError(f"{path} is larger than {LARGEST} bytes; nothing was started")
    return data


def _rules(permissions: Mapping[str, Json], key: str, path: Path) -> tuple[str, ...]:
    rules = permissions.get(key, [])
    if not isinstance(rules, list) or not all(isinstance(rule, str) for rule in rules):
        raise InputError(
            f"{path}: permissions.{key}: a list of rules is expected; nothing was started"
        )
    return tuple(rules)
