"""Files by which other programs are told what to run: editors, shells, package managers, agents.

An agent that writes one of them acts later, with a person's rights and outside of every rule here.
"""

from __future__ import annotations

from typing import Final

from team_runtime.store.beneath import folded

_FOLDERS: Final = frozenset({
    ".claude", ".codex", ".cursor", ".devcontainer", ".gemini", ".husky", ".idea", ".vscode",
})  # fmt: skip
_FILES: Final = frozenset({
    ".bash_login", ".bash_profile", ".bashrc", ".envrc", ".gitconfig", ".gitmodules", ".mcp.json",
    ".npmrc", ".profile", ".ripgreprc", ".yarnrc", ".yarnrc.yml", ".zlogin", ".zprofile", ".zshenv",
    ".zshrc",
})  # fmt: skip


def starts_programs(path: str) -> bool:
    """Whether the path is such a file, or in a folder of such files, in whatever spelling."""
    parts = folded(path).split("/")
    return parts[-1] in _FILES or not _FOLDERS.isdisjoint(parts)
