"""``lemma:beta12``: β from slopes, against closed forms of the slopes and against measured gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.theory import gap_exponent, gradient_exponent

GAUSS = pmb.Bandit([st.norm(m) for m in (1.0, 3.0, 5.0)], support=pmb.Real(1))


def test_slopes_of_the_gini_deviation_by_its_matrix() -> None:
    """U = ½aᵀDa with D_ij = E|X_i − X_j'|, so the slope towards arm j is (Da)_j − aᵀDa."""
    apart = np.abs(np.subtract.outer([1.0, 3.0, 5.0], [1.0, 3.0, 5.0]))
    s = np.sqrt(2)
    matrix = 2 * s * st.norm.pdf(apart / s) + apart * (1 - 2 * st.norm.cdf(-apart / s))
    a = np.array([0.5, 0.0, 0.5])
    found = gradient_exponent(pmb.GiniDeviation(), GAUSS)
    np.testing.assert_allclose(found.weights, a, atol=1e-6)
    np.testing.assert_allclose(found.slopes, matrix @ a - a @ matrix @ a, atol=1e-6)
    way = np.array([-1.0, 0.0, 1.0])
    np.testing.assert_allclose(found.curvature, [way @ matrix @ way], rtol=1e-3)


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.PHT(0.5), pmb.WangRightTail(), pmb.Quadratic(0.7)])
def test_slopes_of_bernoulli_arms_by_the_chain_rule(metric: Any) -> None:
    p = np.array([0.1, 0.35, 0.6])
    found = gradient_exponent(metric, pmb.Bandit.bernoulli(p))
    mean = found.weights @ p
    np.testing.assert_allclose(found.slopes, float(metric.derivative(mean)) * (p - mean), atol=2e-6)


CASES: list[tuple[Any, Any, float, int, str]] = [
    (pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 2.0, 2, "13"),
    (pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.3]), 1.0, 1, "12"),
    (pmb.Mean(), pmb.Bandit.bernoulli([0.2, 0.5, 0.9]), 1.0, 1, "12"),
    (pmb.Mean(), GAUSS, 1.0, 1, "12"),
    (pmb.GiniDeviation(), GAUSS, 2.0, 1, "distinct"),  # mirror images tie on the grid
    (pmb.PHT(0.5), pmb.Bandit.bernoulli([0.3, 0.6]), 1.0, 1, "12"),
    (pmb.LowerCVaR(0.3), pmb.Bandit([st.norm(0), st.norm(1, 2)], support=pmb.Real(2)), 1.0, 1, "12"),
    (pmb.MeanMedianDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 1.0, 1, "13"),
]


@pytest.mark.parametrize(("metric", "bandit", "beta", "case", "gap"), CASES, ids=lambda x: repr(x)[:28])
def test_beta_is_what_the_gaps_show(metric: Any, bandit: Any, beta: float, case: int, gap: Any) -> None:
    found = gradient_exponent(metric, bandit)
    assert (found.beta, found.case) == (beta, case), found
    assert found.slopes.max() < 1e-5
    steps = np.unique(np.round(np.geomspace(9, 90, 7)).astype(int)) // 2 * 2 + 1  # odd: ½ lies between grid points
    measured = gap_exponent(metric, bandit, [1.0 / n for n in steps], gap=gap)
    assert measured.slope == pytest.approx(beta, abs=0.35), measured


def test_where_beta_does_not_exist_none_is_given() -> None:
    assert gradient_exponent(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.2, 0.5, 0.8])).beta is None
    assert gradient_exponent(pmb.GiniDeviation(), pmb.Bandit([[0.0, 1.0], [0.0, 1.0]])).beta is None
    kinked = gradient_exponent(pmb.MeanMedianDeviation(), pmb.Bandit.bernoulli([0.1, 0.45, 0.9]))
    assert kinked.beta is None
    with pytest.raises(ValueError, match="two arms"):
        gradient_exponent(pmb.Mean(), pmb.Bandit.bernoulli([0.5]))


@pytest.mark.parametrize(
    ("metric", "support", "beta"),
    [
        (pmb.Mean(), pmb.Real(1), 1.0),
        (pmb.LowerCVaR(0.1), pmb.Interval(0, 1), 1.0),
        (pmb.GiniDeviation(), pmb.Binary(), 2.0),
        (pmb.GiniDeviation(), pmb.Interval(0, 1), 2.0),
        (pmb.GiniDeviation(), pmb.Real(1), 2.0),
        (pmb.PHT(0.5), pmb.Binary(), 1.0),
        (pmb.PHT(0.5), pmb.Interval(0, 1), 2.0),
        (pmb.WangRightTail(), pmb.Binary(), 2.0),
        (pmb.MeanMedianDeviation(), pmb.Binary(), 1.0),
        (pmb.MeanMedianDeviation(), pmb.Finite([0, 1, 3]), 1.0),
        (pmb.MeanMedianDeviation(), pmb.Interval(0, 1), 2.0),
        (pmb.UpperCVaR(0.9), pmb.Binary(), 1.0),
        (pmb.Quadratic(1.0), pmb.Binary(), 1.0),
        (pmb.VaR(0.5), pmb.Binary(), 2.0),
    ],
    ids=repr,
)
def test_policies_take_the_beta_that_metric_and_support_allow(metric: Any, support: Any, beta: float) -> None:
    make: dict[str, Any] = {"n_arms": 2, "support": support, "horizon": 20_000, "search": "grid"}
    for cls, schedule, coarsest in ((pmb.PMETC, pmb.theory.epsilon_etc, 0.5), (pmb.PMUCB, pmb.theory.epsilon_ucb, 0.5)):
        try:
            q = metric.holder(support).q
        except ValueError:
            q = 1.0
        wanted = schedule(20_000, 2, q, beta, 0.2)
        assert wanted < coarsest
        assert cls(metric, **make).epsilon == pytest.approx(wanted, rel=1e-12)
        assert cls(metric, beta=2, **make).epsilon == pytest.approx(schedule(20_000, 2, q, 2.0, 0.2), rel=1e-12)
        assert cls(metric, beta=1.5, **make).epsilon == pytest.approx(schedule(20_000, 2, q, 1.5, 0.2), rel=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1, "one", float("nan")])
def test_a_beta_that_is_none_is_refused(bad: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="beta"):
        pmb.PMUCB(horizon=100, beta=bad)
