"""How far a law is from deserving a place: compiled searches beside convex programs, exact sums and brute force."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence._bernoulli_wasserstein import SHAPES
from pmbandits.metrics.encoding import encode_metric
from pmbandits.mixtures._kl_inf import (
    UNREACHABLE_KL,
    bernoulli_kl_inf,
    kl_inf_and_multiplier,
    kl_to_reach_utility,
    range_of_means_with_utility,
)
from tests.reference import vet as slow


def a_law(rng: np.random.Generator, n: int, kind: str) -> np.ndarray:
    """Shares of n knots: of rewards of all sorts."""
    if kind == "one reward":
        return np.eye(n)[rng.integers(n)]
    if kind == "lowest only":
        return np.eye(n)[0]
    if kind == "zero-inflated":
        rest = rng.multinomial(5, np.full(n, 1 / n)) / 5
        return 0.95 * np.eye(n)[0] + 0.05 * rest
    count = int(rng.integers(2, 60))
    return rng.multinomial(count, rng.dirichlet(np.full(n, 0.5))) / count


KINDS = ("some", "some", "one reward", "zero-inflated", "lowest only")


def program(law: np.ndarray, phi: np.ndarray, level: float) -> float:
    """The primal: the least relative entropy to a law under which the mean of Φ is at least the level."""
    if phi.max() < level:
        return math.inf
    on = law > 0
    other = cp.Variable(law.size, nonneg=True)
    far = cp.sum(cp.kl_div(law[on], other[on])) + 1.0 - cp.sum(other[on])  # kl_div adds y − x
    problem = cp.Problem(cp.Minimize(far), [cp.sum(other) == 1, other @ phi >= level])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(problem.value)


def fast_reach(law: np.ndarray, phi: np.ndarray, level: float, start: float = -1.0, need: float = math.inf) -> float:
    place = np.flatnonzero(law > 0)
    given = law[place].copy(), place, place.size, phi, level, float(phi.max()), start, need, np.empty(law.size)
    found, _ = kl_inf_and_multiplier(*given)
    return float(found)


def reach_problems() -> list[tuple[np.ndarray, np.ndarray, float]]:
    rng, out = np.random.default_rng(0), []
    for turn in range(45):
        n = int(rng.integers(2, 30))
        law = a_law(rng, n, KINDS[turn % len(KINDS)])
        phi = np.concatenate(([0.0], np.cumsum(rng.normal(0.3, 1.0, n - 1))))  # rises and falls, as for deviations
        own = float(law @ phi)
        out.append((law, phi, own + (phi.max() - own) * (rng.uniform(0.01, 0.97) if turn % 4 else 0.999)))
    return out


def test_the_way_to_a_mean_is_that_of_the_convex_program() -> None:
    for law, phi, level in reach_problems():
        if law @ phi >= phi.max():  # it is at the top already
            assert fast_reach(law, phi, level) == 0.0
            continue
        exact = program(law, phi, level)
        assert slow.kl_inf(phi, law, level, float(phi.max())) == pytest.approx(exact, rel=1e-4, abs=1e-7)
        for start in (-1.0, 0.01, 0.5, 0.999):
            found = fast_reach(law, phi, level, start)
            assert found <= exact + 1e-7 * (1.0 + exact)  # it is a value of the dual
            assert found >= (1.0 - 1.1e-3) * exact - 1e-7


def test_it_ends_at_once_when_enough_is_known() -> None:
    for law, phi, level in reach_problems():
        exact = slow.kl_inf(phi, law, level, float(phi.max()))
        for part in (0.1, 0.9):
            assert fast_reach(law, phi, level, need=part * exact) >= part * exact * (1.0 - 1e-9)
        assert fast_reach(law, phi, level, need=2.0 * exact + 1.0) <= exact * (1.0 + 1e-9) + 1e-12


def test_what_is_there_needs_no_way_and_what_is_out_of_reach_has_none() -> None:
    phi, law = np.array([0.0, 1.0, 0.5]), np.array([0.5, 0.0, 0.5])
    assert fast_reach(law, phi, 0.25) == 0.0
    assert fast_reach(law, phi, -1.0) == 0.0
    assert fast_reach(law, phi, 1.0) == UNREACHABLE_KL
    assert fast_reach(law, phi, 2.0) == UNREACHABLE_KL
    assert fast_reach(np.array([1.0, 0.0, 0.0]), np.zeros(3), 0.0) == 0.0
    # Φ is 0 or 1: it is the relative entropy of two coins.
    assert fast_reach(np.array([0.7, 0.3]), np.array([0.0, 1.0]), 0.8) == pytest.approx(
        slow.coin_kl(0.3, 0.8), rel=1e-3
    )
    # One reward, at the lower end: all that is added goes to the top, so the rest keeps 1 − level/top of it.
    assert fast_reach(np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.25) == pytest.approx(-math.log(0.75), rel=1e-3)


# ---- worth as much, alone ---------------------------------------------------------------------------------
def above(law: np.ndarray) -> np.ndarray:
    return np.clip(1.0 - np.cumsum(law)[:-1], 0.0, 1.0)


def fast_worth(
    metric: Any, points: np.ndarray, law: np.ndarray, other: np.ndarray, worth: float, t: int = 100, need: float = 0.0,
    rest: np.ndarray | None = None, weight: float = 1.0,
) -> float:  # fmt: skip
    place = np.flatnonzero(law > 0)
    own = float(slow.utilities(metric, points, law if rest is None else rest + weight * law))
    beside = np.empty(0) if rest is None else np.append(1.0 - weight - np.cumsum(rest)[:-1], 0.0)
    row = (
        points,
        above(law),
        np.append(above(other), 0.0),
        beside,
        weight,
        points.size,
        law[place].copy(),
        place,
        place.size,
    )
    convex = metric.shape == "convex"
    return float(kl_to_reach_utility(encode_metric(metric), convex, *row, own, worth, 0.5 / t, need, 0)[0])


def worth_problems(metric: Any, n: int, count: int) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, float]]:
    """Knots, an arm's law, the law of what is played, and its worth: more than the arm's, less than any law's."""
    rng, out = np.random.default_rng(n), []
    while len(out) < count:
        points = np.sort(rng.uniform(-1.0, 2.0, n))
        law = a_law(rng, n, KINDS[len(out) % len(KINDS)])
        other = a_law(rng, n, "some")
        own, worth = (float(slow.utilities(metric, points, x)) for x in (law, other))
        most = slow.utilities(metric, points, slow.simplex_grid(n, 30 if n <= 3 else 9 if n <= 5 else 1)).max()
        if own + 1e-3 < worth < most - 1e-3:
            out.append((points, law, other, worth))
    return out


@pytest.mark.parametrize("alpha", [0.2, 0.5])
@pytest.mark.parametrize("n", [3, 5, 11])
def test_convex_metrics_the_way_to_a_worth(alpha: float, n: int) -> None:
    metric = pmb.LowerCVaR(alpha)
    for points, law, other, worth in worth_problems(metric, n, 25):
        exact = slow.lower_tail_to_be_worth(alpha, points, law, worth)
        assert 0.98 * exact <= fast_worth(metric, points, law, other, worth) <= 1.01 * exact
        if n == 3 and alpha == 0.5 and worth > 0.5:  # brute force takes longer
            assert slow.kl_to_reach_utility(metric, points, law, worth) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("weight", [0.1, 0.5])
@pytest.mark.parametrize("n", [3, 5, 12])
def test_convex_metrics_the_way_to_a_worth_beside_a_rest(n: int, weight: float) -> None:
    """An arm of one segment among others: not more than 2 % too far, and never too near."""
    metric, ratios = pmb.LowerCVaR(0.3), []
    for points, law, other, _ in worth_problems(metric, n, 40):
        rest = (1.0 - weight) * np.random.default_rng(n).dirichlet(np.ones(n))
        own, best = (float(slow.utilities(metric, points, rest + weight * x)) for x in (law, np.eye(n)[-1]))
        worth = own + 0.3 * (best - own)
        exact = slow.lower_tail_to_be_worth(0.3, points, law, worth, rest, weight)
        if 1e-6 < exact < math.inf:
            ratios.append(fast_worth(metric, points, law, other, worth, 10**6, 0.0, rest, weight) / exact)
    assert len(ratios) > 10
    assert np.min(ratios) > 0.99 and np.quantile(ratios, 0.9) < 1.02


@pytest.mark.parametrize(
    ("alpha", "points", "law", "worth"),
    [
        (0.5, [-1.0, 0.0, 1.0], [0.6, 0.2, 0.2], 0.0),
        (0.2, [-0.15, 0.46], [1 / 3, 2 / 3], 0.0),
        (0.2, [-0.69, 1.36], [51 / 52, 1 / 52], -0.41),
    ],
)
def test_convex_metrics_the_way_to_a_worth_near_zero(
    alpha: float, points: list[float], law: list[float], worth: float
) -> None:
    places, shares = np.array(points), np.array(law)
    other = np.append(np.zeros(shares.size - 1), 1.0)
    exact = slow.lower_tail_to_be_worth(alpha, places, shares, worth)
    assert fast_worth(pmb.LowerCVaR(alpha), places, shares, other, worth) == pytest.approx(exact, rel=0.02)


@pytest.mark.parametrize("alpha", [0.2, 0.5])
@pytest.mark.parametrize("n", [22, 60])
def test_convex_metrics_with_many_knots_the_way_is_mostly_found(alpha: float, n: int) -> None:
    """Not every start is tried, so what is found can be too large, but is never too small."""
    metric, ratio = pmb.LowerCVaR(alpha), []
    for points, law, other, worth in worth_problems(metric, n, 25):
        exact = slow.lower_tail_to_be_worth(alpha, points, law, worth)
        ratio.append(fast_worth(metric, points, law, other, worth) / exact)
    assert min(ratio) >= 0.99
    assert np.mean(np.array(ratio) <= 1.15) >= 0.8


def test_convex_metrics_with_many_knots_there_is_a_way_from_a_single_reward() -> None:
    metric, points = pmb.LowerCVaR(0.1), np.linspace(0.0, 1.0, 65)
    law, other = np.eye(65)[0], np.zeros(65)
    other[26:33] = 1 / 7  # about 0.4 to 0.5
    worth = float(slow.utilities(metric, points, other))
    exact = slow.lower_tail_to_be_worth(0.1, points, law, worth)
    assert exact == pytest.approx(2.8, abs=0.1)
    assert fast_worth(metric, points, law, other, worth) <= 1.5 * exact


def test_convex_metrics_it_does_not_matter_where_zero_is() -> None:
    metric = pmb.LowerCVaR(0.5)
    for points, law, other, worth in worth_problems(metric, 5, 10):
        here = fast_worth(metric, points, law, other, worth)
        assert fast_worth(metric, points + 1000.0, law, other, worth + 1000.0) == pytest.approx(here, rel=1e-6)


def test_a_law_that_is_worth_enough_already_needs_no_way() -> None:
    for metric in (pmb.LowerCVaR(0.5), pmb.InvertedS(0.5)):
        for points, law, other, worth in worth_problems(metric, 5, 10):
            assert fast_worth(metric, points, other, law, worth - 1e-9) == 0.0


NEITHERS = [pmb.InvertedS(0.5), pmb.InvertedS(0.5) - pmb.Mean(), pmb.GiniShortfall(0.5, 0.8)]


def compared(metric: Any, n: int, count: int) -> np.ndarray:
    """Fast divided by brute force, where a way exists."""
    out = []
    for points, law, other, worth in worth_problems(metric, n, count):
        exact = slow.kl_to_reach_utility(metric, points, law, worth)
        if 1e-6 < exact < math.inf:
            out.append(fast_worth(metric, points, law, other, worth) / exact)
    return np.array(out)


@pytest.mark.slow
@pytest.mark.parametrize("metric", NEITHERS, ids=str)
@pytest.mark.parametrize("n", [2, 3])
def test_other_metrics_the_way_to_a_worth_is_mostly_found(metric: Any, n: int) -> None:
    assert np.mean(np.abs(compared(metric, n, 20) - 1.0) < 0.05) >= 0.6


def test_two_atoms_the_way_is_that_of_a_coin() -> None:
    metric, points, law = pmb.InvertedS(0.5) - pmb.Mean(), np.array([0.0, 1.0]), np.array([0.15, 0.85])
    worth = float(metric(0.05))
    exact = slow.coin_kl(0.85, 0.05)
    assert slow.kl_to_reach_utility(metric, points, law, worth) < exact + 1e-6
    assert fast_worth(metric, points, law, np.array([0.95, 0.05]), worth) <= 1.05 * exact


def test_three_atoms_there_is_a_way_where_the_utility_rises_and_falls_again() -> None:
    # A point mass has the utility 0, so no end of a straight way reaches 0.17: places on the way to the lowest do.
    metric, points, law = pmb.InvertedS(0.5) - pmb.Mean(), np.array([-0.486, 1.693, 1.757]), np.array([0.0, 1.0, 0.0])
    other = np.array([0.79, 0.09, 0.12])
    worth = float(slow.utilities(metric, points, other))
    exact = slow.kl_to_reach_utility(metric, points, law, worth)
    assert exact == pytest.approx(fast_worth(metric, points, law, other, worth), rel=0.05)


def test_other_metrics_it_does_not_matter_where_zero_is() -> None:
    metric = pmb.InvertedS(0.5)
    for points, law, other, worth in worth_problems(metric, 3, 20):
        here = fast_worth(metric, points, law, other, worth)
        assert fast_worth(metric, points + 1000.0, law, other, worth + 1000.0) == pytest.approx(here, rel=0.05)


# ---- coins ------------------------------------------------------------------------------------------------
COINS = [pmb.GiniDeviation(), pmb.Mean(), pmb.UpperCVaR(0.9), pmb.PHT(0.5), pmb.LowerCVaR(0.5), *NEITHERS]


@pytest.mark.parametrize("metric", COINS, ids=str)
def test_coins_in_closed_form(metric: Any) -> None:
    """The same two questions, by looking at every mean of a fine grid."""
    rng, means = np.random.default_rng(1), np.linspace(0.0, 1.0, 100_001)
    packed, values = encode_metric(metric), np.asarray(metric(means))
    shape = "concave" if metric.shape == "linear" else metric.shape
    for turn in range(60):
        p = (0.0, 1.0, *rng.integers(0, 31, 3) / 30)[turn % 5]
        mean = float(rng.uniform(0.02, 0.98))
        steep = float(slow.chord(metric, np.array([mean]), 0.01)[0])
        worth = float(np.quantile(values, rng.uniform(0.05, 0.95)))
        least = math.inf
        if shape != "convex":
            least = slow.coin_kl(p, mean) if steep * (mean - p) > 0.0 else 0.0
        if shape != "concave":
            good = means[values >= worth - 1e-9]
            least = min(least, 0.0 if metric(p) >= worth else least)
            for q in (*good[good <= p][-1:], *good[good >= p][:1]):
                least = min(least, slow.coin_kl(p, float(q)))
        found = bernoulli_kl_inf(
            packed, SHAPES[shape], p, mean, steep, worth, *range_of_means_with_utility(packed, worth)
        )
        assert found == pytest.approx(least if math.isfinite(least) else UNREACHABLE_KL, rel=2e-3, abs=2e-4)
