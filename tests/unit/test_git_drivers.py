"""Filters, merge drivers and fetching that a repository's own settings name: run once a person
trusts exactly them, and never before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from team_runtime.errors import CommandFailed, RefusedError
from team_runtime.git.drivers import Setting
from tests.support.repositories import BRANCH, Team, commit_all, git, new_repository, write_at


@dataclass
class Person:
    """Trusts the settings that were shown."""

    seen: set[tuple[Setting, ...]] = field(default_factory=set)

    def trusts(self, found: tuple[Setting, ...]) -> bool:
        return found in self.seen

    def trust(self, team: Team) -> None:
        self.seen.add(team.repository.drivers())


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "ran"


@pytest.fixture
def team(tmp_path: Path, person: Person) -> Team:
    root = new_repository(tmp_path)
    write_at(root, ".gitattributes", "*.txt filter=rot merge=mine\n")
    commit_all(root)
    return Team(root, trusts=person.trusts)


def rot(root: Path, more: str = "") -> None:
    """A filter as git-crypt has one: what is stored is not what stands in the files."""
    for part in ("clean", "smudge"):
        git(root, "config", f"filter.rot.{part}", f"{more}tr a-z n-za-m")
    git(root, "config", "filter.rot.required", "true")


def stored(team: Team, path: str = "a.txt", at: str = BRANCH) -> str:
    return git(team.root, "cat-file", "blob", f"{at}:{path}")


def test_once_trusted_what_is_stored_is_what_the_user_meant(team: Team, person: Person) -> None:
    rot(team.root)
    git(team.root, "add", "--renormalize", ".")
    git(team.root, "commit", "--quiet", "-m", "Filtered")
    with pytest.raises(RefusedError, match="team trust"):
        team.work("auth", a_txt="hello\n")
    assert team.worktrees.list() == []
    person.trust(team)
    worktree = team.work("auth", a_txt="hello\n")
    assert (worktree.path / "b.txt").read_text() == "b\n"
    team.landing.land("auth")
    assert stored(team) == "uryyb\n"
    assert (team.root / "a.txt").read_text() == "hello\n"
    assert team.repository.dirty_paths() == []


def test_a_trusted_merge_driver_merges(team: Team, person: Person) -> None:
    git(team.root, "config", "merge.mine.driver", "cat %A %B > x.tmp && mv x.tmp %A")
    person.trust(team)
    team.work("one", a_txt="1\n")
    team.work("two", a_txt="2\n")
    team.landing.land("one")
    team.landing.land("two")
    assert stored(team) == "1\n2\n"


def test_a_change_asks_again_and_nothing_is_stored_meanwhile(
    team: Team, person: Person, mark: Path
) -> None:
    rot(team.root)
    person.trust(team)
    worktree = team.worktrees.create("auth", "task_1")
    write_at(worktree.path, "a.txt", "hello\n")
    rot(team.root, more=f"touch '{mark}'; ")
    tip = team.repository.branch_tip(worktree.branch)
    for call in (
        lambda: team.worktrees.commit(worktree, "work"),
        lambda: team.worktrees.refresh_base(worktree),
        lambda: team.landing.land("auth"),
    ):
        with pytest.raises(RefusedError, match="team trust"):
            call()
    team.worktrees.diff(worktree)
    assert (worktree.path / "a.txt").read_text() == "hello\n"
    assert team.repository.branch_tip(worktree.branch) == tip
    assert not mark.exists()
    person.trust(team)
    team.worktrees.commit(worktree, "work")
    assert mark.exists()
    assert stored(team, at=worktree.branch) == "uryyb\n"


def included(place: str) -> Callable[[Team, Path], object]:
    def lay(team: Team, evil: Path) -> None:
        (team.root / ".git/more").write_text(f"[include]\n\tpath = {evil}\n")
        git(team.root, "config", place, "more")

    return lay


LATER: dict[str, Callable[[Team, Path], object]] = {
    "in the settings": lambda team, evil: git(team.root, "config", "include.path", str(evil)),
    "by two includes": included("include.path"),
    "for the branches of a team": included("includeIf.onbranch:team/**.path"),
    "for the folders of worktrees": included("includeIf.gitdir:**/worktrees/**.path"),
    "for one checkout": lambda team, evil: (
        (team.root / ".git/config.worktree").write_text(evil.read_text()),
        git(team.root, "config", "extensions.worktreeConfig", "true"),
    ),
}


@pytest.mark.parametrize("place", LATER)
def test_what_appears_while_a_team_works_does_not_run(
    place: str, team: Team, tmp_path: Path, mark: Path
) -> None:
    worktree = team.work("auth", a_txt="2")
    evil = tmp_path / "evil"
    program = f"\"touch '{mark}'; cat\""
    evil.write_text(f'[filter "rot"]\n\tclean = {program}\n\tsmudge = {program}\n')
    LATER[place](team, evil)
    write_at(worktree.path, "b.txt", "3")
    team.worktrees.status(worktree)
    team.worktrees.diff(worktree)
    team.repository.status()
    with pytest.raises(RefusedError, match=r"filter\.rot"):
        team.worktrees.create("other", "task_2")
    assert not mark.exists()


def test_a_filter_of_one_worktree_alone_is_seen(team: Team, mark: Path) -> None:
    git(team.root, "config", "extensions.worktreeConfig", "true")
    worktree = team.work("auth", a_txt="2")
    git(worktree.path, "config", "--worktree", "filter.rot.clean", f"touch '{mark}'; cat")
    write_at(worktree.path, "a.txt", "3")
    with pytest.raises(RefusedError, match=r"filter\.rot\.clean"):
        team.worktrees.commit(worktree, "work")
    assert team.worktrees.diff(worktree)
    assert not mark.exists()


@pytest.mark.parametrize("value", ["~nobody/x", "%(prefix)/x"])
def test_an_include_of_which_the_place_cannot_be_told_lets_git_do_nothing(
    value: str, team: Team
) -> None:
    git(team.root, "config", "includeIf.onbranch:x.path", value)
    with pytest.raises(RefusedError, match="cannot be told"):
        team.repository.status()


def test_an_include_that_leads_in_a_circle_ends(team: Team) -> None:
    git(team.root, "config", "includeIf.onbranch:x.path", "config")
    assert team.work("auth", a_txt="2").path.is_dir()


def promised(root: Path, mark: Path) -> None:
    """A repository in which a file is missing, and a program that would bring it."""
    blob = git(root, "rev-parse", "HEAD:b.txt").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    git(root, "config", "core.repositoryFormatVersion", "1")
    git(root, "config", "extensions.partialClone", "origin")
    git(root, "config", "remote.origin.promisor", "true")
    git(root, "config", "remote.origin.url", str(root))
    git(root, "config", "remote.origin.uploadpack", f"touch '{mark}'; false")


def test_a_missing_file_is_fetched_by_nothing_that_is_not_trusted(
    tmp_path: Path, mark: Path
) -> None:
    team = Team(new_repository(tmp_path))
    worktree = team.work("auth", a_txt="2")
    promised(team.root, mark)
    with pytest.raises(CommandFailed):
        team.repository.git.run(team.repository.tree, "cat-file", "blob", "HEAD:b.txt")
    with pytest.raises(RefusedError, match=r"remote\.origin\.promisor"):
        team.worktrees.commit(worktree, "work")
    assert not mark.exists()


def test_a_partial_clone_that_is_trusted_fetches(tmp_path: Path, person: Person) -> None:
    origin = new_repository(tmp_path, "origin")
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(
        tmp_path, "clone", "--quiet", "--no-checkout", "--filter=blob:none", origin.as_uri(), "mine"
    )
    root = tmp_path / "mine"
    git(root, "reset", "--quiet")
    team = Team(root, trusts=person.trusts)
    person.trust(team)
    assert (team.worktrees.create("auth", "task_1").path / "sub/c.txt").read_text() == "c\n"
