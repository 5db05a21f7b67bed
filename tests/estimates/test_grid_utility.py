"""The utilities of a whole grid, against the formula, and against its points one by one, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.estimates._grid_utility import fill_grid_utilities_by_cells
from pmbandits.estimates._utility import empirical_utility_by_cells

ATOMS = [-1.0, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("n_arms", [2, 7])
@pytest.mark.parametrize("metric", ["gini", "wang_right_tail", "0.7*mean+0.3*upper_cvar(0.9)"])
@pytest.mark.parametrize(
    "support", [pmb.Interval(-0.5, 1.5), pmb.Finite(ATOMS), pmb.Real(1.0), "binned:32", "sketch:64"], ids=str
)
def test_utilities_of_all_mixtures(support: Any, metric: str, n_arms: int) -> None:
    options = {"estimates": support} if isinstance(support, str) else {}
    where = pmb.Interval(-0.5, 1.5) if isinstance(support, str) else support
    h = pmb.metric(metric)
    try:
        policy = pmb.PMETC(h, n_arms=n_arms, support=where, horizon=4000, epsilon=0.5, **options)
    except ValueError:
        assert isinstance(support, pmb.Real)
        return
    rng, told = np.random.default_rng(7), []
    for arm in range(n_arms):
        n = int(rng.integers(1, 200))
        told.append(rng.choice(ATOMS, n) if isinstance(support, pmb.Finite) else 2.0 * rng.beta(1 + arm, 2, n) - 0.5)
        policy.tell([arm] * n, told[-1])
    s = policy._memory
    fill_grid_utilities_by_cells(s)
    values, grid = np.array(s.value[: s.n_grid_used]), np.array(s.grid[: s.n_grid_used])
    assert (grid == 0.0).any()
    np.testing.assert_array_equal(values, [empirical_utility_by_cells(s, a) for a in grid])
    if not options:  # U_h from the definition: ∫ h(S)
        x = np.unique(np.concatenate([*told, [where.lo, where.hi] if np.isfinite(where.width) else []]))
        above = np.array([[np.mean(rewards > left) for left in x[:-1]] for rewards in told])
        exact = x[0] * h(1.0) + h(np.clip(grid @ above, 0.0, 1.0)) @ np.diff(x)
        np.testing.assert_allclose(values, exact, rtol=1e-9, atol=1e-10)
