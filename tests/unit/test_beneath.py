"""Reading, writing and listing below a folder, whatever the paths and links say."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.places import SETTINGS_FILE
from team_runtime.store import beneath as module
from team_runtime.store.beneath import (
    DEEPEST,
    Beneath,
    OutsideRoot,
    is_protected,
    printable,
    relative,
)
from tests.support.state import forked
from tests.support.tools import snapshot

MOST = 1 << 20


def anything(path: str) -> bool:
    return True


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a file, beside one that nobody may reach."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("secret")
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_text("content")
    return root


def read(root: Path, path: str) -> bytes:
    return Beneath(root).read(path, anything, MOST)[1]


def write(root: Path, path: str, data: bytes = b"new") -> str:
    return Beneath(root).write(path, data, anything)


# Names


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", "a"), ("./a/./b", "a/b"), ("a//b/", "a/b"), ("a/../b", "b"), (".", "."), ("", "."),
        ("a/..", "."), ("...", "..."), ("..a", "..a"), ("a b ", "a b "), ("a\nb", "a\nb"),
        ("/w/app/x", "x"), ("/w/app", "."), ("/w/app/./x/../y", "y"), ("-x", "-x"), ("~", "~"),
    ],
)  # fmt: skip
def test_a_path_becomes_normal(path: str, expected: str) -> None:
    assert relative(Path("/w/app"), path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "..", "../x", "a/../../x", "/", "/w", "/w/app-secrets/x", "/w/app/../x", "/w/apps",
        "//w/app/x", "/etc/passwd", "a/../..", "./..", "/W/app/x", "/w/ app/x",
    ],
)  # fmt: skip
def test_a_path_that_leads_out_is_refused(path: str) -> None:
    with pytest.raises(OutsideRoot):
        relative(Path("/w/app"), path)


@pytest.mark.parametrize("path", ["a\0b", "\0", "\ud800", "a/\udfff\ud800"])
def test_what_can_be_no_path_is_an_error(path: str) -> None:
    with pytest.raises(OSError, match="not a possible path"):
        relative(Path("/w/app"), path)


def test_a_path_that_is_deeper_than_programs_can_bear_is_an_error(root: Path) -> None:
    for deep in ("x/" * 3000 + "f", "x/" * DEEPEST + "f", f"{root}/{'x/' * DEEPEST}f"):
        with pytest.raises(OSError, match="folders deep"):
            relative(root, deep)
    assert relative(root, "x/" * (DEEPEST - 1) + "f").count("/") == DEEPEST - 1
    assert relative(root, "x/../" * 3000 + "f") == "f"


def test_an_absolute_path_may_name_the_folder_by_its_real_name(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to("root")
    assert read(tmp_path / "alias", str(root / "a" / "file")) == b"content"
    assert read(tmp_path / "alias", str(tmp_path / "alias" / "a" / "file")) == b"content"


@pytest.mark.parametrize(
    "path",
    [
        ".git", ".git/config", ".GIT/config", ".Git", "a/.git", "a/.git/hooks/x", ".tasks/x",
        ".TASKS", ".team/mail", ".Team", "worktrees/w/x", "Worktrees", "team.toml", "TEAM.toml",
        ".git ", ".git.", ".git. . /config", "a/.git /x", ".team.", "team.toml ", "GIT~1/config",
        "\uff0egit/config", ".\uff47\uff29\uff34", ".g\u200cit/hooks/x", "a/.\u00adgit",
        ".tas\uff4bs/x", ".\u1d57eam/mail", "worktree\u017f/w/x",
    ],
)  # fmt: skip
def test_protected_in_every_spelling(path: str) -> None:
    assert is_protected(path)


@pytest.mark.parametrize(
    "path", [".gitignore", ".github/x", "a/.team/x", "a/worktrees", "git", ".", ". ", "é/ü", "..."]
)
def test_not_protected(path: str) -> None:
    assert not is_protected(path)


def test_the_settings_of_the_workspace_are_protected() -> None:
    assert is_protected(SETTINGS_FILE)


# Links


def test_links_inside_are_followed(root: Path) -> None:
    (root / "one").symlink_to("two")
    (root / "two").symlink_to("a/../a/./b/../file")
    (root / "folder").symlink_to("a/")
    (root / "a" / "up").symlink_to("../a/b/..")
    (root / "self").symlink_to(".")
    for path in ("one", "two", "folder/file", "a/up/file", "self/self/one", "a/up/up/up/file"):
        assert Beneath(root).read(path, anything, MOST) == ("a/file", b"content")
        assert Beneath(root).resolve(path) == "a/file"
    assert Beneath(root).resolve("self") == "."
    assert Beneath(root).resolve("a/up") == "a"
    assert Beneath(root).resolve("folder") == "a"


@pytest.mark.parametrize(
    "target",
    [
        "../outside/secret",
        "/etc/hostname",
        "a/../../outside/secret",
        "..",
        "a/b/../../../root/a/file",
    ],
)
def test_links_that_lead_out_are_refused(root: Path, target: str) -> None:
    (root / "link").symlink_to(target)
    (root / "a" / "folder").symlink_to("../../outside")
    before = snapshot(root.parent)
    for path in ("link", "a/folder/secret"):
        for act in (read, write):
            with pytest.raises(OutsideRoot):
                act(root, path)
        with pytest.raises(OutsideRoot):
            Beneath(root).resolve(path)
    with pytest.raises(OutsideRoot):
        list(Beneath(root).walk("a/folder"))
    assert snapshot(root.parent) == before


def test_an_absolute_link_is_refused_even_if_it_leads_inside(root: Path) -> None:
    (root / "link").symlink_to(root / "a" / "file")
    with pytest.raises(OutsideRoot):
        read(root, "link")


def test_link_loops_end(root: Path) -> None:
    (root / "x").symlink_to("y")
    (root / "y").symlink_to("x")
    (root / "z").symlink_to("z/z/z")
    for n in range(40):
        (root / f"l{n}").symlink_to(f"l{n + 1}/../l{n + 1}")
    (root / "l40").symlink_to("a")
    for path in ("x", "z", "l0"):
        with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
            read(root, path)


def test_a_write_through_a_link_keeps_the_link(root: Path) -> None:
    (root / "link").symlink_to("a/file")
    assert write(root, "link") == "a/file"
    assert (root / "link").readlink() == Path("a/file")
    assert (root / "a" / "file").read_bytes() == b"new"


def test_a_write_through_a_dangling_link_makes_its_target(root: Path) -> None:
    (root / "link").symlink_to("a/c/new")
    assert write(root, "link") == "a/c/new"
    assert (root / "a" / "c" / "new").read_bytes() == b"new"


def test_a_file_that_becomes_a_link_once_it_was_looked_at_is_refused(root: Path) -> None:
    """`may` is asked between the look at the path and its use."""
    secret, file = root.parent / "outside" / "secret", root / "a" / "file"

    def swap(path: str) -> bool:
        file.unlink()
        file.symlink_to("../../outside/secret")
        return True

    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)):
        Beneath(root).read("a/file", swap, MOST)
    file.unlink()
    file.write_text("back")
    with pytest.raises(OSError, match="not a regular file"):
        Beneath(root).write("a/file", b"new", swap)
    assert secret.read_text() == "secret"


@pytest.mark.parametrize("times", [400, pytest.param(10_000, marks=pytest.mark.slow)])
def test_no_swapped_link_leads_out(root: Path, times: int) -> None:
    """CVE-2026-34452: another thread swaps a folder for a link to the outside, again and again."""
    (root / "bait").mkdir()
    (root / "bait" / "secret").write_text("harmless")
    (root / "trap").symlink_to("../outside")
    stop = threading.Event()

    def become_bait(name: str) -> None:
        while True:
            try:
                (root / name).rename(root / "bait")
            except OSError:  # a write found no folder there and made one
                shutil.rmtree(root / "bait", ignore_errors=True)
            else:
                return

    def swap() -> None:
        while not stop.is_set():
            (root / "bait").rename(root / "spare")
            become_bait("trap")
            (root / "bait").rename(root / "trap")
            become_bait("spare")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for n in range(times):
            try:
                assert read(root, "bait/secret") == b"harmless"
                if n % 10 == 0:
                    write(root, "bait/secret", b"harmless")
            except (OutsideRoot, OSError):
                continue
    finally:
        stop.set()
        thread.join()
    assert (root.parent / "outside" / "secret").read_text() == "secret"
    assert [path.name for path in (root.parent / "outside").iterdir()] == ["secret"]


# Asking


def test_the_path_after_all_links_is_asked_about(root: Path) -> None:
    (root / "notes.txt").symlink_to("folder/file")
    (root / "folder").symlink_to("a")
    asked: list[str] = []

    def no(path: str) -> bool:
        asked.append(path)
        return False

    with pytest.raises(PermissionError):
        Beneath(root).read("notes.txt", no, MOST)
    with pytest.raises(PermissionError):
        Beneath(root).write("folder/new/x", b"", no)
    assert asked == ["a/file", "a/new/x"]


@pytest.mark.parametrize("path", ["d/new/folder/x", "d/x", "link/y", ".git/new/x", "e/x"])
def test_nothing_is_made_before_it_was_asked(root: Path, path: str) -> None:
    (root / ".git").mkdir()
    (root / "d").symlink_to(".git")
    (root / "link").symlink_to("d/deeper/still")
    (root / "e").symlink_to("a/../.git/new")
    before = snapshot(root)
    with pytest.raises(PermissionError):
        Beneath(root).write(path, b"", lambda where: not is_protected(where))
    assert snapshot(root) == before


# Files that are none


def test_what_is_no_regular_file_is_refused_at_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("fifo")
    monkeypatch.chdir(root)  # the name of a socket must be short
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind("socket")
        before = snapshot(root)
        for path in ("fifo", "link", "socket"):
            for act in (read, write):
                with pytest.raises(OSError, match=r"not a regular file|No such device"):
                    act(root, path)
        assert snapshot(root) == before


@pytest.mark.parametrize("path", ["a", ".", "a/b/..", "up", "folder"])
def test_a_folder_is_neither_read_nor_written(root: Path, path: str) -> None:
    (root / "up").symlink_to("a/b/..")
    (root / "folder").symlink_to("a/")
    before = snapshot(root)
    with descriptors_given_back():
        for act in (read, write):
            with pytest.raises(IsADirectoryError):
                act(root, path)
    assert snapshot(root) == before


@pytest.mark.parametrize("path", ["a/file/x", "a/file/x/y"])
def test_a_file_is_no_folder(root: Path, path: str) -> None:
    for act in (read, write):
        with pytest.raises(NotADirectoryError):
            act(root, path)
    assert (root / "a" / "file").read_text() == "content"


@pytest.mark.parametrize("path", ["no", "a/no", "no/no/no"])
def test_what_is_missing_is_not_found(root: Path, path: str) -> None:
    with pytest.raises(FileNotFoundError):
        read(root, path)


@pytest.mark.parametrize("path", ["x" * 300, "x/" * 3000 + "y", "é" * 200])
def test_a_name_that_is_too_long_changes_nothing(root: Path, path: str) -> None:
    before = snapshot(root)
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        write(root, "x" * 300)
    with pytest.raises(OSError, match=r"too long|No such|folders deep"):
        read(root, path)
    assert snapshot(root) == before


def test_more_than_the_most_is_not_read(root: Path) -> None:
    (root / "big").write_bytes(b"x" * 11)
    assert Beneath(root).read("big", anything, 11)[1] == b"x" * 11
    with pytest.raises(OSError, match="larger than 10 bytes") as caught:
        Beneath(root).read("big", anything, 10)
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize(
    "name", ["a\nb", "end ", " ", "-rf", "日本", "\udcff\udcfe", "a\\b", "*", "x" * 255, "é" * 127]
)
def test_odd_names_are_names(root: Path, name: str) -> None:
    write(root, f"odd/{name}", b"1")
    assert os.listdir(os.fsencode(root / "odd")) == [os.fsencode(name)]  # noqa: PTH208
    assert read(root, f"odd/{name}") == b"1"
    assert [path for path, _ in Beneath(root).walk("odd")] == [f"odd/{name}"]


def test_a_listing_shows_odd_names_quoted() -> None:
    assert printable("src/größe x.py") == "src/größe x.py"
    assert printable("a\nb") == "'a\\nb'"
    assert printable("\udcff") == "'\\udcff'"


# Writing


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_mode_of_the_umask(root: Path, mask: int, mode: int) -> None:
    previous = os.umask(mask)
    try:
        write(root, "fresh/new")
    finally:
        os.umask(previous)
    assert (root / "fresh" / "new").stat().st_mode & 0o7777 == mode


def test_no_write_touches_the_umask(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail("the umask belongs to all threads"))
    write(root, "fresh/new")
    write(root, "a/file")


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o444, 0o4711])
def test_a_changed_file_keeps_its_mode_but_for_special_bits(root: Path, mode: int) -> None:
    (root / "a" / "file").chmod(mode)
    write(root, "a/file", b"other")
    assert (root / "a" / "file").stat().st_mode & 0o7777 == mode & 0o777
    assert (root / "a" / "file").read_bytes() == b"other"


def test_a_file_with_another_name_is_not_written(root: Path) -> None:
    os.link(root / "a" / "file", root.parent / "outside" / "same")
    os.link(root.parent / "outside" / "secret", root / "link")
    before = snapshot(root.parent)
    for path in ("a/file", "link"):
        with pytest.raises(OSError, match="another name"):
            write(root, path, b"other")
    assert snapshot(root.parent) == before
    assert read(root, "a/file") == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make devices")
def test_a_device_is_neither_read_nor_written(root: Path) -> None:
    try:
        os.mknod(root / "zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
        os.mknod(root / "disk", stat.S_IFBLK | 0o666, os.makedev(7, 200))
    except OSError:
        pytest.skip("no devices can be made here")
    for path in ("zero", "disk"):
        for act in (read, write):
            with pytest.raises(OSError, match=r"not a regular file|No such device|not permitted"):
                act(root, path)


def test_a_full_disk_leaves_the_old_file_and_no_litter(root: Path) -> None:
    before = snapshot(root)

    def child() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            write(root, "a/file", b"x" * 5000)
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
            write(root, "a/new", b"x" * 5000)

    assert os.waitstatus_to_exitcode(os.waitpid(forked(child), 0)[1]) == 0
    assert snapshot(root) == before


def test_a_reader_sees_the_old_or_the_new_file(root: Path) -> None:
    versions = [bytes([n]) * 20_000 for n in range(1, 60)]
    write(root, "a/file", versions[0])
    seen: set[bytes] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add(read(root, "a/file"))

    thread = threading.Thread(target=watch)
    thread.start()
    for version in versions:
        write(root, "a/file", version)
    stop.set()
    thread.join()
    assert seen <= set(versions)


def test_writers_at_once_leave_one_whole_file(root: Path) -> None:
    threads = [
        threading.Thread(target=write, args=(root, "new/x/file", bytes([n]) * 9000))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    content = read(root, "new/x/file")
    assert len(content) == 9000
    assert len(set(content)) == 1
    assert list((root / "new" / "x").iterdir()) == [root / "new" / "x" / "file"]


# Listing


def test_a_walk_lists_files_and_hides_what_is_not_the_users(root: Path) -> None:
    for path in (".git/x", "a/.git", ".team/x", ".tasks/x", "worktrees/w/x", ".hidden", "b.txt"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / f"{module.TEMPORARY}1").write_text("")
    (root / "link").symlink_to("a")
    os.mkfifo(root / "fifo")
    assert list(Beneath(root).walk()) == [
        (".hidden", True),
        ("b.txt", True),
        ("fifo", False),
        ("link", False),
        ("a/file", True),
    ]


def test_a_walk_may_begin_in_a_worktree_or_at_a_link(root: Path) -> None:
    for path in ("worktrees/w/x", "worktrees/w/.git", "worktrees/w/.git2/y"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("")
    (root / "link").symlink_to("worktrees")
    expected = ["worktrees/w/x", "worktrees/w/.git2/y"]
    assert [path for path, _ in Beneath(root).walk("worktrees/w")] == expected
    assert [path for path, _ in Beneath(root).walk("link/w")] == expected


def test_a_walk_needs_a_folder(root: Path) -> None:
    with pytest.raises(NotADirectoryError):
        list(Beneath(root).walk("a/file"))
    with pytest.raises(FileNotFoundError):
        list(Beneath(root).walk("no"))
    with pytest.raises(FileNotFoundError):
        list(Beneath(root).walk("no/no"))


# Everything at once


@contextlib.contextmanager
def descriptors_given_back() -> Iterator[None]:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    yield
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


PART = st.sampled_from(
    ["..", ".", "", "a", "b", "file", "root", "outside", "secret", "in", "out", "x"]
)
PATH = st.lists(PART, min_size=1, max_size=6).map("/".join)


@given(PATH, st.lists(PATH, min_size=2, max_size=2))
@settings(max_examples=150)
def test_no_path_and_no_link_leads_out(
    tmp_path_factory: pytest.TempPathFactory, path: str, targets: list[str]
) -> None:
    """Whatever a path and two links say: what is read is what the kernel finds inside, and
    nothing outside changes."""
    top = tmp_path_factory.mktemp("beneath")
    root = top / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "file").write_text("a/file")
    (top / "outside").mkdir()
    (top / "outside" / "secret").write_text("secret")
    for name, target in zip(("in", "a/out"), targets, strict=True):
        (root / name).symlink_to(target or ".")
    outside = snapshot(top / "outside")
    with descriptors_given_back():
        try:
            where, data = Beneath(root).read(path, anything, MOST)
            assert data.decode() == where
            write(root, path)
        except (OutsideRoot, OSError):
            pass
    assert snapshot(top / "outside") == outside
    assert {entry.name for entry in top.iterdir()} == {"root", "outside"}
