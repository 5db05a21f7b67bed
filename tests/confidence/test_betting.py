"""Intervals of a mean by betting: by their definition, beside other sequences, and at all times."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.confidence import betting
from pmbandits.confidence.betting import mean_interval


def money(x: np.ndarray, m: float) -> float:
    """What the bets against a mean of at most m have won, one reward after the other."""
    pots = betting.SPREAD.copy()
    for reward in x:
        pots *= 1 + betting.BETS * (reward - m) / m
    return float(pots.sum())


def sorted_rewards(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, counts = np.unique(x, return_counts=True)
    return values, counts.astype(float)


def test_the_ends_are_where_the_money_reaches_what_refutes_a_mean() -> None:
    x = np.random.default_rng(0).beta(2, 5, 60)
    low, high = mean_interval(*sorted_rewards(x), 0.0, 1.0, 0.05)
    assert money(x, low) >= 2 / 0.05 > money(x, low + 0.002)
    assert money(1 - x, 1 - high) >= 2 / 0.05 > money(1 - x, 1 - high + 0.002)
    shifted = mean_interval(*sorted_rewards(3 * x - 1), -1.0, 2.0, 0.05)
    assert shifted == pytest.approx((3 * low - 1, 3 * high - 1), abs=1e-9)
    assert mean_interval(np.zeros(0), np.zeros(0), 0.0, 1.0, 0.05) == (0.0, 1.0)


def test_groups_of_rewards_lose_next_to_nothing_and_never_gain() -> None:
    x = np.random.default_rng(1).beta(2, 5, 3_000)
    low, high = mean_interval(*sorted_rewards(x), 0.0, 1.0, 0.05)
    logs = [
        np.log1p(np.multiply.outer(betting.BETS, (y - m) / m)).sum(axis=1) for y, m in ((x, low), (1 - x, 1 - high))
    ]
    for won in logs:
        assert float(np.log(betting.SPREAD @ np.exp(won))) >= np.log(2 / 0.05)
    rough, fine = high - low, 0.0
    for groups in (2_000,):
        before, betting.GROUPS = betting.GROUPS, groups
        try:
            fine = float(np.subtract(*mean_interval(*sorted_rewards(x), 0.0, 1.0, 0.05)[::-1]))
        finally:
            betting.GROUPS = before
    assert fine <= rough <= 1.01 * fine


def hedged_width(x: np.ndarray, alpha: float = 0.05) -> float:
    """The width of Waudby-Smith and Ramdas's hedged capital process, with their predictable bets (equation 26)."""
    t = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = np.append(0.25, ((0.25 + np.cumsum((x - mean) ** 2)) / (t + 1))[:-1])
    bet = np.sqrt(2 * np.log(2 / alpha) / (variance * t * np.log(t + 1)))

    def refuted(m: float) -> bool:
        up, down = np.log1p(np.minimum(bet, 0.5 / m) * (x - m)), np.log1p(-np.minimum(bet, 0.5 / (1 - m)) * (x - m))
        return max(up.sum(), down.sum()) - np.log(2) >= np.log(1 / alpha)

    ends = []
    for side in (0.0, 1.0):
        inside, outside = float(x.mean()), side + (1e-6 if side == 0.0 else -1e-6)
        for _ in range(30):
            m = 0.5 * (inside + outside)
            inside, outside = (inside, m) if refuted(m) else (m, outside)
        ends.append(outside)
    return ends[1] - ends[0]


@pytest.mark.parametrize(("a", "b"), [(10, 30), (2, 2)])
@pytest.mark.parametrize("n", [1_000, 10_000])
def test_intervals_are_about_as_narrow_as_those_of_the_hedged_capital(a: float, b: float, n: int) -> None:
    ratios = []
    for seed in range(4):
        x = np.random.default_rng(seed).beta(a, b, n)
        low, high = mean_interval(*sorted_rewards(x), 0.0, 1.0, 0.05)
        ratios.append((high - low) / hedged_width(x))
    assert np.mean(ratios) <= 1.15


@pytest.mark.parametrize("estimates", ["exact", "binned:512"])
def test_a_policy_says_as_much_of_a_mean_as_betting_does(estimates: str) -> None:
    x = np.random.default_rng(2).beta(10, 30, 1_000)
    policy = pmb.Track("mean", n_arms=1, support=pmb.Interval(0, 1), estimates=estimates)
    policy.tell(0, x)
    low, middle, high = policy.utility_bounds([1.0])
    assert high - low <= 1.15 * hedged_width(x) + (2 / 512 if estimates != "exact" else 0.0)
    assert low < middle < high and "betting" in policy.certainty().meaning
    losses = pmb.Track(-2.0 * pmb.Mean(), n_arms=1, support=pmb.Interval(0, 1), estimates=estimates)
    losses.tell(0, x)
    assert losses.utility_bounds([1.0]) == pytest.approx((-2 * high, -2 * middle, -2 * low))


def test_on_a_finite_support_a_mean_is_bounded_by_betting_too() -> None:
    rng = np.random.default_rng(6)
    x = rng.choice([-1.0, 0.0, 2.0, 5.0], 800, p=[0.3, 0.4, 0.2, 0.1])
    policy = pmb.Track("mean", n_arms=1, support=pmb.Finite([-1, 0, 2, 5]))
    policy.tell(0, x)
    low, middle, high = policy.utility_bounds([1.0])
    values, counts = np.unique(x, return_counts=True)
    assert (low, high) == pytest.approx(mean_interval(values, counts.astype(float), -1.0, 5.0, 0.05))
    assert middle == pytest.approx(x.mean()) and "betting" in policy.certainty().meaning
    band = pmb.Track("mean", n_arms=1, support=pmb.Finite([-1, 0, 2, 5]), confidence="dkw")
    band.tell(0, x)
    assert high - low < 0.8 * (band.utility_bounds([1.0])[2] - band.utility_bounds([1.0])[0])


def test_arms_whose_rewards_came_in_any_order_keep_their_own() -> None:
    rng = np.random.default_rng(7)
    arms = rng.integers(0, 3, 500)
    x = rng.random(500) * (1 + arms) / 3
    policy = pmb.Track("mean", n_arms=3, support=pmb.Interval(0, 1))
    policy.tell(arms, x)
    for i in range(3):
        alone = mean_interval(*sorted_rewards(x[arms == i]), 0.0, 1.0, 0.05 / 3)
        low, middle, high = policy.utility_bounds(np.eye(3)[i])
        assert (low, high) == pytest.approx(alone) and middle == pytest.approx(x[arms == i].mean())


def test_the_regret_is_that_of_the_worst_means_inside_the_intervals() -> None:
    rng = np.random.default_rng(3)
    policy = pmb.Track("mean", n_arms=3, support=pmb.Interval(0, 1))
    for arm, (a, b) in enumerate(((2, 5), (4, 4), (5, 3))):
        policy.tell(arm, rng.beta(a, b, 200))
    mix = np.array([0.1, 0.3, 0.6])
    ends = [policy.utility_bounds(np.eye(3)[i]) for i in range(3)]
    sure = policy.certainty(mix)
    corners = np.array(np.meshgrid(*[(low, high) for low, _, high in ends])).reshape(3, -1)
    assert sure.regret == pytest.approx(float((corners.max(axis=0) - mix @ corners).max()))
    assert sure.rival == pytest.approx(max(high for _, _, high in ends))
    assert sure.lower == pytest.approx(sum(a * low for a, (low, _, _) in zip(mix, ends, strict=True)))


def ever_missed(draw: Any, truth: float, runs: int) -> int:
    looks = np.unique(np.geomspace(2, 400, 20).astype(int))
    missed = 0
    for seed in range(runs):
        x = draw(np.random.default_rng(seed), 400)
        ends = [mean_interval(*sorted_rewards(x[:n]), 0.0, 1.0, 0.05) for n in looks]
        missed += any(not low <= truth <= high for low, high in ends)
    return missed


@pytest.mark.slow
def test_intervals_hold_at_all_times() -> None:
    assert ever_missed(lambda r, n: r.beta(2, 5, n), 2 / 7, 400) <= 20
    assert ever_missed(lambda r, n: (r.random(n) < 0.05).astype(float), 0.05, 400) <= 20
