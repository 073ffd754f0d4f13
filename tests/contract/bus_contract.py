"""What every bus must do. A backend's test class inherits this and says how to make one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial

import pytest

from team_runtime.bus.base import Bus
from team_runtime.bus.message import Message
from team_runtime.errors import InputError, MailboxBusy, NameInvalid, UnknownRecipient
from tests.support.state import Events, together


class BusContract(ABC):
    """Inherit and implement `open_bus`: every call opens the same mailboxes, as another reader."""

    events: Events

    @abstractmethod
    def open_bus(self) -> Bus: ...

    @pytest.fixture
    def bus(self) -> Bus:
        bus = self.open_bus()
        for name in ("lead", "alice", "bob"):
            bus.register(name)
        return bus

    def test_registering_is_for_good_and_can_be_repeated(self, bus: Bus) -> None:
        bus.register("alice")
        assert list(self.open_bus().names()) == ["alice", "bob", "lead"]

    @pytest.mark.parametrize("name", ["", "..", "A", "a/b", "a" * 41])
    def test_a_name_that_could_be_no_folder_is_refused(self, bus: Bus, name: str) -> None:
        with pytest.raises(NameInvalid):
            bus.register(name)

    def test_a_message_arrives_as_it_was_sent(self, bus: Bus) -> None:
        sent = bus.send("lead", "alice", "Grüße\n<b>&", "task_assigned", {"task": "task_1"})
        (message,) = self.open_bus().take("alice")
        assert message == sent
        assert (message.sender, message.to, message.type) == ("lead", "alice", "task_assigned")
        assert (message.body, message.attributes) == ("Grüße\n<b>&", {"task": "task_1"})
        assert message.at.endswith("Z")
        assert bus.send("lead", "alice", "x", session="s-9").session == "s-9"

    def test_a_message_can_be_sent_under_an_id_of_the_sender(self, bus: Bus) -> None:
        sent = bus.send("lead", "alice", "hello", id="m-task_1-2")
        assert sent.id == "m-task_1-2"
        assert bus.take("alice") == [sent]
        bus.acknowledge("alice", [sent.id])
        assert self.open_bus().unread("alice") == []

    def test_order_is_kept(self, bus: Bus) -> None:
        for n in range(12):
            bus.send("lead", "alice", str(n))
        assert [message.body for message in bus.take("alice")] == [str(n) for n in range(12)]

    @pytest.mark.parametrize("name", ["typo", "", "..", "alice/../bob", "A", "mail"])
    def test_an_unknown_recipient_lists_the_names_and_creates_nothing(
        self, bus: Bus, name: str
    ) -> None:
        """claude-code#68410: a typo made a phantom inbox and was called a success."""
        with pytest.raises(UnknownRecipient, match="alice, bob, lead"):
            bus.send("lead", name, "hello")
        assert list(bus.names()) == ["alice", "bob", "lead"]
        for read in (bus.take, bus.unread):
            with pytest.raises(UnknownRecipient):
                read(name)

    def test_an_unknown_type_is_refused(self, bus: Bus) -> None:
        with pytest.raises(InputError, match="plan_request"):
            bus.send("lead", "alice", "x", "approval")
        assert bus.unread("alice") == []

    def test_a_reader_takes_each_message_once(self, bus: Bus) -> None:
        first = bus.send("lead", "alice", "one")
        assert bus.take("alice") == [first]
        second = bus.send("lead", "alice", "two")
        assert bus.take("alice") == [second]
        assert bus.take("alice") == []

    def test_what_an_earlier_reader_left_comes_first(self, bus: Bus) -> None:
        """claude-code#88357: accepted messages vanished with their reader."""
        sent = [bus.send("lead", "alice", str(n)) for n in range(3)]
        bus.take("alice")
        bus.acknowledge("alice", [sent[1].id])
        bus.close()
        later = bus.send("lead", "alice", "later")
        assert self.open_bus().take("alice") == [sent[0], sent[2], later]

    def test_acknowledged_mail_never_comes_back(self, bus: Bus) -> None:
        sent = [bus.send("lead", "alice", str(n)) for n in range(3)]
        bus.take("alice")
        bus.acknowledge("alice", [message.id for message in sent])
        bus.acknowledge("alice", [sent[0].id, "unknown"])
        bus.close()
        assert self.open_bus().take("alice") == []

    def test_one_reader_per_name(self, bus: Bus) -> None:
        sent = bus.send("lead", "alice", "x")
        assert bus.take("alice") == [sent]
        other = self.open_bus()
        with pytest.raises(MailboxBusy, match="alice"):
            other.take("alice")
        other.send("bob", "alice", "still works")
        assert len(other.unread("alice")) == 1
        assert other.take("bob") == []
        bus.close()
        assert len(other.take("alice")) == 2

    def test_looking_consumes_nothing(self, bus: Bus) -> None:
        sent = bus.send("lead", "alice", "x")
        assert bus.unread("alice") == bus.unread("alice") == [sent]
        assert bus.take("alice") == [sent]
        assert bus.unread("alice") == []

    def test_lone_surrogates_are_no_harm(self, bus: Bus) -> None:
        bus.send("lead", "alice", "bad \ud800", attributes={"k": "\udfff"})
        (message,) = bus.take("alice")
        assert (message.body, message.attributes) == ("bad ?", {"k": "?"})

    def test_sixteen_senders_lose_and_double_nothing(self, bus: Bus) -> None:
        """claude-code#53896: concurrent senders lost messages, all told success."""

        sent: list[str] = []
        got: list[Message] = []

        def send(name: str) -> None:
            sent.extend(self.open_bus().send(name, "alice", str(n)).id for n in range(25))

        def read() -> None:
            while len(got) < 16 * 25:
                taken = bus.take("alice")
                got.extend(taken)
                bus.acknowledge("alice", [message.id for message in taken])

        together(*(partial(send, f"agent-{n}") for n in range(16)), read)
        assert sorted(message.id for message in got) == sorted(sent)
        for n in range(16):
            mine = [message.body for message in got if message.sender == f"agent-{n}"]
            assert mine == [str(k) for k in range(25)]

    def test_sending_is_told(self, bus: Bus) -> None:
        sent = bus.send("lead", "alice", "x", "notification")
        assert self.events.seen == [
            ("message_sent", "lead", {"to": "alice", "type": "notification", "message": sent.id})
        ]
