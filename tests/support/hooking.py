"""Hooks for tests: written as settings hold them, run on plain threads or beside an event loop."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from team_runtime.app.tools import TOOL_NAMES
from team_runtime.guard.hook_config import Hook, PythonHook, parse_hooks, python_hooks
from team_runtime.guard.hook_hosts import Host, ThreadHost
from team_runtime.guard.hook_origin import Source
from team_runtime.guard.hook_outcome import Outcome
from team_runtime.guard.hook_run import Surroundings
from team_runtime.guard.hooks import Hooks, Occasion
from team_runtime.process.environment import scrubbed
from tests.support.state import Events

Json = dict[str, Any]
ORIGIN = "settings.json"
INPUT: Json = {"command": "ls", "timeout": 5}


def shell(command: str, **more: Any) -> Json:
    """A handler that runs shell text."""
    return {"type": "command", "command": command, **more}


def printing(said: Any, **more: Any) -> Json:
    """A handler that prints this as JSON."""
    return shell(f"cat <<'END'\n{json.dumps(said)}\nEND", **more)


def deciding(decision: Any, reason: Any = "", **specific: Any) -> Json:
    """What a PreToolUse hook prints to decide."""
    specific = {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
        **specific,
    }
    return {"hookSpecificOutput": specific}


def table(event: str, *handlers: Json, matcher: str = "") -> Json:
    """A `hooks` table with these handlers for one event."""
    return {event: [{"matcher": matcher, "hooks": list(handlers)}]}


def parsed(given: Json, **source: Any) -> list[Hook]:
    """The hooks of a table."""
    return parse_hooks(given, Source(ORIGIN, TOOL_NAMES, **source)).hooks


def calling(*calls: Callable[[Mapping[str, Any]], Any], event: str = "PreToolUse") -> list[Hook]:
    """Hooks that are functions."""
    return python_hooks([PythonHook(event, call) for call in calls], TOOL_NAMES)


def make_hooks(
    hooks: Sequence[Hook],
    root: Path,
    events: Events | None = None,
    host: Host | None = None,
    environ: Mapping[str, str] | None = None,
) -> Hooks:
    """Hooks at work in a folder."""
    whole = environ or {"PATH": os.environ["PATH"]}
    around = Surroundings(root, scrubbed(whole), whole)
    return Hooks(hooks, around, host or ThreadHost(), events or Events())


def fire(hooks: Hooks, event: str = "PreToolUse", subject: str = "bash", **payload: Any) -> Outcome:
    """What the hooks say about a call of `bash`, or about another event."""
    return hooks.fire(event, Occasion("anna", {"tool_input": INPUT, **payload}, subject))


@contextmanager
def http_hook(answer: Callable[[Json, Mapping[str, str]], tuple[int, bytes]]) -> Iterator[str]:
    """The address of a server on loopback that answers hooks from their payload and headers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, data = answer(body, dict(self.headers.items()))
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", data.decode())
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = Thread(target=partial(server.serve_forever, poll_interval=0.01))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/hook"
        finally:
            server.shutdown()
            thread.join()
