from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from team_runtime.errors import InputError, RefusedError, WorktreeRefused, WouldLose
from team_runtime.git import rescue
from team_runtime.git.record import DROPPING, REMOVING
from team_runtime.git.worktrees import Worktree
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


@pytest.fixture
def worktree(team: Team) -> Worktree:
    return team.worktrees.create("auth", "task_1")


def content(folder: Path) -> dict[str, str]:
    """Every file below `folder`, with a hash of what is in it."""
    return {
        os.path.relpath(path, folder): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def gone(team: Team, worktree: Worktree) -> bool:
    left = [worktree.path, worktree.aside, worktree.git_dir]
    return not (
        any(os.path.lexists(path) for path in left)
        or team.repository.branch_tip(worktree.branch)
        or team.worktrees.registry.find(worktree.name)
    )


class TestWithoutLosses:
    def test_an_unused_worktree_goes_without_a_question(
        self, team: Team, worktree: Worktree
    ) -> None:
        assert not team.worktrees.losses("auth")
        removal = team.worktrees.remove("auth")
        assert (removal.task, removal.rescued) == ("task_1", None)
        assert gone(team, worktree)
        assert team.kinds() == ["worktree_created", "worktree_removed"]
        assert team.worktrees.create("auth", "task_2").path.is_dir()

    def test_landed_work_goes_without_a_question(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        team.landing.land("auth")
        team.worktrees.remove("auth")
        assert gone(team, worktree)
        assert team.worktrees.rescue_list() == []

    def test_work_that_was_squashed_is_not_lost(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        git(team.root, "merge", "-q", "--squash", "team/auth")
        commit_all(team.root, "Squashed")
        write(team.root, b_txt="later")
        commit_all(team.root)
        team.worktrees.remove("auth")
        assert gone(team, worktree)

    def test_squashed_work_that_was_reverted_is_a_loss(self, team: Team) -> None:
        team.work("auth", new_txt="2")
        git(team.root, "merge", "-q", "--squash", "team/auth")
        commit_all(team.root, "Squashed")
        git(team.root, "rm", "-q", "new.txt")
        commit_all(team.root, "Reverted")
        assert team.worktrees.losses("auth").commits

    def test_twenty_that_only_read_leave_nothing(self, team: Team) -> None:
        for number in range(20):
            worktree = team.worktrees.create(f"w{number}", f"task_{number}")
            (worktree.path / "a.txt").read_text()
            team.worktrees.remove(worktree.name)
        assert team.worktrees.list() == []
        assert list((team.root / "worktrees").iterdir()) == []
        assert len(team.repository.checkouts()) == 1

    def test_a_folder_deleted_by_hand(self, team: Team, worktree: Worktree) -> None:
        shutil.rmtree(worktree.path)
        team.worktrees.remove("auth")
        assert gone(team, worktree)


class TestLosses:
    def refused(self, team: Team, worktree: Worktree, *named: str) -> None:
        before = content(worktree.path)
        with pytest.raises(WouldLose) as caught:
            team.worktrees.remove("auth")
        assert [name for name in named if name not in caught.value.losses] == []
        assert content(worktree.path) == before
        assert team.worktrees.get("auth") == worktree
        assert team.worktrees.verify(worktree) == worktree.path

    def test_each_kind_is_listed(self, team: Team, worktree: Worktree) -> None:
        write(worktree.path, b_txt="committed")
        team.worktrees.commit(worktree, "work")
        write(worktree.path, a_txt="modified", new_txt="untracked", x_log="ignored")
        git(worktree.path, "init", "-q", "cloned")
        self.refused(
            team, worktree, "1 unlanded", "a.txt", "new.txt", "ignored: x.log", "inside: cloned/"
        )

    @pytest.mark.parametrize("file", ["new.txt", "x.log", "node_modules/deep/x"])
    def test_one_file_is_enough(self, team: Team, worktree: Worktree, file: str) -> None:
        write_at(worktree.path, file, "only here")
        self.refused(team, worktree, file.partition("/")[0])

    def test_commits_of_an_earlier_attempt_count(self, team: Team, worktree: Worktree) -> None:
        """A resumed task without new commits: its base is where it began, not where it is now."""
        write(worktree.path, a_txt="first attempt")
        team.worktrees.commit(worktree, "first attempt", "alice")
        team.worktrees.refresh_base(worktree)
        assert team.worktrees.commit(worktree, "nothing new", "bob") == head(worktree.path)
        self.refused(team, worktree, "1 unlanded")

    def test_commits_on_a_detached_head_count(self, team: Team, worktree: Worktree) -> None:
        git(worktree.path, "checkout", "-q", "--detach")
        write(worktree.path, a_txt="2")
        lost = commit_all(worktree.path)
        with pytest.raises(WouldLose, match="1 unlanded"):
            team.worktrees.remove("auth")
        rescued = team.worktrees.remove("auth", discard=True).rescued
        assert rescued
        assert team.repository.is_ancestor(lost, rescued.ref)

    def test_a_stash_outlives_its_worktree(self, team: Team, worktree: Worktree) -> None:
        write(worktree.path, a_txt="stashed")
        git(worktree.path, "stash")
        team.worktrees.remove("auth")
        assert git(team.root, "stash", "show", "-p").count("+stashed") == 1

    def test_work_in_a_submodule_counts(self, team: Team, tmp_path: Path) -> None:
        other = new_repository(tmp_path, "other")
        allow = ("-c", "protocol.file.allow=always")
        git(team.root, *allow, "submodule", "--quiet", "add", str(other), "mod")
        commit_all(team.root, "With a submodule")
        worktree = team.worktrees.create("auth", "task_1")
        assert not team.worktrees.losses("auth")
        git(worktree.path, *allow, "submodule", "--quiet", "update", "--init")
        assert team.worktrees.losses("auth").nested == ("mod/",)


class TestDiscard:
    def test_everything_is_kept_somewhere(
        self, team: Team, worktree: Worktree, tmp_path: Path
    ) -> None:
        write(worktree.path, b_txt="committed")
        tip = team.worktrees.commit(worktree, "work")
        write(worktree.path, a_txt="modified", new__é_txt="untracked", sub__c_txt=None)
        write(worktree.path, x_log="ignored")
        write_at(worktree.path, "node_modules/x.js", "ignored too")
        (worktree.path / "node_modules/link").symlink_to("x.js")
        git(worktree.path, "init", "-q", "cloned")
        write(worktree.path, cloned__own_txt="nested")
        os.mkfifo(worktree.path / "node_modules/pipe")
        expected = content(worktree.path)
        del expected[".git"]
        removal = team.worktrees.remove("auth", discard=True)
        assert gone(team, worktree)
        assert removal.rescued
        assert removal.rescued.ref.startswith("refs/team/rescue/auth/")
        assert team.repository.is_ancestor(tip, removal.rescued.ref)
        assert team.worktrees.rescue_list() == [removal.rescued]
        restored = tmp_path / "restored" / "here"
        team.worktrees.rescue_restore(removal.rescued.ref, restored)
        assert content(restored) == expected
        assert (restored / "node_modules/link").readlink() == Path("x.js")
        assert team.events[-1]["rescued"] == removal.rescued.ref
        assert not git(team.root, "status", "--porcelain")

    def test_only_ignored_files(self, team: Team, worktree: Worktree) -> None:
        write(worktree.path, x_log="ignored")
        rescued = team.worktrees.remove("auth", discard=True).rescued
        assert rescued
        assert rescued.folder
        assert (rescued.folder / "x.log").read_text() == "ignored"
        assert rescued.commit == worktree.base

    def test_too_many_ignored_bytes_are_refused(
        self, team: Team, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(rescue, "MOST_IGNORED", 2_000_000)
        write_at(worktree.path, "node_modules/a", "x" * 1_500_000)
        write_at(worktree.path, "node_modules/b/c", "x" * 1_500_000)
        with pytest.raises(RefusedError, match="3 MB of ignored files"):
            team.worktrees.remove("auth", discard=True)
        assert (worktree.path / "node_modules/a").exists()
        assert team.worktrees.rescue_list() == []

    def test_a_folder_that_is_gone_keeps_its_commits(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        tip = head(worktree.path)
        shutil.rmtree(worktree.path)
        with pytest.raises(WouldLose):
            team.worktrees.remove("auth")
        rescued = team.worktrees.remove("auth", discard=True).rescued
        assert rescued
        assert rescued.commit == tip

    def test_read_only_folders_are_deleted(self, team: Team, worktree: Worktree) -> None:
        write_at(worktree.path, "node_modules/deep/x", "")
        for folder in ("node_modules/deep", "node_modules"):
            (worktree.path / folder).chmod(0o555)
        team.worktrees.remove("auth", discard=True)
        assert gone(team, worktree)

    def test_restoring_never_overwrites(
        self, team: Team, worktree: Worktree, tmp_path: Path
    ) -> None:
        write(worktree.path, new_txt="x")
        rescued = team.worktrees.remove("auth", discard=True).rescued
        assert rescued
        (tmp_path / "full").mkdir()
        write(tmp_path / "full", mine="x")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for place in ("full", "full/mine", "link"):
            with pytest.raises(InputError, match="not an empty folder"):
                team.worktrees.rescue_restore(rescued.ref, tmp_path / place)
        for ref in ("refs/heads/trunk", "--help", "nothing"):
            with pytest.raises(InputError, match="no rescue copy"):
                team.worktrees.rescue_restore(ref, tmp_path / "new")
        assert not (tmp_path / "new").exists()


class TestSafety:
    def test_links_are_unlinked_and_never_followed(
        self, team: Team, worktree: Worktree, tmp_path: Path
    ) -> None:
        """claude-code#75275: removing followed a link and emptied what it led to."""
        outside = tmp_path / "outside"
        write_at(outside, "precious/x.txt", "x")
        (worktree.path / "node_modules").symlink_to(outside)
        (worktree.path / "to-file").symlink_to(outside / "precious/x.txt")
        os.link(outside / "precious/x.txt", worktree.path / "hard.log")
        before = content(outside)
        team.worktrees.remove("auth", discard=True)
        assert gone(team, worktree)
        assert content(outside) == before

    def test_a_worktree_in_use_is_refused(self, team: Team, worktree: Worktree) -> None:
        inside = worktree.path / "sub"
        process = subprocess.Popen(["sleep", "999"], cwd=inside)
        try:
            with pytest.raises(WorktreeRefused, match=rf"in use by sleep \({process.pid}\)"):
                team.worktrees.remove("auth", discard=True)
        finally:
            process.kill()
            process.wait()
        assert (worktree.path / "a.txt").exists()
        team.worktrees.remove("auth")

    def test_what_is_written_while_looking_is_not_lost(
        self, team: Team, worktree: Worktree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program that still has the folder open writes after the first look."""
        move = team.store.move

        def write_then_move(source: Path, target: Path) -> bool:
            if source == worktree.path:
                write(worktree.path, late_txt="written late")
            return move(source, target)

        monkeypatch.setattr(team.store, "move", write_then_move)
        with pytest.raises(WouldLose, match=r"late\.txt"):
            team.worktrees.remove("auth")
        assert (worktree.path / "late.txt").read_text() == "written late"
        assert team.worktrees.verify(team.worktrees.get("auth")) == worktree.path

    @pytest.mark.parametrize("where", [".", "worktrees", "worktrees/other", "sub", "/"])
    def test_only_the_recorded_place_is_removed(
        self, team: Team, worktree: Worktree, where: str
    ) -> None:
        other = team.worktrees.create("other", "task_2")
        team.worktrees.registry.change("auth", lambda r: replace(r, path=team.root / where))
        before = content(team.root / ".git/refs"), content(other.path)
        for discard in (False, True):
            with pytest.raises(WorktreeRefused, match=r"copied or moved|is not inside"):
                team.worktrees.remove("auth", discard)
        assert (content(team.root / ".git/refs"), content(other.path)) == before
        assert (team.root / "a.txt").exists()

    def test_a_link_in_its_place_is_refused(self, team: Team, worktree: Worktree) -> None:
        worktree.path.rename(team.root / "elsewhere")
        worktree.path.symlink_to(team.root)
        with pytest.raises(WorktreeRefused, match="is a link"):
            team.worktrees.remove("auth", discard=True)
        assert (team.root / "a.txt").exists()

    def test_a_folder_that_git_does_not_know_is_refused(
        self, team: Team, worktree: Worktree
    ) -> None:
        git(team.root, "worktree", "lock", str(worktree.path))
        shutil.rmtree(worktree.git_dir)
        with pytest.raises(WorktreeRefused, match="has not registered"):
            team.worktrees.remove("auth", discard=True)
        assert (worktree.path / "a.txt").exists()

    def test_a_checkout_inside_another_is_refused(self, team: Team, worktree: Worktree) -> None:
        git(worktree.path, "worktree", "add", "-q", "--detach", str(worktree.path / "inner"))
        with pytest.raises(WorktreeRefused, match="another checkout is inside"):
            team.worktrees.remove("auth", discard=True)
        assert (worktree.path / "inner/a.txt").exists()

    def test_an_unknown_name_is_refused(self, team: Team) -> None:
        write_at(team.root, "worktrees/mine/x", "precious")
        with pytest.raises(WorktreeRefused, match="no such worktree"):
            team.worktrees.remove("mine", discard=True)
        assert (team.root / "worktrees/mine/x").exists()

    def test_a_foreign_worktree_is_left_alone(self, team: Team, tmp_path: Path) -> None:
        git(team.root, "worktree", "add", "-q", "-b", "mine", str(tmp_path / "mine"))
        shutil.move(tmp_path / "mine", tmp_path / "on-a-stick")
        team.work("auth", a_txt="2")
        team.worktrees.remove("auth", discard=True)
        assert len(team.repository.checkouts()) == 2

    def test_cleaning_up_while_others_create(self, team: Team) -> None:
        before = content(team.root / "sub"), head(team.root)

        def round_of(number: int) -> None:
            for turn in range(2):
                name = f"w{number}-{turn}"
                worktree = team.worktrees.create(name, name)
                write(worktree.path, a_txt=name)
                team.worktrees.commit(worktree, "work")
                team.worktrees.remove(name, discard=True)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(round_of, range(4)))
        assert (content(team.root / "sub"), head(team.root)) == before
        assert len(team.worktrees.rescue_list()) == 8
        git(team.root, "fsck", "--strict")

    def test_one_team_does_not_touch_another_of_the_same_repository(
        self, team: Team, worktree: Worktree, tmp_path: Path
    ) -> None:
        git(team.root, "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
        other = Team(tmp_path / "side")
        with pytest.raises(WorktreeRefused, match="already a branch"):
            other.worktrees.create("auth", "task_1")
        other.worktrees.remove(other.worktrees.create("more", "task_2").name)
        assert team.worktrees.verify(worktree) == worktree.path


class TestInterrupted:
    def test_a_removal_before_the_point_of_no_return_is_undone(
        self, team: Team, worktree: Worktree
    ) -> None:
        write(worktree.path, new_txt="x")
        team.worktrees.registry.set_state("auth", REMOVING)
        worktree.path.rename(worktree.aside)
        assert team.worktrees.list() == []
        assert team.worktrees.recover() == []
        assert (worktree.path / "new.txt").read_text() == "x"
        assert team.worktrees.list() == [worktree]

    def test_a_folder_made_anew_meanwhile_is_not_mixed_with_the_old(
        self, team: Team, worktree: Worktree
    ) -> None:
        team.worktrees.registry.set_state("auth", REMOVING)
        worktree.path.rename(worktree.aside)
        write_at(worktree.path, "new.txt", "x")
        assert "was made anew" in team.worktrees.recover()[0]
        assert (worktree.aside / "a.txt").exists()
        shutil.move(worktree.path, team.root / "elsewhere")
        assert team.worktrees.recover() == []
        assert (worktree.path / "a.txt").exists()

    @pytest.mark.parametrize("done", [0, 1, 2, 3])
    def test_a_removal_after_it_is_finished(
        self, team: Team, worktree: Worktree, done: int
    ) -> None:
        team.worktrees.registry.set_state("auth", DROPPING, worktree.base)
        worktree.path.rename(worktree.aside)
        if done > 0:
            shutil.rmtree(worktree.git_dir)
        if done > 1:
            git(team.root, "branch", "-D", "team/auth")
        if done > 2:
            shutil.rmtree(worktree.aside)
        assert team.worktrees.recover() == []
        assert gone(team, worktree)

    def test_a_branch_that_moved_meanwhile_is_kept(self, team: Team, worktree: Worktree) -> None:
        team.worktrees.registry.set_state("auth", DROPPING, worktree.base)
        write(team.root, a_txt="2")
        moved = commit_all(team.root)
        git(team.root, "update-ref", "refs/heads/team/auth", moved)
        team.worktrees.recover()
        assert head(team.root, "team/auth") == moved
        assert head(team.root, BRANCH) == moved
