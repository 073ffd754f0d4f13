"""What a workspace waits for a person's trust with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from team_runtime.clock import SystemClock
from team_runtime.errors import NotARepository, ProgramMissing, RefusedError
from team_runtime.git.drivers import Setting, Trusts, names_program
from team_runtime.guard.claude_settings import in_workspace
from team_runtime.guard.trust import Surface, Survey, TrustStore, changeable, survey, survey_git
from team_runtime.places import user_folder
from team_runtime.text import one_line

if TYPE_CHECKING:
    from team_runtime.app.workspace import Workspace
    from team_runtime.git.repository import Repository


def trust_store(environ: Mapping[str, str]) -> TrustStore:
    """What this user trusts."""
    return TrustStore(user_folder(environ), SystemClock())


def trusts_git(root: Path, environ: Mapping[str, str]) -> Trusts:
    """Whether this user trusts what the repository's own settings would have git run. What agents
    can change is never trusted: it would run outside of their sandbox."""
    store = trust_store(environ)

    def trusts(found: tuple[Setting, ...]) -> bool:
        is_fixed = not any(_changeable(setting, root) for setting in found)
        return is_fixed and store.is_trusted(root, survey_git(found))

    return trusts


def check_drivers(workspace: Workspace) -> None:
    """Raises `RefusedError` for a setting of its repository that can never be trusted."""
    for key, value in _drivers(workspace):
        if word := _changeable((key, value), workspace.root):
            shown = one_line(key, 100)
            raise RefusedError(
                f"{shown} = {one_line(value, 200)} names {one_line(word, 100)}, a file that agents "
                "can change, and git would run it outside of their sandbox. Name a program that is "
                f"elsewhere, or take the setting out: git config --unset {shown}"
            )


def check_records(repository: Repository) -> None:
    """Raises `RefusedError` where records of the runtime came with the repository: its sessions and
    schedules would go on, and its answers count, as if they were the user's own."""
    if repository.is_tracked(".team"):
        raise RefusedError(
            "Git tracks the .team of this repository, so sessions and approvals in it may be "
            "somebody else's. Nothing was started. If all of it is your own, keep it out of git: "
            "git rm -r --cached .team; if not, delete it: git rm -r .team"
        )


def drivers_of(workspace: Workspace) -> Survey:
    """What the settings of its repository, if it is one, would have git run."""
    return survey_git(_drivers(workspace))


def untrusted(workspace: Workspace) -> list[Surface]:
    """All that waits for trust, and does not count until then. Raises `InputError` for settings
    that cannot be read."""
    root, store = workspace.root, trust_store(workspace.environ)
    parts = (survey(root, in_workspace(root)), drivers_of(workspace))
    waiting = (part for part in parts if not store.is_trusted(root, part))
    return [surface for part in waiting for surface in part.surfaces]


def notice_of_drivers(repository: Repository) -> str | None:
    """Says that git programs wait for trust; `None` when none do."""
    try:
        repository.git.check_drivers(repository.tree)
    except RefusedError as refused:
        return f"no worktree can be made. {refused}"
    return None


def _drivers(workspace: Workspace) -> tuple[Setting, ...]:
    try:
        return workspace.repository.drivers()
    except (NotARepository, ProgramMissing):
        return ()


def _changeable(setting: Setting, root: Path) -> str | None:
    key, value = setting
    return changeable(value, root) if names_program(key) else None
