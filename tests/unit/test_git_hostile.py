"""A program in a worktree that wants the host's git to run something of its own."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from team_runtime.errors import CommandFailed, TeamError, WorktreeRefused
from team_runtime.git.worktrees import Worktree
from tests.support.repositories import Team, commit_all, git, new_repository, write, write_at


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(new_repository(tmp_path))


@pytest.fixture
def worktree(team: Team) -> Worktree:
    return team.work("auth", a_txt="2")


def evil_settings(folder: Path, mark: Path) -> None:
    """Every setting of `folder`'s repository by which git starts a program."""
    program = f"sh -c 'touch \"{mark}\"'"
    for key in (
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "diff.external",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "merge.evil.driver",
        "gpg.program",
    ):
        git(folder, "config", key, program)
    git(folder, "config", "commit.gpgSign", "true")
    hooks = folder / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for hook in ("pre-commit", "post-commit", "post-checkout", "post-merge", "post-index-change"):
        (hooks / hook).write_text(f"#!/bin/sh\ntouch '{mark}'\n")
        (hooks / hook).chmod(0o755)


def use_everything(team: Team, worktree: Worktree) -> list[str]:
    """Every operation of ours on the worktree; returns what was refused."""
    calls: list[Callable[[], object]] = [
        lambda: team.worktrees.verify(worktree),
        lambda: team.worktrees.status(worktree),
        lambda: team.worktrees.diff(worktree),
        lambda: team.worktrees.changed_files(worktree),
        lambda: team.worktrees.refresh_base(worktree),
        lambda: team.worktrees.commit(worktree, "work", "auth"),
        lambda: team.worktrees.losses("auth"),
        lambda: team.landing.land("auth"),
        lambda: team.worktrees.remove("auth", discard=True),
    ]
    refused = []
    for call in calls:
        try:
            call()
        except WorktreeRefused as error:
            refused.append(error.cause)
    return refused


def test_a_rewritten_pointer_is_reported_and_its_programs_do_not_run(
    team: Team, worktree: Worktree, tmp_path: Path
) -> None:
    """CVE-2026-19593: who moved the pointer had filters of their own."""
    evil, mark = new_repository(tmp_path, "evil"), tmp_path / "ran"
    evil_settings(evil, mark)
    (worktree.path / ".git").write_text(f"gitdir: {evil}/.git\n")
    write_at(worktree.path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    refused = use_everything(team, worktree)
    assert len(refused) >= 6
    assert any(".git was changed" in cause for cause in refused)
    assert not mark.exists()
    assert (worktree.path / "a.txt").exists()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_repository_in_the_place_of_the_pointer(
    team: Team, worktree: Worktree, tmp_path: Path, kind: str
) -> None:
    evil, mark = new_repository(tmp_path, "evil"), tmp_path / "ran"
    evil_settings(evil, mark)
    (worktree.path / ".git").unlink()
    if kind == "folder":
        shutil.copytree(evil / ".git", worktree.path / ".git")
    else:
        (worktree.path / ".git").symlink_to(evil / ".git")
    assert use_everything(team, worktree)
    assert not mark.exists()


def test_a_rewritten_commondir_is_reported(team: Team, worktree: Worktree, tmp_path: Path) -> None:
    """GHSA-q5hj-mxqh-vv77."""
    evil, mark = new_repository(tmp_path, "evil"), tmp_path / "ran"
    evil_settings(evil, mark)
    (worktree.git_dir / "commondir").write_text(f"{evil}/.git\n")
    assert "git has lost it" in use_everything(team, worktree)
    assert not mark.exists()


def test_attributes_that_name_undefined_filters_do_nothing(team: Team, worktree: Worktree) -> None:
    write_at(worktree.path, ".gitattributes", "* filter=evil diff=evil merge=evil\n")
    assert use_everything(team, worktree) == []


def test_programs_inside_nested_repositories_do_not_run(
    team: Team, worktree: Worktree, tmp_path: Path
) -> None:
    """`safe.bareRepository`: an embedded repository, bare or not, has settings of its own."""
    mark = tmp_path / "ran"
    nested = new_repository(worktree.path, "nested")
    linked = new_repository(worktree.path, "linked")
    git(worktree.path, "add", "linked")
    git(worktree.path, "commit", "-q", "-m", "a repository as a mere name")
    for each in (nested, linked):
        write_at(each, ".gitattributes", "* filter=evil diff=evil\n")
        evil_settings(each, mark)
        write(each, a_txt="2")
    bare = worktree.path / "looks-bare"
    shutil.copytree(nested / ".git", bare)
    assert use_everything(team, worktree) == []
    assert not mark.exists()


def test_the_users_own_hooks_and_signing_do_not_run(
    team: Team, worktree: Worktree, tmp_path: Path
) -> None:
    mark = tmp_path / "ran"
    evil_settings(team.root, mark)
    for section in ("filter.evil", "merge.evil"):
        git(team.root, "config", "--remove-section", section)
    write(worktree.path, b_txt="2")
    assert use_everything(team, worktree) == []
    assert not mark.exists()


@pytest.mark.parametrize("name", ["--output=x", "-x", "--upload-pack=touch x", "HEAD\n"])
def test_names_that_would_be_options(team: Team, worktree: Worktree, name: str) -> None:
    """CVE-2025-68144, CVE-2025-68145: a name that git took for an option wrote a file."""
    calls: list[Callable[[], object]] = [
        lambda: team.worktrees.create(name, "task_2"),
        lambda: team.worktrees.create("ok", "task_2", start=name),
        lambda: team.worktrees.create("ok", "task_2", onto=name),
        lambda: team.worktrees.get(name),
        lambda: team.landing.land("auth", onto=name),
        lambda: team.worktrees.rescue_restore(name, team.root / "out"),
    ]
    before = git(team.root, "status", "--porcelain"), git(team.root, "for-each-ref")
    for call in calls:
        with pytest.raises(TeamError):
            call()
    with contextlib.suppress(CommandFailed):
        team.repository.changed_paths(name, name)
    assert (git(team.root, "status", "--porcelain"), git(team.root, "for-each-ref")) == before


def test_a_link_to_the_outside_is_committed_as_a_link(
    team: Team, worktree: Worktree, tmp_path: Path
) -> None:
    """CVE-2026-27735, CVE-2025-68143: a file from elsewhere got into the history."""
    secret = tmp_path / "secret"
    secret.write_text("canary")
    (worktree.path / "link").symlink_to(secret)
    tip = team.worktrees.commit(worktree, "a link")
    assert git(team.root, "ls-tree", tip, "link").startswith("120000")
    assert "canary" not in git(team.root, "show", f"{tip}:link")
    write(team.root, b_txt="2")
    commit_all(team.root)
    team.landing.land("auth")
    assert (team.root / "link").is_symlink()


def test_an_identity_of_the_repository_is_a_name_and_no_command(team: Team, tmp_path: Path) -> None:
    """CVE-2025-59041: an address from the settings of a repository reached a shell."""
    mark = tmp_path / "ran"
    for key in ("user.name", "user.email"):
        git(team.root, "config", key, f"$(touch {mark}) `touch {mark}`; touch {mark}")
    worktree = team.work("auth", a_txt="2")
    team.landing.land("auth")
    assert "touch" in git(team.root, "log", "-1", "--format=%ae %an", worktree.branch)
    assert not mark.exists()
