"""The refinement oracle against a search by fractions, its two lemmas on random Bernoulli arms, and ``lemma:U``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from scipy.integrate import quad
from scipy.optimize import linprog

import pmbandits as pmb
from pmbandits.theory import refinement_oracle, utility_limit

INCREASING = [pmb.PHT(0.5), pmb.Quadratic(0.8), pmb.UpperCVaR(0.3), pmb.DualPower(3), pmb.Mean()]
PEAKED = [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.MeanMedianDeviation(), pmb.PowerDeviation(0.7, 0.8)]


def by_fractions(metric: Any, p: list[float], branching: int, phases: int) -> list[tuple[list[Fraction], int]]:
    """``eq:oracle_discrete_set`` to the letter: n·2^ℓ/A^(ℓ+1) within ± 2^(ℓ−1)/A^ℓ of the one before, summing to 1."""
    found: list[tuple[list[Fraction], int]] = []
    for number in range(phases):
        spacing = Fraction(2**number, branching ** (number + 1))
        sides = []
        for i in range(len(p)):
            side = [n * spacing for n in range(int(1 / spacing) + 1)]
            if found:
                reach = Fraction(2 ** (number - 1), branching**number)
                side = [a for a in side if abs(a - found[-1][0][i]) <= reach]
            sides.append(side)
        grid = [a for a in itertools.product(*sides) if sum(a) == 1]
        values = metric(np.array([min(1.0, sum(float(w) * q for w, q in zip(a, p, strict=True))) for a in grid]))
        best = next(k for k, v in enumerate(values) if v >= values.max() - 1e-12)
        found.append((list(grid[best]), len(grid)))
    return found


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.PHT(0.5), pmb.WangRightTail()], ids=repr)
@pytest.mark.parametrize(("p", "branching"), [((0.3, 0.9), 4), ((0.1, 0.45, 0.8), 4), ((0.2, 0.7), 6)])
def test_the_phases_are_the_papers_sets(metric: Any, p: tuple[float, ...], branching: int) -> None:
    found = refinement_oracle(metric, pmb.Bandit.bernoulli(p), epsilon=0.06, branching=branching)
    phases = pmb.theory.refinement_phases(0.06, branching)
    assert len(found.phases) == phases
    for phase, (weights, points) in zip(found.phases, by_fractions(metric, list(p), branching, phases), strict=True):
        np.testing.assert_allclose(phase.weights, [float(w) for w in weights], atol=1e-15)
        assert phase.points == points


def means(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0.02, 0.98, rng.integers(2, 5))


@pytest.mark.parametrize("metric", INCREASING, ids=repr)
def test_the_lemma_for_one_best_arm(metric: Any) -> None:
    """``lemma: best_alpha_Bernoulli_solitary``, on random arms."""
    rng = np.random.default_rng(3)
    for _ in range(12):
        p = means(rng)
        found = refinement_oracle(metric, pmb.Bandit.bernoulli(p), epsilon=0.1)
        assert found.keeps_best, p
        if metric.shape != "neither" and not metric.kinks:
            assert np.argmax(found.weights) == np.argmax(p) and found.weights.max() == 1.0


@pytest.mark.parametrize("metric", PEAKED, ids=repr)
def test_the_lemma_for_a_best_mixture(metric: Any) -> None:
    """``lemma: best_alpha_Bernoulli_mixture``: some mixture in the box has the best mean, by a linear program."""
    rng = np.random.default_rng(4)
    for _ in range(12):
        p = means(rng)
        found = refinement_oracle(metric, pmb.Bandit.bernoulli(p), epsilon=0.1)
        assert found.keeps_best, p
        peak = float(np.clip(metric.maximum().at, p.min(), p.max()))
        last = found.phases[-1]
        ends = []
        for sign in (1, -1):  # the least and the largest mean in the box
            limits = list(zip(last.low, last.high, strict=True))
            ends.append(sign * linprog(sign * p, A_eq=np.ones((1, p.size)), b_eq=[1.0], bounds=limits).fun)
        assert ends[0] - 1e-9 <= peak <= ends[1] + 1e-9


def test_a_box_that_loses_the_best_says_so() -> None:
    """Convex h on other than Bernoulli arms: the best of a coarse grid is far from the best of all."""
    wide = [[0.0, 10.0], [4.4, 4.6], [3.0, 7.2]]
    h = pmb.Distortion.from_function(lambda u: u * (1 - u) * (1 - 2 * u) ** 2, name="two peaks", holder=(1.0, 3.0))
    found = refinement_oracle(h, pmb.Bandit(wide), epsilon=0.1)
    outside = (found.best.weights < found.phases[0].low - 1e-9) | (found.best.weights > found.phases[0].high + 1e-9)
    assert found.phases[0].keeps_best == (not outside.any())


def test_cirt_keeps_what_the_oracle_keeps() -> None:
    """With many rewards the estimates are the arms, and CIRT's first box is the oracle's."""
    bandit = pmb.Bandit.bernoulli([0.1, 0.9])
    wanted = refinement_oracle(pmb.GiniDeviation(), bandit, epsilon=0.25)
    policy = pmb.CIRT(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), epsilon=0.25)
    rng = np.random.default_rng(0)
    for _ in range(30_000):
        arm = policy.ask()
        policy.tell(arm, float(rng.random() < (0.1, 0.9)[arm]))
        if policy.phase == "track":
            break
    assert policy.phase == "track"
    policy.ask()  # reading looks on a copy; asking keeps what was seen
    kept = policy._memory.kept_mixture / (4 * 2 ** (policy.phases - 1))
    np.testing.assert_allclose(kept, wanted.weights, atol=1e-12)


def test_refinement_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="even"):
        refinement_oracle(pmb.Mean(), pmb.Bandit.bernoulli([0.1, 0.2]), branching=5)
    with pytest.raises(ValueError, match="points"):
        refinement_oracle(pmb.Mean(), pmb.Bandit.bernoulli([0.1] * 12))


# ---- lemma:U -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("s", [0.3, 0.5, 1.0])
def test_the_limit_is_twice_the_utility_of_the_law_with_all_of_the_upper_tail(s: float) -> None:
    """P(X > x) = e^(−x²/2), a Rayleigh law, reaches the bound of its upper tail: ∫ e^(−sx²/2) = ½√(2π/s)."""
    value = pmb.PHT(s).value(st.rayleigh())
    assert value == pytest.approx(0.5 * utility_limit(pmb.PHT(s)), rel=1e-9)
    assert value == pytest.approx(quad(lambda x: math.exp(-s * x * x / 2), 0, np.inf)[0], rel=1e-9)


@pytest.mark.parametrize("metric", [*PEAKED, *INCREASING, pmb.Mean() - 0.5 * pmb.GiniDeviation()], ids=repr)
@pytest.mark.parametrize(
    "law", [st.norm(), st.uniform(-1, 2), st.rayleigh(), st.norm(0, 0.3), st.beta(2, 3)], ids=lambda law: law.dist.name
)
def test_no_utility_passes_the_limit(metric: Any, law: Any) -> None:
    """All these have tails below e^(−x²/2) on both sides of 0."""
    x = np.linspace(0, 8, 400)
    assert (law.sf(x) <= np.exp(-x * x / 2) + 1e-12).all() and (law.cdf(-x) <= np.exp(-x * x / 2) + 1e-12).all()
    assert abs(metric.value(law)) <= utility_limit(metric)


def test_the_limit_scales_and_is_refused_where_there_is_none() -> None:
    assert utility_limit(pmb.Mean(), sigma=3.0) == pytest.approx(3 * math.sqrt(2 * math.pi))
    with pytest.raises(ValueError, match="no such limit"):
        utility_limit(pmb.VaR(0.5))


# ---- lemma:mixture_lemma_exponential ---------------------------------------------------------------------------
@pytest.mark.parametrize(
    "metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.PHT(0.5), pmb.Quadratic(0.6)], ids=repr
)
def test_shifted_exponentials_are_worth_the_same_and_mixtures_more(metric: Any) -> None:
    shifts, rate = [0.5, 1.0, 1.4], 0.4
    bandit = pmb.Bandit.shifted_exponentials(shifts, rate, metric=metric)
    values = []
    for k, law in enumerate(bandit.distributions):
        params = law.describe()
        assert "expon" in params
        single = pmb.utility(metric, bandit, np.eye(3)[k])
        values.append(single)
    np.testing.assert_allclose(values, values[0], rtol=1e-8)
    # by quadrature: c·h(1) + ∫ h(e^(−λx)) dx
    expected = shifts[0] * metric(1.0) + quad(lambda x: metric(math.exp(-rate * x)), 0, np.inf, limit=200)[0]
    assert values[0] == pytest.approx(expected, rel=1e-6)
    for weights in ([1 / 3, 1 / 3, 1 / 3], [0.9, 0.05, 0.05], [0.2, 0.5, 0.3]):
        assert pmb.utility(metric, bandit, weights) > values[0] * (1 + 1e-6)
    assert pmb.oracle(metric, bandit).is_mixture


def test_shifted_exponentials_by_rates_and_what_is_refused() -> None:
    bandit = pmb.Bandit.shifted_exponentials([1.0, 2.0], [1.0, 4.0], names=["a", "b"])
    assert pmb.utility(pmb.Mean(), bandit, [0.0, 1.0]) == pytest.approx(2.25)
    assert bandit.names == ("a", "b") and bandit.support is None
    with pytest.raises(ValueError, match="no positive rates"):
        pmb.Bandit.shifted_exponentials([1.0, 5.0], 2.0, metric=pmb.PHT(0.5))
    with pytest.raises(ValueError, match="rates must be positive"):
        pmb.Bandit.shifted_exponentials([1.0, 5.0], -1.0)
    with pytest.raises(ValueError, match="one number"):
        pmb.Bandit.shifted_exponentials([1.0, 5.0], [1.0, 2.0], metric=pmb.GiniDeviation())
    with pytest.raises(ValueError, match="shift of arm 1"):
        pmb.Bandit.shifted_exponentials([1.0, -5.0])


# ---- the conjecture on refinement: a counterexample for a concave metric (docs/refinement.md) --------------------
TENTHS = ((0, 7, 1, 0, 2, 0), (0, 1, 0, 2, 1, 6), (0, 0, 0, 2, 1, 7))
BEST = (Fraction(107, 198), Fraction(0), Fraction(91, 198))


def gini(weights: Sequence[Fraction]) -> Fraction:
    """Σ S(1 − S) over the rewards 1 … 5, exactly."""
    above = [sum(w * sum(p[k:]) for w, p in zip(weights, TENTHS, strict=True)) / 10 for k in range(1, 6)]
    return sum((s * (1 - s) for s in above), Fraction(0))


def test_refinement_loses_the_best_mixture_of_a_concave_metric() -> None:
    """In whole numbers, without the library: phase by phase the best of the grid, and the box around it."""
    centre, kept = (0, 0, 0), []
    for phase, total in enumerate((4, 8, 16, 32, 64)):
        grid = [(a, b, total - a - b) for a in range(total + 1) for b in range(total + 1 - a)]
        if phase:
            grid = [g for g in grid if all(abs(x - 2 * c) <= 2 for x, c in zip(g, centre, strict=True))]
        values = {g: gini([Fraction(x, total) for x in g]) for g in grid}
        centre = max(values, key=lambda g: values[g])
        assert list(values.values()).count(values[centre]) == 1  # no ties
        kept.append(all(abs(Fraction(x, total) - a) <= Fraction(1, total) for x, a in zip(centre, BEST, strict=True)))
    assert centre == (33, 14, 17)
    assert kept == [True, False, False, False, False]
    assert gini(BEST) == Fraction(751, 792)
    assert gini(BEST) - gini([Fraction(x, 64) for x in centre]) == Fraction(13561, 20275200)
    # best: the slope towards no arm is larger than along the mixture (the metric is concave)
    step = Fraction(1, 10**9)
    for arm in range(3):
        moved = [(1 - step) * a + (step if i == arm else 0) for i, a in enumerate(BEST)]
        assert gini(moved) <= gini(BEST)


def test_the_refinement_oracle_says_so() -> None:
    arms = pmb.Bandit.from_samples([[k for k in range(6) for _ in range(p[k])] for p in TENTHS])
    found = refinement_oracle(pmb.GiniDeviation(), arms, epsilon=0.06, branching=4)
    assert [phase.keeps_best for phase in found.phases] == [True, False, False, False, False]
    assert found.best.weights == pytest.approx([float(a) for a in BEST], abs=1e-7)
    assert found.best.value - found.phases[-1].value == pytest.approx(13561 / 20275200, abs=1e-12)
    assert not found.keeps_best
