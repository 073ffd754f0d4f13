"""The hooks of a run or of a command, put together: where they are read, and what each is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from team_runtime.app.trusting import trust_store
from team_runtime.clock import SystemClock
from team_runtime.errors import HookRefused, RefusedError
from team_runtime.events import Emit
from team_runtime.guard.always import AlwaysRules
from team_runtime.guard.hook_config import PythonHook
from team_runtime.guard.hook_events import (
    SESSION_END,
    SESSION_START,
    TEAMMATE,
    USER_PROMPT_SUBMIT,
)
from team_runtime.guard.hook_hosts import Host
from team_runtime.guard.hook_run import Surroundings
from team_runtime.guard.hook_sources import Loaded, OriginRule, Places, load
from team_runtime.guard.hooks import Hooks, Occasion, no_hooks
from team_runtime.guard.trust import Survey
from team_runtime.loop.hooked import CLOSING_SECONDS, shown
from team_runtime.places import SETTINGS_FILE, home_folder, user_folder
from team_runtime.store.layout import Layout
from team_runtime.team.planning import LEAD
from team_runtime.types import Json

if TYPE_CHECKING:
    from team_runtime.team.run import Ending, Start
    from team_runtime.team.team import Team


@dataclass(frozen=True)
class About:
    """What every payload of a run says; empty for a command outside of any run."""

    root: Path
    session: str = ""
    team: str = ""
    permission_mode: str = "default"

    def facts(self, agent: str | None) -> Mapping[str, Json]:
        """The common fields for an agent, or for a person's command."""
        named = agent or ""
        transcript = Layout(self.root).sessions / self.session / f"{named}.jsonl"
        facts: dict[str, Json] = {
            "session_id": self.session,
            "transcript_path": str(transcript) if self.session and named else "",
            "cwd": str(self.root),
            "permission_mode": self.permission_mode,
            "agent_name": named,
            "team_name": self.team,
        }
        if agent is not None and agent != LEAD:
            facts |= {"teammate_name": agent, "agent_id": agent, "agent_type": TEAMMATE}
        return facts


def always_rules(environ: Mapping[str, str]) -> AlwaysRules:
    """What this user has allowed for always."""
    return AlwaysRules(user_folder(environ), SystemClock())


def load_hooks(
    root: Path,
    environ: Mapping[str, str],
    own: Json = None,
    brought: Sequence[PythonHook] = (),
) -> Loaded:
    """Read all hooks, and the rules of the workspace's settings and of the user's answers. `own` is
    the `hooks` table of the user's team.toml. Raises `InputError`."""
    from team_runtime.app.tools import TOOL_NAMES

    is_trusted = trust_store(environ).is_trusted
    loaded = load(_places(root, environ), is_trusted, TOOL_NAMES, own, brought)
    always = always_rules(environ)
    kept = [OriginRule(text, f"always allowed, {always.path}") for text in always.of(root)]
    return replace(loaded, allow=(*loaded.allow, *kept))


def check_workspace(root: Path, environ: Mapping[str, str]) -> Survey:
    """What a workspace would run or allow once it is trusted. Raises `InputError` when it could
    not be used then."""
    from team_runtime.app.permissions import make_permissions
    from team_runtime.app.tools import TOOL_NAMES
    from team_runtime.config import Settings

    seen: list[Survey] = []

    def look(where: Path, found: Survey) -> bool:
        seen.append(found)
        return True

    make_permissions(Settings(), load(_places(root, environ), look, TOOL_NAMES))
    return seen[0]


def command_hooks(surroundings: Surroundings, host: Host, emit: Emit) -> Hooks:
    """The hooks for a command outside of any run. Where no file could hold one, nothing is loaded
    for it. Raises `InputError`."""
    root, environ = surroundings.root, surroundings.user_environment
    own = user_folder(environ) / SETTINGS_FILE
    if not any(path.exists() for path in (own, *_places(root, environ).files)):
        return no_hooks()
    from team_runtime.config import load  # takes longer than all of the rest

    loaded = load_hooks(root, environ, load(root, environ, {}).hooks)
    return Hooks(loaded.hooks, surroundings, host, emit, About(root).facts)


def _places(root: Path, environ: Mapping[str, str]) -> Places:
    return Places(root, user_folder(environ), home_folder(environ))


def begin(hooks: Hooks, start: Start, is_new: bool) -> Start:
    """Tell that a run begins, and ask about what the lead is to be given; `is_new` when its session
    has not begun before. Raises `HookRefused`."""
    source = "startup" if is_new else "resume"
    opened = hooks.fire(SESSION_START, Occasion(LEAD, {"source": source}, source))
    if opened.halt is not None:
        raise HookRefused(event=SESSION_START, reason=opened.halt)
    context = shown(SESSION_START, opened.context)
    if is_new:
        # A session that a schedule began has no request: its prompt comes as a message.
        asked = _submitted(hooks, start.request, context) if start.request else context
        start = replace(start, request=asked)
        context = ""
    if start.further:
        start = replace(start, further=_submitted(hooks, start.further, context))
    return start


def _submitted(hooks: Hooks, prompt: str, context: str) -> str:
    """The prompt with what hooks add to it."""
    occasion = Occasion(LEAD, {"prompt": prompt})
    outcome = hooks.fire(USER_PROMPT_SUBMIT, occasion)
    if outcome.blocked:
        raise HookRefused(event=USER_PROMPT_SUBMIT, reason=outcome.reason)
    parts = (prompt, context, shown(USER_PROMPT_SUBMIT, outcome.context))
    return "\n\n".join(part for part in parts if part)


def end(hooks: Hooks, ending: Ending) -> None:
    """Tell that a run has ended."""
    reason = "interrupted" if ending.interrupted else "error" if ending.error else "other"
    hooks.fire(SESSION_END, Occasion(LEAD, {"reason": reason}, reason, CLOSING_SECONDS))


def halting(team: Team) -> Callable[[str, str], None]:
    """What it means that a hook says `continue: false`."""

    def halt(agent: str, reason: str) -> None:
        if agent == LEAD:
            text = f"a hook ended the run: {reason}"
            team.stopping.ask_all(text, RefusedError(text))
        elif agent in team.roster.readers():
            team.roster.ask_to_stop(agent, f"a hook stopped it: {reason}")

    return halt
