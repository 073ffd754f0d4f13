"""Locks end with their holder, whatever ends it, and say who holds them."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from team_runtime.errors import Held, StoreBusy, StoreFailed, TeamRunning
from team_runtime.store.files import Store
from team_runtime.store.presence import RunPresence, Runs, daemon_pid, hold_daemon, hold_team
from team_runtime.store.records import decode_record, encode_record
from team_runtime.types import Liveness
from tests.support.state import ended, forked, in_child, make_store, program, together

START = """
import sys
from pathlib import Path
from team_runtime.store.files import Store
from team_runtime.store.presence import RunPresence, hold_team
store = Store.open(Path(sys.argv[1]))
presence = RunPresence.start(store, {"session": "s-1"})
hold = hold_team(store, "s-1")
lock = store.lock("short")
lock.__enter__()
print(presence.run, flush=True)
sys.stdin.readline()
presence.end()
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def test_a_lock_excludes_threads(store: Store) -> None:
    inside: list[int] = []
    most: list[int] = []

    def enter(n: int) -> None:
        for _ in range(20):
            with store.lock("x"):
                inside.append(n)
                most.append(len(inside))
                inside.remove(n)

    together(*(lambda n=n: enter(n) for n in range(4)))
    assert max(most) == 1


def test_a_busy_lock_names_its_holder(store: Store) -> None:
    with store.lock("x"), pytest.raises(StoreBusy, match=rf"x\.lock.*process {os.getpid()}"):
        together(lambda: store.lock("x", timeout=0.02).__enter__())


def test_locks_stay_and_are_private(store: Store) -> None:
    with store.lock("x"):
        pass
    assert (store.layout.locks / "x.lock").stat().st_mode & 0o777 == 0o600


def test_a_hold_carries_a_record(store: Store) -> None:
    with store.hold("x", {"a": 1}):
        with pytest.raises(Held) as caught:
            store.hold("x", {})
        assert caught.value.info["a"] == 1
        assert caught.value.pid == str(os.getpid())
    store.hold("x", {}).release()


def test_what_has_another_name_is_no_lock_and_is_not_written(store: Store) -> None:
    other = store.layout.workspace / "other"
    other.write_text("precious")
    store.folder(store.layout.locks)
    os.link(other, store.layout.locks / "x.lock")
    with pytest.raises(StoreFailed, match="it has another name"):
        store.hold("x", {})
    assert other.read_text() == "precious"


def test_a_forked_child_neither_has_nor_keeps_a_hold(store: Store) -> None:
    hold = store.hold("x", {})
    read, write = os.pipe()

    def wait_without_it() -> None:
        os.close(write)
        os.read(read, 1)
        assert not hold.held

    child = forked(wait_without_it)
    hold.release()
    store.hold("x", {}).release()  # although the child lives
    os.close(write)
    os.close(read)
    assert ended(child) == 0


def test_a_second_team_is_refused_and_kill_9_frees_everything(store: Store, tmp_path: Path) -> None:
    first = program(START, tmp_path)
    assert first.stdout is not None
    run = first.stdout.readline().strip()
    with pytest.raises(TeamRunning) as caught:
        hold_team(store, "s-2")
    assert (caught.value.pid, caught.value.session) == (str(first.pid), "s-1")
    runs = Runs(store)
    assert runs.liveness(run) is Liveness.ALIVE
    assert [(r["run"], r["pid"], r["session"]) for r in runs.known()] == [(run, first.pid, "s-1")]

    first.send_signal(signal.SIGSTOP)
    assert runs.liveness(run) is Liveness.ALIVE
    first.kill()
    first.communicate()
    assert runs.liveness(run) is Liveness.DEAD
    hold_team(store, "s-2").release()
    with store.lock("short", timeout=0.5):
        pass
    runs.forget(run)
    assert (runs.known(), runs.liveness(run)) == ([], Liveness.DEAD)


def test_a_daemon_is_known_by_its_lock_and_not_by_the_number_that_it_left(store: Store) -> None:
    with hold_daemon(store):
        assert daemon_pid(store) == str(os.getpid())
    left = store.layout.locks / "daemon.lock"
    left.write_bytes(encode_record({"v": 1, "pid": os.getpid()}))  # of a dead one; lives again
    assert daemon_pid(store) is None


def test_a_daemon_starts_while_others_look_whether_there_is_one(store: Store) -> None:
    hold_daemon(store).release()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            daemon_pid(store)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        for _ in range(50):
            hold_daemon(store).release()
    finally:
        over.set()
        looker.join()


def test_a_hold_whose_folder_was_moved_says_so(store: Store) -> None:
    with store.hold("daemon", {}) as hold:
        assert hold.is_in_place
        moved = store.layout.locks.with_name("elsewhere")
        store.layout.locks.rename(moved)
        assert not hold.is_in_place
        store.hold("daemon", {}).release()  # another one, at the old place
        assert not hold.is_in_place


def test_a_run_lives_until_it_ends(store: Store) -> None:
    presence = RunPresence.start(store, {})
    assert presence.liveness(presence.run) is Liveness.ALIVE
    presence.forget(presence.run)
    assert Runs(store).liveness(presence.run) is Liveness.ALIVE
    presence.end()
    presence.end()
    assert presence.liveness(presence.run) is Liveness.DEAD


def test_probes_of_many_readers_do_not_disturb_each_other(store: Store) -> None:
    """gastown#4793: what was alive and what was dead changed with who looked."""
    ended = RunPresence.start(store, {})
    path = store.layout.runs / f"{ended.run}.json"
    data = path.read_bytes()
    status = in_child(lambda: RunPresence.start(store, {}))  # dies without an end
    assert status == 0
    (dead,) = [r["run"] for r in Runs(store).known() if r["run"] != ended.run]

    def probe() -> set[Liveness]:
        return {Runs(store).liveness(dead) for _ in range(100)}

    assert set.union(*together(*[probe] * 4)) == {Liveness.DEAD}
    assert data == path.read_bytes()
    ended.end()


@pytest.mark.parametrize(
    "changed", [{"boot": "another"}, {"inode": 1}, {"device": 1}, {"boot": None}]
)
def test_a_run_of_elsewhere_is_unknown(store: Store, changed: dict[str, object]) -> None:
    """hermes#73277: equal pids in two containers were taken for one process."""
    run = RunPresence.start(store, {}).run
    path = store.layout.runs / f"{run}.json"
    record = decode_record(path.read_bytes(), path, 1)
    path.write_bytes(encode_record({**record, **changed}))
    assert Runs(store).liveness(run) is Liveness.UNKNOWN


def test_a_host_that_changes_its_name_keeps_its_runs(store: Store) -> None:
    presence = RunPresence.start(store, {})
    path = store.layout.runs / f"{presence.run}.json"
    record = decode_record(path.read_bytes(), path, 1)
    path.write_bytes(encode_record({**record, "host": "renamed"}))
    assert Runs(store).liveness(presence.run) is Liveness.ALIVE


def test_a_copied_workspace_judges_nobody(store: Store, tmp_path: Path) -> None:
    run = RunPresence.start(store, {}).run
    copy = make_store(tmp_path / "copy")
    copy.folder(copy.layout.runs)
    data = (store.layout.runs / f"{run}.json").read_bytes()
    (copy.layout.runs / f"{run}.json").write_bytes(data)
    assert Runs(copy).liveness(run) is Liveness.UNKNOWN


@pytest.mark.parametrize("content", [b"", b"{", b"[]"])
def test_a_broken_record_is_unknown(store: Store, content: bytes) -> None:
    run = RunPresence.start(store, {}).run
    (store.layout.runs / f"{run}.json").write_bytes(content)
    assert Runs(store).liveness(run) is Liveness.UNKNOWN
    assert Runs(store).known() == []


@pytest.mark.parametrize("run", ["", "../x", "run-1", "run-" + "g" * 16])
def test_what_is_no_run_is_unknown(store: Store, run: str) -> None:
    assert Runs(store).liveness(run) is Liveness.UNKNOWN
