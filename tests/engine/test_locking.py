"""One policy object shared between threads: nothing that was asked or told is lost."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

GINI = pmb.GiniDeviation()
UNIT = pmb.Interval(0.0, 1.0)
WORKERS, REPETITIONS = 4, 10
MAKE: dict[str, Callable[[], pmb.Policy]] = {
    "binary": lambda: pmb.CIRT(GINI, n_arms=3, support=pmb.Binary(), epsilon=0.2),
    "interval": lambda: pmb.PMUCB(GINI, n_arms=3, support=UNIT, horizon=10**5, epsilon=0.25),  # its memory grows
    "sketch": lambda: pmb.CIRT(GINI, n_arms=3, support=UNIT, epsilon=0.2, estimates="sketch:16"),
}


@pytest.fixture(autouse=True)
def impatient() -> Iterator[None]:
    """Let threads take turns far more often than usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual)


def at_once(*jobs: Callable[[], Any]) -> None:
    """Run the jobs at the same time, and raise what any of them raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(len(jobs))

    def run(job: Callable[[], Any]) -> None:
        try:
            start.wait()
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


Told = list[tuple[np.ndarray, np.ndarray]]


def rewards_for(repetition: int, workers: int, n: int) -> Told:
    """For each worker arms, and rewards of 0 or 1: their sums are whole numbers, and do not depend on the order."""
    rng = np.random.default_rng(repetition)
    return [(rng.integers(0, 3, n), rng.integers(0, 2, n).astype(float)) for _ in range(workers)]


def batches(policy: pmb.Policy, told: tuple[np.ndarray, np.ndarray], size: int) -> Iterator[None]:
    """Tell batches of this size, one at each step."""
    arms, rewards = told
    for at in range(0, arms.size, size):
        policy.tell(arms[at : at + size], rewards[at : at + size])
        yield


def check(policy: pmb.Policy, told: Told, asked: list[int]) -> None:
    """Everything that was asked and told is there, once."""
    memory = policy._memory
    arms, rewards = (np.concatenate(parts) for parts in zip(*told, strict=True))
    assert policy.t == memory.t == len(asked)
    assert policy.pulls.tolist() == np.bincount(asked, minlength=3).tolist()
    assert memory.rewards == arms.size
    assert memory.n_rewards.tolist() == np.bincount(arms, minlength=3).tolist()
    assert memory.sums.tolist() == np.bincount(arms, weights=rewards, minlength=3).tolist()
    assert [arm.n for arm in policy.estimates] == memory.n_rewards.tolist()
    if memory.sketch_size > 0:
        return
    for i, arm in enumerate(policy.estimates):
        x, counts = np.unique(rewards[arms == i], return_counts=True)
        assert arm.x.tolist() == x.tolist()
        assert np.rint(arm.p * arm.n).tolist() == counts.tolist()


@pytest.mark.parametrize("repetition", range(REPETITIONS))
@pytest.mark.parametrize("kind", MAKE)
def test_batches_that_are_told_while_others_ask_are_all_taken_in(kind: str, repetition: int) -> None:
    policy, told, asked = MAKE[kind](), rewards_for(repetition, WORKERS, 600), []  # type: ignore[var-annotated]

    def work(mine: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in batches(policy, mine, 30):
            asked.extend([*policy.ask(7).tolist(), policy.ask()])

    at_once(*(partial(work, mine) for mine in told))
    check(policy, told, asked)


@pytest.mark.parametrize("repetition", range(REPETITIONS))
@pytest.mark.parametrize("kind", MAKE)
def test_rewards_that_are_told_one_by_one_are_all_taken_in(kind: str, repetition: int) -> None:
    policy, told, asked = MAKE[kind](), rewards_for(repetition, WORKERS, 400), []  # type: ignore[var-annotated]

    def work(mine: tuple[np.ndarray, np.ndarray]) -> None:
        for t, (arm, reward) in enumerate(zip(*mine, strict=True)):
            policy.tell(int(arm), float(reward))
            if t % 4 == 0:
                asked.append(policy.ask())

    at_once(*(partial(work, mine) for mine in told))
    check(policy, told, asked)


@pytest.mark.parametrize("repetition", range(REPETITIONS))
@pytest.mark.parametrize("kind", MAKE)
def test_what_is_read_and_saved_while_others_tell_is_a_state_that_there_was(
    kind: str, repetition: int, tmp_path: Path
) -> None:
    """Two threads tell batches of 20 and ask 10 arms, one reads, one saves: only whole batches are ever seen."""
    policy, told, asked, saved = MAKE[kind](), rewards_for(repetition, 2, 600), [], []  # type: ignore[var-annotated]
    at_work = [threading.Event(), threading.Event()]

    def work(w: int) -> None:
        try:
            for _ in batches(policy, told[w], 20):
                asked.extend(policy.ask(10).tolist())
        finally:
            at_work[w].set()

    def going_on() -> bool:
        return not all(event.is_set() for event in at_work)

    def read() -> None:
        while going_on():
            assert policy.mixture.sum() == pytest.approx(1.0)
            assert sum(arm.n for arm in policy.estimates) % 20 == 0
            assert policy.pulls.sum() % 10 == 0
            low, middle, high = policy.utility_bounds([0.2, 0.3, 0.5])
            assert low <= middle <= high

    def save() -> None:
        while going_on():
            policy.save(tmp_path / "shared.pmb")
            loaded = pmb.load(tmp_path / "shared.pmb")
            assert loaded.t == loaded.pulls.sum() and loaded.t % 10 == 0
            assert loaded._memory.rewards == loaded._memory.n_rewards.sum()
            assert loaded._memory.rewards % 20 == 0
            saved.append(loaded.t)

    at_once(partial(work, 0), partial(work, 1), read, save)
    assert saved and saved == sorted(saved)
    check(policy, told, asked)


@pytest.mark.parametrize("repetition", range(REPETITIONS))
@pytest.mark.parametrize("kind", MAKE)
def test_policies_can_be_merged_into_one_that_others_tell(kind: str, repetition: int) -> None:
    policy, other = MAKE[kind](), MAKE[kind]()
    told, gift = rewards_for(repetition, WORKERS, 600), rewards_for(99, 1, 300)
    other.tell(*gift[0])

    def work(mine: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in batches(policy, mine, 30):
            pass

    def merge() -> None:
        for _ in range(3):
            policy.merge(other)

    at_once(*(partial(work, mine) for mine in told), merge)
    check(policy, [*told, *gift, *gift, *gift], [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_was_forked_while_a_thread_was_inside_a_policy_can_play_it() -> None:
    policy = MAKE["interval"]()
    policy.tell(policy.ask(), 0.5)
    stop = threading.Event()

    def play() -> None:
        while not stop.is_set():
            policy.tell(policy.ask(300), np.linspace(0.0, 1.0, 300))
            policy.mixture  # noqa: B018

    players = [threading.Thread(target=play) for _ in range(2)]
    for player in players:
        player.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs is ended by a signal
                policy.tell(policy.ask(), 0.5)
                os._exit(0 if int(policy.pulls.sum()) == policy.t else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for player in players:
            player.join()


@pytest.mark.parametrize(
    ("name", "support", "options"),
    [
        *((name, UNIT, {}) for name in ("Vet", "Track", "CIRT")),
        *(("Track", support, {}) for support in (pmb.Binary(), pmb.Real(1.0), pmb.Heavy(order=2.0, bound=3.0))),
        *(("Track", UNIT, {"confidence": name}) for name in ("dkw", "wasserstein")),
        ("Track", pmb.Real(1.0), {"confidence": "wasserstein"}),
    ],
    ids=str,
)
def test_a_policy_can_be_sent_to_another_process_as_a_pickle(name: str, support: pmb.Support, options: Any) -> None:
    policy = getattr(pmb, name)("gini", n_arms=2, support=support, **options)
    for _ in range(5):
        policy.tell(policy.ask(), 1.0)
    sent = pickle.loads(pickle.dumps(policy))
    assert [sent.ask() for _ in range(5)] == [policy.ask() for _ in range(5)]
