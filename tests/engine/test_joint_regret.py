"""The largest regret with the best mixture and the one that is played valued for the same laws: never too small."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import pmbandits as pmb
from pmbandits.engine.joint_regret import joint_regret_bound
from pmbandits.metrics.encoding import encode_metric, has_monotone_curvature
from pmbandits.mixtures._joint_regret import (
    argmax_above_chord,
    extreme_lead_rate,
    fill_survival_bounds_by_cell,
    linear_lead_bound,
)
from tests.helpers import taught

GINI = pmb.GiniDeviation()
SMOOTH = [GINI, pmb.WangRightTail(), pmb.Quadratic(0.5), pmb.DualPower(3.0), pmb.DualPower(1.5)]  # h'' is monotone
CONCAVE = [*SMOOTH, pmb.UpperCVaR(0.7), pmb.MeanMedianDeviation(), pmb.Mean()]


def ends_of(memory: Any) -> tuple[Any, Any, Any]:
    """Widths of cells, and the ends of each arm's survival in them."""
    width, low, high = np.empty(20_000), np.empty((20_000, memory.n_arms)), np.empty((20_000, memory.n_arms))
    n = fill_survival_bounds_by_cell(memory.address, width, low, high)
    return width[:n], low[:n], high[:n]


def laws_inside(low: Any, high: Any, rng: Any) -> Any:
    """A survival of each arm that falls, within its ends: at an end, in the middle, or anywhere between."""
    share = rng.choice([0.0, 0.5, 1.0, rng.random()], size=low.shape[1])
    tilt = rng.choice([-1.0, 0.0, 1.0], size=low.shape[1]) * np.linspace(-1.0, 1.0, low.shape[0])[:, None]
    where = np.clip(share + tilt, 0.0, 1.0)
    inside = low + where * (high - low)
    return np.clip(np.minimum.accumulate(np.maximum(inside, low), axis=0), low, high)


@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
@pytest.mark.parametrize("support", ["binary", "finite", "interval", "real"])
def test_no_laws_in_the_sets_and_no_mixture_give_a_larger_regret(metric: Any, support: str) -> None:
    rng = np.random.default_rng([1, *support.encode()])
    for n, seed in ((40, 0), (400, 1), (3000, 2)):
        policy, _ = taught(metric, support, 3, n, seed=seed)
        _, memory, best = policy._snapshot_with_mixture(None)
        for mix in (best, np.array([0.5, 0.5, 0.0]), rng.dirichlet(np.ones(3))):
            most = joint_regret_bound(memory, mix)
            width, low, high = ends_of(memory)
            for _ in range(40):
                distributions = laws_inside(low, high, rng)
                own = width @ metric(np.clip(distributions @ mix, 0.0, 1.0))
                rivals = np.array([*rng.dirichlet(np.full(3, 0.5), 6), *np.eye(3)])
                rivals = np.concatenate((rivals, 0.9 * mix + 0.1 * rivals, 0.99 * mix + 0.01 * rivals))
                worth = width @ metric(np.clip(distributions @ rivals.T, 0.0, 1.0))
                assert worth.max() - own <= most + 1e-9


def uphill(metric: Any, width: Any, low: Any, high: Any, mix: Any, rng: Any) -> float:
    """A large regret that is found by trying: for many rivals, the worst survivals in each cell, at their ends."""
    best, corners = 0.0, np.array(list(product((0.0, 1.0), repeat=mix.size)))
    tried = low[:, None, :] + corners[None] * (high - low)[:, None, :]  # cells, corners, arms
    own = metric(np.clip(tried @ mix, 0.0, 1.0))
    towards = [mix + t * (e - mix) for e in np.eye(mix.size) for t in np.linspace(0.0, 1.0, 41)]
    for b in [*rng.dirichlet(np.ones(mix.size), 20), *towards]:
        ahead = metric(np.clip(tried @ b, 0.0, 1.0)) - own
        best = max(best, float(width @ ahead.max(axis=1)))
    return best


@pytest.mark.parametrize("metric", [GINI, pmb.WangRightTail(), pmb.Quadratic(0.5)], ids=repr)
def test_it_is_not_much_larger_than_what_can_be_found(metric: Any) -> None:
    """What trying finds is a regret in the same relaxation, cell by cell, so it is no more than the bound."""
    rng = np.random.default_rng(0)
    for seed, n in enumerate((200, 2000)):
        policy, _ = taught(metric, "finite", 3, n, seed=seed)
        _, memory, mix = policy._snapshot_with_mixture(None)
        width, low, high = ends_of(memory)
        most, found = joint_regret_bound(memory, mix), uphill(metric, width, low, high, mix, rng)
        # Nothing is ahead of itself, but the concave function that stands for that is above 0: as h is above its chord.
        chord = np.linspace(low @ mix, high @ mix, 201)
        above = metric(chord) - np.linspace(metric(chord[0]), metric(chord[-1]), 201)
        assert found - 1e-9 <= most <= 1.5 * found + 1.05 * width @ above.max(axis=0) + 1e-6


def test_with_many_rewards_it_is_close_to_what_can_be_found() -> None:
    """Survivals of the mixture and of its rivals belong together; without this it would be three times as large."""
    rng = np.random.default_rng(0)
    policy, _ = taught(GINI, "finite", 3, 6000, seed=1)
    _, memory, mix = policy._snapshot_with_mixture(None)
    found = uphill(GINI, *ends_of(memory), mix, rng)
    assert found - 1e-9 <= joint_regret_bound(memory, mix) <= 1.15 * found


@settings(max_examples=300, deadline=None)
@given(some.integers(0, 10**6), some.sampled_from([-1.0, 1.0]), some.sampled_from([0.0, 5.6e-17, 1e-7, 0.2, 1.0]))
def test_the_extreme_rate_is_that_of_a_fine_grid(seed: int, sign: float, a: float) -> None:
    rng = np.random.default_rng(seed)
    (low, high), (other_low, other_high) = np.sort(rng.random(2)), (1.0 - a) * np.sort(rng.random(2))
    zero = rng.uniform(-0.5, 1.5)
    arm, others = np.meshgrid(np.linspace(low, high, 301), np.linspace(other_low, other_high, 301))
    s = a * arm + others
    found = (sign * (arm - s) * (zero - s)).max()
    exact = extreme_lead_rate(sign, a, low, high, a * low + other_low, a * high + other_high, zero)
    assert found - 1e-12 <= sign * exact <= found + 0.02


@settings(max_examples=300, deadline=None)
@given(some.integers(0, 10**6), some.sampled_from(SMOOTH), some.integers(2, 4))
def test_no_survivals_in_a_cell_are_above_the_linear_bound(seed: int, metric: Any, n_arms: int) -> None:
    """For the mixture at which it was taken, and for all others that give more to the same arms."""
    rng = np.random.default_rng(seed)
    ends = rng.random(n_arms)[:, None] + rng.choice([0.01, 0.1, 0.5]) * rng.normal(size=(n_arms, 2))
    low, high = np.sort(np.clip(ends, 0.0, 1.0), axis=1).T.copy()
    a, b = rng.dirichlet(np.full(n_arms, 0.7), 2)
    more, rates = (b >= a).astype(float), np.empty(n_arms)
    bound = linear_lead_bound(encode_metric(metric), a, b, more, low, high, low @ a, high @ a, rates)
    if bound == np.inf:
        return
    survivals = low + rng.choice([0.0, 0.25, 0.5, 1.0], (400, n_arms)) * (high - low)
    for share in (0.0, 0.3, 1.0, 1.5):
        rival = np.clip(a + share * (b - a), 0.0, 1.0)
        if abs(rival.sum() - 1.0) < 1e-12:
            ahead = metric(np.clip(survivals @ rival, 0.0, 1.0)) - metric(np.clip(survivals @ a, 0.0, 1.0))
            assert ahead.max() <= bound + rates @ (rival - b) + 1e-7


def test_only_metrics_whose_curvature_is_monotone_say_so() -> None:
    assert all(has_monotone_curvature(encode_metric(metric)) for metric in (*SMOOTH, pmb.PHT(0.5), pmb.Mean()))
    others = (pmb.UpperCVaR(0.7), pmb.MeanMedianDeviation(), pmb.WangTransform(0.5), GINI + pmb.UpperCVaR(0.9))
    assert not any(has_monotone_curvature(encode_metric(metric)) for metric in others)
    for metric in SMOOTH:  # the third differences have one sign
        thirds = np.diff(metric(np.linspace(0.01, 0.99, 200)), 3)
        assert (thirds >= -1e-13).all() or (thirds <= 1e-13).all()


@settings(max_examples=60, deadline=None)
@given(some.integers(0, 10_000), some.sampled_from(CONCAVE), some.integers(2, 4))
def test_on_any_few_rewards_no_laws_give_a_larger_regret(seed: int, metric: Any, n_arms: int) -> None:
    rng = np.random.default_rng(seed)
    policy = pmb.Track(metric, n_arms=n_arms, support=pmb.Interval(0, 1), delta=0.5)
    n = n_arms + int(rng.integers(0, 300))
    arms = np.concatenate((np.arange(n_arms), rng.integers(0, n_arms, n - n_arms)))
    policy.tell(arms, np.round(rng.beta(0.5 + arms, 2.0), int(rng.integers(1, 6))))
    mix = rng.dirichlet(np.full(n_arms, 0.3))
    mix[mix < 0.05] = 0.0
    mix /= mix.sum()
    _, memory, _ = policy._snapshot_with_mixture(mix)
    most = joint_regret_bound(memory, mix)
    width, low, high = ends_of(memory)
    for _ in range(10):
        distributions = laws_inside(low, high, rng)
        own = width @ metric(np.clip(distributions @ mix, 0.0, 1.0))
        for b in [*rng.dirichlet(np.full(n_arms, 0.5), 5), *np.eye(n_arms)]:
            assert width @ metric(np.clip(distributions @ b, 0.0, 1.0)) - own <= most + 1e-9


@pytest.mark.parametrize("metric", CONCAVE, ids=repr)
def test_cells_that_are_put_together_only_widen_it(metric: Any) -> None:
    policy, _ = taught(metric, "interval", 3, 3000, seed=1)
    _, memory, mix = policy._snapshot_with_mixture(None)
    fine, rough = (joint_regret_bound(memory, mix, cells) for cells in (4096, 300))
    assert rough >= 0.97 * fine - 1e-9  # both are within 2 % of the largest


@pytest.mark.parametrize("metric", [pmb.LowerCVaR(0.3), pmb.WangTransform(-0.7)], ids=repr)
def test_for_convex_metrics_an_arm_is_not_its_own_rival(metric: Any) -> None:
    rng = np.random.default_rng(0)
    policy = pmb.Track(metric, n_arms=3, support=pmb.Interval(0, 1))
    arms = np.repeat(np.arange(3), 2000)
    policy.tell(arms, 0.3 * arms + 0.3 * rng.random(arms.size))
    sure = policy.certainty()
    assert policy.mixture.tolist() == [0, 0, 1] and sure.regret == 0.0 < sure.rival - sure.lower
    assert policy.done("1%")
    other = policy.certainty([0, 1, 0])
    bound = policy.utility_bounds([0, 0, 1])[2] - policy.utility_bounds([0, 1, 0])[0]
    assert other.regret == pytest.approx(bound, abs=1e-12)


def test_with_balls_with_many_members_and_without_rewards_it_says_nothing() -> None:
    real, _ = taught(GINI, "real", 3, 100, confidence="wasserstein")
    _, memory, mix = real._snapshot_with_mixture(None)
    assert joint_regret_bound(memory, mix) == np.inf
    assert real.certainty().regret == real.certainty().rival - real.certainty().lower
    many, _ = taught(GINI, "interval", 8, 400)
    assert joint_regret_bound(many._snapshot_with_mixture(None)[1], np.full(8, 1 / 8)) == np.inf
    new = pmb.Track(GINI, n_arms=2, support=pmb.Interval(0, 1))
    assert (
        np.isfinite(new.certainty().regret) and new.certainty().regret == new.certainty().rival - new.certainty().lower
    )


@settings(deadline=None)
@given(some.floats(0, 1), some.floats(0, 1), some.sampled_from(CONCAVE))
def test_the_point_furthest_above_the_chord_is_found(one: float, two: float, metric: Any) -> None:
    low, high = min(one, two), max(one, two)
    v, more = argmax_above_chord(encode_metric(metric), low, high)
    assert low <= v <= high and more >= 0.0
    if high - low < 1e-6:
        return
    slope = (metric(high) - metric(low)) / (high - low)
    u = np.linspace(low, high, 4001)
    assert np.max(metric(u) - slope * u) <= float(metric(v)) - slope * v + more + 1e-12
