"""Where settings come from, which of them win, and what is said about bad ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from team_runtime.app.workspace import Workspace
from team_runtime.config import DEFAULT_MODEL, effective, load, passed_on
from team_runtime.errors import InputError


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "user").mkdir()
    (tmp_path / "ws").mkdir()
    return {"TEAM_CONFIG_DIR": str(tmp_path / "user")}


def write(tmp_path: Path, user: str = "", workspace: str = "") -> Path:
    (tmp_path / "user" / "team.toml").write_text(user)
    (tmp_path / "ws" / "team.toml").write_text(workspace)
    return tmp_path / "ws"


def test_without_anything_the_defaults_hold(tmp_path: Path, environ: dict[str, str]) -> None:
    found = effective(tmp_path / "ws", environ, {})
    assert found.settings.model == DEFAULT_MODEL
    assert found.origins == {}


def test_the_nearer_place_wins_and_lists_add_up(tmp_path: Path, environ: dict[str, str]) -> None:
    user = 'model = "user"\nname = "user"\nallow = ["Bash(a *)"]\ndeny = ["Bash(b *)"]\n'
    workspace = write(tmp_path, user, 'model = "ws"\ntimeout = 5\ndeny = ["Bash(c *)"]\n')
    environ |= {"TEAM_MODEL": "env", "TEAM_RETRY_BASE_SECONDS": "0.25"}
    found = effective(workspace, environ, {"max_turns": 7, "deny": ("Bash(d *)",), "name": None})
    settings = found.settings
    assert (settings.model, settings.name, settings.timeout) == ("env", "user", 5)
    assert (settings.max_turns, settings.retry_base) == (7, 0.25)
    assert settings.allow == ("Bash(a *)",)
    assert settings.deny == ("Bash(b *)", "Bash(c *)", "Bash(d *)")
    files = [str(tmp_path / place / "team.toml") for place in ("user", "ws")]
    assert found.origins == {
        "model": ("TEAM_MODEL",),
        "name": (files[0],),
        "allow": (files[0],),
        "deny": (*files, "command line"),
        "timeout": (files[1],),
        "max_turns": ("command line",),
        "retry_base": ("TEAM_RETRY_BASE_SECONDS",),
    }


@pytest.mark.parametrize(
    ("user", "workspace", "limits"),
    [
        ("", "timeout = 5\nmax_turns = 7", (7, 5)),
        ("timeout = 9\nmax_turns = 9", "timeout = 5\nmax_turns = 7", (7, 5)),
        ("timeout = 3.5\nmax_turns = 4", "timeout = 5\nmax_turns = 7", (4, 3.5)),
    ],
)
def test_of_two_limits_a_workspace_can_only_set_the_lower(
    tmp_path: Path,
    environ: dict[str, str],
    user: str,
    workspace: str,
    limits: tuple[int, float],
) -> None:
    root = write(tmp_path, user, workspace)
    found = load(root, environ, {})
    assert (found.max_turns, found.timeout) == limits
    assert load(root, environ, {"max_turns": 99}).max_turns == 99


@pytest.mark.parametrize(
    ("user", "workspace", "named"),
    [
        ("model = \n", "", r"user/team.toml is not valid TOML: .*line 1"),
        ("", "name = 'x'\nmodel 'y'\n", r"ws/team.toml is not valid TOML: .*line 2"),
        ("colour = 1", "", r"user/team.toml: colour: there is no such setting; settings are allow"),
        ("", "api_key = 'x'", r"ws/team.toml: api_key: there is no such setting"),
        ("", "allow = ['bash']", r"ws/team.toml: 'allow' cannot be set by a workspace"),
        ("", "permission_mode = 'plan'", r"ws/team.toml: 'permission_mode' cannot be set"),
        ("", "model = 'scripted:x.py'", r"ws/team.toml: a workspace cannot choose a scripted"),
        ("", "model = ' \tscripted:x.py'", r"ws/team.toml: a workspace cannot choose a scripted"),
        (
            "",
            "plan_review = 'lead'",
            r'ws/team.toml: a workspace can only set plan_review = "person"',
        ),
        ("max_turns = 0", "", r"user/team.toml: max_turns: Input should be greater than 0"),
        ("plan_review = 'me'", "", r"user/team.toml: plan_review: Input should be 'lead' or"),
        ("allow = 'bash'", "", r"user/team.toml: allow: a list of texts is expected"),
        ("deny = [1]", "", r"user/team.toml: deny: a list of texts is expected"),
        ("deny = 5", "", r"user/team.toml: deny: a list of texts is expected"),
    ],
)
def test_a_bad_setting_names_its_place(
    tmp_path: Path, environ: dict[str, str], user: str, workspace: str, named: str
) -> None:
    root = write(tmp_path, user, workspace)
    with pytest.raises(InputError, match=named):
        load(root, environ, {})


def test_a_bad_variable_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"TEAM_RETRY_BASE_SECONDS: retry_base: .*valid number"):
        load(tmp_path / "ws", {**environ, "TEAM_RETRY_BASE_SECONDS": "soon"}, {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, environ: dict[str, str]) -> None:
    (tmp_path / "ws" / "team.toml").mkdir()
    with pytest.raises(InputError, match=r"ws/team.toml could not be read: Is a directory"):
        load(tmp_path / "ws", environ, {})


def test_a_user_names_variables_that_programs_get(tmp_path: Path, environ: dict[str, str]) -> None:
    write(tmp_path, 'environment = ["MY_*", "MY_TOKEN"]')
    assert passed_on(environ) == ("MY_*", "MY_TOKEN")
    environ |= {"MY_DIR": "/d", "MY_TOKEN": "t", "MY_KEY": "k", "PATH": "/bin"}
    given = {"MY_DIR": "/d", "MY_TOKEN": "t", "PATH": "/bin"}
    assert Workspace(tmp_path / "ws", environ).environment == given


@pytest.mark.parametrize("name", ["*", "A-B", "GIT_DIR", "A*B", ""])
def test_what_is_no_variable_is_not_passed_on(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    write(tmp_path, f'environment = ["{name}"]')
    with pytest.raises(InputError, match=r"environment: .*nothing was started"):
        passed_on(environ)


def test_a_workspace_passes_nothing_on(tmp_path: Path, environ: dict[str, str]) -> None:
    with pytest.raises(InputError, match="'environment' cannot be set by a workspace"):
        load(write(tmp_path, "", 'environment = ["MY_TOKEN"]'), environ, {})
