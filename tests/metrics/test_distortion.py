"""The distortions themselves: values, derivatives, shapes, extrema, Hölder pairs, names and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.metrics import (
    PHT,
    Distortion,
    DualPower,
    GiniDeviation,
    GiniShortfall,
    InterESRange,
    InterQuantileRange,
    InvertedS,
    LowerCVaR,
    Mean,
    MeanMedianDeviation,
    Quadratic,
    TsallisPastEntropy,
    TverskyKahneman,
    UpperCVaR,
    VaR,
    WangRightTail,
    WangTransform,
    metric,
)
from pmbandits.metrics.families import FAMILIES
from pmbandits.metrics.names import REGISTRY
from pmbandits.supports import Binary, Finite, Interval, Real
from tests.reference.choquet import exact_co, exact_h
from tests.strategies import METRICS, ONE_EACH, SMOOTH, brute_monotonicity, brute_shape, label

all_metrics = pytest.mark.parametrize("m", METRICS, ids=label)
smooth_metrics = pytest.mark.parametrize("m", SMOOTH, ids=label)


def corners(m):
    return np.array([u for u, _ in (*m.kinks, *m.jumps)])


def away_from_corners(m, u, distance):
    places = corners(m)
    return u if places.size == 0 else u[np.abs(u[:, None] - places).min(axis=1) > distance]


# ---- h -----------------------------------------------------------------------------------------------------
def test_the_list_of_metrics_covers_every_family_that_the_package_defines():
    assert {cls for cls in REGISTRY.values() if cls.is_built_in()} == set(FAMILIES)
    assert all(getattr(pmb, cls.__name__) is cls for cls in FAMILIES)
    assert {type(m) for m in METRICS} == set(FAMILIES)
    assert len(ONE_EACH) == len(FAMILIES) >= 17


@all_metrics
def test_h_starts_at_zero(m):
    assert m(0.0) == 0.0


@all_metrics
def test_h_matches_its_formula_in_high_precision(m):
    u = np.array([1e-20, 1e-9, 1e-4, 0.013, 0.21, 0.47, 0.63, 0.88, 0.9993, 1 - 2.0**-30, 1.0])
    expected = [exact_h(m.name, m.parameters, x) for x in u]
    np.testing.assert_allclose(m(u), expected, rtol=1e-12, atol=1e-15)  # beside 1 it is co that keeps digits
    np.testing.assert_allclose(m(u[:5]), expected[:5], rtol=1e-12, atol=1e-300)


@all_metrics
def test_co_is_the_drop_from_one_wherever_one_minus_v_is_exact(m):
    rng = np.random.default_rng(1)
    v = np.concatenate((rng.integers(0, 2**30, 300) / 2**30, [0.0, 0.25, 0.5, 1.0]))
    with np.errstate(all="ignore"):
        got = m._negative_dual_h(v)
    np.testing.assert_allclose(got, m(1.0 - v) - m(1.0), rtol=0, atol=1e-14)


@all_metrics
def test_co_keeps_its_digits_for_tiny_probabilities(m):
    v = np.array([1e-20, 1e-15, 1e-9, 1e-4, 0.02, 0.31])
    expected = [exact_co(m.name, m.parameters, x) for x in v]
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(m._negative_dual_h(v), expected, rtol=1e-12, atol=1e-300)


@all_metrics
def test_an_array_of_any_shape_gives_an_array_of_that_shape_and_a_number_a_float(m):
    u = np.linspace(0, 1, 6).reshape(2, 3)
    assert m(u).shape == (2, 3)
    assert m.derivative(u).shape == (2, 3)
    assert type(m(0.5)) is float
    assert type(m.derivative(0.5)) is float


# ---- derivatives -------------------------------------------------------------------------------------------
@all_metrics
def test_derivative_agrees_with_central_differences(m):
    u = away_from_corners(m, np.random.default_rng(2).uniform(0.01, 0.99, 400), 1e-4)
    step = 1e-6
    slope = (m(u + step) - m(u - step)) / (2 * step)
    np.testing.assert_allclose(m.derivative(u), slope, rtol=2e-6, atol=2e-8)


@all_metrics
def test_second_derivative_agrees_with_differences_of_the_first(m):
    u = away_from_corners(m, np.random.default_rng(3).uniform(0.02, 0.98, 400), 1e-4)
    step = 1e-5
    bend = (m.derivative(u + step) - m.derivative(u - step)) / (2 * step)
    np.testing.assert_allclose(m._d2h(u), bend, rtol=1e-4, atol=1e-6)


@all_metrics
def test_derivatives_of_co_mirror_those_of_h(m):
    v = 1.0 - away_from_corners(m, np.random.default_rng(4).integers(1, 2**20, 300) / 2**20, 1e-4)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(m._negative_dual_dh(v), -m.derivative(1.0 - v), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(m._negative_dual_d2h(v), m._d2h(1.0 - v), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("m", [PHT(0.5), WangRightTail(), InvertedS(0.5), TverskyKahneman(0.6), WangTransform(1.0)])
def test_slope_is_infinite_where_h_is_vertical_at_zero(m):
    assert m.derivative(0.0) == np.inf


def test_derivative_at_a_jump_is_infinite_with_the_sign_of_the_jump():
    iqr = InterQuantileRange(0.25, 0.75)
    assert iqr.derivative(0.25) == np.inf
    assert iqr.derivative(0.75) == -np.inf
    assert VaR(0.9).derivative(1 - 0.9) == np.inf
    assert VaR(0.9).derivative(0.5) == 0.0


@pytest.mark.parametrize(
    ("m", "u", "left"),
    [
        (UpperCVaR(0.75), 0.25, 4.0),
        (LowerCVaR(0.25), 0.75, 0.0),
        (MeanMedianDeviation(), 0.5, 1.0),
        (InterESRange(0.75), 0.25, 4.0),
        (InterESRange(0.75), 0.75, 0.0),
        (GiniShortfall(0.5, 0.25), 0.5, 1.0),
    ],
    ids=str,
)
def test_derivative_at_a_kink_is_the_left_one(m, u, left):
    assert m.derivative(u) == pytest.approx(left, abs=1e-14)


@pytest.mark.parametrize("alpha", [1 + 1e-7, 1 - 1e-7, 1 + 1e-9, 1 - 1e-12])
def test_tsallis_entropy_and_its_slope_are_continuous_in_alpha_at_one(alpha):
    near, at = TsallisPastEntropy(alpha), TsallisPastEntropy(1.0)
    u = np.linspace(0.01, 0.99, 50)
    gap = abs(alpha - 1) * 30
    np.testing.assert_allclose(near(u), at(u), rtol=0, atol=gap + 1e-14)
    np.testing.assert_allclose(near.derivative(u), at.derivative(u), rtol=0, atol=gap + 1e-9)
    assert near.maximum().at == pytest.approx(1 - np.exp(-1), abs=gap + 1e-7)


@all_metrics
def test_kinks_and_jumps_are_where_h_bends_and_steps_by_as_much(m):
    for place, height in m.jumps:
        assert m(place + 1e-9) - m(place - 1e-9) == pytest.approx(height, abs=1e-9)
    for place, bend in m.kinks:
        step = 1e-7
        right, left = (m(place + step) - m(place)) / step, (m(place) - m(place - step)) / step
        assert right - left == pytest.approx(bend, rel=1e-5, abs=1e-5)


# ---- shape and direction -----------------------------------------------------------------------------------
@all_metrics
def test_shape_agrees_with_second_differences(m):
    assert m.shape == brute_shape(m)


@all_metrics
def test_monotonicity_agrees_with_first_differences(m):
    assert m.monotonicity == brute_monotonicity(m)


@pytest.mark.parametrize(
    ("m", "shape", "direction"),
    [
        (GiniShortfall(0.9, 0.3), "concave", "increasing"),
        (GiniShortfall(0.9, 0.5), "concave", "increasing"),
        (GiniShortfall(0.9, 0.8), "neither", "neither"),
        (GiniShortfall(0.0, 0.8), "concave", "neither"),
        (GiniShortfall(0.0, 0.0), "linear", "increasing"),
        (Quadratic(0), "linear", "increasing"),
        (DualPower(1), "linear", "increasing"),
        (UpperCVaR(0), "linear", "increasing"),
        (LowerCVaR(1), "linear", "increasing"),
        (LowerCVaR(0.1), "convex", "increasing"),
        (PHT(1), "linear", "increasing"),
        (InvertedS(1), "linear", "increasing"),
        (WangTransform(0), "linear", "increasing"),
        (WangTransform(-0.5), "convex", "increasing"),
        (TverskyKahneman(1), "linear", "increasing"),
    ],
    ids=str,
)
def test_shape_at_edge_parameters(m, shape, direction):
    assert (m.shape, m.monotonicity) == (shape, direction)


@pytest.mark.parametrize(
    "m",
    [
        2 * InterQuantileRange(0.6, 0.6001),
        Mean() + InterQuantileRange(0.6, 0.6001),
        Mean() - 0.3 * InterQuantileRange(0.3141, 0.31412),
        VaR(0.3) - VaR(0.30001),
    ],
    ids=label,
)
def test_a_narrow_step_is_seen_by_the_shape_and_direction_of_a_combination(m):
    assert m.shape == "neither"
    assert m.monotonicity == "neither"


# ---- extrema -----------------------------------------------------------------------------------------------
@all_metrics
def test_extrema_on_random_intervals_are_attained_and_beat_a_dense_grid(m):
    rng = np.random.default_rng(5)
    intervals = [(0.0, 1.0), *(tuple(sorted(rng.uniform(0, 1, 2))) for _ in range(25)), (0.3, 0.3)]
    for lo, hi in intervals:
        h = m(np.linspace(lo, hi, 3001))
        top, bottom = m.maximum(lo, hi), m.minimum(lo, hi)
        for found in (top, bottom):
            assert lo <= found.at <= hi
            assert m(found.at) == found.value
        assert top.value >= h.max() - 1e-14
        assert bottom.value <= h.min() + 1e-14


@pytest.mark.parametrize(
    ("m", "at", "value"),
    [
        (GiniDeviation(), 0.5, 0.25),
        (WangRightTail(), 0.25, 0.25),
        (MeanMedianDeviation(), 0.5, 0.5),
        (TsallisPastEntropy(1), 1 - np.exp(-1), np.exp(-1)),
        (GiniShortfall(0.5, 1.0), 0.375, 0.75 + 2 * 0.75 * 0.25),
        (InterESRange(0.75), 0.25, 1.0),
    ],
    ids=str,
)
def test_maximum_at_its_known_place(m, at, value):
    top = m.maximum()
    assert top.at == pytest.approx(at, abs=1e-12)
    assert top.value == pytest.approx(value, abs=1e-14)


@pytest.mark.parametrize(
    ("m", "at"), [(UpperCVaR(0.75), 0.25), (GiniShortfall(0.75, 0.3), 0.25), (2 * UpperCVaR(0.75), 0.25)], ids=str
)
def test_the_least_maximiser_is_reported_on_a_plateau(m, at):
    assert m.maximum().at == pytest.approx(at, abs=1e-12)


@pytest.mark.parametrize("limits", [(-0.1, 1.0), (0.0, 1.1), (0.6, 0.4), (np.nan, 1.0)])
def test_extrema_refuse_limits_outside_the_unit_interval_or_out_of_order(limits):
    with pytest.raises(ValueError, match=r"lo|hi"):
        GiniDeviation().maximum(*limits)


def test_maximum_of_a_combination_with_a_jump_reaches_the_supremum():
    m = Mean() - VaR(0.5)
    assert m.maximum().value == pytest.approx(0.5, abs=1e-11)
    assert m.minimum().value == pytest.approx(-0.5, abs=1e-11)


def test_maximum_of_a_smooth_combination_is_accurate_in_place():
    m = Mean() + 3 * GiniDeviation()  # 4u − 3u²
    assert m.maximum().at == pytest.approx(2 / 3, abs=1e-12)
    assert m.maximum().value == pytest.approx(4 / 3, abs=1e-14)


# ---- Hölder pairs ------------------------------------------------------------------------------------------
HOLDER = [m for m in METRICS if not (m.jumps or (m.name == "inverted_s" and m.beta < 1))]
HOLDER += [
    InvertedS(8),
    InvertedS(50),
    InvertedS(1.01),
    WangTransform(4),
    DualPower(100),
    TsallisPastEntropy(1.01),
]
HOLDER += [0.7 * Mean() + 0.3 * UpperCVaR(0.9), Mean() - 0.5 * WangRightTail() + PHT(0.3), GiniDeviation() * 0]


@pytest.mark.parametrize("m", HOLDER, ids=label)
def test_holder_pair_bounds_h_pointwise_also_beside_the_ends(m):
    end = np.logspace(-16, -2, 57)
    rng = np.random.default_rng(6)
    u = np.unique(np.concatenate(([0, 1], end, 1 - end, np.linspace(0, 1, 201), rng.uniform(0, 1, 200))))
    pair = m.holder(Interval(0, 1))
    gap, change = np.abs(u[:, None] - u), np.abs(m(u)[:, None] - m(u))
    assert 0 < pair.q <= 1
    assert (change <= pair.constant * gap**pair.q + 1e-15).all()


@pytest.mark.parametrize("m", [m for m in HOLDER if m.holder(Interval(0, 1)).q == 1.0], ids=label)
def test_lipschitz_constant_is_not_below_the_steepest_slope(m):
    u = np.concatenate((np.linspace(1e-9, 1 - 1e-9, 400_001), np.logspace(-300, -3, 20_000)))
    assert np.abs(m.derivative(u)).max() <= m.holder(Real(1)).constant * (1 + 1e-12)


@pytest.mark.parametrize("m", HOLDER, ids=label)
def test_holder_pair_holds_on_random_pairs_of_distributions(m):
    rng = np.random.default_rng(7)
    support = Interval(-2, 3)
    pair = m.holder(support)
    for trial in range(60):
        n = int(rng.integers(2, 8))
        x, y = rng.uniform(-2, 3, n), rng.uniform(-2, 3, n)
        p, q = rng.dirichlet(np.full(n, 0.3)), rng.dirichlet(np.full(n, 0.3))
        if trial % 4 == 1:  # close to one another
            y, q = np.clip(x + rng.normal(0, 10.0 ** -rng.integers(1, 9), n), -2, 3), p
        elif trial % 4 == 2:  # a little mass moved over the whole support
            tiny = 10.0 ** -rng.integers(1, 12)
            x, y = np.array([-2.0, 3.0]), np.array([-2.0, 3.0])
            p, q = np.array([1.0, 0.0]), np.array([1 - tiny, tiny])
        elif trial % 4 == 3:
            tiny = 10.0 ** -rng.integers(1, 12)
            x, y = np.array([-2.0, 3.0]), np.array([-2.0, 3.0])
            p, q = np.array([0.0, 1.0]), np.array([tiny, 1 - tiny])
        distance = st.wasserstein_distance(x, y, p, q) + 5e-15  # scipy's own rounding: a few ulp times the width
        change = abs(m.value(x, weights=p) - m.value(y, weights=q))
        assert change <= pair.constant * distance**pair.q * (1 + 1e-9) + 1e-13


@pytest.mark.parametrize(
    ("m", "q", "constant"),
    [
        (Mean(), 1.0, 1.0),
        (DualPower(3), 1.0, 3.0),
        (Quadratic(0.4), 1.0, 1.4),
        (UpperCVaR(0.75), 1.0, 4.0),
        (PHT(0.25), 0.25, 4**0.75),
        (MeanMedianDeviation(), 1.0, 1.0),
        (InterESRange(0.5), 1.0, 2.0),
        (WangRightTail(), 0.5, 2.0),
        (GiniDeviation(), 1.0, 1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("support", [Interval(-1, 3), Finite([0, 1, 4])], ids=repr)
def test_holder_pairs_of_the_papers_table(m, q, constant, support):
    pair = m.holder(support)
    assert (pair.q, pair.constant) == (q, constant)


def test_holder_constant_on_a_binary_support_has_width_one():
    assert WangRightTail().holder(Binary()).constant == 1.0


@pytest.mark.parametrize(
    "m", [VaR(0.9), InterQuantileRange(), InvertedS(0.5), 2 * VaR(0.9), Mean() + VaR(0.9)], ids=str
)
def test_metrics_without_a_holder_pair_say_so_and_why(m):
    with pytest.raises(ValueError, match=r"Hölder pair.*(jumps|every power)"):
        m.holder(Interval(0, 1))


@pytest.mark.parametrize(
    "m", [PHT(0.5), WangRightTail(), WangTransform(1.0), TverskyKahneman(0.61), Mean() + PHT(0.5)], ids=str
)
def test_metrics_that_need_a_bounded_support_say_so_on_the_real_line(m):
    with pytest.raises(ValueError, match=r"unbounded support"):
        m.holder(Real(1))


def test_lipschitz_metrics_have_a_pair_on_the_real_line():
    assert (GiniDeviation().holder(Real(1)).q, GiniDeviation().holder(Real(3.0)).constant) == (1.0, 1.0)


# ---- functions of the user ---------------------------------------------------------------------------------
def test_a_function_of_the_user_behaves_like_the_named_metric_it_equals():
    mine = Distortion.from_function(lambda u: u * (1 - u), name="mine", holder=(1.0, 1.0))
    named = GiniDeviation()
    u = np.linspace(0, 1, 101)
    np.testing.assert_allclose(mine(u), named(u), atol=1e-15)
    np.testing.assert_allclose(mine.derivative(u[1:-1]), named.derivative(u[1:-1]), atol=1e-8)
    assert (mine.shape, mine.monotonicity) == ("concave", "neither")
    assert mine.maximum().at == pytest.approx(0.5, abs=1e-7)
    assert mine.holder(Interval(0, 1)) == named.holder(Interval(0, 1))
    assert mine.value(st.t(3)) == pytest.approx(named.value(st.t(3)), rel=1e-9)
    assert mine.value([3.0, -1.0, 4.0]) == pytest.approx(named.value([3.0, -1.0, 4.0]), rel=1e-14)


def test_a_function_that_takes_single_numbers_only_is_accepted():
    mine = Distortion.from_function(lambda u: min(u, 0.5), name="capped")
    assert mine(np.array([0.2, 0.9])).tolist() == [0.2, 0.5]
    assert mine.shape == "concave"
    assert mine.value([0.0, 2.0]) == pytest.approx(1.0)


def test_a_given_derivative_is_used():
    mine = Distortion.from_function(lambda u: u**2, derivative=lambda u: 2 * u)
    assert mine.derivative(0.3) == 0.6
    scalar_only = Distortion.from_function(lambda u: u**2, derivative=lambda u: 2 * u if u > 0 else 0.0)
    assert scalar_only.derivative(np.array([0.0, 0.25])).tolist() == [0.0, 0.5]


@pytest.mark.parametrize(
    ("function", "shape", "direction"),
    [
        (lambda u: 3 * u, "linear", "increasing"),
        (lambda u: -(u**2), "concave", "decreasing"),
        (lambda u: u**3, "convex", "increasing"),
        (lambda u: np.sin(7 * u), "neither", "neither"),
        (lambda u: 0 * u, "linear", "constant"),
    ],
    ids=["line", "minus-square", "cube", "sine", "zero"],
)
def test_shape_and_direction_of_a_function_are_found(function, shape, direction):
    mine = Distortion.from_function(function)
    assert (mine.shape, mine.monotonicity) == (shape, direction)


def _raises(u):
    raise RuntimeError("no answer")


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda u: u + 0.1, ValueError, r"h\(0\) = 0\.1"),
        (lambda u: np.where(u > 0.5, np.nan, u), ValueError, "not finite at u = 0.5"),
        (lambda u: np.log(u), ValueError, "not finite at u = 0"),
        (lambda u: 1 / (1 - u) - 1, ValueError, "not finite at u = 1|failed"),
        (_raises, ValueError, "failed on .*no answer"),
        (lambda u: "text", ValueError, "failed on"),
        (lambda u: [1.0, 2.0], ValueError, "one number for each u"),
        ("u**2", TypeError, "needs a function"),
        (None, TypeError, "needs a function"),
    ],
    ids=["h0", "nan", "minus-infinity", "infinity", "raises", "text", "two-numbers", "string", "none"],
)
def test_bad_functions_are_refused_with_the_reason(function, error, message):
    with pytest.raises(error, match=message):
        Distortion.from_function(function, name="mine")


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.5, 1.0), (0.5, -1.0), (np.nan, 1.0)])
def test_a_bad_holder_pair_of_a_function_is_refused(pair):
    with pytest.raises(ValueError, match="holder"):
        Distortion.from_function(lambda u: u, holder=pair)


def test_a_holder_pair_that_does_not_hold_is_refused() -> None:
    with pytest.raises(ValueError, match=r"holder=\(1, 1\) .* 's'"):
        pmb.Distortion.from_function(np.sqrt, name="s", holder=(1, 1))
    assert pmb.Distortion.from_function(np.sqrt, name="s", holder=(0.5, 1)).holder(pmb.Binary()).q == 0.5


def test_a_function_without_a_holder_pair_says_how_to_give_one():
    with pytest.raises(ValueError, match=r"pass holder=\(q, C\)"):
        Distortion.from_function(lambda u: u**0.7 - u, name="mine").holder(Interval(0, 1))


def test_a_function_cannot_be_written_as_data():
    mine = Distortion.from_function(lambda u: u, name="mine")
    for m in (mine, Mean() + mine):
        with pytest.raises(ValueError, match=r"'mine' .*function"):
            m.to_dict()


# ---- names -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mean", Mean()),
        ("Mean", Mean()),
        (" mean ", Mean()),
        ("gini", GiniDeviation()),
        ("gini_deviation", GiniDeviation()),
        ("gini deviation", GiniDeviation()),
        ("iqr", InterQuantileRange()),
        ("inter_es_range", InterESRange(0.5)),
        ("upper_cvar(0.9)", UpperCVaR(0.9)),
        ("upper_cvar(c=0.9)", UpperCVaR(0.9)),
        ("UpperCVaR(c=.9)", UpperCVaR(0.9)),
        ("gini_shortfall(0.9, loading=0.2)", GiniShortfall(0.9, 0.2)),
        ("0.7*mean + 0.3*upper_cvar(0.9)", 0.7 * Mean() + 0.3 * UpperCVaR(0.9)),
        ("mean - 0.5*gini", Mean() - 0.5 * GiniDeviation()),
        ("-mean", -Mean()),
        ("1e-3*mean", 0.001 * Mean()),
        ("mean+mean", 2 * Mean()),
        ("wang_transform(-0.5)", WangTransform(-0.5)),
    ],
)
def test_metric_reads_names_aliases_and_sums(text, expected):
    assert metric(text) == expected


def test_metric_reads_what_metrics_print():
    for cls in FAMILIES:
        for one in (cls.example(), 0.25 * Mean() - 2 * cls.example()):
            assert metric(str(one)) == one


def test_metric_takes_parameters_by_name():
    assert metric("upper_cvar", c=0.9) == UpperCVaR(0.9)
    assert metric("lower-cvar", alpha=0.1) == LowerCVaR(0.1)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("ginni", "gini"), ("meen", "mean"), ("wang_righttail", "wang_right_tail")],
)
def test_an_unknown_name_suggests_the_nearest(text, nearest):
    with pytest.raises(ValueError, match=f"Did you mean '{nearest}'"):
        metric(text)


@pytest.mark.parametrize("text", ["cvar(0.9)", "CVaR", "cvarr(0.9)", "expected_shortfall(c=0.9)", "mean + es(0.5)"])
def test_a_name_that_says_no_tail_is_refused_with_both(text):
    with pytest.raises(ValueError, match=r"'upper_cvar\(0.9\)' .* 'lower_cvar\(0.1\)'"):
        metric(text)


def test_an_unknown_name_lists_what_there_is():
    with pytest.raises(ValueError, match=r"Known: mean, upper_cvar, .*dual_power"):
        metric("qqqqqq")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mean +", "cannot read the metric"),
        ("mean * 2", "cannot read the metric"),
        ("0.5*(mean)", "cannot read the metric"),
        ("upper_cvar(0.9) upper_cvar(0.8)", "cannot read the metric"),
        ("upper_cvar(high)", "'high' in the metric .* is not a number"),
        ("1..2*mean", "'1..2' in the metric .* is not a number"),
        ("upper_cvar()", "metric 'upper_cvar': .*missing a required argument: 'c'"),
        ("upper_cvar(0.9, 0.8)", "metric 'upper_cvar': too many positional arguments"),
        ("upper_cvar(q=0.9)", "metric 'upper_cvar': .*its parameters are: c"),
        ("upper_cvar(nan)", "CVaR c must be a finite number"),
        ("__import__('os').system('true')", "cannot read|unknown metric|not a number"),
    ],
)
def test_text_that_is_no_metric_is_refused(text, message):
    with pytest.raises(ValueError, match=message):
        metric(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("upper_cvar(0.9", "not closed"),
        ("upper_cvar:d=0.9", "no parameter 'd'; its parameters are: c"),
        ("upper_cvar", "missing a required"),
    ],
)
def test_wrong_parameters_in_text_are_refused_with_the_reason(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pmb.metric(text)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("upper_cvar", {"alpha": 0.9}, "its parameters are: c"),
        ("upper_cvar", {}, "missing a required argument: 'c'"),
        ("mean", {"c": 0.9}, "its parameters are: none"),
        ("pht", {"s": 0.5, "t": 1}, "its parameters are: s"),
    ],
)
def test_wrong_parameter_names_are_refused_with_the_right_ones(name, parameters, message):
    with pytest.raises(ValueError, match=message):
        metric(name, **parameters)
    with pytest.raises(ValueError, match=message):
        Distortion.from_dict({"name": name, **parameters})


def test_a_name_that_is_not_text_is_refused():
    with pytest.raises(TypeError, match="must be text"):
        metric(7)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], ValueError, "table with a 'name'"),
        ({}, ValueError, "table with a 'name'"),
        ({"name": 3}, ValueError, "table with a 'name'"),
        ({"name": "nope"}, ValueError, "unknown metric 'nope'"),
        ({"name": "sum"}, ValueError, "one entry 'terms'"),
        ({"name": "sum", "terms": [], "extra": 1}, ValueError, "one entry 'terms'"),
        ({"name": "sum", "terms": [{"weight": 1}]}, ValueError, "term 0 .* exactly 'weight' and 'metric'"),
        (
            {"name": "sum", "terms": [{"weight": "x", "metric": {"name": "mean"}}]},
            TypeError,
            "weight of term 0",
        ),
        ({"name": "upper_cvar", "c": "0.9"}, TypeError, "CVaR c must be a number"),
        ({"name": "upper_cvar", "c": None}, TypeError, "CVaR c must be a number"),
    ],
    ids=str,
)
def test_bad_data_is_refused(data, error, message):
    with pytest.raises(error, match=message):
        Distortion.from_dict(data)


# ---- bad input ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("build", "bad", "name"),
    [
        (DualPower, (0.9, -1, np.inf, np.nan), "DualPower s"),
        (Quadratic, (-0.1, 1.1, np.nan), "Quadratic s"),
        (UpperCVaR, (-0.1, 1.0, 1.5, np.nan), "UpperCVaR c"),
        (PHT, (0.0, 1.1, -1, np.nan), "PHT s"),
        (InterESRange, (0.0, 1.0, 2, np.nan), "InterESRange c"),
        (VaR, (0.0, 1.0, -1, np.nan), "VaR c"),
        (LowerCVaR, (0.0, 1.1, np.nan), "LowerCVaR alpha"),
        (lambda p: GiniShortfall(p, 0.1), (-0.1, 1.0, np.nan), "GiniShortfall p"),
        (lambda b: GiniShortfall(0.5, b), (-0.1, np.inf), "GiniShortfall loading"),
        (lambda a: InterQuantileRange(a, 0.9), (0.0, 1.0, np.nan), "InterQuantileRange lower"),
        (lambda b: InterQuantileRange(0.1, b), (0.0, 1.0, np.nan), "InterQuantileRange upper"),
        (InvertedS, (0.0, -1, np.inf), "InvertedS beta"),
        (TsallisPastEntropy, (0.0, -1, np.nan), "TsallisPastEntropy alpha"),
        (WangTransform, (np.inf, np.nan), "WangTransform shift"),
        (TverskyKahneman, (0.1, 1.01, np.nan), "TverskyKahneman gamma"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_parameters_out_of_range_are_refused_by_name(build, bad, name):
    for value in bad:
        with pytest.raises(ValueError, match=f"{name} must (lie in|be a finite number)"):
            build(value)
    for value in ("0.5", None, True, [0.5]):
        with pytest.raises(TypeError, match=f"{name} must be a number"):
            build(value)


def test_quantiles_out_of_order_are_refused():
    with pytest.raises(ValueError, match="lower < upper"):
        InterQuantileRange(0.7, 0.3)
    with pytest.raises(ValueError, match="lower < upper"):
        InterQuantileRange(0.5, 0.5)


@pytest.mark.parametrize("u", [-0.1, 1.1, np.nan, [0.5, 2.0], np.inf])
@pytest.mark.parametrize("m", [Mean(), UpperCVaR(0.5), Mean() - UpperCVaR(0.5)], ids=str)
def test_probabilities_outside_the_unit_interval_are_refused(m, u):
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]"):
        m(u)
    with pytest.raises(ValueError, match=r"probabilities in \[0, 1\]"):
        m.derivative(u)


def test_metrics_are_frozen():
    with pytest.raises(AttributeError):
        UpperCVaR(0.9).c = 0.5


@pytest.mark.parametrize("m", ONE_EACH, ids=label)
def test_every_metric_tells_its_formula_meaning_and_use(m):
    for text in (m.name, m.formula, m.meaning, m.use, type(m).__doc__):
        assert isinstance(text, str)
        assert text.strip()
    assert "In one sentence" in type(m).__doc__
    assert "Use it" in type(m).__doc__


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ({"shape": "convex"}, "is not convex"),
        ({"shape": "round"}, "unknown shape"),
        ({"shape": "concave", "derivative": lambda u: 0.9 - 2 * u}, "tangent there crosses the curve"),
        ({"shape": "concave", "derivative": lambda u: 1 - 1.9 * u}, "tangent there crosses the curve"),
        ({"shape": "concave", "derivative": lambda u: np.nan * u}, "at u = 0 it is nan"),
    ],
)
def test_a_shape_or_slope_that_does_not_hold_is_refused(stated: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Distortion.from_function(lambda u: u * (1 - u), name="mine", **stated)


@pytest.mark.parametrize(
    "derivative", [lambda u: 2 * u, lambda u: 1 - 2.02 * u, lambda u: np.where(u < 0.97, 1 - 2 * u, 0.0), np.ones_like]
)
def test_a_derivative_of_another_curve_is_refused_without_a_shape_too(derivative: Any) -> None:
    with pytest.raises(ValueError, match="derivative is not that of 'mine': between u ="):
        Distortion.from_function(lambda u: u * (1 - u), name="mine", derivative=derivative)


@pytest.mark.parametrize("m", ONE_EACH, ids=label)
def test_the_derivative_of_every_metric_passes_as_that_of_a_function(m: Distortion) -> None:
    mine = Distortion.from_function(m, derivative=m._dh)
    assert mine.derivative(0.31) == m.derivative(0.31)


def test_a_hidden_step_at_0_does_not_pass_as_a_finite_slope() -> None:
    with pytest.raises(ValueError, match="tangent there crosses the curve"):
        Distortion.from_function(lambda u: np.where(u > 0, 1.0, 0.0), shape="concave", derivative=lambda u: 0.0 * u)
