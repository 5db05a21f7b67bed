"""What segments give up of their own for everybody together, against sums worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.engine.segment_tradeoffs import segment_tradeoffs, tradeoff_text


def told(means: list[list[float]], n: int = 1000) -> pmb.Policy:
    """A policy with segments of 60 % and 40 % whose arms have these means exactly."""
    policy = pmb.Uniform("gini", names=["A", "B"], support=pmb.Binary(), segments=["new", "old"])
    for name, row, share in zip(policy.segments, means, (0.6, 0.4), strict=True):
        for arm, mean in enumerate(row):
            count = int(n * share)
            policy.tell(arm, [1.0] * round(mean * count) + [0.0] * round((1 - mean) * count), segment=name)
    return policy


def test_a_segment_that_makes_up_for_another_is_named_with_what_it_costs_and_gains() -> None:
    # The Gini deviation of 0/1 rewards is h(p) = p(1 − p). Old pays 0 whatever it plays, so everybody together is best
    # off with new at p = 5/6, while new alone would be at 1/2.
    policy = told([[0.5, 1.0], [0.0, 0.0]])
    assert policy._segments is not None
    rows = np.array([[1 / 3, 2 / 3], [0.5, 0.5]])
    found = segment_tradeoffs(
        pmb.GiniDeviation(), policy._segments, policy._arm_estimates(), rows, policy._segment_frequencies()
    )
    new, old = found[0], found[1]
    assert new.own_shares == pytest.approx([1.0, 0.0], abs=1e-6)
    assert new.gives_up == pytest.approx(0.25 - 5 / 36, abs=1e-9)
    assert new.gain == pytest.approx(0.25 - 0.3 * 0.7, abs=1e-9)
    assert new.matters and not old.matters
    text = tradeoff_text(found, 0, policy._segments)
    assert "new would play A 100 %" in text and "0.11" in text and "0.04" in text
    assert "best for old by itself" in tradeoff_text(found, 1, policy._segments)
    assert "new makes up" in tradeoff_text(found, 1, policy._segments)
    assert "new would play" in tradeoff_text(found, None, policy._segments)


def test_where_the_segments_own_optima_are_best_for_everybody_it_says_so() -> None:
    policy = told([[0.5, 1.0], [0.5, 1.0]])
    policy.metric = pmb.Mean()
    assert policy._segments is not None
    rows = np.array([[0.0, 1.0], [0.0, 1.0]])
    found = segment_tradeoffs(pmb.Mean(), policy._segments, policy._arm_estimates(), rows, np.array([0.6, 0.4]))
    assert [one.gives_up for one in found.values()] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert "each segment" in tradeoff_text(found, None, policy._segments)


def test_nothing_is_said_while_nothing_is_known() -> None:
    policy = pmb.Uniform("gini", names=["A", "B"], support=pmb.Interval(0, 1), segments=["new", "old"])
    assert policy._segments is not None
    found = segment_tradeoffs(
        pmb.GiniDeviation(), policy._segments, policy._arm_estimates(), policy.mixture, policy._segment_frequencies()
    )
    assert found == {} and tradeoff_text(found, 0, policy._segments) == ""


def test_many_rewards_are_taken_at_their_quantiles() -> None:
    rng = np.random.default_rng(1)
    policy = pmb.Uniform("gini", names=["A", "B"], support=pmb.Interval(0, 1), segments=["new", "old"])
    for name in policy.segments:
        policy.tell(0, rng.random(3000), segment=name)
        policy.tell(1, np.full(300, 0.5), segment=name)
    assert policy._segments is not None
    rows, metric = np.array([[0.0, 1.0], [1.0, 0.0]]), pmb.GiniDeviation()
    found = segment_tradeoffs(metric, policy._segments, policy._arm_estimates(), rows, np.array([0.5, 0.5]))
    assert found[0].gives_up == pytest.approx(1 / 6, rel=0.05)  # the Gini deviation of the uniform distribution
    assert "explain" in dir(policy) and "old" in policy.explain(segment="old")
