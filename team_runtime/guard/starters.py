"""Files by which other programs are told what to run: editors, shells, package managers, agents.

An agent that writes one of them acts later, with a person's rights and outside of every rule here.
"""

from __future__ import annotations

from typing import Final

from team_runtime.store.beneath import folded

_FOLDERS: Final = frozenset({
    ".agents", ".cargo", ".claude", ".codex", ".continue", ".cursor", ".devcontainer", ".fleet",
    ".gemini", ".husky", ".idea", ".kiro", ".mvn", ".roo", ".vscode", ".windsurf", ".yarn", ".zed",
})  # fmt: skip
_FILES: Final = frozenset({
    ".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".bazelrc",
    ".claude.json", ".devcontainer.json", ".dir-locals.el", ".envrc", ".exrc", ".gdbinit",
    ".gitconfig", ".gitmodules", ".inputrc", ".lldbinit", ".lefthook.yml", ".mcp.json",
    ".mise.toml", ".npmrc", ".nvim.lua", ".nvimrc", ".pnp.cjs", ".pnp.loader.mjs", ".pnpmfile.cjs",
    ".pre-commit-config.yaml", ".profile", ".ripgreprc", ".vimrc", ".yarnrc", ".yarnrc.yml",
    ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc", "lefthook.yml", "mise.toml",
})  # fmt: skip


def starts_programs(path: str) -> bool:
    """Whether the path is such a file, or in a folder of such files, in whatever spelling."""
    parts = folded(path).split("/")
    return parts[-1] in _FILES or not _FOLDERS.isdisjoint(parts)
