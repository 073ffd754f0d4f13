"""What is not proved to be told counts as not told."""

from __future__ import annotations

from pathlib import Path

import pytest

from team_runtime.store.coverage import is_covered

MOUNTS = """22 1 254:0 / / rw,relatime - {root} /dev/vda rw
23 22 0:21 / /proc rw - proc proc rw
24 22 0:99 / {there} rw shared:1 - {kind} host:/x rw
"""


def process(folder: Path, mounts: str, *inodes: int) -> Path:
    """A process as `/proc` shows it, which watches these inodes."""
    (folder / "fd").mkdir(parents=True)
    (folder / "fdinfo").mkdir()
    for number, target in enumerate(("/dev/null", "anon_inode:inotify")):
        (folder / "fd" / str(number)).symlink_to(target)
        (folder / "fdinfo" / str(number)).write_text("pos:\t0\nflags:\t02\n")
    lines = (
        f"inotify wd:{number:x} ino:{inode:x} sdev:fe00000 mask:7c6 ignored_mask:0\n"
        for number, inode in enumerate(inodes, 1)
    )
    with (folder / "fdinfo" / "1").open("a") as told:
        told.writelines(lines)
    (folder / "mountinfo").write_text(mounts)
    return folder


def mounts(there: Path, kind: str, root: str = "ext4") -> str:
    return MOUNTS.format(root=root, there=str(there).replace(" ", "\\040"), kind=kind)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    box = tmp_path / "work space" / "box"
    box.mkdir(parents=True)
    return box


def inode(folder: Path) -> int:
    return folder.stat().st_ino


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs"])
def test_a_watched_folder_on_a_disk_is_covered(tmp_path: Path, box: Path, kind: str) -> None:
    shown = process(tmp_path / "p", mounts(box.parent, kind), inode(box))
    assert is_covered([box], shown)


@pytest.mark.parametrize(
    "kind", ["nfs4", "cifs", "9p", "fuse.sshfs", "virtiofs", "overlay", "vboxsf", "made-up"]
)
def test_where_changes_come_from_elsewhere_nothing_is_covered(
    tmp_path: Path, box: Path, kind: str
) -> None:
    shown = process(tmp_path / "p", mounts(box.parent, kind), inode(box))
    assert not is_covered([box], shown)


def test_the_nearest_mount_counts_and_of_two_at_a_place_the_last(tmp_path: Path, box: Path) -> None:
    table = mounts(box.parent, "nfs4") + mounts(box.parent, "xfs", "overlay")
    assert is_covered([box], process(tmp_path / "p", table, inode(box)))


def test_a_folder_that_is_not_watched_uncovers_the_others(tmp_path: Path, box: Path) -> None:
    other = box.with_name("other")
    other.mkdir()
    shown = process(tmp_path / "p", mounts(box.parent, "ext4"), inode(box))
    assert is_covered([box], shown)
    assert not is_covered([box, other], shown)


def test_a_link_is_as_good_as_what_it_leads_to(tmp_path: Path, box: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(box)
    shown = process(tmp_path / "p", mounts(box.parent, "nfs4"), inode(box))
    assert not is_covered([link], shown)


def test_without_proc_nothing_is_covered(tmp_path: Path, box: Path) -> None:
    assert not is_covered([box], tmp_path / "none")


def test_a_folder_that_cannot_be_looked_at_is_not_covered(tmp_path: Path, box: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    shown = process(tmp_path / "p", mounts(box.parent, "ext4"), inode(box))
    assert not is_covered([box, circle], shown)
