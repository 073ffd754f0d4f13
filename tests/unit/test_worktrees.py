from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from team_runtime.errors import LandingConflict, NameInvalid, RecordBroken, WorktreeRefused
from team_runtime.git.worktrees import Worktree
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


@pytest.fixture
def team(tmp_path: Path) -> Team:
    return Team(new_repository(tmp_path))


class TestCreate:
    def test_a_folder_a_branch_a_record_an_event(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        assert worktree.path == team.root / "worktrees/auth"
        assert (worktree.branch, worktree.target) == ("team/auth", BRANCH)
        assert worktree.base == head(team.root) == head(worktree.path, "team/auth")
        assert (worktree.path / "a.txt").read_text() == "a\n"
        assert team.worktrees.get("auth") == worktree
        assert team.worktrees.list() == [worktree]
        assert team.worktrees.verify(worktree) == worktree.path
        assert team.events == [
            {
                "kind": "worktree_created",
                "agent": None,
                "name": "auth",
                "task": "task_1",
                "base": worktree.base,
                "target": BRANCH,
            }
        ]
        assert not git(team.root, "status", "--porcelain")

    @pytest.mark.parametrize(
        "name",
        [
            *("", ".", "..", "-x", "a/b", "a b", "日本", "HEAD", "a.lock", "a.", "a..b", "a\n"),
            *("--force", "@", "@{0}", "a~1", "a^", "a:b", "a" * 300, "a\x1b[2J", "a\u202eb", "\0"),
        ],
    )
    def test_names_that_are_no_names(self, team: Team, name: str) -> None:
        """A name becomes a folder and a branch: git itself takes `refs/heads/-x`."""
        with pytest.raises(NameInvalid):
            team.worktrees.create(name, "task_1")
        assert not (team.root / "worktrees").exists()

    @pytest.mark.parametrize("name", ["A-b_c.d", "x", "9" * 64, "--a".strip("-")])
    def test_names_that_are_names(self, team: Team, name: str) -> None:
        assert team.worktrees.create(name, "task_1").path.is_dir()

    def test_a_stale_branch_is_not_reused(self, team: Team) -> None:
        git(team.root, "branch", "team/auth")
        with pytest.raises(WorktreeRefused, match="already a branch team/auth"):
            team.worktrees.create("auth", "task_1")
        assert not (team.root / "worktrees/auth").exists()
        assert team.worktrees.list() == []

    @pytest.mark.parametrize("kind", ["folder", "file", "dangling link"])
    def test_a_stale_folder_is_not_reused(self, team: Team, kind: str) -> None:
        place = team.root / "worktrees/auth"
        place.parent.mkdir()
        if kind == "folder":
            write_at(place, "dirty.txt", "precious")
        elif kind == "file":
            place.write_text("precious")
        else:
            place.symlink_to("nowhere")
        with pytest.raises(WorktreeRefused, match="is already there"):
            team.worktrees.create("auth", "task_1")
        assert os.path.lexists(place)
        assert not git(team.root, "branch", "--list", "team/auth")

    def test_a_taken_name_and_a_second_worktree_for_a_task(self, team: Team) -> None:
        team.worktrees.create("auth", "task_1")
        with pytest.raises(WorktreeRefused, match="taken by task_1"):
            team.worktrees.create("auth", "task_2")
        with pytest.raises(WorktreeRefused, match="task_1 already has worktree 'auth'"):
            team.worktrees.create("other", "task_1")

    def test_a_folder_that_git_has_registered_elsewhere(self, team: Team) -> None:
        place = team.root / "worktrees/auth"
        git(team.root, "worktree", "add", "-q", "--detach", str(place))
        place.rename(team.root / "moved")
        with pytest.raises(WorktreeRefused, match="registered already"):
            team.worktrees.create("auth", "task_1")

    def test_a_branch_named_team_leaves_no_room(self, team: Team) -> None:
        git(team.root, "branch", "team")
        with pytest.raises(WorktreeRefused, match="no room"):
            team.worktrees.create("auth", "task_1")

    def test_a_linked_worktrees_folder_is_refused(self, team: Team, tmp_path: Path) -> None:
        """Claude Code's changelog: its folder of worktrees was a link to another one."""
        outside = tmp_path / "outside"
        outside.mkdir()
        (team.root / "worktrees").symlink_to(outside)
        with pytest.raises(WorktreeRefused, match="is a link"):
            team.worktrees.create("auth", "task_1")
        assert list(outside.iterdir()) == []

    def test_a_detached_head_needs_a_target(self, team: Team) -> None:
        git(team.root, "checkout", "-q", "--detach")
        with pytest.raises(WorktreeRefused, match=r"detached.*--onto"):
            team.worktrees.create("auth", "task_1")
        assert team.worktrees.create("auth", "task_1", onto=BRANCH).target == BRANCH

    def test_start_and_target_can_be_named(self, team: Team) -> None:
        first = head(team.root)
        write(team.root, a_txt="2")
        commit_all(team.root)
        git(team.root, "branch", "release")
        worktree = team.worktrees.create("auth", "task_1", start=first, onto="release")
        assert (worktree.base, worktree.target) == (first, "release")
        for start, onto in (("no-such", None), ("--help", None), (None, "no-such")):
            with pytest.raises(WorktreeRefused, match="there is no"):
                team.worktrees.create("other", "task_2", start=start, onto=onto)

    def test_a_failure_of_git_leaves_nothing(self, team: Team) -> None:
        team = Team(team.root, trusts=lambda found: True)
        write(team.root, x_txt="x")
        write_at(team.root, ".gitattributes", "x.txt filter=broken\n")
        commit_all(team.root)
        git(team.root, "config", "filter.broken.smudge", "false")
        git(team.root, "config", "filter.broken.required", "true")
        with pytest.raises(Exception, match="smudge filter broken failed"):
            team.worktrees.create("auth", "task_1")
        assert team.worktrees.list() == []
        assert not git(team.root, "branch", "--list", "team/auth")
        assert not (team.root / "worktrees/auth").exists()
        git(team.root, "config", "filter.broken.smudge", "cat")
        assert team.worktrees.create("auth", "task_1").path.is_dir()

    def test_no_hook_of_the_repository_runs(self, team: Team) -> None:
        for hook in ("post-checkout", "pre-commit", "prepare-commit-msg", "post-merge"):
            place = team.root / ".git/hooks" / hook
            place.parent.mkdir(exist_ok=True)
            place.write_text("#!/bin/sh\ntouch ran; exit 1\n")
            place.chmod(0o755)
        team.work("auth", a_txt="2")
        team.landing.land("auth")
        assert not list(team.root.rglob("ran"))

    def test_eight_at_once_from_threads(self, team: Team) -> None:
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda n: team.worktrees.create(f"w{n}", f"task_{n}"), range(8)))
        assert [team.worktrees.verify(worktree) for worktree in made] == [w.path for w in made]
        assert len(git(team.root, "branch", "--list", "team/*").splitlines()) == 8

    def test_eight_at_once_from_processes(self, team: Team) -> None:
        code = (
            "import sys; from pathlib import Path; from tests.support.repositories import Team\n"
            "Team(Path(sys.argv[1])).worktrees.create(sys.argv[2], 'task_' + sys.argv[2])"
        )
        running = [
            subprocess.Popen([sys.executable, "-c", code, str(team.root), f"w{n}"], cwd=Path.cwd())
            for n in range(8)
        ]
        assert [process.wait() for process in running] == [0] * 8
        assert len(team.worktrees.list()) == 8

    def test_one_name_wanted_by_eight_is_given_once(self, team: Team) -> None:
        def create(number: int) -> bool:
            try:
                team.worktrees.create("auth", f"task_{number}")
            except WorktreeRefused:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(create, range(8))) == 1


class TestVerify:
    @pytest.fixture
    def worktree(self, team: Team) -> Worktree:
        return team.worktrees.create("auth", "task_1")

    def refused(self, team: Team, worktree: Worktree, cause: str) -> None:
        with pytest.raises(WorktreeRefused, match=cause):
            team.worktrees.verify(worktree)
        with pytest.raises(WorktreeRefused, match=cause):
            team.worktrees.commit(worktree, "work")

    def test_a_folder_that_is_gone(self, team: Team, worktree: Worktree) -> None:
        worktree.path.rename(team.root / "elsewhere")
        self.refused(team, worktree, "is gone")
        worktree.path.symlink_to(team.root / "elsewhere")
        self.refused(team, worktree, "is gone")

    def test_another_branch_or_none(self, team: Team, worktree: Worktree) -> None:
        git(worktree.path, "checkout", "-q", "-b", "mine")
        self.refused(team, worktree, "team/auth is not checked out")
        git(worktree.path, "checkout", "-q", "--detach")
        self.refused(team, worktree, "team/auth is not checked out")

    def test_a_worktree_that_git_has_lost(self, team: Team, worktree: Worktree) -> None:
        (worktree.git_dir / "gitdir").write_text("/elsewhere/.git\n")
        self.refused(team, worktree, "git has lost it")

    def test_an_unknown_worktree_lists_the_known(self, team: Team, worktree: Worktree) -> None:
        with pytest.raises(WorktreeRefused, match=r"no such worktree\. Worktrees: auth"):
            team.worktrees.get("other")

    def test_two_worktrees_do_not_share_a_branch(self, team: Team, worktree: Worktree) -> None:
        other = team.worktrees.create("billing", "task_2")
        for each in (worktree, other):
            write(each.path, a_txt=each.name)
            assert team.worktrees.commit(each, "work", each.name) == head(each.path)
            assert git(each.path, "rev-parse", "--show-toplevel") == f"{each.path}\n"
            assert git(team.root, "show", f"team/{each.name}:a.txt") == each.name
        assert (team.root / "a.txt").read_text() == "a\n"


class TestRecord:
    def test_unknown_fields_survive_a_rewrite(self, team: Team) -> None:
        team.work("auth", a_txt="2")
        record = team.root / ".team/worktrees/auth.json"
        record.write_text(record.read_text().replace('"v": 1', '"note": "mine", "v": 1'))
        team.landing.land("auth")
        assert '"note": "mine"' in record.read_text()

    def test_a_broken_record_does_not_block_the_others(self, team: Team) -> None:
        team.worktrees.create("auth", "task_1")
        team.worktrees.create("billing", "task_2")
        (team.root / ".team/worktrees/auth.json").write_text("{")
        with pytest.raises(RecordBroken):
            team.worktrees.get("auth")
        assert [worktree.name for worktree in team.worktrees.list()] == ["billing"]
        assert any((team.root / ".team/quarantine").iterdir())


class TestCommit:
    def test_everything_but_ignored_files(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        write(worktree.path, a_txt="2", b_txt=None, new__x_txt="x", x_log="ignored")
        (worktree.path / "日本 -.txt").write_text("n")
        before = team.worktrees.status(worktree)
        assert set(before.untracked) == {"new/x.txt", "日本 -.txt"}
        assert not team.worktrees.is_clean(worktree)
        tip = team.worktrees.commit(worktree, "Add things\n\n# kept\n", "auth")
        assert team.worktrees.is_clean(worktree)
        shown = git(
            worktree.path, "-c", "core.quotePath=0", "show", "--name-status", "--format=%B", tip
        )
        message, _, changes = shown.partition("\n\nM")
        assert message == "Add things\n\n# kept\n\nTask: task_1\nAgent: auth\n"
        assert changes == "\ta.txt\nD\tb.txt\nA\tnew/x.txt\nA\t日本 -.txt\n"
        assert sorted(team.worktrees.changed_files(worktree)) == sorted(
            ["a.txt", "b.txt", "new/x.txt", "日本 -.txt"]
        )

    def test_files_folders_and_links_in_each_others_place(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        path = worktree.path
        write(path, a_txt=None, sub__c_txt=None, dir__x="x")
        write_at(path, "a.txt/inside", "a folder now")
        (path / "sub").rmdir()
        (path / "sub").symlink_to(path / "a.txt")
        write_at(path, "sub/c.txt", "behind a link")
        (path / "b.txt").chmod(0o755)
        git(path, "add", "dir/x")
        (path / "dir/x").unlink()
        tip = team.worktrees.commit(worktree, "work")
        assert team.worktrees.is_clean(worktree)
        listed = git(path, "ls-tree", "-r", tip).replace("\t", " ").splitlines()
        assert [f"{line.split()[0]} {line.split()[3]}" for line in listed] == [
            "100644 .gitignore",
            "100644 a.txt/c.txt",
            "100644 a.txt/inside",
            "100755 b.txt",
            "120000 sub",
        ]

    def test_a_conflict_that_the_agent_settled_is_committed(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="mine", b_txt=None)
        write(team.root, a_txt="theirs", b_txt="theirs")
        commit_all(team.root)
        with pytest.raises(subprocess.CalledProcessError):
            git(worktree.path, "merge", "-q", BRANCH)
        write(worktree.path, a_txt="both")
        tip = team.worktrees.commit(worktree, "Settle it", "auth")
        assert git(worktree.path, "show", f"{tip}:a.txt") == "both"
        assert git(worktree.path, "show", f"{tip}:b.txt") == "theirs"
        assert team.worktrees.is_clean(worktree)
        team.landing.land("auth")

    def test_a_submodule_that_moved_on_is_committed(self, team: Team, tmp_path: Path) -> None:
        other = new_repository(tmp_path, "other")
        allow = ("-c", "protocol.file.allow=always")
        git(team.root, *allow, "submodule", "--quiet", "add", str(other), "mod")
        commit_all(team.root, "With a submodule")
        worktree = team.worktrees.create("auth", "task_1")
        git(worktree.path, *allow, "submodule", "--quiet", "update", "--init")
        write(worktree.path / "mod", a_txt="2")
        moved = commit_all(worktree.path / "mod")
        tip = team.worktrees.commit(worktree, "Move the submodule on")
        assert moved in git(worktree.path, "ls-tree", tip, "mod")

    def test_nothing_to_commit_and_the_agents_own_commit(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        assert team.worktrees.commit(worktree, "nothing") == worktree.base
        write(worktree.path, a_txt="2")
        own = commit_all(worktree.path, "By the agent itself")
        assert team.worktrees.commit(worktree, "nothing") == own
        (worktree.path / "a.txt").touch()
        assert team.worktrees.commit(worktree, "nothing") == own

    def test_a_merge_that_the_agent_began_is_concluded(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="2")
        write(team.root, b_txt="2")
        theirs = commit_all(team.root)
        git(worktree.path, "merge", "-q", "--no-commit", "--no-ff", BRANCH)
        tip = team.worktrees.commit(worktree, "Merge", "auth")
        assert theirs in git(worktree.path, "show", "-s", "--format=%P", tip).split()

    @pytest.mark.parametrize("configured", [False, True])
    def test_who_commits(self, team: Team, configured: bool) -> None:
        committer = "team_runtime <team@localhost>"
        if configured:
            git(team.root, "config", "user.name", "Ö $(touch x)")
            git(team.root, "config", "user.email", "o@example.org")
            committer = "Ö $(touch x) <o@example.org>"
        worktree = team.work("auth", a_txt="2")
        shown = git(worktree.path, "show", "-s", "--format=%cn <%ce>%n%an <%ae>")
        email = committer.partition(" <")[2]
        assert shown == f"{committer}\nauth (team) <{email}\n"

    def test_a_trailer_is_not_said_twice(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        write(worktree.path, a_txt="2")
        team.worktrees.commit(worktree, "Work\n\nTask: task_1", "auth")
        shown = git(worktree.path, "show", "-s", "--format=%B")
        assert shown == "Work\n\nTask: task_1\nAgent: auth\n\n"

    def test_a_repository_inside_is_not_made_a_mere_name(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        git(worktree.path, "init", "-q", "cloned")
        write(worktree.path, cloned__x_txt="x", a_txt="2")
        team.worktrees.commit(worktree, "work")
        assert team.worktrees.status(worktree).untracked == ("cloned/",)
        assert team.worktrees.losses("auth").nested == ("cloned/",)

    def test_a_diff_shows_committed_and_uncommitted_work(self, team: Team) -> None:
        worktree = team.work("auth", a_txt="committed\n")
        write(worktree.path, b_txt="modified\n", new_txt="untracked\n")
        index = (worktree.git_dir / "index").read_bytes()
        shown = team.worktrees.diff(worktree)
        assert {"+committed", "+modified", "+untracked"} <= set(shown.splitlines())
        assert (worktree.git_dir / "index").read_bytes() == index


class TestRefreshBase:
    def test_an_untouched_worktree_follows_its_target(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        write(team.root, a_txt="2", new_txt="n")
        tip = commit_all(team.root)
        assert team.worktrees.refresh_base(worktree) == tip
        assert team.worktrees.get("auth").base == tip == head(worktree.path)
        assert (worktree.path / "new.txt").read_text() == "n"
        assert team.worktrees.is_clean(worktree)
        assert not team.worktrees.losses("auth")

    def test_work_that_was_begun_stays_on_its_base(self, team: Team) -> None:
        committed = team.work("auth", a_txt="mine")
        uncommitted = team.worktrees.create("billing", "task_2")
        write(uncommitted.path, new_txt="mine")
        write(team.root, b_txt="2")
        commit_all(team.root)
        for worktree in (committed, uncommitted):
            before = head(worktree.path)
            assert team.worktrees.refresh_base(worktree) == worktree.base
            assert head(worktree.path) == before
        assert (uncommitted.path / "new.txt").read_text() == "mine"

    def test_a_dependant_starts_with_the_code_of_its_blockers(self, team: Team) -> None:
        first = team.work("first", one_txt="1")
        second = team.work("second", two_txt="2")
        worktree = team.worktrees.create("third", "task_3")
        commits = [head(first.path), head(second.path)]
        base = team.worktrees.refresh_base(worktree, commits)
        assert {"one.txt", "two.txt"} <= {path.name for path in worktree.path.iterdir()}
        assert head(worktree.path) == base == team.worktrees.get("third").base
        assert not team.worktrees.losses("third")
        assert team.worktrees.changed_files(team.worktrees.get("third")) == []

    def test_a_blocker_that_landed_needs_no_merge(self, team: Team) -> None:
        team.work("first", one_txt="1")
        landed = team.landing.land("first")
        worktree = team.worktrees.create("second", "task_2", start=f"{landed.merge}^")
        assert team.worktrees.refresh_base(worktree, [landed.commit]) == landed.merge

    def test_blockers_that_contradict_each_other(self, team: Team) -> None:
        commits = [head(team.work(name, a_txt=name).path) for name in ("first", "second")]
        worktree = team.worktrees.create("third", "task_3")
        with pytest.raises(LandingConflict, match=r"a\.txt"):
            team.worktrees.refresh_base(worktree, commits)
        assert head(worktree.path) == worktree.base == team.worktrees.get("third").base

    def test_work_begun_without_a_blocker_is_refused(self, team: Team) -> None:
        commit = head(team.work("first", one_txt="1").path)
        worktree = team.work("second", two_txt="2")
        with pytest.raises(WorktreeRefused, match="begun without"):
            team.worktrees.refresh_base(worktree, [commit])

    def test_an_ignored_file_is_never_overwritten(self, team: Team) -> None:
        worktree = team.worktrees.create("auth", "task_1")
        write(worktree.path, x_log="mine")
        write(team.root, x_log="theirs")
        git(team.root, "add", "-f", "x.log")
        commit_all(team.root)
        assert team.worktrees.refresh_base(worktree) == worktree.base
        assert (worktree.path / "x.log").read_text() == "mine"
        assert team.worktrees.get("auth").base == worktree.base

    def test_a_target_or_commit_that_is_gone(self, team: Team) -> None:
        git(team.root, "branch", "release")
        worktree = team.worktrees.create("auth", "task_1", onto="release")
        with pytest.raises(WorktreeRefused, match="no commit ffff"):
            team.worktrees.refresh_base(worktree, ["f" * 40])
        git(team.root, "branch", "-D", "release")
        with pytest.raises(WorktreeRefused, match="target branch release is gone"):
            team.worktrees.refresh_base(worktree)


def test_nothing_is_read_from_the_environment_of_the_caller(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "nobody")
    assert "GIT_DIR" not in ENV
    worktree = team.work("auth", a_txt="2")
    assert git(worktree.path, "show", "-s", "--format=%an") == "auth (team)\n"
