"""The best mixture of distributions that a policy of a user draws, beside the oracle for the same distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.kit import Policy, Setup, best_mixture_of_drawn, kernel, pull, unpack, utility_of_survival
from pmbandits.metrics.encoding import encode_metric

POINTS = np.array([-1.0, 0.0, 0.5, 2.0])


@kernel
def choose(memory: int) -> int:
    """Draws survival functions at four points, always the same ones, and takes their best mixture."""
    s = unpack(memory)
    x, above = np.array([-1.0, 0.0, 0.5, 2.0]), np.zeros((s.n_arms, 4))
    for i in range(s.n_arms):
        for c in range(3):
            above[i, c] = (1.0 - 0.3 * c) ** (1.0 + 3.0 * i)
    best_mixture_of_drawn(s, x, above, s.mix)
    return pull(s, 0)


@kernel
def update(memory: int) -> None:
    s = unpack(memory)
    s.dirty = 0


class Drawn(Policy, name="drawn_of_tests", choose=choose, update=update):
    """Plays arm 0, and names the best mixture of what it draws."""

    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup(table=True)


class NoTable(Policy, choose=choose, update=update):
    def setup(self, metric: Any, n_arms: int, support: Any) -> Setup:
        return Setup()


def drawn_bandit(n_arms: int) -> pmb.Bandit:
    """The arms that ``choose`` draws."""
    rows = []
    for i in range(n_arms):
        above = np.append((1.0 - 0.3 * np.arange(3)) ** (1.0 + 3.0 * i), 0.0)
        weights = -np.diff(np.append(1.0, above))
        rows.append({"points": POINTS[weights > 0].tolist(), "probabilities": weights[weights > 0].tolist()})
    return pmb.Bandit.from_dict({"arms": rows, "names": [f"arm {i}" for i in range(n_arms)]})


@pytest.mark.parametrize(
    "metric", ["gini", "mean", "lower_cvar(0.3)", "upper_cvar(0.7)", "wang_right_tail", "dual_power(2)"]
)
@pytest.mark.parametrize("support", [pmb.Interval(-1, 2), pmb.Real(1.0)], ids=["interval", "real"])
def test_it_is_the_mixture_of_the_oracle(metric: str, support: pmb.Interval | pmb.Real) -> None:
    policy = Drawn(metric, n_arms=3, support=support)
    policy.ask()
    best = pmb.oracle(metric, drawn_bandit(3))
    mix = policy._memory.mix
    found = pmb.utility(metric, drawn_bandit(3), mix / mix.sum())
    assert best.value - 1e-5 <= found <= best.value + 1e-9


def test_the_utility_of_a_survival_function_is_that_of_its_points() -> None:
    above = np.array([1.0, 0.7, 0.25, 0.0])
    for metric in (pmb.GiniDeviation(), pmb.LowerCVaR(0.3), pmb.VaR(0.6)):
        want = metric.value(POINTS[1:], -np.diff(above))
        assert utility_of_survival(encode_metric(metric), POINTS, above, 4) == pytest.approx(want, abs=1e-12)


def test_what_it_needs_is_said() -> None:
    with pytest.raises(ValueError, match=r"Setup\(table=True\)"):
        NoTable("gini", n_arms=2, support=pmb.Interval(-1, 2)).ask()
    with pytest.raises(ValueError, match="concave or convex"):
        Drawn("inverted_s(0.5)", n_arms=2, support=pmb.Interval(-1, 2)).ask()
