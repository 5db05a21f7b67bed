"""The best and the worst value that a mixture may have: against brute force, convex programs, duals, closed forms."""

from __future__ import annotations

import itertools
import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.optimize import brentq

import pmbandits as pmb
from pmbandits.engine.certainty import mixture_utility_range
from pmbandits.metrics.distortion import Distortion
from tests.reference import confidence as ref
from tests.strategies import METRICS, ONE_EACH, label

UNIT = pmb.Interval(0, 1)
TABULATED = 1e-6  # what the compiled table of a user's function is good for
WAVE = pmb.Distortion.from_function(lambda u: np.sin(5.0 * u), "wave")
COMBINATIONS = [
    0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
    pmb.Mean() - 0.5 * pmb.GiniDeviation(),
    pmb.GiniDeviation() - pmb.WangRightTail(),
    -1.0 * pmb.WangRightTail(),
]
STEPS = [m for m in METRICS if m.jumps] + [-1.0 * pmb.VaR(0.3), pmb.VaR(0.5) + pmb.Mean()]
SMOOTH = [m for m in METRICS if not m.jumps] + COMBINATIONS
EVERY = [*SMOOTH, *STEPS, WAVE]
FEW = [
    pmb.GiniDeviation(),
    pmb.WangRightTail(),
    pmb.UpperCVaR(0.7),
    pmb.LowerCVaR(0.3),
    pmb.InvertedS(0.6),
    pmb.InvertedS(2.0),
    pmb.GiniShortfall(0.6, 0.8),
    pmb.VaR(0.6),
    pmb.InterQuantileRange(0.25, 0.75),
    pmb.GiniDeviation() - pmb.WangRightTail(),
    WAVE,
]

Rewards = list[list[float]]


class Own:
    """A set of one's own with radius r/√n."""

    def __init__(self, kind: str, radius: float) -> None:
        self.kind, self.scale, self.shape = kind, radius, kind

    def radius(self, n: Any) -> Any:
        n = np.asarray(n, dtype=float)
        return np.where(n > 0, self.scale / np.sqrt(np.maximum(n, 1)), np.inf)


def told(metric: Distortion, support: pmb.Support, rewards: Rewards, confidence: Any, **options: Any) -> pmb.Policy:
    """A policy that was told all rewards."""
    policy = pmb.CIRT(metric, n_arms=len(rewards), support=support, confidence=confidence, **options)
    for i, arm in enumerate(rewards):
        if arm:
            policy.tell([i] * len(arm), arm)
    return policy


def random_rewards(rng: np.random.Generator, arms: int, lo: float = 0.0, hi: float = 1.0) -> Rewards:
    shapes = rng.choice([0.4, 1.0, 4.0], (arms, 2))
    sizes = rng.integers(2, 25, arms)
    return [(lo + (hi - lo) * rng.beta(*shapes[i], sizes[i])).tolist() for i in range(arms)]


def cell_by_cell(support: pmb.Support, rewards: Rewards, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    points, survival = ref.distributions(support, rewards)
    return points, ref.mix(weights[None], survival)[0]


# ---- Bernoulli --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_bernoulli_bounds_are_the_extremes_over_the_box_of_means(metric):
    rng = np.random.default_rng(1)
    for k in range(12):
        arms = 2 + k % 2
        rewards = [(rng.random(int(rng.integers(1, 60))) < rng.random()).astype(float).tolist() for _ in range(arms)]
        policy = told(metric, pmb.Binary(), rewards, "auto", delta=0.1)
        weights = rng.dirichlet(np.ones(arms))
        low, middle, high = mixture_utility_range(
            policy._memory_with_radii(), weights
        )  # as policies have it while they play
        level = ref.Confidence("kl", pmb.Binary(), arms, 0.1)
        box = [ref.kl_interval(sum(r) / len(r), level.radius(len(r))) for r in rewards]
        for (a, b), estimate in zip(box, policy.estimates, strict=True):
            assert (estimate.low, estimate.high) == pytest.approx((a, b), abs=1e-12)
        means = np.array(list(itertools.product(*(np.linspace(a, b, 60 if arms == 2 else 16) for a, b in box))))
        values = metric(np.clip(means @ weights, 0, 1))
        tolerance = TABULATED if metric is WAVE else 1e-9
        assert values.max() <= high + tolerance
        assert values.min() >= low - tolerance
        line = metric(np.linspace(min(means @ weights), min(1.0, max(means @ weights)), 20_001))
        step = np.abs(np.diff(line)).max() if not metric.jumps else 1e-9
        assert high == pytest.approx(line.max(), rel=0, abs=step + tolerance)
        assert low == pytest.approx(line.min(), rel=0, abs=step + tolerance)
        expected = metric(float(weights @ [np.mean(r) for r in rewards]))
        assert middle == pytest.approx(expected, rel=0, abs=TABULATED if metric is WAVE else 1e-12)


@pytest.mark.parametrize("metric", FEW, ids=label)
@pytest.mark.parametrize("kind", ["band", "ball"])
def test_bernoulli_bands_and_balls_are_intervals_of_the_mean_too(metric, kind):
    rng = np.random.default_rng(2)
    for scale in (0.1, 0.5, 2.0):
        rewards = [(rng.random(int(rng.integers(1, 40))) < 0.6).astype(float).tolist() for _ in range(2)]
        weights = rng.dirichlet([1, 1])
        low, _, high = told(metric, pmb.Binary(), rewards, Own(kind, scale)).utility_bounds(weights)
        p = np.array([np.mean(r) for r in rewards])
        r = scale / np.sqrt([len(x) for x in rewards])
        ends = np.array([[weights @ np.maximum(p - r, 0)], [weights @ np.minimum(p + r, 1)]])
        for sign, ours in ((1, high), (-1, low)):
            expected = ref.extreme_over(metric, *ends, sign)[0]
            assert ours == pytest.approx(expected, rel=0, abs=TABULATED if metric is WAVE else 1e-9)


# ---- bands ------------------------------------------------------------------------------------------------


def band_edges(support: pmb.Support, rewards: Rewards, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points, each cell split in three, and every arm's lowest and highest survival there."""
    points, survival = ref.distributions(support, rewards)
    cells = np.diff(points)
    fine = np.unique(np.concatenate((points, points[:-1] + cells / 3, points[:-1] + 2 * cells / 3)))
    survival = survival[:, np.searchsorted(points, (fine[1:] + fine[:-1]) / 2, side="right") - 1]
    radii = scale / np.sqrt([[len(r)] for r in rewards])
    return fine, np.maximum(survival - radii, 0), np.minimum(survival + radii, 1)


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_band_bounds_equal_the_reference(metric):
    rng = np.random.default_rng(3)
    for support in (UNIT, pmb.Interval(-2, 3), pmb.Finite([-1, 0, 0.25, 2])):
        for delta in (0.3, 1e-3):
            if isinstance(support, pmb.Finite):
                rewards = [rng.choice(support.atoms, int(rng.integers(1, 60))).tolist() for _ in range(3)]
            else:
                rewards = random_rewards(rng, 3, support.lo, support.hi)
            policy = told(metric, support, rewards, "dkw", delta=delta)
            confidence = ref.Confidence("dkw", support, 3, delta)
            for weights in (rng.dirichlet(np.ones(3)), np.array([0.0, 0.5, 0.5]), np.array([0.0, 0.0, 1.0])):
                low, middle, high = policy.utility_bounds(weights)
                tolerance = TABULATED if metric is WAVE else 1e-10
                for sign, ours in ((1, high), (-1, low)):
                    expected = ref.bounds(metric, confidence, rewards, weights[None], sign)[0]
                    assert ours == pytest.approx(expected, rel=0, abs=tolerance * support.width)
                plain = ref.utility_loop(metric, support, rewards, weights.tolist())
                assert middle == pytest.approx(plain, rel=0, abs=tolerance * support.width)
                assert low <= middle + 1e-12
                assert middle <= high + 1e-12


@pytest.mark.parametrize("metric", FEW, ids=label)
def test_no_law_inside_the_bands_passes_the_bounds(metric):
    rng = np.random.default_rng(4)
    for support, scale in ((UNIT, 0.4), (pmb.Interval(-2, 3), 0.8), (UNIT, 1.5)):
        rewards = random_rewards(rng, 2, support.lo, support.hi)
        weights = rng.dirichlet([1, 1])
        low, _, high = told(metric, support, rewards, Own("band", scale)).utility_bounds(weights)
        points, bottom, top = band_edges(support, rewards, scale)
        cells = np.diff(points)
        for _ in range(100):
            guess = np.sort(rng.beta(*rng.choice([0.3, 1, 5], 2), bottom.shape), axis=1)[:, ::-1]
            curve = ref.mix(weights[None], np.clip(guess, bottom, top))[0]
            value = points[0] * metric(1.0) + cells @ metric(curve)
            assert low - 1e-6 * support.width <= value <= high + 1e-6 * support.width


def extreme_curve(metric: Distortion, bottom: np.ndarray, top: np.ndarray, sign: int) -> np.ndarray:
    """On each cell a place of [bottom, top] where sign·h is largest up to rounding; of several one that falls along x.

    The largest that is not above the place before leaves the most room for those that follow.
    """
    special, out = ref.special_points(metric), [1.0]
    for lo, hi in zip(bottom, top, strict=True):
        places = np.array([lo, *special[(lo < special) & (special < hi)], hi])
        values = sign * metric(places)
        best = places[values >= values.max() - 1e-12]
        falling = best[best <= out[-1] + 1e-9]
        out.append(float(falling.max() if falling.size else best.min()))
    return np.array(out[1:])


@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_band_bounds_of_one_arm_are_reached_by_a_law(metric):
    """On every cell the extreme of h over the band; where there are several, one that falls along x."""
    rng = np.random.default_rng(5)
    for scale in (0.2, 0.7):
        rewards = random_rewards(rng, 2, -1.0, 2.0)
        support = pmb.Interval(-1, 2)
        low, _, high = told(metric, support, rewards, Own("band", scale)).utility_bounds([1.0, 0.0])
        points, survival = ref.distributions(support, rewards[:1])
        radius = scale / math.sqrt(len(rewards[0]))
        bottom, top = np.maximum(survival[0] - radius, 0), np.minimum(survival[0] + radius, 1)
        for sign, ours in ((1, high), (-1, low)):
            best = extreme_curve(metric, bottom, top, sign)
            value = points[0] * metric(1.0) + np.diff(points) @ metric(best)
            tolerance = 3 * TABULATED if metric is WAVE else 1e-10
            assert ours == pytest.approx(value, rel=0, abs=tolerance)
            if not metric.jumps:
                assert (np.diff(best) <= 1e-7).all(), "the extreme curve must be a survival function"


@pytest.mark.parametrize("metric", [m for m in SMOOTH if m.monotonicity == "increasing"][::3], ids=label)
def test_band_bounds_of_increasing_metrics_are_reached_by_the_edges(metric):
    rng = np.random.default_rng(6)
    rewards, weights = random_rewards(rng, 3), rng.dirichlet(np.ones(3))
    low, _, high = told(metric, UNIT, rewards, Own("band", 0.5)).utility_bounds(weights)
    points, bottom, top = band_edges(UNIT, rewards, 0.5)
    for curves, ours in ((bottom, low), (top, high)):
        assert (np.diff(curves, axis=1) <= 1e-12).all()
        assert ours == pytest.approx(np.diff(points) @ metric(ref.mix(weights[None], curves)[0]), abs=1e-10)


def test_band_bounds_of_several_arms_are_not_below_the_convex_program():
    """Gini: the sup over laws of each arm, with each arm's survival falling, as a quadratic program."""
    rng = np.random.default_rng(7)
    metric = pmb.GiniDeviation()
    for scale in (0.1, 0.4, 1.0):
        rewards = [r[:10] for r in random_rewards(rng, 2)]
        weights = rng.dirichlet([2, 2])
        _, _, high = told(metric, UNIT, rewards, Own("band", scale)).utility_bounds(weights)
        points, survival = ref.distributions(UNIT, rewards)
        radii = scale / np.sqrt([[len(r)] for r in rewards])
        curves = cp.Variable(survival.shape)
        mixed, cells = weights @ curves, np.diff(points)
        rules = [curves >= np.maximum(survival - radii, 0), curves <= np.minimum(survival + radii, 1)]
        rules.append(curves[:, 1:] <= curves[:, :-1])
        problem = cp.Problem(cp.Maximize(cells @ (mixed - cp.square(mixed))), rules)
        problem.solve(solver=cp.CLARABEL)
        assert problem.value <= high + 1e-7
        assert problem.value >= 0.9 * high, "what the shared curve gives away stays small"


# ---- Wasserstein balls on a bounded support ---------------------------------------------------------------


def ball(metric: Distortion, rewards: Rewards, weights: np.ndarray, scale: float, support: pmb.Support) -> tuple:
    """Bounds, points, the mixture's survival, and the pooled radius."""
    bounds = told(metric, support, rewards, Own("ball", scale)).utility_bounds(weights)
    pooled = float(sum(a * scale / math.sqrt(len(r)) for a, r in zip(weights, rewards, strict=True) if a > 0))
    return bounds, *cell_by_cell(support, rewards, weights), pooled


def compare_with_dual(metric: Distortion, seed: int, tolerance: float = 1e-6) -> None:
    rng = np.random.default_rng(seed)
    for scale in (0.003, 0.05, 0.3, 1.0, 2.0):
        lo = float(rng.uniform(-2, 1))
        support = pmb.Interval(lo, lo + float(rng.choice([0.5, 1.0, 3.0])))
        rewards = random_rewards(rng, 2, support.lo, support.hi)
        weights = rng.dirichlet([1, 1])
        (low, _, high), points, curve, radius = ball(metric, rewards, weights, scale * support.width, support)
        for sign, ours in ((1, high), (-1, low)):
            expected = ref.dual_w1(metric, points, curve, radius, sign)
            assert ours == pytest.approx(expected, rel=0, abs=tolerance * support.width), (scale, sign)


@pytest.mark.parametrize("metric", SMOOTH, ids=label)
def test_ball_bounds_equal_the_dual(metric):
    compare_with_dual(metric, 8)


@pytest.mark.parametrize("metric", STEPS, ids=label)
def test_ball_bounds_of_metrics_that_jump_equal_the_dual(metric):
    compare_with_dual(metric, 9)


@pytest.mark.parametrize("seed", [10, 11])
def test_ball_bounds_of_a_users_function_equal_the_dual(seed):
    compare_with_dual(WAVE, seed)


ONE_WAY = [
    *((m, "sup") for m in [*ONE_EACH, *COMBINATIONS] if m.shape in ("concave", "linear")),
    *((m, "inf") for m in [pmb.LowerCVaR(0.3), pmb.WangTransform(-0.7), *COMBINATIONS] if m.shape == "convex"),
    (pmb.DualPower(3), "sup"),
    (pmb.Quadratic(0.6), "sup"),
    (pmb.UpperCVaR(0.8), "sup"),
    (pmb.PHT(0.5), "sup"),
    (pmb.GiniShortfall(0.6, 0.4), "sup"),
    (pmb.TsallisPastEntropy(1.0), "sup"),
    (pmb.WangTransform(0.5), "sup"),
]


@pytest.mark.parametrize(  # the dual, above, is compared for more metrics
    ("metric", "direction"),
    [one if k % 3 == 0 else pytest.param(*one, marks=pytest.mark.slow) for k, one in enumerate(ONE_WAY)],
    ids=lambda x: x if isinstance(x, str) else label(x),
)
def test_ball_bounds_equal_the_convex_program(metric, direction):
    rng = np.random.default_rng(12)
    for scale in (0.05, 0.3):
        rewards = [r[:4] for r in random_rewards(rng, 2)]
        weights = rng.dirichlet([1, 1])
        (low, _, high), _, _, radius = ball(metric, rewards, weights, scale, UNIT)
        atoms = np.concatenate(rewards)
        p = np.concatenate([np.full(len(r), a / len(r)) for a, r in zip(weights, rewards, strict=True)])
        expected = ref.convex_w1(metric, atoms, p, radius, 0.0, 1.0, direction, pieces=1, chords=1500)
        assert (high if direction == "sup" else low) == pytest.approx(expected, rel=0, abs=1e-5)


KINKED = [pmb.UpperCVaR(0.5), pmb.LowerCVaR(0.5), pmb.MeanMedianDeviation(), pmb.InterESRange(0.75)]
BOTH_WAYS = [pmb.GiniDeviation(), pmb.InvertedS(0.6), pmb.InvertedS(2.0), pmb.GiniShortfall(0.5, 0.8), pmb.VaR(0.5)]


@pytest.mark.parametrize("direction", ["sup", "inf"])
@pytest.mark.parametrize("metric", KINKED + BOTH_WAYS, ids=label)
def test_ball_bounds_equal_brute_force_on_small_supports(metric, direction):
    """Brute force moves whole cells of 1/64 only; the best law may split one of them, which is all it can lose."""
    rng = np.random.default_rng(13)
    for _ in range(2):
        rewards = [(rng.integers(0, 33, 4) / 32).tolist() for _ in range(2)]
        pooled = float(rng.integers(1, 9)) / 32
        (low, _, high), _, _, radius = ball(metric, rewards, np.array([0.5, 0.5]), 2 * pooled, UNIT)
        assert radius == pytest.approx(pooled)
        found = ref.search_w1(
            metric, np.concatenate(rewards), np.full(8, 1 / 8), pooled, 0, 1, direction, 64, 32, int(pooled * 64 * 32)
        )
        gain = high - found if direction == "sup" else found - low
        assert gain >= -1e-6, "brute force never passes the true extreme"
        assert gain <= (metric.maximum().value - metric.minimum().value) / 64 + 1e-9


@pytest.mark.parametrize("metric", [m for m in EVERY if m not in STEPS] + STEPS[:2], ids=label)
def test_no_laws_inside_the_balls_pass_the_bounds(metric):
    rng = np.random.default_rng(14)
    for scale in (0.1, 0.6):
        rewards, weights = random_rewards(rng, 2), rng.dirichlet([1, 1])
        (low, _, high), _, _, _ = ball(metric, rewards, weights, scale, UNIT)
        points, survival, _ = band_edges(UNIT, rewards, 0.0)
        cells = np.diff(points)
        radii = scale / np.sqrt([len(r) for r in rewards])
        for _ in range(60):
            aim = np.sort(rng.beta(*rng.choice([0.3, 1, 5], 2), survival.shape), axis=1)[:, ::-1]
            if rng.random() < 0.4:
                aim[:] = rng.choice([0.0, 0.25, 0.5, 1.0])
            share = np.minimum(1, radii / (np.abs(aim - survival) @ cells))[:, None]
            curve = ref.mix(weights[None], survival + share * (aim - survival))[0]
            assert low - 1e-6 <= cells @ metric(curve) <= high + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("metric", EVERY, ids=label)
def test_ball_bounds_widen_with_the_radius_from_the_value_to_the_whole_range(metric):
    rng = np.random.default_rng(15)
    support = pmb.Interval(-1, 2)
    rewards, weights = random_rewards(rng, 2, -1, 2), rng.dirichlet([1, 1])
    scales = np.concatenate(([0.0], np.geomspace(1e-6, 30, 25)))
    bounds, pooled = [], []
    for scale in scales:
        triple, _, _, radius = ball(metric, rewards, weights, scale, support)
        bounds.append(triple)
        pooled.append(radius)
    low, middle, high = np.array(bounds).T
    size = max(1.0, float(np.abs(metric(np.linspace(0, 1, 101))).max()))
    plain = ref.utility_loop(metric, support, rewards, weights.tolist())
    tolerance = 3e-6 if metric is WAVE else 1e-10 * size
    np.testing.assert_allclose(middle, plain, rtol=0, atol=tolerance)
    assert (low[0], high[0]) == pytest.approx((plain, plain), abs=tolerance)
    assert (np.diff(high) >= -1e-9 * size).all()
    assert (np.diff(low) <= 1e-9 * size).all()
    base = support.lo * metric(1.0)
    assert high[-1] == pytest.approx(base + support.width * metric.maximum().value, abs=tolerance)
    assert low[-1] == pytest.approx(base + support.width * metric.minimum().value, abs=tolerance)
    slope = np.diff(high) / np.diff(pooled)  # the sup is concave in the radius, the inf convex
    assert (np.diff(slope)[2:] <= 1e-6 * size).all()
    assert (np.diff(np.diff(low) / np.diff(pooled))[2:] >= -1e-6 * size).all()


@pytest.mark.parametrize("metric", [m for m in SMOOTH if not isinstance(m._holder_modulus_or_reason(), str)], ids=label)
def test_the_exact_width_is_never_above_the_holder_bound(metric):
    rng = np.random.default_rng(16)
    support = pmb.Interval(-1, 1.5)
    pair = metric.holder(support)
    for scale in (1e-3, 0.05, 0.4, 3.0):
        rewards, weights = random_rewards(rng, 2, -1, 1.5), rng.dirichlet([1, 1])
        (low, middle, high), _, _, radius = ball(metric, rewards, weights, scale, support)
        limit = pair.constant * radius**pair.q + 1e-9
        assert high - middle <= limit
        assert middle - low <= limit


def test_a_finite_support_gives_the_bounds_of_the_interval_around_it():
    rng = np.random.default_rng(17)
    atoms = np.array([-1.0, 0.0, 0.4, 2.0])
    rewards = [rng.choice(atoms, 15).tolist(), rng.choice(atoms, 9).tolist()]
    weights = np.array([0.3, 0.7])
    for metric in FEW:
        finite = told(metric, pmb.Finite(atoms), rewards, Own("ball", 0.7)).utility_bounds(weights)
        interval = told(metric, pmb.Interval(-1, 2), rewards, Own("ball", 0.7)).utility_bounds(weights)
        assert finite == pytest.approx(interval, abs=1e-9)


# ---- closed forms of the notes ----------------------------------------------------------------------------


def clipped(metric: Distortion, cells: np.ndarray, curve: np.ndarray, radius: float, window: Any) -> float:
    """Σ cells·h(clip(S, u⁻(λ), u⁺(λ))) with λ such that the whole radius is spent."""

    def spent(price: float) -> float:
        return float(cells @ np.abs(np.clip(curve, *window(price)) - curve)) - radius

    price = 0.0 if spent(0.0) <= 0 else brentq(spent, 0.0, 1e9, xtol=1e-14, rtol=1e-14, maxiter=500)
    return float(cells @ metric(np.clip(curve, *window(price))))


def gini_window(price: float) -> tuple[float, float]:
    return max((1 - price) / 2, 0.0), min((1 + price) / 2, 1.0)


def wang_window(price: float) -> tuple[float, float]:
    return (2 * (1 + price)) ** -2, 1.0 if price >= 0.5 else min(1.0, (2 * (1 - price)) ** -2)


def greedy_inf(metric: Distortion, cells: np.ndarray, curve: np.ndarray, radius: float) -> float:
    """Push cells to 0 or 1, best first (h(0) = h(1) = 0)."""
    to_zero = np.divide(metric(curve), curve, out=np.zeros_like(curve), where=curve > 0)
    to_one = np.divide(metric(curve), 1 - curve, out=np.zeros_like(curve), where=curve < 1)
    rate = np.maximum(to_zero, to_one)
    cost = cells * np.where(to_zero >= to_one, curve, 1 - curve)
    value, left = float(cells @ metric(curve)), radius
    for k in np.argsort(-rate):
        take = min(left, cost[k])
        value -= take * rate[k]
        left -= take
    return value


@pytest.mark.parametrize(
    ("metric", "window"), [(pmb.GiniDeviation(), gini_window), (pmb.WangRightTail(), wang_window)], ids=["gini", "wang"]
)
def test_ball_bounds_equal_the_closed_forms(metric, window):
    rng = np.random.default_rng(18)
    for scale in (1e-3, 0.02, 0.1, 0.3, 0.6, 1.0, 2.0):
        rewards, weights = random_rewards(rng, 3), rng.dirichlet(np.ones(3))
        (low, _, high), points, curve, radius = ball(metric, rewards, weights, scale, UNIT)
        cells = np.diff(points)
        assert high == pytest.approx(clipped(metric, cells, curve, radius, window), rel=0, abs=1e-9)
        assert low == pytest.approx(greedy_inf(metric, cells, curve, radius), rel=0, abs=1e-9)


def test_the_mean_moves_by_the_radius_until_the_support_ends():
    rewards = [[0.2, 0.6], [0.5, 0.7, 0.9, 0.7]]
    for scale in (0.01, 0.2, 5.0):
        (low, middle, high), _, _, radius = ball(pmb.Mean(), rewards, np.array([0.5, 0.5]), scale, UNIT)
        assert middle == pytest.approx(0.55)
        assert (low, high) == pytest.approx((max(0.55 - radius, 0), min(0.55 + radius, 1)), abs=1e-10)


# ---- the real line, and arms without rewards --------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "constant"),
    [
        (pmb.GiniDeviation(), 1.0),
        (pmb.Mean(), 1.0),
        (3.0 * pmb.GiniDeviation(), 3.0),
        (pmb.UpperCVaR(0.75), 4.0),
        (pmb.LowerCVaR(0.5), 2.0),
    ],
    ids=str,
)
def test_on_the_line_the_bounds_are_the_value_plus_and_minus_the_steepest_slope_times_the_radius(metric, constant):
    rng = np.random.default_rng(19)
    support = pmb.Real(1.5)
    rewards = [rng.normal(size=12).tolist(), rng.normal(3, 1, 7).tolist(), rng.normal(-5, 1, 30).tolist()]
    weights = np.array([0.2, 0.5, 0.3])
    low, middle, high = told(metric, support, rewards, "wasserstein", delta=0.1).utility_bounds(weights)
    confidence = ref.Confidence("wasserstein", support, 3, 0.1)
    pooled = sum(a * confidence.radius(len(r)) for a, r in zip(weights, rewards, strict=True))
    value = ref.utility_loop(metric, support, rewards, weights.tolist())
    assert (low, middle, high) == pytest.approx((value - constant * pooled, value, value + constant * pooled), rel=1e-9)


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.Mean(), pmb.UpperCVaR(0.75)], ids=str)
def test_on_the_line_the_upper_bound_is_approached_by_mass_far_away(metric):
    """A share η moved by r/η to the right costs r; its gain tends to h'(0)·r as η falls."""
    rewards = [[0.0, 1.0, 2.0], [1.0, 4.0]]
    weights, scale = np.array([0.5, 0.5]), 0.5
    _, _, high = told(metric, pmb.Real(1), rewards, Own("ball", scale)).utility_bounds(weights)
    radius = float(weights @ (scale / np.sqrt([3, 2])))
    share = 1e-5
    atoms = np.array([0.0, 1.0, 2.0, 1.0, 4.0, 4.0 + radius / share])
    masses = np.array([1 / 6, 1 / 6, 1 / 6, 1 / 4, 1 / 4 - share, share])
    reached = metric.value(atoms, masses)
    assert reached <= high + 1e-9
    assert reached == pytest.approx(high, abs=1e-3)


@pytest.mark.parametrize("metric", FEW, ids=label)
@pytest.mark.parametrize("kind", ["band", "ball"])
def test_an_arm_without_rewards_may_have_any_law(metric, kind):
    support = pmb.Interval(-1, 2)
    rewards: Rewards = [[0.0, 0.5, 1.5, 1.5], []]
    policy = told(metric, support, rewards, Own(kind, 0.2))
    alone = told(metric, support, rewards[:1], Own(kind, 0.2))
    assert policy.utility_bounds([1.0, 0.0]) == pytest.approx(alone.utility_bounds([1.0]), abs=1e-9)
    low, _, high = policy.utility_bounds([0.0, 1.0])
    base = -1 * metric(1.0)
    assert high == pytest.approx(base + 3 * metric.maximum().value, abs=3e-6)
    assert low == pytest.approx(base + 3 * metric.minimum().value, abs=3e-6)


def test_a_bernoulli_arm_without_rewards_may_have_any_mean():
    policy = told(pmb.GiniDeviation(), pmb.Binary(), [[1.0, 1.0, 0.0], []], "auto")
    assert policy.utility_bounds([0.0, 1.0]) == pytest.approx((0.0, 0.0, 0.25), abs=1e-12)
    estimate = policy.estimates[1]
    assert (estimate.low, estimate.high) == (0.0, 1.0)


def test_no_rewards_at_all_on_the_line_leave_everything_open():
    low, _, high = told(pmb.GiniDeviation(), pmb.Real(1), [[], []], "auto").utility_bounds([0.5, 0.5])
    assert (low, high) == (-math.inf, math.inf)


def test_reading_bounds_changes_nothing():
    rng = np.random.default_rng(20)
    policy = told(WAVE, UNIT, random_rewards(rng, 2), "wasserstein")
    before = policy._memory.words.tobytes()
    first = policy.utility_bounds([0.5, 0.5])
    assert policy.utility_bounds([0.5, 0.5]) == first
    assert policy._memory.words.tobytes() == before


def test_horizon_policies_use_the_horizon_form():
    rng = np.random.default_rng(21)
    rewards, weights = random_rewards(rng, 2), np.array([0.5, 0.5])
    for name in ("dkw", "wasserstein"):
        policy = pmb.PMUCB(
            pmb.GiniDeviation(), n_arms=2, support=UNIT, horizon=500, epsilon=0.25, confidence=name, delta=0.1
        )
        for i, arm in enumerate(rewards):
            policy.tell([i] * len(arm), arm)
        low, _, high = policy.utility_bounds(weights)
        confidence = ref.Confidence(name, UNIT, 2, 0.1, 500)
        for sign, ours in ((1, high), (-1, low)):
            expected = ref.bounds(pmb.GiniDeviation(), confidence, rewards, weights[None], sign)[0]
            assert ours == pytest.approx(expected, abs=1e-8)


def test_bounds_stay_right_beyond_the_first_table_of_radii():
    """Tables of radii and rewards begin with room for 256 and grow."""
    rng = np.random.default_rng(22)
    for support, name in ((pmb.Binary(), "kl"), (UNIT, "dkw"), (UNIT, "wasserstein")):
        rewards = [(rng.random(700) < 0.3).astype(float).tolist(), (rng.random(257) < 0.8).astype(float).tolist()]
        weights = np.array([0.4, 0.6])
        memory = told(pmb.WangRightTail(), support, rewards, name)._memory_with_radii()
        low, _, high = mixture_utility_range(memory, weights)
        confidence = ref.Confidence(name, support, 2)
        for sign, ours in ((1, high), (-1, low)):
            expected = ref.bounds(pmb.WangRightTail(), confidence, rewards, weights[None], sign)[0]
            assert ours == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("weights", [[0.5, 0.6], [1.2, -0.2], [1.0], [math.nan, 1.0]])
def test_weights_that_are_no_mixture_are_refused(weights):
    policy = told(pmb.GiniDeviation(), UNIT, [[0.5], [0.7]], "auto")
    with pytest.raises(ValueError, match="weights"):
        policy.utility_bounds(weights)
