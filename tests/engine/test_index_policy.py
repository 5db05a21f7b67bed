"""Policies with an index: the rule of the library around the index of one arm, against the rule in plain Python."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.kit import Policy, Setup, kernel, state, unpack

own = state(weight=float)


@kernel
def weighted(s: Any, i: int) -> float:
    return s.own.weight * s.sums[i] / s.n_rewards[i] - math.sqrt(s.n_rewards[i] / s.t)


@kernel
def largest_name(memory: int) -> None:
    s = unpack(memory)
    for i in range(s.n_arms):
        s.mix[i] = 1.0 if i == s.n_arms - 1 else 0.0


class Weighted(Policy, name="test_index_weighted", index=weighted, unpack=own):
    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(numbers={"weight": 0.25})


class Later(Weighted, name="test_index_later", index=weighted, update=largest_name, unpack=own):
    pass


def by_hand(pulls: Any, n: Any, sums: Any) -> int:
    """The rule once more, from lists."""
    if max(sum(pulls), sum(n)) < len(pulls):
        return int(np.argmin(pulls))
    t = sum(pulls)
    indices = [0.25 * s / k - math.sqrt(k / t) if k else math.inf for s, k in zip(sums, n, strict=True)]
    tied = [i for i, index in enumerate(indices) if index == max(indices)]
    return min(tied, key=lambda i: (pulls[i], i))


@pytest.mark.parametrize("late", [0, 1, 7])
def test_the_arm_with_the_largest_index_is_pulled_and_of_equal_ones_that_with_the_fewest_pulls(late: int) -> None:
    rng = np.random.default_rng(late)
    policy = Weighted("mean", n_arms=4, support=pmb.Binary())
    pulls, n, sums = [0] * 4, [0] * 4, [0.0] * 4
    waiting: list[int] = []
    for _ in range(400):
        arm = policy.ask()
        assert arm == by_hand(pulls, n, sums)
        pulls[arm] += 1
        waiting.append(arm)
        while len(waiting) > late:
            paid = waiting.pop(0)
            reward = float(rng.random() < 0.2 * (paid + 1))
            policy.tell(paid, reward)
            n[paid] += 1
            sums[paid] += reward


def test_the_mixture_is_the_largest_mean_unless_the_policy_says_otherwise() -> None:
    for cls, expected in ((Weighted, [0.0, 1.0, 0.0]), (Later, [0.0, 0.0, 1.0])):
        policy = cls("mean", n_arms=3, support=pmb.Binary())
        policy.tell([0, 1, 2, 2], [0.0, 1.0, 1.0, 0.0])
        assert policy.mixture.tolist() == expected


def test_a_policy_has_an_index_or_chooses() -> None:
    with pytest.raises(TypeError, match="choose and index"):
        type("Both", (Policy,), {}, index=weighted, choose=largest_name)
    with pytest.raises(TypeError, match=r"@kernel above def <lambda>\(s, i\)"):
        type("Plain", (Policy,), {}, index=lambda s, i: 0.0)
    assert Weighted._choose_in_lanes is not None
    choosing = type("Choosing", (Weighted,), {}, choose=largest_name)
    assert choosing._choose_in_lanes is None
