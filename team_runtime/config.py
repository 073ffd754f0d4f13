"""The settings of a run, and where each may come from.

Precedence: command line, environment, workspace, user, default. A workspace's file comes with a
repository that may not be trusted, so it may only narrow, and never names an endpoint or a key.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from team_runtime.errors import InputError

DEFAULT_MODEL: Final = "anthropic:claude-opus-5-5"
WORKSPACE_FILE: Final = "team.toml"
WORKSPACE_KEYS: Final = frozenset({"model", "deny", "plan_review", "max_turns", "timeout", "name"})
"""What a workspace's file may set; all of it narrows or is harmless."""


class Settings(BaseModel):
    """Everything that changes how a run behaves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = "team"
    model: str = DEFAULT_MODEL
    permission_mode: str = "default"
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    plan_review: Literal["lead", "person"] = "lead"
    plan_deadline: float = Field(default=3600.0, gt=0)
    """Seconds after which a plan that no person reviewed is rejected."""
    max_turns: int | None = Field(default=None, gt=0)
    """Model calls of the whole team."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds of the whole run."""
    retry_base: float = Field(default=0.5, ge=0)
    """Seconds of the first back-off of a failed model call."""


def user_folder(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration lives."""
    if folder := environ.get("TEAM_CONFIG_DIR"):
        return Path(folder)
    home = Path(environ.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "team"
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "team"


def load(workspace: Path, environ: Mapping[str, str], command_line: Mapping[str, Any]) -> Settings:
    """The settings in force. `command_line` holds what was given there. Lists add up.

    Raises `InputError`, which names the file and the line or key.
    """
    user = _read(user_folder(environ) / WORKSPACE_FILE)
    place = workspace / WORKSPACE_FILE
    local = _read(place)
    _refuse_widening(local, place)
    env = _from_environment(environ)
    given = {k: v for k, v in command_line.items() if v is not None and v != ()}
    merged = {**user, **local, **env, **given}
    for key in ("allow", "deny"):
        merged[key] = tuple(rule for layer in (user, local, given) for rule in layer.get(key, ()))
    try:
        return Settings(**merged)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = ".".join(map(str, fault["loc"]))
        raise InputError(f"setting {key}: {fault['msg']}; nothing was started") from error


def _read(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror}") from error
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not valid TOML: {error}; nothing was started") from error


def _refuse_widening(local: Mapping[str, Any], place: Path) -> None:
    for key in local:
        if key not in WORKSPACE_KEYS:
            raise InputError(
                f"{place}: {key!r} cannot be set by a workspace; use the command line or your own "
                f"configuration. A workspace may set {', '.join(sorted(WORKSPACE_KEYS))}"
            )
    if str(local.get("model", "")).startswith("scripted:"):
        raise InputError(f"{place}: a workspace cannot choose a scripted model; use --model")


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if model := environ.get("TEAM_MODEL"):
        found["model"] = model
    if base := environ.get("TEAM_RETRY_BASE_SECONDS"):
        try:
            found["retry_base"] = float(base)
        except ValueError as error:
            raise InputError(f"TEAM_RETRY_BASE_SECONDS is not a number: {base!r}") from error
    return found
