"""The rules of the layout, read from the source: who may import whom, and who alone may do what."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import team_runtime
from team_runtime.events import EVENTS

ROOT: Final = Path(team_runtime.__file__).parent
DATA: Final = ROOT / "demo" / "shop"
"""The demo's repository: data, not part of the package."""

LAYERS: Final = (
    {"errors", "types", "clock", "text", "events", "config", "crossing", "places"},
    {"store"},
    {"board", "bus", "sessions", "plans", "approvals", "process"},
    {"git"},
    {"models", "guard", "tools", "notify"},
    {"loop"},
    {"team", "daemons"},
    {"app", "demo"},
    {"", "cli", "__main__"},  # "" is the package itself: its public names
)
SHARED_MODULES: Final = {"base", "model", "message"}
"""What a package may import from another one of its layer."""

IMPORTERS: Final = {
    "anthropic": {"models"},
    "httpx2": {"models"},
    "git": set(),
    "gitdb": set(),
    "filelock": {"store"},
    "watchdog": {"store"},
    "croniter": {"daemons"},
    "apprise": {"notify"},
    "yaml": {"models", "config"},
    "click": {"cli"},
    "rich": {"cli"},
    "pydantic": {"config", "tools", "loop", "team", "daemons"},
}
HEAVY: Final = ("anthropic", "httpx2", "rich", "git", "watchdog", "yaml", "croniter", "apprise")
LONGEST_MODULE: Final = 500

PROGRAMS: Final = {
    "subprocess",
    "multiprocessing",
    "pty",
    "anyio.open_process",
    "anyio.run_process",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    *(f"os.{name}" for name in ("fork", "forkpty", "system", "popen", "posix_spawn")),
    *(f"os.exec{suffix}" for suffix in ("v", "ve", "vp", "vpe", "l", "le", "lp", "lpe")),
}
RENAMES: Final = {"os.replace", "os.rename", "os.renames", "os.link", "shutil.move"}
CLOCKS: Final = {
    "random",
    "secrets",
    "uuid",
    "os.urandom",
    *(f"time.{name}" for name in ("time", "time_ns", "localtime", "gmtime", "strftime", "ctime")),
    *(f"datetime.{name}" for name in ("now", "utcnow", "today")),
    *(f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")),
    "date.today",
    "datetime.date.today",
}


@dataclass(frozen=True)
class Import:
    """One import of one module, by its full name."""

    line: int
    target: str


@dataclass(frozen=True)
class Source:
    """One module of the package, parsed."""

    path: Path
    name: str
    """Dotted, without `team_runtime.`; empty for the package itself."""
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name.partition(".")[0]

    def at(self, line: int) -> str:
        return f"team_runtime/{self.path.relative_to(ROOT)}:{line}"

    def imports(self) -> Iterator[Import]:
        """Every import, also inside functions. `from a import b` counts as `a.b` if that is a
        module of this package, else as `a`."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Import(node.lineno, alias.name)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.at(node.lineno)} imports relatively"
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    yield Import(node.lineno, full if full in module_names() else node.module or "")

    def uses(self) -> Iterator[tuple[int, str]]:
        """Every dotted name that is used, and every name that is imported, with its line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield node.lineno, node.module or ""
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
            elif isinstance(node, ast.Attribute):
                yield node.lineno, dotted(node)


def dotted(node: ast.expr) -> str:
    """`a.b.c` for such an expression; parts that are no names are left out."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


@cache
def sources() -> tuple[Source, ...]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        if DATA in path.parents:
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        text = path.read_text(encoding="utf-8")
        found.append(Source(path, name, text, ast.parse(text, str(path))))
    return tuple(found)


@cache
def module_names() -> frozenset[str]:
    return frozenset(f"team_runtime.{s.name}".rstrip(".") for s in sources())


def layer(package: str) -> int:
    for number, packages in enumerate(LAYERS):
        if package in packages:
            return number
    raise AssertionError(f"team_runtime/{package} is in no layer: add it to LAYERS in this test")


def inner_imports() -> Iterator[tuple[Source, Import, str]]:
    """Each import of this package from another of its packages, with that package's name."""
    for source in sources():
        for found in source.imports():
            first, _, rest = found.target.partition(".")
            target = rest.partition(".")[0]
            if first == "team_runtime" and target != source.package:
                yield source, found, target


def fail_on(offenders: list[str], rule: str) -> None:
    assert not offenders, f"{rule}\n  " + "\n  ".join(sorted(offenders))


def test_imports_never_go_up() -> None:
    fail_on(
        [
            f"{source.at(found.line)} imports {found.target}"
            for source, found, target in inner_imports()
            if layer(target) > layer(source.package)
        ],
        "a lower layer imports a higher one:",
    )


def test_sideways_imports_go_through_a_base() -> None:
    def is_shared(target: str) -> bool:
        return target.rpartition(".")[2] in SHARED_MODULES

    fail_on(
        [
            f"{source.at(found.line)} imports {found.target}"
            for source, found, target in inner_imports()
            if 0 < layer(target) == layer(source.package) < len(LAYERS) - 1
            and not is_shared(found.target)
        ],
        f"a package imports a neighbour's module that is not one of {sorted(SHARED_MODULES)}:",
    )


@pytest.mark.parametrize("library", IMPORTERS)
def test_a_library_has_one_importer(library: str) -> None:
    fail_on(
        [
            f"{source.at(found.line)} imports {library}"
            for source in sources()
            for found in source.imports()
            if found.target.partition(".")[0] == library
            and source.package not in IMPORTERS[library]
        ],
        f"only {sorted(IMPORTERS[library])} may import {library}:",
    )


@pytest.mark.parametrize(
    ("names", "only"),
    [
        (PROGRAMS, {"process.run", "process.launcher", "process.door"}),
        (RENAMES, {"store"}),
        (CLOCKS, {"clock"}),
    ],
    ids=["starting programs", "renaming state", "reading the clock and drawing random bytes"],
)
def test_what_only_one_place_may_do(names: set[str], only: set[str]) -> None:
    allowed: list[str] = []
    offenders: list[str] = []
    for source in sources():
        found = [f"{source.at(line)} uses {used}" for line, used in source.uses() if used in names]
        (allowed if {source.name, source.package} & only else offenders).extend(found)

    assert allowed, f"{sorted(only)} does none of this any more: the rule watches nothing"
    fail_on(offenders, f"only {sorted(only)} may do this:")


def test_paths_are_renamed_only_by_the_store() -> None:
    """`Path.rename` and `Path.replace`: the latter takes one argument, which `str.replace` and
    the store's own `replace` never do."""

    def renames(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and (
                node.func.attr in {"rename", "hardlink_to"}
                or (node.func.attr == "replace" and len(node.args) == 1 and not node.keywords)
            )
        )

    fail_on(
        [
            f"{source.at(getattr(node, 'lineno', 0))}"
            for source in sources()
            if source.package != "store"
            for node in ast.walk(source.tree)
            if renames(node)
        ],
        "only the store may rename files:",
    )


def test_no_module_is_too_long() -> None:
    lengths = {source.at(len(source.text.splitlines())): source for source in sources()}
    fail_on(
        [at for at, source in lengths.items() if source.text.count("\n") > LONGEST_MODULE],
        f"modules over {LONGEST_MODULE} lines:",
    )


def test_every_event_has_a_row_and_every_row_is_emitted() -> None:
    emitted: dict[str, str] = {}
    mentioned: set[str] = set()
    for source in sources():
        if source.name == "events":
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                mentioned.add(node.value)
            elif isinstance(node, ast.Call) and dotted(node.func).endswith("emit") and node.args:
                kind = node.args[0]
                if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
                    emitted[kind.value] = source.at(node.lineno)

    fail_on(
        [f"{at} emits {kind}" for kind, at in emitted.items() if kind not in EVENTS],
        "emitted events without a row in EVENTS:",
    )
    fail_on([kind for kind in EVENTS if kind not in mentioned], "rows that nobody emits:")


IMPORT_ALL: Final = """
import importlib, json, os, sys, threading

names = json.loads(sys.argv[1])
told = []

def hook(event, given):
    if event == "open" and isinstance(given[2], int) and given[2] & (os.O_WRONLY | os.O_RDWR):
        told.append(f"opens {given[0]} for writing")
    elif event.split(".")[0] in ("subprocess", "socket") or event in (
        "os.mkdir", "os.remove", "os.rename", "os.system", "os.fork", "os.posix_spawn", "os.exec"
    ):
        told.append(f"does {event} {given[:1]}")

sys.addaudithook(hook)
found = {}
for name in names:
    try:
        importlib.import_module(name)
    except ImportError as error:
        told.append(f"cannot be imported: {error}")
    heavy = [module for module in json.loads(sys.argv[2]) if module in sys.modules]
    threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
    done = told + [f"imports {module}" for module in heavy] + [f"starts {t}" for t in threads]
    told.clear()
    if done:
        found[name] = done
        break
print(json.dumps(found))
"""


def is_command(source: Source) -> bool:
    return source.package in {"cli", "__main__"}


def is_light(source: Source) -> bool:
    """Whether `team tasks` and library users of the board and the mailboxes load it."""
    lower = layer(source.package) < layer("models") and source.name != "config"
    return lower or source.name in {"", "app", "app.workspace", "cli", "cli.main", "cli.tasks"}


@pytest.mark.parametrize(
    ("chosen", "heavy"),
    [
        (lambda source: True, HEAVY),
        (lambda source: not is_command(source), (*HEAVY, "click")),
        (is_light, (*HEAVY, "pydantic")),
    ],
    ids=["all", "all but the command line", "what a listing needs"],
)
def test_importing_does_nothing(
    chosen: Callable[[Source], bool], heavy: tuple[str, ...], tmp_path: Path
) -> None:
    """In a fresh interpreter: no thread, no written file, no output, no heavy library."""
    names = [
        f"team_runtime.{source.name}".rstrip(".")
        for source in sorted(sources(), key=lambda source: layer(source.package))
        if chosen(source)
    ]
    command = [sys.executable, "-B", "-W", "error", "-c", IMPORT_ALL]
    ended = subprocess.run(
        [*command, json.dumps(names), json.dumps(heavy)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert json.loads(ended.stdout) == {}
    assert list(tmp_path.iterdir()) == []
