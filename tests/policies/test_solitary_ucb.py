"""SolitaryUCB: the bounds that it reports do not depend on its index."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb

SUPPORTS = {
    "binary": pmb.Binary(),
    "finite": pmb.Finite([0.0, 0.3, 1.0]),
    "interval": pmb.Interval(0.0, 1.0),
    "wide interval": pmb.Interval(-2.0, 3.0),
}
METRICS = [pmb.GiniDeviation(), pmb.WangRightTail(), pmb.Mean(), pmb.LowerCVaR(0.3)]
WEIGHTS = [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]


def told(support: str, metric: Any, cls: Any = pmb.SolitaryUCB, **options: Any) -> Any:
    policy, rng = cls(metric, n_arms=3, support=SUPPORTS[support], horizon=1000, **options), np.random.default_rng(4)
    for arm in range(3):
        x = rng.beta(1 + 2 * arm, 3, 150)
        if support == "binary":
            x = (x > 0.5).astype(float)
        elif support == "finite":
            x = np.array([0.0, 0.3, 1.0])[(3 * x).astype(int)]
        elif support == "wide interval":
            x = 5.0 * x - 2.0
        policy.tell(arm, x)
    return policy


@pytest.mark.parametrize("metric", METRICS, ids=repr)
@pytest.mark.parametrize("support", SUPPORTS)
def test_the_bounds_enclose_the_empirical_utility_whatever_the_index(support: str, metric: Any) -> None:
    additive, optimistic = (told(support, metric, index=index) for index in ("additive", "optimistic"))
    mixing = told(support, metric, pmb.PMUCB, epsilon=0.25)  # keeps the same sets
    for policy in (additive, optimistic, mixing):
        policy.ask()  # the index is worked out; that must not change what is reported
    data = {str(i): (arm.x, arm.p) for i, arm in enumerate(additive.estimates)}
    for weights in WEIGHTS:
        low, middle, high = additive.utility_bounds(weights)
        assert low <= middle <= high
        assert (low, middle, high) == optimistic.utility_bounds(weights) == mixing.utility_bounds(weights)
        x = np.concatenate([points for points, _ in data.values()])
        p = np.concatenate([w * share for w, (_, share) in zip(weights, data.values(), strict=True)])
        assert middle == pytest.approx(metric.value(x, weights=p), abs=1e-12)


@pytest.mark.parametrize("support", SUPPORTS)
def test_the_explanation_names_the_same_bounds(support: str) -> None:
    texts = []
    for index in ("additive", "optimistic"):
        policy = told(support, pmb.GiniDeviation(), index=index)
        low, middle, high = policy.utility_bounds()
        found = re.search(r"estimated at (\S+), and it lies between (\S+) and (\S+)\. ", policy.explain())
        assert found is not None
        assert found.groups()[:3] == (f"{middle:.4g}", f"{low:.4g}", f"{high:.4g}")
        texts.append(found.group())
    assert texts[0] == texts[1]


def test_the_additive_index_is_the_utility_plus_the_bonus() -> None:
    metric = pmb.PHT(0.5)
    pair = metric.holder(SUPPORTS["interval"])
    for confidence in ("dkw", "kl"):
        policy = told("interval", metric, index="additive", confidence=confidence)
        policy.ask()
        for i, arm in enumerate(policy.estimates):
            far = arm.radius
            if confidence == "kl":  # the belt's distance in W1, between the rewards and beyond them
                low, high = arm.band(np.concatenate(([0.0], arm.x)))
                middle = arm.cdf(np.concatenate(([0.0], arm.x)))
                far = float(np.maximum(high - middle, middle - low) @ np.diff([0.0, *arm.x, 1.0]))
            expected = metric.value(arm.x, weights=arm.p) + pair.constant * far**pair.q
            assert policy._memory.index[i] == pytest.approx(expected, abs=1e-12)
