"""The best mixture of known arms: against a convex solver, closed forms, quadrature, and theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given, settings
from hypothesis import strategies as s
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

import pmbandits as pmb
from tests.reference import convex

SOLVER = 1e-6  # what the convex solver's optimal value is good for, relative
CERTIFICATE = 1e-8  # the largest relative gap that counts as solved

CONCAVE = {
    "gini": (pmb.GiniDeviation(), convex.gini()),
    "wang_right_tail": (pmb.WangRightTail(), convex.wang_right_tail()),
    "pht": (pmb.PHT(0.5), convex.pht(0.5)),
    "quadratic": (pmb.Quadratic(0.7), convex.quadratic(0.7)),
    "dual_power_2": (pmb.DualPower(2), convex.dual_power(2)),
    "dual_power_3": (pmb.DualPower(3), convex.dual_power(3)),
    "upper_cvar": (pmb.UpperCVaR(0.8), convex.upper_cvar(0.8)),
    "mean_median_deviation": (pmb.MeanMedianDeviation(), convex.mean_median_deviation()),
    "inter_es_range_half": (pmb.InterESRange(), convex.inter_es_range(0.5)),
    "inter_es_range_wide": (pmb.InterESRange(0.8), convex.inter_es_range(0.8)),
    "inter_es_range_narrow": (pmb.InterESRange(0.3), convex.inter_es_range(0.3)),
    "tsallis_half": (pmb.TsallisPastEntropy(0.5), convex.tsallis_past_entropy(0.5)),
    "tsallis_1": (pmb.TsallisPastEntropy(1.0), convex.tsallis_past_entropy(1.0)),
    "tsallis_3": (pmb.TsallisPastEntropy(3.0), convex.tsallis_past_entropy(3.0)),
    "gini_shortfall": (pmb.GiniShortfall(0.6, 0.3), convex.gini_shortfall(0.6, 0.3)),
    "mean_and_cvar": (
        0.7 * pmb.Mean() + 0.3 * pmb.UpperCVaR(0.9),
        convex.total((0.7, convex.mean()), (0.3, convex.upper_cvar(0.9))),
    ),
    "gini_and_kink": (
        pmb.GiniDeviation() + 0.5 * pmb.MeanMedianDeviation(),
        convex.total((1.0, convex.gini()), (0.5, convex.mean_median_deviation())),
    ),
}

Arms = list[tuple[np.ndarray, np.ndarray]]
Pair = tuple[Any, Any]  # two frozen scipy distributions


def random_arms(count: int, seed: int, kind: str) -> Arms:
    """Arms of equal centre and different form, so that mixtures have a chance against the widest arm."""
    rng = np.random.default_rng(seed)
    arms = []
    for _ in range(count):
        size = int(rng.integers(3, 13))
        if kind == "shared":  # arms meet on common atoms
            x = np.sort(rng.choice(np.arange(-12.0, 13.0), size=size, replace=False))
        else:
            x = np.sort(rng.normal(rng.normal(0.0, 1.0), rng.uniform(0.5, 1.5), size=size))
        arms.append((x, rng.dirichlet(np.full(size, 0.8)) if kind == "weighted" else np.full(size, 1.0 / size)))
    return arms


def bandit_of(arms: Arms) -> pmb.Bandit:
    uniform = all(np.ptp(p) == 0.0 for _, p in arms)
    if uniform:
        return pmb.Bandit([x for x, _ in arms])
    return pmb.Bandit([st.rv_discrete(values=(x, p)) for x, p in arms])


def random_mixtures(count: int, arms: int, seed: int = 0) -> np.ndarray:
    """Mixtures over the whole simplex: spread out, concentrated, and single arms."""
    rng = np.random.default_rng(seed)
    return np.vstack((np.eye(arms), rng.dirichlet(np.ones(arms), count), rng.dirichlet(np.full(arms, 0.2), count)))


def is_on_simplex(weights: np.ndarray) -> bool:
    return bool((weights >= 0.0).all()) and abs(weights.sum() - 1.0) < 1e-12


# ---- finite atoms against a convex solver ---------------------------------------------------------------


@pytest.mark.parametrize("kind", ["distinct", "shared", "weighted"])
@pytest.mark.parametrize("count", [2, 3, 7, 20])
@pytest.mark.parametrize("name", CONCAVE)
def test_agrees_with_a_convex_solver_and_certifies_it(name: str, count: int, kind: str) -> None:
    metric, h = CONCAVE[name]
    arms = random_arms(count, seed=count, kind=kind)
    points, above = convex.survival(arms)
    reference, optimum = convex.best_mixture(h, points, above)

    best = pmb.oracle(metric, bandit_of(arms))

    scale = max(abs(best.value), 1e-3)
    assert is_on_simplex(best.weights)
    assert best.value == pytest.approx(convex.utility(h, points, above, best.weights), rel=1e-12, abs=1e-12 * scale)
    assert best.value >= convex.utility(h, points, above, reference) - 1e-9 * scale
    assert best.value == pytest.approx(optimum, rel=SOLVER, abs=SOLVER * scale)
    assert best.certified
    assert 0.0 <= best.gap <= CERTIFICATE * scale
    assert best.value + best.gap >= convex.utility(h, points, above, reference) - 1e-13 * scale
    others = [convex.utility(h, points, above, a) for a in random_mixtures(50, count)]
    assert best.value + best.gap >= max(others) - 1e-13 * scale


@pytest.mark.parametrize("name", ["gini", "wang_right_tail", "mean_median_deviation", "upper_cvar"])
@pytest.mark.parametrize(("factor", "shift"), [(1e-6, 0.0), (1e6, 0.0), (1.0, 1e3), (1e-3, -7.0)])
def test_scaling_and_shifting_rewards_moves_the_value_and_nothing_else(name: str, factor: float, shift: float) -> None:
    metric, _ = CONCAVE[name]
    arms = [x for x, _ in random_arms(6, seed=11, kind="distinct")]
    plain = pmb.oracle(metric, pmb.Bandit(arms))
    moved = pmb.oracle(metric, pmb.Bandit([shift + factor * x for x in arms]))
    expected = factor * plain.value + shift * metric(1.0)
    assert moved.value == pytest.approx(expected, rel=1e-10, abs=1e-9 * factor)
    assert moved.gap <= CERTIFICATE * max(abs(expected), factor)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gini", "wang_right_tail", "tsallis_1", "mean_median_deviation", "upper_cvar"])
def test_forty_arms_with_many_atoms_are_certified(name: str) -> None:
    metric, h = CONCAVE[name]
    rng = np.random.default_rng(3)
    samples = [rng.normal(rng.normal(), rng.uniform(0.5, 1.5), size=60) for _ in range(40)]
    best = pmb.oracle(metric, pmb.Bandit(samples))
    points, above = convex.survival([(x, np.full(60, 1 / 60)) for x in samples])
    _, optimum = convex.best_mixture(h, points, above)
    assert best.certified and best.gap <= CERTIFICATE * abs(best.value)
    assert best.value == pytest.approx(optimum, rel=SOLVER)


@settings(deadline=None, max_examples=25)
@given(
    s.lists(s.lists(s.integers(-5, 5), min_size=1, max_size=5), min_size=1, max_size=5),
    s.sampled_from(sorted(CONCAVE)),
)
def test_no_random_mixture_beats_value_plus_gap(samples: list[list[int]], name: str) -> None:
    metric, _ = CONCAVE[name]
    bandit = pmb.Bandit(samples)
    best = pmb.oracle(metric, bandit)
    assert is_on_simplex(best.weights)
    assert best.certified and best.gap <= 1e-8 * max(1.0, abs(best.value))
    assert best.value == pytest.approx(pmb.utility(metric, bandit, best.weights), rel=1e-12, abs=1e-13)
    for mixture in random_mixtures(10, bandit.n_arms):
        assert pmb.utility(metric, bandit, mixture) <= best.value + best.gap + 1e-12


@pytest.mark.parametrize(
    ("metric", "count", "kind", "seed"),
    [
        (pmb.TsallisPastEntropy(1.0), 20, "weighted", 1031),
        (pmb.TsallisPastEntropy(1.0), 7, "distinct", 1013),
        (pmb.WangTransform(0.5), 20, "weighted", 1019),
        (pmb.WangTransform(0.5), 7, "weighted", 1013),
        (pmb.TsallisPastEntropy(1.01), 7, "weighted", 1037),
        (pmb.DualPower(1.2), 7, "shared", 1021),
        (pmb.PHT(0.5), 12, "weighted", 1006),
        (pmb.GiniDeviation() + 0.5 * pmb.MeanMedianDeviation(), 20, "weighted", 1039),
    ],
    ids=repr,
)
def test_instances_where_steps_stall_easily_are_solved_to_a_small_gap(
    metric: pmb.Distortion, count: int, kind: str, seed: int
) -> None:
    best = pmb.oracle(metric, bandit_of(random_arms(count, seed, kind)))
    assert best.certified
    assert 0.0 <= best.gap <= CERTIFICATE * abs(best.value)


@pytest.mark.parametrize("name", CONCAVE)
@pytest.mark.parametrize("reward", [0.0, 3.0, -2.0])
def test_arms_that_all_pay_the_same_fixed_reward_are_worth_it(name: str, reward: float) -> None:
    metric, _ = CONCAVE[name]
    best = pmb.oracle(metric, pmb.Bandit([[reward], [reward, reward]]))
    assert best.value == pytest.approx(reward * metric(1.0), abs=1e-15)
    assert best.gap == pytest.approx(0.0, abs=1e-12)
    assert not best.is_mixture and best.unique is False


def test_a_distortion_given_as_a_function_is_solved_like_the_named_one() -> None:
    arms = [x for x, _ in random_arms(5, seed=2, kind="distinct")]
    mine = pmb.Distortion.from_function(
        lambda u: u * (1 - u), name="mine", derivative=lambda u: 1 - 2 * u, holder=(1.0, 1.0)
    )
    best, named = pmb.oracle(mine, pmb.Bandit(arms)), pmb.oracle(pmb.GiniDeviation(), pmb.Bandit(arms))
    assert best.certified
    assert best.value == pytest.approx(named.value, rel=1e-8)
    assert best.value + best.gap >= named.value * (1 - 1e-12)


def test_a_function_without_its_derivative_is_solved_but_its_gap_is_not_called_a_proof() -> None:
    arms = [x for x, _ in random_arms(4, seed=5, kind="distinct")]
    mine = pmb.Distortion.from_function(lambda u: np.minimum(u, 1 - u), name="tent")
    best, named = pmb.oracle(mine, pmb.Bandit(arms)), pmb.oracle(pmb.MeanMedianDeviation(), pmb.Bandit(arms))
    assert best.value == pytest.approx(named.value, rel=1e-6)
    assert not best.certified
    assert "not certified" in repr(best)


def test_answers_for_a_probed_function_are_never_called_certified() -> None:
    spike = pmb.Distortion.from_function(lambda u: u * (1 - u) + 0.4 * np.exp(-(((u - 0.6283) / 1e-7) ** 2)))
    best = pmb.oracle(spike, pmb.Bandit.bernoulli([0.4, 0.9]))
    assert not best.certified


def test_a_function_is_certified_only_as_far_as_its_modulus_says() -> None:
    def h(u: np.ndarray) -> np.ndarray:
        return u * (1 - u) + 0.1 * np.exp(-(((u - 0.6283) / 1e-5) ** 2))

    def slope(u: np.ndarray) -> np.ndarray:
        return 1 - 2 * u - 0.2 * (u - 0.6283) / 1e-10 * np.exp(-(((u - 0.6283) / 1e-5) ** 2))

    coins = pmb.Bandit.bernoulli([0.4, 0.9])
    assert not pmb.oracle(pmb.Distortion.from_function(h, derivative=slope), coins).certified
    stated = pmb.oracle(pmb.Distortion.from_function(h, derivative=slope, holder=(1.0, 1e4)), coins)
    assert not stated.certified and stated.value + stated.gap >= float(h(np.array(0.6283)))
    gini = pmb.Distortion.from_function(
        lambda u: u * (1 - u), name="mine", derivative=lambda u: 1 - 2 * u, holder=(1.0, 1.0)
    )
    best = pmb.oracle(gini, coins)
    assert best.certified and 1e-4 < best.gap < 1e-3  # 2·(π/2/2048)/2, where the steps of the grid are widest
    unbounded = pmb.oracle(gini, pmb.Bandit([st.norm(0), st.norm(2)]))
    assert not unbounded.certified


ROOT: dict[str, Any] = {
    "function": lambda u: np.sqrt(u) * (1 - u),
    "derivative": lambda u: 0.5 / np.sqrt(u) - 1.5 * np.sqrt(u),
}


def test_a_steep_function_with_stated_shape_is_certified() -> None:
    coins, betas = pmb.Bandit.bernoulli([0.05, 0.9]), pmb.Bandit([st.beta(0.2, 3), st.beta(5, 0.5)])
    plain, stated = (pmb.Distortion.from_function(**ROOT, **more) for more in ({}, {"shape": "concave"}))
    best = pmb.oracle(stated, coins)
    assert best.certified and best.gap <= 1e-12
    assert best.value == pytest.approx(2 / 3 / np.sqrt(3), abs=1e-13)  # √u·(1 − u) is largest at u = 1/3
    best = pmb.oracle(stated, betas)
    assert best.certified and best.gap <= 1e-8 and best.is_mixture

    def loss(share: float) -> float:
        mixed = [st.beta(0.2, 3).sf, st.beta(5, 0.5).sf]
        return -float(quad(lambda x: ROOT["function"]((1 - share) * mixed[0](x) + share * mixed[1](x)), 0, 1)[0])

    found = minimize_scalar(loss, bounds=(0, 1), method="bounded")
    assert best.value == pytest.approx(-found.fun, abs=1e-8) and best.weights[1] == pytest.approx(found.x, abs=1e-4)
    assert not pmb.oracle(plain, coins).certified


def test_a_stated_shape_certifies_sums_of_one_direction_only() -> None:
    coins = pmb.Bandit.bernoulli([0.05, 0.9])
    stated = pmb.Distortion.from_function(**ROOT, shape="concave")
    assert pmb.oracle(0.5 * stated + pmb.GiniDeviation(), coins).certified
    assert not pmb.oracle(stated - 0.9 * pmb.GiniDeviation(), coins).certified


# ---- continuous arms ------------------------------------------------------------------------------------


def gaussian_distances(means: np.ndarray, sigmas: np.ndarray) -> np.ndarray:
    """D_ij = E|X_i − X_j'| of independent normals, from the mean of a folded normal."""
    m = means[:, None] - means[None, :]
    v = np.sqrt(sigmas[:, None] ** 2 + sigmas[None, :] ** 2)
    return v * np.sqrt(2 / np.pi) * np.exp(-(m**2) / (2 * v**2)) + m * (1 - 2 * st.norm.cdf(-m / v))


def test_gaussian_means_1_3_5_under_gini_mix_the_outer_two() -> None:
    bandit = pmb.Bandit([st.norm(1), st.norm(3), st.norm(5)])
    best = pmb.oracle(pmb.GiniDeviation(), bandit)
    assert best.weights == pytest.approx([0.5, 0.0, 0.5], abs=1e-6)
    assert best.weights[1] == 0.0
    assert best.value == pytest.approx(1.282584, abs=1e-6)
    assert pmb.utility(pmb.GiniDeviation(), bandit, np.ones(3) / 3) == pytest.approx(1.099505, abs=1e-6)
    assert best.best_arm_value == pytest.approx(1 / math.sqrt(math.pi), rel=1e-9)
    assert best.gain == pytest.approx(1.282584 - 1 / math.sqrt(math.pi), abs=1e-6)
    assert best.is_mixture and best.certified and best.unique is True
    assert 0.0 <= best.gap <= CERTIFICATE


@pytest.mark.parametrize("count", [5, 6, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_gaussian_arms_under_gini_match_the_quadratic_form(count: int, seed: int) -> None:
    import cvxpy as cp

    rng = np.random.default_rng([count, seed])
    means, sigmas = rng.normal(0.0, 2.0, count), rng.uniform(0.3, 2.0, count)
    distances = gaussian_distances(means, sigmas)
    bandit = pmb.Bandit([st.norm(m, sd) for m, sd in zip(means, sigmas, strict=True)])

    best = pmb.oracle(pmb.GiniDeviation(), bandit)

    # ½aᵀDa is concave on Σa = 1: add a multiple of (Σa)² = 1 until it is concave everywhere.
    lift = np.eye(count) - 1 / count
    curved = lift @ distances @ lift
    a = cp.Variable(count, nonneg=True)
    linear = distances.mean(axis=0)
    objective = 0.5 * (2 * linear @ a - distances.mean() - cp.quad_form(a, cp.psd_wrap(-curved)))
    problem = cp.Problem(cp.Maximize(objective), [cp.sum(a) == 1])
    problem.solve(solver=cp.CLARABEL)

    assert best.value == pytest.approx(0.5 * best.weights @ distances @ best.weights, rel=1e-9)
    assert best.value == pytest.approx(problem.value, rel=SOLVER)
    assert best.certified and 0.0 <= best.gap <= CERTIFICATE * best.value
    for mixture in random_mixtures(200, count):
        assert 0.5 * mixture @ distances @ mixture <= best.value + best.gap + 1e-12


BOUNDED_PAIRS = {
    "betas": (st.beta(2, 5), st.beta(0.6, 0.6)),
    "crossing_betas": (st.beta(8, 2), st.beta(1, 4)),
    "uniforms": (st.uniform(0, 1), st.uniform(0.3, 1.1)),
    "normals": (st.norm(0, 1), st.norm(1.5, 0.4)),
    "normal_and_exponential": (st.norm(0.5, 0.5), st.expon(-0.5)),
}
PLAIN_H = {
    "gini": (pmb.GiniDeviation(), lambda u: u * (1 - u)),
    "dual_power": (pmb.DualPower(2), lambda u: 1 - (1 - u) ** 2),
    "quadratic": (pmb.Quadratic(0.5), lambda u: 1.5 * u - 0.5 * u * u),
    "wang_right_tail": (pmb.WangRightTail(), lambda u: math.sqrt(u) - u),
    "tsallis_1": (pmb.TsallisPastEntropy(1.0), lambda u: 0.0 if u >= 1 else -(1 - u) * math.log1p(-u)),
    "mean_median_deviation": (pmb.MeanMedianDeviation(), lambda u: min(u, 1 - u)),
    "upper_cvar": (pmb.UpperCVaR(0.7), lambda u: min(u / (1 - 0.7), 1.0)),
}


def utility_by_quadrature(h: Callable[[float], float], pair: Pair, share: float) -> float:
    """∫_lo^0 (h(S) − h(1)) dx + ∫_0^hi h(S) dx by scipy, in pieces between quantiles of both arms."""
    places = {0.0, *(float(end) for d in pair for end in d.support())}
    places |= {float(d.ppf(q)) for d in pair for q in (1e-15, 1e-6, 0.02, 0.5, 0.98)}
    places |= {float(d.isf(q)) for d in pair for q in (1e-6, 1e-12, 1e-20)}
    ends: list[float] = []
    for place in sorted(p for p in places if np.isfinite(p)):
        if not ends or place - ends[-1] > 1e-7:  # shorter pieces hold nothing but rounding
            ends.append(place)

    def above(x: float) -> float:
        return min(1.0, (1 - share) * float(pair[0].sf(x)) + share * float(pair[1].sf(x)))

    total = 0.0
    for lo, hi in pairwise(ends):
        base = h(1.0) if hi <= 0.0 else 0.0
        total += quad(lambda x, b=base: h(above(x)) - b, lo, hi, epsabs=1e-10, epsrel=1e-9, limit=200)[0]
    return total


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pair", "name"),
    [
        ("betas", "gini"),
        ("crossing_betas", "dual_power"),
        ("betas", "wang_right_tail"),
        ("crossing_betas", "quadratic"),
        ("uniforms", "tsallis_1"),
        ("uniforms", "mean_median_deviation"),
        ("normals", "gini"),
        ("normals", "upper_cvar"),
        ("normal_and_exponential", "gini"),
        ("normal_and_exponential", "dual_power"),
    ],
)
def test_two_continuous_arms_match_a_search_on_quadrature(pair: str, name: str) -> None:
    arms = BOUNDED_PAIRS[pair]
    metric, h = PLAIN_H[name]
    best = pmb.oracle(metric, pmb.Bandit(list(arms)))
    found = minimize_scalar(
        lambda share: -utility_by_quadrature(h, arms, share),
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": 1e-4},
    )
    ends = [utility_by_quadrature(h, arms, share) for share in (0.0, 1.0)]
    reference = max(-found.fun, *ends)
    assert best.value == pytest.approx(utility_by_quadrature(h, arms, best.weights[1]), rel=1e-7, abs=1e-8)
    assert best.value >= reference - 1e-8
    assert best.value == pytest.approx(reference, rel=1e-7, abs=1e-8)
    assert best.best_arm_value == pytest.approx(max(ends), rel=1e-7)
    assert best.certified and 0.0 <= best.gap <= CERTIFICATE * abs(best.value)


def test_continuous_finite_and_endless_discrete_arms_mix_in_one_bandit() -> None:
    bandit = pmb.Bandit([st.norm(2, 1), st.poisson(2.0), [0.0, 1.0, 9.0], st.uniform(0, 4)])
    best = pmb.oracle(pmb.GiniDeviation(), bandit)
    assert best.certified and best.gap <= CERTIFICATE * best.value
    for mixture in random_mixtures(20, 4):
        assert pmb.utility(pmb.GiniDeviation(), bandit, mixture) <= best.value + best.gap + 1e-10


# ---- convex metrics: one arm is best --------------------------------------------------------------------

# Rewards near 1e-308 are refused.
ROUNDED = s.floats(-10, 10).map(lambda x: round(x, 12))
CONVEX = {
    "lower_cvar": pmb.LowerCVaR(0.25),
    "cautious_wang": pmb.WangTransform(-0.5),
    "mean_minus_gini": pmb.Mean() - 0.5 * pmb.GiniDeviation(),
    "minus_pht": -1.0 * pmb.PHT(0.5),
    "mean": pmb.Mean(),
}


@settings(deadline=None, max_examples=25)
@given(
    s.lists(s.lists(ROUNDED, min_size=1, max_size=6), min_size=1, max_size=5),
    s.sampled_from(sorted(CONVEX)),
)
def test_convex_metrics_are_best_on_one_arm_and_no_mixture_beats_it(samples: list[list[float]], name: str) -> None:
    metric = CONVEX[name]
    bandit = pmb.Bandit(samples)
    best = pmb.oracle(metric, bandit)
    singles = [pmb.utility(metric, bandit, row) for row in np.eye(len(samples))]
    assert not best.is_mixture
    assert best.weights[best.best_arm] == 1.0
    assert best.value == best.best_arm_value == max(singles)
    assert best.gain == 0.0
    assert best.certified and best.gap == 0.0
    for mixture in random_mixtures(10, len(samples)):
        assert pmb.utility(metric, bandit, mixture) <= best.value + 1e-12 * max(1.0, abs(best.value))


@pytest.mark.parametrize("name", ["lower_cvar", "cautious_wang", "mean_minus_gini", "mean"])
def test_convex_metrics_of_continuous_arms_are_best_on_one_arm(name: str) -> None:
    metric = CONVEX[name]
    bandit = pmb.Bandit([st.norm(0, 1), st.norm(0.3, 2), st.uniform(-1, 2.2)])
    best = pmb.oracle(metric, bandit)
    assert not best.is_mixture and best.gap == 0.0 and best.unique is True
    for mixture in random_mixtures(8, 3):
        assert pmb.utility(metric, bandit, mixture) <= best.value + 1e-12


# ---- strictly concave metrics: a mixture can win (lemma:mixture_lemma_exponential) ----------------------


@pytest.mark.parametrize(
    "metric",
    [
        pmb.GiniDeviation(),
        pmb.WangRightTail(),
        pmb.DualPower(2),
        pmb.Quadratic(0.5),
        pmb.PHT(0.5),
        pmb.TsallisPastEntropy(0.5),
        pmb.TsallisPastEntropy(1.0),
        pmb.TsallisPastEntropy(2.0),
        pmb.WangTransform(0.5),
    ],
    ids=repr,
)
def test_shifted_exponentials_of_equal_utility_are_beaten_by_their_mixture(metric: pmb.Distortion) -> None:
    unit = metric.value(st.expon())  # U of Exp(λ) shifted by c is c·h(1) + unit/λ
    if abs(metric(1.0)) < 1e-12:  # a shift costs nothing: same rate, other shift
        arms = [st.expon(1.0, 1.0), st.expon(3.0, 1.0)]
    else:  # the later start of one arm pays for the longer tail of the other
        arms = [st.expon(0.5 + unit / metric(1.0), 1.0), st.expon(0.5, 2.0)]
    singles = [metric.value(arm) for arm in arms]
    assert singles[0] == pytest.approx(singles[1], rel=1e-9)

    best = pmb.oracle(metric, pmb.Bandit(arms))

    assert best.is_mixture
    assert best.gain > 1e-3 * abs(best.value)
    assert (best.weights > 0.0).all()
    assert best.certified and best.gap <= CERTIFICATE * abs(best.value)
    for share in np.linspace(0.0, 1.0, 21):
        assert metric.value(arms, weights=[1 - share, share]) <= best.value + best.gap + 1e-10 * abs(best.value)


# ---- optima that are not unique -------------------------------------------------------------------------


def assert_alternative_is_as_good(metric: pmb.Distortion, bandit: pmb.Bandit, best: pmb.OracleResult) -> None:
    assert best.alternative is not None
    assert is_on_simplex(best.alternative)
    assert np.abs(best.alternative - best.weights).max() > 1e-6
    assert pmb.utility(metric, bandit, best.alternative) == pytest.approx(best.value, rel=1e-8)


def test_bernoulli_arms_with_the_best_mean_among_them_return_that_arm_and_an_equal_mixture() -> None:
    bandit = pmb.Bandit.bernoulli([0.2, 0.5, 0.8])
    best = pmb.oracle(pmb.GiniDeviation(), bandit)
    assert best.weights == pytest.approx([0.0, 1.0, 0.0], abs=0)
    assert best.unique is False and not best.is_mixture
    assert best.value == pytest.approx(0.25, abs=1e-15)
    assert_alternative_is_as_good(pmb.GiniDeviation(), bandit, best)
    assert "others are as good" in repr(best)


@pytest.mark.parametrize(
    ("means", "metric"),
    [
        ([0.1, 0.5, 0.9], pmb.InterESRange(0.25)),  # h is flat between ¼ and ¾
        ([0.2, 0.6, 0.9], pmb.UpperCVaR(0.5)),  # h is flat from ½ on
        ([0.2, 0.5, 0.8], pmb.InterQuantileRange()),  # h is 1 between ¼ and ¾
    ],
    ids=["inter_es_range", "upper_cvar", "iqr"],
)
def test_bernoulli_arms_on_a_flat_top_return_a_single_arm(means: list[float], metric: pmb.Distortion) -> None:
    bandit = pmb.Bandit.bernoulli(means)
    best = pmb.oracle(metric, bandit)
    assert best.value == pytest.approx(max(metric(p) for p in means), abs=1e-15)
    assert best.unique is False
    assert_alternative_is_as_good(metric, bandit, best)
    assert not best.is_mixture, f"{best!r} mixes although {best.names[best.best_arm]} alone is as good"


def test_a_flat_top_in_the_interior_of_reachable_means_is_not_called_unique() -> None:
    metric = pmb.InterESRange(0.25)
    bandit = pmb.Bandit.bernoulli([0.1, 0.9])
    best = pmb.oracle(metric, bandit)
    assert best.is_mixture and best.unique is False
    assert_alternative_is_as_good(metric, bandit, best)


@pytest.mark.parametrize(
    "arms",
    [
        [st.norm(1), st.norm(1), st.norm(5)],
        [st.norm(1), st.norm(5), st.norm(5), st.norm(1)],
        [[0.0, 1.0, 5.0], [2.0, 7.0], [0.0, 1.0, 5.0]],
        [[0.0, 0.0, 3.0], [2.0, 7.0, 9.0], [2.0, 7.0, 9.0], [2.0, 7.0, 9.0]],
    ],
    ids=["gaussian_pair", "two_gaussian_pairs", "samples", "triple"],
)
def test_duplicated_arms_are_reported_and_the_weight_is_not_spread_over_them(arms: list) -> None:
    bandit = pmb.Bandit(arms)
    best = pmb.oracle(pmb.GiniDeviation(), bandit)
    assert best.unique is False
    assert_alternative_is_as_good(pmb.GiniDeviation(), bandit, best)
    used = [
        distribution.describe() if not isinstance(a, list) else str(a)
        for distribution, a in zip(bandit.distributions, arms, strict=True)
    ]
    used = [name for name, w in zip(used, best.weights, strict=True) if w > 0.0]
    assert len(used) == len(set(used)), f"two copies of one arm both get weight: {best.weights}"


def test_two_identical_gaussian_arms_return_one_of_them() -> None:
    bandit = pmb.Bandit([st.norm(2, 3), st.norm(2, 3)])
    best = pmb.oracle(pmb.GiniDeviation(), bandit)
    assert not best.is_mixture
    assert best.unique is False
    assert best.value == pytest.approx(3 / math.sqrt(math.pi), rel=1e-9)
    assert_alternative_is_as_good(pmb.GiniDeviation(), bandit, best)


def test_of_equal_arms_the_one_with_the_weight_is_named_best() -> None:
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit([st.norm(), st.norm()]))
    if not best.is_mixture:
        assert best.weights[best.best_arm] == 1.0


def test_an_arm_that_is_a_mixture_of_others_is_an_alternative_optimum() -> None:
    arms = [[0.0, 0.0], [6.0, 6.0], [0.0, 6.0], [3.0, 3.5]]
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit(arms))
    assert best.value == pytest.approx(1.5, rel=1e-12)
    assert best.unique is False
    assert best.weights == pytest.approx([0.0, 0.0, 1.0, 0.0], abs=1e-9)


def test_symmetric_arms_have_a_unique_symmetric_optimum_under_a_strictly_concave_metric() -> None:
    arms = [[-3.0, -1.0, 0.0], [-1.5, 1.5], [0.0, 1.0, 3.0]]
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit(arms))
    assert best.weights == pytest.approx(best.weights[::-1], abs=1e-6)
    assert best.unique is True and best.alternative is None


def test_symmetric_arms_under_a_metric_that_cannot_tell_them_apart_are_tied() -> None:
    bandit = pmb.Bandit([st.norm(-1), st.norm(1)])
    minus = -1.0 * pmb.GiniDeviation()  # convex, blind to shifts
    best = pmb.oracle(minus, bandit)
    assert not best.is_mixture and best.unique is False
    assert_alternative_is_as_good(minus, bandit, best)


@pytest.mark.parametrize(
    ("metric", "arms"),
    [
        (pmb.GiniDeviation(), [st.norm(1), st.norm(3), st.norm(5)]),
        (pmb.GiniDeviation(), [[0.0, 1.0, 4.0], [2.0, 3.0, 9.0], [-4.0, 0.5]]),
        (pmb.WangRightTail(), [[0.0, 1.0, 4.0], [2.0, 3.0, 9.0], [-4.0, 0.5]]),
        (pmb.Mean(), [[0.0, 1.0], [2.0, 3.0]]),
    ],
    ids=["gaussian_gini", "samples_gini", "samples_wang", "mean"],
)
def test_a_unique_optimum_is_called_unique(metric: pmb.Distortion, arms: list) -> None:
    best = pmb.oracle(metric, pmb.Bandit(arms))
    assert best.unique is True
    assert best.alternative is None
    assert "others" not in repr(best)


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.Mean(), pmb.VaR(0.5)], ids=repr)
def test_one_arm_alone_is_its_own_best_mixture(metric: pmb.Distortion) -> None:
    best = pmb.oracle(metric, pmb.Bandit([[1.0, 2.0, 6.0]]))
    assert best.weights.tolist() == [1.0]
    assert best.value == pytest.approx(metric.value([1.0, 2.0, 6.0]))
    assert best.certified and best.gap == 0.0 and best.unique is True


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.DualPower(2), pmb.InvertedS(0.5)], ids=repr)
def test_arms_that_pay_two_fixed_rewards_reach_the_maximum_of_h(metric: pmb.Distortion) -> None:
    best = pmb.oracle(metric, pmb.Bandit([[2.0], [4.0]]))
    assert best.value == pytest.approx(2.0 * metric(1.0) + 2.0 * metric.maximum().value, rel=1e-12)
    assert best.gap == 0.0


# ---- metrics that are neither concave nor convex --------------------------------------------------------

NEITHER = {
    "inverted_s": pmb.InvertedS(0.5),
    "inverted_s_steep": pmb.InvertedS(2.0),
    "tversky_kahneman": pmb.TverskyKahneman(0.61),
    "var": pmb.VaR(0.9),
    "inter_quantile_range": pmb.InterQuantileRange(),
}


def grid_of(arms: int) -> np.ndarray:
    if arms == 2:
        share = np.linspace(0.0, 1.0, 2001)
        return np.column_stack((1 - share, share))
    return np.array([(i, j, 60 - i - j) for i in range(61) for j in range(61 - i)]) / 60


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NEITHER)
def test_metrics_of_neither_shape_are_at_least_as_good_as_a_dense_grid(name: str, seed: int, count: int) -> None:
    metric = NEITHER[name]
    arms = random_arms(count, seed=100 + seed, kind="distinct")
    best = pmb.oracle(metric, bandit_of(arms))
    points, above = convex.survival(arms)
    values = points[0] * metric(1.0) + metric(np.clip(grid_of(count) @ above, 0.0, 1.0)) @ np.diff(points)
    if best.certified:
        assert best.gap >= 0.0
        assert best.value + best.gap >= values.max() - 1e-12 * abs(values.max())
    else:
        assert "not certified" in repr(best)
    assert is_on_simplex(best.weights)
    assert best.value == pytest.approx(pmb.utility(metric, bandit_of(arms), best.weights), rel=1e-12)
    assert best.value >= values.max() - 1e-9 * abs(values.max())
    assert best.value >= best.best_arm_value


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n == "inter_quantile_range" else []) for n in NEITHER]
)
def test_metrics_of_neither_shape_on_continuous_arms_are_at_least_as_good_as_a_grid(name: str) -> None:
    metric = NEITHER[name]
    arms = [st.norm(0, 1), st.norm(2, 0.5)]
    best = pmb.oracle(metric, pmb.Bandit(arms))
    values = [metric.value(arms, weights=[1 - share, share]) for share in np.linspace(0.0, 1.0, 41)]
    assert best.certified and 0.0 <= best.gap <= 1e-3 * abs(best.value)
    assert best.value >= max(values) - 1e-9 * abs(max(values))
    if best.alternative is not None:
        assert_alternative_is_as_good(metric, pmb.Bandit(arms), best)


@pytest.mark.parametrize(
    "metric",
    [
        *NEITHER.values(),
        pmb.GiniShortfall(0.3, 2.0),
        pmb.InvertedS(0.5) - pmb.Mean(),
        pmb.WangRightTail(),
        pmb.UpperCVaR(0.9),
    ],
    ids=repr,
)
@pytest.mark.parametrize("means", [(0.4, 0.9), (0.05, 0.1, 0.2), (0.3, 0.75, 0.95), (0.0, 1.0)])
def test_bernoulli_arms_are_exact_for_any_metric(metric: pmb.Distortion, means: tuple[float, ...]) -> None:
    best = pmb.oracle(metric, pmb.Bandit.bernoulli(means))
    dense = metric(np.linspace(min(means), max(means), 20_001)).max()
    assert best.certified and best.gap == 0.0
    assert best.value >= dense - 1e-14
    assert best.value <= dense + 1e-4 * max(1.0, abs(dense))
    assert best.value == pytest.approx(metric(float(np.clip(best.weights @ np.array(means), 0, 1))), abs=1e-12)
    assert best.best_arm_value == pytest.approx(max(metric(p) for p in means), abs=1e-15)


def test_two_point_rewards_other_than_0_and_1_are_exact_too() -> None:
    arms = [[-2.0] * 6 + [3.0] * 4, [-2.0] + [3.0] * 9]
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit(arms))
    assert best.weights == pytest.approx([0.8, 0.2], abs=1e-12)
    assert best.value == pytest.approx(5 * 0.25, abs=1e-12)
    assert best.gap == 0.0 and best.unique is True


def root_of_derivative(metric: pmb.Distortion) -> float:
    return float(brentq(metric.derivative, 1e-6, 1 - 1e-6, xtol=1e-14))


@pytest.mark.parametrize(
    "metric",
    [pmb.WangRightTail(), pmb.TsallisPastEntropy(1.0), pmb.GiniDeviation() + pmb.WangRightTail()],
    ids=repr,
)
def test_two_bernoulli_arms_are_mixed_to_the_mean_where_h_is_flat(metric: pmb.Distortion) -> None:
    best = pmb.oracle(metric, pmb.Bandit.bernoulli([0.01, 0.99]))
    assert 0.01 * best.weights[0] + 0.99 * best.weights[1] == pytest.approx(root_of_derivative(metric), abs=1e-9)


def test_names_of_the_arms_appear_in_the_repr_with_value_and_gap() -> None:
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9], names=["slow", "fast"]))
    text = repr(best)
    assert "slow: 0.8" in text and "fast: 0.2" in text
    assert "value=0.25" in text and "gap=0" in text


def test_what_is_no_metric_or_no_bandit_gets_a_sentence() -> None:
    bandit = pmb.Bandit.bernoulli([0.4, 0.9])
    for call in (pmb.oracle, lambda m, b: pmb.utility(m, b, [0.5, 0.5]), lambda m, b: pmb.gaps(m, b, 0.1)):
        for metric in (3, [1], pmb.GiniDeviation):
            with pytest.raises(TypeError, match="metric must be"):
                call(metric, bandit)  # type: ignore[arg-type]
        assert repr(call("gini", bandit)) == repr(call(pmb.GiniDeviation(), bandit))
        with pytest.raises(TypeError, match="bandit must be a Bandit"):
            call(pmb.GiniDeviation(), [0.4, 0.9])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="freeze it"):
        pmb.Bandit([st.norm])
