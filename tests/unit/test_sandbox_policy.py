"""Which path decides, and which sandbox is found."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from team_runtime.errors import SandboxMissing
from team_runtime.process import detection
from team_runtime.process.base import Command, Completed
from team_runtime.process.detection import detect
from team_runtime.process.sandbox import Access, ConfinedRunner, Confinement
from tests.support.confined import PATH, bubblewrap, landlock

FOLDERS = ["a", "a/b", "a/b/c", "a/b/d", "e", "e/f"]


@given(st.lists(st.tuples(st.sampled_from(FOLDERS), st.sampled_from(Access)), max_size=8))
@settings(max_examples=60)
def test_the_deepest_path_decides_and_the_strictest_where_one_is_named_twice(
    named: list[tuple[str, Access]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name in FOLDERS:
            (root / name).mkdir(parents=True, exist_ok=True)

        def those(wanted: Access) -> tuple[Path, ...]:
            return tuple(root / name for name, access in named if access is wanted)

        policy = Confinement(those(Access.WRITE), those(Access.READ), those(Access.HIDDEN))
        places = policy.places()

        def decided(path: Path, by: dict[Path, list[Access]]) -> Access:
            over = next((p for p in (path, *path.parents) if p in by), None)
            return max(by[over]) if over is not None else Access.READ

        asked: dict[Path, list[Access]] = {}
        for name, access in named:
            asked.setdefault(root / name, []).append(access)
        kept = {Path(path): [place.access] for path, place in places.items()}
        for name in FOLDERS:
            assert decided(root / name, kept) is decided(root / name, asked)
        depths = [path.count("/") for path in places]
        assert depths == sorted(depths)


def test_links_are_followed_and_what_is_not_there_is_passed_over(tmp_path: Path) -> None:
    tmp_path = tmp_path.resolve()
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "loop").symlink_to("loop")
    policy = Confinement(
        writable=(tmp_path / "link", tmp_path / "gone", tmp_path / "loop"),
    )
    assert policy.places() == {str(tmp_path / "real"): (Access.WRITE, True)}


class TestDetection:
    @pytest.fixture(autouse=True)
    def _fresh(self) -> Iterator[None]:
        detection._best.cache_clear()
        yield
        detection._best.cache_clear()

    @pytest.fixture
    def without_landlock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(detection, "version", lambda: 0)

    @pytest.fixture
    def own_path(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        """Where `bwrap` is looked for, and nothing else is."""
        monkeypatch.setattr(detection, "_USUAL", str(tmp_path / "none"))
        return tmp_path

    def test_auto_takes_bubblewrap(self) -> None:
        bubblewrap()
        assert detect("auto", {"PATH": PATH}).layer == "bubblewrap"

    def test_off_is_off_and_says_so(self) -> None:
        off = detect("off", {"PATH": PATH})
        assert (off.layer, off.complete) == ("none", False)
        assert "your own rights" in off.describe()

    def test_it_is_tried_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bubblewrap()
        monkeypatch.setattr(detection, "BlockingRunner", None)
        assert detect("required", {"PATH": PATH}).layer == "bubblewrap"

    def test_without_bubblewrap_landlock_is_next(self, own_path: Path) -> None:
        landlock()
        (own_path / "true").symlink_to("/bin/true")
        assert detect("auto", {"PATH": str(own_path)}).layer == "landlock"

    def test_a_bubblewrap_that_may_not_make_namespaces_is_not_used(self, own_path: Path) -> None:
        landlock()
        fake(own_path, REFUSES)
        assert detect("auto", {"PATH": f"{own_path}:{PATH}"}).layer == "landlock"

    @pytest.mark.usefixtures("without_landlock")
    def test_required_and_missing_is_an_error_that_says_what_to_install(
        self, own_path: Path
    ) -> None:
        with pytest.raises(SandboxMissing, match=r"bubblewrap is not installed.*apt install") as e:
            detect("required", {"PATH": str(own_path)})
        assert e.value.exit_code == 2
        assert detect("auto", {"PATH": str(own_path)}).layer == "none"

    @pytest.mark.usefixtures("without_landlock")
    def test_the_reason_is_what_bubblewrap_said(self, own_path: Path) -> None:
        fake(own_path, REFUSES)
        with pytest.raises(SandboxMissing, match="No permissions to create a namespace"):
            detect("required", {"PATH": f"{own_path}:{PATH}"})

    def test_an_older_bubblewrap_is_used_without_what_it_lacks(self, own_path: Path) -> None:
        bubblewrap()
        real = shutil.which("bwrap", path=PATH)
        lacking = "for a; do [ $a = --disable-userns ] && exit 1; done"
        fake(own_path, f'{lacking}; exec {real} "$@"')
        found = detect("required", {"PATH": f"{own_path}:{PATH}"})
        assert found.layer == "bubblewrap"
        confined = found.confine(Command(["true"], own_path, {}, 1), Confinement())
        assert "--disable-userns" not in confined.argv


REFUSES = "echo 'bwrap: No permissions to create a namespace' >&2; exit 1"


def fake(folder: Path, script: str) -> None:
    """A program that is found as bubblewrap."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


class Recorder:
    def __init__(self) -> None:
        self.ran: list[Sequence[str]] = []

    def run(self, command: Command) -> Completed:
        self.ran.append(command.argv)
        return Completed(0, b"", b"")


def test_a_confined_runner_confines_each_command(tmp_path: Path) -> None:
    recorder = Recorder()
    runner = ConfinedRunner(recorder, lambda c: replace(c, argv=["held", *c.argv]))
    runner.run(Command(["true"], tmp_path, {}, 1))
    assert recorder.ran == [["held", "true"]]
