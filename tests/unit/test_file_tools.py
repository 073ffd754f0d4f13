"""`read_file`, `write_file` and `edit_file`, called as a model's calls are."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.tools.files import MAX_BYTES, MAX_CHARACTERS, MAX_LINES
from tests.support.state import ended, forked
from tests.support.tools import Desk, snapshot


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def desk(root: Path) -> Desk:
    return Desk(root)


def lines(first: int, last: int) -> str:
    return "\n".join(f"line {n}" for n in range(first, last + 1))


# Reading


def test_a_file_is_read_whole(desk: Desk) -> None:
    (desk.root / "f").write_text("one\ntwo\n")
    assert desk.do("read_file", path="f") == "one\ntwo"
    assert desk.do("read_file", path=str(desk.root / "f")) == "one\ntwo"
    assert desk.do("read_file", path="./x/../f") == "one\ntwo"


def test_offset_and_limit_choose_lines(desk: Desk) -> None:
    (desk.root / "f").write_text(lines(1, 10) + "\n")
    assert desk.do("read_file", path="f", offset=2, limit=3) == lines(3, 5) + "\n... (5 more lines)"
    assert desk.do("read_file", path="f", offset=8) == lines(9, 10)
    assert desk.do("read_file", path="f", limit=10) == lines(1, 10)
    assert desk.do("read_file", path="f", offset=10) == "f has only 10 lines."
    assert desk.do("read_file", path="f", offset=10**30) == "f has only 10 lines."


def test_lines_are_counted_as_git_and_grep_count_them(desk: Desk) -> None:
    (desk.root / "f").write_bytes("a\x0bb\x0cc\u2028d\x85e\rf\ng".encode())
    assert desk.do("read_file", path="f", offset=1) == "g"
    assert desk.do("grep", pattern="g") == "f:2:g"


def test_an_empty_file_says_so(desk: Desk) -> None:
    (desk.root / "f").touch()
    assert desk.do("read_file", path="f") == "f is empty."


def test_a_long_file_is_read_in_parts(desk: Desk) -> None:
    (desk.root / "f").write_text(lines(1, MAX_LINES + 5))
    assert desk.do("read_file", path="f").endswith("line 2000\n... (5 more lines)")
    assert desk.do("read_file", path="f", limit=10**6).endswith("... (5 more lines)")
    (desk.root / "wide").write_text(("x" * 9_999 + "\n") * 10)
    assert desk.do("read_file", path="wide").endswith("x\n... (5 more lines)")


def test_a_very_long_line_says_what_is_missing(desk: Desk) -> None:
    (desk.root / "f").write_text("é" * (MAX_CHARACTERS + 7) + "\nnext\n")
    text = desk.do("read_file", path="f")
    assert text.endswith("é... (7 more characters in this line)\n... (1 more lines)")
    assert desk.do("read_file", path="f", offset=1) == "next"


def test_what_is_not_text(desk: Desk) -> None:
    (desk.root / "binary").write_bytes(b"\x7fELF\0\0\0")
    (desk.root / "latin").write_bytes("größe".encode("latin-1"))
    (desk.root / "bom").write_bytes("\ufeffa\n".encode())
    assert desk.do("read_file", path="binary") == "binary is a binary file of 7 bytes."
    assert desk.do("read_file", path="latin") == "gr\ufffd\ufffde"
    assert desk.do("read_file", path="bom") == "\ufeffa"


def test_a_huge_file_is_refused_without_being_read(root: Path) -> None:
    with (root / "huge").open("wb") as file:
        file.truncate(1 << 40)

    def child() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
        desk = Desk(root)
        assert f"larger than {MAX_BYTES} bytes" in desk.fail("read_file", path="huge")
        assert "larger than" in desk.fail("edit_file", path="huge", old_text="a", new_text="b")
        desk.do("write_file", path="huge", content="small")

    assert ended(forked(child)) == 0
    assert (root / "huge").read_text() == "small"


@pytest.mark.parametrize("path", ["no", "no/no", ".", "", "sub", "f/x", "fifo", "x" * 5000, "a\0b"])
def test_what_cannot_be_read_is_explained(desk: Desk, path: str) -> None:
    (desk.root / "f").touch()
    (desk.root / "sub").mkdir()
    os.mkfifo(desk.root / "fifo")
    text = desk.fail("read_file", path=path)
    assert len(text) < 600
    assert "Traceback" not in text
    assert "Errno" not in text


# Writing


def test_a_file_is_written_with_its_parents(desk: Desk) -> None:
    text = desk.do("write_file", path="a/b/f", content="größe\n")
    assert text == "Wrote 8 bytes to a/b/f."
    assert (desk.root / "a/b/f").read_text() == "größe\n"
    assert desk.do("write_file", path="a/b/f", content="") == "Wrote 0 bytes to a/b/f."
    assert (desk.root / "a/b/f").read_bytes() == b""


def test_a_write_through_a_link_writes_the_target(desk: Desk) -> None:
    (desk.root / "target").write_text("old")
    (desk.root / "link").symlink_to("target")
    desk.do("write_file", path="link", content="new")
    assert (desk.root / "link").is_symlink()
    assert (desk.root / "target").read_text() == "new"


def test_content_is_written_byte_for_byte(desk: Desk) -> None:
    content = "\ufefftab\t\r\nno newline at the end \u2028 𝄞"
    desk.do("write_file", path="f", content=content)
    assert (desk.root / "f").read_bytes() == content.encode()


# Editing


def test_an_edit_replaces_the_only_match(desk: Desk) -> None:
    (desk.root / "f").write_text("a\nb\nc\n")
    assert (
        desk.do("edit_file", path="f", old_text="b\n", new_text="B\nB\n") == "Edited f at line 2."
    )
    assert (desk.root / "f").read_text() == "a\nB\nB\nc\n"
    desk.do("edit_file", path="f", old_text="B\nB\n", new_text="")
    assert (desk.root / "f").read_text() == "a\nc\n"


@pytest.mark.parametrize(
    ("content", "old", "why"),
    [
        ("abc", "x", "not found"),
        ("abcabc", "bc", "more than once"),
        ("aaa", "aa", "more than once"),
        ("ababa", "aba", "more than once"),
        ("a\r\nb", "a\nb\n", "not found"),
        ("", "a", "not found"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    desk: Desk, content: str, old: str, why: str
) -> None:
    (desk.root / "f").write_bytes(content.encode())
    before = snapshot(desk.root)
    assert why in desk.fail("edit_file", path="f", old_text=old, new_text="new")
    assert snapshot(desk.root) == before


@pytest.mark.parametrize("path", ["no", "sub", "no/no"])
def test_an_edit_needs_a_file(desk: Desk, path: str) -> None:
    (desk.root / "sub").mkdir()
    before = snapshot(desk.root)
    desk.fail("edit_file", path=path, old_text="a", new_text="b")
    assert snapshot(desk.root) == before


def test_an_edit_keeps_line_endings(desk: Desk) -> None:
    (desk.root / "crlf").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    desk.do("edit_file", path="crlf", old_text="one\ntwo", new_text="1\n2\r\n2b")
    assert (desk.root / "crlf").read_bytes() == b"1\r\n2\r\n2b\r\nthree\r\n"
    (desk.root / "mixed").write_bytes(b"one\r\ntwo\nthree\n")
    desk.do("edit_file", path="mixed", old_text="two\n", new_text="2\n2\n")
    assert (desk.root / "mixed").read_bytes() == b"one\r\n2\n2\nthree\n"
    (desk.root / "none").write_bytes(b"one")
    desk.do("edit_file", path="none", old_text="one", new_text="1\n2")
    assert (desk.root / "none").read_bytes() == b"1\n2"


def test_an_edit_leaves_all_other_bytes_alone(desk: Desk) -> None:
    (desk.root / "f").write_bytes(b"\xef\xbb\xbf\xff\xfe one \x80\x0c\r\xc3\n")
    desk.do("edit_file", path="f", old_text="one", new_text="zwei ü")
    assert (desk.root / "f").read_bytes() == (
        b"\xef\xbb\xbf\xff\xfe zwei \xc3\xbc \x80\x0c\r\xc3\n"
    )


@given(
    st.binary(max_size=40),
    st.text(min_size=1, max_size=4),
    st.text(max_size=4),
    st.binary(max_size=40),
)
@settings(max_examples=60)
def test_any_edit_changes_just_the_match(
    tmp_path_factory: pytest.TempPathFactory, head: bytes, old: str, new: str, tail: bytes
) -> None:
    desk = Desk(tmp_path_factory.mktemp("edit"))
    data = head + old.encode() + tail
    (desk.root / "f").write_bytes(data)
    result = desk.call("edit_file", path="f", old_text=old, new_text=new)
    found = [at for at in range(len(data)) if data.startswith(old.encode(), at)]
    if "\n" not in old + new and b"\r" not in data:
        assert result.is_error == (len(found) > 1)
    if result.is_error:
        assert (desk.root / "f").read_bytes() == data
    elif "\n" not in old + new:
        assert (desk.root / "f").read_bytes() == head + new.encode() + tail


# What changed since it was read


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_a_file_that_changed_since_it_was_read_is_not_written(desk: Desk, tool: str) -> None:
    """claude-code#43138, #85597, #49487: a stale write undid others' work."""
    (desk.root / "f").write_text("old")
    desk.do("read_file", path="f")
    (desk.root / "f").write_text("old and new")
    change = (
        {"content": "mine"} if tool == "write_file" else {"old_text": "old", "new_text": "mine"}
    )
    assert "changed since you read it" in desk.fail(tool, path="f", **change)
    assert (desk.root / "f").read_text() == "old and new"
    desk.do("read_file", path="f")
    desk.do(tool, path="f", **change)
    assert "mine" in (desk.root / "f").read_text()


def test_ones_own_writes_do_not_count(desk: Desk) -> None:
    desk.do("write_file", path="f", content="one two")
    desk.do("edit_file", path="f", old_text="one", new_text="1")
    desk.do("write_file", path="f", content="three")
    desk.do("edit_file", path="f", old_text="three", new_text="3")
    assert (desk.root / "f").read_text() == "3"


def test_ones_own_command_counts(desk: Desk) -> None:
    desk.do("write_file", path="f", content="one")
    desk.do("bash", command="echo two >> f")
    assert "changed" in desk.fail("write_file", path="f", content="three")
    desk.do("read_file", path="f")
    desk.do("write_file", path="f", content="three")


def test_a_change_is_seen_through_every_name_of_the_file(desk: Desk) -> None:
    (desk.root / "f").write_text("old")
    (desk.root / "link").symlink_to("f")
    desk.do("read_file", path="link")
    (desk.root / "f").write_text("new")
    assert "changed" in desk.fail("write_file", path="f", content="mine")
    desk.do("read_file", path="./f")
    desk.do("write_file", path="link", content="mine")


def test_a_file_that_was_never_read_or_is_gone_may_be_written(desk: Desk) -> None:
    """claude-code#33856: a file that nobody could write any more."""
    (desk.root / "f").write_text("old")
    desk.do("write_file", path="f", content="mine")
    (desk.root / "f").unlink()
    desk.do("write_file", path="f", content="again")


def test_each_agent_has_read_for_itself(desk: Desk) -> None:
    (desk.root / "f").write_text("old")
    other = Desk(desk.root)
    desk.do("read_file", path="f")
    other.do("write_file", path="f", content="theirs")
    assert "changed" in desk.fail("edit_file", path="f", old_text="the", new_text="x")


# Input


@pytest.mark.parametrize(
    ("tool", "input", "named"),
    [
        ("read_file", {"path": "f", "offset": "5"}, "offset: Input should be a valid integer"),
        ("read_file", {"path": "f", "offset": -1}, "offset: Input should be greater than"),
        ("read_file", {"path": "f", "limit": 0}, "limit: Input should be greater than"),
        ("read_file", {"path": "f", "limit": True}, "limit: Input should be a valid integer"),
        ("read_file", {"path": "f", "offset": 1.5}, "offset: Input should be a valid integer"),
        ("read_file", {"path": ["f"]}, "path: Input should be a valid string"),
        ("read_file", {"path": None}, "path: Input should be a valid string"),
        ("read_file", {}, "path: Field required"),
        ("read_file", {"path": "f", "sandbox": False}, "sandbox: Extra inputs are not permitted"),
        ("write_file", {"path": "f"}, "content: Field required"),
        ("write_file", {"path": "f", "content": {"a": 1}}, "content: Input should be a valid"),
        (
            "edit_file",
            {"path": "f", "old_text": "", "new_text": ""},
            "old_text: String should have",
        ),
        ("edit_file", {"path": "f", "old_str": "a", "new_text": ""}, "old_text: Field required"),
        ("bash", {"command": ""}, "command: String should have"),
        ("bash", {"command": "ls", "timeout": "30"}, "timeout: Input should be a valid number"),
        ("bash", {"command": "ls", "timeout": 0}, "timeout: Input should be greater than 0"),
        ("bash", {"command": "ls", "timeout": float("inf")}, "timeout: Input should be"),
        ("bash", {"command": "ls", "timeout": float("nan")}, "timeout: Input should be"),
        ("bash", {"command": ["ls"]}, "command: Input should be a valid string"),
        ("bash", {"command": "ls", "cwd": "/"}, "cwd: Extra inputs are not permitted"),
        ("glob", {"pattern": ""}, "pattern: String should have at least 1"),
        (
            "grep",
            {"pattern": "x", "ignore_case": "yes"},
            "ignore_case: Input should be a valid bool",
        ),
    ],
)
def test_wrong_input_is_named_and_changes_nothing(
    desk: Desk, tool: str, input: dict[str, object], named: str
) -> None:
    (desk.root / "f").write_text("old")
    before = snapshot(desk.root)
    text = desk.fail(tool, **input)
    assert named in text
    assert text.startswith(f"Error: {tool}: ")
    assert text.endswith(". The call did not run.")
    assert len(text) < 250
    assert snapshot(desk.root) == before


def test_a_whole_number_is_a_number_of_seconds(desk: Desk) -> None:
    assert desk.do("bash", command="echo hi", timeout=30) == "hi\n"
