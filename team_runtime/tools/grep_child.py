"""The child process of `grep`: reads a question as JSON on stdin, prints the matching lines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from team_runtime.store.beneath import Beneath, OutsideRoot
from team_runtime.tools.globbing import matches

MAX_LINE: Final = 300


def search(question: dict[str, Any]) -> Iterator[str]:
    """`path:line:text` for each match. Raises `re.error` for a bad pattern."""
    flags = re.IGNORECASE if question["ignoreCase"] else 0
    pattern = re.compile(question["pattern"].encode(), flags)
    beneath = Beneath(Path(question["root"]))
    for path in _files(beneath, question):
        try:
            data = beneath.read(path)
        except (OSError, OutsideRoot):
            continue
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.splitlines(), start=1):
            if pattern.search(line):
                yield f"{path}:{number}:{line[:MAX_LINE].decode('utf-8', 'replace')}"


def _files(beneath: Beneath, question: dict[str, Any]) -> Iterator[str]:
    below = question["below"]
    wanted = tuple(question["glob"].split("/")) if question["glob"] else None
    found = [path for path, is_dir in beneath.walk(below) if not is_dir] or [below]
    for path in found:
        if (
            wanted is None
            or matches(wanted, tuple(path.split("/")))
            or (len(wanted) == 1 and matches(wanted, (path.rpartition("/")[2],)))
        ):
            yield path


def main() -> int:
    question = json.load(sys.stdin)
    out = sys.stdout.buffer
    try:
        for shown, line in enumerate(search(question)):
            if shown == question["most"]:
                out.write(b"... (more matches; narrow the search)\n")
                break
            out.write(line.encode("utf-8", "replace") + b"\n")
    except re.error as error:
        print(f"the pattern is not a regular expression: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
