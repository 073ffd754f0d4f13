"""`glob` and `grep`, called as a model's calls are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.store.globbing import matches
from team_runtime.tools import search
from team_runtime.tools.files import MAX_BYTES
from tests.support.tools import Desk


def make(root: Path, *files: str) -> None:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"this is {name}\n")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    root = tmp_path / "root"
    make(
        root,
        *("README.md", ".env", "src/a.py", "src/b.txt", "src/deep/er/c.py", "src/.hidden.py"),
        *("tests/a.py", ".git/config", ".team/mail/x", "worktrees/w/src/a.py"),
    )
    (root / "link.py").symlink_to("src/a.py")
    (root / "linked").symlink_to("src")
    return Desk(root)


# glob


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*", ".env README.md link.py linked"),
        ("*.py", "link.py"),
        ("**/*.py", "link.py src/.hidden.py src/a.py src/deep/er/c.py tests/a.py"),
        ("**/**/*.[tm]*", "README.md src/b.txt"),
        ("src/**", "src/.hidden.py src/a.py src/b.txt src/deep/er/c.py"),
        ("src/*", "src/.hidden.py src/a.py src/b.txt"),
        ("src/a.py", "src/a.py"),
        ("./src/../src/?.py", "src/a.py"),
        ("s*/[ab].*", "src/a.py src/b.txt"),
        ("src/**/c.py", "src/deep/er/c.py"),
        ("**/er/**", "src/deep/er/c.py"),
        (".e*", ".env"),
        ("worktrees/w/**", "worktrees/w/src/a.py"),
        ("linked/*.py", "src/.hidden.py src/a.py"),
        ("src/deep", ""),
        ("no/**", ""),
        ("README.md/*", ""),
        ("[", ""),
    ],
)  # fmt: skip
def test_what_a_pattern_lists(desk: Desk, pattern: str, expected: str) -> None:
    assert desk.do("glob", pattern=pattern).split() == (expected or "(no matches)").split()


def test_an_absolute_pattern_must_be_inside(desk: Desk) -> None:
    assert desk.do("glob", pattern=f"{desk.root}/src/*.txt") == "src/b.txt"
    for pattern in ("/etc/*", "../*", "src/../../*", f"{desk.root}-x/*"):
        assert "is outside your directory" in desk.fail("glob", pattern=pattern)


def test_a_link_that_leads_out_is_listed_and_not_followed(desk: Desk) -> None:
    (desk.root.parent / "outside").mkdir()
    make(desk.root.parent, "outside/secret")
    (desk.root / "out").symlink_to("../outside")
    assert "out" in desk.do("glob", pattern="*").split()
    assert desk.do("glob", pattern="**/secret") == "(no matches)"
    assert "is outside your directory" in desk.fail("glob", pattern="out/*")
    assert "is outside your directory" in desk.fail("grep", pattern="this", path="out")
    assert "outside" not in desk.do("grep", pattern="secret")


def test_a_long_listing_is_cut(desk: Desk) -> None:
    make(desk.root, *(f"many/{n:04}" for n in range(search.MAX_PATHS + 3)))
    listing = desk.do("glob", pattern="many/*").split("\n")
    assert listing[:2] == ["many/0000", "many/0001"]
    assert listing[-2:] == ["many/0499", "... (3 more files)"]


def test_a_huge_tree_is_looked_at_in_part_and_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MAX_FILES", 3)
    assert "files were looked at; name a folder" in desk.do("glob", pattern="**/c.py")
    assert "files were looked at; name a folder" in desk.do("grep", pattern="c.py")
    assert desk.do("glob", pattern="src/deep/**") == "src/deep/er/c.py"


def test_odd_names_are_quoted(desk: Desk) -> None:
    make(desk.root, "odd/a\nb", "odd/c ")
    (desk.root / "odd" / "\udcff").write_text("this\n")
    listing = desk.do("glob", pattern="odd/*").split("\n")
    assert listing == ["'odd/a\\nb'", "odd/c ", "'odd/\\udcff'"]
    found = desk.do("grep", pattern="^this", path="odd").split("\n")
    assert found[0].startswith("'odd/a\\nb':1:this is")
    assert found[-1] == "'odd/\\udcff':1:this"


PART = st.sampled_from(["a", "b", "*", "**", "?", "a*"])


@given(st.lists(PART, max_size=6), st.lists(st.sampled_from(["a", "b", "ab"]), max_size=5))
def test_matching_is_what_its_definition_says(pattern: list[str], path: list[str]) -> None:
    def defined(pattern: list[str], path: list[str]) -> bool:
        if not pattern:
            return not path
        if pattern[0] == "**":
            return defined(pattern[1:], path) or (bool(path) and defined(pattern, path[1:]))
        return bool(path) and matches((pattern[0],), (path[0],)) and defined(pattern[1:], path[1:])

    assert matches(tuple(pattern), tuple(path)) == defined(pattern, path)


def test_no_pattern_is_slow(desk: Desk) -> None:
    make(desk.root, "a/" * 100 + "b")
    assert desk.do("glob", pattern="**/a/" * 95 + "c") == "(no matches)"
    assert desk.do("glob", pattern="**/" * 190 + "*a*a*a*a*a*c") == "(no matches)"
    assert "pattern: String should have at most" in desk.fail("glob", pattern="*" * 1001)


# grep


@pytest.mark.parametrize(
    ("input", "expected"),
    [
        ({"pattern": "src/a"}, "src/a.py:1:this is src/a.py"),
        ({"pattern": "^this is .*c\\.py$"}, "src/deep/er/c.py:1:this is src/deep/er/c.py"),
        ({"pattern": "readme"}, "(no matches)"),
        ({"pattern": "readme", "ignore_case": True}, "README.md:1:this is README.md"),
        ({"pattern": "is", "path": "tests"}, "tests/a.py:1:this is tests/a.py"),
        ({"pattern": "is", "path": "src/b.txt"}, "src/b.txt:1:this is src/b.txt"),
        ({"pattern": "is", "path": "link.py"}, "src/a.py:1:this is src/a.py"),
        ({"pattern": "is", "path": "linked/deep"}, "src/deep/er/c.py:1:this is src/deep/er/c.py"),
        ({"pattern": "is", "glob": "*.md"}, "README.md:1:this is README.md"),
        ({"pattern": "is", "glob": "b.txt"}, "src/b.txt:1:this is src/b.txt"),
        ({"pattern": "is", "glob": "tests/**"}, "tests/a.py:1:this is tests/a.py"),
        ({"pattern": "is", "glob": "no"}, "(no matches)"),
        ({"pattern": "w/s", "path": "worktrees/w", "glob": "a.py"},
         "worktrees/w/src/a.py:1:this is worktrees/w/src/a.py"),
        ({"pattern": "ENV|env", "path": "."}, ".env:1:this is .env"),
    ],
)  # fmt: skip
def test_what_a_search_finds(desk: Desk, input: dict[str, object], expected: str) -> None:
    assert desk.do("grep", **input) == expected


@pytest.mark.parametrize(
    ("input", "why"),
    [
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "a{99999999999}"}, "not a regular expression"),
        ({"pattern": "(" * 500}, "not a regular expression"),
        ({"pattern": "x", "path": "no"}, "no does not exist"),
        ({"pattern": "x", "path": "no/no"}, "does not exist"),
        ({"pattern": "x", "path": "/etc"}, "is outside your directory"),
        ({"pattern": "x", "path": "../.."}, "is outside your directory"),
        ({"pattern": "x", "glob": "../*"}, "is outside your directory"),
        ({"pattern": "x", "path": "a\0"}, "not a possible path"),
        ({"pattern": "x", "glob": "a\0"}, "not a possible path"),
    ],
)
def test_a_search_that_cannot_be_made_says_why(
    desk: Desk, input: dict[str, object], why: str
) -> None:
    assert why in desk.fail("grep", **input)


def test_a_pattern_that_backtracks_for_ever_ends(desk: Desk) -> None:
    (desk.root / "f").write_text("a" * 60 + "\n")
    slow = Desk(desk.root, grep_seconds=0.5)
    assert "took more than 0.5 seconds" in slow.fail("grep", pattern="(a+)+$b", path="f")


def test_text_is_searched_as_text(desk: Desk) -> None:
    (desk.root / "f").write_bytes("GRÖSSE\r\nx\xa0y\n".encode() + b"\xff caf\xe9\n")
    find = {"path": "f", "ignore_case": True}
    assert desk.do("grep", pattern="größe|grösse$", **find) == "f:1:GRÖSSE\r"
    assert desk.do("grep", pattern="caf.$", **find) == "f:3:\ufffd caf\ufffd"


def test_what_is_no_text_or_too_large_is_left_out(desk: Desk) -> None:
    (desk.root / "binary").write_bytes(b"this\0is")
    (desk.root / "huge").write_bytes(b"x")
    os.truncate(desk.root / "huge", MAX_BYTES + 1)
    os.mkfifo(desk.root / "fifo")
    found = desk.do("grep", pattern="this").split("\n")
    assert found[-1] == "... (huge is too large or cannot be read)"
    assert not any(line.startswith(("binary", "fifo")) for line in found)


def test_many_and_long_matches_are_cut(desk: Desk) -> None:
    (desk.root / "f").write_text(("y" * 5000 + "\n") * (search.MAX_MATCHES + 1))
    found = desk.do("grep", pattern="y").split("\n")
    assert found[-1] == "... (more matches; narrow the search)"
    assert len(found) == search.MAX_MATCHES + 1
    assert max(map(len, found)) < 320


def test_the_environment_of_a_command_cannot_change_the_search(desk: Desk) -> None:
    make(desk.root, "json.py", "re.py", "team_runtime/__init__.py", "sitecustomize.py")
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(desk.root), "PYTHONHOME": "/nowhere"}
    there = Desk(desk.root, environ=environ)
    assert there.do("grep", pattern="README") == "README.md:1:this is README.md"
