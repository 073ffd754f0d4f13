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
        watched = frozenset(_watched(process))
        kinds = _mounted(process / "mountinfo")
    except OSError:
        return False
    for folder in folders:
        try:
            real = folder.resolve(strict=True)
            inode = real.stat().st_ino
        except FileNotFoundError:
            continue  # what is made there is told of by the folder above
        except (OSError, RuntimeError):  # before Python 3.13 links in a circle are the latter
            return False
        if inode not in watched or _kind(real, kinds) not in LOCAL:
            return False
    return True


def _watched(process: Path) -> Iterator[int]:
    """The inodes that the kernel watches for this process."""
    for descriptor in (process / "fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile, as the one of this listing
            if descriptor.readlink().name.endswith("inotify"):
                told = (process / "fdinfo" / descriptor.name).read_text(encoding="ascii")
                yield from (int(inode, 16) for inode in _WATCHED.findall(told))


def _mounted(table: Path) -> Mapping[Path, str]:
    """The kind of the file system at each mount point; the last one there hides the others."""
    found = {}
    for line in os.fsdecode(table.read_bytes()).splitlines():
        left, _, right = line.partition(" - ")
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), left.split(" ")[4])
        found[Path(point)] = right.partition(" ")[0]
    return found


def _kind(folder: Path, kinds: Mapping[Path, str]) -> str | None:
    return next((kinds[above] for above in (folder, *folder.parents) if above in kinds), None)
