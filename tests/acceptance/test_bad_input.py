"""Bad input and bad surroundings: what is typed, the sentence that answers, the exit code.

Never a traceback, and nothing is lost or changed.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import events, git, team_environment
from tests.support.cli import OnTerminal, Ran, team_here, write_file
from tests.support.fake_messages import FakeMessages, error

PLAYBOOK = 'def reply(agent, messages):\n    return "It is dïne."\n'


@pytest.fixture(autouse=True)
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a process gets; the same holds for commands in this one."""
    home = tmp_path / "home"
    home.mkdir()
    found = {**team_environment(home), "TMPDIR": str(tmp_path)}
    monkeypatch.setenv("TEAM_CONFIG_DIR", found["TEAM_CONFIG_DIR"])
    monkeypatch.setenv("TEAM_RETRY_BASE_SECONDS", "0.001")
    monkeypatch.setenv("HOME", str(home))
    return found


@pytest.fixture
def scripted(tmp_path: Path) -> tuple[str, ...]:
    """Options for a model that answers at once."""
    return ("--model", f"scripted:{write_file(tmp_path / 'playbook.py', PLAYBOOK)}")


def unborn(root: Path) -> Path:
    git(root.parent, "init", "--quiet", "--initial-branch=main", "unborn")
    return root.parent / "unborn"


def bare(root: Path) -> Path:
    git(root.parent, "init", "--quiet", "--bare", "bare.git")
    return root.parent / "bare.git"


def plain(root: Path) -> Path:
    (root.parent / "plain").mkdir()
    return root.parent / "plain"


def below(root: Path) -> Path:
    (root / "below").mkdir()
    return root / "below"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        (plain, "cannot host a team: it is not in a git repository. Make one: git init"),
        (unborn, "cannot host a team: its branch main has no commit yet. Make the first commit"),
        (bare, "cannot host a team: it is a bare repository. Use a checkout of it"),
        (below, "cannot host a team: it is not the root of its repository. Use -C "),
    ],
)
def test_where_no_team_can_work(
    root: Path, scripted: tuple[str, ...], place: Callable[[Path], Path], sentence: str
) -> None:
    folder = place(root)
    before = sorted(folder.iterdir())
    ran = team_here(root.parent, "-C", str(folder), "run", "x", *scripted)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err
    assert sorted(folder.iterdir()) == before


def test_a_detached_head_is_no_obstacle(root: Path, scripted: tuple[str, ...]) -> None:
    git(root, "checkout", "--quiet", "--detach")
    assert team_here(root, "run", "x", *scripted).code == 0


def test_a_dirty_tree_is_left_as_it_is(root: Path, scripted: tuple[str, ...]) -> None:
    (root / "notes.txt").write_text("changed\n")
    (root / "new.txt").write_text("new\n")
    (root / "staged.txt").write_text("staged\n")
    git(root, "add", "staged.txt")
    before = git(root, "status", "--porcelain")
    assert team_here(root, "run", "x", *scripted).code == 0
    assert git(root, "status", "--porcelain") == before
    assert (root / "notes.txt").read_text() == "changed\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", ""), "the prompt is empty; nothing was done"),
        (("run", " \n\t"), "the prompt is empty"),
        (("run",), "the prompt is empty"),
        (("run", "-"), "the prompt is empty"),
        (("run", "x", "--model", "foo:bar"), "unknown model provider 'foo'. Providers: anthropic"),
        (("run", "x", "--model", "scripted:"), "names no model"),
        (("run", "x", "--model", "scripted:none.yaml"), "playbook none.yaml cannot be read"),
        (("run", "x", "--allow", "Foo(bar)"), "the rule 'Foo(bar)' can match nothing; tools are"),
        (("run", "x", "--deny", "Bash("), "is not a rule"),
        (("run", "x", "--permission-mode", "yolo"), "unknown permission mode 'yolo'; modes are"),
        (("run", "x", "--name", "My Team"), "'My Team' is not a valid team name"),
        (("run", "--resume", "s-20260101-000000-0000"), "There is no session"),
        (("run", "--continue"), "there is no session to continue"),
        (("run", "x", "--max-turns", "0"), "0 is not in the range"),
        (("run", "x", "--timeout", "soon"), "'soon' is not a valid float"),
        (("-C", "nowhere", "tasks", "list"), "nowhere does not exist; name a folder with -C"),
        (("-C", "notes.txt", "tasks", "list"), "notes.txt is not a folder"),
        (("demo", "--dir", "."), "is not an empty folder; nothing was changed"),
        (("demo", "--dir", "notes.txt"), "is not an empty folder; nothing was changed"),
        (("demo", "--interactive"), "needs a terminal"),
        (("tasks", "show", "task_99"), "There is no task 'task_99'"),
    ],
)
def test_what_is_typed_wrong(root: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ran = team_here(root, *arguments)
    assert (ran.code, ran.out) == (2, ""), ran.err
    assert sentence in ran.err
    assert not (root / ".team" / "sessions").exists()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("model = 'x'\nname 'y'\n", "team.toml is not valid TOML: "),
        ("model = 'x'\nname 'y'\n", "line 2"),
        ("colour = 1\n", "team.toml: colour: there is no such setting; settings are allow, "),
        ("allow = ['bash']\n", "team.toml: 'allow' cannot be set by a workspace"),
        ("max_turns = 'many'\n", "team.toml: max_turns: Input should be a valid integer"),
    ],
)
def test_a_broken_settings_file(
    root: Path, scripted: tuple[str, ...], text: str, sentence: str
) -> None:
    (root / "team.toml").write_text(text)
    ran = team_here(root, "run", "x", *scripted)
    assert (ran.code, ran.out) == (2, "")
    assert sentence in ran.err


def test_a_failure_before_the_start_is_a_json_result_too(root: Path) -> None:
    for form in ("json", "stream-json"):
        ran = team_here(root, "run", "x", "--model", "foo:bar", "--output-format", form)
        assert ran.code == 2
        result = json.loads(ran.out)
        assert (result["type"], result["is_error"]) == ("result", True)
        assert "unknown model provider" in result["result"]


@pytest.mark.parametrize(
    ("reply", "code", "sentence"),
    [
        (error("authentication_error", "invalid x-api-key"), 2, "set ANTHROPIC_API_KEY"),
        (error("not_found_error", "model: nope"), 2, "check the model's name"),
        (error("billing_error", "no credit"), 2, "check the account's billing"),
        (error("invalid_request_error", "bad"), 2, "trying it again as it is cannot work"),
    ],
)
@pytest.mark.slow
def test_what_the_service_rejects(
    root: Path, monkeypatch: pytest.MonkeyPatch, reply: Any, code: int, sentence: str
) -> None:
    with FakeMessages(lambda record: reply) as api:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", api.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-canary")
        ran = team_here(root, "run", "x", "--model", "nope")
        assert len(api.log) == 1, "asked once"
    assert (ran.code, ran.out) == (code, "")
    assert sentence in ran.err
    assert "team: to go on: team run --resume s-" in ran.err
    assert "sk-canary" not in ran.err


def test_no_key(root: Path) -> None:
    ran = team_here(root, "run", "x")
    assert (ran.code, ran.out) == (2, "")
    assert "there is no API key" in ran.err
    assert "set ANTHROPIC_API_KEY" in ran.err


def test_an_endpoint_that_nobody_listens_on(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    ran = team_here(root, "run", "x")
    assert (ran.code, ran.out) == (1, "")
    assert "team: The model call failed: the connection failed" in ran.err
    tries = [e for e in events(root) if e["kind"] == "api_retry"]
    assert len(tries) >= 19
    assert f"(after {len(tries) + 1} tries)" in ran.err


def start(
    arguments: Sequence[str],
    cwd: Path,
    environ: Mapping[str, str],
    shell: str = "",
    limits: Mapping[int, int] | None = None,
    stdin: Any = subprocess.DEVNULL,
) -> Ran:
    """Run `team ARGUMENTS` as a process; `shell` is what a shell would put behind it."""

    def limit() -> None:
        for what, most in (limits or {}).items():
            resource.setrlimit(what, (most, most))

    command = [sys.executable, "-m", "team_runtime", *arguments]
    if shell:
        command = ["bash", "-o", "pipefail", "-c", f'"$@" {shell}', "bash", *command]
    done = subprocess.run(
        command,
        cwd=cwd,
        env=dict(environ),
        stdin=stdin,
        capture_output=True,
        preexec_fn=limit,
        timeout=50,
        check=False,
    )
    out, err = (text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr))
    assert "Traceback" not in err, err
    assert "Exception ignored" not in err, err
    return Ran(done.returncode, out, err)


def git_of_version(folder: Path, version: str) -> str:
    """A PATH with nothing but a git that says it is of this version."""
    folder.mkdir()
    place = folder / "git"
    place.write_text(f"#!/bin/sh\necho git version {version}\n")
    place.chmod(0o755)
    return str(folder)


@pytest.mark.slow
def test_no_git_and_an_old_git(
    root: Path, tmp_path: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    (tmp_path / "empty").mkdir()
    without = {**environ, "PATH": str(tmp_path / "empty")}
    old = {**environ, "PATH": git_of_version(tmp_path / "old", "2.20.1")}
    ran = start(["run", "x", *scripted], root, without)
    assert (ran.code, "git could not be started" in ran.err) == (2, True)
    ran = start(["run", "x", *scripted], root, old)
    assert (ran.code, "Install git 2.38 or newer." in ran.err) == (2, True)
    ran = start(["demo", "--dir", str(tmp_path / "demo")], root, old)
    assert (ran.code, "Install git 2.38 or newer." in ran.err) == (2, True)
    assert not (tmp_path / "demo").exists()
    assert start(["tasks", "add", "x"], root, without).code == 0, "a board needs no git"


@pytest.mark.slow
def test_streams_that_are_closed(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    assert start(["run", "x", *scripted], root, environ, ">&-").code == 0
    assert start(["run", "x", *scripted], root, environ, "2>&-").out == "It is dïne.\n"
    assert start(["run", "x", *scripted], root, environ, "<&- >&- 2>&-").code == 0
    ran = start(["run", "-", *scripted], root, environ, "<&-")
    assert (ran.code, "there is no stdin to read the prompt from" in ran.err) == (2, True)
    for record in (root / ".team").rglob("*.json"):
        json.loads(record.read_text())  # none of them was written to as if it were stdout


@pytest.mark.slow
def test_a_reader_that_stops_reading(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    for number in range(3):
        start(["tasks", "add", f"task {number}"], root, environ)
    ran = start(["tasks", "list"], root, environ, "| head -1")
    assert (ran.code, ran.err) == (0, "")
    stream = ["run", "x", *scripted, "--output-format", "stream-json"]
    ran = start(stream, root, environ, "2>/dev/null | head -1")
    assert ran.code == 0
    assert events(root)[-1]["kind"] == "run_ended"


@pytest.mark.slow
def test_a_log_that_nobody_reads_and_forty_descriptors_do_not_hurt_the_agents(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    nobody = "2> >(head -1 >/dev/null)"
    ran = start(["demo", "--json"], tmp_path, environ, nobody, {resource.RLIMIT_NOFILE: 40})
    assert ran.code == 0
    assert len(json.loads(ran.out)["landed"]) == 2


@pytest.mark.slow
def test_a_full_disk_under_stdout(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    ran = start(["run", "x", *scripted], root, environ, ">/dev/full")
    assert ran.code == 1
    assert "could not be written to stdout: No space left on device" in ran.err
    assert events(root)[-1]["kind"] == "run_ended"
    assert start(["run", "x", *scripted], root, environ, "2>/dev/full").code == 0


@pytest.mark.slow
def test_a_full_disk_under_the_workspace(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    start(["tasks", "add", "before"], root, environ)
    full = {resource.RLIMIT_FSIZE: 0}
    for arguments in (["tasks", "add", "after"], ["run", "x", *scripted]):
        ran = start(arguments, root, environ, limits=full)
        assert ran.code == 1
        assert "could not be written" in ran.err
        assert "What was there before is still there" in ran.err
    listed = start(["tasks", "list", "--json"], root, environ)
    assert [task["subject"] for task in json.loads(listed.out)] == ["before"]


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(environ: dict[str, str]) -> None:
    """`/sys` lets not even root make a file."""
    for arguments in (["tasks", "list"], ["tasks", "add", "x"], ["status"]):
        ran = start(["-C", "/sys", *arguments], Path("/"), environ)
        assert (ran.code, ran.out) == (1, "")
        assert "team: /sys/.team could not be made: " in ran.err
    ran = start(["-C", "/sys", "doctor"], Path("/"), environ)
    assert (ran.code, "/sys cannot be written" in ran.out) == (1, True)


def test_no_file_events_left(
    root: Path, scripted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchdog.observers import Observer

    def refuse(self: object, **named: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr(Observer, "__init__", refuse)
    assert team_here(root, "run", "x", *scripted).code == 0
    assert "note     file events  none left" in team_here(root, "doctor").out


def test_a_path_in_another_encoding(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    place = Path(os.fsdecode(os.fsencode(root.parent) + b"/pr\xfcfung"))
    shutil.copytree(root, place)
    assert start(["run", "x", *scripted], place, environ).code == 0
    for arguments in (["status"], ["doctor"], ["sessions", "list"], ["config", "show"]):
        for form in ([], ["--json"]):
            ran = team_here(place, *arguments, *form)
            assert "bug" not in ran.err
    shown = team_here(place, "status", "--json").json
    assert Path(shown["workspace"]) == place


@pytest.mark.parametrize("encoding", [{}, {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}])
@pytest.mark.slow
def test_the_c_locale(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str], encoding: dict[str, str]
) -> None:
    environ = {**environ, "LC_ALL": "C", **encoding}
    environ.pop("LANG", None)
    ran = start(["run", "prüfe", *scripted], root, environ)
    assert ran.code == 0
    assert ran.out in ("It is dïne.\n", "It is d?ne.\n")
    result = json.loads(start(["run", "x", *scripted, "--json"], root, environ).out)
    assert result["result"] == "It is dïne."
    (_, session) = team_here(root, "sessions", "list", "--json").json
    assert session["prompt"] == "prüfe"


def in_terminal(
    arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], columns: int = 80
) -> str:
    """What `team ARGUMENTS` shows on a terminal; it must end well."""
    terminal = OnTerminal(arguments, cwd, environ, columns)
    assert terminal.end() == 0, terminal.shown
    assert "Traceback" not in terminal.shown
    return terminal.shown


@pytest.mark.slow
def test_a_terminal_of_twenty_columns(tmp_path: Path, environ: dict[str, str]) -> None:
    shown = in_terminal(["demo", "--pace", "0"], tmp_path, environ, columns=20)
    assert "38 passed" in shown.replace("\r\n", "")


@pytest.mark.slow
def test_no_colours_where_none_are_wanted(
    root: Path, scripted: tuple[str, ...], environ: dict[str, str]
) -> None:
    line, colour = ["run", "x", *scripted], "\x1b[3"
    assert colour in in_terminal(line, root, environ)
    assert colour not in in_terminal([*line, "--no-color"], root, environ)
    assert colour not in in_terminal(line, root, {**environ, "NO_COLOR": "1"})


def test_a_bug_is_one_sentence_and_a_file(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("team_runtime.board.json_board.JsonBoard.ready", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ran = team_here(root, "tasks", "next")
    assert (ran.code, ran.out) == (1, "")
    (trace,) = tmp_path.glob("team-bug-*.txt")
    assert ran.err.startswith("team: this is a bug (ZeroDivisionError: a bug).")
    assert str(trace) in ran.err
    assert "Traceback" in trace.read_text()
