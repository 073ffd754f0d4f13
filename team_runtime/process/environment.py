"""The environment that child processes get: an allow-list, so that no key or token reaches them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

ALLOWED: Final = (
    # who and where
    "HOME", "LOGNAME", "PATH", "PWD", "SHELL", "TMPDIR", "USER",
    # how to show things
    "COLORTERM", "COLUMNS", "LANG", "LANGUAGE", "LINES", "NO_COLOR", "TERM", "TZ",
    # toolchains: where they are installed, never what they are allowed to do
    "CARGO_HOME", "CONDA_DEFAULT_ENV", "CONDA_EXE", "CONDA_PREFIX", "DOTNET_ROOT", "GOPATH",
    "GOROOT", "JAVA_HOME", "NODE_PATH", "NVM_BIN", "NVM_DIR", "PNPM_HOME", "PYENV_ROOT",
    "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONPATH",
    "PYTHONUNBUFFERED", "PYTHONUTF8", "RBENV_ROOT", "RUSTUP_HOME", "SSL_CERT_DIR",
    "SSL_CERT_FILE", "VIRTUAL_ENV",
    # what continuous integration sets so that programs do not ask
    "CI", "DEBIAN_FRONTEND",
)  # fmt: skip
ALLOWED_PREFIXES: Final = ("LC_", "XDG_")
_SECRET: Final = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|COOKIE|AUTH", re.IGNORECASE)
_VALUE: Final = re.compile(
    r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|COOKIE|AUTH)S?(_|$)", re.IGNORECASE
)
_SHORTEST: Final = 8
"""Characters of a secret that is looked for."""
_LONGEST_WORD: Final = 16
"""Characters from which on a text without digits is taken for no word."""


def scrubbed(environ: Mapping[str, str], named: Collection[str] = ()) -> dict[str, str]:
    """The variables of `environ` that a child may see; never one whose name looks like a secret's,
    and none of git's, which could point it at another repository or program.

    `named` are those that the user adds, by name or by how names begin (`MY_*`); a secret only by
    its own name.
    """
    begins = tuple(name.removesuffix("*") for name in named if name.endswith("*"))

    def passes(name: str) -> bool:
        usual = name in ALLOWED or name.startswith((*ALLOWED_PREFIXES, *begins))
        return name in named or (usual and not is_secret(name) and not name.startswith("GIT_"))

    return {name: value for name, value in environ.items() if passes(name)}


def is_secret(name: str) -> bool:
    """Whether the name of a variable looks like a secret's."""
    return _SECRET.search(name) is not None


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """What must appear nowhere: the values of variables that are named as secrets are. Paths, and
    what may be a word that occurs by chance, are left out."""
    return [
        value
        for name, value in environ.items()
        if _VALUE.search(name) and not value.startswith("/") and _is_no_word(value)
    ]


def _is_no_word(value: str) -> bool:
    """Taking out a common word would spoil every file that an agent reads."""
    has_digit = any(character.isdigit() for character in value)
    return len(value) >= (_SHORTEST if has_digit else _LONGEST_WORD)
