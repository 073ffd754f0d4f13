"""File and search tools against paths and links that try to get around a boundary or a rule.

Every test is named by what must be blocked.
"""

from __future__ import annotations

import json
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from team_runtime.app.confinement import Confining
from team_runtime.app.explain import explain
from team_runtime.config import Settings
from team_runtime.crossing import Crossing
from team_runtime.guard.base import Verdict
from team_runtime.loop.asking import Answer, Checked
from team_runtime.process.sandbox import NoSandbox
from team_runtime.store.layout import Layout
from team_runtime.tools.base import Place
from team_runtime.types import ToolCall, ToolResult
from tests.support.tools import Desk, snapshot

SECRET = "hunter2-canary"
BYPASS = "bypassPermissions"
"""The mode in which nothing but these walls is left."""


@pytest.fixture
def top(tmp_path: Path) -> Path:
    """A workspace `app` with a worktree and runtime files, beside a folder with a similar name."""
    for path in (
        *("app/.env", "app/sub/.env", "app/secrets/key", "app/worktrees/w/.env", "app-secrets/x"),
        *("app/worktrees/w/secrets/key",),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"{SECRET}\n")
    for path in ("app/.git/config", "app/.tasks/task_1.json", "app/.team/mail/lead/new/m", "app/f"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("untouched\n")
    return tmp_path


READS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "{}"}),
    ("grep", {"pattern": ".", "path": "{}"}),
    ("edit_file", {"path": "{}", "old_text": "\n", "new_text": "\n#"}),
    ("write_file", {"path": "{}", "content": "x"}),
]


def every_tool(desk: Desk, path: str) -> list[str]:
    """What each tool says about `path`; each must refuse."""
    return [
        desk.fail(tool, **{k: v.replace("{}", path) for k, v in input.items()})
        for tool, input in READS
    ]


@pytest.mark.parametrize(
    "path",
    [
        "../app-secrets/x", "{top}/app-secrets/x", "{top}/app/../app-secrets/x", "/etc/hostname",
        "sub/../../app-secrets/x", "link/x", "link", "absolute", "deep/link/x", "chain",
        "/proc/self/environ",
    ],
)  # fmt: skip
def test_everything_outside_the_directory(top: Path, path: str) -> None:
    """CVE-2025-54794, CVE-2026-50549: a folder that begins alike, a path that nothing resolves."""
    app = top / "app"
    (app / "link").symlink_to("../app-secrets")
    (app / "absolute").symlink_to(top / "app-secrets" / "x")
    (app / "deep").mkdir()
    (app / "deep" / "link").symlink_to("../../app-secrets")
    (app / "chain").symlink_to("sub/one")
    (app / "sub" / "one").symlink_to("../deep/link/x")
    before = snapshot(top)
    for text in every_tool(Desk(app, mode=BYPASS), path.format(top=top)):
        assert "outside your directory" in text
        assert SECRET not in text
    assert snapshot(top) == before


@pytest.mark.parametrize("folder", [".", "worktrees/w"])
@pytest.mark.parametrize("path", ["../{}2/x", "../{}-x/x", "{above}/{}2/x", "{above}/{}/../{}2/x"])
def test_a_folder_whose_name_begins_alike(top: Path, folder: str, path: str) -> None:
    """CVE-2025-54794, CVE-2026-34451: paths were compared as texts, without the separator."""
    here = top / "app" / folder
    for name in (f"{here.name}2", f"{here.name}-x"):
        (here.parent / name).mkdir()
        (here.parent / name / "x").write_text(SECRET)
    before = snapshot(top)
    alike = path.format(here.name, here.name, above=here.parent)
    for text in every_tool(Desk(here, mode=BYPASS), alike):
        assert "outside your directory" in text
    assert snapshot(top) == before


def test_a_rule_that_covers_a_folder_whose_name_begins_alike(top: Path) -> None:
    """CVE-2026-34451: what a rule allows below `mem` it does not allow below `mem2`."""
    desk = Desk(top / "app", allow=["Edit(mem/**)"], deny=["Read(secrets/)"], in_task=False)
    desk.do("write_file", path="mem/x", content="x")
    for path in ("mem2/x", "mem-x", "memo/x", "mem/../mem2/x"):
        assert "asks" in desk.fail("write_file", path=path, content="x")
    (top / "app" / "secrets2").write_text("no secret")
    assert "no secret" in desk.do("read_file", path="secrets2")


@pytest.mark.parametrize("field", ["cwd", "root", "directory", "working_directory"])
@pytest.mark.parametrize("tool", [name for name, _ in READS] + ["glob", "bash"])
def test_a_directory_that_the_call_chooses(top: Path, tool: str, field: str) -> None:
    """CVE-2026-50548, CVE-2025-59532: where a call works is not the model's to say."""
    input = dict(READS).get(tool, {"pattern": "*"} if tool == "glob" else {"command": "touch x"})
    before = snapshot(top)
    text = Desk(top / "app", mode=BYPASS).fail(tool, **{**input, field: "/"})
    assert f"{field}: Extra inputs are not permitted" in text
    assert snapshot(top) == before


def test_a_worktree_reaching_into_the_main_checkout(top: Path) -> None:
    """claude-code#62547, #52958, #61232: a task wrote into the checkout of its user."""
    desk = Desk(top / "app" / "worktrees" / "w")
    (desk.root / "up").symlink_to("../..")
    for path in (str(top / "app" / "f"), "../../f", "up/f", str(top / "app" / ".team" / "mail")):
        assert {"outside your directory" in text for text in every_tool(desk, path)} == {True}


@pytest.mark.parametrize(
    "path",
    [
        ".git/config", ".git/hooks/pre-commit", ".git/new/deep/x", ".GIT/config", "./.git/./config",
        "sub/../.git/config", "sub/.git/config", ".tasks/task_1.json", ".Tasks/x", ".team/new/x",
        ".team/mail/lead/new/m", "worktrees/w/.env", "worktrees/new/x", "WorkTrees/x",
        "team.toml", "g/config", "g/new/deep/x", "h", "t/new", "w/x", "{app}/.git/config",
    ],
)  # fmt: skip
def test_writing_what_belongs_to_git_or_the_runtime(top: Path, path: str) -> None:
    app = top / "app"
    (app / "g").symlink_to(".git")
    (app / "h").symlink_to("g/hooks/pre-commit")
    (app / "t").symlink_to("sub/../.tasks")
    (app / "w").symlink_to("worktrees/w")
    before = snapshot(top)
    for in_task in (True, False):
        desk = Desk(app, mode=BYPASS, allow=["Edit", "Edit(**)", "Write"], in_task=in_task)
        named = path.format(app=app)
        assert "never edited" in desk.fail("write_file", path=named, content="x")
        desk.fail("edit_file", path=named, old_text="untouched", new_text="x")
    assert snapshot(top) == before


RULES = [
    ["Read(.env)", "Read(secrets)"],
    ["Read(**/.env)", "Read(**/secrets/**)"],
    ["Read(.ENV)", "Read(secrets/)"],
    ["Read(./.env)", "Read(./sub/.env)", "Read(./secrets/**)"],
]


@pytest.mark.parametrize("deny", RULES, ids=str)
@pytest.mark.parametrize(
    "path",
    [
        ".env", "./.env", "sub/../.env", "no/../.env", "{app}/.env", ".//.env", "notes.txt",
        "sub/.env", "secrets/key", "s/key", "two", "worktrees/w/.env", "w/.env", "w/secrets/key",
        "sub/up/.env",
    ],
)  # fmt: skip
def test_reading_what_a_rule_denies(top: Path, path: str, deny: list[str]) -> None:
    """CVE-2026-25724: the rule was compared with the name of the link."""
    app = top / "app"
    (app / "notes.txt").symlink_to(".env")
    (app / "s").symlink_to("secrets")
    (app / "two").symlink_to("s/key")
    (app / "w").symlink_to("worktrees/w")
    (app / "sub" / "up").symlink_to("..")
    before = snapshot(top)
    for text in every_tool(Desk(app, mode=BYPASS, deny=deny), path.format(app=app)):
        assert text.startswith("Permission denied: ")
        assert SECRET not in text
    assert snapshot(top) == before


@pytest.mark.parametrize("deny", RULES[::3], ids=str)
@pytest.mark.parametrize("path", [".", "sub", "worktrees/w", "up", "w", "sub/.."])
def test_finding_what_a_rule_denies(top: Path, deny: list[str], path: str) -> None:
    """Searching or listing a folder shows all files but those."""
    app = top / "app"
    (app / "up").symlink_to(".")
    (app / "w").symlink_to("worktrees/w")
    for folder in ("", "sub/", "worktrees/w/"):
        (app / folder / "notes.txt").symlink_to(".env")
        (app / folder / "plain").write_text(f"{folder}\n")
    desk = Desk(app, deny=deny)
    found = desk.do("grep", pattern=".*", path=path) + desk.do("glob", pattern=f"{path}/**")
    assert "plain" in found
    assert SECRET not in found
    assert ".env" not in found
    assert "key" not in found


@pytest.mark.parametrize("tool", ["read_file", "grep"])
def test_a_link_that_is_swapped_after_the_rule_was_checked(top: Path, tool: str) -> None:
    """CVE-2026-34452: the path that had been checked was not the one that was used."""
    app = top / "app"
    desk = Desk(app, deny=["Read(.env)"])
    (app / "notes.txt").symlink_to("f")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            for target in (".env", "f"):
                (app / "next").symlink_to(target)
                (app / "next").replace(app / "notes.txt")

    thread = threading.Thread(target=swap)
    thread.start()
    input: dict[str, Any] = {"path": "notes.txt"} | ({"pattern": "."} if tool == "grep" else {})
    try:
        seen = [
            desk.call(tool, **input).content for _ in range(1000 if tool == "read_file" else 20)
        ]
    finally:
        stop.set()
        thread.join()
    assert not any(SECRET in text for text in seen)


def test_an_allow_rule_reaching_further_through_a_link(top: Path) -> None:
    """A rule for `docs` does not allow to edit what a link in `docs` leads to."""
    app = top / "app"
    (app / "docs").mkdir()
    (app / "docs" / "page").symlink_to("../f")
    (app / "docs" / "real").write_text("old")
    (app / "alias").symlink_to("docs/real")
    desk = Desk(app, allow=["Edit(docs/**)"], in_task=False)
    desk.do("write_file", path="docs/real", content="new")
    for path in ("docs/page", "alias"):
        assert "nobody was there to answer" in desk.fail("write_file", path=path, content="new")
    assert (app / "f").read_text() == "untouched\n"
    desk.answer = True
    desk.do("write_file", path="docs/page", content="new")
    link, alias = ("docs/page", "f"), ("alias", "docs/real")
    assert [asked.subject.paths for asked in desk.asked] == [link, alias, link]
    assert (app / "f").read_text() == "new"


def test_an_answer_for_one_file_used_for_another(top: Path) -> None:
    """The person says yes while the link is swapped: what was not asked about is not written."""
    app = top / "app"
    desk = Desk(app, in_task=False)
    (app / "link").symlink_to("f")
    (app / "g").write_text("untouched\n")

    def ask(checked: Checked) -> Answer:
        (app / "link").unlink()
        (app / "link").symlink_to("g")
        return Answer(True)

    desk.dispatch = replace(desk.dispatch, ask=ask)
    text = desk.fail("write_file", path="link", content="new")
    assert "what it is about was changed before the answer came" in text
    assert (app / "f").read_text() == (app / "g").read_text() == "untouched\n"


def test_calls_side_by_side_have_their_own_decisions(top: Path) -> None:
    desk = Desk(top / "app", deny=["Read(.env)"])
    calls = [
        ToolCall(f"c{n}", "read_file", {"path": path})
        for n, path in enumerate([".env", "f", "../app-secrets/x", "f", "no"] * 4)
    ]
    results: list[ToolResult] = []

    def agent(crossing: Crossing) -> None:
        dispatch = type(desk.dispatch)(**{**vars(desk.dispatch), "wait": crossing.wait})
        results.extend(dispatch.run(calls))

    async def main() -> None:
        await to_thread.run_sync(agent, Crossing())

    anyio.run(main)
    assert [result.call_id for result in results] == [call.id for call in calls]
    assert [result.is_error for result in results] == [True, False, True, False, True] * 4
    assert not any(SECRET in result.content for result in results)


def test_a_hard_link_does_not_carry_a_write_to_the_other_name(top: Path) -> None:
    """Claude Code's changelog: writes went through hard links."""
    os.link(top / "app-secrets" / "x", top / "app" / "same")
    result = Desk(top / "app").call("write_file", path="same", content="new")
    assert result.is_error
    assert "another name" in result.content
    assert (top / "app-secrets" / "x").read_text() == f"{SECRET}\n"


@pytest.mark.parametrize("mode", ["default", "bypassPermissions"])
@pytest.mark.parametrize("path", [".team/mail/bob/new/1", ".TEAM/mail/bob/new/1", "in/bob/new/1"])
def test_reading_the_mail_and_the_conversations_of_others(top: Path, path: str, mode: str) -> None:
    app = top / "app"
    spilled, mail = app / ".team/spill/s", app / ".team/mail/bob/new"
    mail.mkdir(parents=True)
    spilled.mkdir(parents=True)
    (mail / "1").write_text(SECRET)
    (spilled / "1").write_text("long")
    (app / "in").symlink_to(".team/mail")
    desk = Desk(app, mode=mode, allow=["Bash", "Read", "Read(.team/**)"])
    assert "records are not read" in desk.fail("read_file", path=path)
    for tool in ("glob", "grep"):
        found = desk.call(tool, pattern=f"{Path(path).parent}/*", **_where(tool, path))
        assert SECRET not in found.content
        assert "new/1" not in found.content
    assert desk.do("read_file", path=".team/spill/s/1").endswith("long")


@pytest.mark.parametrize("path", ["keys/kube", "KEYS/kube", "keys", "k", "keys/sub/new"])
def test_reading_or_writing_where_a_variable_says_that_a_secret_is(top: Path, path: str) -> None:
    """What the sandbox hides from commands, hidden from the tools for files too."""
    app = top / "app"
    (app / "keys/sub").mkdir(parents=True)
    (app / "keys/kube").write_text(SECRET)
    (app / "k").symlink_to("keys/kube")
    environ = {"KUBECONFIG": str(app / "keys/kube"), "DOCKER_CONFIG": str(app / "keys")}
    confining = Confining(NoSandbox(), Layout(app), environ)
    desk = Desk(app, mode=BYPASS, allow=["Read", "Edit"])
    place = Place(app, "task_1", "w", confining.secrets_in(app))
    desk.dispatch = replace(desk.dispatch, place=lambda: place)
    assert "secrets" in desk.fail("read_file", path=path)
    assert "secrets" in desk.fail("write_file", path=path, content="x")
    assert "keys/kube" not in desk.do("glob", pattern="**")
    assert SECRET not in desk.call("grep", pattern="s", path=".").content
    question = json.dumps({"path": path})
    told = explain(app, {**environ, "HOME": str(top)}, Settings(), "read_file", question)
    assert told.verdict is Verdict.DENY


def _where(tool: str, path: str) -> dict[str, str]:
    return {"path": path.partition("/")[0]} if tool == "grep" else {}


@pytest.mark.parametrize("mode", ["default", "acceptEdits", "bypassPermissions"])
@pytest.mark.parametrize(
    "path",
    [
        ".claude/settings.json", ".claude/settings.local.json", ".mcp.json", ".vscode/tasks.json",
        ".VSCode/settings.json", "sub/.vscode/launch.json", ".husky/pre-commit", ".envrc",
        ".bashrc", "sub/.zshrc", ".npmrc", ".devcontainer/devcontainer.json", ".gitmodules",
        ".idea/x", "v/x", ".zed/tasks.json", ".cargo/config.toml", "sub/.dir-locals.el", ".vimrc",
        ".pre-commit-config.yaml", ".bash_aliases", ".agents/x", "lefthook.yml", ".yarn/x.cjs",
    ],
)  # fmt: skip
def test_writing_without_a_person_what_starts_programs_later(
    top: Path, path: str, mode: str
) -> None:
    """CVE-2025-54135, CVE-2025-54130, CVE-2025-53773: no mode and no rule spares the question."""
    app = top / "app"
    (app / "v").symlink_to(".vscode")
    (app / ".vscode").mkdir()
    before = snapshot(top)
    desk = Desk(app, mode=mode, allow=["Edit", f"Edit({path})", "Write"])
    assert "can start programs, so editing it asks" in desk.fail(
        "write_file", path=path, content="x"
    )
    assert snapshot(top) == before
    desk.answer = True
    desk.do("write_file", path=path, content="x")
    assert (app / path).read_text() == "x"


def test_a_name_that_is_only_similar_is_written(top: Path) -> None:
    desk = Desk(top / "app")
    for path in (".vscodex/x", "claude/settings.json", "bashrc", ".npmrc.md", "x.mcp.json"):
        desk.do("write_file", path=path, content="x")
