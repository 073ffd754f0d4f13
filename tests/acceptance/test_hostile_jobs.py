"""Background commands that do what they should not: none outlives its job, none loses its status,
and none costs much."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from team_runtime.daemons.job_parts import JobLimits
from team_runtime.process.sandbox import NoSandbox
from team_runtime.tools.base import Moved
from tests.support.confined import bubblewrap, landlock
from tests.support.interrupted import eventually
from tests.support.yard import Yard, opened

pytestmark = pytest.mark.slow

CAP = 80_000
CONFINED = {"bubblewrap": bubblewrap, "landlock": landlock}
DAEMON = (
    "python3 -c 'import os,time\nif os.fork(): os._exit(0)\n"
    "os.setsid()\nif os.fork(): os._exit(0)\n"
    'os.chdir("/")\nfor fd in range(3): os.close(fd)\ntime.sleep(300)\''
)


@dataclass(frozen=True)
class Case:
    """A command, and what must be known about it afterwards."""

    script: str
    code: str = "0"
    shows: bytes = b"ok\n"
    """What the output must end with."""
    left: int = 0
    """How many processes it leaves running, at least."""
    ended: bool = False
    """Whether it is to be ended once it has written something."""


CASES = {
    "daemonises": Case(f"{DAEMON}; echo ok", left=1),
    "starts a session": Case("setsid sleep 300 & echo ok", left=1),
    "forks twice into a session": Case("(setsid sh -c 'sleep 300 & sleep 300' &); echo ok", left=1),
    "backgrounds itself (claude-code#93126, claude-code#92399)": Case(
        "nohup sleep 60 & echo ok", left=1
    ),
    "disowns": Case("sleep 300 & disown; echo ok", left=1),
    "leaves a writer on the pipe (opencode#28654)": Case(
        "(trap '' PIPE TERM; while :; do echo ok; touch on; sleep 0.01; done) & "
        "until [ -e on ]; do sleep 0.01; done",
        left=1,
    ),
    "writes after its exit": Case("(sleep 20; echo late) & echo ok", left=1),
    "leaves what ignores TERM": Case(
        "(trap '' TERM HUP; sleep 300; sleep 300) & sleep 0.05; echo ok", left=1
    ),
    "ignores TERM": Case(
        "trap '' TERM; echo ok; while :; do sleep 1; done", code="137", ended=True
    ),
    "forks fifty": Case(
        "for i in $(seq 25); do setsid sleep 300 & sleep 300 & done; echo ok", left=25
    ),
    "goes on forking": Case(
        "(while :; do setsid sleep 300 & setsid sleep 300 & touch two; sleep 0.005; done) & "
        "until [ -e two ]; do sleep 0.01; done; echo ok",
        left=2,
    ),
    "closes its outputs": Case("echo ok; exec >&- 2>&-; sleep 0.1; exit 4", code="4"),
    "reads its input": Case("cat; read x || echo ok"),
    "kills its own group": Case("echo ok; kill -9 0", code="137"),
    "becomes another program": Case("echo ok; exec sh -c 'exit 5'", code="5"),
    "traps its exit": Case("trap 'echo ok' EXIT; exit 6", code="6"),
    "stops itself": Case("echo ok; kill -STOP $$; echo on", code="143|137", ended=True),
    "tidies up when asked to end": Case(
        "trap 'echo ok; exit 3' TERM; echo on; sleep 300 & wait", code="3", ended=True
    ),
    "exits with 255": Case("echo ok; exit 255", code="255"),
    "crashes": Case("echo ok; ulimit -c 0; kill -SEGV $$", code="139"),
    "writes no text": Case(r"printf 'a\377\376\000\033[2Jok\n'", shows=b"a\xff\xfe\0\x1b[2Jok\n"),
    "writes one huge line": Case("head -c 3000000 /dev/zero | tr '\\0' x; echo ok", shows=b"xok\n"),
    "fills the disk": Case("head -c 20000000 /dev/zero; echo ok"),
    "deletes its directory": Case('rm -rf "$PWD"/* ; cd ..; echo ok'),
    "waits on a pipe that nobody opens": Case("mkfifo f; (cat f) & echo ok", left=1),
}


@pytest.fixture(scope="module", params=["off", *CONFINED])
def yard(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    sandbox = CONFINED[request.param]() if request.param in CONFINED else NoSandbox()
    limits = JobLimits(output_bytes=CAP)
    with opened(tmp_path_factory.mktemp("yard"), sandbox, limits) as yard:
        yield yard


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_hostile_job(yard: Yard, case: Case) -> None:
    known = len(yard.messages())
    job_id = yard.start(case.script)
    if case.ended:
        eventually(lambda: yard.output(yard.store.get(job_id)))
        yard.on_thread(lambda: yard.kill(job_id, "that is enough"))
    job = yard.ended(job_id)

    assert yard.survivors() == []
    assert job.code in case.code.split("|"), job
    wanted = "killed" if case.ended else "completed" if case.code == "0" else "failed"
    assert job.status == wanted
    (message,) = yard.messages()[known:]
    assert message.attributes == {"job": job.id, "status": wanted, "exit_code": job.code}
    if not yard.jobs.parts.contained:
        assert len(job.survivors) >= case.left
        assert (f"{len(job.survivors)} process" in message.body) == (case.left > 0)
    output = yard.output(job)
    assert output.endswith(case.shows), output[-200:]
    kept = sum(part.stat().st_size for part in yard.store.output(job.id).iterdir())
    assert kept <= CAP
    assert job.bytes - job.dropped == kept
    assert yard.output(job) == output


def test_a_hostile_command_in_the_foreground_leaves_nothing_either(yard: Yard) -> None:
    ended = yard.foreground(f"{DAEMON}; setsid sleep 300 & echo ok; exit 9", 30)
    assert not isinstance(ended, Moved)
    assert (ended.status, ended.stdout) == (9, b"ok\n")
    assert yard.survivors() == []
