"""The mailbox as programs use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from team_runtime.bus.mailbox import Mailbox
from team_runtime.errors import MailboxBusy, UnknownRecipient
from tests.support.state import in_child, program, together

SEND = """
import sys
from team_runtime.bus.mailbox import Mailbox
with Mailbox.open(sys.argv[1], "bob") as box:
    print(box.send(to="alice", body="ready for review"))
"""


def test_the_library_example_works_as_documented(tmp_path: Path) -> None:
    with Mailbox.open(tmp_path, "bob") as bob, Mailbox.open(tmp_path, "alice") as alice:
        message_id = alice.send(to="bob", body="ready for review")
        (message,) = bob.receive(timeout=5.0)
        assert (message.id, message.sender, message.type) == (message_id, "alice", "message")
        assert (message.body, message.at != "") == ("ready for review", True)
        bob.acknowledge(message)
        assert bob.receive() == []
        with pytest.raises(UnknownRecipient, match="alice, bob"):
            alice.send(to="bbo", body="x")


def test_a_message_stays_until_it_is_acknowledged(tmp_path: Path) -> None:
    with Mailbox.open(tmp_path, "alice") as box:
        box.send(to="alice", body="1")
        (kept,) = box.receive()
        assert box.receive() == []
    with Mailbox.open(tmp_path, "alice") as box:
        assert box.receive() == [kept]
        box.acknowledge(kept)
    with Mailbox.open(tmp_path, "alice") as box:
        assert box.receive() == []


def test_a_waiting_receiver_is_woken_by_another_process(tmp_path: Path) -> None:
    with Mailbox.open(tmp_path, "alice") as box:
        sender = program(SEND, tmp_path)
        (message,) = box.receive(timeout=30)
        assert message.id == sender.communicate()[0].strip()
        assert box.receive(timeout=0.05) == []


def test_a_waiting_receiver_is_woken_without_file_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from team_runtime.store.watcher import Watch

    monkeypatch.setattr("team_runtime.bus.mailbox.watch", lambda *_: Watch(None))
    with Mailbox.open(tmp_path, "alice") as box:
        sender = Mailbox.open(tmp_path, "bob")
        got, _ = together(
            lambda: [m.body for m in box.receive(timeout=30)],
            lambda: [sender.send(to="alice", body="x")],
        )
        assert got == ["x"]


def test_a_second_receiver_is_refused_but_may_send(tmp_path: Path) -> None:
    with Mailbox.open(tmp_path, "alice") as first, Mailbox.open(tmp_path, "alice") as second:
        first.receive()
        with pytest.raises(MailboxBusy):
            second.receive()
        second.send(to="alice", body="x")
        assert len(first.receive()) == 1


def test_a_mailbox_works_on_in_a_forked_child(tmp_path: Path) -> None:
    box = Mailbox.open(tmp_path, "alice")
    assert box.receive(timeout=0.01) == []
    assert in_child(lambda: box.send(to="alice", body="from the child")) == 0
    (message,) = box.receive(timeout=30)
    assert message.body == "from the child"
    box.close()

    def receive() -> None:
        assert box.receive(timeout=30) == [message]

    assert in_child(receive) == 0
