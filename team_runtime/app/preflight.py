"""What is found out before a daemon starts to wait: whether what it wakes could run at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import anyio

from team_runtime.app.agents import Models
from team_runtime.app.hooks import load_hooks
from team_runtime.app.permissions import make_permissions
from team_runtime.app.workspace import Workspace
from team_runtime.config import Settings, keys_set
from team_runtime.errors import InputError, ModelRejected, TeamError
from team_runtime.models.anthropic import AnthropicModel


def check_settings(workspace: Workspace, settings: Settings) -> None:
    """Raises `InputError` or `SandboxMissing` where a run with these settings would end before it
    began. Its model is another matter."""
    loaded = load_hooks(workspace.root, workspace.environ, settings.hooks)
    confining = workspace.confined_by(settings)
    make_permissions(settings, loaded, confining)


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
    model, _ = Models(retry_base=0.5, pace=0.0).get(name)
    if not isinstance(model, AnthropicModel) or any(keys_set(environ).values()):
        return
    try:
        anyio.run(model.check)  # the SDK knows more places for a key, and takes a while to load
    except ModelRejected as error:
        raise InputError(f"{name} cannot be asked: {error.cause}; {error.hint}") from error
