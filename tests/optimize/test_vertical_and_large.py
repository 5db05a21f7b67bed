"""Where the oracle once was wrong: vertical h, numbers that overflow, metrics that jump; and values to many digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.constraints import limits
from pmbandits.optimize import utilities
from pmbandits.optimize.concave import maximise_concave
from pmbandits.optimize.utilities import build_arm_table
from tests.reference import precise

WIDTHS = np.random.default_rng(17).uniform(0.4, 4, (100, 2))


def normal_arms(start: int, count: int = 10) -> pmb.Bandit:
    return pmb.Bandit([st.norm(5 * a, c) for a, c in WIDTHS[start : start + count]])


def beaten_by(metric: pmb.Distortion, bandit: pmb.Bandit, best: pmb.OracleResult) -> float:
    """How much better than the oracle the best of many mixtures around its own is."""
    count = bandit.n_arms
    eye = np.eye(count)
    around = [(1 - share) * best.weights + share * eye for share in (1e-10, 1e-7, 1e-5, 1e-3, 0.01, 0.03, 0.1, 0.3)]
    some = np.random.default_rng(0).dirichlet(np.full(count, 0.4), 200)
    return float(utilities(metric, bandit, np.vstack((*around, some))).max()) - best.value


def test_ten_normal_arms_under_wangs_right_tail() -> None:
    bandit = normal_arms(0)
    best = pmb.oracle(pmb.WangRightTail(), bandit)
    more = best.weights.copy()
    more[0] += 0.03
    assert best.value > 4.2152
    assert pmb.utility(pmb.WangRightTail(), bandit, more / more.sum()) < best.value
    assert best.certified and 0.0 <= best.gap <= 1e-9 * best.value


@pytest.mark.parametrize(
    "metric", ["wang_right_tail", "pht(0.5)", "pht(0.7)", "wang_right_tail + mean", "tsallis_past_entropy(0.5)"]
)
@pytest.mark.parametrize("start", range(0, 90, 30))
def test_normal_arms_of_different_widths_where_h_is_vertical(metric: str, start: int) -> None:
    bandit, h = normal_arms(start), pmb.metric(metric)
    best = pmb.oracle(h, bandit)
    assert best.certified and 0.0 <= best.gap <= 1e-9 * best.value
    assert beaten_by(h, bandit, best) <= best.gap + 1e-11 * best.value


def test_the_tail_of_a_narrow_arm_beside_a_wide_one_is_not_missed() -> None:
    arms = [
        st.lognorm(1.282559, -1.67434319, 2.31988256),
        st.norm(6.293980943, 1.126037879),
        st.norm(-5.924614, 0.081497),
    ]
    weights = [0.45, 0.33, 0.22]
    edges = [
        -6.8,
        -6.5,
        -6.3,
        -6.1,
        -5.9,
        -5.6,
        -5.2,
        -1.674343,
        -1.5,
        -1,
        0,
        2,
        4,
        6,
        8,
        12,
        20,
        40,
        100,
        400,
        2e3,
        1e5,
    ]

    def entropy(x: float) -> float:
        below = sum(w * float(arm.cdf(x)) for w, arm in zip(weights, arms, strict=True))
        above = sum(w * float(arm.sf(x)) for w, arm in zip(weights, arms, strict=True))
        return -below * (math.log1p(-above) if above < 0.5 else math.log(below)) if below > 0 else 0.0

    from itertools import pairwise

    from scipy.integrate import quad

    slow = sum(quad(entropy, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for a, b in pairwise(edges))
    value = pmb.utility("tsallis_past_entropy(1)", pmb.Bandit(arms), weights)
    assert value == pytest.approx(slow, rel=1e-9)


# ---- numbers that are too large ---------------------------------------------------------------------------


def test_factors_that_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        pmb.metric("1e400*mean")
    with pytest.raises(ValueError, match="too large"):
        10 * (1e308 * pmb.Mean())


def test_a_value_that_overflows_is_refused_and_the_largest_that_does_not_is_given() -> None:
    arms = pmb.Bandit([[0.0, 1.0, 2.0], [0.0, 3.0]])
    with pytest.raises(ValueError, match="too large"):
        pmb.oracle(1e308 * pmb.Mean() + 1e308 * pmb.GiniDeviation(), arms)
    assert pmb.oracle(1e308 * pmb.Mean(), arms).value == pytest.approx(1.5e308)


@pytest.mark.parametrize(
    "make",
    [
        lambda: pmb.Interval(-1e308, 1e308),
        lambda: pmb.Finite([-1e308, 0.0, 1e308]),
        lambda: pmb.Bandit([[-1e308, 1e308], [0.0, 1.0]]),
        lambda: pmb.GiniDeviation().value([-1e308, 1e308]),
    ],
)
def test_ranges_whose_width_overflows_are_refused_for_that_reason(make: Any) -> None:
    with pytest.raises(ValueError, match="too wide"):
        make()


def test_a_sum_that_is_concave_only_nearly_is_solved() -> None:
    metric = 0.924 * pmb.WangTransform(0.6005) + 0.3115 * pmb.WangTransform(-0.04836)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        bandit = pmb.Bandit([rng.normal(size=5).round(1) for _ in range(4)])
        best = pmb.oracle(metric, bandit)
        assert best.certified and best.gap <= 1e-9
        assert beaten_by(metric, bandit, best) <= best.gap + 1e-11


def test_laws_far_away_and_tails_that_barely_converge_are_finite() -> None:
    assert pmb.Mean().value(st.norm(1e300, 1)) == 1e300
    assert pmb.GiniDeviation().value(st.norm(1e300, 1)) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-12)
    assert pmb.GiniDeviation().value(st.norm(1e10, 1e-3)) == pytest.approx(1e-3 / math.sqrt(math.pi), rel=1e-12)
    assert pmb.Mean().value(st.pareto(1.001)) == pytest.approx(1001.0, rel=1e-9)
    assert pmb.PHT(0.5).value(st.pareto(2.1)) == pytest.approx(1 + 1 / 0.05, rel=1e-9)  # 1 + ∫ x^−1.05
    for distribution in (st.pareto(1.0), st.cauchy(), st.halfcauchy()):
        with pytest.raises(ValueError, match="is infinite"):
            pmb.Mean().value(distribution)
    best = pmb.oracle("wang_right_tail", pmb.Bandit([st.pareto(2.1), st.norm(0, 1)]))
    assert best.certified and best.gap <= 1e-9 * best.value


@pytest.mark.parametrize("factor", [1e-320, 1e-300, 1e-30, 1e-20, 1e30, 1e306])
@pytest.mark.parametrize("name", ["gini", "wang_right_tail", "inverted_s(0.7)"])
def test_the_unit_of_the_metric_changes_nothing(name: str, factor: float) -> None:
    # 1e-20 * gini once came with a worse mixture and a gap of 0: a linear program's tolerance was larger than V.
    bandit = normal_arms(0, 2 if "inverted" in name else 4)
    plain, other = pmb.oracle(name, bandit), pmb.oracle(factor * pmb.metric(name), bandit)
    assert other.weights == pytest.approx(plain.weights, abs=1e-6)
    assert other.value == pytest.approx(factor * plain.value, rel=1e-9, abs=1e-322)
    assert (
        other.certified == plain.certified
        and other.gap <= max(2 * factor * plain.gap, 1e-9 * abs(other.value)) + 1e-322
    )


def test_rewards_too_small_for_any_unit_are_refused() -> None:
    with pytest.raises(ValueError, match="smaller unit"):
        pmb.oracle("gini", pmb.Bandit([[0.0], [1e-310], [2e-310]]))


def test_the_bound_does_not_rest_on_the_tolerance_of_a_linear_program() -> None:
    """In any unit of the metric, within limits, no random mixture that keeps them is above the bound."""
    rng = np.random.default_rng(3)
    bandit = pmb.Bandit([rng.choice(np.arange(9.0), size=30) for _ in range(5)])
    polytope = limits("arm 0 >= 5%; arm 1 + arm 2 <= 0.5", bandit.names).polytope
    inside = rng.dirichlet(np.ones(5), 4000)
    inside = inside[polytope.excess(inside).max(axis=1) == 0.0]
    for factor in (1e-7, 1.0, 1e7):
        metric = factor * pmb.MeanMedianDeviation()
        table = build_arm_table(metric, list(bandit.distributions))
        found = maximise_concave(metric, table, np.full(5, 0.2), accuracy=1e-10, scale=0.0, polytope=polytope)
        value = table.value(metric, found.weights)
        assert found.gap <= 1e-9 * value
        assert polytope.excess(found.weights).max() <= 1e-9
        assert (utilities(metric, bandit, inside) <= value + found.gap).all()


# ---- steep ends -------------------------------------------------------------------------------------------


def test_a_density_that_is_infinite_at_an_end_has_the_right_tail() -> None:
    # Beta(1, b): survival (1 − x)^b. With b = 0.1 the 90 % quantile is 1 − 1e-10.
    b = 0.1
    exact = 1.0 - 1e-10 * (1.0 - 1.0 / (1.0 + b))
    assert pmb.UpperCVaR(0.9).value(st.beta(1, b)) == pytest.approx(exact, rel=1e-14)
    metric = pmb.UpperCVaR(0.9) - pmb.Mean()
    assert metric.value(st.beta(1, b)) == pytest.approx(exact - 1.0 / (1.0 + b), rel=1e-12)


def test_a_hundred_arms_with_steep_ends_need_no_more_panels_than_others() -> None:
    # Near 1 the last digit of a position is felt in the survival; panels were once split there without end.
    rng = np.random.default_rng(5)
    bandit = pmb.Bandit([st.beta(*rng.uniform(0.1, 0.9, 2)) for _ in range(100)])
    metric = pmb.UpperCVaR(0.9) - pmb.Mean()
    assert build_arm_table(metric, list(bandit.distributions)).cell_widths.size < 5_000  # 102,520 then
    best = pmb.oracle(metric, bandit)
    assert best.certified and best.gap <= 1e-9 * best.value
    assert beaten_by(metric, bandit, best) <= best.gap + 1e-11


# ---- metrics of neither shape -----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_random_mixtures_do_not_beat_the_search(seed: int) -> None:
    rng = np.random.default_rng([7, seed])
    metrics = [
        "inter_quantile_range",
        "var(0.3) - var(0.6)",
        "inverted_s(0.6) - mean",
        "gini - 0.7*mean_median_deviation",
    ]
    metric = pmb.metric(metrics[seed % 4])
    bandit = pmb.Bandit([rng.normal(rng.normal(), rng.uniform(0.2, 2), size=6) for _ in range(2 + seed % 6)])
    best = pmb.oracle(metric, bandit)
    found = utilities(metric, bandit, rng.dirichlet(np.full(bandit.n_arms, 0.5), 400)).max()
    assert found <= best.value + 1e-12 * abs(best.value)
    if best.certified:
        assert found <= best.value + best.gap
    if bandit.n_arms <= 4:
        assert math.isfinite(best.gap)


def test_a_metric_that_is_vertical_where_it_is_convex_is_certified() -> None:
    # Its slope at 1 is infinite; the bound was, too.
    bandit = pmb.Bandit([st.norm(-1.09, 0.03), st.norm(1.81, 0.69), st.norm(0.02, 1.85)])
    best = pmb.oracle("wang_transform(-0.9377) + 0.865*mean_median_deviation", bandit)
    assert best.certified and best.gap <= 1e-8
    assert beaten_by(pmb.metric("wang_transform(-0.9377) + 0.865*mean_median_deviation"), bandit, best) <= best.gap


@pytest.mark.parametrize("c", [0.1, 0.5, 0.9])
def test_a_quantile_is_largest_on_one_arm(c: float) -> None:
    rng = np.random.default_rng(3)
    samples = [rng.normal(rng.normal(), rng.uniform(0.2, 2), size=7) for _ in range(4)]
    best = pmb.oracle(pmb.VaR(c), pmb.Bandit(samples))
    singles = [float(np.sort(x)[math.ceil(c * 7 - 1e-9) - 1]) for x in samples]
    assert best.value == pytest.approx(max(singles)) and best.certified and best.gap <= 1e-9


# ---- values to many digits --------------------------------------------------------------------------------

BETAS = [(1, 3), (4, 2), (2, 2), (7, 1), (1, 1), (3, 6)]


@pytest.mark.parametrize(
    ("name", "metric"), [("gini", "gini"), ("wang", "wang_right_tail"), ("upper_cvar", "upper_cvar(0.9)")]
)
def test_values_of_beta_mixtures_have_ten_digits_and_more(name: str, metric: str) -> None:
    bandit = pmb.Bandit([st.beta(a, b) for a, b in BETAS])
    best = pmb.oracle(metric, bandit)
    grid = np.vstack((best.weights, np.full(6, 1 / 6), np.random.default_rng(1).dirichlet(np.ones(6), 1)))
    slow = [precise.utility(name, BETAS, [float(w) for w in row]) for row in grid]
    assert utilities(pmb.metric(metric), bandit, grid) == pytest.approx(slow, rel=1e-12)
    assert best.value == pytest.approx(slow[0], rel=1e-12)


@pytest.mark.parametrize("metric", ["gini", "wang_right_tail", "upper_cvar(0.9)", "pht(0.6)"])
def test_a_hundred_beta_arms_are_certified(metric: str) -> None:
    rng = np.random.default_rng(0)
    bandit = pmb.Bandit([st.beta(*rng.uniform(0.5, 5.0, 2)) for _ in range(100)])
    best = pmb.oracle(metric, bandit)
    assert best.certified and best.gap <= 1e-9 * best.value
    assert beaten_by(pmb.metric(metric), bandit, best) <= best.gap + 1e-12


@pytest.mark.parametrize("metric", ["gini", "wang_right_tail", "upper_cvar(0.9)", "mean_median_deviation"])
def test_many_atoms_are_certified(metric: str) -> None:
    rng = np.random.default_rng(5)
    bandit = pmb.Bandit([rng.normal(rng.normal(), rng.uniform(0.5, 1.5), size=1000) for _ in range(60)])
    best = pmb.oracle(metric, bandit)
    assert best.certified and best.gap <= 1e-9 * best.value
    some = np.random.default_rng(0).dirichlet(np.full(60, 0.1), 30)
    near = [0.99 * best.weights + 0.01 * row for row in np.eye(60)]
    assert max(pmb.utility(metric, bandit, row) for row in (*some, *near)) <= best.value + best.gap
