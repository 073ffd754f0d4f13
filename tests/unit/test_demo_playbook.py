"""The demo's script fits the demo's repository: its plans, edits and tests really work."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path

import anyio
import pytest

from team_runtime.models.base import ModelReply
from team_runtime.models.playbook import read_playbook
from team_runtime.models.scripted import ScriptedModel
from team_runtime.types import ToolCall
from tests.support.talk import Talk, injected

DEMO = files("team_runtime.demo")
APPROVED = injected("lead", "plan_decision", decision="approved", request_id="r2", revision="2")
REJECTED = injected("lead", "plan_decision", decision="rejected", request_id="r1", revision="1")


@pytest.fixture(scope="module")
def model() -> ScriptedModel:
    with as_file(DEMO / "playbook.yaml") as path:
        return ScriptedModel.load(path)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with as_file(DEMO / "shop") as source:
        shutil.copytree(source, tmp_path / "shop", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "shop"


class Performance:
    """One agent of the demo, playing its part in a folder."""

    def __init__(self, model: ScriptedModel, agent: str, folder: Path) -> None:
        self.folder = folder
        self.written: set[str] = set()
        self.last: ModelReply
        self._model = model
        self._talk = Talk("You have a task.", agent=agent)

    def turn(self, *mail: str) -> list[ToolCall]:
        """All calls until the agent ends its turn, after it has read `mail`."""
        if mail:
            self._talk.say(*mail)
        calls: list[ToolCall] = []
        while True:
            self.last = anyio.run(self._model.reply, self._talk.request(), lambda *_: None)
            self._talk.answer(self.last)
            for call in self.last.calls:
                self._run(call)
            calls += self.last.calls
            if not self.last.calls:
                return calls

    def _run(self, call: ToolCall) -> None:
        given = call.input
        if call.name == "write_file":
            (self.folder / given["path"]).write_text(given["content"], encoding="utf-8")
            self.written.add(given["path"])
        elif call.name == "edit_file":
            path = self.folder / given["path"]
            text = path.read_text(encoding="utf-8")
            assert text.count(given["old_text"]) == 1, given["old_text"]
            text = text.replace(given["old_text"], given["new_text"])
            path.write_text(text, encoding="utf-8")
            self.written.add(given["path"])
        elif call.name == "read_file":
            assert (self.folder / given["path"]).is_file()
        elif call.name == "bash":
            assert given["command"] == "python3 -m unittest discover -s tests"
            check(self.folder)


def check(folder: Path) -> int:
    """Run the shop's tests as the demo does; returns how many passed."""
    command = [sys.executable, "-W", "error", "-m", "unittest", "discover", "-s", "tests"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return int(ended.stderr.split("Ran ")[1].split()[0])


def test_the_shop_passes_its_tests_before_anyone_touched_it(shop: Path) -> None:
    assert check(shop) >= 20


@pytest.mark.parametrize("order", [("auth", "login"), ("login", "auth")])
def test_both_changes_fit_together_in_either_order(
    model: ScriptedModel, shop: Path, order: tuple[str, str]
) -> None:
    before = check(shop)
    changed: dict[str, set[str]] = {}
    for agent in order:
        teammate = Performance(model, agent, shop)
        assert {"submit_plan"} == {call.name for call in teammate.turn()} - {"read_file", "grep"}
        assert {"bash", "complete_task"} < {call.name for call in teammate.turn(APPROVED)}
        changed[agent] = teammate.written

    assert check(shop) == before + 6 + 7
    assert not changed["auth"] & changed["login"]


@pytest.mark.parametrize("agent", ["auth", "login"])
def test_each_change_passes_on_its_own(model: ScriptedModel, shop: Path, agent: str) -> None:
    teammate = Performance(model, agent, shop)
    teammate.turn()
    teammate.turn(APPROVED)

    assert "done" in teammate.last.text


@pytest.mark.parametrize("agent", ["auth", "login"])
def test_a_rejected_plan_is_revised_before_anything_is_edited(
    model: ScriptedModel, shop: Path, agent: str
) -> None:
    teammate = Performance(model, agent, shop)
    [first] = [call for call in teammate.turn() if call.name == "submit_plan"]
    [second] = [call for call in teammate.turn(REJECTED) if call.name == "submit_plan"]

    assert first.input != second.input
    assert 5 <= len(second.input["plan"].splitlines()) <= 8
    assert not teammate.written


def test_the_lead_splits_reviews_and_lands(model: ScriptedModel, shop: Path) -> None:
    lead = Performance(model, "lead", shop)
    names = [call.name for call in lead.turn()]
    assert names.count("create_task") == names.count("create_worktree") == 2
    assert names[-2:] == ["spawn_teammate"] * 2

    reviews = lead.turn(
        injected("login", "plan_request", request_id="l1", revision="1", task="task_2"),
        injected("auth", "plan_request", request_id="a1", revision="1", task="task_1"),
    ) + lead.turn(injected("login", "plan_request", request_id="l2", revision="2", task="task_2"))
    decisions = {call.input["request_id"]: call.input["approve"] for call in reviews}
    assert decisions == {"l1": False, "a1": True, "l2": True}

    landed = lead.turn(injected("login", "result")) + lead.turn(injected("auth", "result"))
    assert [(call.name, call.input.get("name")) for call in landed] == [
        ("land_worktree", "login"),
        ("land_worktree", "auth"),
        ("list_tasks", None),
    ]
    assert "Both parts" in lead.last.text


def test_every_call_is_one_that_the_tools_accept() -> None:
    modules = ("tools.files", "tools.search", "tools.shell", "tools.board", "team.tools")
    more = ("team.plan_tools", "team.task_tools", "team.worktree_tools")
    inputs = {
        kind.name: kind.input_model
        for module in modules + more
        for kind in vars(import_module(f"team_runtime.{module}")).values()
        if hasattr(kind, "input_model") and hasattr(kind, "run")
    }
    with as_file(DEMO / "playbook.yaml") as path:
        scripts = read_playbook(path)

    for script in scripts.values():
        replies = [*script.start, *(reply for rule in script.rules for reply in rule.replies)]
        for tool, given in (call for reply in replies for call in reply.calls):
            inputs[tool].model_validate(given)
