"""A program's output on disk: whole while it is short, else head and tail, and never more."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from team_runtime.store.spool import (
    PARTS,
    Spool,
    end_of_spool,
    joined,
    kept_in,
    next_kept,
    read_spool,
)

LIMIT = 80
"""Ten bytes a file."""


def everything(folder: Path) -> bytes:
    end = end_of_spool(folder)
    return joined(read_spool(folder, 0, end), 0, end, lambda n: b"." * n)


@given(st.lists(st.integers(0, 45), max_size=12))
def test_head_and_tail_are_kept_at_their_places(sizes: list[int]) -> None:
    whole = b"".join(bytes([65 + i % 26]) * size for i, size in enumerate(sizes))
    with TemporaryDirectory() as name:
        folder = Path(name)
        spool, place = Spool(folder, LIMIT), 0
        for size in sizes:
            spool.write(whole[place : place + size])
            place += size
            assert kept_in(folder) <= LIMIT
        spool.close()

        assert spool.size == end_of_spool(folder) == len(whole)
        shown = everything(folder)
        assert len(shown) == len(whole)
        assert all(a in (b, ord(".")) for a, b in zip(shown, whole, strict=True))
        assert shown[:40] == whole[:40]
        assert shown[-30:] == whole[-30:]
        if len(whole) <= LIMIT:
            assert shown == whole


@given(st.integers(0, 200), st.integers(0, 220), st.integers(0, 220))
def test_any_stretch_can_be_read(size: int, one: int, other: int) -> None:
    start, end = sorted((one, other))
    whole = bytes(i % 250 for i in range(size))
    with TemporaryDirectory() as name:
        folder = Path(name)
        spool = Spool(folder, LIMIT)
        spool.write(whole)
        spool.close()
        for stretch in read_spool(folder, start, end):
            assert start <= stretch.start < stretch.end <= end
            assert stretch.data == whole[stretch.start : stretch.end]
        following = next_kept(folder, start)
        assert following >= start
        if following < size and following != start:
            assert read_spool(folder, start, following) == []
            assert read_spool(folder, following, following + 1)


def test_what_was_skipped_is_missing(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    spool.write(b"head")
    spool.skip(6)
    spool.write(b"tail")
    assert everything(tmp_path) == b"head......tail"


def test_a_reader_sees_it_grow(tmp_path: Path) -> None:
    spool = Spool(tmp_path, LIMIT)
    spool.write(b"abc")
    assert everything(tmp_path) == b"abc"
    spool.write(b"def")
    assert read_spool(tmp_path, 3, 6)[0].data == b"def"


def test_a_full_disk_drops_output_and_nothing_else(tmp_path: Path) -> None:
    spool, write = Spool(tmp_path, LIMIT), os.write
    spool.write(b"before")
    with patch("os.write", side_effect=OSError(28, "No space left on device")):
        for _ in range(50):
            spool.write(b"lost")
    assert os.write is write
    spool.write(b"after")
    spool.close()
    assert everything(tmp_path) == b"before" + b"." * 200 + b"after"
    assert len(list(tmp_path.iterdir())) <= PARTS


def test_there_is_nothing_where_there_is_no_folder(tmp_path: Path) -> None:
    assert end_of_spool(tmp_path / "none") == kept_in(tmp_path / "none") == 0
    assert read_spool(tmp_path / "none", 0, 10) == []
    assert next_kept(tmp_path / "none", 7) == 7


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    spool = Spool(tmp_path, LIMIT)
    spool.write(b"x" * 500)
    assert (tmp_path / "notes").read_text() == "mine"


@pytest.mark.parametrize("limit", [1, 7, 8])
def test_a_tiny_limit_holds(tmp_path: Path, limit: int) -> None:
    spool = Spool(tmp_path, limit)
    spool.write(b"x" * 100)
    assert kept_in(tmp_path) <= PARTS
