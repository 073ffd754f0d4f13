"""What a run needs from the machine and the workspace, looked at without starting anything."""

from __future__ import annotations

import enum
import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.app.hooks import load_hooks
from team_runtime.app.permissions import make_permissions
from team_runtime.app.workspace import Workspace
from team_runtime.config import KEYS, Settings, endpoint, keys_set, load
from team_runtime.errors import TeamError
from team_runtime.git.run import OLDEST, Git
from team_runtime.models.names import ANTHROPIC, parse_model
from team_runtime.notify.sinks import make_sinks
from team_runtime.process.detection import detect, remedy
from team_runtime.process.environment import scrubbed, secret_values
from team_runtime.process.run import BlockingRunner
from team_runtime.process.sandbox import NoSandbox
from team_runtime.process.secrets import shown_by
from team_runtime.store.layout import Layout
from team_runtime.store.locks import locks_work
from team_runtime.store.presence import Runs
from team_runtime.store.watcher import watch
from team_runtime.types import Liveness

LOW_DISK: Final = 2**30
NO_DISK: Final = 64 * 2**20
"""Bytes under which nothing is started."""


class State(enum.Enum):
    """What a finding means for `team run` in this workspace."""

    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and what to do about it."""

    name: str
    state: State
    detail: str
    hint: str = ""


def examine(root: Path, environ: Mapping[str, str]) -> list[Finding]:
    """All findings. A `PROBLEM` is one that keeps a team from running in `root`."""
    doctor = _Doctor(root, environ)
    looks: list[tuple[str, Callable[[], Iterator[Finding]]]] = [
        ("python", doctor.python),
        ("git", doctor.git),
        ("workspace", doctor.repository),
        ("settings", doctor.settings),
        ("sandbox", doctor.sandbox),
        ("secrets", doctor.secrets),
        ("file locks", doctor.locks),
        ("file events", doctor.file_events),
        ("disk space", doctor.disk),
        ("state", doctor.state),
    ]
    findings = []
    for name, look in looks:
        try:
            findings += list(look())
        except TeamError as error:
            findings.append(Finding(name, State.PROBLEM, str(error)))
        except OSError as error:
            findings.append(Finding(name, State.PROBLEM, f"the system refused: {error}"))
    return findings


@dataclass(frozen=True)
class _Doctor:
    root: Path
    environ: Mapping[str, str]

    def python(self) -> Iterator[Finding]:
        yield Finding("python", State.OK, f"{platform.python_version()} on {platform.system()}")

    def git(self) -> Iterator[Finding]:
        git = Git(BlockingRunner(), scrubbed(self.environ))
        git.check_version(self.root)
        needed = ".".join(map(str, OLDEST))
        yield Finding("git", State.OK, f"{git.text(self.root, 'version')}; {needed} is needed")

    def repository(self) -> Iterator[Finding]:
        repository = Workspace(self.root, self.environ).repository
        branch = repository.head_branch()
        if branch is None:
            hint = "Check out the branch that work shall land on."
            yield Finding("branch", State.NOTE, "HEAD is detached", hint)
        else:
            yield Finding("branch", State.OK, f"work lands on {branch}")
        changed = len(repository.dirty_paths())
        if changed:
            hint = "Agents start from the last commit and do not see these; they stay untouched."
            yield Finding(
                "checkout",
                State.NOTE,
                _count(changed, "change is", "changes are") + " not committed",
                hint,
            )
        else:
            yield Finding("checkout", State.OK, f"{repository.root} is clean")

    def settings(self) -> Iterator[Finding]:
        settings = load(self.root, self.environ, {})
        found = load_hooks(self.root, self.environ, settings.hooks)
        make_permissions(settings, found)
        make_sinks(settings.notify, BlockingRunner(), self.environ, lambda: None)
        yield Finding("settings", State.OK, f"model {settings.model}")
        if found.hooks:
            hooks = _count(len(found.hooks), "hook", "hooks")
            yield Finding("hooks", State.OK, f"{hooks} will run")
        for text in found.notices:
            yield Finding("hooks", State.NOTE, text, "See `team trust`, and your settings files.")
        yield from self._credentials(settings)

    def _credentials(self, settings: Settings) -> Iterator[Finding]:
        if parse_model(settings.model).provider != ANTHROPIC:
            return
        there = [name for name, is_set in keys_set(self.environ).items() if is_set]
        if there:
            yield Finding("key", State.OK, f"{' and '.join(there)} set")
        else:
            hint = "Set it, or use `team demo`, which needs none. The board works without one."
            yield Finding("key", State.PROBLEM, f"{KEYS[0]} is not set", hint)
        url = endpoint(self.environ)
        yield Finding("endpoint", State.OK, url or "the service of Anthropic")

    def sandbox(self) -> Iterator[Finding]:
        setting = load(self.root, self.environ, {}).sandbox
        found = detect(setting, scrubbed(self.environ))
        state = State.OK if found.complete else State.NOTE
        hint = "" if found.complete else remedy()
        if setting == "off":
            hint = "It is switched off. Allow only commands that you would run yourself."
        yield Finding("sandbox", state, found.describe(), hint)

    def secrets(self) -> Iterator[Finding]:
        """What commands could still learn of keys."""
        found = detect(load(self.root, self.environ, {}).sandbox, scrubbed(self.environ))
        if not isinstance(found, NoSandbox):
            yield Finding("secrets", State.OK, "no command gets or sees a key")
            return
        hint = "Use a sandbox, or give the key to `team` alone: `ANTHROPIC_API_KEY=… team run`."
        shown = shown_by(secret_values({name: self.environ.get(name, "") for name in KEYS}))
        if shown:
            names = ", ".join(str(user) for user in shown[:5])
            detail = f"without a sandbox commands can read the key where {names} got it"
            yield Finding("secrets", State.NOTE, detail, hint)
        if os.geteuid() == 0:
            detail = "without a sandbox commands of root can read keys in the memory of a run"
            yield Finding("secrets", State.NOTE, detail, "Run it as another user, or in a sandbox.")
        elif not shown:
            detail = "commands get no key; without a sandbox they read all that you can read"
            yield Finding("secrets", State.OK, detail)

    def locks(self) -> Iterator[Finding]:
        team = Layout(self.root).team
        folder = team if team.is_dir() else self.root
        try:
            working = locks_work(folder)
        except OSError as error:
            hint = "Everything is recorded there; fix its permissions or use another folder."
            detail = f"{folder} cannot be written: {error.strerror}"
            yield Finding("file locks", State.PROBLEM, detail, hint)
            return
        if working:
            yield Finding("file locks", State.OK, "they keep others out")
        else:
            hint = "Put the workspace on a local disk."
            yield Finding("file locks", State.PROBLEM, "they do nothing in this folder", hint)

    def file_events(self) -> Iterator[Finding]:
        with tempfile.TemporaryDirectory(prefix="team-doctor-") as folder:
            watching = watch([Path(folder)], lambda path: None)
            active = watching.active
            watching.close()
        if active:
            yield Finding("file events", State.OK, "changes by other programs are seen at once")
        else:
            hint = "Raise fs.inotify.max_user_instances and max_user_watches, or just wait longer."
            detail = "none left: changes by other programs are seen within seconds"
            yield Finding("file events", State.NOTE, detail, hint)

    def disk(self) -> Iterator[Finding]:
        free = shutil.disk_usage(self.root).free
        detail = f"{free / 2**30:.1f} GiB free"
        if free >= LOW_DISK:
            yield Finding("disk space", State.OK, detail)
        else:
            state = State.NOTE if free >= NO_DISK else State.PROBLEM
            yield Finding("disk space", state, detail, "Each worktree is a copy of the checkout.")

    def state(self) -> Iterator[Finding]:
        """What earlier runs left. Makes no folder in a workspace that was never used."""
        layout = Layout(self.root)
        if not layout.team.is_dir():
            yield Finding("state", State.OK, "no team has worked here yet")
            return
        yield from self._runs(Runs(Workspace(self.root, self.environ).store))
        aside = [path for path in layout.quarantine.glob("*") if path.suffix != ".why"]
        if aside:
            hint = f"See {layout.quarantine}: each has a .why beside it."
            files = _count(len(aside), "file", "files")
            detail = f"{files} could not be read; set aside"
            yield Finding("quarantine", State.NOTE, detail, hint)

    def _runs(self, runs: Runs) -> Iterator[Finding]:
        found: dict[Liveness, list[str]] = {}
        for record in runs.known():
            run = str(record["run"])
            found.setdefault(runs.liveness(run), []).append(f"{run} (pid {record.get('pid')})")
        if alive := found.get(Liveness.ALIVE):
            yield Finding("runs", State.OK, f"at work: {', '.join(alive)}")
        if dead := found.get(Liveness.DEAD):
            hint = "`team run --continue` goes on with their work; any other run gives it back."
            yield Finding("dead runs", State.NOTE, ", ".join(dead), hint)
        if unknown := found.get(Liveness.UNKNOWN):
            hint = "They belong to another machine or boot. Release their tasks with --force."
            yield Finding("unknown runs", State.NOTE, ", ".join(unknown), hint)
        if not found:
            yield Finding("runs", State.OK, "none at work")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"
