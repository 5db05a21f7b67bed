"""The gaps between the best mixtures of a grid, against an enumeration written plainly."""

from __future__ import annotations

from itertools import product
from math import floor

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as s

import pmbandits as pmb


def enumerate_grid(arms: int, epsilon: float, kind: str) -> list[tuple[float, ...]]:
    """Every arm but the last takes a multiple of ε (plus ε/2 on the UCB grid), the last one the rest."""
    half = 0.0 if kind == "etc" else 0.5
    steps = floor(1 / epsilon - arms * half + 1e-9)
    grid = []
    for counts in product(range(steps + 1), repeat=arms - 1):
        if sum(counts) <= steps:
            first = [epsilon * (n + half) for n in counts]
            grid.append((*first, max(0.0, 1.0 - sum(first))))
    return grid


def brute_force(metric: pmb.Distortion, bandit: pmb.Bandit, epsilon: float, kind: str) -> list[float]:
    """The utilities of the grid, best first."""
    return sorted((pmb.utility(metric, bandit, a) for a in enumerate_grid(bandit.n_arms, epsilon, kind)), reverse=True)


BANDITS = {
    "bernoulli": pmb.Bandit.bernoulli([0.35, 0.9]),
    "bernoulli_3": pmb.Bandit.bernoulli([0.1, 0.37, 0.93]),
    "samples_3": pmb.Bandit([[0.0, 1.0, 7.0], [2.0, 2.5, 4.0], [-3.0, 5.0]]),
    "samples_4": pmb.Bandit([[0.0, 1.0], [2.0, 6.5], [-3.0, 5.0, 9.0], [0.0, 0.5, 8.0]]),
    "gaussian": pmb.Bandit([st.norm(1), st.norm(3), st.norm(5.5)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["etc", "ucb"])
@pytest.mark.parametrize("epsilon", [0.5, 0.25, 0.1, 0.15])
@pytest.mark.parametrize(
    "metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.Mean(), pmb.UpperCVaR(0.9), pmb.VaR(0.9)], ids=repr
)
@pytest.mark.parametrize("name", BANDITS)
def test_gaps_equal_the_differences_of_an_enumeration(
    name: str, metric: pmb.Distortion, epsilon: float, kind: str
) -> None:
    bandit = BANDITS[name]
    if len(enumerate_grid(bandit.n_arms, epsilon, kind)) > 300:
        pytest.skip("a larger enumeration shows nothing more")
    values = brute_force(metric, bandit, epsilon, kind)
    if len(values) < 3:
        with pytest.raises(ValueError, match="smaller epsilon"):
            pmb.gaps(metric, bandit, epsilon, kind=kind)
        return
    first, second, third = values[:3]
    top = pmb.oracle(metric, bandit).value

    gaps = pmb.gaps(metric, bandit, epsilon, kind=kind)

    assert gaps.size == len(values) == pmb.grid_size(bandit.n_arms, epsilon, kind)
    close = {"abs": 1e-10 * max(1.0, abs(top))}
    assert gaps.d01 == pytest.approx(top - first, **close)
    assert gaps.d02 == pytest.approx(top - second, **close)
    assert gaps.d03 == pytest.approx(top - third, **close)
    assert gaps.d12 == pytest.approx(first - second, **close)
    assert gaps.d13 == pytest.approx(first - third, **close)
    assert pmb.utility(metric, bandit, gaps.best) == pytest.approx(first, **close)


@settings(deadline=None, max_examples=30)
@given(
    s.lists(s.lists(s.integers(-4, 4), min_size=1, max_size=4), min_size=2, max_size=3),
    s.sampled_from([0.25, 0.3, 0.125]),
    s.sampled_from(["etc", "ucb"]),
    s.sampled_from([pmb.GiniDeviation(), pmb.LowerCVaR(0.3), pmb.MeanMedianDeviation(), pmb.InvertedS(0.5)]),
)
def test_gaps_are_never_negative_and_in_order(samples: list, epsilon: float, kind: str, metric: pmb.Distortion) -> None:
    bandit = pmb.Bandit(samples)
    gaps = pmb.gaps(metric, bandit, epsilon, kind=kind)
    assert 0.0 <= gaps.d01 <= gaps.d02 <= gaps.d03
    assert 0.0 <= gaps.d12 <= gaps.d13
    assert gaps.d01 + gaps.d12 == pytest.approx(gaps.d02, abs=1e-12)
    assert gaps.d01 + gaps.d13 == pytest.approx(gaps.d03, abs=1e-12)
    assert abs(gaps.best.sum() - 1.0) < 1e-12 and (gaps.best >= 0.0).all()


def test_two_bernoulli_arms_on_the_etc_grid_have_known_gaps() -> None:
    # means 0.4 + 0.05k: the best is 0.5 (k = 2), then 0.45 and 0.55 tie at 0.2475
    gaps = pmb.gaps(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 0.1)
    assert gaps.d01 == pytest.approx(0.0, abs=1e-15)
    assert gaps.d12 == pytest.approx(0.0025, abs=1e-14)
    assert gaps.d13 == pytest.approx(0.0025, abs=1e-14)
    assert gaps.best == pytest.approx([0.8, 0.2])
    assert gaps.size == 11


def test_two_bernoulli_arms_on_the_ucb_grid_have_known_gaps() -> None:
    # second weight 0.05 + 0.1n: means 0.425 + 0.05n, so 0.475 and 0.525 tie and 0.425, 0.575 follow
    gaps = pmb.gaps(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), 0.1, kind="ucb")
    assert gaps.d01 == pytest.approx(0.25 - 0.475 * 0.525, abs=1e-14)
    assert gaps.d12 == pytest.approx(0.0, abs=1e-14)
    assert gaps.d13 == pytest.approx(0.475 * 0.525 - 0.425 * 0.575, abs=1e-14)
    assert gaps.size == 10


def test_the_estimation_gap_vanishes_as_the_grid_gets_finer() -> None:
    bandit = BANDITS["samples_3"]
    coarse, fine = (pmb.gaps(pmb.GiniDeviation(), bandit, e).d01 for e in (1 / 4, 1 / 64))
    assert 0.0 <= fine <= coarse
    assert fine < 1e-3


@pytest.mark.parametrize("kind", ["etc", "ucb"])
def test_a_grid_too_large_to_enumerate_is_refused_with_its_size(kind: str) -> None:
    bandit = pmb.Bandit.bernoulli(np.linspace(0.1, 0.9, 12))
    size = pmb.grid_size(12, 0.01, kind)
    with pytest.raises(ValueError, match=f"{size:,}"):
        pmb.gaps(pmb.GiniDeviation(), bandit, 0.01, kind=kind)


def test_an_epsilon_too_large_for_the_ucb_grid_is_refused_with_the_limit() -> None:
    with pytest.raises(ValueError, match=r"2/5 = 0\.4"):
        pmb.gaps(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.1, 0.2, 0.3, 0.4, 0.5]), 0.5, kind="ucb")


@pytest.mark.parametrize("epsilon", [0.0, -0.1, 1.5, float("nan")])
def test_an_epsilon_outside_its_range_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match="epsilon"):
        pmb.gaps(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), epsilon)


def test_an_unknown_grid_kind_is_refused_whatever_else_is_wrong() -> None:
    bandit = pmb.Bandit.bernoulli([0.1, 0.2, 0.3, 0.4, 0.5])
    with pytest.raises(ValueError, match="unknown grid kind 'etcc'"):
        pmb.gaps(pmb.GiniDeviation(), bandit, 0.1, kind="etcc")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown grid kind 'etcc'"):
        pmb.gaps(pmb.GiniDeviation(), bandit, 0.5, kind="etcc")  # type: ignore[arg-type]
