"""The paper's schedules of ε and of the exploration, recomputed with plain numbers, and how PMETC uses them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

import pmbandits as pmb
from pmbandits.theory import epsilon_etc, epsilon_ucb, exploration


# ---- the formulas ----------------------------------------------------------------------------------------
def test_epsilon_of_etc_by_hand() -> None:
    # eq:ETC_var_gamma, q = 1, β = 2: γ = 4/5, ε = (K⁴·log T / T^0.8)^(1/4)
    assert epsilon_etc(10_000, 2) == pytest.approx((16 * math.log(10_000) / 10_000**0.8) ** 0.25, rel=1e-14)
    # T = e⁵: log T = 5 and T^0.8 = e⁴
    horizon = round(math.exp(5))
    assert epsilon_etc(horizon, 1) == pytest.approx(5**0.25 / math.e, rel=2e-3)


def test_epsilon_of_etc_by_hand_for_a_square_root_metric() -> None:
    # q = ½, β = 1: γ = 2/2.5 = 0.8, exponent q/2β = ¼, K^(2 + 4) = K⁶
    assert epsilon_etc(10_000, 3, q=0.5, beta=1.0) == pytest.approx(
        (729 * math.log(10_000) / 10_000**0.8) ** 0.25, rel=1e-14
    )


def test_epsilon_of_ucb_by_hand() -> None:
    # eq:vareps_kappa_UCB, q = 1, β = 2: κ = 1/6
    assert epsilon_ucb(10_000, 3) == pytest.approx((9 * math.log(10_000) / 10_000) ** (1 / 6), rel=1e-14)
    # q = ½, β = 1: κ = 1/(4 + 2) and K⁴
    assert epsilon_ucb(5_000, 2, q=0.5, beta=1.0) == pytest.approx((16 * math.log(5_000) / 5_000) ** (1 / 6), rel=1e-14)


def test_exploration_by_hand() -> None:
    # eq:number of samples main paper with K = 2, 𝓛 = 1, δ = ½, q = 1, ε = ½, T = 100:
    # 256·2·e·(4/½)²·(32/√e + √log(4·10⁴·3))²
    expected = 512 * math.e * 64 * (32 / math.sqrt(math.e) + math.sqrt(math.log(120_000))) ** 2
    assert exploration(100, 2, 0.5, gap=0.5, q=1.0, constant=1.0) == pytest.approx(expected, rel=1e-14)


def test_exploration_by_hand_with_a_square_root_metric_and_three_arms() -> None:
    # K = 3, 𝓛 = 2, δ = 0.1, q = ½: (12/0.1)⁴; ε = ¼: ε^−2 + 1 = 17
    expected = 768 * math.e * 120.0**4 * (32 * math.exp(-0.5) + math.sqrt(math.log(6 * 1000**2 * 17))) ** 2
    assert exploration(1000, 3, 0.25, gap=0.1, q=0.5, constant=2.0) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("schedule", [epsilon_etc, epsilon_ucb])
@pytest.mark.parametrize(("q", "beta"), [(1.0, 2.0), (0.5, 1.0), (1.0, 1.0)])
def test_epsilon_falls_with_the_horizon_and_grows_with_the_arms(schedule: Any, q: float, beta: float) -> None:
    # log T / T^γ falls from T = e^(1/γ) on
    by_horizon = [schedule(10**n, 3, q, beta) for n in range(1, 9)]
    assert all(a > b for a, b in pairwise(by_horizon))
    by_arms = [schedule(1000, k, q, beta) for k in range(1, 6)]
    assert all(a < b for a, b in pairwise(by_arms))


@pytest.mark.parametrize("schedule", [epsilon_etc, epsilon_ucb])
def test_the_leading_constant_multiplies_epsilon(schedule: Any) -> None:
    assert schedule(1000, 2, constant=0.3) == pytest.approx(0.3 * schedule(1000, 2), rel=1e-15)


def test_exploration_grows_like_the_logarithm_of_the_horizon() -> None:
    rounds = [exploration(10**n, 2, 0.1, 0.01, 1.0, 1.0) for n in range(1, 12)]
    assert all(a < b for a, b in pairwise(rounds))
    assert rounds[-1] / rounds[0] < 2.0  # M(ε) = N(ε)/log T is O(1); most of N is the 32/√e
    finer = [exploration(1000, 3, epsilon, 0.01, 1.0, 1.0) for epsilon in (0.5, 0.1, 0.01)]
    assert finer == sorted(finer)


def test_exploration_grows_with_the_inverse_square_of_the_gap() -> None:
    assert exploration(1000, 2, 0.1, 0.01, 1.0, 1.0) == pytest.approx(
        100 * exploration(1000, 2, 0.1, 0.1, 1.0, 1.0), rel=1e-12
    )


@pytest.mark.parametrize("gap", [0.0, -0.1, float("nan")])
def test_a_gap_of_zero_is_refused_and_the_message_names_a_way_out(gap: float) -> None:
    with pytest.raises(ValueError, match="gap") as caught:
        exploration(1000, 2, 0.1, gap, 1.0, 1.0)
    if gap == 0.0:
        assert "delta_13" in str(caught.value)


@pytest.mark.parametrize("schedule", [epsilon_etc, epsilon_ucb])
def test_horizons_without_a_logarithm_are_refused(schedule: Any) -> None:
    with pytest.raises(ValueError, match="horizon"):
        schedule(1, 2)
    with pytest.raises(TypeError, match="horizon"):
        schedule(10.5, 2)
    with pytest.raises(ValueError, match="n_arms"):
        schedule(10, 0)


# ---- what PMETC makes of them ----------------------------------------------------------------------------
def explored(policy: Any) -> int:
    """How many rounds go by before the policy commits."""
    rounds = 0
    while policy.phase == "explore":
        policy.tell(policy.ask(), 1.0)
        rounds += 1
    assert policy.pulls.min() == policy.pulls.max()
    return rounds


def etc(n_arms: int = 2, metric: Any = None, **options: Any) -> Any:
    given = {"horizon": 1000, "epsilon": 0.1, **options}
    return pmb.PMETC(metric or pmb.GiniDeviation(), n_arms=n_arms, support=pmb.Binary(), **given)


@pytest.mark.parametrize(("n_explore", "rounds"), [(1, 2), (2, 2), (7, 8), (100, 100), (1000, 1000)])
def test_etc_explores_as_many_rounds_as_given_rounded_up_to_equal_shares(n_explore: int, rounds: int) -> None:
    assert explored(etc(n_explore=n_explore)) == rounds


@pytest.mark.parametrize(
    ("n_arms", "epsilon", "rounds"), [(2, 0.1, 100), (3, 0.1, 150), (4, 0.05, 100), (2, 0.025, 26)]
)
def test_etc_explores_half_k_epsilon_t_by_default(n_arms: int, epsilon: float, rounds: int) -> None:
    # each arm ⌈½·ε·T⌉ times
    assert explored(etc(n_arms, epsilon=epsilon)) == rounds


def test_etc_explores_at_most_half_of_the_horizon_by_its_own_rule() -> None:
    assert explored(etc(4, epsilon=0.5)) == 500


@pytest.mark.parametrize(("cap", "rounds"), [(None, 800), (1.0, 800), (0.75, 752), (0.25, 252)])
def test_the_cap_of_the_exploration_is_an_option(cap: float | None, rounds: int) -> None:
    """K = 4, ε = .4: the paper's rule ½KεT is 800 of 1000 rounds."""
    assert explored(etc(4, epsilon=0.4, explore_cap=cap)) == rounds
    assert explored(etc(4, epsilon=0.4)) == 500


def test_without_a_cap_an_exploration_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"1000.*explore_cap"):
        etc(4, epsilon=0.9, explore_cap=None)
    with pytest.raises(ValueError, match="explore_cap"):
        etc(explore_cap=0.0)


def test_n_of_epsilon_counts_wide_rewards_in_units_of_their_scale() -> None:
    """N(ε) is for 1-sub-Gaussian arms: with rewards in [0, 10] (scale 5) it takes 25 times as many."""
    from pmbandits.policies.pm_etc import PMETC

    metric, given = 1e-4 * pmb.GiniDeviation(), {"horizon": 10**9, "epsilon": 0.1, "delta_12": 0.0025}
    rounds = [PMETC(metric, n_arms=2, support=pmb.Interval(0, width), **given).explore_rounds for width in (1, 2, 10)]
    assert rounds[0] == rounds[1]  # width 2 is still 1-sub-Gaussian
    assert rounds[2] == pytest.approx(25 * rounds[0], rel=1e-3)


@pytest.mark.parametrize("name", ["delta_12", "delta_13"])
def test_etc_falls_back_to_its_own_rule_where_n_of_epsilon_exceeds_half_of_the_horizon(name: str) -> None:
    assert explored(etc(**{name: 0.0025})) == explored(etc()) == 100


@pytest.mark.parametrize("name", ["delta_12", "delta_13"])
def test_etc_explores_n_of_epsilon_where_it_fits(name: str) -> None:
    # A metric scaled down until N(ε) is a few hundred rounds: only 𝓛/δ matters.
    metric = 1e-4 * pmb.GiniDeviation()
    constant = metric.holder(pmb.Binary()).constant
    needed = exploration(1000, 2, 0.1, 0.02, 1.0, constant)
    assert 100 < needed < 500
    assert explored(etc(metric=metric, **{name: 0.02})) == 2 * math.ceil(needed / 2)


def test_etc_takes_epsilon_from_the_schedule_with_the_metrics_exponent() -> None:
    horizon = 100_000
    gini = pmb.PMETC(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=horizon, epsilon_constant=0.5)
    assert gini.epsilon == pytest.approx(epsilon_etc(horizon, 2, 1.0, constant=0.5), rel=1e-14)
    wang = pmb.PMETC(pmb.WangRightTail(), n_arms=2, support=pmb.Binary(), horizon=horizon)
    assert wang.epsilon == pytest.approx(epsilon_etc(horizon, 2, 0.5, constant=0.2), rel=1e-14)


def test_ucb_takes_epsilon_from_the_schedule_with_the_metrics_exponent() -> None:
    horizon = 100_000
    for cls in (pmb.PMUCB, pmb.CEUCB):
        gini = cls(pmb.GiniDeviation(), n_arms=2, support=pmb.Binary(), horizon=horizon, epsilon_constant=0.5)
        assert gini.epsilon == pytest.approx(epsilon_ucb(horizon, 2, 1.0, constant=0.5), rel=1e-14)
        wang = cls(pmb.WangRightTail(), n_arms=2, support=pmb.Binary(), horizon=horizon)
        assert wang.epsilon == pytest.approx(epsilon_ucb(horizon, 2, 0.5, constant=0.2), rel=1e-14)


def test_a_schedule_never_leaves_the_grid_that_the_policy_can_hold() -> None:
    for n_arms in (2, 4, 6, 8):
        policy = pmb.PMUCB(pmb.GiniDeviation(), n_arms=n_arms, support=pmb.Binary(), horizon=10**6, search="grid")
        assert 0 < policy.epsilon <= 2 / n_arms
        assert pmb.grid_size(n_arms, policy.epsilon, "ucb") <= 20_000
