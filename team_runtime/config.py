"""The settings of a run, and where each may come from.

Precedence: command line, environment, workspace, user, default. A workspace's file comes with a
repository that may not be trusted, so it may only narrow, and never names an endpoint or a key.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from team_runtime.errors import InputError
from team_runtime.places import SETTINGS_FILE, user_folder

DEFAULT_MODEL: Final = "anthropic:claude-opus-5-5"
WORKSPACE_KEYS: Final = frozenset(
    {"model", "deny", "plan_review", "max_turns", "timeout", "name", "sandbox"}
)
"""What a workspace's file may set; all of it narrows or is harmless."""
_NARROWEST: Final = {"sandbox": "required", "plan_review": "person"}
"""The one value of some of them that narrows, whatever the user has set."""
_LIMITS: Final = ("max_turns", "timeout")
_LISTS: Final = ("allow", "deny", "notify", "sandbox_domains")
KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
ENDPOINT: Final = "ANTHROPIC_BASE_URL"
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?")


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
    approvals: Literal["auto", "wait", "refuse"] = "auto"
    """What becomes of a call that asks: it waits for a person, or is refused at once. With `auto`
    it waits when somebody is at the terminal."""
    approval_deadline: float = Field(default=3600.0, gt=0)
    """Seconds after which a question that no person answered is answered with no."""
    max_turns: int | None = Field(default=None, gt=0)
    """Model calls of the whole team."""
    timeout: float | None = Field(default=None, gt=0)
    """Seconds of the whole run."""
    retry_base: float = Field(default=0.5, ge=0)
    """Seconds of the first back-off of a failed model call."""
    sandbox: Literal["auto", "required", "off"] = "auto"
    """What confines commands: the best there is, at least something, or nothing."""
    sandbox_network: bool = False
    """Whether confined commands may use the network."""
    sandbox_domains: tuple[str, ...] = ()
    """Hosts that commands may reach where bubblewrap confines them, such as `*.python.org`."""
    sandbox_allows_commands: bool = False
    """Whether commands need no rule while bubblewrap confines them."""
    notify: tuple[str, ...] = ()
    """How to reach a person who is elsewhere: `bell`, `desktop`, or addresses for apprise."""
    jobs_per_agent: int = Field(default=8, ge=0)
    """Background commands of one agent that may run at a time."""
    jobs_per_team: int = Field(default=16, ge=0)
    job_seconds: float = Field(default=24 * 3600.0, gt=0)
    """Seconds after which a background command is ended."""
    job_output_bytes: int = Field(default=10_000_000, ge=1000)
    """Bytes of each one's output that are kept: half for the head, half for the tail."""
    command_memory: int | None = Field(default=None, ge=2**20)
    """Bytes of address space that each process of a command may have."""
    environment: tuple[str, ...] = ()
    """Variables that programs get besides the usual ones: names, or how names begin (`MY_*`)."""
    hooks: dict[str, Any] = Field(default_factory=dict)
    """Hooks in the form of a settings file's `hooks`; only in the user's own file."""

    @field_validator("environment")
    @classmethod
    def _can_be_passed_on(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not _VARIABLE.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of a variable, nor how names begin")
            if name.startswith("GIT_"):
                raise ValueError(f"{name!r} could point git elsewhere, so no program gets it")
        return names


@dataclass(frozen=True)
class Layer:
    """Some settings and where they were given."""

    origin: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Effective:
    """The settings in force, and where each that is no default was given."""

    settings: Settings
    origins: Mapping[str, tuple[str, ...]]


def load(workspace: Path, environ: Mapping[str, str], command_line: Mapping[str, Any]) -> Settings:
    """The settings in force. `command_line` holds what was given there.

    Raises `InputError`, which names the file and the line or key.
    """
    return effective(workspace, environ, command_line).settings


def effective(
    workspace: Path, environ: Mapping[str, str], command_line: Mapping[str, Any]
) -> Effective:
    """As `load`, with origins. A later layer wins; lists add up."""
    merged: dict[str, Any] = {}
    origins: dict[str, tuple[str, ...]] = {}
    for layer in _layers(workspace, environ, command_line):
        for key, value in layer.values.items():
            if key in _LISTS:
                merged[key] = (*merged.get(key, ()), *_texts(layer, key))
                origins[key] = (*origins.get(key, ()), layer.origin)
            else:
                merged[key], origins[key] = value, (layer.origin,)
    try:
        return Effective(Settings(**merged), origins)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        key = str(fault["loc"][0])
        place = " and ".join(origins.get(key, ("settings",)))
        raise InputError(f"{place}: {key}: {_problem(fault)}; nothing was started") from error


def passed_on(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables that the user's own settings pass on to programs. Raises `InputError`."""
    place = user_folder(environ) / SETTINGS_FILE
    try:
        return Settings(environment=_read(place).get("environment", ())).environment
    except ValidationError as error:
        fault = _problem(error.errors(include_url=False)[0])
        raise InputError(f"{place}: environment: {fault}; nothing was started") from error


def _layers(
    workspace: Path, environ: Mapping[str, str], command_line: Mapping[str, Any]
) -> list[Layer]:
    """The places that were given something, the weakest first."""
    user, local = user_folder(environ) / SETTINGS_FILE, workspace / SETTINGS_FILE
    given = {k: v for k, v in command_line.items() if v is not None and v != ()}
    own, narrowed = _read(user), _read(local)
    _refuse_widening(narrowed, local)
    return [
        Layer(str(user), own),
        Layer(str(local), {k: v for k, v in narrowed.items() if not _is_wider(k, v, own)}),
        *_from_environment(environ),
        Layer("command line", given),
    ]


def _texts(layer: Layer, key: str) -> Sequence[str]:
    values = layer.values[key]
    if not isinstance(values, list | tuple) or not all(isinstance(v, str) for v in values):
        raise InputError(f"{layer.origin}: {key}: a list of texts is expected; nothing was started")
    rules: Sequence[str] = values
    return rules


def _problem(fault: Mapping[str, Any]) -> str:
    if fault["type"] == "extra_forbidden":
        return f"there is no such setting; settings are {', '.join(sorted(Settings.model_fields))}"
    return str(fault["msg"])


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
        if key in Settings.model_fields and key not in WORKSPACE_KEYS:
            raise InputError(
                f"{place}: {key!r} cannot be set by a workspace; use the command line or your own "
                f"configuration. A workspace may set {', '.join(sorted(WORKSPACE_KEYS))}"
            )
    for key, only in _NARROWEST.items():
        if local.get(key, only) != only:
            raise InputError(f'{place}: a workspace can only set {key} = "{only}"')
    if str(local.get("model", "")).strip().startswith("scripted:"):
        raise InputError(f"{place}: a workspace cannot choose a scripted model; use --model")


def _is_wider(key: str, value: Any, own: Mapping[str, Any]) -> bool:
    """Whether it is a limit above the one that the user has set."""
    limit = own.get(key) if key in _LIMITS else None
    return isinstance(limit, int | float) and isinstance(value, int | float) and value > limit


def _from_environment(environ: Mapping[str, str]) -> list[Layer]:
    found = []
    if model := environ.get("TEAM_MODEL"):
        found.append(Layer("TEAM_MODEL", {"model": model}))
    if base := environ.get("TEAM_RETRY_BASE_SECONDS"):
        found.append(Layer("TEAM_RETRY_BASE_SECONDS", {"retry_base": base}))
    return found


def keys_set(environ: Mapping[str, str]) -> dict[str, bool]:
    """Which keys are there; never what they are."""
    return {name: bool(environ.get(name, "").strip()) for name in KEYS}


def endpoint(environ: Mapping[str, str]) -> str | None:
    """Where model calls go, without a password that may be in it; `None` for the default."""
    url = environ.get(ENDPOINT)
    if not url:
        return None
    scheme, rest = url.partition("://")[::2]
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path.partition('?')[0]}"
