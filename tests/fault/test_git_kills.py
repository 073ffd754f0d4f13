"""Kill -9 in the middle of git: a filter that waits on a pipe holds it where we want it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from team_runtime.errors import WorktreeRefused, WouldLose
from team_runtime.process.usage import git_in, users_of
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

pytestmark = pytest.mark.slow


class Held:
    """A call on a `Team` in a process of its own, which git cannot finish."""

    def __init__(self, root: Path, code: str) -> None:
        self.root = root
        self.reached = root.parent / "reached"
        prelude = (
            "import sys; from pathlib import Path\n"
            "from tests.support.repositories import ENV, Team\n"
            "ENV['GIT_CONFIG_GLOBAL'] = sys.argv[2]; team = Team(Path(sys.argv[1]))\n"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + code, str(root), ENV["GIT_CONFIG_GLOBAL"]],
            cwd=Path.cwd(),
        )
        self.filter = self._filter()

    def _filter(self) -> int:
        """The process in which git waits."""
        pipe = os.open(self.reached, os.O_RDONLY | os.O_NONBLOCK)
        try:
            while self.process.poll() is None:
                with contextlib.suppress(BlockingIOError):
                    if told := os.read(pipe, 20):
                        return int(told)
                time.sleep(0.01)
        finally:
            os.close(pipe)
        raise AssertionError(f"it ended with {self.process.returncode} and was not held")

    def kill_ours(self) -> None:
        self.process.kill()
        self.process.wait()

    def let_git_finish(self) -> None:
        (self.root.parent / "go").write_text("go\n")
        while git_in(self.root):
            time.sleep(0.01)

    def kill_git(self) -> None:
        os.killpg(os.getpgid(self.filter), signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):  # it may go between two steps of a look
            while Path(f"/proc/{self.filter}/exe").exists():
                time.sleep(0.01)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository, and a user's own git settings, which alone may name filters."""
    monkeypatch.setitem(ENV, "GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    root = new_repository(tmp_path)
    for name in ("reached", "go"):
        os.mkfifo(tmp_path / name)
    write_at(root, ".gitattributes", "m*.txt filter=held\n")
    commit_all(root)
    yield root
    for user in users_of(root):
        os.kill(user.pid, signal.SIGKILL)


def hold(root: Path) -> None:
    """Let git wait when it comes to write a file `m*.txt`."""
    folder = root.parent
    script = f'sh -c \'echo $$ > "{folder}/reached"; read x < "{folder}/go"; exec cat\''
    git(root, "config", "--file", ENV["GIT_CONFIG_GLOBAL"], "filter.held.smudge", script)


def let_go(root: Path) -> None:
    git(root, "config", "--file", ENV["GIT_CONFIG_GLOBAL"], "filter.held.smudge", "cat")


class TestCreation:
    @pytest.fixture
    def held(self, root: Path) -> Held:
        let_go(root)
        write(root, m_txt="middle\n" * 1000, z_txt="last")
        commit_all(root)
        hold(root)
        return Held(root, "team.worktrees.create('auth', 'task_1')")

    def test_what_was_left_is_removed_and_the_name_is_free(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        team = Team(root)
        assert (root / "worktrees/auth/a.txt").exists()
        assert team.worktrees.list() == []
        worktree = team.worktrees.create("auth", "task_2")
        assert (worktree.path / "z.txt").read_text() == "last"
        assert team.worktrees.verify(worktree) == worktree.path

    @pytest.mark.parametrize("files", [(), ("mine.txt",)])
    def test_before_git_had_set_its_head(
        self, root: Path, held: Held, files: tuple[str, ...]
    ) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        worktree, admin = root / "worktrees/auth", root / ".git/worktrees/auth"
        for path in worktree.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != ".git":
                path.unlink()
        (admin / "index").unlink(missing_ok=True)
        (admin / "HEAD").write_text("0" * 40 + "\n")
        (admin / "HEAD.lock").touch()
        for name in files:
            (worktree / name).write_text("mine")
        left = Team(root).worktrees.recover()
        assert [text for text in left if not all(name in text for name in files)] == []
        assert bool(left) == bool(files)
        assert worktree.exists() == bool(files)
        assert bool(git(root, "branch", "--list", "team/auth")) == bool(files)
        if files:
            rescued = Team(root).worktrees.remove("auth", discard=True).rescued
            assert rescued
            Team(root).worktrees.rescue_restore(rescued.ref, root.parent / "restored")
            assert (root.parent / "restored" / "mine.txt").read_text() == "mine"

    def test_a_torn_file_is_nobodys_work(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        (root / "worktrees/auth/m.txt").write_text("middle\nmid")
        assert Team(root).worktrees.recover() == []
        assert not (root / "worktrees/auth").exists()
        assert not git(root, "branch", "--list", "team/auth")

    @pytest.mark.parametrize("path", ["mine.txt", "a.txt", "x.log"])
    def test_a_users_file_stays_and_is_reported(self, root: Path, held: Held, path: str) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        write_at(root / "worktrees/auth", path, "precious")
        team = Team(root)
        assert path in team.worktrees.recover()[0]
        with pytest.raises(WorktreeRefused, match="was interrupted"):
            team.worktrees.create("auth", "task_1")
        assert (root / "worktrees/auth" / path).read_text() == "precious"
        with pytest.raises(WouldLose, match=path):
            team.worktrees.remove("auth")
        rescued = team.worktrees.remove("auth", discard=True).rescued
        assert rescued
        team.worktrees.rescue_restore(rescued.ref, root.parent / "restored")
        assert (root.parent / "restored" / path).read_text() == "precious"
        assert team.worktrees.create("auth", "task_1").path.is_dir()

    def test_a_commit_on_its_branch_stays_and_is_reported(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        tip = git(root, "commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "work").strip()
        git(root, "update-ref", "refs/heads/team/auth", tip)
        assert "commits on team/auth" in Team(root).worktrees.recover()[0]
        assert head(root, "team/auth") == tip

    def test_a_git_that_lives_on_is_not_disturbed(self, root: Path, held: Held) -> None:
        held.kill_ours()
        assert git_in(root / "worktrees/auth")
        team = Team(root)
        with pytest.raises(WorktreeRefused, match="in use by"):
            team.worktrees.create("auth", "task_1")
        held.kill_git()
        let_go(root)
        team.worktrees.create("auth", "task_1")


class TestLanding:
    @pytest.fixture
    def held(self, root: Path) -> Held:
        team = Team(root)
        let_go(root)
        worktree = team.work("auth", a_txt="new", b_txt=None, aa__n_txt="n", m_txt="m", z_txt="z")
        assert head(worktree.path)
        hold(root)
        write(root, own_txt="uncommitted")
        write_at(root, "sub/c.txt", "uncommitted too")
        git(root, "add", "own.txt")
        return Held(root, "team.landing.land('auth')")

    def test_the_checkout_is_put_back(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        assert (root / "a.txt").read_text() == "new"
        assert (root / ".git/index.lock").exists()
        team = Team(root)
        assert list(team.landing.recover()) == []
        assert git(root, "status", "--porcelain") == "A  own.txt\n M sub/c.txt\n"
        assert (root / "own.txt").read_text() == "uncommitted"
        assert not (root / "aa").exists()
        assert not (root / ".team/landing.json").exists()
        team.landing.land("auth")
        assert (root / "z.txt").read_text() == "z"
        assert git(root, "status", "--porcelain") == "A  own.txt\n M sub/c.txt\n"

    def test_what_the_user_edited_since_stays(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        write(root, a_txt="edited since")
        left = Team(root).landing.recover()
        assert "a.txt" in left[0]
        assert (root / "a.txt").read_text() == "edited since"
        assert git(root, "status", "--porcelain") == " M a.txt\nA  own.txt\n M sub/c.txt\n"

    @pytest.mark.parametrize("how", ["commit", "switch"])
    def test_a_user_who_went_on_is_not_disturbed(self, root: Path, held: Held, how: str) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        (root / ".git/index.lock").unlink()
        if how == "commit":
            commit_all(root, "Whatever there was")
        else:
            git(root, "switch", "-q", "-c", "side")
        before = git(root, "status", "--porcelain"), (root / "a.txt").read_text()
        assert "has moved on" in Team(root).landing.recover()[0]
        assert (git(root, "status", "--porcelain"), (root / "a.txt").read_text()) == before

    def test_the_next_landing_recovers_first(self, root: Path, held: Held) -> None:
        held.kill_ours()
        held.kill_git()
        let_go(root)
        landed = Team(root).landing.land("auth")
        assert head(root) == landed.merge
        assert git(root, "status", "--porcelain") == "A  own.txt\n M sub/c.txt\n"

    def test_a_landing_that_was_done_but_not_recorded(self, root: Path, held: Held) -> None:
        held.kill_ours()
        team = Team(root)
        with ThreadPoolExecutor() as pool:
            recovered = pool.submit(team.landing.recover)  # waits for that git
            held.let_git_finish()
            assert list(recovered.result()) == []
        assert [one.merge for one in team.worktrees.get("auth").landed] == [head(root)]
        assert team.kinds() == ["worktree_landed"]


def test_locks_that_a_killed_git_left_are_removed(tmp_path: Path) -> None:
    team = Team(new_repository(tmp_path))
    worktree = team.work("auth", a_txt="2")
    common = worktree.common_dir
    left = [worktree.git_dir / "index.lock", worktree.git_dir / "HEAD.lock"]
    left += [common / "refs/heads/team/auth.lock", common / f"refs/heads/{BRANCH}.lock"]
    users = team.root / ".git/index.lock"
    for lock in (*left, users):
        lock.write_text("")
    program = subprocess.Popen(["git", "cat-file", "--batch"], cwd=team.root, stdin=subprocess.PIPE)
    team.worktrees.recover()
    assert all(lock.exists() for lock in left)  # git is at work: they may be its own
    program.communicate(b"")
    team.worktrees.recover()
    assert [lock for lock in left if lock.exists()] == []
    assert users.exists()  # not ours
    users.unlink()
    write(worktree.path, b_txt="2")
    team.worktrees.commit(worktree, "more")
    team.landing.land("auth")


LIFE = """
import time
for number in range(10**6):
    name = f"w{time.time_ns()}"
    worktree = team.worktrees.create(name, name)
    print("made", name, flush=True)
    (worktree.path / f"{name}.txt").write_text(name)
    team.worktrees.commit(worktree, "work", "alice")
    print("kept", name, flush=True)
    if number % 3:
        team.landing.land(name)
    (worktree.path / f"{name}.late").write_text(name)
    if number % 2:
        team.worktrees.remove(name, discard=True)
"""


def run_and_kill(root: Path, seconds: float) -> list[str]:
    """Let a process make, land and remove worktrees, and kill it and its git after `seconds` of
    that. Returns the names of those whose work was committed."""
    prelude = (
        "import sys; from pathlib import Path; from tests.support.repositories import Team\n"
        "team = Team(Path(sys.argv[1])); team.worktrees.recover(); team.landing.recover()\n"
        "print('ready', flush=True)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", prelude + LIFE, str(root)],
        cwd=Path.cwd(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    time.sleep(seconds)
    process.kill()
    for user in users_of(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(user.pid, signal.SIGKILL)
    said = process.communicate()[0]
    while users_of(root):
        time.sleep(0.01)
    return [line.split()[1] for line in said.splitlines() if line.startswith("kept")]


def is_kept(team: Team, name: str) -> bool:
    """Whether the committed work of `name` is in the target, on its branch or rescued."""
    refs = [BRANCH, f"team/{name}", *(r.ref for r in team.worktrees.rescue_list() if name in r.ref)]
    return any(
        f"{name}.txt" in git(team.root, "ls-tree", "--name-only", ref).split()
        for ref in refs
        if team.repository.tip(ref)
    )


@pytest.mark.fault
@pytest.mark.timeout(300)
def test_killed_at_any_moment_nothing_is_lost(tmp_path: Path) -> None:
    root = new_repository(tmp_path)
    write(root, own_txt="uncommitted", a_txt="uncommitted too")
    dirty = git(root, "status", "--porcelain")
    moments, names = random.Random(7), []
    for _ in range(60):
        names += run_and_kill(root, moments.uniform(0.0, 0.4))
        team = Team(root)
        assert list(team.worktrees.recover()) == []
        assert list(team.landing.recover()) == []
        assert git(root, "status", "--porcelain") == dirty
        assert (root / "own.txt").read_text() == "uncommitted"
        assert [name for name in names if not is_kept(team, name)] == []
        known = {worktree.name for worktree in team.worktrees.list()}
        assert {path.name for path in (root / "worktrees").iterdir()} == known
        for worktree in team.worktrees.list():
            team.worktrees.verify(worktree)
            team.worktrees.remove(worktree.name, discard=True)
        assert len(team.repository.checkouts()) == 1
    assert names
    git(root, "fsck", "--strict")
