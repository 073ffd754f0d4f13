"""A team of coding agents that share a task board, each in its own git worktree.

These are the public names. Each is imported when it is first used, so that `import team_runtime`
costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from team_runtime.app.request import RunRequest, RunResult
    from team_runtime.app.run import run_team_in as run_team
    from team_runtime.board.base import Claim
    from team_runtime.board.json_board import JsonBoard as Board
    from team_runtime.board.memory_board import MemoryBoard
    from team_runtime.board.model import Task, Why
    from team_runtime.bus.mailbox import Mailbox
    from team_runtime.bus.memory import MemoryBus
    from team_runtime.bus.message import Message
    from team_runtime.config import Settings
    from team_runtime.errors import (
        ClaimRefused,
        InputError,
        LimitReached,
        MailboxBusy,
        ModelFailed,
        StaleClaim,
        StoreFailed,
        TeamError,
        UnknownRecipient,
        UnknownTask,
    )
    from team_runtime.guard.hook_config import PythonHook
    from team_runtime.models.base import Model, ModelReply, ModelRequest
    from team_runtime.models.scripted import ScriptedModel

__all__ = [
    "Board",
    "Claim",
    "ClaimRefused",
    "InputError",
    "LimitReached",
    "Mailbox",
    "MailboxBusy",
    "MemoryBoard",
    "MemoryBus",
    "Message",
    "Model",
    "ModelFailed",
    "ModelReply",
    "ModelRequest",
    "PythonHook",
    "RunRequest",
    "RunResult",
    "ScriptedModel",
    "Settings",
    "StaleClaim",
    "StoreFailed",
    "Task",
    "TeamError",
    "UnknownRecipient",
    "UnknownTask",
    "Why",
    "run_team",
]

_PLACES: Final = {
    "Board": "board.json_board.JsonBoard",
    "Claim": "board.base.Claim",
    "Mailbox": "bus.mailbox.Mailbox",
    "MemoryBoard": "board.memory_board.MemoryBoard",
    "MemoryBus": "bus.memory.MemoryBus",
    "Message": "bus.message.Message",
    "Model": "models.base.Model",
    "ModelReply": "models.base.ModelReply",
    "ModelRequest": "models.base.ModelRequest",
    "PythonHook": "guard.hook_config.PythonHook",
    "RunRequest": "app.run.RunRequest",
    "RunResult": "app.run.RunResult",
    "ScriptedModel": "models.scripted.ScriptedModel",
    "Settings": "config.Settings",
    "Task": "board.model.Task",
    "Why": "board.model.Why",
    "run_team": "app.run.run_team_in",
}
"""Where each name is; the others are errors."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _PLACES.get(name, f"errors.{name}").rpartition(".")
    value = getattr(import_module(f"{__name__}.{module}"), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
