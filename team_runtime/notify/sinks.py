"""The ways to reach a person: the terminal's bell, the desktop, and any service apprise knows."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from team_runtime.errors import InputError, TeamError
from team_runtime.notify.base import Notice, NoticeLost, Sink
from team_runtime.process.base import Command, Runner

if TYPE_CHECKING:
    from apprise import Apprise

BELL: Final = "bell"
DESKTOP: Final = "desktop"
_SESSION: Final = ("PATH", "HOME", "DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")
"""What a program needs to find the desktop of its user, besides `XDG_*`."""
_SECONDS: Final = 10.0
_APPLE: Final = "on run {title, body}\n display notification body with title title\nend run"


class Bell:
    """Rings the terminal's bell."""

    name = BELL

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring

    def send(self, notice: Notice) -> None:
        self._ring()


class Desktop:
    """Shows a notice on the desktop, by the program that the platform has for it."""

    name = DESKTOP

    def __init__(self, runner: Runner, environ: Mapping[str, str], platform: str) -> None:
        """Raises `InputError` when the machine has no such program."""
        program = "osascript" if platform == "darwin" else "notify-send"
        found = shutil.which(program, path=environ.get("PATH"))
        if found is None:
            raise InputError(f"notify: {DESKTOP!r} needs {program}, which is not installed")
        self._runner = runner
        self._start = [found, "-e", _APPLE] if platform == "darwin" else [found, "--app-name=team"]
        self._environ = {
            name: value
            for name, value in environ.items()
            if name in _SESSION or name.startswith("XDG_")
        }

    def send(self, notice: Notice) -> None:
        # Texts of agents come last, after the end of the options.
        argv = [*self._start, "--", notice.title, notice.body]
        command = Command(argv, Path("/"), self._environ, _SECONDS, merge=True)
        try:
            ended = self._runner.run(command)
        except TeamError as error:
            raise NoticeLost(str(error)) from error
        if ended.status != 0:
            said = ended.stdout.decode(errors="replace").strip()[-200:]
            raise NoticeLost(said or f"it ended with status {ended.status}")


class Service:
    """A service that apprise knows, by its address. Needs the extra `notify`."""

    def __init__(self, address: str) -> None:
        """Raises `InputError` for an address that apprise does not know, or without apprise."""
        scheme = address.partition("://")[0]
        self.name = f"{scheme}://…"
        try:
            import apprise
        except ImportError as error:
            hint = "install it with: pip install 'team_runtime[notify]'"
            raise InputError(f"notify: {self.name} needs apprise; {hint}") from error
        self._apprise: Apprise = apprise.Apprise()
        with warnings.catch_warnings():  # it tries what newer Pythons no longer have
            warnings.simplefilter("ignore", DeprecationWarning)
            known = self._apprise.add(address)
        if not known:
            raise InputError(f"notify: apprise does not know the address {self.name}")

    def send(self, notice: Notice) -> None:
        if not self._apprise.notify(title=notice.title, body=notice.body or notice.title):
            raise NoticeLost("the service did not take it")


def make_sinks(
    names: tuple[str, ...], runner: Runner, environ: Mapping[str, str], ring: Callable[[], None]
) -> list[Sink]:
    """The sinks of the setting `notify`: `bell`, `desktop`, or an address. Raises `InputError`."""
    return [_make(name, runner, environ, ring) for name in dict.fromkeys(names)]


def _make(name: str, runner: Runner, environ: Mapping[str, str], ring: Callable[[], None]) -> Sink:
    if name == BELL:
        return Bell(ring)
    if name == DESKTOP:
        return Desktop(runner, environ, sys.platform)
    if "://" in name:
        return Service(name)
    raise InputError(f"notify: {name!r} is none of {BELL}, {DESKTOP} or an address for apprise")
