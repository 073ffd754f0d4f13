"""Whether the kernel tells of every change in a folder, as far as that can be proved (on Linux)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

LOCAL: Final = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "tmpfs", "xfs", "zfs"}
)
"""File systems that nobody can change past this kernel. In others (of a network, of a virtual
machine's host, layered or in user space) changes may come from where no event does."""
_SELF: Final = Path("/proc/self")
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_WATCHED: Final = re.compile(r"^inotify wd:\S+ ino:([0-9a-f]+)", re.MULTILINE)


def is_covered(folders: Iterable[Path], process: Path = _SELF) -> bool:
    """Whether this process watches all of these folders that are there, each on a file system of
    which every change is told. `False` also where the system does not say."""
    try:
        watched, kinds = frozenset(_watched(process)), _mounted(process / "mountinfo")
    except OSError:
        return False
    is_local = dict[int, bool]()
    for folder in folders:
        try:
            state = folder.stat()
            if state.st_dev not in is_local:
                is_local[state.st_dev] = _kind(folder.resolve(strict=True), kinds) in LOCAL
        except FileNotFoundError:
            continue  # what is made there is told of by the folder above
        except (OSError, RuntimeError):  # before Python 3.13 links in a circle are the latter
            return False
        if state.st_ino not in watched or not is_local[state.st_dev]:
            return False
    return True


def _watched(process: Path) -> Iterator[int]:
    """The inodes that the kernel watches for this process."""
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as the one of this listing
            if descriptor.readlink().name == "anon_inode:inotify":
                told = (process / "fdinfo" / descriptor.name).read_text(encoding="ascii")
                yield from (int(inode, 16) for inode in _WATCHED.findall(told))


def _mounted(table: Path) -> Mapping[str, str]:
    """The kind of the file system at each mount point; the last one there hides the others."""
    found = {}
    for line in os.fsdecode(table.read_bytes()).splitlines():
        left, _, right = line.partition(" - ")
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), left.split(" ")[4])
        found[point] = right.partition(" ")[0]
    return found


def _kind(folder: Path, kinds: Mapping[str, str]) -> str | None:
    above = map(str, (folder, *folder.parents))
    return next((kinds[point] for point in above if point in kinds), None)
