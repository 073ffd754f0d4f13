"""The file, shell and search tools of one agent, called as a model's calls are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.clock import SystemClock
from team_runtime.guard.base import Verdict
from team_runtime.guard.permissions import RulePermissions
from team_runtime.guard.rules import Rule, parse
from team_runtime.loop.asking import NOBODY, Answer, Checked
from team_runtime.loop.dispatch import Dispatch
from team_runtime.process.environment import scrubbed
from team_runtime.process.run import BlockingRunner
from team_runtime.tools.base import Place, Seen, Tool, ToolContext
from team_runtime.tools.files import EditFile, ReadFile, WriteFile
from team_runtime.tools.search import Glob, Grep
from team_runtime.tools.shell import Bash
from team_runtime.types import ToolCall, ToolResult
from tests.support.state import Events

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


def ask_nobody(checked: Checked) -> Answer:
    """Where no person can be asked, the answer is no."""
    return Answer(False, NOBODY, lacks_person=True)


def allowing(*rules: str) -> list[Rule]:
    return [parse(rule, Verdict.ALLOW, "allow rule", TOOL_NAMES) for rule in rules]


def denying(*rules: str) -> list[Rule]:
    return [parse(rule, Verdict.DENY, "deny rule", TOOL_NAMES) for rule in rules]


def asking(*rules: str) -> list[Rule]:
    return [parse(rule, Verdict.ASK, "ask rule", TOOL_NAMES) for rule in rules]


def permissions(
    mode: str = "default", allow: Sequence[str] = (), deny: Sequence[str] = ()
) -> RulePermissions:
    return RulePermissions(mode, allowing(*allow), denying(*deny))


class Desk:
    """An agent at work in `root`; by default in the worktree of its own task, with any command
    allowed."""

    def __init__(
        self,
        root: Path,
        *,
        mode: str = "default",
        allow: Sequence[str] = ("Bash",),
        deny: Sequence[str] = (),
        in_task: bool = True,
        grep_seconds: float = 20.0,
        environ: dict[str, str] | None = None,
    ) -> None:
        self.root = root
        self.events = Events()
        self.asked: list[Checked] = []
        self.answer = False
        self.spilled = root.parent / f"{root.name}-spilled"
        self._seen = Seen()
        self._environment = {**scrubbed(environ or {"PATH": "/usr/bin:/bin"}), "TEAM_AGENT": "ann"}
        self._ids = count(1)
        tools: list[Tool] = [
            Bash(), ReadFile(), WriteFile(), EditFile(), Glob(), Grep(grep_seconds)
        ]  # fmt: skip
        self.dispatch = Dispatch(
            agent="ann",
            tools={tool.name: tool for tool in tools},
            permissions=permissions(mode, allow, deny),
            place=lambda: Place(root, "task_1", "w" if in_task else None),
            gate=lambda effect: None,
            outside=lambda path: None,
            context=self._context,
            ask=self._ask,
            wait=_no_loop,
            clock=SystemClock(),
            emit=self.events,
        )

    def call(self, tool: str, **input: Any) -> ToolResult:
        """The result of one call."""
        (result,) = self.dispatch.run([ToolCall(f"call_{next(self._ids)}", tool, input)])
        return result

    def do(self, tool: str, **input: Any) -> str:
        """The text of a call that succeeds."""
        result = self.call(tool, **input)
        assert not result.is_error, result.content
        return result.content

    def fail(self, tool: str, **input: Any) -> str:
        """The text of a call that fails in a way its tool foresaw."""
        result = self.call(tool, **input)
        assert result.is_error, result.content
        assert "its effect is unknown" not in result.content
        assert "could not be checked" not in result.content
        return result.content

    def _ask(self, checked: Checked) -> Answer:
        self.asked.append(checked)
        return Answer(True) if self.answer else ask_nobody(checked)

    def _context(self, call_id: str, place: Place) -> ToolContext:
        return ToolContext(
            agent="ann",
            call_id=call_id,
            place=place,
            runner=BlockingRunner(),
            environment=self._environment,
            seen=self._seen,
            spill=self._spill,
            readable=(self.spilled,),
        )

    def _spill(self, name: str, data: bytes) -> Path:
        self.spilled.mkdir(exist_ok=True)
        path = self.spilled / name
        path.write_bytes(data)
        return path


def _no_loop(func: Callable[[*Ts], Awaitable[T]], *args: *Ts) -> T:
    raise AssertionError("nothing here waits on a loop")


def snapshot(root: Path) -> dict[str, tuple[int, bytes]]:
    """Everything below `root`: the mode of each path with a file's content or a link's target."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(root.rglob("*")):
        mode = path.lstat().st_mode
        if path.is_symlink():
            content = str(path.readlink()).encode()
        else:
            content = path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(root))] = (mode, content)
    return found
