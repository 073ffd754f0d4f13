"""The command line in this process, with streams of its own, and on a terminal."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import selectors
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from fcntl import ioctl
from pathlib import Path
from typing import Any

from team_runtime.cli.main import main


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON value on stdout, after a command that succeeded."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def team_here(folder: Path, *arguments: str, stdin: str = "") -> Ran:
    """Run `team ARGUMENTS` in `folder`. Much faster than a process; it sees `os.environ`."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8")
    try:
        with chdir(folder), redirect_stdout(out), redirect_stderr(err):
            main(list(arguments))
    except SystemExit as end:
        return Ran(int(str(end.code)), _written(out), _written(err))
    finally:
        sys.stdin = before


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


class OnTerminal:
    """A `team` command on a terminal, and the person in front of it."""

    def __init__(
        self, arguments: Sequence[str], cwd: Path, environ: Mapping[str, str], columns: int = 100
    ) -> None:
        self._ours, theirs = pty.openpty()
        ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
        self.shown = ""
        self._from = 0
        self.process = subprocess.Popen(
            [sys.executable, "-m", "team_runtime", *arguments],
            cwd=cwd,
            env={**environ, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def until(self, wanted: re.Pattern[str]) -> re.Match[str]:
        """The first match in what is shown from here on."""
        while (match := wanted.search(self.shown, self._from)) is None:
            assert self._read(), f"the command ended without {wanted.pattern!r}:\n{self.shown}"
        self._from = match.end()
        return match

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def hang_up(self) -> None:
        """Close the terminal."""
        os.close(self._ours)

    def end(self) -> int:
        """The exit code, once all is shown."""
        while self._read():
            pass
        return self.process.wait(50)

    def _read(self) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._ours, selectors.EVENT_READ)
            assert selector.select(40), f"nothing more is shown:\n{self.shown}"
        try:
            data = os.read(self._ours, 65536)
        except OSError:  # the other end is closed
            return False
        self.shown += data.decode(errors="replace")
        return bool(data)


def write_file(path: Path, text: str) -> str:
    """Write a small file; returns its path, for a command line."""
    path.write_text(text)
    return os.fspath(path)
