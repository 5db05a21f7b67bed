"""The largest utilities of a whole grid are those of its points one by one, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence._bounds import OPTIMISTIC, update_confidence_sets, utility_bound
from pmbandits.confidence._grid_bounds import fill_grid_optimistic_utilities

ATOMS = [-1.0, 0.0, 0.5, 1.0]
SUPPORTS: dict[str, tuple[pmb.Support, dict[str, Any]]] = {
    "interval": (pmb.Interval(-0.5, 1.5), {}),
    "bins": (pmb.Interval(-0.5, 1.5), {"estimates": "binned:16"}),
    "finite": (pmb.Finite(ATOMS), {}),
}


def policy_with_rewards(metric: Any, support: str, n_arms: int, **options: Any) -> Any:
    where, kept = SUPPORTS[support]
    policy = pmb.PMUCB(metric, n_arms=n_arms, support=where, horizon=3000, epsilon=0.2, **kept, **options)
    rng = np.random.default_rng(4)
    for arm in range(n_arms):
        n = int(rng.integers(20, 300))
        rewards = rng.choice(ATOMS, n) if support == "finite" else 2.0 * rng.beta(1 + arm, 2, n) - 0.5
        policy.tell([arm] * n, np.repeat(rewards, 1))
    return policy


@pytest.mark.parametrize("support", SUPPORTS)
@pytest.mark.parametrize("confidence", ["auto", "dkw", "wasserstein"])
@pytest.mark.parametrize(
    "metric",
    [
        "gini",
        "wang_right_tail",
        "upper_cvar(0.9)",
        "0.7*mean+0.3*upper_cvar(0.9)",
        "mean - 0.5*gini",
        "inverted_s(0.6)",
        "own",
    ],
)
def test_the_whole_grid_is_what_its_points_are(metric: str, confidence: str, support: str) -> None:
    if confidence == "wasserstein" and metric in ("inverted_s(0.6)", "own"):
        pytest.skip("there is no quick bound")
    h = pmb.Distortion.from_function(lambda u: u**0.7 - u) if metric == "own" else pmb.metric(metric)
    s = policy_with_rewards(h, support, 3, confidence=confidence)._memory
    update_confidence_sets(s)
    s.grid[0] = [1.0, 0.0, 0.0]  # arms without weight make no cells
    s.grid[1] = [0.5, 0.0, 0.5]
    fill_grid_optimistic_utilities(s)
    one_by_one = [utility_bound(s, s.grid[g], OPTIMISTIC) for g in range(s.n_grid_used)]
    np.testing.assert_array_equal(s.index[: s.n_grid_used], one_by_one)
    assert len(set(one_by_one)) > 3 or confidence == "wasserstein"
