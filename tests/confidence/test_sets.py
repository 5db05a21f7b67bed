"""Confidence sets: their radii by formula, and by simulation that the true law stays inside for all n at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from scipy.special import betainc, ndtr, ndtri, xlogy

import pmbandits as pmb
from pmbandits.confidence import ConfidenceSet, confidence_set
from pmbandits.confidence.sets import howard_ramdas_constant
from tests.reference.confidence import Confidence, howard_ramdas

UNIT = pmb.Interval(0, 1)
SUPPORTS = [pmb.Binary(), pmb.Finite([-1, 0.5, 3]), UNIT, pmb.Interval(-2, 5), pmb.Real(1), pmb.Real(2.5)]
COUNTS = [1, 2, 7, 100, 1000, 123_456]

# ---- radii ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("horizon", "paper", "dkw", "sub_gaussian"),
    [(10_000, 625, 3.09, 11.1), (60_000, 636, 3.37, 11.9), (3_000_000, 656, 3.91, 13.4)],
)
def test_radii_times_root_n_are_those_of_the_notes(horizon, paper, dkw, sub_gaussian):
    def constant(name: str, support: pmb.Support) -> float:
        radii = confidence_set(name, support, 2, horizon=horizon).radius(COUNTS) * np.sqrt(COUNTS)
        np.testing.assert_allclose(radii, radii[0], rtol=1e-12)
        return float(radii[0])

    assert constant("paper", UNIT) == pytest.approx(paper, abs=0.5)
    assert constant("dkw", UNIT) == pytest.approx(dkw, abs=0.005)
    assert constant("wasserstein", pmb.Real(1)) == pytest.approx(sub_gaussian, abs=0.05)


@pytest.mark.parametrize("n_arms", [1, 2, 5])
@pytest.mark.parametrize(("delta", "horizon"), [(None, 500), (0.1, 500), (None, None), (0.2, None), (1e-6, None)])
@pytest.mark.parametrize("support", SUPPORTS, ids=repr)
def test_every_radius_equals_the_reference(support, delta, horizon, n_arms):
    for name in ("kl", "dkw", "wasserstein", "paper"):
        try:
            expected = Confidence(name, support, n_arms, delta, horizon)
        except ValueError:
            with pytest.raises(ValueError, match=name):
                confidence_set(name, support, n_arms, horizon=horizon, delta=delta)
            continue
        ours = confidence_set(name, support, n_arms, horizon=horizon, delta=delta)
        assert (ours.name, ours.kind) == (name, expected.shape)
        np.testing.assert_allclose(ours.radius(COUNTS), [expected.radius(n) for n in COUNTS], rtol=1e-9)


def test_fixed_horizon_formulas_by_hand():
    horizon, delta, n = 1000, 0.1, 40
    each = delta / horizon  # the union over n ≤ T
    make: dict[str, Any] = {"n_arms": 3, "horizon": horizon, "delta": delta}
    kl = math.log(2 * math.sqrt(n) / delta) / n  # no union
    assert confidence_set("kl", pmb.Binary(), **make).radius(n) == pytest.approx(kl, rel=1e-14)
    kl = math.log(2 * math.sqrt(n) * 2 / delta) / n  # three atoms, two thresholds
    assert confidence_set("kl", pmb.Finite([0, 1, 3]), **make).radius(n) == pytest.approx(kl, rel=1e-14)
    band = math.sqrt(math.log(2 / each) / (2 * n))
    assert confidence_set("dkw", pmb.Interval(-2, 5), **make).radius(n) == pytest.approx(band, rel=1e-14)
    assert confidence_set("wasserstein", pmb.Interval(-2, 5), **make).radius(n) == pytest.approx(7 * band, rel=1e-14)
    gauss = 1.5 * (2.5125 + 2 * math.sqrt(math.log(1 / each))) / math.sqrt(n)
    assert confidence_set("wasserstein", pmb.Real(1.5), **make).radius(n) == pytest.approx(gauss, rel=1e-14)


def test_anytime_formulas_by_hand():
    delta, arms, n = 0.12, 3, 40
    each = delta / arms
    make: dict[str, Any] = {"n_arms": arms, "delta": delta}
    kl = math.log(2 * math.sqrt(n) / each) / n
    assert confidence_set("kl", pmb.Binary(), **make).radius(n) == pytest.approx(kl, rel=1e-14)
    first, epoch = 38, 38  # 1.1³⁸ = 37.4 ≤ 40 < 1.1³⁹ = 41.1
    depth = math.log((epoch + 1) * (epoch + 2) / each)  # Σ 1/((k+1)(k+2)) = 1
    gauss = 1.5 * (2.5125 + 2 * math.sqrt(depth)) / math.sqrt(first)
    assert confidence_set("wasserstein", pmb.Real(1.5), **make).radius(n) == pytest.approx(gauss, rel=1e-14)
    band = 0.85 * math.sqrt((math.log(1 + math.log(n)) + howard_ramdas(each)) / n)
    assert confidence_set("dkw", UNIT, **make).radius(n) == pytest.approx(band, rel=1e-10)
    ball = confidence_set("wasserstein", pmb.Interval(-2, 5), **make).radius(n)
    assert ball == pytest.approx(7 * band, rel=1e-10)


@pytest.mark.parametrize(
    ("delta", "constant"), [(0.05, 8.123), (0.01, 9.284), (1e-3, 10.943), (1e-6, 15.901), (1e-10, 22.463)]
)
def test_howard_ramdas_constants(delta, constant):
    assert howard_ramdas_constant(delta) == pytest.approx(constant, abs=6e-4)
    assert howard_ramdas_constant(delta) == pytest.approx(howard_ramdas(delta), rel=1e-8)


def test_howard_ramdas_band_at_a_thousand():
    """The published example starts at m = 100; our band starts at m = 1 and is a little wider."""
    late = 0.85 * math.sqrt((math.log(1 + math.log(1000 / 100)) + howard_ramdas_constant(0.05)) / 1000)
    assert late == pytest.approx(0.082048, abs=1e-6)
    ours = confidence_set("dkw", UNIT, 1, delta=0.05).radius(1000)
    assert ours == pytest.approx(0.85 * math.sqrt((math.log(1 + math.log(1000)) + 8.123) / 1000), rel=1e-4)
    assert late < ours < 1.05 * late


def test_paper_radius_to_the_letter_with_a_horizon():
    horizon = 60_000
    ours = confidence_set("paper", UNIT, 3, horizon=horizon)
    assert ours.radius(250) == 16 * (math.sqrt(2 * math.e * math.log(horizon)) + 32) / math.sqrt(250)
    assert "paper" in ours.meaning and ours.failure == 2 / horizon  # 2/T² for each n, and T of them


def test_the_papers_radius_honours_a_delta():
    """δ/T for each n in place of 2/T²: the concentration lemma, solved for the radius."""
    horizon, n, delta = 60_000, 250, 0.4
    ours = confidence_set("paper", UNIT, 3, horizon=horizon, delta=delta)
    assert ours.radius(n) == pytest.approx(16 * (math.sqrt(math.e * math.log(2 * horizon / delta)) + 32) / math.sqrt(n))
    assert ours.failure == delta
    assert pmb.theory.concentration(n, ours.radius(n)) == pytest.approx(delta / horizon)
    to_the_letter = confidence_set("paper", UNIT, 3, horizon=horizon)
    assert confidence_set("paper", UNIT, 3, horizon=horizon, delta=2 / horizon).radius(n) == pytest.approx(
        to_the_letter.radius(n), rel=1e-14
    )
    assert ours.radius(n) < to_the_letter.radius(n)


@pytest.mark.parametrize("support", [pmb.Binary(), UNIT, pmb.Interval(-1, 1), pmb.Real(0.5), pmb.Real(1)], ids=repr)
def test_the_papers_radius_is_to_the_letter_wherever_its_assumption_holds(support):
    for horizon in (500, None):
        chosen = confidence_set("paper", support, 2, horizon=horizon)
        assert chosen.radius(9) == confidence_set("paper", UNIT, 2, horizon=horizon).radius(9)
        assert "times" not in chosen.meaning


@pytest.mark.parametrize(
    ("support", "times"), [(pmb.Interval(0, 1000), 500), (pmb.Finite([-4, 0, 6]), 5), (pmb.Real(2.5), 2.5)], ids=repr
)
def test_the_papers_radius_grows_with_arms_wider_than_it_assumes(support, times):
    for horizon in (500, None):
        chosen = confidence_set("paper", support, 2, horizon=horizon)
        expected = times * confidence_set("paper", UNIT, 2, horizon=horizon).radius(9)
        assert chosen.radius(9) == pytest.approx(expected, rel=1e-14)
        assert f"times {times:g}" in chosen.meaning


def test_the_papers_radius_covers_a_coin_of_0_and_1000():
    """As printed it fails in a fifth of all samples; its own guarantee is 2/T² for one n."""
    horizon, n, width, trials = 10_000, 5000, 1000.0, 4000
    rng = np.random.default_rng(5)
    off = width * np.abs(rng.binomial(n, 0.5, trials) / n - 0.5)  # W1 between two coins
    printed = 16 * (math.sqrt(2 * math.e * math.log(horizon)) + 32) / math.sqrt(n)
    assert printed == pytest.approx(8.84, abs=0.005)
    assert st.binomtest(int((off > printed).sum()), trials, 0.2).pvalue > 1e-3
    chosen = confidence_set("paper", pmb.Interval(0, width), 1, horizon=horizon)
    assert not (off > chosen.radius(n)).any()
    policy = pmb.PMUCB(
        pmb.GiniDeviation(), n_arms=1, support=pmb.Interval(0, width), horizon=horizon, confidence="paper", epsilon=1.0
    )
    assert policy.confidence.radius(n) == chosen.radius(n)


def test_paper_radius_to_the_letter_in_cirt():
    for arms, delta in ((2, 0.05), (5, 0.3)):
        share = (1 + delta) ** (1 / arms) - 1
        ours = confidence_set("paper", pmb.Binary(), arms, delta=delta)
        assert ours.radius(250) == 16 * (math.sqrt(math.e * math.log(2 / share)) + 32) / math.sqrt(250)
        assert ours.kind == "ball"
    default = confidence_set("paper", UNIT, 2)
    assert default.radius(9) == confidence_set("paper", UNIT, 2, delta=0.05).radius(9)
    assert "fixed beforehand" in default.meaning, "it must not be sold as anytime-valid"


@pytest.mark.parametrize("horizon", [1000, None])
@pytest.mark.parametrize(
    ("support", "name", "kind"),
    [
        (pmb.Binary(), "kl", "interval"),
        (pmb.Finite([0, 1, 3]), "kl", "kl_band"),
        (UNIT, "kl", "kl_band"),
        (pmb.Real(2.0), "kl", "kl_band"),
    ],
    ids=repr,
)
def test_auto_takes_the_tightest_valid_set_and_says_which(support, name, kind, horizon):
    chosen = confidence_set("auto", support, 2, horizon=horizon)
    assert (chosen.name, chosen.kind) == (name, kind)
    assert any(year.strip("(),;") in chosen.source for year in ("1981", "2014", "2026")), "since when it is known"
    named = confidence_set(name, support, 2, horizon=horizon)
    np.testing.assert_array_equal(chosen.radius(COUNTS), named.radius(COUNTS))
    assert ("1,000" in chosen.meaning) == (horizon is not None)
    assert ("however many rewards come" in chosen.meaning) == (horizon is None)
    if horizon is None:
        policy: pmb.Policy = pmb.CIRT(pmb.GiniDeviation(), n_arms=2, support=support)
    else:
        policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=2, support=support, horizon=horizon)
    assert policy.confidence.name == name
    for arm, reward in ((0, 0.0), (1, 1.0)):
        policy.tell(arm, reward)
    assert str(policy.confidence).startswith(f"Confidence set {name!r}") and chosen.meaning in str(policy.confidence)


def test_auto_is_tighter_than_what_it_passes_over():
    n = np.arange(1, 5000)
    for horizon in (5000, None):
        dkw = confidence_set("dkw", UNIT, 2, horizon=horizon)
        wasserstein = confidence_set("wasserstein", UNIT, 2, horizon=horizon)
        assert (wasserstein.radius(n) == np.minimum(dkw.radius(n), 1.0)).all()  # a band of r lies in a ball of width·r
        kl = confidence_set("kl", pmb.Binary(), 2, horizon=horizon)
        late = n if horizon is not None else n[n <= 1000]
        assert (np.sqrt(kl.radius(late) / 2) <= dkw.radius(late) + 1e-15).all()  # Pinsker


def test_radii_fall_with_n_and_rise_with_safety():
    for support in SUPPORTS:
        for name in ("auto", "wasserstein", "paper"):
            for horizon in (1000, None):
                small, large = (confidence_set(name, support, 2, horizon=horizon, delta=d) for d in (0.001, 0.2))
                radii = small.radius(np.arange(1, 1000))
                falls = np.diff(radii)
                assert (falls <= 0).all() and falls.sum() < 0
                if small.kind != "ball" or name == "paper":  # balls are cut off at the width; on the line, in steps
                    assert (falls < 0).all()
                assert (small.radius(COUNTS) >= large.radius(COUNTS)).all()
                assert small.radius(0) == math.inf


def test_radius_takes_numbers_and_arrays():
    chosen = confidence_set("dkw", UNIT, 2, horizon=100)
    assert isinstance(chosen.radius(5), float)
    assert chosen.radius([0, 5, 10]).tolist() == [math.inf, chosen.radius(5), chosen.radius(10)]
    assert chosen.radius(np.array([], dtype=int)).shape == (0,)


def test_delta_defaults():
    with_horizon = confidence_set("dkw", UNIT, 2, horizon=200)
    assert with_horizon.radius(9) == confidence_set("dkw", UNIT, 2, horizon=200, delta=1 / 200).radius(9)
    anytime = confidence_set("dkw", UNIT, 2)
    assert anytime.radius(9) == confidence_set("dkw", UNIT, 2, delta=0.05).radius(9)
    assert confidence_set("dkw", UNIT, 1, delta=0.025).radius(9) == pytest.approx(anytime.radius(9), rel=1e-12)


def test_sets_that_are_not_valid_are_refused_with_a_way_out():
    with pytest.raises(ValueError, match=r"bounded.*wasserstein"):
        confidence_set("dkw", pmb.Real(1), 2)
    with pytest.raises(ValueError, match="dkw"):
        pmb.PMUCB(pmb.GiniDeviation(), n_arms=2, support=pmb.Real(1), horizon=100, confidence="dkw")
    with pytest.raises(ValueError, match="bounded support"):
        pmb.CIRT(pmb.WangRightTail(), n_arms=2, support=pmb.Real(1), confidence="wasserstein")
    with pytest.raises(ValueError, match=r"auto.*paper.*dkw"):
        confidence_set("hoeffding", UNIT, 2)


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, math.nan, "0.1"])
@pytest.mark.parametrize("horizon", [100, None])
def test_an_impossible_delta_is_refused(bad, horizon):
    with pytest.raises((ValueError, TypeError), match="delta"):
        confidence_set("auto", UNIT, 2, horizon=horizon, delta=bad)


@pytest.mark.parametrize("bad", [0, -5, 2.5])
def test_an_impossible_horizon_is_refused(bad):
    with pytest.raises((ValueError, TypeError), match="horizon"):
        confidence_set("auto", UNIT, 2, horizon=bad)


class Own:
    """A set of one's own."""

    def __init__(self, kind: str, radius: float) -> None:
        self.kind, self._radius = kind, radius

    def radius(self, n: np.ndarray) -> np.ndarray:
        return self._radius / np.sqrt(n)


def test_a_set_of_ones_own_is_used_as_it_is():
    chosen = confidence_set(Own("band", 0.5), UNIT, 2)
    assert isinstance(chosen, ConfidenceSet)
    assert (chosen.name, chosen.kind) == ("Own", "band")
    assert chosen.radius([0, 4]).tolist() == [math.inf, 0.25]
    policy = pmb.CIRT(pmb.Mean(), n_arms=2, support=UNIT, confidence=Own("band", 0.4))
    policy.tell([0, 0, 0, 0, 1], [0.5] * 5)
    assert [e.radius for e in policy.estimates] == [0.2, 0.4]
    assert policy.utility_bounds([1.0, 0.0]) == pytest.approx((0.4, 0.5, 0.6), abs=1e-12)


def test_a_set_of_ones_own_of_the_wrong_form_is_refused():
    with pytest.raises(ValueError, match="kind"):
        confidence_set(Own("ellipse", 1.0), UNIT, 2)
    with pytest.raises(TypeError, match="radius"):
        confidence_set(3.0, UNIT, 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Binary"):
        pmb.CIRT(pmb.Mean(), n_arms=2, support=UNIT, confidence=Own("interval", 1.0))
    with pytest.raises(ValueError, match="bounded"):
        pmb.CIRT(pmb.Mean(), n_arms=2, support=pmb.Real(1), confidence=Own("band", 1.0))


# ---- distances, exactly -----------------------------------------------------------------------------------


def sup_distance(x: np.ndarray, cdf: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """sup|F̂ − F| of each row, F continuous."""
    n = x.shape[1]
    f = cdf(np.sort(x, axis=1))
    steps = np.arange(n + 1) / n
    return np.maximum(np.abs(f - steps[1:]), np.abs(f - steps[:-1])).max(axis=1)


def w1_distance(x: np.ndarray, quantile: Any, area: Any, cdf: Any, lo: float, hi: float) -> np.ndarray:
    """∫|F̂ − F| of each row; ``area`` is an antiderivative of F. Between two samples F̂ is constant and F crosses once.

    Beyond [lo, hi] F is taken as 0 and 1.
    """
    rows, n = x.shape
    s = np.concatenate((np.full((rows, 1), lo), np.sort(x, axis=1), np.full((rows, 1), hi)), axis=1)
    a, b, level = s[:, :-1], s[:, 1:], np.arange(n + 1) / n
    cross = np.clip(quantile(level), a, b)
    left = level * (cross - a) - (area(cross) - area(a))  # F ≤ F̂ here
    right = (area(b) - area(cross)) - level * (b - cross)
    return (left + right).sum(axis=1)


def normal_w1(x: np.ndarray) -> np.ndarray:
    def area(v: np.ndarray) -> np.ndarray:
        return v * ndtr(v) + np.exp(-0.5 * v * v) / math.sqrt(2 * math.pi)

    return w1_distance(x, ndtri, area, ndtr, -40.0, 40.0)


def uniform_w1(x: np.ndarray) -> np.ndarray:
    return w1_distance(x, lambda v: v, lambda v: 0.5 * v * v, lambda v: v, 0.0, 1.0)


def bernoulli_kl_of(mean: np.ndarray, p: float) -> np.ndarray:
    return xlogy(mean, mean / p) + xlogy(1 - mean, (1 - mean) / (1 - p))


def test_the_distances_used_below_are_exact():
    rng = np.random.default_rng(0)
    x = rng.random((3, 40))
    fine = (np.arange(400_000) + 0.5) / 400_000
    for row, ours in zip(x, uniform_w1(x), strict=True):
        assert ours == pytest.approx(st.wasserstein_distance(row, fine), abs=1e-6)
    for row, ours in zip(x, sup_distance(x, lambda v: v), strict=True):
        assert ours == pytest.approx(st.kstest(row, "uniform").statistic, rel=1e-12)
    z = rng.normal(size=(3, 30))
    for row, ours in zip(z, normal_w1(z), strict=True):
        assert ours == pytest.approx(st.wasserstein_distance(row, ndtri(fine)), abs=1e-4)


# ---- coverage by simulation -------------------------------------------------------------------------------

TRIALS, LAST = 600, 300
CHECKED = [*range(1, 41), *range(44, 120, 4), *range(120, LAST + 1, 10)]


def bernoulli(p: float) -> tuple[Callable, Callable]:
    return (lambda rng, size: (rng.random(size) < p).astype(float), lambda x: np.abs(x.mean(axis=1) - p))


UNIFORM_BAND = (lambda rng, size: rng.random(size), lambda x: sup_distance(x, lambda v: v))
ATOM_BAND = (  # three atoms, far from continuous
    lambda rng, size: rng.choice([0.0, 0.3, 1.0], size, p=[0.5, 0.3, 0.2]),
    lambda x: np.maximum(np.abs((x <= 0.0).mean(axis=1) - 0.5), np.abs((x <= 0.3).mean(axis=1) - 0.8)),
)
UNIFORM_BALL = (lambda rng, size: rng.random(size), uniform_w1)
NORMAL_BALL = (lambda rng, size: rng.normal(size=size), normal_w1)
SIGNS_BALL = (  # ±1 is 1-sub-Gaussian, and its mean alone moves W1 the most
    lambda rng, size: rng.choice([-1.0, 1.0], size),
    lambda x: np.abs(x.mean(axis=1)),
)


def kl_law(p: float) -> tuple[Callable, Callable]:
    return (bernoulli(p)[0], lambda x: bernoulli_kl_of(x.mean(axis=1), p))


COVERAGE = {
    "kl_fair": ("kl", pmb.Binary(), kl_law(0.5)),
    "kl_rare": ("kl", pmb.Binary(), kl_law(0.03)),
    "dkw_uniform": ("dkw", UNIT, UNIFORM_BAND),
    "dkw_atoms": ("dkw", UNIT, ATOM_BAND),
    "ball_bernoulli": ("wasserstein", UNIT, bernoulli(0.5)),
    "ball_uniform": ("wasserstein", UNIT, UNIFORM_BALL),
    "ball_normal": ("wasserstein", pmb.Real(1), NORMAL_BALL),
    "ball_signs": ("wasserstein", pmb.Real(1), SIGNS_BALL),
}
# The share of the radius that is too small for the law at hand. A ball must hold for the worst law of the support:
# for a uniform or a normal one it is wide, so the test has to shrink it more to see a failure.
TOO_SMALL = {"ball_uniform": 0.2, "ball_normal": 0.25, "ball_signs": 0.25}


@cache
def distances(case: str, seed: int) -> np.ndarray:
    """How far the true law is from the first n rewards: a row for each checked n, a column for each sequence."""
    draw, distance = COVERAGE[case][2]
    x = draw(np.random.default_rng(seed), (TRIALS, LAST))
    return np.array([distance(x[:, :n]) for n in CHECKED])


def leaves(chosen: ConfidenceSet, case: str, shrink: float, seed: int) -> int:
    """In how many sequences the true law leaves the shrunken set at some checked n."""
    limit = chosen.radius(CHECKED) * (shrink**2 if chosen.kind == "interval" else shrink)  # kl is quadratic in width
    return int((distances(case, seed) > limit[:, None]).any(axis=0).sum())


@pytest.mark.parametrize("delta", [0.1, 0.2])
@pytest.mark.parametrize("horizon", [LAST, None], ids=["horizon", "anytime"])
@pytest.mark.parametrize("case", COVERAGE)
def test_the_true_law_stays_inside_for_all_n_at_once(case, horizon, delta):
    name, support, _ = COVERAGE[case]
    chosen = confidence_set(name, support, 1, horizon=horizon, delta=delta)
    gone = leaves(chosen, case, 1.0, seed=11)
    assert st.binomtest(gone, TRIALS, delta, alternative="greater").pvalue > 1e-3, gone / TRIALS
    # The same simulation sees a set that is too small.
    shrink = TOO_SMALL.get(case, 1 / 3)
    gone = leaves(chosen, case, shrink, seed=12)
    assert st.binomtest(gone, TRIALS, delta, alternative="greater").pvalue < 1e-6, gone / TRIALS


def test_a_radius_for_one_n_alone_would_not_hold_for_all_n():
    """The union over n is needed: without it the law leaves the set far more often than δ."""
    delta = 0.1
    single = math.sqrt(math.log(2 / delta) / 2)
    x = np.random.default_rng(13).random((TRIALS, LAST))
    gone = np.zeros(TRIALS, dtype=bool)
    for n in CHECKED:
        gone |= sup_distance(x[:, :n], lambda v: v) > single / math.sqrt(n)
    assert st.binomtest(int(gone.sum()), TRIALS, 2 * delta, alternative="greater").pvalue < 1e-6


# ---- coverage at the random pull counts of an adaptive policy -----------------------------------------------

DELTA, ROUNDS, RUNS, EVERY = 0.2, 160, 120, 8
ATOMS, MASSES = np.array([0.0, 0.2, 0.5, 1.0]), np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])


def outside_bernoulli(p: float) -> Callable:
    def outside(e: pmb.ArmEstimate) -> tuple[bool, bool]:
        assert e.kind == "interval"
        if e.n == 0:
            return False, False
        distance = float(bernoulli_kl_of(np.array([e.mean]), p)[0])
        # the interval that the policy shows is the level set of kl
        assert (e.low <= p <= e.high) == (distance <= e.radius) or abs(distance - e.radius) < 1e-9
        return not e.low <= p <= e.high, distance > e.radius / 9

    return outside


def outside_band(cdf: Callable, places: np.ndarray | None) -> Callable:
    def outside(e: pmb.ArmEstimate) -> tuple[bool, bool]:
        assert e.kind == "band"
        if e.n == 0:
            return False, False
        if places is None:  # continuous
            f, top = cdf(e.x), e.cdf(e.x)
            distance = max(np.abs(f - top).max(), np.abs(f - (top - e.p)).max())
        else:
            distance = np.abs(cdf(places) - e.cdf(places)).max()
            low, high = e.band(places)
            inside = bool(((low - 1e-12 <= cdf(places)) & (cdf(places) <= high + 1e-12)).all())
            assert inside == (distance <= e.radius) or abs(distance - e.radius) < 1e-9
        return bool(distance > e.radius), bool(distance > e.radius / 3)

    return outside


def outside_ball(mean: float) -> Callable:
    def outside(e: pmb.ArmEstimate) -> tuple[bool, bool]:
        assert e.kind == "ball"
        if e.n == 0:
            return False, False
        x = np.repeat(e.x, np.rint(e.p * e.n).astype(int))
        distance = float(normal_w1(x[None] - mean)[0])
        return distance > e.radius, distance > e.radius / 5

    return outside


def outside_belt(cdf: Callable, places: np.ndarray | None) -> Callable:
    """By relative entropy at every place, or on both sides of every reward of a continuous law."""

    def outside(e: pmb.ArmEstimate) -> tuple[bool, bool]:
        assert e.kind == "kl_band"
        if e.n == 0:
            return False, False
        x = e.x if places is None else places[:-1]
        f, top = cdf(x), e.cdf(x)
        shares = (top,) if places is not None else (top, top - e.p)
        with np.errstate(divide="ignore", invalid="ignore"):
            far = max(
                float(
                    (
                        np.where(p > 0, p * np.log(p / f), 0) + np.where(p < 1, (1 - p) * np.log((1 - p) / (1 - f)), 0)
                    ).max()
                )
                for p in (np.clip(share, 0.0, 1.0) for share in shares)
            )
        return far > e.radius, far > e.radius / 9

    return outside


def finite_cdf(i: int) -> Callable:
    below = np.concatenate(([0.0], np.cumsum(MASSES[i])))
    return lambda x: below[np.searchsorted(ATOMS, x, side="right")]


ARMS: dict[str, tuple[Any, list[Callable], list[Callable]]] = {
    "bernoulli": (
        pmb.Binary(),
        [lambda rng, p=p: float(rng.random() < p) for p in (0.4, 0.9)],
        [outside_bernoulli(p) for p in (0.4, 0.9)],
    ),
    "finite": (
        pmb.Finite(ATOMS),
        [lambda rng, i=i: float(ATOMS[np.searchsorted(np.cumsum(MASSES[i]), rng.random())]) for i in range(2)],
        [outside_band(finite_cdf(i), ATOMS) for i in range(2)],
    ),
    "beta": (
        UNIT,
        [lambda rng: float(rng.beta(0.7, 2.0)), lambda rng: float(rng.beta(3.0, 1.0))],
        [outside_band(lambda x, a=a, b=b: betainc(a, b, x), None) for a, b in ((0.7, 2.0), (3.0, 1.0))],
    ),
    "normal": (
        pmb.Real(1),
        [lambda rng: float(rng.normal(0.0)), lambda rng: float(rng.normal(2.0))],
        [outside_ball(0.0), outside_ball(2.0)],
    ),
}
NAMED = {"finite": "dkw", "beta": "dkw", "normal": "wasserstein"}  # and belts, which "auto" takes:
BELTS: dict[str, list[Callable]] = {
    "finite belts": [outside_belt(finite_cdf(i), ATOMS) for i in range(2)],
    "beta belts": [outside_belt(lambda x, a=a, b=b: betainc(a, b, x), None) for a, b in ((0.7, 2.0), (3.0, 1.0))],
    "normal belts": [outside_belt(st.norm(mean).cdf, None) for mean in (0.0, 2.0)],
}
ARMS |= {name: (*ARMS[name.split()[0]][:2], checks) for name, checks in BELTS.items()}


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["pmucb", "cirt"])
@pytest.mark.parametrize("arms", ARMS)
def test_the_true_laws_stay_inside_at_the_pull_counts_of_an_adaptive_policy(arms, policy):
    support, draws, checks = ARMS[arms]
    sets = NAMED.get(arms, "auto")
    left = np.zeros((RUNS, 2), dtype=bool)
    left_small = np.zeros((RUNS, 2), dtype=bool)
    for run in range(RUNS):
        rng = np.random.default_rng([17, run])
        if policy == "pmucb":
            player: pmb.Policy = pmb.PMUCB(
                pmb.GiniDeviation(),
                n_arms=2,
                support=support,
                horizon=ROUNDS,
                epsilon=1 / 4,
                delta=DELTA,
                confidence=sets,
            )
        else:
            player = pmb.CIRT(
                pmb.GiniDeviation(), n_arms=2, support=support, epsilon=0.12, delta=DELTA, confidence=sets
            )
        for t in range(1, ROUNDS + 1):
            arm = player.ask()
            player.tell(arm, draws[arm](rng))
            if t % EVERY == 0 or t < 20:
                for i, estimate in enumerate(player.estimates):
                    out, out_small = checks[i](estimate)
                    left[run, i] |= out
                    left_small[run, i] |= out_small
    assert player.t == ROUNDS
    # PM-UCB-M's δ is of each arm, CIRT's of all arms together.
    failures = left.sum(axis=0) if policy == "pmucb" else [int(left.any(axis=1).sum())]
    for gone in failures:
        assert st.binomtest(int(gone), RUNS, DELTA, alternative="greater").pvalue > 1e-3, gone / RUNS
    # A third of the radius (a fifth for the ball, which is wide for a normal law) would be found out.
    small = int(left_small.any(axis=1).sum())
    assert st.binomtest(small, RUNS, DELTA, alternative="greater").pvalue < 1e-6, small / RUNS


@pytest.mark.slow
def test_the_bounds_of_a_mixture_hold_at_the_pull_counts_of_an_adaptive_policy():
    """What the sets are for: the true utility of every mixture lies between the bounds, at all times."""
    truth = np.array([0.4, 0.9])
    metric = pmb.GiniDeviation()
    grid = np.linspace(0, 1, 5)
    wrong = 0
    for run in range(60):
        rng = np.random.default_rng([19, run])
        player = pmb.PMUCB(metric, n_arms=2, support=pmb.Binary(), horizon=150, epsilon=1 / 4, delta=0.1)
        bad = False
        for t in range(150):
            arm = player.ask()
            player.tell(arm, float(rng.random() < truth[arm]))
            if t % 10 == 9:
                for a in grid:
                    low, _, high = player.utility_bounds([a, 1 - a])
                    true = metric(float(a * truth[0] + (1 - a) * truth[1]))
                    bad |= not low - 1e-12 <= true <= high + 1e-12
        wrong += bad
    assert st.binomtest(wrong, 60, 0.2, alternative="greater").pvalue > 1e-3, wrong
