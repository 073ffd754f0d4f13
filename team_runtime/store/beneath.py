"""Files below one folder, reached component by component through descriptors.

No path is checked and opened again by name: a link swapped in between cannot lead outside. Links
are followed as long as they stay below the folder; absolute links do not. Works without
`openat2(2)`, whose `RESOLVE_BENEATH` has the same meaning.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
PROTECTED: Final = frozenset({".git", ".tasks", ".team", "worktrees"})
"""Names at the top of a workspace that belong to git or to the runtime; `.git` anywhere."""


class OutsideRoot(Exception):
    """The path leads out of the folder."""


def relative(root: Path, path: str) -> str:
    """`path`, absolute or relative, as a normal path below `root`; `.` for the root itself.

    Raises `OutsideRoot`. Links are not looked at: that happens when the file is opened.
    """
    if "\0" in path:
        raise OutsideRoot(path)
    pure = PurePosixPath(path)
    if pure.is_absolute():
        for base in (PurePosixPath(root), PurePosixPath(os.path.realpath(root))):
            if pure.is_relative_to(base):
                pure = pure.relative_to(base)
                break
        else:
            raise OutsideRoot(path)
    parts: list[str] = []
    for part in pure.parts:
        if part == ".." and not parts:
            raise OutsideRoot(path)
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts) or "."


def is_protected(path: str) -> bool:
    """Whether the normal path belongs to git or to the runtime, whatever its letter case."""
    parts = [part.casefold() for part in path.split("/")]
    return parts[0] in PROTECTED or ".git" in parts


@dataclass(frozen=True)
class Place:
    """A resolved parent folder (an open descriptor), the last name in it, and the path of both."""

    folder: int
    name: str
    path: str


class Beneath:
    """The files below `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def read(self, path: str) -> bytes:
        """A regular file's content. Raises `OSError`, `OutsideRoot`, `IsADirectoryError`."""
        with self._resolve(path, create=False) as place:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(place.name, flags, dir_fd=place.folder)
            with os.fdopen(descriptor, "rb") as file:
                mode = os.fstat(descriptor).st_mode
                if stat.S_ISDIR(mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                if not stat.S_ISREG(mode):
                    raise OSError(errno.EINVAL, "not a regular file", path)
                return file.read()

    def write(self, path: str, data: bytes, may_write: Callable[[str], bool]) -> None:
        """Put `data` in place of the file in one step, keeping its mode; parents are made.

        `may_write` is asked with the resolved path; a no raises `PermissionError`.
        """
        with self._resolve(path, create=True) as place:
            if not may_write(place.path):
                raise PermissionError(errno.EPERM, "this path is protected", place.path)
            mode = self._mode(place)
            beside = f".{place.name[:200]}.tmp-{os.getpid()}-{place.folder}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(beside, flags, mode, dir_fd=place.folder)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), mode)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(beside, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(beside, dir_fd=place.folder)
                raise

    def walk(self, below: str = ".") -> Iterator[tuple[str, bool]]:
        """Every path below `below` in sorted order, with whether it is a folder. Links are listed
        and never followed; `.git` and the runtime's own folders are left out."""
        pending = [below]
        while pending:
            folder = pending.pop()
            try:
                with self._open_folder(folder) as descriptor, os.scandir(descriptor) as entries:
                    found = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries)
            except (FileNotFoundError, NotADirectoryError, PermissionError):
                continue
            prefix = "" if folder == "." else folder + "/"
            kept = [(prefix + n, is_dir) for n, is_dir in found if not is_protected(prefix + n)]
            yield from kept
            pending.extend(path for path, is_dir in reversed(kept) if is_dir)

    def _mode(self, place: Place) -> int:
        try:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            return 0o666 & ~_umask()
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), place.path)
        return stat.S_IMODE(found.st_mode)

    @contextlib.contextmanager
    def _open_folder(self, path: str) -> Iterator[int]:
        with self._resolve(path, create=False) as place:
            descriptor = os.open(place.name, _FOLDER, dir_fd=place.folder)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _resolve(self, path: str, create: bool) -> Iterator[Place]:
        """The parent folder of what `path` names after all links, held open."""
        with contextlib.ExitStack() as opened:
            stack = [self._hold(opened, os.open(self.root, os.O_RDONLY | os.O_DIRECTORY))]
            names: list[str] = []
            todo = list(reversed(relative(self.root, path).split("/")))
            links = 0
            while todo:
                part = todo.pop()
                if part in (".", "") and todo:
                    continue
                if part == "..":
                    if not names:
                        raise OutsideRoot(path)
                    names.pop()
                    stack.pop()
                    continue
                target = _link(part, stack[-1])
                if target is not None:
                    links += 1
                    if target.startswith("/"):
                        raise OutsideRoot(path)
                    if links > _MAX_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                    todo.extend(reversed(target.split("/")))
                    continue
                if not todo:
                    yield Place(stack[-1], part or ".", "/".join([*names, part]) if part else ".")
                    return
                stack.append(self._hold(opened, self._step(part, stack[-1], create)))
                names.append(part)
            # The path ended in `..` or a link to a folder above: it names a folder we hold.
            yield Place(stack[-1], ".", "/".join(names) or ".")

    @staticmethod
    def _hold(opened: contextlib.ExitStack, descriptor: int) -> int:
        opened.callback(os.close, descriptor)
        return descriptor

    @staticmethod
    def _step(part: str, folder: int, create: bool) -> int:
        if create:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
        return os.open(part, _FOLDER, dir_fd=folder)


def _link(name: str, folder: int) -> str | None:
    """Where the link `name` points, or `None` when it is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _umask() -> int:
    """The process's umask; reading it means setting it, so it is set back at once."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask
