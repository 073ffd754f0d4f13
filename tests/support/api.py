"""A scripted team for the fake Messages API, and running the installed command against it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import Any

from tests.support.fake_messages import FakeMessages

Reply = Any
Script = Callable[["Seen"], Iterator[Reply]]
_MESSAGE = re.compile(r"<team_message ([^>]*)>(.*?)</team_message>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_IDENTITY = re.compile(r"You are ([a-z0-9-]+), ")


class Seen:
    """What one agent's latest request shows its script."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {}

    @property
    def last(self) -> list[dict[str, Any]]:
        """The blocks of the last user message."""
        content: list[dict[str, Any]] = self.body["messages"][-1]["content"]
        return content

    @property
    def text(self) -> str:
        """All text and results of the last user message."""
        return "\n".join(str(b.get("text") or b.get("content") or "") for b in self.last)

    def message(self, **wanted: str) -> dict[str, str] | None:
        """The newest injected message of the whole conversation with these attributes."""
        found = None
        for m in self.body["messages"]:
            for block in m["content"] if m["role"] == "user" else []:
                for attributes, body in _MESSAGE.findall(block.get("text", "")):
                    named = {k: unescape(v) for k, v in _ATTRIBUTE.findall(attributes)}
                    if all(named.get(k) == v for k, v in wanted.items()):
                        found = {**named, "body": unescape(body)}
        return found


class TeamScript:
    """Answers each agent's requests from a generator of its own; thread-safe.

    A generator sees the agent's latest request through its `Seen` and yields replies.
    """

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self._scripts = scripts
        self._running: dict[str, tuple[Seen, Iterator[Reply]]] = {}
        self._lock = threading.Lock()

    def __call__(self, record: Mapping[str, Any]) -> Reply:
        body = record["body"]
        match = _IDENTITY.match(body["system"][-1]["text"])
        assert match is not None, body["system"][-1]
        name = match[1]
        with self._lock:
            if name not in self._running:
                seen = Seen()
                self._running[name] = (seen, self._scripts[name](seen))
            seen, replies = self._running[name]
            seen.body = body
            return next(replies, "Nothing left to do.")


def team_environment(home: Path, url: str | None = None) -> dict[str, str]:
    """A clean environment: no identity, no configuration, no key but a made-up one."""
    names = ("PATH", "LANG", "VIRTUAL_ENV", "COVERAGE", "PYTHONPATH")
    kept = {k: v for k, v in os.environ.items() if k in names}
    named = {
        "HOME": str(home),
        "TEAM_CONFIG_DIR": str(home / "config"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "TEAM_RETRY_BASE_SECONDS": "0.002",
        "PYTHONWARNINGS": "error",
    }
    if url is not None:
        named |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-canary-not-a-key"}
    return {**kept, **named}


def team(
    arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], seconds: float = 50
) -> subprocess.CompletedProcess[str]:
    """Run `team ARGUMENTS` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "team_runtime", *arguments],
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def events(workspace: Path) -> list[dict[str, Any]]:
    """The event log of a workspace."""
    lines = (workspace / ".team" / "events.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def git(repository: Path, *arguments: str) -> str:
    """What git prints, without its last newline; for tests only."""
    identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
    done = subprocess.run(
        ["git", *identity, *arguments],
        cwd=repository,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.rstrip("\n")


__all__ = ["FakeMessages", "Seen", "TeamScript", "events", "git", "team", "team_environment"]
