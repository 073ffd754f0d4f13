from __future__ import annotations

import os
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from team_runtime.process.environment import scrubbed
from team_runtime.process.usage import users_of

SECRETS = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "AWS_SECRET_ACCESS_KEY",
    "DB_PASSWORD",
    "GH_TOKEN",
    "GIT_CONFIG_COUNT",
    "GIT_DIR",
    "GIT_EXTERNAL_DIFF",
    "LC_API_KEY",
    "LD_PRELOAD",
    "SSH_AUTH_SOCK",
    "XDG_SECRET",
]


def test_secrets_and_git_settings_never_reach_a_child() -> None:
    assert scrubbed(dict.fromkeys(SECRETS, "canary")) == {}


def test_what_programs_need_stays() -> None:
    needed = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "TZ": "UTC", "VIRTUAL_ENV": "/v"}
    assert scrubbed(needed) == needed


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_is_invented_or_changed(environ: dict[str, str]) -> None:
    assert scrubbed(environ).items() <= environ.items()


def test_who_works_in_a_folder(tmp_path: Path) -> None:
    inside = tmp_path / "a" / "b"
    inside.mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    program = subprocess.Popen(["sleep", "999"], cwd=inside)
    try:
        assert [user.pid for user in users_of(tmp_path / "a")] == [program.pid]
        assert str(users_of(inside)[0]).endswith(f"({program.pid})")
        assert users_of(tmp_path / "ab") == []
        assert users_of(inside, proc=tmp_path / "no-proc") == []
    finally:
        program.kill()
        program.wait()
    assert os.getpid() not in [user.pid for user in users_of(tmp_path)]


def test_users_can_pass_on_more_and_a_secret_only_by_its_name() -> None:
    environ = {"MY_DIR": "/d", "MY_API_KEY": "canary", "MY_TOKEN": "canary", "OTHER": "x"}
    assert scrubbed(environ, ["MY_*"]) == {"MY_DIR": "/d"}
    assert scrubbed(environ, ["MY_*", "MY_TOKEN"]) == {"MY_DIR": "/d", "MY_TOKEN": "canary"}
    assert scrubbed({**environ, "GIT_DIR": "/g"}, ["*"]) == {"MY_DIR": "/d", "OTHER": "x"}
