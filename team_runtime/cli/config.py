"""`team config`: the settings in force and where each comes from."""

from __future__ import annotations

import os
from typing import Any

import click

from team_runtime.cli.common import Shared, shared_options
from team_runtime.cli.options import setting_options
from team_runtime.config import (
    ENDPOINT,
    effective,
    endpoint,
    keys_set,
)
from team_runtime.places import SETTINGS_FILE, user_folder
from team_runtime.text import one_line


@click.group("config")
def command() -> None:
    """The settings of a run."""


@command.command("show")
@setting_options
@shared_options
def show(shared: Shared, **given: Any) -> None:
    """Show the settings that a run here would have, and where each comes from.

    A setting on the command line beats the environment, that beats the workspace's team.toml, that
    beats your own, that beats the default; rules add up. Keys are never shown.
    """
    found = effective(shared.root, os.environ, given)
    settings = {
        key: {"value": _open(key, value), "origin": list(found.origins.get(key, ("default",)))}
        for key, value in found.settings.model_dump(mode="json").items()
    }
    places = [user_folder(os.environ) / SETTINGS_FILE, shared.root / SETTINGS_FILE]
    files = {str(path): path.is_file() for path in places}
    keys, url = keys_set(os.environ), endpoint(os.environ)
    lines = [
        *(
            f"{k:<16} {_shown(s['value']):<28} {', '.join(s['origin'])}"
            for k, s in settings.items()
        ),
        "",
        *(f"{name:<19} {'set' if is_set else 'not set'}" for name, is_set in keys.items()),
        f"{ENDPOINT:<19} {url or 'not set: the service itself'}",
        "",
        *(f"{path}: {'read' if there else 'absent'}" for path, there in files.items()),
    ]
    answer = {"workspace": str(shared.root), "settings": settings, "files": files}
    shared.answer(answer | {"keys": keys, "endpoint": url}, lines)


def _open(key: str, value: Any) -> Any:
    """A setting's value without what is secret in it: addresses of services hold tokens."""
    if key != "notify":
        return value
    return [f"{name.partition('://')[0]}://…" if "://" in name else name for name in value]


def _shown(value: Any) -> str:
    if isinstance(value, list | dict):
        return ", ".join(map(one_line, value)) or "–"
    return "–" if value is None else one_line(str(value))
