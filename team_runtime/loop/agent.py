"""The loop: the same for the lead, for teammates and for whatever else turns a model into work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from team_runtime.bus.base import Bus
from team_runtime.bus.message import Message, render
from team_runtime.events import Emit
from team_runtime.loop.conversation import Conversation, text_block
from team_runtime.loop.dispatch import Dispatch
from team_runtime.loop.hooked import AgentHooks
from team_runtime.loop.turn import Caller, ask
from team_runtime.models.base import TOOL_USE
from team_runtime.types import ToolResult

UNKNOWN: Final = (
    "The runtime stopped before the result of this call was recorded: whether it took effect is "
    "unknown. Check before you repeat it."
)


class TurnBreak(Exception):
    """The agent was asked to stop and does so between two turns."""


@dataclass
class Agent:
    """One agent: a conversation, a model, tools and a mailbox."""

    name: str
    conversation: Conversation
    caller: Caller
    dispatch: Dispatch
    bus: Bus
    emit: Emit
    check_stop: Callable[[], None]
    """Raises `TurnBreak` when the agent shall stop before its next model call."""
    hooks: AgentHooks = field(default_factory=AgentHooks)
    before_end: Callable[[str, int], str | None] = lambda text, times: None
    """Why the agent may not end its turn yet, given its text and how often in a row it was kept
    from it; `None` when it may."""

    def work(self) -> str:
        """Take turns until the model asks for no more tools, and nobody keeps it from ending.
        Returns its last text."""
        kept = 0
        while True:
            self.check_stop()
            self.take_in()
            turn = self.conversation.replies + 1
            self.emit("turn_started", self.name, turn=turn)
            reply = ask(self.caller, self.conversation)
            wants_tools = reply.stop_reason == TOOL_USE and bool(reply.calls)
            run = self.dispatch.run if wants_tools else self.dispatch.leave
            self.conversation.append_user([result.block() for result in run(reply.calls)])
            self.emit(
                "turn_ended",
                self.name,
                turn=turn,
                stop_reason=reply.stop_reason,
                usage=reply.usage.to_api(),
                model=reply.model,
                calls=[call.name for call in reply.calls],
            )
            if wants_tools:
                continue
            more = self.before_end(reply.text, kept)
            if more is None:
                return reply.text
            kept += 1
            self.tell(more)

    def take_in(self) -> int:
        """Move the mail into the conversation; acknowledged once it is safe there. Returns how
        many messages are new."""
        return self._take_in(self.bus.take(self.name))

    def _take_in(self, mail: Sequence[Message]) -> int:
        fresh = list({m.id: m for m in mail if m.id not in self.conversation.delivered}.values())
        if fresh:
            blocks = [text_block(render(m)) for m in _coalesced(fresh)]
            self.conversation.append_user(blocks, [m.id for m in fresh])
        if mail:
            self.conversation.sync()
            self.bus.acknowledge(self.name, [m.id for m in mail])
        for m in fresh:
            self.emit("message_delivered", self.name, id=m.id, sender=m.sender, type=m.type)
        return len(fresh)

    def tell(self, text: str) -> None:
        """Add a request in the user's own voice: a prompt, or the instruction of a spawn."""
        self.conversation.append_user([text_block(text)])
        self.conversation.sync()

    def set_aside_old_mail(self, keep: Collection[str] = ()) -> None:
        """Keep mail for an earlier agent of this name out of the conversation, but not lose it.
        What the senders in `keep` wrote is for whoever has the name now."""
        mail = self.bus.take(self.name)
        old = [m for m in mail if m.sender not in keep]
        if old:
            self.conversation.set_aside([asdict(m) for m in old])
            self.bus.acknowledge(self.name, [m.id for m in old])
        self._take_in([m for m in mail if m.sender in keep])

    def go_on(self, *texts: str) -> None:
        """Begin with a request, or go on where an earlier run was cut off: each call without a
        result is answered, truthfully, and what was being delivered is taken in."""
        self.conversation.append_user(
            [ToolResult(id, UNKNOWN, is_error=True).block() for id in self.conversation.open_calls]
        )
        self.take_in()
        self.conversation.append_user([text_block(text) for text in texts if text])
        self.conversation.sync()


def _coalesced(mail: Sequence[Message]) -> list[Message]:
    """Without the notices of a sender's idleness that a later one repeats."""
    last = {m.sender: m.id for m in mail if m.type == "idle"}
    return [m for m in mail if m.type != "idle" or last[m.sender] == m.id]
