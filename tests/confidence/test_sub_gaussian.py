"""Belts on the line, for sub-Gaussian rewards: values against convex programs; and at all times."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.confidence import confidence_set
from pmbandits.confidence._bounds import mixture_utility_with_bounds
from pmbandits.confidence._sub_gaussian import sub_gaussian_utility_bound
from tests.reference import bands as slow
from tests.reference import convex

METRICS: dict[str, Any] = {"gini": convex.gini(), "upper_cvar(0.9)": convex.upper_cvar(0.9), "mean": convex.mean(),
    "quadratic(0.5)": convex.quadratic(0.5)}  # fmt: skip


def taught(metric: Any, sigma: float, data: list[Any], **options: Any) -> Any:
    policy = pmb.Track(metric, n_arms=len(data), support=pmb.Real(sigma), **options)
    for arm, rewards in enumerate(data):
        policy.tell(arm, rewards)
    return policy


def mean_ends(x: np.ndarray, sigma: float, delta: float) -> tuple[float, float]:
    """The interval of the mean, from the text: |Σ(X − μ)| < σ√((n + 1)·ln((n + 1)/δ²))."""
    n = x.size
    r = sigma * np.sqrt((n + 1) * np.log((n + 1) / delta**2)) / n
    return float(x.mean() - r), float(x.mean() + r)


def ends(x: np.ndarray, sigma: float, delta: float, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of the survival from each point to the next, from the text: a belt, and Chernoff's inequality."""
    n = x.size
    upper = slow.upper_ends(np.arange(n + 1), n, slow.depth_everywhere(n, 0.75 * delta), True)
    above = n - np.searchsorted(np.sort(x), points[:-1], side="right")
    low, high = (1 - upper[::-1])[above], upper[above]
    least, most = mean_ends(x, sigma, 0.25 * delta)
    right, left = np.maximum(points[:-1] - most, 0), np.maximum(least - points[1:], 0)
    high = np.minimum(high, np.exp(-(right**2) / (2 * sigma**2)))
    return np.minimum(np.maximum(low, 1 - np.exp(-(left**2) / (2 * sigma**2))), high), high


def best(h: convex.Concave, sigma: float, data: list[np.ndarray], weights: np.ndarray, delta: float) -> float:
    """The largest utility of a mixture whose survival lies between the mixed ends, and its mean in its interval."""
    every = np.concatenate(data)
    fine = np.arange(every.min() - 9 * sigma, every.max() + 9 * sigma, 0.04 * sigma)
    points = np.unique(np.concatenate((every, fine)))
    sides = [ends(x, sigma, delta, points) for x in data]
    low, high = (np.tensordot(weights, np.array([side[k] for side in sides]), 1) for k in (0, 1))
    means = np.array([mean_ends(x, sigma, 0.25 * delta) for x in data])
    width, curve = np.diff(points), cp.Variable(points.size - 1)
    cells, needed = h.program(curve)
    mean = points[0] + width @ curve
    inside = [curve >= low, curve <= high, mean >= weights @ means[:, 0], mean <= weights @ means[:, 1]]
    problem = cp.Problem(cp.Maximize(width @ cells), [*inside, *needed])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value) + float(points[0] * h.number(np.ones(1))[0])


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("n", [1, 12, 150])
def test_the_largest_utility_is_that_of_a_convex_program(name, n):
    rng = np.random.default_rng(2)
    data, weights = [rng.normal(0, 0.5, n), rng.normal(1.2, 0.5, 2 * n)], np.array([0.3, 0.7])
    _, middle, high = taught(name, 0.5, data, delta=0.1).utility_bounds(weights)
    exact = best(METRICS[name], 0.5, data, weights, 0.05)
    assert high >= exact - 1e-6 * abs(exact)
    assert high - middle <= 1.04 * (exact - middle)


def test_the_mean_is_within_robbins_interval_and_no_wider():
    x = np.random.default_rng(0).normal(3, 2, 400)
    low, middle, high = taught("mean", 2.0, [x]).utility_bounds([1.0])
    assert (low, high) == pytest.approx(mean_ends(x, 2.0, 0.0125), rel=1e-9)
    assert middle == pytest.approx(x.mean())


@pytest.mark.parametrize("metric", ["gini", "dual_power(2)", "wang_right_tail"])
def test_every_price_bounds_and_slopes_are_those_of_the_bound(metric):
    rng = np.random.default_rng(0)
    policy = taught(metric, 1.0, [rng.normal(i, 1, 60) for i in range(3)])
    a, none = np.array([0.2, 0.5, 0.3]), np.empty(0)
    low, _, high = policy.utility_bounds(a)
    memory = policy._memory_with_radii()
    mixture_utility_with_bounds(memory, a)
    for price in (-0.7, 0.0, 0.03, 0.9):
        assert sub_gaussian_utility_bound(memory, a, 1.0, price, 0.0, none)[0] >= high - 1e-3 * (
            high - low
        )  # the best is searched for
        assert -sub_gaussian_utility_bound(memory, a, -1.0, price, 0.0, none)[0] <= low + 1e-3 * (high - low)
        slopes = np.empty(3)
        sub_gaussian_utility_bound(memory, a, 1.0, price, 1e-7, slopes)
        for i, j in ((0, 1), (1, 2)):
            step = np.zeros(3)
            step[i], step[j] = 1e-6, -1e-6
            ahead, behind = (
                sub_gaussian_utility_bound(memory, a + side * step, 1.0, price, 0.0, none)[0] for side in (1, -1)
            )
            assert (ahead - behind) / 2e-6 == pytest.approx(slopes[i] - slopes[j], abs=2e-3 * abs(slopes).max())


def test_cells_that_are_put_together_widen_it_a_little_and_never_narrow_it():
    x = np.random.default_rng(5).normal(size=30_000)
    sides = ends(x, 1.0, 0.05, points := np.unique(np.concatenate((x, np.arange(-9, 9, 0.04)))))
    high = taught("gini", 1.0, [x]).utility_bounds([1.0])[2]
    h = pmb.GiniDeviation()
    exact = np.diff(points) @ np.where(sides[0] > 0.5, h(sides[0]), h(np.minimum(sides[1], 0.5)))
    middle = float(h.value(x))
    assert exact <= high <= middle + 1.05 * (exact - middle)


def test_metrics_that_balls_cannot_bound_have_bounds():
    rng = np.random.default_rng(1)
    x = rng.normal(size=2000)
    for name in ("wang_right_tail", "pht(0.5)", "pht(0.2)"):
        truth = float(pmb.metric(name).value(st.norm()))
        low, _, high = taught(name, 1.0, [x]).utility_bounds([1.0])
        assert low < truth < high < truth + 2
    assert pmb.PMUCB("wang_right_tail", n_arms=2, support=pmb.Real(1), horizon=100).confidence.kind == "kl_band"
    assert pmb.Track("var(0.9)", n_arms=2, support=pmb.Real(1)).confidence is None


def test_narrower_than_the_ball_at_every_number_of_rewards():
    rng = np.random.default_rng(3)
    x = rng.normal(size=3000)
    for n in (1, 2, 3, 5, 8, 15, 40, 120, 500, 3000):
        for metric, steepest in (("gini", 1.0), ("mean", 1.0), ("upper_cvar(0.9)", 10.0), ("dual_power(2)", 2.0)):
            low, _, high = taught(metric, 1.0, [x[:n]]).utility_bounds([1.0])
            ball = confidence_set("wasserstein", pmb.Real(1), 1, delta=0.05).radius(n)
            assert high - low < 2 * steepest * ball
        distance = taught("gini", 1.0, [x[:n]])._memory_with_radii()
        mixture_utility_with_bounds(distance, np.ones(1))
        assert distance.line_radius[0] < 1.25 * ball, n  # the bonus of CE-UCB-M, which takes balls for that


def test_far_arms_and_large_numbers():
    rng = np.random.default_rng(0)
    data = [rng.normal(c, 1, 50) for c in (-3e5, 0, 7, 2e6)]
    for metric in ("gini", "mean", "lower_cvar(0.2)"):
        policy = taught(metric, 1.0, data)
        a = np.array([0.25, 0.25, 0.4, 0.1])
        low, middle, high = policy.utility_bounds(a)
        assert low <= middle <= high and high - low < 0.9 * 2.3e6
        alone = policy.utility_bounds([0, 0, 1, 0])
        assert alone == pytest.approx(taught(metric, 1.0, data[2:3], delta=0.05 / 4).utility_bounds([1.0]), rel=0.03)


# ---- at all times -----------------------------------------------------------------------------------------
# Laws with their smallest σ: a coin's is Kearns and Saul's, that of Beta(1, 9) is Marchal and Arbel's bound.
LAWS: dict[str, tuple[Any, float]] = {
    "normal": (st.norm(), 1.0),
    "signs": (st.rv_discrete(values=([-1, 1], [0.5, 0.5])), 1.0),
    "skewed coin": (st.bernoulli(0.1), float(np.sqrt(0.8 / (2 * np.log(9))))),
    "skewed": (st.beta(1, 9), float(np.sqrt(1 / 44))),
}
LOOKS = np.unique(np.geomspace(1, 2000, 26).astype(int))


def ever_outside(name: str, runs: int, sigma_times: float = 1.0, seed: int = 0) -> int:
    """In how many runs the true law is ever outside: its survival in some cell, or its mean, at some look."""
    distribution, sigma = LAWS[name]
    mean, outside = float(distribution.mean()), 0
    for run in range(runs):
        x = distribution.rvs(size=LOOKS[-1], random_state=np.random.default_rng([run, seed])).astype(float)
        policy = pmb.Track("gini", n_arms=1, support=pmb.Real(sigma_times * sigma))
        done, failed = 0, False
        for n in LOOKS.tolist():
            policy.tell(0, x[done:n])
            done = n
            _, memory, _ = policy._snapshot_with_mixture(np.ones(1))
            mixture_utility_with_bounds(memory, np.ones(1))
            edges = memory.line_start + np.concatenate(([0.0], np.cumsum(memory.line_width[: memory.n_line_cells])))
            slack = 1e-9
            inner = edges + 1e-9 * sigma  # sums of widths are not exact where a law has atoms
            first, last = distribution.sf(inner[:-1]), distribution.sf(edges[1:] - 1e-9 * sigma)
            low, high = (part[: memory.n_line_cells, 0] for part in (memory.line_lower, memory.line_upper))
            failed |= bool((first > high + slack).any() or (last < low - slack).any())
            failed |= not memory.lower[0] <= mean <= memory.upper[0]
        outside += failed
    return outside


@pytest.mark.parametrize("name", LAWS)
def test_the_law_stays_inside_at_all_times(name):
    assert ever_outside(name, 25) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_the_law_stays_inside_at_all_times_in_many_runs(name):
    runs = 2000
    assert ever_outside(name, runs, seed=1) <= 0.05 * runs


def test_a_sigma_that_is_too_small_is_found_out():
    assert ever_outside("normal", 8, sigma_times=0.4) >= 4
