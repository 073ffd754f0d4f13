"""The records of `--output-format json` and `stream-json`, in the form Claude Code users know."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from team_runtime.app.request import RunResult
from team_runtime.errors import LimitReached, RefusedError, TeamError
from team_runtime.types import Usage

REFUSED: Final = RefusedError.exit_code
_SHOWN: Final = (
    "task_", "plan_", "worktree_", "agent_", "permission_", "approval_", "schedule_", "job_",
)  # fmt: skip


class JsonStream:
    """Turns events and conversation entries into lines."""

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write
        self._lock = threading.Lock()
        self._started: dict[str, Any] | None = None

    def on_event(self, record: dict[str, Any]) -> None:
        kind = record["kind"]
        if kind == "run_started":
            self._started = record
        elif kind == "api_retry":
            self._put({"type": "system", "subtype": "api_retry", **_details(record)})
        elif kind.startswith(_SHOWN):
            self._put({"type": "event", **_details(record)})

    def on_entry(self, agent: str, entry: dict[str, Any]) -> None:
        kind = entry["kind"]
        if kind == "epoch":
            self._init(agent, entry)
        elif kind in ("user", "assistant") and entry["blocks"]:
            message: dict[str, Any] = {"role": kind, "content": entry["blocks"]}
            if kind == "assistant":
                message |= {
                    "model": entry["model"],
                    "stop_reason": entry["stopReason"],
                    "usage": entry["usage"],
                }
            self._put({"type": kind, "agent": agent, "message": message})

    def _init(self, agent: str, entry: dict[str, Any]) -> None:
        if self._started is None or agent != "lead":
            return
        self._put(
            {
                "type": "system",
                "subtype": "init",
                "session_id": self._started["session"],
                "model": self._started["model"],
                "tools": [tool["name"] for tool in entry["tools"]],
                "cwd": self._started["workspace"],
                "permission_mode": self._started["permission_mode"],
                "sandbox": self._started["sandbox"],
            }
        )

    def _put(self, record: dict[str, Any]) -> None:
        with self._lock:
            self._write(record)


def _details(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "run"}


def result_record(result: RunResult) -> dict[str, Any]:
    """The last record of a run, exactly once and whatever happened."""
    subtype = _subtype(result)
    return {
        "type": "result",
        "subtype": subtype,
        "is_error": subtype != "success",
        "result": result.ending.text or (str(result.ending.error) if result.ending.error else ""),
        "num_turns": result.turns,
        "duration_ms": round(result.seconds * 1000),
        "total_cost_usd": None,
        "usage": result.usage.to_api(),
        "session_id": result.session,
        "tasks": result.tasks,
    }


def failure_record(error: Exception) -> dict[str, Any]:
    """The last record of a run that could not begin or broke off."""
    refused = isinstance(error, TeamError) and error.exit_code == REFUSED
    return {
        "type": "result",
        "subtype": "error_refused" if refused else "error_during_execution",
        "is_error": True,
        "result": str(error) or type(error).__name__,
        "num_turns": 0,
        "duration_ms": 0,
        "total_cost_usd": None,
        "usage": Usage().to_api(),
        "session_id": None,
        "tasks": [],
    }


def _subtype(result: RunResult) -> str:
    error = result.ending.error
    if result.ending.interrupted:
        return "interrupted"
    if isinstance(error, LimitReached):
        return "error_timeout" if error.limit == "time" else "error_max_turns"
    if error is not None and error.exit_code == REFUSED:
        return "error_refused"
    return "success" if result.exit_code == 0 else "error_during_execution"
