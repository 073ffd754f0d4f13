"""The durable primitives: what they promise when something goes wrong."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from team_runtime.errors import InputError, OutcomeUnknown, RecordBroken, StoreFailed
from team_runtime.store.files import Store
from team_runtime.store.layout import Layout, check_agent_name, check_worktree_name
from tests.support.state import AtStep, Events, in_child, make_store, together


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return make_store(tmp_path)


def test_replace_swaps_only_what_is_still_there(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "record"
    assert store.replace(path, None, b"one")
    assert not store.replace(path, None, b"other")
    assert store.replace(path, b"one", b"two")
    assert not store.replace(path, b"one", b"three")
    assert not store.replace(path, b"tw", b"three")
    assert store.read(path) == b"two"
    assert path.stat().st_mode & 0o777 == 0o600


def test_replace_of_a_file_that_is_gone_does_nothing(store: Store, tmp_path: Path) -> None:
    assert not store.replace(tmp_path / "record", b"one", b"two")
    assert store.read(tmp_path / "record") is None


def test_publish_never_overwrites(store: Store, tmp_path: Path) -> None:
    store.publish(tmp_path / "a", b"first")
    with pytest.raises(FileExistsError):
        store.publish(tmp_path / "a", b"second")
    assert store.read(tmp_path / "a") == b"first"
    answers = together(
        *(lambda n=n: store.replace(tmp_path / "b", None, b"%d" % n) for n in range(8))
    )
    assert sorted(answers) == [False] * 7 + [True]


def test_a_record_has_a_size_limit_both_ways(store: Store, tmp_path: Path) -> None:
    large = b"x" * (16 * 2**20 + 1)
    with pytest.raises(InputError):
        store.publish(tmp_path / "a", large)
    (tmp_path / "b").write_bytes(large)
    with pytest.raises(RecordBroken, match="larger"):
        store.read(tmp_path / "b")


def test_errors_name_the_path_and_the_cause(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreFailed, match=r"file/below could not be written: Not a directory"):
        store.publish(tmp_path / "file" / "below", b"x")
    with pytest.raises(StoreFailed, match="could not be made"):
        store.folder(tmp_path / "file")


FAILURES: dict[str, Callable[[Store, Path], object]] = {
    "replace": lambda store, path: store.replace(path, b"old", b"new"),
    "publish": lambda store, path: store.publish(path.with_name("fresh"), b"new"),
    "append": lambda store, path: store.append(path.with_name("log"), b"line"),
    "remove": lambda store, path: store.remove(path),
    "quarantine": lambda store, path: store.quarantine(path, "it is broken"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_at_any_step_leaves_whole_files_and_works_again(
    tmp_path: Path, name: str, code: int
) -> None:
    act = FAILURES[name]

    def fail() -> None:
        raise OSError(code, os.strerror(code))

    for n in count(1):
        workspace = tmp_path / str(n)
        path = make_store(workspace).layout.team / "record"
        path.write_bytes(b"old")
        faults = AtStep(n, fail)
        assert cause_of_failure(lambda: act(make_store(workspace, faults, "power"), path)) in (  # noqa: B023
            os.strerror(code),
            None,
        )
        files = [p for p in workspace.rglob("*") if p.is_file() and p.name != ".gitignore"]
        contents = [p.read_bytes() for p in files]
        whole = [c for c in contents if c in (b"old", b"new", b"line\n") or b"set aside" in c]
        assert len(whole) == len([c for c in contents if c])
        assert b"old" in whole or b"new" in whole or name == "remove"
        again = Store.open(workspace)
        assert not list(workspace.rglob(".tmp-*"))
        if path.exists() and name != "publish":
            assert act(again, path) is not False or path.read_bytes() == b"new"
        if faults.count < n:
            break


def cause_of_failure(act: Callable[[], object]) -> str | None:
    try:
        act()
    except StoreFailed as failed:
        return failed.cause
    return None


def test_an_unconfirmed_swap_is_checked_and_said(tmp_path: Path) -> None:
    failures = iter([True, False, True, True])

    def fail(moment: str, path: Path) -> None:
        if moment == "before fsync folder" and next(failures):
            raise OSError(errno.EIO, "Input/output error")

    store = make_store(tmp_path, fail, "power")
    (tmp_path / "a").write_bytes(b"1")
    assert store.replace(tmp_path / "a", b"1", b"2")
    with pytest.raises(OutcomeUnknown, match="Read it again"):
        store.replace(tmp_path / "a", b"2", b"3")
    assert store.read(tmp_path / "a") == b"3"


@pytest.mark.parametrize("kept", range(6))
def test_a_torn_tail_is_dropped_and_never_spoils_the_next_line(
    store: Store, tmp_path: Path, kept: int
) -> None:
    path = tmp_path / "log"
    store.append(path, b"first")
    with path.open("ab") as file:
        file.write(b"torn!"[:kept])
    assert store.read_lines(path) == [b"first"]
    store.append(path, b"second")
    assert [line for line in store.read_lines(path) if line] == [b"first", b"second"]
    assert store.read_lines(path)[-1] == b"second"


def test_lines_of_many_writers_stay_whole(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "log"

    def write(name: str) -> None:
        for n in range(50):
            store.append(path, f"{name} {n} {'x' * 200}".encode())

    together(*(lambda n=n: write(str(n)) for n in range(4)))
    lines = store.read_lines(path)
    assert len([line for line in lines if line]) == 200
    assert all(line.endswith(b"x" * 200) for line in lines if line)


def test_a_line_that_is_just_being_written_is_not_taken_for_torn(tmp_path: Path) -> None:
    """Another process sees the file grow by pages."""
    path = tmp_path / "log"
    stores = [make_store(tmp_path) for _ in range(4)]

    def write(store: Store) -> None:
        for _ in range(30):
            store.append(path, b"x" * 500_000)

    together(*(lambda store=store: write(store) for store in stores))
    assert {len(line) for line in stores[0].read_lines(path)} == {500_000}


def test_quarantine_keeps_what_was_there_before(tmp_path: Path) -> None:
    events = Events()
    store = make_store(tmp_path, emit=events)
    places = []
    for text in ("one", "two"):
        (tmp_path / "bad").write_text(text)
        places.append(store.quarantine(tmp_path / "bad", "it is broken"))
    assert [place.read_text() for place in places] == ["one", "two"]
    assert "it is broken" in places[0].with_name(places[0].name + ".why").read_text()
    assert events.kinds() == ["quarantined"] * 2


def test_litter_of_the_dead_goes_and_that_of_the_living_stays(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    for folder in (store.layout.tasks, store.layout.mail / "a" / "tmp", store.layout.rescue):
        store.folder(folder)
        (folder / f".tmp-{'0' * 16}").write_text("left by a crash")
    (store.layout.tasks / ".tmp-mine").write_text("a person's")
    alive, descriptor = store.temporary(store.layout.tasks, 1)
    Store.open(tmp_path)
    left = {path.relative_to(tmp_path) for path in tmp_path.rglob(".tmp-*")}
    assert left == {
        alive.relative_to(tmp_path),
        Path(".tasks/.tmp-mine"),
        Path(f".team/rescue/.tmp-{'0' * 16}"),
    }
    os.close(descriptor)


@pytest.mark.parametrize("name", [".team", ".tasks"])
def test_a_state_folder_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    """Claude Code's changelog: its own folder was a link to another one."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreFailed, match="link"):
        Layout(tmp_path).prepare()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_state_folders_are_private(tmp_path: Path) -> None:
    store = make_store(tmp_path / "new" / "workspace")
    for folder in (store.layout.mail / "a", store.layout.tasks):
        store.folder(folder)
    for folder in (
        store.layout.team,
        store.layout.tasks,
        store.layout.mail,
        store.layout.mail / "a",
    ):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_new_state_folder_hides_itself_from_git_and_is_all_there_is(tmp_path: Path) -> None:
    for _ in range(2):
        Layout(tmp_path).prepare()
        assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == {
            ".team",
            ".team/.gitignore",
        }
    assert (tmp_path / ".team" / ".gitignore").read_text() == "*\n"


def test_a_state_folder_in_which_something_is_gets_nothing_from_us(tmp_path: Path) -> None:
    (tmp_path / ".team").mkdir()
    (tmp_path / ".team" / "theirs").write_text("came with the repository\n")
    Layout(tmp_path).prepare()
    assert [path.name for path in (tmp_path / ".team").iterdir()] == ["theirs"]


def test_a_store_works_on_in_a_forked_child(store: Store, tmp_path: Path) -> None:
    assert in_child(lambda: store.publish(tmp_path / "a", b"child")) == 0
    assert store.read(tmp_path / "a") == b"child"


@pytest.mark.parametrize("name", ["lead", "a", "0-x", "a" * 40])
def test_agent_names_that_are_fine(name: str) -> None:
    assert check_agent_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "-a", "a" * 41, "a/b", "..", "a\n", "ä", "a.b"])
def test_agent_names_that_are_refused(name: str) -> None:
    with pytest.raises(Exception, match="not a valid agent name"):
        check_agent_name(name)


@pytest.mark.parametrize("name", ["fix", "Fix_1.2-x", "a" * 64, "HEADS"])
def test_worktree_names_that_are_fine(name: str) -> None:
    assert check_worktree_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a..b", "HEAD", "x.lock", "x.", "-x", ".x", "a/b", "a" * 65, "a b", "x\n"],
)
def test_worktree_names_that_are_refused(name: str) -> None:
    with pytest.raises(Exception, match="not a valid worktree name"):
        check_worktree_name(name)
