"""The child process of `grep`: reads a question as JSON on stdin, prints the matching lines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from team_runtime.store.beneath import Beneath, OutsideRoot, printable

MAX_LINE: Final = 300


def search(question: dict[str, Any], skipped: list[str]) -> Iterator[str]:
    """`path:line:text` for each match; files that cannot be searched are added to `skipped`.

    Raises `re.error`, `OverflowError` or `RecursionError` for a bad pattern.
    """
    pattern = re.compile(question["pattern"], re.IGNORECASE if question["ignoreCase"] else 0)
    beneath = Beneath(Path(question["root"]))
    for path in question["files"]:
        # The files were chosen by their paths without links: a link is one that came since.
        try:
            _, data = beneath.read(path, {path}.__contains__, question["bytes"])
        except (OSError, OutsideRoot):
            skipped.append(path)
            continue
        if b"\0" in data[:8192]:
            continue
        for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), start=1):
            if pattern.search(line.removesuffix("\r")):
                yield f"{printable(path)}:{number}:{line[:MAX_LINE]}"


def main() -> int:
    question = json.load(sys.stdin)
    skipped: list[str] = []
    out = sys.stdout.buffer
    try:
        for shown, line in enumerate(search(question, skipped)):
            if shown == question["most"]:
                out.write(b"... (more matches; narrow the search)\n")
                break
            out.write(line.encode("utf-8", "replace") + b"\n")
    except (re.error, OverflowError, RecursionError) as error:
        print(f"the pattern is not a regular expression: {error}", file=sys.stderr)  # noqa: T201
        return 2
    for path in skipped[:10]:
        out.write(f"... ({printable(path)} is too large or cannot be read)\n".encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
