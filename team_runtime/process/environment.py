"""The environment that child processes get: an allow-list, so that no key or token reaches them."""

from __future__ import annotations

import re
from collections.abc import Mapping
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


def scrubbed(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that a child may see; never one whose name looks like a secret's,
    and none of git's, which could point it at another repository or program."""
    return {
        name: value
        for name, value in environ.items()
        if (name in ALLOWED or name.startswith(ALLOWED_PREFIXES)) and not _SECRET.search(name)
    }
