"""Blocks of rewards enclose what a pass over all rewards gives, more closely the fewer are taken together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence._block_bounds import (
    block_optimistic_bounds,
    block_utility_bounds,
    fill_block_curves,
    w1_radius_bounds,
)
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    update_confidence_sets,
    utility_bound,
    wasserstein_radius,
)
from pmbandits.estimates._reward_blocks import update_reward_blocks
from pmbandits.estimates._utility import empirical_utility_by_cells
from pmbandits.state.compile import kernel
from pmbandits.state.numba_types import unpack


@kernel
def enclose(memory: int, a: np.ndarray, stride: int, bounds: np.ndarray, exact: np.ndarray) -> None:
    s = unpack(memory)
    update_confidence_sets(s)
    update_reward_blocks(s)
    for i in range(2):
        bounds[2 + i] = w1_radius_bounds(s, i, stride)
        exact[2 + i] = wasserstein_radius(s, i)
        fill_block_curves(s, i, stride, True)
    bounds[0] = block_utility_bounds(s, a, stride)
    bounds[1] = block_optimistic_bounds(s, a, stride)
    exact[0] = empirical_utility_by_cells(s, a)
    exact[1] = utility_bound(s, a, OPTIMISTIC)


def rewards_of(kind: str, rng: Any, arm: int, n: int) -> np.ndarray:
    if kind == "beta":
        return rng.beta(0.4 + 2 * arm, 2.0, n)
    if kind == "ties":  # many equal rewards, also at the ends of the support
        return rng.choice([0.0, 0.2, 0.20001, 0.7, 1.0], n)
    return np.full(n, 0.3 * arm)  # nothing but one value


def policy_with(metric: str, kind: str, confidence: str, counts: tuple[int, int], seed: int = 0) -> Any:
    policy = pmb.CEUCB(metric, n_arms=2, support=pmb.Interval(0, 1), horizon=4000, epsilon=0.2, confidence=confidence)
    rng = np.random.default_rng(seed)
    for arm, n in enumerate(counts):
        policy.tell([arm] * n, rewards_of(kind, rng, arm, n))
    assert policy._memory.n_block_ends > 0
    return policy


@pytest.mark.parametrize("confidence", ["kl", "dkw"])
@pytest.mark.parametrize("kind", ["beta", "ties", "one value"])
@pytest.mark.parametrize("metric", ["gini", "wang_right_tail", "upper_cvar(0.8)", "mean"])
def test_blocks_enclose_what_all_rewards_give(metric: str, kind: str, confidence: str) -> None:
    rng = np.random.default_rng(3)
    for counts in ((40, 900), (363, 27), (371, 294), (1500, 300)):
        policy = policy_with(metric, kind, confidence, counts, seed=counts[0])
        for _ in range(2):  # then with new rewards in blocks that were laid out before
            for stride in (1, 4, 16):
                for a in ([0.5, 0.5], [0.05, 0.95], [0.0, 1.0]):
                    bounds, exact = np.empty((4, 2)), np.empty(4)
                    enclose(policy._memory.address, np.array(a), stride, bounds, exact)
                    assert (bounds[:, 0] <= exact + 1e-12).all(), (counts, stride, a, exact - bounds[:, 0])
                    assert (bounds[:, 1] >= exact - 1e-12).all(), (counts, stride, a, bounds[:, 1] - exact)
            policy.tell([0] * 60, rewards_of(kind, rng, 1, 60))
        assert policy._memory.n_in_blocks == sum(counts) + 60


@pytest.mark.parametrize("metric", ["gini", "wang_right_tail"])
def test_a_quarter_of_the_stride_is_much_closer(metric: str) -> None:
    """The error falls with the square of the blocks: by 16 in theory."""
    s, a = policy_with(metric, "beta", "kl", (6000, 6000))._memory, np.array([0.4, 0.6])
    widths = {}
    for stride in (4, 16):
        bounds = np.empty((4, 2))
        enclose(s.address, a, stride, bounds, np.empty(4))
        widths[stride] = bounds[:, 1] - bounds[:, 0]
    assert (widths[4] < 0.15 * widths[16])[:2].all(), widths  # radii are kept as they were
    assert (widths[4] < 1e-4).all()
