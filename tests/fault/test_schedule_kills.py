"""A process dies before and after every step between a slot and the end of its firing; the next one
delivers it once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from team_runtime.bus.maildir import Maildir
from team_runtime.daemons.cron import Cron, Surroundings
from team_runtime.daemons.schedule_store import ScheduleStore
from team_runtime.daemons.schedules import message_id
from team_runtime.events import no_events
from team_runtime.loop.conversation import Conversation, text_block
from team_runtime.models.base import END_TURN, ModelReply
from team_runtime.sessions.sessions import Sessions
from team_runtime.sessions.transcript import Transcript
from team_runtime.store.files import Store
from team_runtime.types import Usage
from tests.support.clocks import HandClock
from tests.support.schedules import SESSION, at, draft
from tests.support.state import kill_at_every_step, make_store

NOW = HandClock(at("13:05"))
REPLY = ModelReply((text_block("Done."),), END_TURN, Usage(), "test")


async def _never() -> None:
    raise AssertionError("the daemon is not run here, only its steps")


class Life:
    """One run of the session: its daemon and its lead, one step after another."""

    def __init__(self, store: Store) -> None:
        self.schedules = ScheduleStore(store)
        self.bus = Maildir(store)
        sessions = Sessions(store)
        path = store.layout.sessions / SESSION / "lead.jsonl"
        self.conversation = Conversation(Transcript(store, path))
        self.cron = Cron(
            Surroundings(
                session=SESSION,
                schedules=self.schedules,
                sessions=sessions,
                bus=self.bus,
                clock=NOW,
                emit=no_events,
                readers=lambda: ["lead"],
                ready=_never,
                is_open=lambda: True,
                waits_for=lambda entry: entry.is_due(NOW.now()),
                outage=lambda agent: None,
                failure=lambda agent: "",
                on_quiet=lambda: None,
            )
        )

    def live(self) -> None:
        """Mail of an earlier run first, as a resumed agent does; then what is due, until quiet."""
        self.bus.register("lead")
        self._take_in()
        self.cron.take_up()
        while True:
            self.cron.tick()
            self._take_in()
            if self.conversation.unanswered:
                self.conversation.append_reply(REPLY)
                self.cron.on_event({"kind": "agent_state", "agent": "lead", "state": "idle"})
            elif not self.cron.can_come():
                break
        self.bus.close()

    def _take_in(self) -> None:
        mail = self.bus.take("lead")
        fresh = [m for m in mail if m.id not in self.conversation.delivered]
        if fresh:
            blocks = [text_block(m.body) for m in fresh]
            self.conversation.append_user(blocks, [m.id for m in fresh])
        if mail:
            self.conversation.sync()
            self.bus.acknowledge("lead", [m.id for m in mail])
        for m in fresh:
            self.cron.on_event({"kind": "message_delivered", "agent": "lead", "id": m.id})


def prepared(store: Store) -> list[str]:
    schedules = ScheduleStore(store)
    return [
        schedules.add(draft("*/10 * * * *", misfire="all")).id,
        schedules.add(draft("in 5 minutes", session=SESSION)).id,
    ]


def check(store: Store, ids: list[str]) -> None:
    """Each slot was delivered once and is over."""
    Life(store).live()
    life = Life(store)
    moments = [*(f"12:{minute}0" for minute in range(1, 6)), "13:00"]
    slots = [*((ids[0], at(moment)) for moment in moments), (ids[1], at("12:05"))]
    path = store.layout.sessions / SESSION / "lead.jsonl"
    mail = [id for e in Transcript(store, path).entries() for id in e.get("mail", ())]
    assert sorted(mail) == sorted(message_id(*key) for key in slots)
    states = {
        (e.schedule.id, f.slot): f.state
        for e in life.schedules.entries()
        for f in e.history.firings
    }
    assert states == dict.fromkeys(slots, "acknowledged")
    assert not store.layout.quarantine.exists()


@pytest.mark.parametrize("state", ["idle", "stopped"])
def test_a_turn_that_ends_while_its_firing_is_taken_up_acknowledges_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """An earlier process died after the message; the one that goes on is quick."""
    store = make_store(tmp_path)
    schedules = ScheduleStore(store)
    id = schedules.add(draft("in 5 minutes", session=SESSION)).id
    schedules.decide(id, NOW.now())
    life = Life(store)
    life.conversation.append_user([text_block("look")], [message_id(id, at("12:05"))])
    life.conversation.append_reply(REPLY)
    delivered = ScheduleStore.delivered

    def meanwhile(self: ScheduleStore, *key: Any) -> None:
        delivered(self, *key)
        life.cron.on_event({"kind": "agent_state", "agent": "lead", "state": state})

    monkeypatch.setattr(ScheduleStore, "delivered", meanwhile)
    life.cron.take_up()
    (firing,) = schedules.get(id).history.firings
    assert (firing.state, firing.note) == ("acknowledged", None)


@pytest.mark.fault
@pytest.mark.timeout(600)
def test_three_hundred_deaths_between_a_slot_and_its_end(tmp_path: Path) -> None:
    deaths = 0
    for store, ids, done in kill_at_every_step(
        tmp_path, prepared, lambda store, _: Life(store).live()
    ):
        check(store, ids)
        deaths += not done
    assert deaths >= 300
