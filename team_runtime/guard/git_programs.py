"""What a repository's own git settings could run, but for the drivers that are trusted one by one.

We run none of it: git gets its settings from us. A user's own git does, so a person who decides
about trust is told.
"""

from __future__ import annotations

import os
import re
from typing import Final

from team_runtime.git.repository import Repository
from team_runtime.git.run import split
from team_runtime.text import one_line

_PROGRAMS: Final = re.compile(
    r"""
      core\.(fsmonitor|hookspath|sshcommand|editor|pager|askpass|gitproxy|alternaterefscommand)
    | filter\..*\.(clean|smudge|process)
    | diff\.(external|.*\.(command|textconv))
    | merge\..*\.driver
    | (diff|merge)tool\..*\.(cmd|path)
    | credential\.(.*\.)?helper
    | gpg\.(.*\.)?program
    | pager\..*
    | (sequence\.editor|interactive\.difffilter|uploadpack\.packobjectshook|attr\.tree)
    | remote\..*\.(uploadpack|receivepack|vcs|proxy)
    | (browser|man|guitool)\..*\.cmd
    | include(if\..*)?\.?path
    | protocol\.ext\.allow
    """,
    re.VERBOSE,
)


def git_programs(repository: Repository) -> list[str]:
    """The settings of the repository, and the hooks in it, that name something to run."""
    ours = {key for key, _ in repository.drivers()}
    listed = repository.git.run(repository.tree, "config", "--local", "--list", "-z").stdout
    found = []
    for item in split(listed):
        key, _, value = item.partition("\n")
        if key in ours:
            continue
        if _PROGRAMS.fullmatch(key) or (key.startswith("alias.") and value.startswith("!")):
            found.append(one_line(f"{key} = {value}", 200))
    folder = repository.tree.common_dir / "hooks"
    hooks = sorted(folder.iterdir()) if folder.is_dir() else []
    found += [
        one_line(f"hooks/{path.name}", 200)
        for path in hooks
        if path.suffix != ".sample" and os.access(path, os.X_OK)
    ]
    return found
