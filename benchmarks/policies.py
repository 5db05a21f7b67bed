"""One ask and tell from Python, beside river's UCB in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np
from rich.table import Table

import pmbandits as pmb


def tables() -> Iterator[Table]:
    yield overhead()


def overhead(rounds: int = 40_000) -> Table:
    table = Table(title="One ask + tell from Python, 2 Bernoulli arms (river: UCB pull + update; goal: not slower)")
    for head in ("policy", "µs", "against river"):
        table.add_column(head, justify="left" if head == "policy" else "right")
    rewards = (np.random.default_rng(0).random((rounds, 2)) < [0.4, 0.9]).astype(float).tolist()
    gini, binary = pmb.GiniDeviation(), pmb.Binary()

    def river_ucb() -> Callable[[], float]:
        from river import bandit

        policy, arms = bandit.UCB(delta=1, seed=1), [0, 1]
        return lambda: _clock(rewards, lambda: policy.pull(arms), policy.update)

    def ours(recipe: pmb.Policy) -> Callable[[], float]:
        policy = recipe.bind(gini, 2, binary)
        return lambda: _clock(rewards, policy.ask, policy.tell)

    makers = {
        "river UCB": river_ucb,
        "UCB1": lambda: ours(pmb.UCB1()),
        "PM-UCB-M, 33-point grid": lambda: ours(pmb.PMUCB(horizon=rounds, epsilon=1 / 33)),
        "CE-UCB-M, 33-point grid": lambda: ours(pmb.CEUCB(horizon=rounds, epsilon=1 / 33)),
        "PM-ETC-M": lambda: ours(pmb.PMETC(horizon=rounds, epsilon=1 / 32)),
        "CIRT": lambda: ours(pmb.CIRT()),
    }
    base = None
    for name, make in makers.items():
        make()()  # compiled and warm
        seconds = min(make()() for _ in range(3)) / rounds
        base = base or seconds
        table.add_row(name, f"{1e6 * seconds:.2f}", f"{seconds / base:.2f}×")
    return table


def _clock(rewards: list[list[float]], ask: Callable[[], int], tell: Callable[[int, float], object]) -> float:
    start = time.perf_counter()
    for row in rewards:
        arm = ask()
        tell(arm, row[arm])
    return time.perf_counter() - start
