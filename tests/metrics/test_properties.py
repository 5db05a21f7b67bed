"""Properties that hold for every metric, checked on random samples, weights and combinations."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as hs

import pmbandits as pmb
from pmbandits.metrics import (
    PHT,
    Distortion,
    GiniDeviation,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    UpperCVaR,
    VaR,
    WangRightTail,
    WangTransform,
    metric,
)
from tests.strategies import (
    METRICS,
    any_metric,
    bends_both_ways_near_zero,
    brute_monotonicity,
    brute_shape,
    label,
    rewards,
    samples,
    weighted_samples,
    weights_of,
)

few = settings(deadline=None, max_examples=80)
INCREASING = [m for m in METRICS if m.monotonicity == "increasing"]
CURVED = [m for m in METRICS if m.shape != "neither"]
coefficients = hs.integers(-20, 20).map(lambda k: k / 10)


def close(a, b, scale):
    return abs(a - b) <= 1e-11 * max(1.0, scale)


# ---- the integral ------------------------------------------------------------------------------------------
@few
@given(any_metric, samples, rewards)
def test_adding_a_constant_to_rewards_adds_it_times_h_of_one(m, x, c):
    got = m.value(np.array(x) + c)
    assert close(got, m.value(x) + c * m(1.0), 200 * np.abs(m(np.linspace(0, 1, 101))).max())


@few
@given(any_metric, weighted_samples(), rewards)
def test_adding_a_constant_to_weighted_rewards_adds_it_times_h_of_one(m, sample, c):
    x, p = sample
    got = m.value(x + c, weights=p)
    assert close(got, m.value(x, weights=p) + c * m(1.0), 200 * np.abs(m(np.linspace(0, 1, 101))).max())


@few
@given(any_metric, weighted_samples(), hs.floats(1e-3, 1e3))
def test_scaling_rewards_scales_the_value(m, sample, factor):
    x, p = sample
    expected = factor * m.value(x, weights=p)
    assert close(m.value(factor * x, weights=p), expected, 100 * factor)


@few
@given(any_metric, samples, hs.randoms(use_true_random=False))
def test_the_order_of_a_sample_does_not_matter(m, x, random):
    shuffled = list(x)
    random.shuffle(shuffled)
    assert m.value(shuffled) == m.value(x)


@few
@given(any_metric, samples, hs.integers(2, 4))
def test_repeating_a_sample_changes_nothing(m, x, times):
    assert close(m.value(x * times), m.value(x), 100)


@few
@given(hs.sampled_from(INCREASING), weighted_samples(), hs.data())
def test_an_increasing_distortion_respects_first_order_dominance(m, sample, data):
    x, p = sample
    gain = np.array(data.draw(hs.lists(hs.floats(0, 50), min_size=x.size, max_size=x.size)))
    assert m.value(x + gain, weights=p) >= m.value(x, weights=p) - 1e-10


@few
@given(hs.sampled_from(CURVED), hs.lists(rewards, min_size=2, max_size=8, unique=True), hs.data())
def test_the_value_of_a_mixture_bends_as_the_distortion_does(m, x, data):
    p, q = (data.draw(weights_of(len(x))) for _ in range(2))
    share = data.draw(hs.floats(0, 1))
    chord = share * m.value(x, weights=p) + (1 - share) * m.value(x, weights=q)
    mixed = m.value(x, weights=share * p + (1 - share) * q)
    if m.shape in ("concave", "linear"):
        assert mixed >= chord - 1e-9
    if m.shape in ("convex", "linear"):
        assert mixed <= chord + 1e-9


@few
@given(any_metric, any_metric, coefficients, coefficients, weighted_samples())
def test_the_value_of_a_combination_is_the_combination_of_values(m1, m2, a, b, sample):
    x, p = sample
    expected = a * m1.value(x, weights=p) + b * m2.value(x, weights=p)
    assert close((a * m1 + b * m2).value(x, weights=p), expected, 1000)


# ---- combinations ------------------------------------------------------------------------------------------
@few
@given(any_metric, any_metric, coefficients, coefficients)
def test_a_combination_is_pointwise(m1, m2, a, b):
    u = np.linspace(0, 1, 41)
    combined = a * m1 + b * m2
    np.testing.assert_allclose(combined(u), a * m1(u) + b * m2(u), rtol=1e-13, atol=1e-13)
    inner = u[1:-1] + 0.00137
    inner = inner[inner < 1]
    expected = a * m1.derivative(inner) + b * m2.derivative(inner)
    np.testing.assert_allclose(combined.derivative(inner), expected, rtol=1e-12, atol=1e-12)


def moves_both_ways(metric):
    """Whether h rises and falls, if only very near 0, where an even grid does not see it."""
    steps = np.diff(metric(np.concatenate(([0.0], np.geomspace(1e-16, 1.0, 2000)))))
    return steps.max() > 0.0 > steps.min()


@settings(deadline=None, max_examples=150)
@given(any_metric, any_metric, coefficients, coefficients)
@example(WangRightTail(), WangTransform(2.0), 0.1, -0.1)  # rises below u = 2e-10 only
@example(PHT(0.1), InvertedS(0.3), 0.1, -0.1)  # convex below u = 1e-20 only
def test_shape_and_direction_of_a_combination_agree_with_differences(m1, m2, a, b):
    combined = a * m1 + b * m2
    strict, loose = brute_shape(combined, 1e-12), brute_shape(combined, 1e-9)
    if strict == loose:  # else the bend is of the size of the stated tolerance
        assert combined.shape == strict or (combined.shape == "neither" and bends_both_ways_near_zero(combined))
    if brute_monotonicity(combined, 1e-12) == brute_monotonicity(combined, 1e-9):
        brute = brute_monotonicity(combined, 1e-12)
        assert combined.monotonicity == brute or (combined.monotonicity == "neither" and moves_both_ways(combined))


@settings(deadline=None, max_examples=60)
@given(any_metric, any_metric, coefficients, coefficients, hs.floats(0, 1), hs.floats(0, 1))
def test_extrema_of_a_combination_beat_a_dense_grid(m1, m2, a, b, lo, hi):
    assume(lo <= hi)
    combined = a * m1 + b * m2
    h = combined(np.linspace(lo, hi, 2001))
    top, bottom = combined.maximum(lo, hi), combined.minimum(lo, hi)
    assert lo <= top.at <= hi
    assert lo <= bottom.at <= hi
    assert top.value == combined(top.at)
    assert top.value >= h.max() - 1e-10
    assert bottom.value <= h.min() + 1e-10


@pytest.mark.parametrize(
    ("m", "shape", "direction"),
    [
        (0.7 * Mean() + 0.3 * UpperCVaR(0.9), "concave", "increasing"),
        (Mean() - 0.5 * GiniDeviation(), "convex", "increasing"),
        (Mean() - GiniDeviation(), "convex", "increasing"),
        (Mean() - 1.5 * GiniDeviation(), "convex", "neither"),
        (Mean() - LowerCVaR(0.1), "concave", "neither"),
        (UpperCVaR(0.9) + LowerCVaR(0.1), "neither", "increasing"),
        (-Mean(), "linear", "decreasing"),
        (-UpperCVaR(0.5), "convex", "decreasing"),
        (-1 * WangRightTail(), "convex", "neither"),
        (GiniDeviation() - MeanMedianDeviation(), "neither", "neither"),
        (0.5 * UpperCVaR(0.9) - 0.5 * UpperCVaR(0.8), "neither", "neither"),
        (Mean() + 0.0 * VaR(0.9), "linear", "increasing"),
        (Mean() + 1e-3 * VaR(0.9), "neither", "increasing"),
        (PHT(0.5) - Mean() - WangRightTail(), "linear", "constant"),
        (WangTransform(1.0) + WangTransform(-1.0), "neither", "increasing"),
    ],
    ids=str,
)
def test_shape_of_known_combinations(m, shape, direction):
    assert (m.shape, m.monotonicity) == (shape, direction)


def test_equal_terms_merge():
    zero = UpperCVaR(0.9) - UpperCVaR(0.9)
    assert (zero.shape, zero.monotonicity) == ("linear", "constant")
    assert zero.terms == ()
    assert zero(0.37) == 0.0
    assert zero.value([1.0, 5.0, -3.0]) == 0.0
    assert zero.derivative(0.2) == 0.0
    assert zero.kinks == []
    assert Mean() + Mean() == 2 * Mean()
    assert (UpperCVaR(0.9) + GiniDeviation() - UpperCVaR(0.9)) == GiniDeviation()
    assert type(0.5 * Mean() + 0.5 * Mean()) is Mean


def test_subtraction_division_negation_and_sums_follow_arithmetic():
    m = Mean() - 0.5 * GiniDeviation()
    assert m / 2 == 0.5 * Mean() - 0.25 * GiniDeviation()
    negated = -m
    assert -negated == m
    assert sum([Mean(), UpperCVaR(0.5)]) == Mean() + UpperCVaR(0.5)
    assert 2 * (Mean() + UpperCVaR(0.5)) == 2 * Mean() + 2 * UpperCVaR(0.5)
    assert Mean() * 3 == 3 * Mean()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Mean() * GiniDeviation(), TypeError, "multiplied by a number only"),
        (lambda: Mean() + 1, TypeError, r"h\(0\) would not be 0"),
        (lambda: Mean() - 0.5, TypeError, r"h\(0\) would not be 0"),
        (lambda: Mean() * np.nan, ValueError, "finite"),
        (lambda: Mean() * "2", TypeError, "must be a number"),
        (lambda: Mean() / 0, ZeroDivisionError, "divided by 0"),
    ],
    ids=["product", "plus-constant", "minus-constant", "nan", "text", "zero"],
)
def test_meaningless_arithmetic_is_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


def test_equal_metrics_hash_alike_and_different_ones_differ():
    assert UpperCVaR(0.9) == UpperCVaR(0.9)
    assert hash(UpperCVaR(0.9)) == hash(UpperCVaR(0.9))
    assert UpperCVaR(0.9) != UpperCVaR(0.8)
    assert UpperCVaR(0.5) != VaR(0.5)
    assert UpperCVaR(0.5) != 0.5
    assert len({*METRICS, *METRICS}) == len(METRICS)


# ---- data --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("m", METRICS, ids=label)
def test_a_metric_survives_json(m):
    again = Distortion.from_dict(json.loads(json.dumps(m.to_dict())))
    assert again == m
    assert type(again) is type(m)
    assert again.parameters == m.parameters


@few
@given(hs.lists(hs.tuples(hs.floats(-5, 5), any_metric), min_size=0, max_size=4), weighted_samples())
def test_a_combination_survives_json(terms, sample):
    m = sum((c * d for c, d in terms), 0 * Mean())
    again = Distortion.from_dict(json.loads(json.dumps(m.to_dict())))
    assert again == m
    assert again.value(sample[0], weights=sample[1]) == m.value(sample[0], weights=sample[1])


@few
@given(hs.floats(0, 1, exclude_max=True))
def test_parameters_survive_json_to_the_last_bit(c):
    again = Distortion.from_dict(json.loads(json.dumps(UpperCVaR(c).to_dict())))
    assert again.c == c


@few
@given(hs.lists(hs.tuples(coefficients, hs.sampled_from(METRICS)), min_size=1, max_size=4))
def test_text_and_arithmetic_build_the_same_metric(terms):
    pieces = []
    for c, d in terms:
        inside = ", ".join(f"{k}={v!r}" for k, v in d.parameters.items())
        pieces.append(f"{'-' if c < 0 else '+'} {abs(c)!r}*{d.name}({inside})")
    assert metric(" ".join(pieces)) == sum((c * d for c, d in terms), 0 * Mean())


def test_what_is_a_distortion_risk_measure():
    """``sec: risk_application``: h(1) = 1; and h must not fall, which the paper does not say."""
    yes = [pmb.Mean(), pmb.UpperCVaR(0.9), pmb.PHT(0.5), pmb.DualPower(2), pmb.Quadratic(0.5), pmb.LowerCVaR(0.1)]
    no = [pmb.GiniDeviation(), pmb.WangRightTail(), 2 * pmb.Mean(), pmb.Mean() - 3 * pmb.GiniDeviation()]
    assert [metric.is_distortion_risk_measure for metric in (*yes, *no)] == [True] * len(yes) + [False] * len(no)
    assert float(no[-1](1.0)) == 1.0  # h(1) = 1 alone is not enough
