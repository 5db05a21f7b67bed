"""What the exact optimistic value costs, and what it changes: PM-UCB-M in plain Python with either value, few cells.

The policies search with a value cell by cell, which for bands on several arms is a bound (see docs/limits.md). Here the
same algorithm plays with both.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

import numpy as np
from rich.table import Table

import pmbandits as pmb
from pmbandits.confidence.exact_bounds import extreme_value

QUICK = bool(os.environ.get("BENCH_QUICK"))
METRIC, ATOMS = pmb.GiniDeviation(), np.array([0.0, 0.25, 0.5, 0.75, 1.0])
INSTANCES = {
    "arms share": np.array([[0.5, 0.2, 0.1, 0.1, 0.1], [0.02, 0.03, 0.05, 0.1, 0.8]]),
    "one arm nearly alone": np.array([[0.4, 0.12, 0.03, 0.1, 0.35], [0.0, 0.1, 0.2, 0.3, 0.4]]),
}
HORIZON, EPSILON, TRIALS, FURTHER = 1000 if QUICK else 4000, 1 / 16, 2 if QUICK else 20, 1.03
SAME = 1e-6  # values closer than this are tied: the program is solved to 1e-7


def best_of(index: np.ndarray, low: np.ndarray, high: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, int]:
    """The index with exact values where they matter: from the top down, until no bound exceeds the best exact value."""
    out, top, solved = index.copy(), -np.inf, 0
    for g in np.argsort(-index, kind="stable"):
        if index[g] <= top - SAME:
            break
        out[g] = extreme_value(METRIC, ATOMS, low, high, grid[g]).value
        top, solved = max(top, out[g]), solved + 1
    return out, solved


def play(distributions: np.ndarray, exact: bool, seed: int) -> tuple[np.ndarray, int]:
    """PM-UCB-M, but it looks again only when 3 % more rewards are in: pulls, and how many programs were solved."""
    rng, k = np.random.default_rng(seed), distributions.shape[0]
    grid, first = pmb.ucb_grid(k, EPSILON), math.ceil(0.1 * HORIZON * EPSILON / 4)
    counts, current, look, solved = np.zeros((k, ATOMS.size)), -1, 0.0, 0
    for t in range(HORIZON):
        n = counts.sum(axis=1)
        if t >= k * first and t >= look:
            look = t * FURTHER
            survival = np.maximum(1.0 - np.cumsum(counts, axis=1)[:, :-1] / n[:, None], 0.0)
            radius = np.sqrt(math.log(2 * HORIZON**2) / (2 * n))[:, None]
            low, high = np.maximum(survival - radius, 0.0), np.minimum(survival + radius, 1.0)
            cells = np.clip(0.5, grid @ low, grid @ high)
            index = (cells * (1.0 - cells)) @ np.diff(ATOMS)
            if exact:
                index, more = best_of(index, low, high, grid)
                solved += more
            if current < 0 or index[current] < index.max() - SAME:
                tied = np.flatnonzero(index >= index.max() - SAME)
                value = [METRIC.value(ATOMS, a @ (counts / n[:, None])) for a in grid[tied]]
                current = int(tied[int(np.argmax(value))])
        arm = int(np.argmin(n)) if t < k * first else int(np.argmax(t * grid[current] - n))
        counts[arm, rng.choice(ATOMS.size, p=distributions[arm])] += 1
    return counts.sum(axis=1), solved


def tables() -> Iterator[Table]:
    table = Table(title=f"PM-UCB-M in plain Python, five values, Gini, T = {HORIZON:,}, ε = 1/16, {TRIALS} trials")
    for column in ("arms", "best mixture", "regret, cell by cell", "regret, exact", "exact / cell", "ms a program"):
        table.add_column(column)
    for name, distributions in INSTANCES.items():
        bandit = pmb.Bandit(
            [np.repeat(ATOMS, np.rint(100 * distribution).astype(int)) for distribution in distributions]
        )
        best = pmb.oracle(METRIC, bandit)
        found: dict[bool, np.ndarray] = {}
        spent = programs = 0.0
        for exact in (False, True):
            start = time.process_time()
            played = [play(distributions, exact, seed) for seed in range(TRIALS)]
            found[exact] = np.array([best.value - pmb.utility(METRIC, bandit, n / n.sum()) for n, _ in played])
            spent, programs = time.process_time() - start, float(sum(solved for _, solved in played))
        error = [v.std(ddof=1) / math.sqrt(TRIALS) for v in (found[False], found[True])]
        table.add_row(
            name,
            ", ".join(f"{w:.2f}" for w in best.weights),
            f"{found[False].mean():.2e} ± {error[0]:.0e}",
            f"{found[True].mean():.2e} ± {error[1]:.0e}",
            f"{found[True].mean() / found[False].mean():.2f}",
            f"{1e3 * spent / max(programs, 1):.1f}",
        )
    yield table
