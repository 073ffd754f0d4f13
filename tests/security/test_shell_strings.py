"""The table of shell texts: what is decided about each, and what the allowed ones really run."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest

from team_runtime.guard.base import Effect, Question
from team_runtime.guard.shell import base, read
from team_runtime.process.base import Command
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import Confinement
from tests.security.shell_strings import ALLOW, DENY, EXACT, HIDDEN, OPAQUE, PLAIN, rows
from tests.support.confined import PATH, bubblewrap
from tests.support.scripted_team import make_repository
from tests.support.tools import permissions, snapshot

RULES = permissions("default", ALLOW, DENY)
GROUPS = [*PLAIN, *OPAQUE, *HIDDEN, *EXACT]


def decided(text: str, mode: str = "default") -> str:
    rules = RULES if mode == "default" else permissions(mode, ALLOW, DENY)
    question = Question("bash", Effect.COMMAND, {"command": text}, None, in_task=True)
    return rules.decide(question).verdict.value


def test_the_table_is_as_large_as_it_should_be() -> None:
    texts = Counter(row.text for row in rows())
    assert len(texts) >= 1500
    assert len(set(GROUPS)) == len(GROUPS)


@pytest.mark.parametrize("why", GROUPS)
def test_the_decision_is_right_for(why: str) -> None:
    wrong = [
        f"{row} but got {got}"
        for row in rows()
        if row.why == why and (got := decided(row.text)) != row.verdict
    ]
    assert wrong == []


def test_a_denied_text_stays_denied_in_the_mode_that_asks_nothing() -> None:
    evaded = [
        row
        for row in rows()
        if row.verdict == "deny" and decided(row.text, "bypassPermissions") != "deny"
    ]
    assert evaded == []


ALLOWED = [row.text for row in rows() if row.verdict == "allow"]
RECORDED = [
    *("ls", "cat", "grep", "rg", "find", "sort", "uniq", "head", "tail", "wc", "tar", "sed", "awk"),
    *(
        "git",
        "perl",
        "python",
        "make",
        "npm",
        "date",
        "tree",
        "less",
        "xxd",
        "diff",
        "curl",
        "node",
    ),
    *("sqlite3", "vim", "man", "file", "uv", "touch", "rm", "id", "dd", "tee", "xargs", "env"),
]
WRAPPERS = ["timeout", "nice", "nohup", "stdbuf"]
STUB = """#!/bin/sh
printf '%s\\0' "$0" "$@" > "$TOLD/$$"
"""
DRIVER = """
import json, os, pathlib, subprocess, sys
ran = []
for number, text in enumerate(json.load(sys.stdin)):
    told = pathlib.Path(f"/tmp/told/{number}")
    told.mkdir(parents=True)
    subprocess.run(
        ["/bin/bash", "-c", "--", text + "\\nwait"],
        env={"PATH": sys.argv[1], "TOLD": str(told), "LC_ALL": "C.UTF-8", "HOME": "/tmp"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=20,
    )
    ran.append([path.read_bytes().decode().split("\\0")[:-1] for path in told.iterdir()])
json.dump(ran, sys.stdout)
"""


def run_confined(folder: Path, path: str, texts: list[str]) -> list[list[list[str]]]:
    """Run each text by bash, confined to `folder`; returns what stubs on `path` told of each."""
    temporary = folder.parent / "temporary"
    temporary.mkdir()
    policy = Confinement(
        writable=(folder,), readable=(folder.parent, Path(sys.prefix)), temporary=temporary
    )
    driver = [sys.executable, "-I", "-S", "-c", DRIVER, path]
    command = Command(driver, folder, {"PATH": PATH}, 100, json.dumps(texts).encode())
    done = BlockingRunner().run(bubblewrap().confine(command, policy))
    assert done.status == 0, done.stderr.decode()
    told: list[list[list[str]]] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_what_is_allowed_runs_just_the_commands_that_a_rule_covers(tmp_path: Path) -> None:
    folder, stubs = tmp_path / "here", tmp_path / "stubs"
    folder.mkdir()
    stubs.mkdir()
    for path in (folder / "run.sh", *(stubs / name for name in RECORDED)):
        path.write_text(STUB)
        path.chmod(0o755)
    for name in WRAPPERS:
        (stubs / name).symlink_to(shutil.which(name, path=PATH) or name)
    told = run_confined(folder, str(stubs), ALLOWED)
    assert sum(map(len, told)) > len(ALLOWED) / 2
    for text, ran in zip(ALLOWED, told, strict=True):
        foreseen = {(base(argv[0]), *argv[1:]) for argv in read(text).allowable or ()}
        assert {(base(argv[0]), *argv[1:]) for argv in ran} <= foreseen, text
    assert {path.name for path in folder.iterdir()} == {"run.sh"}


@pytest.mark.slow
def test_what_is_allowed_and_only_reads_changes_no_file(tmp_path: Path) -> None:
    """With the real programs, as far as they are there."""
    folder = make_repository(tmp_path / "here")
    for name in ("f", "g", "x.py", "x.pl", "a.tar", "rm", "src/a"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("3 a b\n1 c d\n")
    writing = re.compile(r"git (add|commit|switch)|make|pytest|unittest|npm|uv ")
    texts = [text for text in ALLOWED if not writing.search(text)]
    before = snapshot(folder)
    run_confined(folder, PATH, texts)
    assert {**snapshot(folder), ".git/index": None} == {**before, ".git/index": None}
