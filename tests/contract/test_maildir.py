"""The maildir keeps the contract, also between processes and beside broken entries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from team_runtime.bus.base import Bus
from team_runtime.bus.maildir import Maildir
from team_runtime.bus.message import Message
from team_runtime.errors import MailboxBusy
from tests.contract.bus_contract import BusContract
from tests.support.state import Events, in_child, make_store, outputs, program

SEND = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from team_runtime.bus.maildir import Maildir
from team_runtime.store.files import Store
bus = Maildir(Store.open(Path(sys.argv[1]), "process"))
names, count = sys.argv[2].split(","), int(sys.argv[3])
with ThreadPoolExecutor(len(names)) as pool:
    each = pool.map(lambda who: [bus.send(who, "alice", str(n)).id for n in range(count)], names)
    print(*(id for ids in each for id in ids))
"""

READ = """
import sys
from pathlib import Path
from team_runtime.bus.maildir import Maildir
from team_runtime.store.files import Store
bus = Maildir(Store.open(Path(sys.argv[1]), "process"))
print(*(message.id for message in bus.take("alice")), flush=True)
sys.stdin.readline()
"""


class TestMaildir(BusContract):
    @pytest.fixture(autouse=True)
    def workspace(self, tmp_path: Path) -> None:
        self._workspace = tmp_path
        self.events = Events()

    def open_bus(self) -> Bus:
        return Maildir(make_store(self._workspace), self.events)


@pytest.fixture
def bus(tmp_path: Path) -> Maildir:
    bus = Maildir(make_store(tmp_path))
    bus.register("alice")
    return bus


def test_the_files_are_private_and_nothing_is_left_in_tmp(tmp_path: Path, bus: Maildir) -> None:
    message = bus.send("lead", "alice", "x")
    box = tmp_path / ".team" / "mail" / "alice"
    (path,) = (box / "new").iterdir()
    assert path.name == f"000000000001.{message.id}.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert list((box / "tmp").iterdir()) == []
    assert json.loads(path.read_text())["body"] == "x"


@pytest.mark.parametrize("count", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_processes_that_send_at_once_lose_nothing_and_keep_their_order(
    tmp_path: Path, bus: Maildir, count: int
) -> None:
    """claude-code#53896, with four threads in each of four processes."""
    names = [[f"agent-{n}-{k}" for k in range(4)] for n in range(4)]
    senders = [program(SEND, tmp_path, ",".join(each), count) for each in names]
    got: list[Message] = []
    while len(got) < 16 * count:
        got += bus.take("alice")
    sent = " ".join(outputs(senders)).split()
    assert sorted(message.id for message in got) == sorted(sent)
    for name in (name for each in names for name in each):
        mine = [message.body for message in got if message.sender == name]
        assert mine == [str(k) for k in range(count)]


def test_mail_of_a_killed_reader_is_delivered_again(tmp_path: Path, bus: Maildir) -> None:
    sent = [bus.send("lead", "alice", str(n)).id for n in range(3)]
    reader = program(READ, tmp_path)
    assert reader.stdout is not None
    assert reader.stdout.readline().split() == sent
    with pytest.raises(MailboxBusy):
        bus.take("alice")
    reader.kill()
    reader.communicate()
    sent.append(bus.send("lead", "alice", "later").id)
    assert [message.id for message in bus.take("alice")] == sent


def test_a_forked_child_does_not_read_beside_its_parent(bus: Maildir) -> None:
    bus.send("lead", "alice", "x")
    bus.take("alice")

    def child() -> None:
        bus.send("lead", "alice", "from the child")
        with pytest.raises(MailboxBusy):
            bus.take("alice")

    assert in_child(child) == 0
    assert [message.body for message in bus.take("alice")] == ["from the child"]


GOOD = {
    "v": 1,
    "id": "m-1",
    "sender": "lead",
    "to": "alice",
    "type": "message",
    "body": "x",
    "at": "2026-11-30T18:15:27.123456Z",
    "attributes": {},
}


def changed(**fields: object) -> bytes:
    return json.dumps({**GOOD, **fields}).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"garbage",
        changed()[:-5],
        changed(body=None),
        changed(body=["x"]),
        changed(type="approval"),
        changed(sender=1),
        changed(attributes={"a": 1}),
        changed(id="m-2"),
        changed(v=2),
        b"\xff\xfe" + changed(),
    ],
)
@pytest.mark.parametrize("place", ["new", "cur"])
def test_a_broken_entry_is_set_aside_and_the_rest_is_delivered(
    tmp_path: Path, bus: Maildir, data: bytes, place: str
) -> None:
    """claude-code 2.1.207: one malformed entry blocked a mailbox with an error each second."""
    sent = [bus.send("lead", "alice", "before")]
    path = tmp_path / ".team" / "mail" / "alice" / place / "000000000002.m-1.json"
    path.write_bytes(data)
    sent.append(bus.send("lead", "alice", "after"))
    assert sorted(m.body for m in bus.take("alice")) == ["after", "before"]
    assert bus.take("alice") == []
    kept, _ = sorted((tmp_path / ".team" / "quarantine").iterdir())
    assert kept.read_bytes() == data


def test_a_file_of_a_foreign_name_is_set_aside(tmp_path: Path, bus: Maildir) -> None:
    new = tmp_path / ".team" / "mail" / "alice" / "new"
    (new / "notes.txt").write_bytes(changed())
    (new / ".hidden").write_bytes(b"x")
    assert bus.take("alice") == []
    assert [path.name for path in new.iterdir()] == [".hidden"]


def test_a_listing_that_missed_an_earlier_message_delivers_none_too_early(
    bus: Maildir, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = bus.send("lead", "alice", "1"), bus.send("lead", "alice", "2")
    store = bus._store
    whole = store.names
    missed = iter([True])

    def names(folder: Path) -> list[str]:
        found = whole(folder)
        if folder.name == "new" and next(missed, False):
            return [name for name in found if first.id not in name]
        return found

    monkeypatch.setattr(store, "names", names)
    assert bus.take("alice") == [first, second]
