"""`team trust`: a person decides whether what this workspace would run may run."""

from __future__ import annotations

import os

import click

from team_runtime.cli.common import Shared, can_ask, only_a_person, shared_options
from team_runtime.errors import NotARepository, ProgramMissing, RefusedError
from team_runtime.guard.trust import Surface
from team_runtime.text import for_terminal, one_line


@click.command("trust")
@click.option("--revoke", is_flag=True, help="Trust this workspace no more.")
@click.option("--yes", is_flag=True, help="Trust what is shown, without asking.")
@shared_options
def command(shared: Shared, revoke: bool, yes: bool) -> None:
    """Show what this workspace would run or allow, and trust it as it is now.

    Its hooks, its allow rules and the filters and merge drivers of its own git settings count only
    once you trust them; its deny rules always do. When any of it changes you are asked again. Trust
    is kept in your own configuration, for this folder.
    """
    from team_runtime.app.hooks import check_workspace
    from team_runtime.app.trusting import check_drivers, drivers_of, trust_store

    only_a_person("give or take trust")
    store = trust_store(os.environ)
    if revoke:
        was_there = store.revoke(shared.root)
        said = "is not trusted any more" if was_there else "was not trusted"
        shared.answer({"workspace": str(shared.root), "trusted": False}, [f"{shared.root} {said}"])
        return
    found = (check_workspace(shared.root, os.environ), drivers_of(shared.workspace))
    surfaces = [surface for part in found for surface in part.surfaces]
    if not all(store.is_trusted(shared.root, part) for part in found):
        for surface in surfaces:
            shared.say(_line(surface))
        check_drivers(shared.workspace)
        _ask(shared, len(surfaces), yes)
        store.grant(shared.root, *found)
    git = _git_programs(shared)
    lines = [f"{shared.root} is trusted as it is now"]
    if not surfaces:
        lines = [f"{shared.root} would run nothing: no trust is needed"]
    if git:
        lines += ["", "Its git settings name programs too. A team never runs them; your git does:"]
        lines += [f"  {text}" for text in git]
    answer = {
        "workspace": str(shared.root),
        "trusted": True,
        "digest": found[0].digest,
        "surfaces": [_record(surface) for surface in surfaces],
        "gitPrograms": git,
    }
    shared.answer(answer, lines)


def _ask(shared: Shared, count: int, yes: bool) -> None:
    """Raises `RefusedError` unless a person says yes."""
    if yes:
        return
    if not can_ask():
        raise RefusedError(f"{count} things wait for trust; say --yes to trust them as shown.")
    if not click.confirm(f"Trust these {count} as they are now?", err=True):
        raise RefusedError(f"{shared.root} was not trusted.")


def _line(surface: Surface) -> str:
    return f"{surface.kind:<15} {for_terminal(surface.what)}\n{'':<15} in {one_line(surface.place)}"


def _record(surface: Surface) -> dict[str, str]:
    return {
        "kind": surface.kind,
        "place": surface.place,
        "what": surface.what,
        "digest": surface.digest,
    }


def _git_programs(shared: Shared) -> list[str]:
    from team_runtime.guard.git_programs import git_programs

    try:
        return git_programs(shared.workspace.repository)
    except (NotARepository, ProgramMissing):
        return []
