"""The policies of the paper beyond 0/1 rewards: a look at the grid before and after, and the growth with the rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numba
import numpy as np
import scipy.stats as st
from rich.table import Table

import pmbandits as pmb
from benchmarks.timing import cpu_of
from pmbandits.confidence._bounds import OPTIMISTIC, update_confidence_sets, utility_bound
from pmbandits.confidence._grid_bounds import fill_grid_optimistic_utilities
from pmbandits.estimates._grid_utility import fill_grid_utilities_by_cells
from pmbandits.estimates._utility import empirical_utility_by_cells
from pmbandits.simulation.trial import Player
from pmbandits.state.numba_types import unpack

QUICK = bool(os.environ.get("BENCH_QUICK"))
LOOKS: tuple[tuple[str, str, int, float | None, int, float], ...] = (
    # policy, rewards, arms, ε, rewards in all, goal in µs
    ("PM-UCB-M", "10 values", 2, 1 / 33, 2000, 8.6),
    ("PM-UCB-M", "10 values", 2, 1 / 500, 300, 13.4),
    ("PM-UCB-M", "10 values", 10, None, 500, 10.7),
    ("PM-UCB-M", "Beta", 2, 1 / 33, 1000, 96.0),
    ("PM-ETC-M", "Beta", 100, None, 400, 105_000 / 12),
    ("PM-ETC-M", "Beta", 100, None, 1300, 340_000 / 12),
)
GROWTH = {
    "PM-UCB-M, 33 points": lambda rounds, kept: pmb.PMUCB(horizon=rounds, epsilon=1 / 33, estimates=kept),
    "CE-UCB-M, 33 points": lambda rounds, kept: pmb.CEUCB(horizon=rounds, epsilon=1 / 33, estimates=kept),
    "CIRT": lambda _, kept: pmb.CIRT(estimates=kept),
    "UCFW": lambda _, kept: pmb.UCFW(estimates=kept),
    "RhoNPTS": lambda _, kept: pmb.RhoNPTS() if kept == "exact" else None,
}


def tables() -> Iterator[Table]:
    yield looks()
    yield growth()


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _one_by_one(memory: int, optimistic: bool, out: np.ndarray) -> None:
    s = unpack(memory)
    if optimistic:  # one arm has a new reward
        s.kl_band_built_at[0] = 0
    for g in range(s.n_grid_used):
        out[g] = utility_bound(s, s.grid[g], OPTIMISTIC) if optimistic else empirical_utility_by_cells(s, s.grid[g])


@numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
def _at_once(memory: int, optimistic: bool) -> None:
    s = unpack(memory)
    if optimistic:  # one arm has a new reward
        s.kl_band_built_at[0] = 0
    if optimistic:
        fill_grid_optimistic_utilities(s)
    else:
        fill_grid_utilities_by_cells(s)


def looks() -> Table:
    """Microseconds of one look at the whole grid: mixture by mixture, and all at once; the same numbers."""
    table = Table(title="One look at the whole grid, Gini, µs: mixture by mixture (before), all at once (after)")
    for head in ("policy", "rewards", "arms", "grid points", "rewards in all", "before", "after", "goal", "same bits"):
        table.add_column(head, justify="left" if head in ("policy", "rewards") else "right")
    rng = np.random.default_rng(0)
    for name, kind, n_arms, epsilon, n, goal in LOOKS:
        optimistic, options = name == "PM-UCB-M", {} if epsilon is None else {"epsilon": epsilon}
        support = pmb.Finite(range(10)) if kind == "10 values" else pmb.Interval(0, 1)
        cls: Any = pmb.PMUCB if optimistic else pmb.PMETC
        policy = cls(pmb.GiniDeviation(), horizon=max(n, 1000), n_arms=n_arms, support=support, **options)
        for arm, shape in enumerate(rng.uniform(1, 6, (n_arms, 2))):
            count = n // n_arms
            paid = rng.beta(*shape, count) if kind == "Beta" else np.minimum(9.0, rng.poisson(2 + 0.3 * arm, count))
            policy.tell([arm] * count, paid)
        s = policy._memory
        if optimistic:
            update_confidence_sets(s)
        before = np.empty(s.n_grid_used)
        slow = cpu_of(lambda: _one_by_one(s.address, optimistic, before), 3)  # noqa: B023
        fast = cpu_of(lambda: [_at_once(s.address, optimistic) for _ in range(20)], 3) / 20  # noqa: B023
        same = np.array_equal(before, (s.index if optimistic else s.value)[: s.n_grid_used])
        table.add_row(
            name, kind, str(n_arms), str(s.n_grid_used), str(n), f"{1e6 * slow:,.0f}", f"{1e6 * fast:,.1f}",
            f"{goal:,.1f}", "yes" if same else "NO",
        )  # fmt: skip
    return table


def growth(rounds: int = 1000 if QUICK else 10_000) -> Table:
    """Nanoseconds a round on two Beta arms, and how much longer twice the rounds take."""
    table = Table(title=f"Two Beta arms, Gini: ns a round at T = {2 * rounds:,}, and twice the rounds ÷ {rounds:,}")
    for head in ("policy", "rewards kept", "ns a round", "twice the rounds", "goal"):
        table.add_column(head, justify="left" if head in ("policy", "rewards kept") else "right")
    bandit = pmb.Bandit([st.beta(*shape) for shape in np.random.default_rng(5).uniform(1, 6, (2, 2))])
    for kept, goal in (("exact", 2.2), ("binned:256", 2.1)):
        for name, make in GROWTH.items():
            if make(rounds, kept) is None:
                continue
            seconds = []
            for t in (200, rounds, 2 * rounds):
                policy = make(t, kept).bind(pmb.GiniDeviation(), 2, pmb.Interval(0, 1))
                player = Player(policy, bandit, 0, np.array([t]))
                start = time.process_time()
                player.play(0)
                seconds.append(time.process_time() - start)
            each, ratio = 1e9 * seconds[2] / (2 * rounds), seconds[2] / seconds[1]
            table.add_row(name, kept, f"{each:,.0f}", f"{ratio:.2f}", f"{goal}")
    return table
