"""Programs that a repository's own settings would have git run on the content of files.

A repository that somebody handed over can hold any. Git is told to run none of them; what would
then be stored is not what its owner meant, so no worktree is made either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from team_runtime.git.run import Git, split

_DRIVER: Final = re.compile(r"(filter\..+)\.(clean|smudge|process)|(merge\..+)\.driver", re.S)


def drivers(git: Git, workspace: Path) -> tuple[str, ...]:
    """The keys of such settings in the repository's own files, and not in the user's."""
    listed = split(git.run(workspace, "config", "--list", "--show-scope", "-z").stdout)
    scopes, settings = listed[::2], listed[1::2]
    keys = [setting.partition("\n")[0] for setting in settings]
    own = [key for scope, key in zip(scopes, keys, strict=True) if scope in ("local", "worktree")]
    return tuple(dict.fromkeys(key for key in own if _DRIVER.fullmatch(key)))


def without(keys: Iterable[str]) -> tuple[str, ...]:
    """Settings under which git runs none of these: contents are taken as they are, and what a merge
    driver would have merged is a conflict."""
    found: dict[str, None] = {}
    for key in keys:
        match = _DRIVER.fullmatch(key)
        if match and match[1]:
            found |= dict.fromkeys(f"{match[1]}.{part}=" for part in ("clean", "smudge", "process"))
            found[f"{match[1]}.required=false"] = None
        elif match:
            found[f"{key}=false"] = None
    return tuple(found)
