"""What the commands of one workspace may reach: the rules of the sandbox, from the layout."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from team_runtime.errors import InputError, SandboxMissing
from team_runtime.events import Emit
from team_runtime.git.folders import delete_folder
from team_runtime.process.base import Command
from team_runtime.process.bubblewrap import Bubblewrap
from team_runtime.process.detection import remedy
from team_runtime.process.domains import Domains
from team_runtime.process.filter import compiled
from team_runtime.process.hidden import hidden_places, shown_places
from team_runtime.process.proxy import Proxy
from team_runtime.process.sandbox import Confinement, Limits, Sandbox
from team_runtime.store.beneath import PROTECTED
from team_runtime.store.layout import Layout


@dataclass(frozen=True)
class Confining:
    """Confines each command by the folder in which it works."""

    sandbox: Sandbox
    layout: Layout
    environ: Mapping[str, str]
    """The user's own, which says where secrets are."""
    common_dir: Path | None = None
    """Where git keeps the repository, if there is one."""
    network: bool = False
    memory: int | None = None
    """Bytes of address space that each process may have."""
    domains: Domains | None = None
    """The hosts that commands may reach without a network of their own."""
    on_refused: Callable[[str], None] = lambda host: None
    """Told of each host that a command wanted and must not reach."""

    def heard_by(self, emit: Emit) -> Confining:
        """The same, with what it refuses as events."""
        return replace(self, on_refused=lambda host: emit("network_refused", host=host))

    def check(self) -> None:
        """Raises `InputError` or `SandboxMissing` where the list of hosts would not hold."""
        if self.domains is None:
            return
        if self.network:
            raise InputError(
                "sandbox_network lets commands reach every host and sandbox_domains only some; "
                "give one of them. Nothing was started"
            )
        if self.sandbox.layer != Bubblewrap.layer:
            cause = f"sandbox_domains needs bubblewrap, and what there is is {self.sandbox.layer}"
            raise SandboxMissing(cause, remedy())

    def confine(self, command: Command, changes: bool = True) -> Command:
        """`command` as the sandbox starts it; `changes` says whether it may change its folder."""
        key = command.cwd, changes
        if key not in self._policies:
            self._policies[key] = self.policy(*key)
        return self.sandbox.confine(command, self._policies[key])

    def policy(self, folder: Path, changes: bool = True) -> Confinement:
        """For a command in `folder`: the main checkout, a worktree, or a scratch checkout.

        Git's directory and the runtime's own files are protected wherever they are, and a
        worktree's command sees no other worktree.
        """
        layout, place = self.layout, folder.resolve()
        main = layout.workspace.resolve()
        hidden = [layout.team, *self._secrets]
        if place != main:
            hidden.append(layout.worktrees)
        readable = {main, place} - ({place} if changes else set())
        readable |= {place / ".git", layout.spill, *(main / name for name in PROTECTED)}
        readable |= {self.common_dir} if self.common_dir is not None else set()
        return Confinement(
            writable=(place,) if changes else (),
            readable=(*readable, *self._shown),
            hidden=tuple(hidden),
            network=self.network,
            limits=Limits(address_space=self.memory),
            proxy=Proxy(self.domains, self.on_refused) if self.domains is not None else None,
            temporary=layout.temporary,
        )

    @property
    def holds(self) -> bool:
        """Whether there is a sandbox at all."""
        return self.sandbox.layer != "none"

    @property
    def isolates(self) -> bool:
        """Whether a command reaches nothing but its own folder. Without the filter of system calls
        there are sockets that it can reach."""
        is_filtered = compiled(platform.machine(), internet=False) is not None
        return self.holds and is_filtered and not self.network and self.domains is None

    def told(self) -> str:
        """For agents: what holds their commands."""
        if not self.holds:
            return "Commands are not confined; stay in your directory."
        network = "have the network" if self.network else "have no network"
        if self.domains is not None:
            names = ", ".join(self.domains.names)
            network = f"reach no host but {names}, through the proxy in $HTTPS_PROXY"
        return (
            "Commands run in a sandbox: without a task they change nothing, with one they write in "
            f"your directory only, but not in .git; they see no secrets and {network}. Keep "
            "temporary files in $TMPDIR, and in your directory what the next command needs."
        )

    def clear(self) -> None:
        """Delete what commands left in their folder for temporary files, and make it anew."""
        delete_folder(self.layout.temporary)
        self.layout.temporary.mkdir(mode=0o700, exist_ok=True)

    @cached_property
    def _policies(self) -> dict[tuple[Path, bool], Confinement]:
        """Those that were asked for. What is there of it is looked at before each command."""
        return {}

    def secrets_in(self, folder: Path) -> tuple[str, ...]:
        """Where secrets are below a folder, relative to it."""
        if folder not in self._found:
            top = folder.resolve()
            real = (place.resolve() for place in self._secrets)
            inside = [place for place in real if place != top and place.is_relative_to(top)]
            self._found[folder] = tuple(str(place.relative_to(top)) for place in inside)
        return self._found[folder]

    @cached_property
    def _found(self) -> dict[Path, tuple[str, ...]]:
        return {}

    @cached_property
    def _secrets(self) -> tuple[Path, ...]:
        return hidden_places(self.environ)

    @cached_property
    def _shown(self) -> tuple[Path, ...]:
        return shown_places(self.environ, self.network)
