"""Ctrl-C at any moment: a batch of rewards, or of asks, is taken in whole or not at all."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0.0, 1.0)
INTERRUPTS = 200
MAKE: dict[str, Callable[[], pmb.Policy]] = {
    "binary": lambda: pmb.CIRT(GINI, n_arms=3, support=pmb.Binary(), epsilon=0.2),
    "interval": lambda: pmb.CIRT(GINI, n_arms=3, support=UNIT, epsilon=0.2),  # its memory grows
    "sketch": lambda: pmb.CIRT(GINI, n_arms=3, support=UNIT, epsilon=0.2, estimates="sketch:16"),
}
on_unix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there is no timer that sends signals")
in_main_thread = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread only"
)
pytestmark = [on_unix, in_main_thread]


@pytest.fixture(autouse=True)
def no_garbage_is_collected() -> Iterator[None]:
    """Ctrl-C while garbage is collected would strike what others do then (hypothesis counts the seconds)."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def interrupted(job: Callable[[], Any], after: float) -> bool:
    """Do the job, with Ctrl-C after so many seconds; whether it came while the job ran."""

    def stop(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, after)
        job()
        return False
    except KeyboardInterrupt:
        return True
    finally:
        while True:
            try:  # the signal may come here, too
                signal.setitimer(signal.ITIMER_REAL, 0.0)
                signal.signal(signal.SIGALRM, before)
                break
            except KeyboardInterrupt:
                continue


def seconds(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def half_taken(state: Callable[[], Any], job: Callable[[], Any], batch: int, usual: float) -> tuple[int, int]:
    """Interrupt the job at random moments; how often that struck, and how often it left half of a batch behind."""
    rng, struck, torn = np.random.default_rng(0), 0, 0
    for _ in range(INTERRUPTS):
        before = state()
        came = interrupted(job, max(1e-6, 1.2 * usual * rng.random()))
        more = [after - then for after, then in zip(state(), before, strict=True)]
        struck += came
        torn += any(n not in (0, batch) for n in more) or len(set(more)) > 1 or (not came and more[0] != batch)
    return struck, torn


@pytest.mark.parametrize("kind", MAKE)
def test_a_batch_of_rewards_is_told_whole_or_not_at_all(kind: str) -> None:
    batch, rng = 3000, np.random.default_rng(1)
    arms, rewards = rng.integers(0, 3, batch).tolist(), rng.integers(0, 2, batch).astype(float).tolist()
    policy = MAKE[kind]()
    policy.tell(arms, rewards)
    usual = min(seconds(lambda: policy.tell(arms, rewards)) for _ in range(3))

    def state() -> list[int]:
        memory = policy._memory
        return [memory.rewards, int(memory.n_rewards.sum())]

    struck, torn = half_taken(state, lambda: policy.tell(arms, rewards), batch, usual)
    assert torn == 0
    assert struck > INTERRUPTS // 4, "too few interrupts came in time: nothing was tried"
    memory, times = policy._memory, policy._memory.rewards // batch
    assert memory.n_rewards.tolist() == (times * np.bincount(arms, minlength=3)).tolist()
    assert memory.sums.tolist() == (times * np.bincount(arms, weights=rewards, minlength=3)).tolist()


@pytest.mark.parametrize("kind", MAKE)
def test_a_batch_of_asks_is_taken_whole_or_not_at_all(kind: str) -> None:
    batch, policy = 20_000, MAKE[kind]()
    policy.tell([0, 1, 2] * 20, [1.0, 0.0, 1.0] * 20)
    policy.ask(batch)
    usual = min(seconds(lambda: policy.ask(batch)) for _ in range(3))

    def state() -> list[int]:
        return [policy.t, int(policy.pulls.sum()), int(policy.pending.sum())]

    struck, torn = half_taken(state, lambda: policy.ask(batch), batch, usual)
    assert torn == 0
    assert struck > INTERRUPTS // 4, "too few interrupts came in time: nothing was tried"


def test_a_lock_is_never_left_closed() -> None:
    policy = MAKE["interval"]()
    arms, rewards = [0, 1, 2] * 100, [0.0, 0.5, 1.0] * 100
    policy.tell(arms, rewards)
    usual = min(seconds(lambda: policy.tell(arms, rewards)) for _ in range(3))
    for k in range(INTERRUPTS):
        interrupted(lambda: policy.tell(arms, rewards), max(1e-6, 1.2 * usual * k / INTERRUPTS))
    before = policy.t
    other = threading.Thread(target=policy.ask, daemon=True)
    other.start()
    other.join(10.0)
    assert not other.is_alive() and policy.t == before + 1


def test_a_merge_is_made_whole_or_not_at_all() -> None:
    policy, other, batch = MAKE["interval"](), MAKE["interval"](), 3000
    other.tell([0, 1, 2] * (batch // 3), [0.0, 0.5, 1.0] * (batch // 3))
    usual = min(seconds(lambda: policy.merge(other)) for _ in range(3))

    def state() -> list[int]:
        memory = policy._memory
        return [memory.rewards, int(memory.n_rewards.sum()), 2 * int(memory.sums.sum())]

    struck, torn = half_taken(state, lambda: policy.merge(other), batch, usual)
    assert torn == 0
    assert struck > INTERRUPTS // 4, "too few interrupts came in time: nothing was tried"
