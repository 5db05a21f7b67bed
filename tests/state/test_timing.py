"""A stopwatch does not count compiling; nor do the seconds of a trial, with a clock that the test turns."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numba
import pytest
from numba.core import event

import pmbandits as pmb
from pmbandits.state import timing


class OfThread(threading.local):
    hours = 0


class Clock(event.Listener):
    """Moves one second at every look; and an hour, for the thread that compiles or loads something."""

    def __init__(self) -> None:
        self.now, self.compiled, self.mine = 0.0, 0, OfThread()

    def __call__(self) -> float:
        self.now += 1.0
        return self.now + 3600.0 * self.mine.hours

    def on_start(self, event: Any) -> None:
        self.compiled += 1
        self.mine.hours += 1

    def on_end(self, event: Any) -> None:
        pass


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    turned = Clock()
    monkeypatch.setattr(timing, "clock", turned)
    event.register("numba:compiler_lock", turned)
    yield turned
    event.unregister("numba:compiler_lock", turned)


def fresh() -> Any:
    """A function that is not compiled yet, with another inside."""
    inner = numba.njit(lambda x: x + 1.0)
    return numba.njit(lambda x: inner(x) * 2.0)


def test_compiling_does_not_count(clock: Clock) -> None:
    watch, slow = timing.Stopwatch(), fresh()
    assert slow(1.0) == 4.0
    assert clock.compiled > 0
    assert watch.seconds < 100.0
    before = clock.compiled
    clock.now += 500.0  # whatever else takes time counts
    assert slow(2.0) == 6.0
    assert clock.compiled == before
    assert 500.0 < watch.seconds < 600.0


def test_compiling_before_it_starts_takes_nothing_off(clock: Clock) -> None:
    fresh()(1.0)
    watch = timing.Stopwatch()
    clock.now += 10.0
    assert 10.0 < watch.seconds < 20.0


def test_a_thread_that_waits_for_the_compiler_is_not_charged(clock: Clock) -> None:
    from numba.core.compiler_lock import global_compiler_lock

    found: list[float] = []
    started = threading.Event()

    def wait() -> None:
        watch = timing.Stopwatch()
        started.set()
        fresh()(1.0)
        found.append(watch.seconds)

    with global_compiler_lock:
        other = threading.Thread(target=wait)
        other.start()
        started.wait()
        clock.now += 10_000.0
    other.join()
    assert found[0] < 11_000.0  # at most what passed before it began to wait


def test_an_interrupted_compilation_does_not_stop_the_watch(clock: Clock) -> None:
    timing._compiling.on_start(None)  # and never an end
    watch = timing.Stopwatch()
    fresh()(1.0)
    assert watch.seconds < 100.0


class CompilesWhenAsked:
    """A policy whose first question in every trial compiles something."""

    mixture = (0.5, 0.5)

    def __init__(self) -> None:
        self.step = fresh()

    def ask(self) -> int:
        return int(self.step(0.0)) % 2

    def tell(self, arm: int, reward: float) -> None:
        pass


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_seconds_of_a_trial_are_those_of_playing(clock: Clock, n_jobs: int) -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    run = pmb.simulate("gini", bandit, {"it": CompilesWhenAsked}, 50, trials=4, n_jobs=n_jobs)
    assert clock.compiled >= 4
    assert (run.seconds("it") > 0.0).all()
    assert (run.seconds("it") < 3600.0).all()
    assert run.summary().rows[0]["seconds"] < 3600.0


def test_the_seconds_of_a_compiled_trial_are_those_of_playing(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is compiled in the middle of the loop is taken off."""
    from pmbandits.simulation import _kernels

    monkeypatch.setattr(
        _kernels, "play_until_stopped", lambda *given, real=_kernels.play_until_stopped: (fresh()(1.0), real(*given))[1]
    )
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    run = pmb.simulate("gini", bandit, pmb.Uniform(), 50, trials=3, n_jobs=1)
    assert clock.compiled >= 3
    assert (run.seconds("Uniform") < 3600.0).all()
