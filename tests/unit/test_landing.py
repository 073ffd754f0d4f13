from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from team_runtime.errors import LandingBlocked, LandingConflict, WorktreeRefused
from tests.support.repositories import (
    BRANCH,
    Team,
    commit_all,
    git,
    head,
    new_repository,
    write,
    write_at,
)


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(new_repository(tmp_path))


class TestLand:
    def test_the_target_and_the_users_checkout_move_together(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2", b_txt=None, new__x_txt="x")
        old, tip = head(team.root), head(worktree.path)
        landed = team.landing.land("auth")
        assert (landed.name, landed.commit, landed.target) == ("auth", tip, BRANCH)
        assert landed.merge == head(team.root)
        assert git(team.root, "show", "-s", "--format=%P").split() == [old, tip]
        assert git(team.root, "show", "-s", "--format=%B").splitlines() == [
            f"Land auth on {BRANCH}",
            "",
            "Task: task_of_auth",
            "Worktree: auth",
            "",
        ]
        assert (team.root / "a.txt").read_text() == "2"
        assert not (team.root / "b.txt").exists()
        assert not git(team.root, "status", "--porcelain")
        assert team.worktrees.get("auth").landed == (landed,)
        assert team.events[-1] == {
            "kind": "worktree_landed",
            "agent": None,
            "name": "auth",
            "task": "task_of_auth",
            "commit": tip,
            "merge": landed.merge,
            "target": BRANCH,
        }

    def test_landing_twice_is_landing_once(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        landed = team.landing.land("auth")
        write(team.root, b_txt="later")
        commit_all(team.root)
        assert team.landing.land("auth") == landed
        assert team.kinds().count("worktree_landed") == 1

    def test_what_the_user_merged_is_recorded_once(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        git(team.root, "merge", "-q", "--no-ff", "-m", "By hand", "team/auth")
        merge = head(team.root)
        assert team.landing.land("auth").merge == merge
        assert team.landing.land("auth").merge == merge
        assert [one.merge for one in team.worktrees.get("auth").landed] == [merge]

    def test_a_branch_without_work_lands_nothing(self, team: Team) -> None:
        team.worktrees.create("auth", "task_1")
        before = head(team.root)
        assert team.landing.land("auth").commit == before == head(team.root)
        assert team.worktrees.get("auth").landed == ()
        assert "worktree_landed" not in team.kinds()

    def test_more_work_after_a_landing_lands_too(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        team.landing.land("auth")
        write(worktree.path, b_txt="2")
        team.worktrees.commit(worktree, "more")
        team.landing.land("auth")
        assert (team.root / "b.txt").read_text() == "2"
        assert len(team.worktrees.get("auth").landed) == 2

    def test_a_foreign_branch_is_not_landed_along(self, team: Team) -> None:
        git(team.root, "checkout", "-q", "-b", "old")
        write(team.root, old_txt="x")
        commit_all(team.root)
        git(team.root, "checkout", "-q", BRANCH)
        team.work("auth", a_txt="2")
        team.work("billing", b_txt="2")
        team.landing.land("auth")
        assert not (team.root / "old.txt").exists()
        assert (team.root / "b.txt").read_text() == "b\n"

    def test_a_branch_that_nobody_has_checked_out(self, team: Team) -> None:
        git(team.root, "branch", "release")
        team.work("auth", a_txt="2")
        write(team.root, a_txt="dirty")
        landed = team.landing.land("auth", onto="release")
        assert head(team.root, "release") == landed.merge
        assert head(team.root) == team.worktrees.get("auth").base
        assert (team.root / "a.txt").read_text() == "dirty"

    def test_an_old_base_deletes_nothing_of_others(self, team: Team) -> None:
        slow = team.worktrees.create("slow", "task_1")
        team.work("quick", quick_txt="q", a_txt="2")
        team.landing.land("quick")
        write(slow.path, slow_txt="s")
        team.worktrees.commit(slow, "work on the old base")
        team.landing.land("slow")
        assert (team.root / "quick.txt").read_text() == "q"
        assert (team.root / "a.txt").read_text() == "2"

    def test_what_was_not_committed_is_named(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        write(worktree.path, b_txt="not committed", new_txt="nor this")
        landed = team.landing.land("auth")
        assert landed.left_behind == ("b.txt", "new.txt")
        assert "because it was not committed: b.txt, new.txt" in landed.remark
        assert (team.root / "b.txt").read_text() == "b\n"

    def test_a_folder_that_is_gone_does_not_matter(self, team: Team) -> None:
        shutil.rmtree(team.work("auth", a_txt="2").path)
        assert team.landing.land("auth").merge == head(team.root)

    def test_a_branch_that_is_gone(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        git(worktree.path, "checkout", "-q", "--detach")
        git(team.root, "branch", "-D", "team/auth")
        with pytest.raises(WorktreeRefused, match="team/auth is gone"):
            team.landing.land("auth")

    def test_several_at_once_all_land(self, team: Team) -> None:
        names = [f"w{number}" for number in range(4)]
        for name in names:
            worktree = team.worktrees.create(name, name)
            write_at(worktree.path, f"{name}.txt", name)
            team.worktrees.commit(worktree, name)
        with ThreadPoolExecutor(4) as pool:
            landed = list(pool.map(team.landing.land, names))
        for one in landed:
            assert team.repository.is_ancestor(one.merge, BRANCH)
            assert (team.root / f"{one.name}.txt").read_text() == one.name
        assert not git(team.root, "status", "--porcelain")


class TestConflict:
    def test_it_names_the_files_and_the_other_task(self, team: Team) -> None:
        team.work("auth", a_txt="auth", b_txt="auth", sub__c_txt="2")
        team.work("billing", a_txt="billing")
        team.work("third", b_txt="third")
        team.work("unrelated", new_txt="n")
        for name in ("unrelated", "billing", "third"):
            team.landing.land(name)
            team.worktrees.remove(name)
        before = head(team.root)
        with pytest.raises(LandingConflict) as caught:
            team.landing.land("auth")
        assert caught.value.files == "a.txt, b.txt"
        assert "billing (task_of_billing)" in str(caught.value)
        assert "third (task_of_third)" in str(caught.value)
        assert "unrelated" not in str(caught.value)
        assert head(team.root) == before
        assert not git(team.root, "status", "--porcelain")

    def test_of_the_users_own_commit_there_is_no_task_to_name(self, team: Team) -> None:
        team.work("auth", a_txt="auth")
        write(team.root, a_txt="user")
        commit_all(team.root)
        with pytest.raises(LandingConflict) as caught:
            team.landing.land("auth")
        assert caught.value.others == ""


class TestBlocked:
    def blocked(self, team: Team, cause: str, onto: str | None = None) -> None:
        before = git(team.root, "for-each-ref"), git(team.root, "status", "--porcelain")
        with pytest.raises(LandingBlocked, match=cause):
            team.landing.land("auth", onto)
        assert (git(team.root, "for-each-ref"), git(team.root, "status", "--porcelain")) == before
        assert not (team.root / ".team/landing.json").exists()

    @pytest.mark.parametrize("kind", ["modified", "staged", "deleted"])
    def test_by_the_users_changes(self, team: Team, kind: str) -> None:
        team.work("auth", a_txt="2")
        if kind == "deleted":
            write(team.root, a_txt=None)
        else:
            write(team.root, a_txt="mine")
        if kind == "staged":
            git(team.root, "add", "a.txt")
        self.blocked(team, r"in the way: a\.txt")

    @pytest.mark.parametrize("path", ["new.txt", "x.log", "folder/inside", "folder"])
    def test_by_untracked_and_ignored_files(self, team: Team, path: str) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        write_at(worktree.path, "folder/inside" if path == "folder" else path, "theirs")
        git(worktree.path, "add", "--force", "--all")
        git(worktree.path, "commit", "-q", "-m", "work")
        write_at(team.root, path, "mine")
        self.blocked(team, "in the way")
        assert (team.root / path).read_text() == "mine"

    def test_by_an_ignored_folder_where_a_file_goes(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        (worktree.path / "node_modules").write_text("a file")
        git(worktree.path, "add", "--force", "node_modules")
        git(worktree.path, "commit", "-q", "-m", "work")
        write_at(team.root, "node_modules/deep/x", "mine")
        self.blocked(team, "in the way: node_modules/")

    @pytest.mark.parametrize("what", ["merge", "cherry-pick", "revert", "rebase"])
    def test_by_what_the_user_is_in_the_middle_of(self, team: Team, what: str) -> None:
        team.work("auth", b_txt="2")
        git(team.root, "checkout", "-q", "-b", "side")
        write(team.root, a_txt="side")
        commit_all(team.root)
        git(team.root, "checkout", "-q", BRANCH)
        write(team.root, a_txt="trunk")
        commit_all(team.root)
        write(team.root, a_txt="trunk again")
        commit_all(team.root)
        command = (what, "HEAD^" if what == "revert" else "side")
        with pytest.raises(Exception, match="non-zero"):
            git(team.root, *command)
        self.blocked(team, f"a {what} is in progress")
        git(team.root, what, "--abort")
        team.landing.land("auth")

    def test_by_a_checkout_of_the_target_elsewhere(self, team: Team, tmp_path: Path) -> None:
        team.work("auth", a_txt="2")
        git(team.root, "worktree", "add", "-q", "-b", "release", str(tmp_path / "release"))
        self.blocked(team, f"release is checked out in {tmp_path}", onto="release")

    def test_by_a_target_that_is_not_there(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        for onto in ("no-such", "--force", "HEAD"):
            self.blocked(team, "there is no branch", onto=onto)

    def test_other_changes_of_the_user_stay_as_they_are(self, team: Team) -> None:
        team.work("auth", a_txt="2", new_txt="n")
        write(team.root, b_txt="mine", own_txt="mine", x_log="mine")
        git(team.root, "add", "own.txt")
        before = git(team.root, "status", "--porcelain", "--ignored")
        git(team.root, "config", "merge.autoStash", "true")
        team.landing.land("auth")
        assert git(team.root, "status", "--porcelain", "--ignored") == before
        assert (team.root / "b.txt").read_text() == "mine"

    def test_a_landing_waits_while_another_git_looks_at_the_checkout(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        lock = team.root / ".git/index.lock"
        lock.write_text("")
        other_git_ends = threading.Timer(0.1, lock.unlink)
        other_git_ends.start()
        team.landing.land("auth")
        other_git_ends.join()
        assert (team.root / "a.txt").read_text() == "2"
        assert git(team.root, "status", "--porcelain") == ""

    @pytest.mark.slow
    def test_a_file_in_the_index_lock_is_not_ours_to_remove(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        (team.root / ".git/index.lock").write_text("")
        with pytest.raises(LandingBlocked, match=r"index\.lock"):
            team.landing.land("auth")
        (team.root / ".git/index.lock").unlink()
        team.landing.land("auth")


class TestCheck:
    def test_it_sees_the_merged_files(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        write(team.root, b_txt="theirs")
        commit_all(team.root)
        seen: list[Path] = []

        def check(folder: Path) -> None:
            assert (folder / "a.txt").read_text() == "2"
            assert (folder / "b.txt").read_text() == "theirs"
            assert git(folder, "rev-parse", "--show-toplevel").strip() == str(folder)
            write(folder, litter_txt="x")
            seen.append(folder)

        team.landing.land("auth", check=check)
        assert not seen[0].exists()
        assert len(team.repository.checkouts()) == 2
        assert not (team.root / "litter.txt").exists()

    def test_a_failure_stops_the_landing(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        before = head(team.root)

        def check(folder: Path) -> None:
            raise ValueError(folder)

        with pytest.raises(ValueError, match="check-"):
            team.landing.land("auth", check=check)
        assert head(team.root) == before
        assert list((team.root / ".team").glob("check-*")) == []

    def test_a_target_that_moved_meanwhile_is_checked_again(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        checked: list[bool] = []

        def check(folder: Path) -> None:
            checked.append((folder / "late.txt").exists())
            if len(checked) == 1:
                write(team.root, late_txt="x")
                commit_all(team.root)

        team.landing.land("auth", check=check)
        assert checked == [False, True]
        assert (team.root / "late.txt").exists()

    def test_a_target_that_never_rests(self, team: Team) -> None:
        team.work("auth", a_txt="2")

        def check(folder: Path) -> None:
            git(team.root, "commit", "-q", "--allow-empty", "-m", "again")

        with pytest.raises(LandingBlocked, match="moved 5 times"):
            team.landing.land("auth", check=check)

    def test_the_folders_of_killed_checks_are_swept(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        dead = team.root / ".team/check-dead"
        git(team.root, "worktree", "add", "-q", "--detach", str(dead))

        def check(folder: Path) -> None:
            assert not dead.exists()
            team.landing.recover()
            assert folder.exists()

        team.landing.land("auth", check=check)


PATHS = ["a.txt", "b.txt", "sub/c.txt", "fresh.txt", "sub/fresh.txt", "x.log"]


@given(
    theirs=st.dictionaries(st.sampled_from(PATHS[:5]), st.sampled_from(["1", None]), min_size=1),
    mine=st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["2", None])),
    staged=st.booleans(),
)
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_landing_touches_uncommitted_work(
    tmp_path_factory: pytest.TempPathFactory,
    theirs: dict[str, str | None],
    mine: dict[str, str | None],
    staged: bool,
) -> None:
    team = Team(new_repository(tmp_path_factory.mktemp("landing")))
    worktree = team.worktrees.create("auth", "task_1")
    for folder, files in ((worktree.path, theirs), (team.root, mine)):
        for path, text in files.items():
            if text is not None or (folder / path).exists():
                write_at(folder, path, text)
    team.worktrees.commit(worktree, "work")
    if staged:
        git(team.root, "add", "--all")
    before = git(team.root, "status", "--porcelain", "--ignored", "-uall")
    overlap = theirs.keys() & mine.keys() & set(team.worktrees.changed_files(worktree))
    dirty = {line[3:] for line in before.splitlines()}
    try:
        team.landing.land("auth")
        assert not overlap & dirty
    except LandingBlocked:
        assert overlap & dirty
    assert git(team.root, "status", "--porcelain", "--ignored", "-uall") == before
    for path in dirty:
        text = mine.get(path)
        assert text == ((team.root / path).read_text() if text is not None else None)
