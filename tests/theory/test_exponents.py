"""β and β̄: the fit against scipy, gaps in closed form, and the paper's values where they hold and where they do not."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as s

import pmbandits as pmb
from pmbandits.theory.tables import PAPER_METRICS
from tests.reference import theory as paper

theory = pmb.theory
GINI = pmb.GiniDeviation()
BY_NAME = {m.name: m for m in PAPER_METRICS}


# ---- what the paper proves -------------------------------------------------------------------------------
@pytest.mark.parametrize("name", paper.PRINTED_TABLE_3)
def test_known_exponents_are_those_of_the_printed_table(name: str) -> None:
    beta, beta_bar = paper.PRINTED_TABLE_3[name]
    found = theory.known_exponents(BY_NAME[name])
    assert (None if found.beta is None else (found.beta.low, found.beta.high)) == beta
    assert found.beta_bar is not None and (found.beta_bar.low, found.beta_bar.high) == beta_bar


def test_known_exponents_follow_the_parameter() -> None:
    assert str(theory.known_exponents(pmb.PHT(0.3)).beta) == "[0.3, 1]"
    assert "0.3" in theory.known_exponents(pmb.UpperCVaR(0.7)).proviso
    assert theory.known_exponents(pmb.UpperCVaR(0.0)).proviso == ""


def test_scaled_and_mixed_metrics_are_judged_by_their_own_shape() -> None:
    assert theory.known_exponents(3 * GINI).beta_bar == theory.known_exponents(GINI).beta_bar
    # u + ½u(1 − u) is increasing: one arm is best
    assert theory.known_exponents(pmb.Mean() + 0.5 * GINI).one_arm
    # u + 3u(1 − u) peaks inside
    assert not theory.known_exponents(pmb.Mean() + 3 * GINI).one_arm


def test_metrics_that_the_paper_does_not_treat_have_no_exponents() -> None:
    convex = theory.known_exponents(pmb.LowerCVaR(0.3))
    assert convex.beta is None and convex.beta_bar is None and "convex" in convex.why
    with pytest.raises(ValueError, match="no Hölder pair"):
        theory.known_exponents(pmb.VaR(0.5))


# ---- the fit ---------------------------------------------------------------------------------------------
def test_the_line_is_that_of_scipy() -> None:
    found = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.31, 0.88]))
    line = st.linregress(np.log(found.epsilons), np.log(found.gaps))
    assert found.slope == pytest.approx(line.slope, rel=1e-9)
    assert found.intercept == pytest.approx(line.intercept, rel=1e-9)
    assert found.error == pytest.approx(line.stderr, rel=1e-9)
    assert found.r2 == pytest.approx(line.rvalue**2, rel=1e-9)
    assert found.ratios == pytest.approx(np.log(found.gaps) / np.log(found.epsilons))
    worst = np.abs(np.log(found.gaps) - line.intercept - line.slope * np.log(found.epsilons)).max()
    assert found.residual == pytest.approx(worst, rel=1e-6)


@pytest.mark.parametrize("metric", [m for m in PAPER_METRICS if not isinstance(m, pmb.UpperCVaR)], ids=repr)
@pytest.mark.parametrize("means", [[0.4, 0.9], [0.1, 0.43]])
def test_gaps_are_those_of_h_on_the_grids_means(metric: pmb.Distortion, means: list[float]) -> None:
    found = theory.gap_exponent(metric, pmb.Bandit.bernoulli(means), [1 / 8, 1 / 20, 1 / 33], gap="13")
    for epsilon, gap in zip(found.epsilons, found.gaps, strict=True):
        values = paper.bernoulli_values(metric, means, round(1 / epsilon))
        assert gap == pytest.approx(values[0] - values[2], abs=1e-12)


def test_for_the_mean_the_exponent_is_one_to_the_last_digit() -> None:
    # δ_12 = ε·(p₂ − p₁) exactly
    found = theory.gap_exponent(pmb.Mean(), pmb.Bandit.bernoulli([0.25, 0.75]))
    assert found.gaps == pytest.approx(0.5 * found.epsilons, rel=1e-9)
    assert found.exponent == pytest.approx(1.0, abs=1e-9) and found.r2 == pytest.approx(1.0)


# ---- two arms: as the paper says -------------------------------------------------------------------------
@pytest.mark.parametrize("metric", [m for m in PAPER_METRICS if not isinstance(m, pmb.UpperCVaR)], ids=repr)
@pytest.mark.parametrize("means", [[0.4, 0.9], [0.1, 0.43], [0.15, 0.62]])
def test_with_two_bernoulli_arms_the_measured_exponent_lies_in_the_papers_range(
    metric: pmb.Distortion, means: list[float]
) -> None:
    found = theory.gap_exponent(metric, pmb.Bandit.bernoulli(means), gap="13")
    known = theory.known_exponents(metric).beta_bar
    assert known is not None and not found.degenerate
    assert known.low - 0.1 <= found.slope <= known.high + 0.1


@settings(deadline=None, max_examples=20)
@given(s.floats(0.05, 0.4), s.floats(0.6, 0.95))
def test_beta_is_2_inside_and_1_on_the_boundary(low: float, high: float) -> None:
    inside = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([low, high]), gap="13")
    assert inside.slope == pytest.approx(2.0, abs=0.25)
    # δ_13 = 1·(next but one) towards a worse end: curvature bends it a little
    boundary = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.5 * low, low]), np.geomspace(1e-3, 1e-2, 5), gap="13")
    assert boundary.slope == pytest.approx(1.0, abs=0.15)


def test_continuous_arms_have_exponents_1_and_2() -> None:
    spacings = [1 / n for n in (8, 12, 18, 26, 40)]
    inside = pmb.Bandit([st.norm(1), st.norm(5)])
    assert theory.gap_exponent(GINI, inside, spacings).exponent == pytest.approx(2.0, abs=1e-3)
    boundary = pmb.Bandit([st.norm(0, 1), st.norm(0.2, 3)])
    assert theory.gap_exponent(GINI, boundary, spacings).exponent == pytest.approx(1.0, abs=0.05)


def test_cvar_needs_means_where_h_still_rises() -> None:
    low = pmb.Bandit.bernoulli([0.1, 0.43])
    assert theory.gap_exponent(pmb.UpperCVaR(0.5), low).exponent == pytest.approx(1.0, abs=1e-6)
    # above 1 − c mixtures tie, also those of δ_13, which the paper's lemma excludes by calling V(a⁽²⁾) < 1
    high = theory.gap_exponent(pmb.UpperCVaR(0.5), pmb.Bandit.bernoulli([0.4, 0.9]), gap="13")
    assert high.degenerate and "tie" in high.why


# ---- three arms: where it is degenerate, and where the paper's lemma fails -------------------------------
@pytest.mark.parametrize("means", [[0.2, 0.5, 0.8], [0.137, 0.482, 0.911]])
def test_three_bernoulli_arms_around_the_peak_are_reported_as_degenerate(means: list[float]) -> None:
    found = theory.gap_exponent(GINI, pmb.Bandit.bernoulli(means))
    assert found.degenerate and "2 values but there are 3 arms" in found.why
    with pytest.raises(ValueError, match=r"gap='13'"):
        _ = found.exponent
    assert "degenerate" in str(found)


def test_three_bernoulli_arms_on_one_side_of_the_peak_are_not() -> None:
    found = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.1, 0.23, 0.4]))
    assert not found.degenerate and found.exponent == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    ("metric", "claimed", "measured"), [(GINI, 2.0, 4.05), (pmb.MeanMedianDeviation(), 1.0, 2.01)], ids=repr
)
def test_with_three_arms_delta_13_shrinks_faster_than_the_paper_says(
    metric: pmb.Distortion, claimed: float, measured: float
) -> None:
    # lemma:f_G_epsilon has neighbouring means Θ(ε) apart; there are Θ(ε⁻²) of them in an interval
    known = theory.known_exponents(metric).beta_bar
    assert known is not None and known.high == claimed
    found = theory.gap_exponent(metric, pmb.Bandit.bernoulli([0.137, 0.482, 0.911]), gap="13")
    assert found.slope == pytest.approx(measured, abs=0.01)  # as the docstring of known_exponents says
    assert found.slope - 3 * found.error > claimed
    means = pmb.etc_grid(3, 1 / 100) @ np.array([0.137, 0.482, 0.911])
    nearest = np.sort(np.abs(means - 0.5))[:3]
    assert nearest[2] < 0.1 * (1 / 100) * 0.345  # far below ε·min|p_i − p_j|


def test_a_common_measure_of_three_means_makes_delta_13_zero() -> None:
    found = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.2, 0.5, 0.8]), gap="13")
    assert found.degenerate and (found.gaps == 0.0).all() and math.isnan(found.slope)
    distinct = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.2, 0.5, 0.8]), gap="distinct")
    assert distinct.exponent == pytest.approx(2.0, abs=1e-6)


# ---- input -----------------------------------------------------------------------------------------------
def test_bad_epsilons_are_explained() -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    with pytest.raises(ValueError, match="at least three epsilons"):
        theory.gap_exponent(GINI, bandit, [0.1, 0.2])
    with pytest.raises(ValueError, match="each epsilon"):
        theory.gap_exponent(GINI, bandit, [0.1, 0.2, 1.5])
    with pytest.raises(ValueError, match="too large to measure"):
        theory.gap_exponent(GINI, pmb.Bandit.bernoulli(np.linspace(0.1, 0.9, 9)))


def test_the_fit_is_shown() -> None:
    found = theory.gap_exponent(GINI, pmb.Bandit.bernoulli([0.4, 0.9]), gap="13", grid="ucb")
    assert str(found).count("log δ/log ε") == found.epsilons.size
    assert f"{found.slope:.3f}" in str(found)
