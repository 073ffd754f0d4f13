"""What commands never get to see: where people keep secrets, and where services listen."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

IN_HOME: Final = (
    # keys, tokens and password stores
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".terraform.d",
    ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token",
    ".boto", ".s3cfg", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials",
    ".m2/settings.xml", ".gradle/gradle.properties", ".claude", ".claude.json", ".codex",
    ".gemini", ".local/share/keyrings", ".Xauthority", ".ICEauthority",
    # what was typed
    ".bash_history", ".zsh_history", ".python_history", ".psql_history", ".node_repl_history",
    # browsers and mail
    ".mozilla", ".thunderbird", "Library/Application Support/team", "Library/Keychains",
)  # fmt: skip
IN_CONFIG: Final = (
    "team", "gh", "glab-cli", "hub", "gcloud", "op", "rclone", "git/credentials", "doctl",
    "google-chrome", "chromium", "BraveSoftware", "heroku", "containers/auth.json",
    "pypoetry/auth.toml",
)  # fmt: skip
OF_THE_SYSTEM: Final = (
    "/run", "/var/run",  # where services listen
    "/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/ssh",
)  # fmt: skip
NAMED_BY: Final = (
    "TEAM_CONFIG_DIR", "XDG_RUNTIME_DIR", "GNUPGHOME", "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "KUBECONFIG", "DOCKER_CONFIG", "NETRC",
    "XAUTHORITY", "PGPASSFILE", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE",
)  # fmt: skip
"""Variables that say where a secret is instead."""
_SOCKETS: Final = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO")
_RESOLVER: Final = Path("/etc/resolv.conf")


def hidden_places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders and files to hide from commands of the user with this environment."""
    programs = [Path(entry) for entry in _entries(environ)]
    found = [
        place
        for place in map(Path, OF_THE_SYSTEM)
        # Where programs are started from there, the filter alone keeps commands from services.
        if os.access(place, os.R_OK)
        and not any(program.is_relative_to(place) for program in programs)
    ]
    if home := environ.get("HOME"):
        found += [Path(home, place) for place in IN_HOME]
        config = environ.get("XDG_CONFIG_HOME") or Path(home, ".config")
        found += [Path(config, place) for place in IN_CONFIG]
    found += [Path(environ[name]) for name in NAMED_BY if environ.get(name)]
    found += [Path(environ[name]) for name in _SOCKETS if environ.get(name)]
    return tuple(path for path in found if path.is_absolute() and path != path.parent)


def shown_places(environ: Mapping[str, str], network: bool) -> tuple[Path, ...]:
    """What has to stay visible, should it lie in a hidden folder: the programs on the `PATH` with
    what belongs to them, and, with the network, how names are resolved."""
    return tuple(dict.fromkeys([*_toolchains(environ), *([_RESOLVER] if network else [])]))


def _toolchains(environ: Mapping[str, str]) -> Iterator[Path]:
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[1])
    for folder in map(Path, _entries(environ)):
        # `bin` needs the `lib` beside it; but never all of a folder at the top.
        whole = folder.name in ("bin", "sbin") and len(folder.parts) > 3
        yield folder.parent if whole else folder


def _entries(environ: Mapping[str, str]) -> list[str]:
    return [entry for entry in environ.get("PATH", "").split(":") if entry.startswith("/")]
