"""The sandbox in a run: whose commands it holds, what it is set by, and that it is always shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from team_runtime.config import load
from team_runtime.errors import CheckFailed, InputError, SandboxMissing
from team_runtime.process import detection
from tests.support.api import Seen, git, team, team_environment
from tests.support.confined import bubblewrap
from tests.support.kills import PROJECT
from tests.support.scripted_team import (
    Ran,
    bound_task,
    call,
    complete,
    make_repository,
    run_team,
    spawn,
    write,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    bubblewrap()
    return make_repository(tmp_path / "my repo")


def bash(command: str) -> dict[str, Any]:
    return call("bash", command=command)


def lead(seen: Seen) -> Iterator[Any]:
    yield bound_task()
    yield [spawn("anna", task_id="task_1")]
    yield "I wait."
    yield "It is done."


def running(*commands: str) -> dict[str, Any]:
    """A team whose teammate runs these and completes its task."""

    def anna(seen: Seen) -> Iterator[Any]:
        yield [bash(command) for command in commands]
        yield [complete()]
        yield "Done."

    return {"lead": lead, "anna": anna}


def test_a_teammates_commands_change_its_worktree_alone(root: Path) -> None:
    commands = ("echo x > made.txt", "echo x > ../../made.txt", "echo x > ../../.team/made.txt",
                "git config core.pager x", "cat ../../.team/events.jsonl")  # fmt: skip
    ran = run_team(root, running(*commands), allow=("Bash",))
    assert [e["is_error"] for e in ran.of("tool_ended", "anna", tool="bash")] == [
        False, True, True, True, True
    ]  # fmt: skip
    assert ran.file_on("team/one", "made.txt") == "x"
    assert not (root / "made.txt").exists()
    assert not (root / ".team" / "made.txt").exists()
    assert "core.pager" not in git(root, "config", "--local", "--list")


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions", "dontAsk"])
def test_no_mode_and_no_second_try_runs_a_command_outside_of_it(root: Path, mode: str) -> None:
    """claude-code#14268, #34315, #33681, #15789, sandbox-runtime#13, #97: what had been blocked was
    run again without it, or by a tool that it did not hold."""
    tried = "echo x > ../../made.txt"

    def anna(seen: Seen) -> Iterator[Any]:
        for _ in range(3):
            yield [bash(tried)]
            assert "Read-only file system" in seen.text
        for field in ("dangerouslyDisableSandbox", "sandbox", "unsandboxed"):
            yield [call("bash", command=tried, **{field: True})]
            assert f"{field}: Extra inputs are not permitted" in seen.text
        yield [write("../../made.txt"), write(str(root / "made.txt"))]
        assert seen.text.count("outside your directory") == 2
        yield [complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead, "anna": anna}, allow=("Bash",), permission_mode=mode)
    assert ran.result.exit_code == 0
    assert not (root / "made.txt").exists()


def test_without_a_task_commands_change_nothing(root: Path) -> None:
    def alone(seen: Seen) -> Iterator[Any]:
        yield [bash("cat notes.txt"), bash("echo x > notes.txt")]
        assert "as committed" in seen.text
        assert "Read-only file system" in seen.text
        yield "Done."

    run_team(root, {"lead": alone}, allow=("Bash",))
    assert (root / "notes.txt").read_text() == "as committed\n"


def test_a_task_without_a_worktree_changes_the_checkout_and_none_of_our_files(root: Path) -> None:
    def lead(seen: Seen) -> Iterator[Any]:
        yield [call("create_task", subject="Write"), call("claim_task", task_id="task_1")]
        yield [bash("echo x > made.txt"), bash("echo x > .tasks/task_1.json"), complete()]
        yield "Done."

    ran = run_team(root, {"lead": lead}, allow=("Bash",))
    assert (root / "made.txt").read_text() == "x\n"
    assert ran.task().status == "completed"


def test_searches_run_confined_and_find_what_they_should(root: Path) -> None:
    def alone(seen: Seen) -> Iterator[Any]:
        yield [call("grep", pattern="as commit+ed")]
        assert "notes.txt:1:as committed" in seen.text
        yield "Done."

    run_team(root, {"lead": alone})


def test_agents_are_told_what_holds_their_commands(root: Path) -> None:
    ran = run_team(root, {"lead": lambda seen: iter(["Done."])})
    assert "Commands run in a sandbox" in str(ran.requests[0].system)
    free = run_team(root, {"lead": lambda seen: iter(["Done."])}, sandbox="off")
    assert "Commands are not confined" in str(free.requests[0].system)


def test_off_is_off_and_is_shown(root: Path) -> None:
    ran = run_team(root, running("echo x > ../../made.txt"), allow=("Bash",), sandbox="off")
    assert (root / "made.txt").read_text() == "x\n"
    (started,) = ran.of("run_started")
    assert started["sandbox"] == "none: commands run with your own rights"


def test_the_first_line_of_a_run_names_the_sandbox(root: Path, tmp_path: Path) -> None:
    playbook = tmp_path / "playbook.py"
    playbook.write_text('def reply(agent, messages):\n    return {"say": "Done."}\n')
    environ = {**team_environment(tmp_path), "PYTHONPATH": str(PROJECT)}
    for setting, name in (("auto", "bubblewrap"), ("off", "none")):
        arguments = ["run", "Hello", "--model", f"scripted:{playbook}", "--sandbox", setting]
        ended = team(arguments, root, environ)
        assert ended.returncode == 0, ended.stderr
        first = ended.stderr.splitlines()[0]
        assert first.startswith("session s-")
        assert f"(sandbox {name}: " in first


class TestWithoutAny:
    @pytest.fixture(autouse=True)
    def _none(self, monkeypatch: pytest.MonkeyPatch, root: Path) -> Iterator[None]:
        monkeypatch.setattr(detection, "_USUAL", "/none")
        monkeypatch.setattr(detection, "version", lambda: 0)
        monkeypatch.setattr("shutil.which", lambda *_, **__: None)
        detection._best.cache_clear()
        yield
        detection._best.cache_clear()

    def test_required_starts_nothing(self, root: Path) -> None:
        with pytest.raises(SandboxMissing, match="bubblewrap is not installed"):
            run_team(root, {"lead": lead}, sandbox="required")
        assert not list((root / ".team" / "sessions").glob("*"))

    def test_auto_runs_commands_and_says_that_nothing_holds_them(self, root: Path) -> None:
        ran = run_team(root, running("echo x > made.txt"), allow=("Bash",))
        assert ran.file_on("team/one", "made.txt") == "x"
        (started,) = ran.of("run_started")
        assert started["sandbox"].startswith("none")


class TestAllowingCommands:
    def test_commands_need_no_rule_while_the_sandbox_holds_them(self, root: Path) -> None:
        ran = run_team(root, running("echo x > made.txt"), sandbox_allows_commands=True)
        assert ran.file_on("team/one", "made.txt") == "x"
        assert not ran.of("permission_denied")

    def test_a_deny_rule_holds_all_the_same(self, root: Path) -> None:
        ran = run_team(
            root, running("touch made.txt"), sandbox_allows_commands=True, deny=("Bash(touch *)",)
        )
        assert ran.of("permission_denied", "anna")
        assert ran.file_on("team/one", "made.txt") is None

    def test_the_sandbox_alone_allows_nothing(self, root: Path) -> None:
        ran = run_team(root, running("touch made.txt"))
        assert ran.of("permission_denied", "anna")

    def test_without_the_sandbox_it_has_no_effect_and_says_so(self, root: Path) -> None:
        ran = run_team(root, running("touch made.txt"), sandbox_allows_commands=True, sandbox="off")
        assert ran.of("permission_denied", "anna")
        assert any("has no effect" in notice["text"] for notice in ran.of("notice"))


class TestChecks:
    def test_a_check_changes_its_tasks_folder_alone(self, root: Path) -> None:
        ran = run_team(root, running("true"), allow=("Bash",))
        place = root / "worktrees" / "one"
        inside, elsewhere = (
            replace(ran.task(), check=f"echo x > {path}") for path in ("report", "../../report")
        )
        ran.workspace.work.run_check(inside, place, "nothing happened")
        assert (place / "report").exists()
        with pytest.raises(CheckFailed, match="Read-only file system"):
            ran.workspace.work.run_check(elsewhere, place, "nothing happened")

    def test_a_landings_check_can_write_in_the_combined_tree(self, root: Path) -> None:
        def lead(seen: Seen) -> Iterator[Any]:
            yield bound_task(check="echo x > report && test -f made.txt")
            yield [spawn("anna", task_id="task_1")]
            yield "I wait."
            yield [call("land_worktree", name="one")]
            yield "It is done."

        scripts = {**running("echo x > made.txt"), "lead": lead}
        ran = run_team(root, scripts, allow=("Bash", "land_worktree"))
        assert landed(ran)


def landed(ran: Ran) -> bool:
    return bool(ran.of("worktree_landed"))


class TestSettings:
    def test_a_repository_can_only_ask_for_more(self, root: Path) -> None:
        environ = team_environment(root.parent)
        (root / "team.toml").write_text('sandbox = "required"\n')
        assert load(root, environ, {}).sandbox == "required"
        assert load(root, environ, {"sandbox": "off"}).sandbox == "off"
        for line in ('sandbox = "off"', 'sandbox = "auto"', "sandbox_network = true",
                     "sandbox_allows_commands = true"):  # fmt: skip
            (root / "team.toml").write_text(f"{line}\n")
            with pytest.raises(InputError, match="a workspace"):
                load(root, environ, {})

    def test_ones_own_settings_can_say_all(self, root: Path) -> None:
        environ = team_environment(root.parent)
        own = Path(environ["TEAM_CONFIG_DIR"]) / "team.toml"
        own.parent.mkdir(parents=True)
        own.write_text('sandbox = "off"\nsandbox_network = true\nsandbox_allows_commands = true\n')
        settings = load(root, environ, {})
        assert (settings.sandbox, settings.sandbox_network) == ("off", True)
        assert settings.sandbox_allows_commands
        flags = load(root, environ, {"sandbox_network": None})  # a flag that was not given
        assert flags.sandbox_network
