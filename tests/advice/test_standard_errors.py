"""Standard errors with weights: inverse propensities of a bandit's log."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import pmbandits as pmb


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
