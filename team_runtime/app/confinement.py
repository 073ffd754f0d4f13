"""What the commands of one workspace may reach: the rules of the sandbox, from the layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from team_runtime.process.hidden import hidden_places, shown_places
from team_runtime.process.sandbox import Confinement
from team_runtime.store.beneath import PROTECTED
from team_runtime.store.layout import Layout


@dataclass(frozen=True)
class Confining:
    """Makes the policy for a command by the folder in which it works."""

    layout: Layout
    environ: Mapping[str, str]
    """The user's own, which says where secrets are."""
    common_dir: Path | None = None
    """Where git keeps the repository, if there is one."""
    network: bool = False

    def policy(self, folder: Path, changes: bool = True) -> Confinement:
        """For a command in `folder`: the main checkout, a worktree, or a scratch checkout.

        `changes` says whether it may change that folder. Git's directory and the runtime's own
        files are protected wherever they are, and a worktree's command sees no other worktree.
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
            temporary=layout.temporary,
        )

    @cached_property
    def _secrets(self) -> tuple[Path, ...]:
        return hidden_places(self.environ)

    @cached_property
    def _shown(self) -> tuple[Path, ...]:
        return shown_places(self.environ, self.network)
