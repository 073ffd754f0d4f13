"""Locks that the kernel releases on any death: short ones, and ones held for a process's life."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final
from weakref import WeakSet

from team_runtime.errors import Held, RecordBroken, StoreBusy, StoreFailed
from team_runtime.store.records import decode_record, encode_record
from team_runtime.types import Json

POLL_SECONDS: Final = 0.001
INFO_VERSION: Final = 1


@contextmanager
def locked(path: Path, timeout: float) -> Iterator[None]:
    """Hold the lock file `path`, which other threads and processes then wait for.

    Raises `StoreBusy` after `timeout` seconds. Not reentrant.
    """
    from filelock import FileLock, Timeout

    # An instance of its own for each hold: a shared one would let threads in together.
    lock = FileLock(path, mode=0o600, is_singleton=False)
    try:
        lock.acquire(timeout=timeout, poll_interval=POLL_SECONDS)
    except Timeout as error:
        raise StoreBusy(str(path), timeout, _holder(path)) from error
    except OSError as error:
        raise StoreFailed(str(path), "locked", error.strerror or str(error)) from error
    try:
        yield
    finally:
        lock.release()


def _holder(path: Path) -> str:
    """Who holds the lock, where the kernel tells."""
    try:
        inode = str(path.stat().st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
                return f"process {fields[4]}"
    except (OSError, IndexError):
        pass
    return "its process is not known"


class LifeLock:
    """An exclusive lock on an open file, held until `release` or the death of this process.

    A forked child does not share it: the child's copy of the descriptor is closed at once.
    """

    _all: ClassVar[WeakSet[LifeLock]] = WeakSet()
    _watches_forks: ClassVar[bool] = False

    def __init__(self, descriptor: int) -> None:
        """Lock `descriptor` and own it from now on. Raises `BlockingIOError` when it is taken."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._descriptor: int | None = descriptor
        LifeLock._all.add(self)
        if not LifeLock._watches_forks:
            LifeLock._watches_forks = True
            os.register_at_fork(after_in_child=LifeLock._leave_to_parent)

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._descriptor is not None

    def release(self) -> None:
        """Let others in. Does nothing when it is not held."""
        if self._descriptor is not None:
            # A program that is being started still has the descriptor until its exec.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    @staticmethod
    def _leave_to_parent() -> None:
        for lock in list(LifeLock._all):
            lock._close()


class Hold:
    """A named lock held for a life, with a record that tells others who has it."""

    def __init__(self, path: Path, info: Mapping[str, Json]) -> None:
        """Raises `Held`, which carries the other's record."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise StoreFailed(str(path), "locked", error.strerror or str(error)) from error
        if os.fstat(descriptor).st_nlink > 1:  # somebody's other file would be written
            os.close(descriptor)
            raise StoreFailed(str(path), "locked", "it has another name; remove it")
        try:
            self._lock = LifeLock(descriptor)
        except BlockingIOError as error:
            os.close(descriptor)
            info = read_info(path)
            raise Held(path.stem, str(info.get("pid", "unknown")), info) from error
        self._path = path
        self._descriptor = descriptor
        try:
            self.note(info)
        except StoreFailed:
            self.release()
            raise

    def note(self, info: Mapping[str, Json]) -> None:
        """Replace what others are told about the holder."""
        record = encode_record({"v": INFO_VERSION, "pid": os.getpid(), **info})
        try:
            os.pwrite(self._descriptor, record, 0)
            os.ftruncate(self._descriptor, len(record))
        except OSError as error:
            cause = error.strerror or str(error)
            raise StoreFailed(str(self._path), "written", cause) from error

    @property
    def held(self) -> bool:
        """Whether this process holds it; false in a forked child."""
        return self._lock.held

    @property
    def is_in_place(self) -> bool:
        """Whether others who look for the lock still find this one: not when its folder was moved
        or removed."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except OSError:
            return False

    def release(self) -> None:
        """Let others in. Does nothing when it is not held."""
        if self._lock.held:
            # Nobody may be told of us while the next holder has not said yet who it is.
            os.ftruncate(self._descriptor, 0)
        self._lock.release()

    def __enter__(self) -> Hold:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def read_info(path: Path) -> dict[str, Json]:
    """The record that the holder left in the lock file; empty when it cannot be read."""
    try:
        return decode_record(path.read_bytes(), path, INFO_VERSION)
    except (OSError, RecordBroken):
        return {}


def is_held(path: Path) -> bool:
    """Whether a process has the lock file `path`, by its lock and not by what is written in it.

    Whoever takes the lock in just this moment is refused, so takers look more than once.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def locks_work(folder: Path) -> bool:
    """Whether a lock on a file in `folder` keeps others out. Some network file systems pretend.

    Raises `OSError` when no file can be made there.
    """
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".lock-") as file:
        held = LifeLock(os.dup(file.fileno()))
        try:
            LifeLock(os.open(file.name, os.O_RDWR | os.O_CLOEXEC)).release()
        except BlockingIOError:
            return True
        finally:
            held.release()
        return False
