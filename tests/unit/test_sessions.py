"""Sessions and transcripts: what a crash may cost, and what it may not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from team_runtime.errors import InputError, NameInvalid, RecordBroken, VersionTooNew
from team_runtime.sessions.sessions import Sessions
from team_runtime.sessions.transcript import Transcript
from tests.support.state import make_store, together


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(make_store(tmp_path))


@pytest.fixture
def transcript(tmp_path: Path) -> Transcript:
    return Transcript(make_store(tmp_path, durability="power"), tmp_path / "s" / "lead.jsonl")


def test_what_was_appended_is_read_in_order(transcript: Transcript) -> None:
    assert transcript.entries() == []
    for n in range(3):
        transcript.append({"n": n, "text": "Grüße\n\u2028 \ud800"})
    transcript.sync()
    assert [entry["n"] for entry in transcript.entries()] == [0, 1, 2]
    assert transcript.entries()[0] == {"v": 1, "n": 0, "text": "Grüße\n\u2028 \ud800"}
    assert "Grüße".encode() not in transcript.path.read_bytes()  # a lone surrogate needs escapes
    assert transcript.path.stat().st_mode & 0o777 == 0o600


def test_a_transcript_torn_at_any_byte_loses_only_its_last_entry(transcript: Transcript) -> None:
    for n in range(3):
        transcript.append({"n": n, "text": "äöü"})
    whole = transcript.path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for kept in range(len(whole) + 1):
        transcript.path.write_bytes(whole[:kept])
        complete = whole[:kept].count(b"\n")
        assert [entry["n"] for entry in transcript.entries()] == list(range(complete))
        if kept > last:
            transcript.append({"n": "next"})
            found = [entry["n"] for entry in transcript.entries()]
            assert found == [*range(complete), "next"]


@pytest.mark.parametrize("tail", [b"\0" * 100, b'{"n": 3}', b"\xff", b"\0\n\0"[:1]])
def test_a_tail_without_an_end_is_dropped(transcript: Transcript, tail: bytes) -> None:
    transcript.append({"n": 1})
    with transcript.path.open("ab") as file:
        file.write(tail)
    assert [entry["n"] for entry in transcript.entries()] == [1]
    transcript.append({"n": 2})
    assert [entry["n"] for entry in transcript.entries()] == [1, 2]


@pytest.mark.parametrize("line", [b"garbage", b"[]", b"\xff", b'{"n": NaN}', b'{"n"'])
def test_a_broken_line_in_the_middle_is_named(transcript: Transcript, line: bytes) -> None:
    transcript.append({"n": 1})
    with transcript.path.open("ab") as file:
        file.write(line + b"\n")
    transcript.append({"n": 3})
    with pytest.raises(RecordBroken, match=r"lead\.jsonl, line 2"):
        transcript.entries()


def test_a_session_is_found_again(tmp_path: Path, sessions: Sessions) -> None:
    made = sessions.create({"team": "t", "prompt": "Grüße", "runs": [], "agents": []})
    assert set(made) == {"v", "id", "createdAt", "team", "prompt", "runs", "agents"}
    assert made["id"][:2] == "s-"
    assert len(made["id"]) == len("s-20261130-181527-4f2a")
    assert Sessions(make_store(tmp_path)).load(made["id"]) == made
    assert (tmp_path / ".team" / "sessions" / made["id"] / "session.json").exists()


def test_saving_changes_the_named_fields_only(tmp_path: Path, sessions: Sessions) -> None:
    made = sessions.create({"team": "t", "custom": {"kept": 1}})
    sessions.save(made["id"], {"team": "u", "runs": ["run-1"], "id": "forged"})
    assert sessions.load(made["id"]) == {**made, "team": "u", "runs": ["run-1"]}
    together(*(lambda n=n: sessions.save(made["id"], {f"agent-{n}": n}) for n in range(8)))
    assert {f"agent-{n}" for n in range(8)} < set(sessions.load(made["id"]))


def test_sessions_are_listed_newest_first(sessions: Sessions) -> None:
    assert (sessions.list(), sessions.latest()) == ([], None)
    made = [sessions.create({"n": n}) for n in range(5)]
    assert [session["n"] for session in sessions.list()] == [4, 3, 2, 1, 0]
    assert sessions.latest() == made[-1]


def test_a_broken_session_blocks_no_other(tmp_path: Path, sessions: Sessions) -> None:
    good, broken, newer = (sessions.create({}) for _ in range(3))
    folder = tmp_path / ".team" / "sessions"
    (folder / broken["id"] / "session.json").write_text("{")
    (folder / newer["id"] / "session.json").write_text(json.dumps({**newer, "v": 2}))
    sessions.transcript(broken["id"], "lead").append({"n": 1})
    with pytest.raises(RecordBroken):
        sessions.load(broken["id"])
    with pytest.raises(VersionTooNew):
        sessions.load(newer["id"])
    assert sessions.list() == [good]
    assert len(sessions.transcript(broken["id"], "lead").entries()) == 1


@pytest.mark.parametrize("session", ["", "..", "s-1", "s-20261130-181527-4f2a/x", "latest"])
def test_what_is_no_session_id_is_refused(sessions: Sessions, session: str) -> None:
    with pytest.raises(InputError):
        sessions.load(session)
    with pytest.raises(InputError):
        sessions.transcript(session, "lead")


def test_an_unknown_session_names_the_newest(sessions: Sessions) -> None:
    made = sessions.create({})
    with pytest.raises(InputError, match=made["id"]):
        sessions.load("s-20200101-000000-0000")


def test_only_agents_have_transcripts(sessions: Sessions) -> None:
    with pytest.raises(NameInvalid):
        sessions.transcript(sessions.create({})["id"], "../session")
