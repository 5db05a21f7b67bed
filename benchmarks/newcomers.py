"""A new arm in the middle of a run: how soon it is found if it is good, and how often it is pulled if it is not.

``python -m benchmarks newcomers``. Laws, runs and seeds were written down before anything was run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.stats as distributions
from rich.table import Table

import pmbandits as pmb
from pmbandits.optimize.utilities import utilities

SEED, RUNS, HALF, ROUNDS, LATE = 2020, 20, 2_000, 4_000, 25
OLD = {"A": distributions.beta(2, 4), "B": distributions.beta(3, 4)}
PROBLEMS = {  # the metric, and the arm that comes: with it another mixture is best
    "mean: the new arm alone is best": ("mean", distributions.beta(5, 3)),
    "gini: a mixture with the new arm is best": ("gini", distributions.beta(6, 2)),
}
BAD = distributions.beta(1, 9)
POLICIES: dict[str, Any] = {"Vet": pmb.Vet, "Track": pmb.Track, "CIRT": pmb.CIRT}


def play(made: Any, metric: str, new: Any, seed: int, late: int) -> tuple[np.ndarray, np.ndarray]:
    """The mixture and the pulls of the new arm every 20 rounds; rewards come ``late`` rounds after the ask."""
    rng = np.random.default_rng([SEED, seed])
    arms = [*OLD.values(), new]
    policy = made(metric, names=list(OLD), support=pmb.Interval(0, 1), most_arms=3, seed=seed)
    waiting: list[int] = []
    mixtures, pulls = [], []
    for t in range(ROUNDS):
        if t == HALF:
            policy.add_arm("new")
        waiting.append(policy.ask())
        if len(waiting) > late:
            arm = waiting.pop(0)
            policy.tell(arm, float(arms[arm].rvs(random_state=rng)))
        if t >= HALF and (t + 1 - HALF) % 20 == 0:
            mixtures.append(policy.mixture)
            pulls.append(policy.pulls[2])
    return np.array(mixtures), np.array(pulls)


def found(metric: str, new: Any, mixtures: np.ndarray) -> float:
    """After how many rounds the mixture is, for good, within a tenth of what the new arm adds to the best utility."""
    bandit = pmb.Bandit([*OLD.values(), new])
    best = pmb.oracle(metric, bandit)
    before = pmb.oracle(metric, pmb.Bandit(list(OLD.values()))).value
    worth = utilities(pmb.metric(metric), bandit, mixtures)
    bad = np.flatnonzero(worth < best.value - 0.1 * (best.value - before))
    return 20.0 * (bad[-1] + 2) if bad.size and bad[-1] + 1 < len(mixtures) else np.inf if bad.size else 20.0


def tables() -> Iterator[Table]:
    good = Table(title=f"a new arm in round {HALF:,}: rounds until it is found ({RUNS} runs; median, nine in ten)")
    for name in ("problem", "rewards", *POLICIES):
        good.add_column(name)
    for problem, (metric, new) in PROBLEMS.items():
        for late in (0, LATE):
            row = []
            for made in POLICIES.values():
                taken = [found(metric, new, play(made, metric, new, seed, late)[0]) for seed in range(RUNS)]
                row.append(f"{np.median(taken):.0f}, {np.quantile(taken, 0.9, method='higher'):.0f}")
            good.add_row(problem, "at once" if late == 0 else f"{late} rounds late", *row)
    yield good
    bad = Table(title="a new arm that is bad: its pulls in the first 100 and 1,000 rounds (median)")
    for name in ("metric", "rewards", *POLICIES):
        bad.add_column(name)
    for metric in ("mean", "gini"):
        for late in (0, LATE):
            row = []
            for made in POLICIES.values():
                pulls = np.array([play(made, metric, BAD, seed, late)[1] for seed in range(RUNS)])
                row.append(f"{np.median(pulls[:, 4]):.0f}, {np.median(pulls[:, 49]):.0f}")
            bad.add_row(metric, "at once" if late == 0 else f"{late} rounds late", *row)
    yield bad
