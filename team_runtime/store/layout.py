"""Where everything lies in a workspace, and which names may become paths."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from team_runtime.errors import NameInvalid, StoreFailed

_AGENT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_WORKTREE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_agent_name(name: str) -> bool:
    """Whether `name` can be an agent's."""
    return _AGENT.fullmatch(name) is not None


def check_agent_name(name: str, kind: str = "agent") -> str:
    """`name`, when it can be an agent's or a team's. Raises `NameInvalid`."""
    if not is_agent_name(name):
        rule = "use 1 to 40 lower-case letters, digits and hyphens, no hyphen first"
        raise NameInvalid(kind, name, rule)
    return name


def check_worktree_name(name: str) -> str:
    """`name`, when it can be a folder and a branch. Raises `NameInvalid`."""
    spoiled = ".." in name or name == "HEAD" or name.endswith((".lock", "."))
    if spoiled or not _WORKTREE.fullmatch(name):
        rule = (
            "use 1 to 64 letters, digits, dots, underscores and hyphens, a letter or digit first, "
            "without '..', not HEAD, not ending in '.lock' or '.'"
        )
        raise NameInvalid("worktree", name, rule)
    return name


@dataclass(frozen=True)
class Layout:
    """The folders and files of one workspace."""

    workspace: Path

    @property
    def tasks(self) -> Path:
        return self.workspace / ".tasks"

    @property
    def worktrees(self) -> Path:
        return self.workspace / "worktrees"

    @property
    def team(self) -> Path:
        return self.workspace / ".team"

    @property
    def mail(self) -> Path:
        return self.team / "mail"

    @property
    def sessions(self) -> Path:
        return self.team / "sessions"

    @property
    def runs(self) -> Path:
        return self.team / "runs"

    @property
    def plans(self) -> Path:
        return self.team / "plans"

    @property
    def approvals(self) -> Path:
        """Questions for a person."""
        return self.team / "approvals"

    @property
    def schedules(self) -> Path:
        return self.team / "schedules"

    @property
    def records(self) -> Path:
        """What is recorded about each worktree."""
        return self.team / "worktrees"

    @property
    def spill(self) -> Path:
        """Results that were too long for a conversation."""
        return self.team / "spill"

    @property
    def jobs(self) -> Path:
        """A record of each background command, and beside it a folder with its output."""
        return self.team / "jobs"

    @property
    def job_requests(self) -> Path:
        """What other processes ask of running jobs."""
        return self.jobs / "requests"

    @property
    def temporary(self) -> Path:
        """Temporary files of commands, where the sandbox gives them no place of their own."""
        return self.team / "temporary"

    @property
    def locks(self) -> Path:
        return self.team / "locks"

    @property
    def rescue(self) -> Path:
        return self.team / "rescue"

    @property
    def quarantine(self) -> Path:
        return self.team / "quarantine"

    @property
    def events(self) -> Path:
        return self.team / "events.jsonl"

    def prepare(self) -> None:
        """Make `.team` where it is missing, in such a way that git takes no notice of it.

        Raises `StoreFailed` when it or `.tasks` is a link or not a folder: what we write must not
        land elsewhere.
        """
        try:
            self.team.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.tasks, self.team):
                if os.path.lexists(folder) and not stat.S_ISDIR(os.lstat(folder).st_mode):
                    raise StoreFailed(str(folder), "used", "it is a link or a file, not a folder")
            _hide_from_git(self.team)
        except OSError as error:
            raise StoreFailed(str(self.team), "made", error.strerror or str(error)) from error


def _hide_from_git(folder: Path) -> None:
    """Have git ignore a folder that is empty, as a new one is. One that came with the repository is
    not: git knows no empty folders. What a link there leads to is left alone."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with os.scandir(opened) as entries:
            if next(entries, None) is not None:
                return
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(FileExistsError):  # another process makes the folder at the same time
            file = os.open(".gitignore", flags, 0o600, dir_fd=opened)
            try:
                os.write(file, b"*\n")
            finally:
                os.close(file)
    finally:
        os.close(opened)
