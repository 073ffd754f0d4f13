"""The retry budget: which failures are tried again, after how long, and who else waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import anyio
import pytest

from team_runtime.errors import ModelFailed, ModelRejected
from team_runtime.models.retry import (
    TRIES,
    Fault,
    Limiter,
    Patience,
    TryFailed,
    Verdict,
    judge,
    with_retry,
)

OVERLOADED = Fault("overloaded_error", "Overloaded", 529)


class FakeTime:
    """A clock that moves when somebody sleeps, and the sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


class NoJitter:
    def token(self) -> str:
        return "0" * 16

    def fraction(self) -> float:
        return 0.0


class MostJitter(NoJitter):
    def fraction(self) -> float:
        return 0.999


class Service:
    """Fails with each fault in turn, then answers."""

    def __init__(self, *faults: Fault) -> None:
        self.faults = list(faults)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.faults:
            raise TryFailed(self.faults.pop(0))
        return "answer"


def patience(time: FakeTime, base: float = 0.5) -> Patience:
    return Patience(time, NoJitter(), time.sleep, base)


def call(service: Service, time: FakeTime) -> tuple[str, list[tuple[str, int, float]]]:
    notices: list[tuple[str, int, float]] = []

    async def main() -> str:
        given = patience(time)
        return await with_retry(
            service, given, Limiter(given), lambda *notice: notices.append(notice)
        )

    return anyio.run(main), notices


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (Fault("invalid_request_error", "bad", 400), Verdict.REJECT),
        (Fault("authentication_error", "no", 401), Verdict.REJECT),
        (Fault("billing_error", "pay", 402), Verdict.REJECT),
        (Fault("permission_error", "no", 403), Verdict.REJECT),
        (Fault("not_found_error", "model: x", 404), Verdict.REJECT),
        (Fault("timeout_error", "slow", 408), Verdict.RETRY),
        (Fault("conflict_error", "busy", 409), Verdict.RETRY),
        (Fault("request_too_large", "big", 413), Verdict.FAIL),
        (Fault("prompt_too_long", "long", 400), Verdict.FAIL),
        (Fault("rate_limit_error", "slow down", 429), Verdict.RETRY),
        (Fault("rate_limit_error", "", 429, "ramp_limit_exceeded"), Verdict.RETRY),
        (Fault("rate_limit_error", "", 429, "enforced_spend_limit_reached"), Verdict.FAIL),
        (Fault("rate_limit_error", "", 429, "contract_spend_limit_reached"), Verdict.FAIL),
        (Fault("api_error", "oops", 500), Verdict.RETRY),
        (OVERLOADED, Verdict.RETRY),
        (Fault("overloaded_error", "inside a stream", 200), Verdict.RETRY),
        (Fault("invalid_request_error", "inside a stream", 200), Verdict.REJECT),
        (Fault("future_error", "new", 200), Verdict.RETRY),
        (Fault("future_error", "new", 422), Verdict.REJECT),
        (Fault("future_error", "new", 503), Verdict.RETRY),
        (Fault("future_error", "moved", 301), Verdict.REJECT),
        (Fault("connection", "reset"), Verdict.RETRY),
        (Fault("cut", "ended early"), Verdict.RETRY),
        (Fault("timeout", "silence"), Verdict.RETRY),
        (Fault("protocol", "garbage"), Verdict.RETRY),
        (Fault("api_error", "final", 500, should_retry=False), Verdict.FAIL),
        (Fault("invalid_request_error", "again", 400, should_retry=True), Verdict.RETRY),
        (Fault("invalid_request_error", "no", 400, should_retry=False), Verdict.REJECT),
    ],
    ids=lambda value: value.name if isinstance(value, Verdict) else None,
)
def test_what_a_fault_means(fault: Fault, verdict: Verdict) -> None:
    assert judge(fault) is verdict


def test_back_off_doubles_up_to_sixteen_times_the_base() -> None:
    time = FakeTime()

    answer, notices = call(Service(*[OVERLOADED] * 7), time)

    assert answer == "answer"
    assert time.slept == [0.5, 1, 2, 4, 8, 8, 8]
    assert notices[0] == ("overloaded_error: Overloaded", 1, 0.5)
    assert [number for _, number, _ in notices] == [1, 2, 3, 4, 5, 6, 7]


def test_a_call_is_tried_at_least_twenty_times_and_then_says_why_it_failed() -> None:
    service = Service(*[OVERLOADED] * 100)

    with pytest.raises(ModelFailed, match="Overloaded") as caught:
        call(service, FakeTime())

    assert service.calls == TRIES >= 20
    assert caught.value.kind == "overloaded_error"


def test_a_rejected_request_is_sent_once() -> None:
    service = Service(Fault("not_found_error", "model: nope", 404, request_id="req_7"))

    with pytest.raises(ModelRejected, match=r"model: nope.*req_7"):
        call(service, FakeTime())

    assert service.calls == 1


def test_a_spend_limit_is_not_waited_for() -> None:
    limit = Fault("rate_limit_error", "limit", 429, "enforced_spend_limit_reached", 3600.0)
    service = Service(limit)

    with pytest.raises(ModelFailed):
        call(service, FakeTime())

    assert service.calls == 1


@pytest.mark.parametrize(("asked", "waited"), [(0.0, 0.5), (7.0, 7.0), (60.0, 60.0), (4e6, 60.0)])
def test_retry_after_is_honoured_up_to_a_minute(asked: float, waited: float) -> None:
    time = FakeTime()

    call(Service(Fault("rate_limit_error", "slow down", 429, retry_after=asked)), time)

    assert time.slept == [waited]


def test_jitter_takes_at_most_a_quarter_and_never_cuts_what_the_service_asked_for() -> None:
    jittered = Patience(FakeTime(), MostJitter(), base=1.0)

    assert 0.75 <= jittered.delay(1, None) < 1
    assert 12 <= jittered.delay(50, None) < 16
    assert 5 <= jittered.delay(1, 5.0) < 6.01


def test_one_callers_429_makes_the_whole_team_hold_back() -> None:
    time = FakeTime()
    given = patience(time)
    limiter = Limiter(given)
    started: list[float] = []

    async def answer() -> str:
        started.append(time.seconds)
        return "answer"

    async def main() -> None:
        limiter.hold(30)
        await with_retry(answer, given, limiter, lambda *_: None)
        await with_retry(answer, given, limiter, lambda *_: None)

    anyio.run(main)

    assert started == [30, 30]


def test_an_overloaded_service_holds_back_only_the_caller_it_refused() -> None:
    time = FakeTime()
    given = patience(time)
    limiter = Limiter(given)

    async def main() -> None:
        await with_retry(Service(OVERLOADED), given, limiter, lambda *_: None)
        time.slept.clear()
        await limiter.passage()

    anyio.run(main)

    assert time.slept == []
