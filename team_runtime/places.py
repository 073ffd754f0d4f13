"""Where a user's own configuration lies."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SETTINGS_FILE: Final = "team.toml"
"""The settings of a user, and of a workspace, each in its folder."""


def home_folder(environ: Mapping[str, str]) -> Path:
    """The user's home."""
    return Path(environ.get("HOME") or Path.home())


def user_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration lives."""
    if folder := environ.get("TEAM_CONFIG_DIR"):
        return Path(folder)
    home = home_folder(environ)
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "team"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "team"
