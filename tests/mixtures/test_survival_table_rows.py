"""The table of all arms' laws: its knots and its rows, beside the same from the lists of rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.reference import vet as slow


def knots_of(rewards: list[float], low: float, high: float) -> list[float]:
    """One reward after another: all values if they are few, else cells of 1/320, or a fifth of what is outside."""
    values, masses = np.unique(rewards, return_counts=True)
    total, gone, since, knots = len(rewards), 0, 0, [low]
    for x, mass in zip(values, masses, strict=True):
        if len(knots) >= 511:
            break
        gone += mass
        since += mass
        enough = min(1 / 320 * total, 0.2 * min(gone, total - gone + mass))
        if knots[-1] < x < high and (values.size <= 510 or since >= enough):
            knots.append(float(x))
            since = 0
    return [*knots, high]


def check_rows(policy: pmb.Vet, rewards: list[list[float]]) -> int:
    """Every row that is up to date has the right means, shares, variance and worth. Returns how many there are."""
    memory: Any = policy._memory
    knots, right = memory.knots[: memory.n_knots], 0
    for i, mine in enumerate(rewards):
        if memory.row_n_rewards[i] != len(mine):
            continue
        right += 1
        x = np.array(mine)[:, None]
        above = np.clip((x - knots[:-1]) / np.diff(knots), 0.0, 1.0).mean(axis=0)
        assert memory.survival_rows[i, : knots.size - 1] == pytest.approx(above, abs=1e-12)
        used = memory.row_size[i]
        at, share = knots[memory.row_knots[i, :used]], memory.row_weights[i, :used]
        assert share.sum() == pytest.approx(1.0) and (np.diff(at) > 0).all() and share.min() > 0
        assert memory.row_variance[i] == pytest.approx(share @ at**2 - (share @ at) ** 2, abs=1e-12)
        if policy.metric.shape != "concave":
            assert memory.row_utility[i] == pytest.approx(slow.utility(policy.metric, knots, above), abs=1e-12)
    return right


@pytest.mark.parametrize("metric", ["upper_cvar(0.9)", "lower_cvar(0.5)"])
@pytest.mark.parametrize(("digits", "history"), [(9, 0), (9, 3000), (2, 1500), (3, 2000)])
def test_rows_and_knots_are_those_of_the_rewards(metric: str, digits: int, history: int) -> None:
    """Between looks rows are only added to; the table of many rewards is laid out in leaps. Both must not be seen."""
    rng = np.random.default_rng(history)
    policy = pmb.Vet(metric, n_arms=3, support=pmb.Interval(0, 1))
    rewards: list[list[float]] = [[], [], []]

    def tell(arm: int) -> None:
        reward = round(float(rng.beta(1 + arm, 2)), digits)
        rewards[arm].append(reward)
        policy.tell(arm, reward)

    for n in range(history):
        tell(int(n % 10 == 0) + int(n % 50 == 0))
    checked, looked = 0, -1
    for t in range(120):
        arm = policy.ask()
        memory: Any = policy._memory
        if memory.n_knots:
            if memory.looked != looked:
                looked = memory.looked
                assert looked != sum(map(len, rewards)) or memory.knots[: memory.n_knots].tolist() == knots_of(
                    [x for mine in rewards for x in mine], 0.0, 1.0
                )
            if t % 5 == 0:
                checked += check_rows(policy, rewards)
        tell(arm)
    assert checked > 30
