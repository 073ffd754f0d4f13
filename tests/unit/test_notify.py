"""People are told what needs them, by real programs and services, and no agent waits for it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from team_runtime.errors import InputError
from team_runtime.events import no_events
from team_runtime.notify.base import Notice, NoticeLost
from team_runtime.notify.notifier import Notifier
from team_runtime.notify.sinks import Desktop, Service, make_sinks
from team_runtime.process.run import BlockingRunner
from tests.support.cli import team_here, write_file
from tests.support.scripted_team import make_repository

FAILED = {"kind": "task_failed", "agent": "auth", "task": "task_1", "note": "no\x1b[2J way\u202e"}


class Kept:
    """A sink that keeps what it is given, once it may."""

    name = "kept"

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.may = threading.Event()
        self.may.set()
        self.broken = False

    def send(self, notice: Notice) -> None:
        self.may.wait(10)
        if self.broken:
            raise NoticeLost("out of order")
        self.notices.append(notice)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A service on loopback, and what it was sent."""
    bodies: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            bodies.append(json.loads(self.rfile.read(length)))
            self.send_response(200 if self.path == "/ok" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"json://127.0.0.1:{server.server_port}", bodies
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repository")


def program(folder: Path, name: str, code: str) -> dict[str, str]:
    """An environment in which `name` is a program that keeps its arguments in `told`."""
    path = folder / name
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {folder}/told\n{code}\n")
    path.chmod(0o700)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("record", "title", "body"),
    [
        (FAILED, "task_1 was given up", "no\ufffd[2J way\ufffd"),
        (
            {"kind": "plan_submitted", "agent": "a", "task": "task_2", "plan": "p", "revision": 2},
            "a submitted a plan for task_2",
            "p revision 2",
        ),
        (
            {"kind": "agent_state", "agent": "a", "state": "failed", "task": "task_2"},
            "a has failed",
            "It held task_2.",
        ),
        (
            {"kind": "job_ended", "agent": "a", "job": "job_1", "status": "failed", "exit_code": 2},
            "job_1 of a failed",
            "Exit code 2",
        ),
        (
            {"kind": "run_ended", "exit_code": 1, "session": "s-1"},
            "The run ended with exit code 1",
            "Session s-1",
        ),
    ],
)
def test_what_needs_a_person_is_told_in_words_that_are_safe_to_show(
    record: dict[str, Any], title: str, body: str
) -> None:
    kept = Kept()
    notifier = Notifier([kept], no_events)
    notifier.on_event(record)
    notifier.close(10)
    assert kept.notices == [Notice(title, body)]


def test_what_can_wait_is_not_told() -> None:
    kept = Kept()
    notifier = Notifier([kept], no_events, left_out={"task_failed"})
    notifier.on_event(FAILED)
    notifier.on_event({"kind": "run_ended", "exit_code": 0, "session": "s"})
    notifier.on_event({"kind": "agent_state", "agent": "a", "state": "idle", "task": None})
    notifier.on_event({"kind": "tool_started", "agent": "a"})
    notifier.on_event({"kind": "job_ended", "agent": "a", "job": "job_1", "status": "completed"})
    notifier.close(10)
    assert kept.notices == []


def test_a_slow_service_holds_nobody_up_and_what_it_misses_is_said(said: list[str]) -> None:
    kept = Kept()
    kept.may.clear()
    notifier = Notifier([kept], lambda *_, **fields: said.append(fields["text"]))
    for _ in range(150):
        notifier.on_event(FAILED)
    closing = threading.Thread(target=notifier.close, args=[10])
    closing.start()
    kept.may.set()
    closing.join()
    assert 100 <= len(kept.notices) <= 101
    assert said == [f"{150 - len(kept.notices)} notifications to you could not be delivered"]


def test_a_sink_that_fails_is_named_once_and_the_others_go_on(said: list[str]) -> None:
    broken, kept = Kept(), Kept()
    broken.name, broken.broken = "broken", True
    notifier = Notifier([broken, kept], lambda *_, **fields: said.append(fields["text"]))
    notifier.on_event(FAILED)
    notifier.on_event(FAILED)
    notifier.close(10)
    assert len(kept.notices) == 2
    assert said == ["you could not be notified by broken: out of order"]


def test_a_service_of_apprise(service: tuple[str, list[dict[str, Any]]]) -> None:
    url, bodies = service
    (sink,) = make_sinks((f"{url}/ok",), BlockingRunner(), {}, lambda: None)
    sink.send(Notice("task_1 was given up", "no way"))
    assert [(b["title"], b["message"]) for b in bodies] == [("task_1 was given up", "no way")]
    assert sink.name == "json://…"
    with pytest.raises(NoticeLost, match="did not take it"):
        Service(f"{url}/refused").send(Notice("t"))


def test_the_desktop_gets_texts_that_are_no_options(tmp_path: Path) -> None:
    environ = program(tmp_path, "notify-send", "")
    Desktop(BlockingRunner(), environ, "linux").send(Notice("--help", "-x"))
    assert (tmp_path / "told").read_text().splitlines() == ["--app-name=team", "--", "--help", "-x"]
    environ = program(tmp_path, "osascript", "")
    Desktop(BlockingRunner(), environ, "darwin").send(Notice("--help", "-x"))
    assert (tmp_path / "told").read_text().splitlines()[-3:] == ["--", "--help", "-x"]


def test_a_desktop_that_cannot_show_it(tmp_path: Path) -> None:
    environ = program(tmp_path, "notify-send", "echo no display; exit 1")
    with pytest.raises(NoticeLost, match="no display"):
        Desktop(BlockingRunner(), environ, "linux").send(Notice("t"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("desktop", "needs notify-send|needs osascript"),
        ("nonsense", "none of bell, desktop"),
        ("nonsense://secret-token", "does not know the address nonsense://…$"),
    ],
)
def test_a_way_that_does_not_exist_is_an_error_at_the_start(name: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_sinks((name,), BlockingRunner(), {"PATH": "/nowhere"}, lambda: None)


def test_without_apprise_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(InputError, match=r"pip install 'team_runtime\[notify\]'"):
        make_sinks(("ntfys://topic",), BlockingRunner(), {}, lambda: None)


def test_the_bell() -> None:
    rung: list[bool] = []
    (bell,) = make_sinks(("bell", "bell"), BlockingRunner(), {}, lambda: rung.append(True))
    bell.send(Notice("t"))
    assert rung == [True]


def test_a_run_that_fails_is_told_before_it_is_over(
    service: tuple[str, list[dict[str, Any]]],
    tmp_path: Path,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEAM_CONFIG_DIR", str(tmp_path / "user"))
    playbook = write_file(
        tmp_path / "playbook.py", "def reply(agent, messages):\n    return 1 / 0\n"
    )
    url, bodies = service
    ran = team_here(
        repository, "run", "x", "--model", f"scripted:{playbook}", "--notify", f"{url}/ok"
    )
    assert ran.code != 0
    assert bodies[-1]["title"] == f"The run ended with exit code {ran.code}"
