"""With two arms, the best of the grid is found from blocks of rewards, as if everything were worked out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.mixtures._index import HOLDER_BONUS, OPTIMISTIC_BOUND
from pmbandits.mixtures._line_argmax import is_concave_on_line
from tests.helpers import look_at_everything

POLICIES: dict[str, dict[str, Any]] = {
    "PMUCB": {"horizon": 4000, "epsilon": 1 / 20},
    "CEUCB": {"horizon": 4000, "epsilon": 1 / 20},
    "FixedGrid": {"epsilon": 0.2},
}


def rewards_of(kind: str, n: int) -> np.ndarray:
    rng = np.random.default_rng(7)
    if kind == "alike":  # both arms pay the same, in the same order: exact ties
        return np.repeat(rng.beta(2, 2, (1, n)), 2, axis=0)
    if kind == "few values":
        return rng.choice([0.0, 0.25, 0.6, 1.0], (2, n), p=[0.3, 0.3, 0.3, 0.1])
    return np.array([rng.beta(5.0, 1.3, n), rng.beta(1.5, 3.0, n)])


@pytest.mark.parametrize("told", [0, 1100])
@pytest.mark.parametrize("kind", ["apart", "alike", "few values"])
@pytest.mark.parametrize("metric", ["gini", "wang_right_tail", "pht(0.6)", "mean"])
@pytest.mark.parametrize("confidence", ["kl", "dkw"])
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_pulls_as_working_out_everything(
    name: str, confidence: str, metric: str, kind: str, told: int
) -> None:
    options = {**POLICIES[name], "confidence": confidence}
    cls: Any = getattr(pmb, name)
    quick, whole = (cls(metric, n_arms=2, support=pmb.Interval(0, 1), **options) for _ in range(2))
    look_at_everything(whole)
    rewards, seen = rewards_of(kind, told + 60), [told // 2, told // 3]
    for policy in (quick, whole):
        for arm in range(2):
            policy.tell([arm] * seen[arm], rewards[arm, : seen[arm]])
    more = rewards[0, seen[0] : told]
    for policy in (quick, whole):
        policy.tell([0] * more.size, more)
    for turn in range(40):
        arm = quick.ask()
        assert arm == whole.ask(), turn
        assert quick._memory.current_point == whole._memory.current_point, turn
        for policy in (quick, whole):
            policy.tell(arm, rewards[arm, told + turn])
    assert quick._memory.n_in_blocks == 0 if told == 0 else quick._memory.n_blocks > 0


def test_blocks_follow_rewards_that_are_corrected() -> None:
    """A reward that is replaced makes all counts wrong, so they are begun anew."""
    rewards, policies = rewards_of("apart", 1400), []
    for wrong in (0.9, 0.1):
        policy = pmb.PMUCB("gini", n_arms=2, support=pmb.Interval(0, 1), horizon=4000, epsilon=1 / 20)
        for arm in range(2):
            policy.tell([arm] * 600, rewards[arm, :600])
        policy.tell(0, wrong)
        policy.ask()
        if wrong != 0.1:
            assert policy._memory.n_in_blocks == 1201
            policy.retell(0, before=wrong, reward=0.1)
        policies.append(policy)
    one, other = policies
    for turn in range(30):
        assert one.ask() == other.ask()
        for policy in policies:
            policy.tell(0, rewards[0, 700 + turn])
    np.testing.assert_array_equal(one.mixture, other.mixture)


@pytest.mark.parametrize(
    ("metric", "n_arms", "support", "fits"),
    [
        ("gini", 2, pmb.Interval(0, 1), True),
        ("gini", 3, pmb.Interval(0, 1), False),
        ("gini", 2, pmb.Binary(), False),
        ("inverted_s(0.6)", 2, pmb.Interval(0, 1), False),
        ("lower_cvar(0.3)", 2, pmb.Interval(0, 1), False),
    ],
)
def test_only_where_values_are_concave_along_the_grid(metric: str, n_arms: int, support: Any, fits: bool) -> None:
    policy = pmb.PMUCB(metric, n_arms=n_arms, support=support, horizon=1000, epsilon=0.25)
    for arm in range(n_arms):
        policy.tell([arm] * 20, np.arange(20) % 2)
    policy.ask()
    for kind in (OPTIMISTIC_BOUND, HOLDER_BONUS):
        assert is_concave_on_line(policy._memory, kind) == fits
