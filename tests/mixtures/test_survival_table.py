"""Vet's table of laws: utilities and best mixtures on it, beside those of all rewards one by one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import pmbandits as pmb
from tests.reference.vet import survival

METRICS: dict[str, Any] = {
    "gini": pmb.GiniDeviation(),
    "wang": pmb.WangRightTail(),
    "upper_cvar": pmb.UpperCVaR(0.9),
    "mean": pmb.Mean(),
    "pht": pmb.PHT(0.5),
    "lower_cvar": pmb.LowerCVaR(0.5),
    "inverted_s": pmb.InvertedS(0.5),
}
ROWS = 10_000


@cache
def rewards_of(kind: str) -> tuple[pmb.Support, list[np.ndarray]]:
    """Three arms with 10,000 rewards in all."""
    rng, counts = np.random.default_rng(0), (6000, 3500, 500)
    if kind == "beta":
        return pmb.Interval(0, 1), [
            rng.beta(a, b, n) for (a, b), n in zip(((1, 3), (3, 1), (0.5, 0.5)), counts, strict=True)
        ]
    if kind == "zero-inflated":
        shares = zip((0.5, 0.9, 0.99), counts, strict=True)
        return pmb.Interval(0, 1), [np.where(rng.random(n) < p, 0.0, rng.beta(2, 2, n)) for p, n in shares]
    if kind == "heavy tail":
        laws = zip((0.0, 1.0, 0.5), (1.0, 1.5, 2.0), counts, strict=True)
        return pmb.Interval(0, 1e4), [np.minimum(rng.lognormal(m, s, n), 1e4) for m, s, n in laws]
    atoms = np.array([0.1, 0.5, 0.9])
    laws = zip(rng.dirichlet(np.ones(3), 3), counts, strict=True)
    drawn = [np.where(rng.random(n) < 0.5, rng.choice(atoms, n, p=p), rng.random(n)) for p, n in laws]
    return pmb.Interval(0, 1), drawn


KINDS = ("beta", "zero-inflated", "heavy tail", "atoms")


@cache
def looked(kind: str, metric: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """The memory after a look; all points of the rewards and the ends of the support; each arm's survival there."""
    support, rewards = rewards_of(kind)
    policy = pmb.Vet(metric, n_arms=3, support=support)
    for arm, x in enumerate(rewards):
        policy.tell(arm, x.tolist())
    points = np.unique(np.concatenate(([support.lo, support.hi], *rewards)))
    return policy._memory_of_updated_clone(), points, np.array([survival(points, x) for x in rewards])


def on_table(memory: Any, metric: Any, mixture: np.ndarray) -> float:
    n = memory.n_knots
    knots, above = memory.knots[:n], np.clip(mixture @ memory.survival_rows[:, : n - 1], 0.0, 1.0)
    return float(knots[0] * metric(1.0) + np.diff(knots) @ metric(above))


def exactly(metric: Any, points: np.ndarray, above: np.ndarray, mixture: np.ndarray) -> float:
    return float(points[0] * metric(1.0) + np.diff(points) @ metric(np.clip(mixture @ above, 0.0, 1.0)))


def mixtures() -> np.ndarray:
    return np.concatenate((np.eye(3), np.random.default_rng(1).dirichlet(np.full(3, 0.5), 8)))


# The largest error found, as a share of the largest utility: mean 1e-12; others 1e-4, on heavy tails 7e-4 (√u at 0).
ERROR = {"beta": 1.5e-4, "zero-inflated": 1.5e-4, "heavy tail": 1e-3, "atoms": 5e-5}


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_keeps_utilities_and_means(kind: str) -> None:
    memory, points, above = looked(kind, METRICS["gini"])
    assert memory.n_knots <= 512
    for name, metric in METRICS.items():
        if (name, kind) == ("inverted_s", "heavy tail"):  # has a test of its own
            continue
        exact = np.array([exactly(metric, points, above, a) for a in mixtures()])
        found = np.array([on_table(memory, metric, a) for a in mixtures()])
        assert np.abs(found - exact).max() <= (1e-11 if name == "mean" else ERROR[kind]) * np.abs(exact).max(), name


def test_nothing_is_left_above_the_largest_reward() -> None:
    metric = METRICS["inverted_s"]
    memory, points, above = looked("heavy tail", METRICS["gini"])
    exact = np.array([exactly(metric, points, above, a) for a in mixtures()])
    found = np.array([on_table(memory, metric, a) for a in mixtures()])
    assert np.abs(found - exact).max() <= 1e-3 * np.abs(exact).max()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gini", "wang", "upper_cvar", "pht", "lower_cvar", "mean"])
def test_the_best_mixture_on_the_table_is_as_good_as_that_of_all_rewards(name: str, kind: str) -> None:
    """The bound is what the search may miss, and twice what the table may be wrong by."""
    metric = METRICS[name]
    memory, points, above = looked(kind, metric)
    _, rewards = rewards_of(kind)
    best = pmb.oracle(metric, pmb.Bandit.from_samples({str(i): x for i, x in enumerate(rewards)}))
    value, top = (exactly(metric, points, above, a) for a in (memory.mix, best.weights))
    goal = 0.02 * (points[-1] - points[0]) * float(np.abs(metric(np.linspace(0, 1, 2001))).max()) / ROWS
    assert value >= top - goal - 2 * (1e-11 if name == "mean" else ERROR[kind]) * abs(top)
    assert value <= top + 1e-9 * abs(top)
