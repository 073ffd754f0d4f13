"""What the commands of a workspace can reach: the rules that the runtime gives to the sandbox."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from team_runtime.app.confinement import Confining
from team_runtime.process.base import Command, Completed
from team_runtime.process.hidden import IN_CONFIG, IN_HOME, hidden_places, shown_places
from team_runtime.process.run import BlockingRunner
from team_runtime.store.layout import Layout
from tests.support.confined import PATH, SECRET, Grounds, bubblewrap, make_grounds


@pytest.fixture
def grounds(tmp_path: Path) -> Grounds:
    grounds = make_grounds(tmp_path)
    Layout(grounds.main).prepare()
    Layout(grounds.main).tasks.mkdir()
    return grounds


def confining(grounds: Grounds) -> Confining:
    environ = {"HOME": str(grounds.home), "PATH": PATH}
    return Confining(bubblewrap(), Layout(grounds.main), environ, grounds.git)


def sh(
    grounds: Grounds,
    script: str,
    folder: Path,
    changes: bool = True,
    during: Confining | None = None,
) -> Completed:
    """A command in `folder`, with the policy that the runtime makes for it in a run."""
    policies = during or confining(grounds)
    command = Command(["sh", "-c", script], folder, policies.environ, 30, merge=True)
    return BlockingRunner().run(policies.confine(command, changes))


def test_a_task_in_a_worktree_changes_that_worktree_alone(grounds: Grounds) -> None:
    (grounds.main / "worktrees" / "other").mkdir()
    script = """
        echo x > file
        echo x > ../other/file; echo x > ../new; echo x > ../../file; echo x > ../../.tasks/file
        echo x > ../../.team/file; echo x > .git; echo x > ../../.git/config; echo x > "$HOME/file"
        git status --porcelain; ls ..
    """
    ended = sh(grounds, script, grounds.worktree)
    assert ended.stdout.endswith(b"?? file\nparser\n"), ended.stdout
    changed = {path for path in grounds.root.rglob("*") if path.is_file()
               if path.read_bytes() == b"x\n"}  # fmt: skip
    assert changed == {grounds.worktree / "file"}


def test_a_task_in_the_main_checkout_changes_none_of_the_runtimes_files(grounds: Grounds) -> None:
    script = """
        echo x > file
        for f in .tasks .team worktrees .git worktrees/parser; do echo x > $f/file; done
        mv .tasks a; mv .team b; mv worktrees c; mv .git d; rm -rf .git .tasks .team worktrees
        ls -A
    """
    ended = sh(grounds, script, grounds.main)
    assert ended.stdout.split()[-5:] == [b".git", b".tasks", b".team", b"file", b"worktrees"]
    changed = {path for path in grounds.main.rglob("*") if path.is_file()
               if path.read_bytes() == b"x\n"}  # fmt: skip
    assert changed == {grounds.main / "file"}
    assert (grounds.main / ".team" / "mail").read_text() == SECRET


@pytest.mark.parametrize("in_main", [True, False])
def test_an_agent_that_may_change_nothing_changes_nothing(grounds: Grounds, in_main: bool) -> None:
    folder = grounds.main if in_main else grounds.worktree
    ended = sh(grounds, "touch file && echo done", folder, changes=False)
    assert ended.status != 0
    assert not (folder / "file").exists()


def test_mail_and_conversations_are_hidden_and_what_was_spilled_is_not(grounds: Grounds) -> None:
    (grounds.main / ".team" / "spill").mkdir()
    (grounds.main / ".team" / "spill" / "output").write_text("long")
    ended = sh(grounds, "ls -A ../../.team; cat ../../.team/spill/output", grounds.worktree)
    assert ended.stdout == b"spill\nlong"


def test_a_scratch_checkout_in_the_runtimes_folder_can_be_changed(grounds: Grounds) -> None:
    scratch = grounds.main / ".team" / "check-1"
    scratch.mkdir()
    (scratch / ".git").write_text("gitdir: elsewhere\n")
    ended = sh(grounds, "echo x > file; echo x > .git; ls -A ..", scratch)
    assert ended.stdout.endswith(b"check-1\n")
    assert (scratch / "file").read_text() == "x\n"
    assert (scratch / ".git").read_text() == "gitdir: elsewhere\n"


def test_no_secret_of_a_home_is_read(grounds: Grounds) -> None:
    places = [grounds.home / name for name in IN_HOME]
    places += [grounds.home / ".config" / name for name in IN_CONFIG]
    for place in places:
        if not place.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(SECRET)
    ended = sh(grounds, f'grep -r {SECRET} "$HOME" "$HOME"/.ssh ../..; echo', grounds.worktree)
    assert SECRET.encode() not in ended.stdout


def test_a_secret_that_appears_during_a_run_is_hidden_too(grounds: Grounds) -> None:
    run = confining(grounds)
    look = f'grep -rs {SECRET} "$HOME" ../../elsewhere; cat "$HOME/.kube/config"; echo looked'
    assert sh(grounds, look, grounds.worktree, during=run).stdout.endswith(b"looked\n")
    home, elsewhere = grounds.home, grounds.main / "elsewhere"
    for place in (home / ".git-credentials", home / ".config" / "gh" / "hosts.yml",
                  home / ".cargo" / "credentials", elsewhere / "config"):  # fmt: skip
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(SECRET)
    (home / ".kube").symlink_to(elsewhere)
    ended = sh(grounds, look, grounds.worktree, during=run)
    assert ended.stdout.endswith(b"looked\n")
    assert SECRET.encode() not in ended.stdout


def test_secrets_are_hidden_where_variables_say_they_are() -> None:
    environ = {"KUBECONFIG": "/srv/kube", "SSH_AUTH_SOCK": "/tmp/agent/s", "GNUPGHOME": "relative",
               "XDG_RUNTIME_DIR": "/run/user/7", "NETRC": "/", "PATH": PATH}  # fmt: skip
    hidden = hidden_places(environ)
    assert {Path("/srv/kube"), Path("/tmp/agent/s"), Path("/run"), Path("/run/user/7")} <= {*hidden}
    assert not {Path("relative"), Path("/")} & {*hidden}


def test_programs_stay_visible_wherever_they_are() -> None:
    shown = shown_places({"PATH": f"/tmp/env/bin:/tmp/bin:rel:/usr/bin:{PATH}"}, network=False)
    assert {Path("/tmp/env"), Path("/tmp/bin"), Path(sys.prefix)} <= {*shown}
    assert not {Path("/tmp"), Path("/"), Path("rel")} & {*shown}
    assert Path("/run") not in hidden_places({"PATH": "/run/current-system/sw/bin"})
