"""A quick look beside the oracle, which takes its time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.advice.preview import Preview
from pmbandits.advice.problem import make_problem
from pmbandits.constraints import limits
from pmbandits.logs import read_log

# How far below the best a quick look may be, as a share of it: searches of preferences with steps are rough.
SHORT = {
    "gini": 1e-4,
    "upper_cvar(0.8)": 1e-4,
    "0.5*mean + 0.5*upper_cvar(0.9)": 1e-4,
    "pht(0.5)": 1e-3,
    "lower_cvar(0.2)": 1e-3,
    "mean": 1e-9,
    "tversky_kahneman(0.61)": 1e-3,
    "var(0.5)": 0.02,
    "inter_quantile_range": 0.1,
}


def _marked(text: str) -> Any:
    """For metrics that are neither concave nor convex the oracle takes seconds."""
    return pytest.param(text, marks=pytest.mark.slow) if pmb.metric(text).shape == "neither" else text


@pytest.mark.parametrize("text", [_marked(text) for text in SHORT])
@pytest.mark.parametrize("limited", [False, True])
def test_a_quick_look_finds_nearly_the_best_mixture(text: str, limited: bool) -> None:
    rng = np.random.default_rng(3)
    metric = pmb.metric(text)
    for case in range(3):
        count, n = int(rng.integers(2, 5)), int(rng.integers(30, 300))
        rewards = {}
        for k in range(count):
            x = rng.gamma(rng.uniform(0.5, 3.0), 1.0, n)
            rewards[f"a{k}"] = x if case else np.where(rng.random(n) < 0.6, 0.0, x)
        preview = Preview(make_problem(read_log(rewards)))
        kept = limits("a0 >= 10%; a1 <= 60%", list(rewards)) if limited else None
        seen = preview.best_mixture(metric, kept)
        best = pmb.oracle(metric, pmb.Bandit.from_samples(rewards), shares=kept)
        size = max(abs(best.value), abs(best.best_arm_value))
        assert best.value - seen.value <= SHORT[text] * size + 1e-9
        assert seen.value <= best.value + (best.gap if best.certified else 0.02 * size) + 1e-9
        assert kept is None or kept.keeps(seen.weights)
        assert seen.weights.sum() == pytest.approx(1.0) and seen.cost_of_limits >= 0.0


def test_what_was_looked_at_before_is_not_worked_out_again() -> None:
    preview = Preview(make_problem(read_log({"a": [0.0, 1.0, 2.0], "b": [1.0, 1.0, 3.0]})))
    one = preview.best_mixture(pmb.GiniDeviation())
    assert preview.best_mixture(pmb.metric("gini")).weights is one.weights
