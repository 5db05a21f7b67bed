"""Compiled h, its extrema, KL limits and the normal quantile: against the Python metrics, scipy and 60 digits."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import pmbandits as pmb
from pmbandits.metrics import encoding
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.encoding import (
    FAMILY_NUMBERS,
    TABLE,
    encode_metric,
    extremum_location,
    extremum_value,
    h_max,
    h_min,
    h_slope,
    h_value,
    has_single_peak,
    has_table,
    is_multiple_of_one_family,
    n_extrema,
    one_family_value,
    peak_location,
)
from pmbandits.metrics.families import FAMILIES
from pmbandits.metrics.normal import normal_cdf, normal_quantile
from tests.strategies import METRICS, label

EXTRA = [
    pmb.DualPower(1.0000001),
    pmb.UpperCVaR(1e-9),
    pmb.PHT(0.01),
    pmb.InterESRange(0.999),
    pmb.VaR(0.7),
    pmb.LowerCVaR(1e-3),
    pmb.GiniShortfall(0.99, 2.5),
    pmb.InvertedS(0.05),
    pmb.TsallisPastEntropy(1 + 1e-9),
    pmb.TsallisPastEntropy(0.05),
    pmb.WangTransform(-3.7),
    pmb.TverskyKahneman(0.45),
]
COMBINATIONS = [
    0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
    pmb.Mean() - 0.5 * pmb.GiniDeviation(),
    -1.0 * pmb.GiniDeviation(),
    3.0 * pmb.GiniDeviation(),
    pmb.GiniDeviation() - pmb.WangRightTail(),
    pmb.VaR(0.5) + pmb.Mean() - 2.0 * pmb.InterQuantileRange(0.2, 0.6),
    -2.0 * pmb.VaR(0.3),
    pmb.InvertedS(0.5) - pmb.PHT(0.4) + 0.25 * pmb.TverskyKahneman(0.6) - 1.5 * pmb.TsallisPastEntropy(1.0),
    sum(m for m in METRICS if not m.jumps),
    0.0 * pmb.Mean(),
    pmb.Mean() + pmb.MeanMedianDeviation(),
    2.0 * pmb.Mean() + pmb.MeanMedianDeviation(),  # concave; its only corner is not its top
    pmb.MeanMedianDeviation() - 2.0 * pmb.Mean(),
]
FUNCTIONS: dict[str, Callable] = {
    "power": lambda u: u**0.7 - u,
    "root": lambda u: np.sqrt(u) - u,
    "mirrored_root": lambda u: 1.0 - np.sqrt(1.0 - u),
    "wave": lambda u: np.sin(5.0 * u),
    "corner": lambda u: np.minimum(u, 0.3),
    "scalar_only": lambda u: math.log1p(u) if u < 0.5 else math.log1p(u) * 1.0,
    "line": lambda u: -2.0 * u,
}
CUSTOM = [pmb.Distortion.from_function(f, name) for name, f in FUNCTIONS.items()]
MIXED = [0.5 * CUSTOM[0] + pmb.UpperCVaR(0.8), CUSTOM[3] - 2.0 * CUSTOM[1] + pmb.GiniDeviation()]
NAMED = [*METRICS, *EXTRA, *COMBINATIONS]
EVERY = [*NAMED, *CUSTOM, *MIXED]


def probabilities(metric: Distortion, seed: int = 0) -> np.ndarray:
    """Random u, tiny u, u near 1, and both sides of every corner and jump."""
    rng = np.random.default_rng(seed)
    marks = [u for u, _ in (*metric.kinks, *metric.jumps)]
    beside = [m + d for m in marks for d in (-1e-6, -1e-11, -1e-13, 0.0, 1e-13, 1e-11, 1e-6)]
    parts = ([0.0, 1.0, 0.5], rng.random(400), 10.0 ** rng.uniform(-300, -1, 300), 10.0 ** rng.uniform(-9, -2, 300))
    near_one = 1.0 - 10.0 ** rng.uniform(-16, -1, 300)
    return np.unique(np.clip(np.concatenate((*parts, near_one, beside)), 0.0, 1.0))


def compiled(packed: np.ndarray, u: np.ndarray) -> np.ndarray:
    return np.array([h_value(packed, float(x)) for x in u])


def scale(metric: Distortion) -> float:
    return max(1.0, sum(abs(c) * abs(d(np.linspace(0, 1, 101))).max() for c, d in metric.terms))


# ---- h ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", NAMED, ids=label)
def test_compiled_h_equals_the_metric_everywhere(metric):
    u = probabilities(metric)
    np.testing.assert_allclose(compiled(encode_metric(metric), u), metric(u), rtol=0, atol=2e-14 * scale(metric))


@pytest.mark.parametrize("metric", [m for m in NAMED if not m.jumps and len(m.terms) == 1], ids=label)
def test_compiled_h_keeps_relative_accuracy_for_tiny_u(metric):
    u = np.logspace(-300, -3, 200)
    expected = metric(u)
    normal = np.abs(expected) > 1e-290  # smaller numbers lose digits on both sides
    np.testing.assert_allclose(compiled(encode_metric(metric), u)[normal], expected[normal], rtol=1e-11)


@pytest.mark.parametrize("metric", [*CUSTOM, *MIXED], ids=label)
def test_a_function_is_tabulated_to_one_in_a_million(metric):
    u = probabilities(metric)
    np.testing.assert_allclose(compiled(encode_metric(metric), u), metric(u), rtol=0, atol=1e-6)


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_h_outside_the_unit_interval_is_h_at_its_ends(metric):
    packed = encode_metric(metric)
    assert h_value(packed, -1e-9) == h_value(packed, 0.0) == 0.0
    assert h_value(packed, 1.0 + 1e-9) == h_value(packed, 1.0) == pytest.approx(metric(1.0), abs=1e-12)


def test_every_family_has_its_own_number():
    assert set(FAMILY_NUMBERS) == set(FAMILIES)
    assert len(set(FAMILY_NUMBERS.values())) == len(FAMILIES) >= 17
    assert TABLE not in FAMILY_NUMBERS.values()
    assert {type(m) for m in METRICS} == set(FAMILY_NUMBERS), "the tests above must cover every family"


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), 0.25 * pmb.UpperCVaR(0.9) + 0.75 * CUSTOM[0]], ids=label)
def test_a_packed_metric_is_one_plain_array_of_finite_numbers(metric):
    packed = encode_metric(metric)
    assert packed.dtype == np.float64
    assert packed.ndim == 1
    assert packed.flags.c_contiguous
    assert np.isfinite(packed).all()


# ---- extrema of h -----------------------------------------------------------------------------------------


def intervals(metric: Distortion, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    wide = np.sort(rng.random((120, 2)), axis=1)
    narrow = np.clip(rng.random((60, 1)) + np.array([0.0, 1.0]) * 10.0 ** rng.uniform(-9, -1, (60, 1)), 0, 1)
    ends = np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 1e-9], [1 - 1e-9, 1.0], [0.3, 0.3]])
    marks = [u for u, _ in (*metric.kinks, *metric.jumps)]
    around = [[max(m - a, 0), min(m + b, 1)] for m in marks for a in (0.0, 1e-6, 0.1) for b in (0.0, 1e-6, 0.1)]
    return np.concatenate((wide, narrow, ends, np.array(around).reshape(-1, 2)))


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_extrema_on_intervals_equal_those_of_the_metric(metric):
    packed = encode_metric(metric)
    tolerance = 1e-6 if any(d in CUSTOM for _, d in metric.terms) else 2e-14 * scale(metric)
    for lo, hi in intervals(metric, 2):
        assert h_max(packed, lo, hi) == pytest.approx(metric.maximum(lo, hi).value, rel=0, abs=tolerance)
        assert h_min(packed, lo, hi) == pytest.approx(metric.minimum(lo, hi).value, rel=0, abs=tolerance)


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_extrema_on_intervals_enclose_a_dense_scan_and_are_reached(metric):
    packed = encode_metric(metric)
    tolerance = 1e-6 if any(d in CUSTOM for _, d in metric.terms) else 1e-12 * scale(metric)
    for lo, hi in intervals(metric, 3)[:60]:
        y = metric(np.linspace(lo, hi, 4001))
        top, bottom = h_max(packed, lo, hi), h_min(packed, lo, hi)
        assert top >= y.max() - tolerance
        assert bottom <= y.min() + tolerance
        if not metric.jumps:
            slack = np.abs(np.diff(y)).max() + tolerance  # a scan may step over the top
            assert top <= y.max() + slack
            assert bottom >= y.min() - slack


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.VaR(0.5), CUSTOM[3]], ids=label)
def test_extrema_clip_the_interval_to_probabilities(metric):
    packed = encode_metric(metric)
    assert h_max(packed, -0.5, 1.5) == h_max(packed, 0.0, 1.0)
    assert h_min(packed, -0.5, 0.25) == h_min(packed, 0.0, 0.25)
    assert h_max(packed, 0.4, 0.3) == h_value(packed, 0.4), "an empty interval is its lower end"


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_the_extrema_of_a_packed_metric_are_its_critical_points_and_h_there(metric):
    packed = encode_metric(metric)
    places = sorted(set(metric._critical_points()))
    assert [extremum_location(packed, m) for m in range(n_extrema(packed))] == places
    assert [extremum_value(packed, m) for m in range(n_extrema(packed))] == [metric(u) for u in places]
    if has_single_peak(packed):
        assert metric.shape == "concave"
        assert peak_location(packed) == places[0] == metric.maximum().at


@pytest.mark.parametrize(
    ("metric", "place"),
    [
        (pmb.GiniDeviation(), 0.5),
        (3.0 * pmb.GiniDeviation(), 0.5),
        (pmb.WangRightTail(), 0.25),
        (pmb.UpperCVaR(0.75), 0.25),
        (pmb.Mean(), None),
        (-1.0 * pmb.GiniDeviation(), None),
        (pmb.InterESRange(0.75), None),  # flat between two corners
        (2.0 * pmb.Mean() + pmb.MeanMedianDeviation(), None),  # its one corner is not its top
    ],
    ids=str,
)
def test_a_single_peak_is_recognised(metric, place):
    packed = encode_metric(metric)
    assert has_single_peak(packed) == (place is not None)
    if place is not None:
        assert peak_location(packed) == pytest.approx(place, abs=1e-15)


# ---- what else is read from a packed metric -----------------------------------------------------------------


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_a_single_family_is_told_from_sums_and_tables_and_has_the_same_values(metric):
    packed = encode_metric(metric)
    parts = [d for _, d in metric.terms]
    assert has_table(packed) == any(d in CUSTOM for d in parts)
    assert is_multiple_of_one_family(packed) == (len(parts) == 1 and parts[0] not in CUSTOM)
    if is_multiple_of_one_family(packed):
        for u in (-0.1, *probabilities(metric)[::7], 1.1):
            assert one_family_value(packed, float(u)) == h_value(packed, float(u))


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_slope_is_the_difference_quotient_within_the_unit_interval(metric):
    packed = encode_metric(metric)
    for u in (0.0, 1e-12, 0.2, 0.5, 0.83, 1.0):
        for e in (1e-9, 1e-3, 0.3):
            lo, hi = max(u - e, 0.0), min(u + e, 1.0)
            quotient = (h_value(packed, hi) - h_value(packed, lo)) / (hi - lo)
            assert h_slope(packed, u, e) == pytest.approx(quotient, rel=1e-6, abs=1e-6 * scale(metric))


def test_the_slope_of_the_gini_deviation_is_exact():
    assert h_slope(encode_metric(3.0 * pmb.GiniDeviation()), 0.25, 1e-9) == 3.0 * (1.0 - (0.25 - 1e-9) - (0.25 + 1e-9))


# ---- the normal distribution ---------------------------------------------------------------------------------------


def test_normal_quantile_equals_scipys():
    rng = np.random.default_rng(5)
    parts = (rng.random(2000), 10.0 ** rng.uniform(-300, -1, 1000), 1.0 - 10.0 ** rng.uniform(-16, -1, 500))
    borders = [0.075, 0.925, math.exp(-25), 1 - math.exp(-25), 0.5, 5e-324]  # where AS241 changes its formula
    p = np.concatenate((*parts, borders))
    ours = np.array([normal_quantile(x) for x in p])
    np.testing.assert_allclose(ours, ndtri(p), rtol=2e-14, atol=1e-15)
    assert normal_quantile(0.0) == -math.inf
    assert normal_quantile(1.0) == math.inf


def test_normal_cdf_equals_scipys_and_undoes_the_quantile():
    x = np.linspace(-37.0, 8.0, 901)
    np.testing.assert_allclose([normal_cdf(v) for v in x], ndtr(x), rtol=1e-12)
    for p in (1e-200, 1e-9, 0.2, 0.5, 0.999):
        assert normal_cdf(normal_quantile(p)) == pytest.approx(p, rel=1e-11)


def test_a_table_is_read_as_straight_lines_between_its_points() -> None:
    h = encode_metric(Distortion.from_function(lambda u: np.sqrt(u) - np.where(u > 0.7, 0.3, 0.0), name="step"))
    u = np.concatenate((np.random.default_rng(0).random(2000), np.arange(4097) / 4096, [1e-300, 1e-12, 1 - 1e-16]))
    start = encoding._HEAD + encoding._TERM + 2 * n_extrema(h)
    table = h[start : start + 2 * int(h[encoding._N_POINTS])].reshape(-1, 2)
    read = np.array([h_value(h, float(x)) for x in u])
    np.testing.assert_allclose(read, np.interp(u, table[:, 0], table[:, 1]), rtol=0.0, atol=1e-15)
