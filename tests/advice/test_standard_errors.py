"""Standard errors: kinks, few large scores, quantiles, and weights (inverse propensities of a bandit's log)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.advice.standard_errors import Guard, mixture_utility_estimate
from pmbandits.logs import Sample


def greedy_log(seed: int, lead: float = 0.0, rounds: int = 600, explore: float = 0.2) -> pd.DataFrame:
    """Two normal arms, played by ε-greedy: averages of an arm are too low, because a bad start is not corrected."""
    rng = np.random.default_rng(seed)
    count, total, rows = np.zeros(2), np.zeros(2), []
    for _ in range(rounds):
        best = int(np.argmax(np.where(count > 0, total / np.maximum(count, 1), 1e9)))
        chance = np.full(2, explore / 2)
        chance[best] += 1 - explore
        arm = int(rng.random() < chance[1])
        reward = rng.normal(arm * lead, 1)
        count[arm] += 1
        total[arm] += reward
        rows.append(("ab"[arm], reward, chance[arm]))
    return pd.DataFrame(rows, columns=["arm", "reward", "propensity"])


def test_weighted_averages_and_their_errors_are_those_of_the_formula() -> None:
    rows = greedy_log(0, lead=0.3)
    said = pmb.advise(rows, "mean", propensity="propensity")
    for name, arm in zip(said.names, said.arms, strict=True):
        mine = rows[rows["arm"] == name]
        w = 1 / mine["propensity"].to_numpy()
        x = mine["reward"].to_numpy()
        mean = w @ x / w.sum()
        assert arm.mean == pytest.approx(mean) and arm.n == int(w.sum() ** 2 / (w @ w))
        error = np.sqrt(w**2 @ (x - mean) ** 2) / w.sum()
        assert said.evidence.plain_errors[said.names.index(name)] == pytest.approx(error)
    equal = pmb.advise(rows.assign(w=3.0), "gini", weight="w", support=pmb.Interval(-6, 6))
    plain = pmb.advise(rows, "gini", support=pmb.Interval(-6, 6))
    assert equal.value == pytest.approx(plain.value) and equal.evidence.error == pytest.approx(plain.evidence.error)
    assert not np.isfinite(equal.bounds).any()  # bounds that always hold need rewards of equal weight


def test_rows_without_a_weight_are_counted_and_two_kinds_are_refused() -> None:
    rows = greedy_log(1)
    rows.loc[3, "propensity"] = 0.0
    assert pmb.advise(rows, propensity="propensity").log.n_malformed == 1
    with pytest.raises(ValueError, match="not both"):
        pmb.advise(rows, propensity="propensity", weight="reward")
    with pytest.raises(ValueError, match="together with unit"):
        pmb.advise(rows, propensity="propensity", unit="reward")


@pytest.mark.slow
def test_equal_arms_of_a_bandits_log_are_rarely_told_apart_and_intervals_cover() -> None:
    wrong, inside, times = 0, 0, 200
    for seed in range(times):
        said = pmb.advise(greedy_log(seed), "mean", propensity="propensity")
        wrong += said.decision.kind == "choose"
        inside += sum(a.interval[0] <= 0.0 <= a.interval[1] for a in said.arms)
    assert wrong <= 0.05 * times and inside >= 0.93 * 2 * times


@pytest.mark.parametrize("metric", ["lower_cvar(0.1)", "mean_median_deviation", "inter_es_range"])
def test_the_bias_that_kinks_make_is_that_of_many_repetitions(metric: str) -> None:
    rng, h, n = np.random.default_rng(4), pmb.metric(metric), 100
    guard = Guard([(-9.0, 9.0)], [(-9.0, 9.0)], 0.0, False)
    truth = h.value(st.norm.ppf((np.arange(200_000) + 0.5) / 200_000))
    plain, biases = [], []
    for _ in range(1_500):
        sample = Sample(n, np.sort(rng.normal(size=n)), np.full(n, 1 / n))
        found = mixture_utility_estimate(h, np.ones(1), [sample], guard, None)
        plain.append(found.value)
        biases.append(float(found.kink_biases.sum()))
    bias, error = np.mean(plain) - truth, np.std(plain) / np.sqrt(len(plain))
    assert abs(np.mean(biases) - bias) < 0.25 * abs(bias) + 3.0 * error and abs(bias) > 3.0 * error


def test_arms_whose_worst_rewards_are_all_the_same_are_not_told_apart() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        data = {name: np.where(rng.random(200) < 0.1, rng.lognormal(1, 1.5, 200), 0.0) for name in "ab"}
        assert pmb.advise(data, "lower_cvar(0.1)").evidence.p == 1.0


def test_a_declared_range_does_not_widen_a_claim_about_rewards_as_they_were() -> None:
    rng = np.random.default_rng(0)
    data = {"Lisbon": -rng.gamma(2, 3, 400), "Berlin": -rng.gamma(2, 3.9, 400)}
    for wish in ("lower_cvar(0.1)", "mean", "var(0.5)"):
        plain, declared = (pmb.advise(data, wish, support=s).decision for s in (None, pmb.Interval(-480, 0)))
        assert plain.difference is not None and declared.difference is not None
        assert declared.difference.interval == pytest.approx(plain.difference.interval)
        assert declared.kind == plain.kind == "choose"


def test_pseudo_rewards_of_zero_inflated_rewards_lie_beyond_the_largest_one() -> None:
    """The variance with pseudo-rewards at the least reward of all arms and at 4 + (4 − 1), by hand."""
    rewards = np.array([0.0] * 48 + [1.0, 4.0])
    sample = Sample(50, np.array([0.0, 1.0, 4.0]), np.array([0.96, 0.02, 0.02]))
    count = 0.5 * st.norm.ppf(0.975) ** 2
    guard = Guard([(-2.0, 5.0)], [(-2.0, 5.0)], count, False)
    one = mixture_utility_estimate(pmb.Mean(), np.ones(1), [sample], guard, None)
    x = np.concatenate((rewards, (-2.0, 7.0)))
    w = np.concatenate((np.ones(50), (count, count))) / (50 + 2 * count)
    assert one.utility_spread().variance == pytest.approx(w @ (x - w @ x) ** 2 / 50)
    assert one.value == pytest.approx(0.1)


def test_the_variance_of_few_large_scores_has_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    data = {"normal": rng.normal(0.5, 1, 500), "rare": np.where(np.arange(50) < 5, rng.exponential(5, 50), 0.0)}
    (margin,) = pmb.advise(data, "mean").evidence.margins
    rare = data["rare"]
    variances = np.array([np.var(data["normal"]) / 500, np.var(rare) / 50])
    few = 2 * 50 / (st.kurtosis(rare, fisher=False) - 1)
    assert margin.df == pytest.approx(few, rel=0.3) and variances[1] > 5 * variances[0]


@pytest.mark.parametrize(
    ("times", "cover", "choose"), [(15, 12, 8), pytest.param(200, 184, 140, marks=pytest.mark.slow)]
)
def test_a_median_has_an_interval_of_order_statistics_and_a_verdict(times: int, cover: int, choose: int) -> None:
    covered = chosen = 0
    for seed in range(times):
        rng = np.random.default_rng(seed)
        found = pmb.advise({"a": rng.normal(0, 1, 300), "b": rng.normal(0.35, 1, 300)}, "var(0.5)").decision
        assert found.difference is not None
        low, high = found.difference.interval
        covered += low <= (0.35 if found.mixture == {"b": 1.0} else -0.35) <= high
        chosen += found.kind == "choose"
    assert (
        covered >= cover and chosen >= choose
    )  # of 200: 4.4 standard errors of the bootstrap; 30 % when bands were compared
    alone = pmb.advise({"a": np.arange(100.0), "b": np.arange(100.0) + 5.0}, "var(0.5)")
    assert alone.arms[0].interval == (39.0, 60.0)  # Clopper and Pearson: the 40th and the 61st of 100 rewards
    few = pmb.advise({"a": np.arange(30.0), "b": np.arange(30.0) + 5.0}, "var(0.99)")
    assert not np.isfinite(few.arms[0].interval).any()  # it may lie beyond all that was seen
