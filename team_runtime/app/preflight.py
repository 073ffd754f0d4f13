"""What is found out before a run that was not just asked for: what a session goes on with, and
whether what a daemon wakes could run at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import anyio

from team_runtime.app.agents import Models
from team_runtime.app.hooks import load_hooks
from team_runtime.app.permissions import make_permissions
from team_runtime.app.trusting import check_records
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings, keys_set
from team_runtime.errors import InputError, ModelRejected, TeamError
from team_runtime.models.anthropic import AnthropicModel
from team_runtime.models.names import parse_model


def check_settings(workspace: Workspace, settings: Settings) -> None:
    """Raises `InputError`, `RefusedError` or `SandboxMissing` where a run with these settings would
    end before it began. Its model is another matter."""
    check_records(workspace.repository)
    loaded = load_hooks(workspace.root, workspace.environ, settings.hooks)
    confining = workspace.confined_by(settings)
    make_permissions(settings, loaded, confining)


def goes_on_with(session: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings for a session: those that were given, and else its own model and name.

    Raises `InputError` for a model that is a program and was not given again: a session may have
    come with its workspace, of which nothing runs unasked."""
    said = {key: value for key, value in given.items() if value is not None}
    if "model" not in said and plays_program(session):
        model = session["model"]
        raise InputError(f"the model of this session is a program; name it again: --model {model}")
    return {"model": session.get("model"), "name": session.get("team"), **said}


def plays_program(session: Mapping[str, Any]) -> bool:
    """Whether the session's own model is a program."""
    try:
        return parse_model(str(session.get("model"))).is_program
    except InputError:  # said when it is asked
        return False


def check_models(names: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raises `InputError`, for the first of these models, when none of them can be asked."""
    errors: list[TeamError] = []
    for name in dict.fromkeys(names):
        try:
            _check_model(name, environ)
        except TeamError as error:
            errors.append(error)
        else:
            return
    raise errors[0]


def _check_model(name: str, environ: Mapping[str, str]) -> None:
    model, _ = Models(retry_base=0.5, pace=0.0).choose(name)
    if not isinstance(model, AnthropicModel) or any(keys_set(environ).values()):
        return
    try:
        anyio.run(model.check)  # the SDK knows more places for a key, and takes a while to load
    except ModelRejected as error:
        raise InputError(f"{name} cannot be asked: {error.cause}; {error.hint}") from error
