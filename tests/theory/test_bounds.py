"""Regret bounds against literal copies of the theorems, and how they answer when their conditions fail."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, reject, settings
from hypothesis import strategies as s

import pmbandits as pmb
from pmbandits.theory.instance import TiedMixturesError
from tests.reference import theory as paper

theory = pmb.theory
GINI, MEAN = pmb.GiniDeviation(), pmb.Mean()
INSTANCES = {
    "gini": (GINI, pmb.Bandit.bernoulli([0.3, 0.9]), 0.4),
    "wang": (pmb.WangRightTail(), pmb.Bandit.bernoulli([0.1, 0.6]), 0.4),
    "mean": (MEAN, pmb.Bandit.bernoulli([0.2, 0.5, 0.9]), 0.3),
    "normal": (pmb.UpperCVaR(0.5), pmb.Bandit([st.norm(0, 1), st.norm(0.5, 0.8)]), 0.4),
}
BOUNDS = {"etc": theory.etc_bound, "ucb": theory.ucb_bound, "ce": theory.ce_ucb_bound}


# ---- the formulas ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("horizon", [100, 10**6, 10**14])
@pytest.mark.parametrize("gap", ["12", "13"])
@pytest.mark.parametrize("name", ["gini", "wang", "mean"])
def test_the_etc_bound_is_the_theorem(name: str, gap: str, horizon: int) -> None:
    metric, bandit, _ = INSTANCES[name]
    epsilon, known = 0.25, theory.facts(metric, bandit)
    gaps = pmb.gaps(metric, bandit, epsilon)
    distance, lost = (gaps.d12, gaps.d01) if gap == "12" else (gaps.d13, gaps.d02)
    rounds = paper.number_of_samples(horizon, bandit.n_arms, epsilon, distance, known.q, known.constant)
    width = pmb.half_wasserstein_diameter(bandit)
    bound = theory.etc_bound(metric, bandit, horizon, epsilon, gap=gap)
    expected = paper.etc_theorem(horizon, bandit.n_arms, known.q, known.constant, width, rounds, lost)
    assert bound.value == pytest.approx(expected, rel=1e-9)
    assert bound.holds == (horizon > rounds)
    assert bound.earliest == pytest.approx(rounds, rel=1e-9)
    assert bound.sharper <= bound.value
    assert sum(bound.terms.values()) == pytest.approx(bound.value, rel=1e-12)


@pytest.mark.parametrize("horizon", [100, 10**6, 10**14])
@pytest.mark.parametrize("rho", [0.1, 1.0])
@pytest.mark.parametrize("name", INSTANCES)
def test_the_ucb_bounds_are_the_theorem(name: str, rho: float, horizon: int) -> None:
    metric, bandit, epsilon = INSTANCES[name]
    known = theory.facts(metric, bandit)
    best = pmb.oracle(metric, bandit).value
    lost = best - max(pmb.utility(metric, bandit, a) for a in pmb.ucb_grid(bandit.n_arms, epsilon))
    given_ = (horizon, bandit.n_arms, known.q, known.constant, known.distance, known.largest_loss, epsilon, rho, lost)
    bound = theory.ucb_bound(metric, bandit, horizon, epsilon, rho=rho)
    assert bound.value == pytest.approx(paper.ucb_theorem(*given_), rel=1e-9)
    assert bound.sharper == pytest.approx(paper.ucb_appendix(*given_), rel=1e-6)  # 1 + 2/T² rounds
    cheap = theory.ce_ucb_bound(metric, bandit, horizon, epsilon, rho=rho)
    assert cheap.value == bound.value
    assert cheap.sharper <= bound.sharper * (2.0 ** (1 - known.q)) + 1e-12
    assert bound.holds == (horizon > max(math.e**bandit.n_arms, bound.earliest))
    assert sum(bound.terms.values()) == pytest.approx(bound.value, rel=1e-12)


@pytest.mark.parametrize(("means", "metric"), [([0.4, 0.9], GINI), ([0.1, 0.6, 0.7], pmb.WangRightTail())])
def test_the_cirt_bound_is_the_theorem(means: list[float], metric: pmb.Distortion) -> None:
    bandit = pmb.Bandit.bernoulli(means)
    known = theory.facts(metric, bandit)
    bound = theory.cirt_bound(metric, bandit, 10**9, 0.1, delta=0.01, confidence="auto", refined_after=1000)
    expected = paper.cirt_theorem(10**9, len(means), known.q, known.constant, known.distance, 0.1)
    assert bound.value == pytest.approx(expected, rel=1e-12)
    assert bound.probability == pytest.approx(1 - 4 * 0.01)
    assert bound.sharper <= bound.value
    assert bound.holds


def test_cirts_bound_is_for_bernoulli_arms_and_valid_sets_and_says_so() -> None:
    bound = theory.cirt_bound(GINI, pmb.Bandit([[0.0, 1.0, 3.0], [1.0]]), 10**9, 0.1, refined_after=10)
    failing = [c.text for c in bound.conditions if not c.holds]
    assert any("Bernoulli" in text for text in failing)
    assert any("fixed n only" in text for text in failing)
    with pytest.raises(ValueError, match="Bernoulli"):
        bound.require()
    too_unsure = theory.cirt_bound(GINI, pmb.Bandit.bernoulli([0.4, 0.9]), 10**9, 0.03, delta=0.2, refined_after=10)
    assert too_unsure.probability == 0.0 and not too_unsure.holds


@pytest.mark.parametrize("q", [0.5, 1.0])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("horizon", [10**3, 10**9])
def test_rates_are_the_theorems(q: float, beta: float, horizon: int) -> None:
    assert theory.rate("etc", q, beta).at(horizon, 3) == pytest.approx(paper.etc_rate(horizon, 3, q, beta), rel=1e-12)
    assert theory.rate("ucb", q, beta).at(horizon, 3) == pytest.approx(paper.ucb_rate(horizon, 3, q, beta), rel=1e-12)
    assert theory.rate("ucb", q, beta).at(horizon, 3, constant=7) == pytest.approx(
        7 * paper.ucb_rate(horizon, 3, q, beta)
    )


def test_below_half_of_q_the_ucb_rate_is_that_of_the_other_term() -> None:
    # β = q/4: κ = 1/2.5; (1 − κ)q/2 = .3q < qκ = .4q
    assert float(theory.rate("ucb", 1.0, 0.25).horizon) == pytest.approx(0.3)


def test_the_scheduled_bound_falls_like_the_rate() -> None:
    # PM-ETC-M with the scheduled ε: the bound divided by the rate settles (this is what O(·) claims)
    bandit = pmb.Bandit.bernoulli([0.1, 0.4])  # Gini: arm 1 is best, β = 1
    rate = theory.rate("etc", 1.0, 1.0)
    constants = [
        theory.leading_constant(theory.etc_bound(GINI, bandit, 10**n, beta=1.0), rate, 2) for n in (11, 13, 15, 17)
    ]
    steps = [later / earlier for earlier, later in pairwise(constants)]
    assert all(0.2 < step < 1.3 for step in steps)


# ---- how they behave -------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", BOUNDS)
def test_a_tighter_set_gives_a_smaller_bound_that_holds_sooner(kind: str) -> None:
    metric, bandit, epsilon = INSTANCES["gini"]
    loose = BOUNDS[kind](metric, bandit, 10**9, epsilon)
    tight = BOUNDS[kind](metric, bandit, 10**9, epsilon, confidence="auto")
    assert tight.value < loose.value / 10 and tight.earliest < loose.earliest / 1000
    assert tight.holds and not loose.holds and loose.vacuous


@settings(deadline=None, max_examples=25)
@given(s.floats(0.05, 0.4), s.floats(0.6, 0.95), s.integers(1, 6), s.sampled_from(sorted(BOUNDS)))
def test_where_a_bound_holds_its_proofs_sum_is_not_above_it(low: float, high: float, size: int, kind: str) -> None:
    bandit = pmb.Bandit.bernoulli([low, high])
    try:
        bound = BOUNDS[kind](GINI, bandit, 10 ** (3 * size), 0.4, gap="distinct", confidence="auto")
    except TiedMixturesError:  # two mixtures of the grid are equally good: there is no such gap
        reject()
    assert bound.value > 0.0
    if bound.holds:
        assert bound.sharper <= bound.value * (1 + 1e-12)


@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("confidence", ["paper", "auto", "dkw", "wasserstein"])
def test_bounds_fall_with_the_horizon_once_they_hold(kind: str, confidence: str) -> None:
    metric, bandit, epsilon = INSTANCES["gini"]
    line = theory.curve(
        BOUNDS[kind], "horizon", [10**n for n in range(2, 18)], metric, bandit, epsilon=epsilon, confidence=confidence
    )
    values = line.values[line.holds]
    assert values.size >= 3
    assert (np.diff(values) < 0).all()
    assert (np.diff(line.holds.astype(int)) >= 0).all()  # once it holds it holds for good
    assert line.values[-1] == pytest.approx(line.bounds[-1].value)  # type: ignore[union-attr]


def test_a_curve_over_epsilon_leaves_out_tied_grids() -> None:
    line = theory.curve(theory.ucb_bound, "epsilon", [0.4, 0.1, 0.3], GINI, pmb.Bandit.bernoulli([0.4, 0.9]), 10**6)
    assert np.isnan(line.values).tolist() == [False, True, False]
    assert line.bounds[1] is None and not line.holds[1]


def test_a_curve_does_not_hide_other_errors() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        theory.curve(theory.ucb_bound, "epsilon", [1.5], GINI, pmb.Bandit.bernoulli([0.4, 0.9]), 10**6)
    with pytest.raises(ValueError, match="unknown over"):
        theory.curve(theory.ucb_bound, "rho", [1.5], GINI, pmb.Bandit.bernoulli([0.4, 0.9]), 10**6)


def test_identical_arms_have_no_distance_to_divide_by() -> None:
    # W = 0, where the theorem as printed has W^−q
    bandit = pmb.Bandit([[0.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="equally good"):
        theory.etc_bound(GINI, bandit, 1000, 0.5, gap="distinct")


@pytest.mark.parametrize("make", [theory.etc_bound, theory.ucb_bound, theory.ce_ucb_bound])
def test_a_horizon_that_is_too_short_is_explained_with_the_way_out(make: Any) -> None:
    bound = make(GINI, pmb.Bandit.bernoulli([0.3, 0.9]), 60_000, 0.4)
    assert not bound.holds and bound.vacuous
    with pytest.raises(ValueError, match=r"T > .* horizon beyond "):
        bound.require()
    assert "does not hold" in repr(bound) and "[ ] T >" in repr(bound)
    fine = make(GINI, pmb.Bandit.bernoulli([0.3, 0.9]), 10**12, 0.4, confidence="auto")
    assert fine.require() is fine and not fine.vacuous


@pytest.mark.parametrize(
    ("make", "means", "epsilon", "confidence", "about"),
    [
        (theory.etc_bound, [0.1, 0.9], 0.5, "paper", 5e8),
        (theory.ucb_bound, [0.3, 0.9], 0.4, "paper", 7e11),
        (theory.etc_bound, [0.1, 0.9], 0.5, "auto", 2e4),
        (theory.ucb_bound, [0.3, 0.9], 0.4, "auto", 2e7),
    ],
)
def test_bounds_begin_to_hold_at_the_horizons_that_their_module_states(
    make: Any, means: list[float], epsilon: float, confidence: str, about: float
) -> None:
    bandit = pmb.Bandit.bernoulli(means)
    assert not make(GINI, bandit, int(0.6 * about), epsilon, confidence=confidence).holds
    assert make(GINI, bandit, int(1.6 * about), epsilon, confidence=confidence).holds


def test_a_bound_that_says_nothing_says_so() -> None:
    bound = theory.etc_bound(GINI, pmb.Bandit.bernoulli([0.1, 0.9]), 50_000, 0.5, confidence="auto")
    assert bound.holds and bound.vacuous and "says nothing" in repr(bound)


def test_the_papers_radius_asks_for_arms_that_are_sub_gaussian_enough() -> None:
    wide = pmb.Bandit([[0.0, 10.0], [3.0, 9.0]], support=pmb.Interval(0, 10))
    bound = theory.etc_bound(MEAN, wide, 10**15, 0.5)
    with pytest.raises(ValueError, match="divide the rewards by 5"):
        bound.require()
    assert theory.etc_bound(MEAN, wide, 10**15, 0.5, confidence="auto").holds


def test_delta_13_is_for_etc_only() -> None:
    for make in (theory.ucb_bound, theory.ce_ucb_bound, theory.cirt_bound):
        with pytest.raises(ValueError, match="PM-ETC-M only"):
            make(GINI, pmb.Bandit.bernoulli([0.3, 0.9]), 1000, 0.4, gap="13")


@pytest.mark.parametrize("bad", [0, -5, 2.5, True])
def test_bad_horizons_are_refused(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="horizon"):
        theory.etc_bound(GINI, pmb.Bandit.bernoulli([0.3, 0.9]), bad, 0.5)


def test_a_metric_without_a_holder_pair_is_explained() -> None:
    with pytest.raises(ValueError, match="no Hölder pair"):
        theory.etc_bound(pmb.VaR(0.5), pmb.Bandit.bernoulli([0.3, 0.9]), 1000, 0.5)
