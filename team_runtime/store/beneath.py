"""Files below one folder, reached component by component through descriptors.

No path is checked and opened again by name: a link swapped in between cannot lead outside. Links
are followed as long as they stay below the folder; absolute ones are not. Whether a path may be
used is asked about the path after all links, which `openat2(2)` would not tell (decision 0015).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple, TypeAlias

from team_runtime.clock import Entropy, SystemEntropy

May: TypeAlias = Callable[[str], bool]
"""Whether a path below the folder, after all links, may be used."""

DEEPEST: Final = 200
"""Names in a path. Git, shells and Python's own clean-up stumble over much deeper trees."""
PROTECTED: Final = frozenset({".git", ".tasks", ".team", "team.toml", "worktrees"})
"""Names at the top of a workspace that belong to git or to the runtime; `.git` anywhere."""
_PRIVATE: Final = ".team"
_SPILLED: Final = (_PRIVATE, "spill")
"""Where the results are that were too long for a conversation: the part that agents read."""
_GIT: Final = frozenset({".git", "git~1"})
"""The second is the first where names are short."""
_INVISIBLE: Final = re.compile(
    "[\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
TEMPORARY: Final = ".team-tmp-"
"""How the names of files begin that are being written."""
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
_MAX_STEPS: Final = 4000
"""Names that are looked at for one path, with those that its links add."""


class OutsideRoot(Exception):
    """The path leads out of the folder."""


def relative(root: Path, path: str) -> str:
    """`path`, absolute or relative, as a normal path below `root`; `.` for the root itself.

    Raises `OutsideRoot`, or `OSError` for what can be no path. Links are not looked at: that
    happens when the file is opened.
    """
    if "\0" in path or not _is_encodable(path):
        raise _error(errno.EINVAL, path, "not a possible path")
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
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            raise OutsideRoot(path)
    if len(parts) > DEEPEST:
        raise _error(errno.ENAMETOOLONG, f"{path[:80]}…", f"more than {DEEPEST} folders deep")
    return "/".join(parts) or "."


def folded(path: str) -> str:
    """`path` as file systems see it that care least about spelling: without letter case, other
    forms of a letter, invisible characters, and dots or blanks at the end of a name."""
    if not path.isascii():
        path = _INVISIBLE.sub("", unicodedata.normalize("NFKC", path))
    return "/".join(part.rstrip(" .") or part for part in path.casefold().split("/"))


def is_protected(path: str) -> bool:
    """Whether the normal path belongs to git or to the runtime, in whatever spelling."""
    parts = folded(path).split("/")
    return parts[0] in PROTECTED or not _GIT.isdisjoint(parts)


def is_private(path: str) -> bool:
    """Whether the normal path is of the runtime's own records, which no agent reads: mail,
    conversations and questions of others, in whatever spelling."""
    parts = folded(path).split("/")
    return parts[0] == _PRIVATE and tuple(parts[:2]) != _SPILLED


def is_within(path: str, places: Collection[str]) -> bool:
    """Whether the normal path is one of the places or below it, in whatever spelling."""
    whole = folded(path) + "/" if places else ""
    return any(whole.startswith(folded(place) + "/") for place in places)


def printable(path: str) -> str:
    """`path` for a listing: quoted when it holds a newline or anything else that does not show."""
    return path if path.isprintable() else repr(path)


class _Place(NamedTuple):
    """Where a path leads: the deepest folder that exists (an open descriptor), the parent folders
    that are missing below it, the last name, and the whole path without links."""

    folder: int
    missing: list[str]
    name: str
    path: str


class Beneath:
    """The files below `root`."""

    def __init__(self, root: Path, entropy: Entropy | None = None) -> None:
        self.root = root
        self._entropy = entropy or SystemEntropy()

    def resolve(self, path: str) -> str:
        """The path below `root` that `path` leads to after all links, whether or not it exists."""
        with self._place(path) as place:
            return place.path

    def read(self, path: str, may: May, most: int) -> tuple[str, bytes]:
        """The path of a regular file after all links, and its content.

        Raises `OutsideRoot`, or `OSError`, also for a file of more than `most` bytes.
        """
        with self._place(path) as place:
            _ask(may, place)
            if place.missing:
                raise _error(errno.ENOENT, path)
            descriptor = os.open(place.name, _READ, dir_fd=place.folder)
            try:
                found = os.fstat(descriptor)
                _check_regular(found, path)
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    data = file.read(min(found.st_size, most) + 1)
                    if len(data) > found.st_size:  # it has grown meanwhile
                        data += file.read(most + 1 - len(data))
            finally:
                os.close(descriptor)
            if len(data) > most:
                raise _error(errno.EFBIG, path, f"larger than {most} bytes")
            return place.path, data

    def write(self, path: str, data: bytes, may: May) -> str:
        """Put `data` in place of the file in one step, keeping its mode; parents are made. Returns
        its path after all links.

        Raises `OutsideRoot` or `OSError`, also for a file that has another name: one of the two
        would keep the old content, or be changed unseen. The file is then as it was.
        """
        with self._place(path) as place:
            _ask(may, place)
            with _parents(place) as folder:
                mode = _mode(place, folder)
                beside = TEMPORARY + self._entropy.token()
                descriptor = os.open(beside, _CREATE, 0o666, dir_fd=folder)
                try:
                    with os.fdopen(descriptor, "wb") as file:
                        file.write(data)
                        file.flush()
                        if mode is not None:
                            os.fchmod(descriptor, mode)
                        os.fsync(descriptor)
                    os.replace(beside, place.name, src_dir_fd=folder, dst_dir_fd=folder)
                except BaseException:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(beside, dir_fd=folder)
                    raise
            return place.path

    def walk(self, below: str = ".") -> Iterator[tuple[str, bool]]:
        """Every file below the folder `below`, with whether it is a regular one; sorted within
        each folder. Links are listed and never followed; what git or the runtime owns is left
        out, except for `.git` also when `below` leads there. Raises like `read`."""
        with self._place(below) as place:
            below = place.path
        inside = is_protected(below)
        pending = [below]
        while pending:
            folder = pending.pop()
            prefix = "" if folder == "." else folder + "/"
            try:
                found = self._listed(folder)
            except OSError:
                if folder == below:
                    raise
                continue  # it was removed meanwhile, or may not be read
            folders = []
            for name, kind in found:
                hidden = folded(name) in _GIT if inside else is_protected(prefix + name)
                if hidden or name.startswith(TEMPORARY):
                    continue
                if stat.S_ISDIR(kind):
                    folders.append(prefix + name)
                else:
                    yield prefix + name, stat.S_ISREG(kind)
            pending.extend(reversed(folders))

    def _listed(self, folder: str) -> list[tuple[str, int]]:
        """The names in a folder, sorted, each with its kind."""
        with self._place(folder) as place:
            if place.missing:
                raise _error(errno.ENOENT, folder)
            if place.path != folder:  # it became a link meanwhile
                raise _error(errno.ENOTDIR, folder)
            descriptor = os.open(place.name, _FOLDER, dir_fd=place.folder)
            try:
                with os.scandir(descriptor) as entries:
                    return sorted((entry.name, _kind(entry)) for entry in entries)
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _place(self, path: str) -> Iterator[_Place]:
        """Where `path` leads after all links; its folder is open meanwhile."""
        todo = _parts(relative(self.root, path))
        names: list[str] = []
        with contextlib.ExitStack() as opened:
            folder = self._top(opened)
            for _ in range(_MAX_STEPS):
                if not todo:  # it ended in `..` or in a link to a folder above
                    yield _Place(folder, [], ".", "/".join(names) or ".")
                    return
                name, *todo = todo
                if name == "..":
                    if not names:
                        raise OutsideRoot(path)
                    # From the top again, so that only one folder is open at a time.
                    names, todo = [], [*names[:-1], *todo]
                    folder = self._top(opened)
                    continue
                target = _link(name, folder)
                if target is not None:
                    if target.startswith("/"):
                        raise OutsideRoot(path)
                    todo = [*_parts(target), *todo]
                    continue
                below = _open_folder(name, folder) if todo else None
                if below is None:
                    yield _last(folder, names, [name, *todo])
                    return
                folder = _hold(opened, below)
                names.append(name)
            raise _error(errno.ELOOP, path)

    def _top(self, opened: contextlib.ExitStack) -> int:
        return _hold(opened, os.open(self.root, os.O_RDONLY | os.O_DIRECTORY))


def _hold(opened: contextlib.ExitStack, descriptor: int) -> int:
    """Hold `descriptor` open, in place of what was open before."""
    opened.close()
    opened.callback(os.close, descriptor)
    return descriptor


def _last(folder: int, names: list[str], rest: list[str]) -> _Place:
    """Where a path leads whose `rest` has no links: one name, or the first folder is missing."""
    if ".." in rest:
        raise _error(errno.ENOENT, "/".join([*names, *rest]))
    return _Place(folder, rest[:-1], rest[-1], "/".join([*names, *rest]))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _ask(may: May, place: _Place) -> None:
    if not may(place.path):
        raise _error(errno.EPERM, place.path, "not allowed")


@contextlib.contextmanager
def _parents(place: _Place) -> Iterator[int]:
    """The file's own folder, open; made where it is missing."""
    with contextlib.ExitStack() as opened:
        folder = place.folder
        for part in place.missing:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=folder)
            folder = _hold(opened, os.open(part, _FOLDER, dir_fd=folder))
        yield folder


def _mode(place: _Place, folder: int) -> int | None:
    """The permissions of the file, or `None` where there is none yet."""
    try:
        found = os.stat(place.name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(found, place.path)
    if found.st_nlink > 1:
        raise _error(errno.EMLINK, place.path, "the file has another name (a hard link)")
    return stat.S_IMODE(found.st_mode) & 0o777


def _check_regular(found: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise _error(errno.EISDIR, path)
    if not stat.S_ISREG(found.st_mode):
        raise _error(errno.EINVAL, path, "not a regular file")


def _open_folder(name: str, folder: int) -> int | None:
    try:
        return os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return None


def _link(name: str, folder: int) -> str | None:
    """Where the link `name` points, or `None` when it is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise


def _kind(entry: os.DirEntry[str]) -> int:
    """The kind of file, as in a mode; 0 for what is neither a folder nor a regular file."""
    if entry.is_dir(follow_symlinks=False):
        return stat.S_IFDIR
    return stat.S_IFREG if entry.is_file(follow_symlinks=False) else 0


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def _error(number: int, path: str, text: str = "") -> OSError:
    return OSError(number, text or os.strerror(number), path)
