"""`team run` on a repository that nobody prepared for it, through the real SDK."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import Seen, TeamScript, events, git, team, team_environment
from tests.support.fake_messages import REFUSAL, FakeMessages, error, thinking, tool

REQUEST = "Give click a version helper, and document it afterwards."
ALLOW = ("--allow", "Bash(python3 -m compileall *)", "--allow", "land_worktree")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A real project's source, committed under a path that is no fun."""
    root = tmp_path / 'my repo\'s «Prüfung» "日本"'
    spec = importlib.util.find_spec("click")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    source = Path(spec.submodule_search_locations[0])
    shutil.copytree(source, root / "click", ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text("__pycache__/\n")
    (root / "日本 — é.txt").write_text("a file with a name\n")
    git(tmp_path, "init", "--quiet", "--initial-branch=trunk", str(root))
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message=As released")
    return root


def lead(seen: Seen) -> Iterator[Any]:
    yield [thinking(), "I look around.", tool("glob", {"pattern": "click/*.py"})]
    yield [
        thinking("two tasks"),
        tool("create_task", {"subject": "Add the helper", "description": "click/helper.py"}),
        tool("create_task", {"subject": "Document the helper", "blockedBy": ["task_1"]}),
    ]
    yield [
        tool("create_worktree", {"name": "helper", "task_id": "task_1"}),
        tool("create_worktree", {"name": "docs", "task_id": "task_2"}),
    ]
    yield [
        tool(
            "spawn_teammate",
            {
                "name": "anna",
                "role": "engineer",
                "prompt": "FIRST INSTRUCTION: add the helper.",
                "require_plan": True,
                "task_id": "task_1",
            },
        ),
        tool("spawn_teammate", {"name": "ben", "role": "writer", "prompt": "Take what is ready."}),
    ]
    yield "Anna and Ben are on it."
    landed: set[str] = set()
    decided: set[str] = set()
    while landed != {"helper", "docs"}:
        plan = seen.message(type="plan_request")
        if plan is not None and plan["request_id"] not in decided:
            decided.add(plan["request_id"])
            yield [tool("review_plan", {"request_id": plan["request_id"], "approve": True})]
        elif seen.message(type="result", **{"from": "anna"}) and "helper" not in landed:
            landed.add("helper")
            yield [tool("land_worktree", {"name": "helper"})]
        elif "docs are written" in (seen.message(type="result", **{"from": "ben"}) or {}).get(
            "body", ""
        ):
            landed.add("docs")
            yield [tool("land_worktree", {"name": "docs"})]
        else:
            yield "Waiting."
    yield [thinking(), "Both tasks have landed on trunk."]


def anna(seen: Seen) -> Iterator[Any]:
    yield [thinking(), tool("read_file", {"path": "click/utils.py", "limit": 20})]
    yield [tool("submit_plan", {"plan": "1. Add click/helper.py\n2. Compile everything"})]
    yield "The plan waits."
    assert seen.message(type="plan_decision", decision="approved")
    yield [thinking(), tool("write_file", {"path": "click/helper.py", "content": "VALUE = 1\n"})]
    yield [tool("bash", {"command": "python3 -m compileall -q click"})]
    yield [tool("complete_task", {"task_id": "task_1", "summary": "Added the helper."})]
    yield "The helper is there."


def ben(seen: Seen) -> Iterator[Any]:
    yield "Nothing is ready yet."
    assert seen.message(type="task_assigned", task="task_2")
    # The blocker's work must be here, although it may not have landed yet.
    yield [tool("read_file", {"path": "click/helper.py"})]
    assert "VALUE = 1" in seen.text
    yield [tool("write_file", {"path": "HELPER.md", "content": "# The helper\n"})]
    yield [tool("complete_task", {"task_id": "task_2", "summary": "Documented the helper."})]
    yield "The docs are written."


def check_landed(root: Path, result: dict[str, Any]) -> None:
    assert [task["status"] for task in result["tasks"]] == ["completed", "completed"]
    for task in result["tasks"]:
        commit = task["result"]["commit"]
        git(root, "merge-base", "--is-ancestor", commit, "trunk")
        assert git(root, "rev-parse", f"team/{task['worktree']}") == commit
    assert (root / "click" / "helper.py").read_text() == "VALUE = 1\n"
    assert (root / "HELPER.md").is_file()
    assert git(root, "status", "--porcelain") == ""
    assert git(root, "branch", "--show-current") == "trunk"


def run(root: Path, tmp_path: Path, api: FakeMessages, *more: str) -> Any:
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    environ = team_environment(home, api.url)
    return team(["run", REQUEST, "--output-format", "json", *ALLOW, *more], root, environ)


def test_two_dependent_tasks_land_on_a_repository_nobody_prepared(
    repository: Path, tmp_path: Path
) -> None:
    with FakeMessages(TeamScript({"lead": lead, "anna": anna, "ben": ben})) as api:
        done = run(repository, tmp_path, api)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["subtype"] == "success"
    assert result["result"] == "Both tasks have landed on trunk."
    check_landed(repository, result)
    assert api.problems() == []
    assert "sk-canary" not in "".join(
        p.read_text(errors="replace") for p in (repository / ".team").rglob("*") if p.is_file()
    )


def _with_faults(plain: Any, faults: dict[int, list[Any]]) -> Any:
    """`plain` with extra replies before the nth one; each fault is one more request."""

    def script(seen: Seen) -> Iterator[Any]:
        for number, reply in enumerate(plain(seen)):
            yield from faults.get(number, [])
            yield reply

    return script


@pytest.mark.slow
def test_the_same_with_every_fault_injected(repository: Path, tmp_path: Path) -> None:
    many = [
        tool("read_file", {"path": "click/core.py", "limit": 3}, id=f"toolu_many_{n}")
        for n in range(64)
    ]
    cut_call = tool("write_file", raw_input='{"path": "click/helper.py", "content": "VAL')
    faults_of_lead: dict[int, list[Any]] = {
        0: [error("rate_limit_error", retry_after=0)],
        1: [error("overloaded_error")] * 12,
        2: [{"content": "half a reply", "cut": 4, "how": "rst"}],
    }
    faults_of_anna: dict[int, list[Any]] = {
        0: [many],
        1: [{"content": ["A clean early end."], "cut": 4, "how": "eof"}],
        3: [
            {"content": [thinking(), cut_call], "stop_reason": "max_tokens"},
            [tool("write_file", raw_input='{"path": "click/helper.py", "content": ')],
        ],
        4: [REFUSAL, {"content": ["x"], "cut": 5, "how": "error:overloaded_error"}],
    }
    scripts = {
        "lead": _with_faults(lead, faults_of_lead),
        "anna": _with_faults(anna, faults_of_anna),
        "ben": ben,
    }
    with FakeMessages(TeamScript(scripts)) as api:
        done = run(repository, tmp_path, api)
    assert done.returncode == 0, done.stderr
    check_landed(repository, json.loads(done.stdout))
    assert api.problems() == []
    retries = [e for e in events(repository) if e["kind"] == "api_retry"]
    assert len(retries) == 1 + 12 + 1 + 1 + 1
    answered = [
        block
        for r in api.log
        for block in r["body"]["messages"][-1]["content"]
        if block.get("tool_use_id", "").startswith("toolu_many_")
    ]
    assert len(answered) >= 64
    assert (repository / "click" / "helper.py").read_text() == "VALUE = 1\n"


@pytest.mark.slow
def test_sixty_calls_in_a_row_keep_the_first_instruction(repository: Path, tmp_path: Path) -> None:
    def patient(seen: Seen) -> Iterator[Any]:
        for n in range(60):
            assert "FIRST INSTRUCTION" in json.dumps(seen.body["messages"][0])
            yield [
                thinking(),
                tool("read_file", {"path": "click/core.py", "offset": n, "limit": 1}),
            ]
        yield from anna(seen)

    with FakeMessages(TeamScript({"lead": lead, "anna": patient, "ben": ben})) as api:
        done = run(repository, tmp_path, api)
    assert done.returncode == 0, done.stderr
    check_landed(repository, json.loads(done.stdout))
    assert api.problems() == []
    annas = [r for r in api.log if r["conversation"].split("/")[1] == "anna"]
    assert len(annas) >= 66
    assert all(r["prefix"] is None or r["prefix"]["append_only"] for r in annas)
