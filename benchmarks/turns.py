"""What the runtime adds to a turn, beside the least that any loop can add.

Both talk to the same fake Messages API in a process of its own, take the same number of turns with
one `read_file` each, and are timed by the server: from the last byte of a reply to the first byte
of the next request. Prints medians in milliseconds and their ratio.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

TURNS = 200


def serve(pipe: Connection) -> None:
    """Run the fake until told to stop, then send back when each request came and was answered."""
    from tests.support.fake_messages import FakeMessages, tool

    replies = [[tool("read_file", {"path": "file.txt"})] for _ in range(TURNS)]
    with FakeMessages([*replies, "Done."], keep_bodies=False) as api:
        pipe.send(api.url)
        pipe.recv()
        pipe.send([(r["t_ns"], r["t_done_ns"]) for r in api.log])


@contextmanager
def fake() -> Iterator[tuple[str, Connection]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,))
    process.start()
    yield ours.recv(), ours
    process.join()


def gaps(pipe: Connection) -> list[float]:
    """Milliseconds between each reply and the next request."""
    pipe.send("stop")
    times = pipe.recv()
    return [(times[i + 1][0] - times[i][1]) / 1e6 for i in range(len(times) - 1)]


def runtime(folder: Path) -> list[float]:
    """`team run` on a repository with one file."""
    for arguments in (
        ["init", "--quiet"],
        ["add", "."],
        ["-c", "user.name=b", "-c", "user.email=b@localhost", "commit", "--quiet", "-m", "one"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    with fake() as (url, pipe):
        environ = {**os.environ, "ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none"}
        command = [sys.executable, "-m", "team_runtime", "run", "read", "--output-format", "json"]
        subprocess.run(command, cwd=folder, env=environ, check=True, capture_output=True)
        return gaps(pipe)


def floor(folder: Path) -> list[float]:
    """The least a loop can do: plain HTTP, messages kept as encoded bytes, no state on disk."""
    with fake() as (url, pipe):
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        messages = [b'{"role":"user","content":"read"}']
        head = (
            b'{"model":"m","max_tokens":1000,"stream":true,'
            b'"tools":[{"name":"read_file","input_schema":{"type":"object"}}],"messages":['
        )
        headers = {"anthropic-version": "2026-10-21", "authorization": "Bearer none"}
        while True:
            connection.request("POST", "/v1/messages", head + b",".join(messages) + b"]}", headers)
            call = tool_call(connection.getresponse().read())
            if call is None:
                return gaps(pipe)
            text = (folder / "file.txt").read_text()
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
            messages.append(json.dumps({"role": "assistant", "content": [call]}).encode())
            messages.append(json.dumps({"role": "user", "content": [result]}).encode())


def tool_call(stream: bytes) -> dict[str, Any] | None:
    """The tool call in a streamed reply."""
    call, parts = None, []
    for line in stream.decode().splitlines():
        event = json.loads(line[6:]) if line.startswith("data: ") else {}
        if event.get("type") == "content_block_start":
            call = event["content_block"]
        parts.append((event.get("delta") or {}).get("partial_json", ""))
    if call is None or call["type"] != "tool_use":
        return None
    return {**call, "input": json.loads("".join(parts))}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file.txt").write_text("line\n" * 160)
        rows = {"team run": runtime(folder), "least loop": floor(folder)}
    for who, found in rows.items():
        early, late = statistics.median(found[5:15]), statistics.median(found[-15:-2])
        print(  # noqa: T201
            f"{who:<12} median {statistics.median(found):6.2f} ms   "
            f"turns 5-15 {early:6.2f} ms   last {late:6.2f} ms   growth {late / early:4.2f}"
        )
    ratio = statistics.median(rows["team run"]) / statistics.median(rows["least loop"])
    print(f"team run takes {ratio:.1f} times the least loop")  # noqa: T201


if __name__ == "__main__":
    main()
