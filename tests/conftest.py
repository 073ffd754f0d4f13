"""Rules for all tests: a hermetic environment, and no skips where none are allowed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

NO_SKIP = "TEAM_TESTS_NO_SKIP"

# The same cases in every run, so that a failure is of the change and can be seen again, and no
# limit on the time of one case, which says only how busy the machine is.
# `--hypothesis-profile searching` looks for new cases.
settings.register_profile("searching", deadline=None)
settings.register_profile("steady", deadline=None, derandomize=True)
settings.load_profile("steady")


def pytest_configure(config: pytest.Config) -> None:
    """Let signals end what the tests start, also where whoever started the tests ignores them, as
    `nohup` does: an ignored signal stays ignored in every child."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _hermetic(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No key, no endpoint, no configuration and no git identity of the machine."""
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "OPENAI_", "TEAM_", "GIT_")) and name != NO_SKIP:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path_factory.getbasetemp() / "nobody"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Where nothing may be skipped, a skip is a failure."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.skipped and os.environ.get(NO_SKIP) and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where {NO_SKIP} forbids it: {report.longrepr}"
