"""The largest utility within limits of the arms' curves: against a convex solver, by hand, and many random curves."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import linprog

import pmbandits as pmb
from pmbandits.confidence.exact_bounds import _max_linear_gain, extreme_value

CONCAVE = {
    "gini": (pmb.GiniDeviation(), lambda s: s - cp.square(s)),
    "wang": (pmb.WangRightTail(), lambda s: cp.sqrt(s) - s),
    "dual": (pmb.DualPower(3), lambda s: 1 - cp.power(1 - s, 3)),
    "upper_cvar": (pmb.UpperCVaR(0.6), lambda s: cp.minimum(s / 0.4, 1)),
    "median": (pmb.MeanMedianDeviation(), lambda s: cp.minimum(s, 1 - s)),
    "blend": (
        pmb.GiniDeviation() + 0.5 * pmb.UpperCVaR(0.8),
        lambda s: s - cp.square(s) + 0.5 * cp.minimum(s / 0.2, 1),
    ),
}


def limits(seed: int, counts: tuple[int, ...], cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Points, lower and upper limits and weights: bands around random samples on an uneven grid of [−1, 2]."""
    rng = np.random.default_rng(seed)
    points = np.sort(np.concatenate(([-1.0, 2.0], rng.uniform(-1, 2, cells - 1))))
    survival = np.array([np.mean(rng.choice(points, n)[:, None] > points[:-1], axis=0) for n in counts])
    radius = 1.2 / np.sqrt(np.array(counts))[:, None]
    weights = rng.dirichlet(np.ones(len(counts)))
    return points, np.maximum(survival - radius, 0), np.minimum(survival + radius, 1), weights


def solved(h: Any, points: np.ndarray, lower: np.ndarray, upper: np.ndarray, weights: np.ndarray) -> float:
    """Σ width·h(Σ a·S) at its largest, by a convex solver; without x_0·h(1)."""
    curves = cp.Variable(lower.shape)
    falls = curves[:, 1:] <= curves[:, :-1]
    problem = cp.Problem(cp.Maximize(np.diff(points) @ h(weights @ curves)), [curves >= lower, curves <= upper, falls])
    return float(problem.solve(solver=cp.CLARABEL))


@pytest.mark.parametrize("name", CONCAVE)
@pytest.mark.parametrize(("seed", "counts"), [(0, (60, 4)), (1, (9, 30, 5)), (2, (200, 3))])
def test_the_largest_value_is_that_of_a_convex_solver(name: str, seed: int, counts: tuple[int, ...]) -> None:
    metric, h = CONCAVE[name]
    points, lower, upper, weights = limits(seed, counts, 12)
    found = extreme_value(metric, points, lower, upper, weights)
    expected = points[0] * metric(1.0) + solved(h, points, lower, upper, weights)
    assert found.value == pytest.approx(expected, abs=2e-6)
    assert found.gap < 1e-6
    assert found.value <= found.relaxed + 1e-12
    # The curves are what they should be, and reach the value.
    assert (found.curves >= lower - 1e-12).all() and (found.curves <= upper + 1e-12).all()
    assert (np.diff(found.curves) <= 1e-12).all()
    mixed = np.minimum(weights @ found.curves, 1.0)
    reached = points[0] * metric(1.0) + np.diff(points) @ metric(mixed)
    assert reached == pytest.approx(found.value, abs=1e-6)


def test_the_value_cell_by_cell_asks_an_arm_to_rise() -> None:
    """Two cells by hand. Arm 1 falls from 1 to 0 for sure, arm 2 lies between 0 and 1: it would have to rise."""
    found = extreme_value(pmb.GiniDeviation(), [0, 1, 2], [[1, 0], [0, 0]], [[1, 0], [1, 1]], [0.5, 0.5])
    # cell by cell: survivals ½ and ½, worth ¼ each. With arm 2 constant at c: (1 + c)/2 and c/2, worth ¼ − ¼c² and
    # ¼ − ¼(1 − c)²: at most ⅜, for c = ½.
    assert found.relaxed == pytest.approx(0.5)
    assert found.value == pytest.approx(0.375, abs=1e-6)
    np.testing.assert_allclose(found.curves[1], 0.5, atol=1e-3)


@pytest.mark.parametrize("metric", [pmb.LowerCVaR(0.3), pmb.Mean() - pmb.GiniDeviation(), pmb.Mean()], ids=repr)
def test_for_convex_metrics_the_least_is_the_program(metric: Any) -> None:
    points, lower, upper, weights = limits(3, (40, 5), 9)
    least = extreme_value(metric, points, lower, upper, weights, largest=False)
    mirrored = extreme_value(-1.0 * metric, points, lower, upper, weights)
    assert least.value == pytest.approx(-mirrored.value, abs=1e-9)
    assert least.value >= least.relaxed - 1e-12
    most = extreme_value(metric, points, lower, upper, weights)
    assert most.gap <= 1e-6 and most.value == pytest.approx(most.relaxed, abs=1e-6 if metric.shape == "linear" else 0)


@pytest.mark.parametrize(
    "metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.UpperCVaR(0.6), pmb.LowerCVaR(0.3)], ids=repr
)
@pytest.mark.parametrize("largest", [True, False])
def test_no_random_curves_do_better_and_ends_are_reached(metric: Any, largest: bool) -> None:
    points, lower, upper, weights = limits(4, (12, 4), 7)
    found = extreme_value(metric, points, lower, upper, weights, largest=largest)
    rng = np.random.default_rng(5)
    draws = lower + rng.beta(0.4, 0.4, (20_000, *lower.shape)) * (upper - lower)
    draws = np.minimum.accumulate(draws, axis=2)  # falling; and above lower, which falls
    values = points[0] * metric(1.0) + metric(np.minimum(np.einsum("i,nik->nk", weights, draws), 1.0)) @ np.diff(points)
    sign = 1 if largest else -1
    assert (sign * values).max() <= sign * found.value + 1e-9
    reached = points[0] * metric(1.0) + metric(np.minimum(weights @ found.curves, 1.0)) @ np.diff(points)
    assert reached == pytest.approx(found.value, abs=1e-6)
    assert (np.diff(found.curves) <= 1e-9).all()


@pytest.mark.parametrize("seed", range(6))
def test_the_proof_finds_the_largest_gain_of_falling_curves(seed: int) -> None:
    """Slopes of any sign: the best falling curves within the limits, level by level, and by a linear program."""
    _, lower, upper, weights = limits(seed, (6, 4, 12), 9)
    slope = np.random.default_rng(seed).normal(size=9)
    start = np.minimum.accumulate(0.5 * (lower + upper), axis=1)
    best = 0.0
    for low, high, weight, curve in zip(lower, upper, weights, start, strict=True):
        falls = np.diff(np.eye(9), axis=0)  # S(k + 1) − S(k) ≤ 0
        cost = -weight * slope
        solved_by = linprog(cost, A_ub=falls, b_ub=np.zeros(8), bounds=list(zip(low, high, strict=True)))
        best += -solved_by.fun - weight * slope @ curve
    assert _max_linear_gain(slope, lower, upper, weights, start) == pytest.approx(best, abs=1e-9)
    assert best > 1e-3


def test_of_one_arm_the_value_cell_by_cell_is_exact() -> None:
    points, lower, upper, _ = limits(6, (20, 5), 10)
    found = extreme_value(pmb.GiniDeviation(), points, lower, upper, [1.0, 0.0])
    assert found.value == found.relaxed and found.gap == 0.0
    assert solved(lambda s: s - cp.square(s), points, lower, upper, np.array([1.0, 0.0])) == pytest.approx(
        found.value, abs=1e-6
    )


def test_limits_that_are_none_are_refused() -> None:
    gini = pmb.GiniDeviation()
    with pytest.raises(ValueError, match="one row of limits"):
        extreme_value(gini, [0, 1], [[0.1, 0.0]], [[0.5, 0.5]], [1.0])
    with pytest.raises(ValueError, match="fall"):
        extreme_value(gini, [0, 1, 2], [[0.1, 0.2]], [[0.5, 0.5]], [1.0])
    with pytest.raises(ValueError, match="above upper"):
        extreme_value(gini, [0, 1, 2], [[0.6, 0.2]], [[0.5, 0.5]], [1.0])
    with pytest.raises(ValueError, match="neither concave nor convex"):
        extreme_value(pmb.InvertedS(0.5), [0, 1], [[0.1]], [[0.5]], [1.0])


# ---- of policies ---------------------------------------------------------------------------------------------
def taught(counts: tuple[int, ...], estimates: str = "exact", **options: Any) -> Any:
    rng = np.random.default_rng(8)
    policy = pmb.PMUCB(
        pmb.GiniDeviation(), n_arms=len(counts), support=pmb.Interval(0, 1), horizon=10_000, estimates=estimates,
        **{"confidence": "dkw", **options},
    )  # fmt: skip
    for arm, n in enumerate(counts):
        policy.tell([arm] * n, rng.beta(1 + arm, 2, n))
    return policy


def test_a_policy_gives_the_exact_value_on_request() -> None:
    """Arms of very different sample sizes, where the difference is largest; the curves are made by hand."""
    policy = taught((2000, 20))
    low, middle, high = policy.utility_bounds([0.7, 0.3])
    tight_low, same, tight_high = policy.utility_bounds([0.7, 0.3], exact=True)
    assert same == middle and tight_low == pytest.approx(low, abs=1e-9)
    assert tight_high < high - 0.01
    arms = policy.estimates
    points = np.unique(np.concatenate(([0.0, 1.0], arms[0].x, arms[1].x)))
    survival = np.array([1 - np.searchsorted(arm.x, points[:-1], side="right") / arm.n for arm in arms])
    radius = np.sqrt(np.log(2 * 10_000**2) / (2 * np.array([[2000], [20]])))
    found = extreme_value(
        pmb.GiniDeviation(), points, np.maximum(survival - radius, 0), np.minimum(survival + radius, 1), [0.7, 0.3]
    )
    assert tight_high == pytest.approx(found.value, abs=1e-9) and high == pytest.approx(found.relaxed, abs=1e-9)


def test_exact_is_what_it_was_where_the_bounds_are_exact_already() -> None:
    binary = pmb.Track(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary())
    binary.tell([0, 1, 1], [1, 0, 1])
    assert binary.utility_bounds([0.5, 0.5], exact=True) == binary.utility_bounds([0.5, 0.5])
    policy = taught((30, 10))
    assert policy.utility_bounds([0.0, 1.0], exact=True) == policy.utility_bounds([0.0, 1.0])


@pytest.mark.parametrize("estimates", ["binned:64", "sketch:64"])
def test_exact_values_of_rewards_that_are_not_kept_one_by_one_are_bounds_too(estimates: str) -> None:
    exact, kept = taught((400, 20)), taught((400, 20), estimates)
    low, _, high = kept.utility_bounds([0.6, 0.4])
    tight_low, _, tight_high = kept.utility_bounds([0.6, 0.4], exact=True)
    assert low <= tight_low and tight_high <= high
    assert tight_high >= exact.utility_bounds([0.6, 0.4], exact=True)[2] - 1e-6


def test_balls_have_no_exact_value() -> None:
    with pytest.raises(ValueError, match=r"exact=True.*wasserstein.*dkw"):
        taught((30, 10), confidence="wasserstein").utility_bounds([0.5, 0.5], exact=True)
