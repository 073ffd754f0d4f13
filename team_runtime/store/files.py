"""The only code that opens, renames and fsyncs runtime state.

Three durable primitives: `replace` (a record, by compare-and-set), `publish` (a whole file, never
overwriting) and `append` (one write per line).
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, ParamSpec, TypeAlias, TypeVar

from team_runtime.clock import Clock, Entropy, SystemClock, SystemEntropy
from team_runtime.errors import InputError, OutcomeUnknown, RecordBroken, StoreFailed
from team_runtime.events import Emit, no_events
from team_runtime.store.layout import Layout
from team_runtime.store.locks import Hold, locked
from team_runtime.types import Json

P = ParamSpec("P")
T = TypeVar("T")
Durability: TypeAlias = Literal["power", "process"]
"""What a returned write has survived: power loss, or only the death of the process."""
Faults: TypeAlias = Callable[[str, Path], None]
"""Called with `before <step>` and `after <step>`; may raise `OSError` or end the process."""

LARGEST_RECORD: Final = 16 * 2**20
"""Bytes; a larger file is no record of ours."""
_TEMPORARY: Final = re.compile(r"\.tmp-[0-9a-f]{16}")
_TORN: Final = b"\x18"
"""The ASCII character for "cancel": ends a line that was torn. JSON never contains it."""
_TRIES: Final = 1000
_MOMENT: Final = 0.001
"""Seconds between two tries to have the turn of writing a line."""


class Store:
    """The files of one workspace. Safe for threads, processes and after a fork.

    Every method raises `StoreFailed`, which names the path, when the system refuses.
    """

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        entropy: Entropy,
        durability: Durability = "power",
        emit: Emit = no_events,
        faults: Faults | None = None,
    ) -> None:
        self.layout = layout
        self.clock = clock
        self.entropy = entropy
        self._syncs = durability == "power"
        self._emit = emit
        self._faults = faults

    @classmethod
    def open(
        cls, workspace: Path, durability: Durability = "power", emit: Emit = no_events
    ) -> Store:
        """The store of `workspace`, made where it is missing; removes the litter of crashes."""
        layout = Layout(workspace.absolute())
        layout.prepare()
        store = cls(layout, SystemClock(), SystemEntropy(), durability, emit)
        store.sweep()
        return store

    def read(self, path: Path) -> bytes | None:
        """The bytes of a record, or `None` where there is no file. Raises `RecordBroken` for what
        is not a regular file, or larger than `LARGEST_RECORD`."""
        with _failing(path, "read"):
            data = self._contents(path, LARGEST_RECORD + 1)
        if data is not None and len(data) > LARGEST_RECORD:
            raise RecordBroken(str(path), f"it is larger than {LARGEST_RECORD} bytes")
        return data

    def names(self, folder: Path) -> list[str]:
        """The names in a folder, in no order; none where there is no folder."""
        with _failing(folder, "listed"), suppress(FileNotFoundError), os.scandir(folder) as entries:
            return [entry.name for entry in entries]
        return []

    def states(self, folder: Path) -> list[tuple[str, os.stat_result]]:
        """Each name in a folder with its state, in no order; none where there is no folder."""
        found = []
        with _failing(folder, "listed"), suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
        return found

    def changed_at(self, folder: Path) -> int:
        """When a name in a folder was changed last, in nanoseconds; 0 where there is no folder."""
        with _failing(folder, "looked at"), suppress(FileNotFoundError):
            return folder.stat().st_mtime_ns
        return 0

    def replace(self, path: Path, old: bytes | None, new: bytes) -> bool:
        """Swap `new` in for `old`; `None` means that there is no file yet.

        Returns whether it was done: it is not when the file no longer holds `old`. Raises
        `OutcomeUnknown` when the disk did not confirm the swap.
        """
        _check_size(path, new)
        if old is None:
            try:
                self.publish(path, new)
            except FileExistsError:
                return False
            return True
        with _failing(path, "written"), self._beside(path.parent, new) as beside:
            if self._contents(path, len(old) + 1) != old:
                return False
            self._step("rename", path, os.replace, beside, path)
        self._confirm(path, new)
        return True

    def publish(self, path: Path, data: bytes, through: Path | None = None) -> None:
        """Let a whole file appear as `path`, written in the folder `through` first.

        Raises `FileExistsError` when there is one, and leaves that alone; `OutcomeUnknown` when
        the disk did not confirm; like `replace`, `InputError` for more than `LARGEST_RECORD`.
        """
        _check_size(path, data)
        with (
            _failing(path, "written", FileExistsError),
            self._beside(through or path.parent, data) as beside,
        ):
            self._step("link", path, os.link, beside, path)
        self._confirm(path, data)

    def append(self, path: Path, line: bytes) -> None:
        """Add `line` and a newline in one write. A torn tail is closed off first and dropped by
        `read_lines`. It survives the process; `sync` makes it survive power loss."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with _failing(path, "appended to"), _opened(path, flags) as descriptor:
            if os.fstat(descriptor).st_nlink > 1:  # somebody's other file would grow
                raise OSError(errno.EMLINK, "it has another name")
            _in_turn(descriptor)
            data = (_TORN + b"\n" if _is_torn(descriptor) else b"") + line + b"\n"
            self._step("append", path, _write_all, descriptor, data)

    def read_lines(self, path: Path) -> list[bytes]:
        """The lines of a file, without newlines; none where there is no file.

        A torn tail is dropped, and a line that was torn earlier is empty, so that line n stays
        at index n - 1.
        """
        with _failing(path, "read"):
            lines = (self._contents(path, None) or b"").split(b"\n")[:-1]
        return [b"" if line.endswith(_TORN) else line for line in lines]

    def sync(self, path: Path) -> None:
        """Make what was appended to `path` survive power loss."""
        with _failing(path, "made durable"), _opened(path, os.O_RDONLY | os.O_CLOEXEC) as file:
            self._fsync(path, file)
        self._sync_folder(path.parent)

    def folder(self, path: Path) -> None:
        """Make a folder, only for its owner, with those above it, where it is missing."""
        if path.is_dir():
            return
        self.folder(path.parent)
        with _failing(path, "made"):
            self._step("mkdir", path, path.mkdir, 0o700, False, True)
        self._sync_folder(path.parent)

    def remove(self, *paths: Path) -> None:
        """Remove files; one that is gone already does not matter."""
        for path in paths:
            with _failing(path, "removed"), suppress(FileNotFoundError):
                self._step("unlink", path, path.unlink)
        for parent in {path.parent for path in paths}:
            self._sync_folder(parent)

    def move(self, source: Path, target: Path) -> bool:
        """Give a file another name. Returns whether it was still there. It survives the process;
        after power loss it may be back in its old place."""
        with _failing(source, "moved"):
            try:
                self._step("rename", source, os.rename, source, target)
            except FileNotFoundError:
                return False
        return True

    def quarantine(self, path: Path, why: str) -> Path:
        """Set aside a file that cannot be read, with a notice beside it. Returns where it went."""
        self.folder(self.layout.quarantine)
        place = self.layout.quarantine / f"{path.name}.{self.entropy.token()}"
        notice = f"{path} was set aside, as it was: {why}\n"
        beside = place.with_name(place.name + ".why")
        self.publish(beside, notice.encode(), through=self.layout.team)
        if self.move(path, place):
            self._sync_folder(place.parent)
            self._emit("quarantined", path=str(path), where=str(place), why=why)
        else:
            self.remove(beside)
        return place

    def sweep(self) -> None:
        """Remove the temporary files of writers that died. A live writer's are locked.

        Raises `StoreFailed` for a folder that is a link: a repository can bring one, and what is
        kept there would be written wherever it leads."""
        kept = {self.layout.rescue, self.layout.quarantine, self.layout.spill}
        for root in (self.layout.tasks, self.layout.team):
            for place, folders, names in os.walk(root):
                for name in folders:
                    if os.path.islink(Path(place, name)):  # noqa: PTH114 - a third of the time
                        why = "it is a link; remove it"
                        raise StoreFailed(str(Path(place, name)), "used", why)
                folders[:] = [name for name in folders if Path(place, name) not in kept]
                for name in filter(_TEMPORARY.fullmatch, names):
                    path = Path(place, name)
                    with _failing(path, "removed"), suppress(FileNotFoundError):
                        _remove_unowned(path)

    def temporary(self, folder: Path, lock: int) -> tuple[Path, int]:
        """A new file that `sweep` leaves alone as long as its descriptor is open."""
        while True:
            path = folder / f".tmp-{self.entropy.token()}"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = self._step("create", path, os.open, path, flags, 0o600)
            fcntl.flock(descriptor, lock)
            if os.fstat(descriptor).st_nlink:
                return path, descriptor
            os.close(descriptor)  # a sweep came between the two calls

    def lock(self, name: str, timeout: float = 10.0) -> AbstractContextManager[None]:
        """Hold a short lock. Raises `StoreBusy` after `timeout` seconds. Not reentrant."""
        return locked(self._lock_file(name), timeout)

    def hold(self, name: str, info: Mapping[str, Json]) -> Hold:
        """Hold a lock for a life, with a record that tells others who has it.

        Raises `Held`, which carries the record of the one who has it.
        """
        return Hold(self._lock_file(name), info)

    def _lock_file(self, name: str) -> Path:
        self.folder(self.layout.locks)
        return self.layout.locks / f"{name}.lock"

    def _step(
        self, name: str, path: Path, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        if self._faults is None:
            return call(*args, **kwargs)
        self._faults(f"before {name}", path)
        result = call(*args, **kwargs)
        self._faults(f"after {name}", path)
        return result

    @contextmanager
    def _beside(self, folder: Path, data: bytes) -> Iterator[Path]:
        """A durable temporary file with `data`, locked while it is in use, then removed."""
        path, descriptor = self.temporary(folder, fcntl.LOCK_SH)
        try:
            self._step("write", path, _write_all, descriptor, data)
            self._fsync(path, descriptor)
            yield path
        finally:
            os.close(descriptor)
            with suppress(OSError):  # gone after a rename; else litter, which `sweep` removes
                self._step("unlink", path, path.unlink)

    def _fsync(self, path: Path, descriptor: int) -> None:
        if self._syncs:
            self._step("fsync", path, os.fsync, descriptor)

    def _sync_folder(self, folder: Path) -> None:
        if not self._syncs:
            return
        with (
            _failing(folder, "made durable"),
            _opened(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY) as descriptor,
        ):
            self._step("fsync folder", folder, os.fsync, descriptor)

    def _confirm(self, path: Path, new: bytes) -> None:
        """Make the name durable. After an error nobody knows what the disk holds, so look, and
        try once more before saying so."""
        try:
            self._sync_folder(path.parent)
        except StoreFailed as first:
            if self.read(path) != new:
                raise
            try:
                self._sync_folder(path.parent)
            except StoreFailed:
                raise OutcomeUnknown(str(path), "written", first.cause) from first

    def _contents(self, path: Path, limit: int | None) -> bytes | None:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            if path.is_symlink():
                raise RecordBroken(str(path), "it is a link") from error
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise RecordBroken(str(path), "it is not a regular file")
        with os.fdopen(descriptor, "rb") as file:
            return file.read() if limit is None else file.read(limit)


@contextmanager
def _failing(path: Path, action: str, *passing: type[OSError]) -> Iterator[None]:
    try:
        yield
    except passing:
        raise
    except OSError as error:
        raise StoreFailed(str(path), action, error.strerror or str(error)) from error


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _check_size(path: Path, data: bytes) -> None:
    if len(data) > LARGEST_RECORD:
        raise InputError(f"{path.name} would be {len(data)} bytes; the limit is {LARGEST_RECORD}.")


def _in_turn(descriptor: int) -> None:
    """Wait until no other writer is in the middle of a line, which would look torn: the file grows
    by pages. The turn ends with the descriptor; one that was stopped within its turn, or a file
    system without locks, holds nobody up for long."""
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_MOMENT)
        except OSError:
            return
        else:
            return


def _is_torn(descriptor: int) -> bool:
    """Whether the file's last line has no end."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _write_all(descriptor: int, data: bytes) -> None:
    """One write, unless the system takes only a part."""
    while data:
        data = data[os.write(descriptor, data) :]


def _remove_unowned(path: Path) -> None:
    with _opened(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW) as descriptor:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        path.unlink()
