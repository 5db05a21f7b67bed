"""What is certified for segments: against laws in the sets, plans that are tried, and a grid of all plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.engine.certainty import certified_utility_and_regret_bounds
from pmbandits.engine.joint_regret import joint_regret_bound
from pmbandits.mixtures._optimistic_bound import upper_bound_of_any_mixture
from tests.engine.test_joint_regret import ends_of, laws_inside

SUPPORTS = {"binary": pmb.Binary(), "finite": pmb.Finite([0.0, 0.3, 0.6, 1.0]), "interval": pmb.Interval(0, 1)}
METRICS = [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.LowerCVaR(0.4), pmb.Mean(), pmb.InvertedS(0.6)]


def taught(metric: Any, support: str, sizes: tuple[int, ...], n: int, seed: int) -> pmb.Policy:
    """A policy whose segments have these numbers of arms, with about n rewards in all."""
    rng, made = np.random.default_rng(seed), SUPPORTS[support]
    names = [f"a{k}" for k in range(max(sizes))]
    policy = pmb.Vet(metric, names=names, support=made, segments={f"s{i}": names[:k] for i, k in enumerate(sizes)})
    for segment, k in zip(policy.segments, sizes, strict=True):
        for arm in range(k):
            count = max(int(n * rng.dirichlet(np.ones(4))[0]), 3)
            x = rng.beta(rng.uniform(0.5, 3), rng.uniform(0.5, 3), count)
            if support != "interval":
                points = np.asarray(made.atoms)
                x = points[np.abs(x[:, None] - points).argmin(axis=1)]
            policy.tell(arm, x, segment=segment)
    return policy


def plans(sums: Any, segment_of: Any, rng: Any, count: int) -> Any:
    """Random joint weights in which each segment has its sum; half of them play one arm in each."""
    out = np.zeros((count, segment_of.size))
    for row in out:
        sharp = rng.random() < 0.5
        for segment in np.unique(segment_of):
            mine = np.flatnonzero(segment_of == segment)
            shares = np.eye(mine.size)[rng.integers(mine.size)] if sharp else rng.dirichlet(np.full(mine.size, 0.5))
            row[mine] = sums[segment] * shares
    return out


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_no_laws_in_the_sets_and_no_plan_give_more_than_is_certified(metric: Any, support: str) -> None:
    rng = np.random.default_rng([2, *support.encode()])
    for n, seed, sizes in ((60, 0, (2, 3)), (3000, 1, (2, 1, 3))):
        policy = taught(metric, support, sizes, n, seed)
        clone, memory, mix = policy._snapshot_with_mixture(None)
        low, _, high, rival, regret = certified_utility_and_regret_bounds(memory, mix, clone._bounds_basis())
        sums = policy._segment_frequencies()
        assert np.bincount(memory.segment_of, weights=mix) == pytest.approx(sums)
        if metric == pmb.Mean() and support != "binary":
            continue  # by intervals of the means, which are not those sets: see the next test
        width, lower, upper = ends_of(memory)
        for _ in range(40):
            laws = laws_inside(lower, upper, rng)
            own = memory.low + width @ metric(np.clip(laws @ mix, 0.0, 1.0))
            tried = plans(sums, memory.segment_of, rng, 20)
            tried = np.concatenate((tried, 0.9 * mix + 0.1 * tried))
            worth = memory.low + width @ metric(np.clip(laws @ tried.T, 0.0, 1.0))
            assert low - 1e-9 <= own <= high + 1e-9
            assert worth.max() <= rival + 1e-9
            assert worth.max() - own <= regret + 1e-9


@pytest.mark.parametrize("support", ["finite", "interval"])
def test_the_regret_of_a_mean_is_the_sum_over_segments(support: str) -> None:
    """Each segment by itself: what a policy for that segment alone would certify, times how often it comes."""
    policy = taught(pmb.Mean(), support, (2, 3), 800, 3)
    sure, p = policy.certainty(), policy._segment_frequencies()
    assert policy._segments is not None
    total = rival = 0.0
    for s, k in enumerate((2, 3)):
        alone = pmb.Vet(pmb.Mean(), n_arms=k, support=SUPPORTS[support], most_arms=5)
        for arm in range(k):
            known = policy.estimates[int(policy._segments.column_at[s, arm])]
            alone.tell(arm, np.repeat(known.x, np.rint(known.p * known.n).astype(int)))
        found = alone.certainty(policy.mixture[s, :k])
        total, rival = total + p[s] * found.regret, rival + p[s] * found.rival
    assert sure.regret == pytest.approx(total, rel=1e-6)
    assert sure.rival == pytest.approx(rival, rel=1e-6)


@pytest.mark.parametrize("metric", [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.UpperCVaR(0.6)], ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_concave_the_best_rival_is_that_of_a_grid_of_all_plans(metric: Any, support: str) -> None:
    """S = K = 2: in each cell the largest h between the ends of the mixture, for 401 × 401 plans."""
    policy = taught(metric, support, (2, 2), 500, 4)
    _, memory, mix = policy._snapshot_with_mixture(None)
    p = policy._segment_frequencies()
    width, low, high = ends_of(memory)
    share = np.linspace(0.0, 1.0, 401)
    u = np.linspace(0.0, 1.0, 20_001)
    h, best, top = metric(u), -np.inf, float(u[np.argmax(metric(u))])
    for w in share:
        b = np.column_stack((np.full(401, p[0] * w), np.full(401, p[0] * (1 - w)), p[1] * share, p[1] * (1 - share)))
        lower, upper = low @ b.T, high @ b.T
        best = max(best, float((width @ np.interp(np.clip(top, lower, upper), u, h)).max()))
    bound = upper_bound_of_any_mixture(memory.address, mix)
    assert best - 1e-6 <= bound <= best + 0.01 * abs(best) + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_lower_cvar_the_best_rival_is_that_of_all_thresholds(seed: int) -> None:
    """Exact by its threshold z: the largest z − Σ_s p_s·min_k E(z − X)⁺/c, with survivals at their upper ends."""
    policy = taught(pmb.LowerCVaR(0.4), "finite", (3, 2, 3), 2000, seed)
    clone, memory, mix = policy._snapshot_with_mixture(None)
    rival, high = (certified_utility_and_regret_bounds(memory, mix, clone._bounds_basis())[k] for k in (3, 2))
    p, best = policy._segment_frequencies(), -np.inf
    width, _, upper = ends_of(memory)
    ends = memory.low + np.append(0.0, np.cumsum(width))
    for z in ends:
        short = np.minimum(width, np.maximum(z - ends[:-1], 0.0)) @ (1.0 - upper)
        best = max(best, z - sum(p[s] * short[memory.segment_of == s].min() for s in range(3)) / 0.4)
    assert rival == pytest.approx(max(best, high), abs=1e-6)


def test_a_segment_that_nobody_came_from_does_not_stand_in_the_way() -> None:
    few = taught(pmb.GiniDeviation(), "binary", (2, 2), 4000, 5)
    many = pmb.Vet(pmb.GiniDeviation(), names=["a0", "a1"], support=pmb.Binary(), segments=["s0", "s1", "nobody"],
                   most_arms=6)  # fmt: skip
    same = pmb.Vet(pmb.GiniDeviation(), names=["a0", "a1"], support=pmb.Binary(), segments=["s0", "s1"], most_arms=6)
    for policy in (many, same):
        for column, known in enumerate(few.estimates):
            assert few._segments is not None
            segment = few.segments[int(few._segments.segment_of[column])]
            policy.tell(column % 2, np.repeat(known.x, np.rint(known.p * known.n).astype(int)), segment=segment)
    rows = np.array([[0.3, 0.7], [0.6, 0.4], [0.5, 0.5]])
    assert many.certainty(rows)[:5] == pytest.approx(same.certainty(rows[:2])[:5], abs=1e-9)
    assert many.certainty(rows).frequencies[2] == 0.0
    assert "came" not in many.segments and many.t == 0  # reading changes nothing


def test_what_is_certified_says_for_whom() -> None:
    policy = taught(pmb.GiniDeviation(), "binary", (2, 2), 4000, 6)
    assert "come as often as they did so far" in str(policy.certainty())
    assert sum(policy.certainty().frequencies) == pytest.approx(1.0)
    assert "come as often as they did so far" in str(policy.forecast(0.05))
    assert policy.done(1.0) and not policy.done(1e-9)
    low, middle, high = policy.utility_bounds([[0.5, 0.5], [1.0, 0.0]])
    assert low <= middle <= high
    for wrong in ([0.5, 0.5], [[0.5, 0.6], [1.0, 0.0]], [[1.0, 0.0]] * 3):
        with pytest.raises(ValueError, match=r"\.$"):
            policy.certainty(wrong)


def test_one_segment_is_certified_as_without_segments() -> None:
    rng = np.random.default_rng(7)
    plain = pmb.Vet(pmb.GiniDeviation(), n_arms=3, support=pmb.Interval(0, 1))
    alone = pmb.Vet(pmb.GiniDeviation(), n_arms=3, support=pmb.Interval(0, 1), segments=["all"])
    for arm in range(3):
        x = rng.beta(1 + arm, 2, 300)
        plain.tell(arm, x)
        alone.tell(arm, x, segment="all")
    assert alone.certainty([[0.2, 0.3, 0.5]])[:6] == pytest.approx(plain.certainty([0.2, 0.3, 0.5])[:6], abs=1e-12)


def test_too_many_ways_to_gain_are_left_to_the_other_bound() -> None:
    policy = taught(pmb.GiniDeviation(), "binary", (2,) * 5, 9000, 8)
    _, memory, _ = policy._snapshot_with_mixture(None)
    mix = np.repeat(policy._segment_frequencies(), 2) * np.tile([0.4, 0.6], 5)
    assert joint_regret_bound(memory, mix) < np.inf  # two ways in each segment: 32
    policy = taught(pmb.GiniDeviation(), "binary", (3,) * 5, 9000, 8)
    _, memory, _ = policy._snapshot_with_mixture(None)
    mix = np.repeat(policy._segment_frequencies(), 3) / 3
    assert joint_regret_bound(memory, mix) == np.inf
