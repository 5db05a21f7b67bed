"""Belts: the ends that compiled passes use, what they rely on, and that they hold at all times."""

from __future__ import annotations

import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence import bands, confidence_set
from pmbandits.confidence._kl_bands import fill_kl_band, kl_band_ends, max_kl_band_end_slopes, n_exact_kl_ends
from pmbandits.mixtures._optimistic_objectives import fill_optimistic_gradient
from pmbandits.state.fields import KL_BAND_ROW
from tests.reference import bands as slow
from tests.reference import convex
from tests.reference.confidence import Confidence, belts, bounds, distributions


def every_end(n: int, depth: float, stretched: bool, side: int = 64) -> tuple[np.ndarray, np.ndarray]:
    row, lower, upper = np.zeros(KL_BAND_ROW), np.empty(n + 1), np.empty(n + 1)
    fill_kl_band(n, depth / n, stretched, side, row)
    for k in range(n + 1):
        lower[k], upper[k] = kl_band_ends(k, n, row)
    return lower, upper


@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize(("n", "depth"), [(1, 4.0), (2, 9.0), (30, 12.0), (65, 3.0), (300, 16.0), (2000, 25.0)])
def test_ends_are_those_of_the_reference_and_never_inside_the_exact_ones(n, depth, stretched):
    side = n_exact_kl_ends(depth)
    lower, upper = every_end(n, depth, stretched, side)
    np.testing.assert_allclose((lower, upper), slow.belt(n, depth, stretched, side), rtol=0, atol=1e-12)
    exact = bands.kl_interval(np.arange(n + 1), n, depth)
    assert (lower <= exact[0] + 1e-13).all() and (upper >= exact[1] - 1e-13).all()
    share = np.arange(n + 1) / n
    # Not much wider, where nothing is stretched: 5 % of the distance, and less with more rewards.
    near = 1 - upper >= (1 - share) / 4
    assert (upper - share)[near].sum() <= 1.03 * (exact[1] - share)[near].sum() + 1e-12
    assert (np.diff(upper) >= -1e-13).all() and (np.diff(lower) >= -1e-13).all()
    np.testing.assert_allclose(lower, 1 - upper[::-1], rtol=0, atol=1e-13)


@pytest.mark.parametrize("stretched", [False, True])
def test_ends_move_no_further_than_the_lazy_argmax_allows(stretched):
    """The rules of ``mixtures/_lazy_argmax.py``: how far an end can rise and fall with m new rewards."""
    rng = np.random.default_rng(11)
    before, after = np.zeros(KL_BAND_ROW), np.zeros(KL_BAND_ROW)
    for _ in range(300):
        delta, n = 10 ** rng.uniform(-6, -0.3), int(10 ** rng.uniform(0, 5))
        m = 1 if rng.random() < 0.3 else max(1, int(n * 10 ** rng.uniform(-4, -1)))
        if stretched:
            depth, later = (float(bands.anytime_threshold(size, delta)) for size in (n, n + m))
        else:
            depth, later = (math.log(6 * math.sqrt(size) / delta) for size in (n, n + m))
        side = n_exact_kl_ends(later)
        fill_kl_band(n, depth / n, stretched, side, before)
        fill_kl_band(n + m, later / (n + m), stretched, side, after)
        share, shrunk = m / (n + m), 1 - (later / (n + m)) / (depth / n)
        for k in {*rng.integers(0, min(n, 90) + 1, 20), *(n - rng.integers(0, min(n, 90) + 1, 20)), n // 2}:
            p, (lower, upper), (up, down) = k / n, kl_band_ends(k, n, before), max_kl_band_end_slopes(k, n, before)
            for more in (0, m // 2, m):  # so many of the new rewards lie above
                low, high = kl_band_ends(k + more, n + m, after)
                assert high - upper <= share * (1 - p) * up + 1e-13
                assert lower - low <= share * p * down + 1e-13
                assert upper - high <= share * upper + shrunk * (upper - p) + 1e-13
                assert low - lower <= share * (1 - lower) + shrunk * (p - lower) + 1e-13


def told(metric: Any, support: Any, sizes: tuple[int, ...] = (40, 90, 25), **options: Any) -> tuple[Any, list[Any]]:
    rng = np.random.default_rng(8)
    policy = pmb.Track(metric, n_arms=len(sizes), support=support, **options)
    data = [np.round(rng.beta(1 + i, 2, n), 1 if isinstance(support, pmb.Finite) else 12) for i, n in enumerate(sizes)]
    for arm, rewards in enumerate(data):
        policy.tell(arm, rewards)
    return policy, data


UNIT = pmb.Interval(0, 1)
ATOMS = pmb.Finite(np.arange(11) / 10)
TWO_CORNERS = pmb.LowerCVaR(0.3) + pmb.LowerCVaR(0.6)  # with one corner, bounds come from bets and not from the band


@pytest.mark.parametrize("support", [UNIT, ATOMS], ids=["interval", "finite"])
@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.WangRightTail(), TWO_CORNERS, pmb.InvertedS(0.7)])
def test_values_are_those_of_the_definition(metric, support):
    policy, data = told(metric, support)
    grid = np.random.default_rng(0).dirichlet(np.ones(3), 5)
    sets = Confidence(None, support, 3, 0.05)
    least, most = (bounds(metric, sets, data, grid, sign) for sign in (-1, 1))
    found = np.array([policy.utility_bounds(a) for a in grid])
    np.testing.assert_allclose(found[:, 0], least, rtol=0, atol=1e-10)
    np.testing.assert_allclose(found[:, 2], most, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("metric", "h"), [(pmb.GiniDeviation(), convex.gini()), (pmb.UpperCVaR(0.6), convex.upper_cvar(0.6))]
)
def test_for_one_arm_the_largest_value_is_that_of_the_best_law_inside(metric, h):
    policy, data = told(metric, ATOMS, (150,))
    points, survival = distributions(ATOMS, data)
    low, high = belts(Confidence(None, ATOMS, 1, 0.05), data, survival)[:, 0]
    curve = cp.Variable(low.size)
    cells, needed = h.program(curve)
    inside = [curve >= low, curve <= high, cp.diff(curve) <= 0, *needed]
    problem = cp.Problem(cp.Maximize(np.diff(points) @ cells), inside)
    problem.solve(solver=cp.CLARABEL)
    assert policy.utility_bounds([1.0])[2] == pytest.approx(problem.value + points[0] * metric(1.0), abs=1e-6)


@pytest.mark.parametrize("support", [UNIT, ATOMS], ids=["interval", "finite"])
@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.DualPower(3)], ids=repr)
def test_slopes_are_those_of_the_optimistic_value(metric, support):
    policy, _ = told(metric, support)
    memory, a, out = policy._memory_with_radii(), np.array([0.3, 0.5, 0.2]), np.empty(3)
    policy.utility_bounds(a)
    fill_optimistic_gradient(memory, a, np.zeros(a.size), 1e-6, out)
    for i, j in ((0, 1), (1, 2), (2, 0)):
        ahead = np.zeros(3)
        ahead[i], ahead[j] = 1e-5, -1e-5
        high, low = (policy.utility_bounds(a + side * ahead)[2] for side in (1, -1))
        assert (high - low) / 2e-5 == pytest.approx(out[i] - out[j], abs=2e-4)


def test_three_atoms_are_as_narrow_as_the_notes_say():
    """n = 1,000, p = .01: .018 from k/n to the upper end, where the band had .086."""
    chosen = confidence_set("auto", pmb.Finite([0, 1, 2]), 1, delta=0.05)
    assert bands.kl_interval(10, 1000, 1000 * chosen.radius(1000))[1] - 0.01 == pytest.approx(0.018, abs=0.001)
    assert confidence_set("dkw", pmb.Finite([0, 1, 2]), 1, delta=0.05).radius(1000) == pytest.approx(0.086, abs=0.001)


def test_on_beta_arms_the_bounds_are_much_closer_than_those_of_the_band():
    rng = np.random.default_rng(2)
    rewards = rng.beta(2, 5, 10_000)
    for metric, most in ((pmb.GiniDeviation(), 0.5), (pmb.WangRightTail(), 0.4), (pmb.UpperCVaR(0.9), 0.35)):
        width = {}
        for confidence in ("auto", "dkw"):
            policy = pmb.Track(metric, n_arms=1, support=UNIT, confidence=confidence)
            policy.tell(0, rewards)
            low, _, high = policy.utility_bounds([1.0])
            width[confidence] = high - low
        assert width["auto"] < most * width["dkw"]


def test_sketches_and_bins_widen_the_ends():
    metric, data = pmb.GiniDeviation(), np.random.default_rng(3).beta(2, 5, 20_000)
    found = {}
    for estimates in ("exact", "binned:2000", "sketch:2048"):
        policy = pmb.Track(metric, n_arms=1, support=UNIT, estimates=estimates)
        policy.tell(0, data)
        found[estimates] = policy.utility_bounds([1.0])
    low, middle, high = found["exact"]
    for estimates in ("binned:2000", "sketch:2048"):
        ours = found[estimates]
        assert ours[0] <= low + 1e-3 and ours[2] >= high - 1e-3 and abs(ours[1] - middle) < 2e-3
        assert ours[2] - ours[0] < 1.6 * (high - low)
    # Rounding is worth its size times the total variation of h, ½ for Gini's deviation.
    binned = pmb.CIRT(metric, n_arms=1, support=UNIT, estimates="binned:100")
    assert binned._memory.rounding_utility_bound == pytest.approx(0.005 * 0.5)


# ---- at all times -----------------------------------------------------------------------------------------
LOOKS = np.unique(np.concatenate((np.arange(1, 60), np.geomspace(60, 3000, 120).astype(int))))


def ever_outside(sample: Any, survival: Any, support: Any, delta: float, runs: int, scale: float = 1.0) -> float:
    """In which share of runs the true law is outside the set at one of many times: whoever looks for it sees just that.

    ``sample`` gives ranks (uniform numbers) for a continuous law, of which only ranks matter, or rewards.
    """
    chosen = confidence_set("auto", support, 1, delta=delta)
    stretched = chosen.stretched
    rows = {}
    for n in LOOKS.tolist():
        rows[n] = np.asarray(every_end(n, scale * n * float(chosen.radius(n)), stretched))
    failed = 0
    for run in range(runs):
        x = sample(np.random.default_rng([run, 77]), LOOKS[-1])
        for n in LOOKS.tolist():
            lower, upper = rows[n]
            if survival is None:  # ranks u of the survival: k rewards above exactly between the k-th and the next rank
                u = np.sort(x[:n])
                if (u < lower[1:]).any() or (u > upper[:-1]).any():
                    failed += 1
                    break
            else:
                points, truth = survival
                k = n - np.searchsorted(np.sort(x[:n]), points, side="right")
                if (truth < lower[k] - 1e-12).any() or (truth > upper[k] + 1e-12).any():
                    failed += 1
                    break
    return failed / runs


def atoms(points: list[float], p: list[float]) -> tuple[Any, Any]:
    places, shares = np.array(points), np.array(p)
    truth = 1 - np.cumsum(shares)[:-1]
    return (lambda rng, n: places[np.searchsorted(np.cumsum(shares)[:-1], rng.random(n), side="right")]), (
        places[:-1],
        truth,
    )


WORLDS: dict[str, Any] = {
    "continuous (Beta, all alike)": (lambda rng, n: rng.random(n), None, UNIT),
    **{f"Bernoulli({p})": (*atoms([0.0, 1.0], [1 - p, p]), UNIT) for p in (0.5, 0.1, 0.01, 0.001)},
    "skewed finite": (*atoms([0.0, 0.3, 0.7, 1.0], [0.9, 0.07, 0.02, 0.01]), pmb.Finite([0, 0.3, 0.7, 1])),
    "skewed, as an interval": (*atoms([0.0, 0.3, 0.7, 1.0], [0.9, 0.07, 0.02, 0.01]), UNIT),
    "three atoms": (*atoms([0.0, 0.5, 1.0], [0.3, 0.4, 0.3]), pmb.Finite([0, 0.5, 1])),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_belts_hold_at_all_times_in_the_promised_share_of_runs(name):
    sample, survival, support = WORLDS[name]
    assert ever_outside(sample, survival, support, 0.05, 2000) <= 0.05
    assert ever_outside(sample, survival, support, 0.5, 300) <= 0.5 + 0.1


def test_belts_that_are_too_narrow_are_found_out():
    sample, survival, support = WORLDS["continuous (Beta, all alike)"]
    assert ever_outside(sample, survival, support, 0.05, 60) <= 0.05
    assert ever_outside(sample, survival, support, 0.05, 60, scale=0.3) > 0.2
