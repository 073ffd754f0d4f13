from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from team_runtime.errors import CommandFailed, NotARepository, ProgramMissing
from team_runtime.git.repository import Repository
from team_runtime.git.run import Git
from team_runtime.process.base import Command, Completed
from team_runtime.process.run import BlockingRunner
from tests.support.repositories import (
    BRANCH,
    ENV,
    Team,
    commit_all,
    git,
    head,
    new_repository,
    write,
    write_at,
)

GIT = Git(BlockingRunner(), ENV)


def unborn(folder: Path) -> Path:
    git(folder, "init", "-q", "-b", "trunk")
    return folder


def bare(folder: Path) -> Path:
    git(folder, "init", "-q", "--bare")
    return folder


def bare_beside_pointer(folder: Path) -> Path:
    git(folder, "init", "-q", "--bare", ".bare")
    write_at(folder, ".git", "gitdir: ./.bare\n")
    return folder


@pytest.mark.parametrize(
    ("make", "cause", "hint"),
    [
        (lambda folder: folder, "not in a git repository", "git init"),
        (unborn, "branch trunk has no commit", "git commit"),
        (bare, "bare repository", "git worktree add"),
        (bare_beside_pointer, "bare repository", "git worktree add"),
    ],
)
def test_what_cannot_host_a_team(
    tmp_path: Path, make: Callable[[Path], Path], cause: str, hint: str
) -> None:
    with pytest.raises(NotARepository, match=cause) as caught:
        Repository.open(make(tmp_path), GIT)
    assert hint in str(caught.value)


def test_git_that_is_missing_or_too_old(tmp_path: Path) -> None:
    """CVE-2022-24765, CVE-2024-32002, CVE-2025-48384: what an old git does by itself."""
    with pytest.raises(ProgramMissing, match="no-such-git"):
        Repository.open(tmp_path, Git(BlockingRunner(), ENV, program="no-such-git"))

    class OldGit:
        def run(self, command: Command) -> Completed:
            return Completed(0, b"git version 2.37.9\n", b"")

    with pytest.raises(ProgramMissing, match=r"2\.37\.9.*2\.38"):
        Repository.open(tmp_path, Git(OldGit(), ENV))


def test_opens_from_the_top_and_from_below(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    for place in (root, root / "sub"):
        repository = Repository.open(place, GIT)
        assert repository.root == root
        assert repository.head_branch() == BRANCH
        assert repository.tip("HEAD") == head(root)


def test_a_linked_worktree_and_a_submodule_can_host_a_team(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    other = new_repository(tmp_path, "other")
    git(root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    allow = ("-c", "protocol.file.allow=always")
    git(root, *allow, "submodule", "--quiet", "add", str(other), "mod")
    for place, branch in ((tmp_path / "linked", "side"), (root / "mod", BRANCH)):
        team = Team(place)
        team.work("auth", a_txt="changed\n")
        team.landing.land("auth")
        assert team.repository.root == place
        assert (place / "a.txt").read_text() == "changed\n"
        assert git(place, "log", "-1", "--format=%s", branch) == f"Land auth on {branch}\n"
        assert not git(place, "status", "--porcelain")


def test_names_that_look_like_options_name_nothing(tmp_path: Path) -> None:
    repository = Repository.open(new_repository(tmp_path), GIT)
    for ref in ("--help", "-x", "no such", "trunk..trunk", "--output=x"):
        assert repository.tip(ref) is None
    assert repository.branch_tip("-x") is None


def test_a_detached_head_has_no_branch(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    git(root, "checkout", "-q", "--detach")
    assert Repository.open(root, GIT).head_branch() is None


def test_a_ref_moves_only_from_where_it_was(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    first = head(root)
    write(root, a_txt="2")
    second = commit_all(root)
    repository = Repository.open(root, GIT)
    assert repository.move("refs/heads/x", first, "")
    assert not repository.move("refs/heads/x", second, "")
    assert not repository.move("refs/heads/x", second, second)
    assert repository.move("refs/heads/x", second, first)
    assert not repository.delete("refs/heads/x", first)
    assert repository.delete("refs/heads/x", second)
    with pytest.raises(CommandFailed):
        repository.move("refs/heads/x", "f" * 40, "")


def test_runtime_folders_are_excluded_once_and_nothing_is_lost(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    write_at(root, ".memory/users-own", "x")
    commit_all(root)
    exclude = root / ".git/info/exclude"
    exclude.parent.mkdir()
    exclude.write_text("/mine\n/.team/")
    repository = Repository.open(root, GIT)
    for _ in range(2):
        repository.exclude_runtime_files()
    assert exclude.read_text() == "/mine\n/.team/\n/.tasks/\n/worktrees/\n.team-tmp-*\n"
    (root / ".git/info/exclude").unlink()
    (root / ".git/info").rmdir()
    repository.exclude_runtime_files()
    assert exclude.read_text() == "/.tasks/\n/worktrees/\n/.team/\n.team-tmp-*\n"


def test_once_they_are_excluded_git_is_not_asked_again(tmp_path: Path) -> None:
    class Refusing:
        def run(self, command: Command) -> Completed:
            raise AssertionError(command.argv)

    repository = Repository.open(new_repository(tmp_path), GIT)
    repository.exclude_runtime_files()
    repository.through(Refusing()).exclude_runtime_files()


DIFFICULT_NAMES = ["日本 — é.txt", "-dash", "line\nbreak", "trailing ", 'quo"te', "\udcff.bin", "*"]


def test_difficult_names_come_through_whole(tmp_path: Path) -> None:
    """plannotator#628, cline/kanban#146: names came quoted, and were not found."""
    root = new_repository(tmp_path)
    for name in DIFFICULT_NAMES:
        (root / name).write_bytes(b"x")
    repository = Repository.open(root, GIT)
    assert sorted(repository.dirty_paths()) == sorted(DIFFICULT_NAMES)
    before, after = head(root), commit_all(root)
    assert sorted(repository.changed_paths(before, after)) == sorted(DIFFICULT_NAMES)


def test_status_tells_the_kinds_apart(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    write(root, a_txt="changed", b_txt=None, new__x_txt="", x_log="", node_modules__deep__y="")
    write_at(root, "node_modules/deep/y", "")
    git(root, "mv", "sub/c.txt", "sub/d.txt")
    git(root, "init", "-q", "nested")
    status = Repository.open(root, GIT).status()
    assert set(status.modified) == {"a.txt", "b.txt", "sub/c.txt", "sub/d.txt"}
    assert {"new/x.txt", "nested/"} <= set(status.untracked)
    assert {"x.log", "node_modules/"} <= set(status.ignored)
    assert status.nested == ("nested/",)


def test_overlap_sees_files_above_and_below(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    write_at(root, "node_modules/deep/y", "")
    write_at(root, "fresh/x", "")
    status = Repository.open(root, GIT).status()
    assert status.overlap(["node_modules/z"]) == ["node_modules/"]
    assert status.overlap(["fresh"]) == ["fresh/x"]
    assert status.overlap(["fresh/x/y"]) == ["fresh/x"]
    assert status.overlap(["fresh/xy", "fres", "a.txt"]) == []


def test_checkouts_are_listed_with_their_branches(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    odd = tmp_path / "line\nbreak"
    git(root, "worktree", "add", "-q", "--detach", os.fspath(odd))
    main, linked = Repository.open(root, GIT).checkouts()
    assert (main.path, main.branch) == (root, f"refs/heads/{BRANCH}")
    assert (linked.path, linked.branch, linked.head) == (odd, None, head(root))
