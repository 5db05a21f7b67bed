"""Newton's method for a few arms: the best mixture, its gap, and when it leaves the work to the interior point."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import scipy.stats as st

import pmbandits as pmb
from pmbandits.optimize.newton import maximise_by_newton
from pmbandits.tables.distributions import Atoms
from pmbandits.tables.survival_table import SurvivalTable

SMOOTH = [
    pmb.GiniDeviation(),
    pmb.WangRightTail(),
    pmb.DualPower(3.0),
    pmb.PHT(0.5),
    0.3 * pmb.Mean() + pmb.GiniDeviation(),
    pmb.Distortion.from_function(lambda u: np.sin(3.0 * u) / 3.0, shape="concave", name="sine"),
]


def random_table(seed: int, n_arms: int) -> SurvivalTable:
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_arms):
        x = np.sort(rng.normal(rng.uniform(-1.0, 1.0), rng.uniform(0.1, 3.0), rng.integers(2, 40)))
        rows.append(Atoms(x, rng.dirichlet(np.ones(x.size))))
    return SurvivalTable.from_atoms(rows)


@pytest.mark.parametrize("metric", SMOOTH, ids=str)
@pytest.mark.parametrize("n_arms", [2, 3, 6, 10])
def test_no_mixture_is_better_than_the_gap_allows(metric: Any, n_arms: int) -> None:
    reached = 0
    for seed in range(8):
        table, rng = random_table(seed, n_arms), np.random.default_rng(seed)
        found = maximise_by_newton(metric, table, np.full(n_arms, 1.0 / n_arms), 1e-10)
        if found is None:
            continue
        weights, gap = found
        value, reached = table.value(metric, weights), reached + 1
        assert gap <= 1e-10 and weights.min() >= 0.0 and weights.sum() == pytest.approx(1.0, abs=1e-14)
        grid = np.vstack((rng.dirichlet(np.full(n_arms, 0.3), 300), 0.99 * weights + 0.01 * np.eye(n_arms)))
        assert table.values(metric, grid).max() <= value + gap + 1e-13 * max(abs(value), 1.0)
        other = scipy.optimize.minimize(
            lambda a, table=table: -table.value(metric, np.maximum(a, 0.0) / np.maximum(a, 0.0).sum()),
            np.full(n_arms, 1.0 / n_arms),
            bounds=[(0.0, 1.0)] * n_arms,
            constraints={"type": "eq", "fun": lambda a: a.sum() - 1.0},
            method="SLSQP",
        )
        assert -other.fun <= value + gap + 1e-12
        assert value >= -other.fun - 1e-9
    assert reached >= 4  # where a best mixture leaves out the arm that reaches furthest, h may be vertical


def test_arms_that_are_alike_and_a_best_single_arm() -> None:
    coin = Atoms(np.array([0.0, 1.0]), np.array([0.5, 0.5]))
    found = maximise_by_newton(pmb.GiniDeviation(), SurvivalTable.from_atoms([coin] * 3), np.full(3, 1 / 3), 1e-12)
    assert found is not None and found[1] <= 1e-12
    far = Atoms(np.array([3.0, 9.0]), np.array([0.5, 0.5]))
    found = maximise_by_newton(pmb.DualPower(2.0), SurvivalTable.from_atoms([coin, far]), np.full(2, 0.5), 1e-12)
    assert found is not None and found[0].tolist() == [0.0, 1.0]


def test_where_h_is_vertical_at_the_best_mixture_it_gives_up() -> None:
    """Only the poor arm reaches 2, so it keeps a tiny share: no step without it, none with an infinite slope."""
    good, poor = (
        Atoms(np.array([0.0, 1.0]), np.array([0.01, 0.99])),
        Atoms(np.array([0.0, 2.0]), np.array([0.99, 0.01])),
    )
    table = SurvivalTable.from_atoms([good, poor])
    found = maximise_by_newton(pmb.PHT(0.5), table, np.array([1.0, 0.0]), 1e-12)
    assert found is None


def test_a_few_smooth_arms_need_nothing_compiled() -> None:
    code = (
        "import sys, pmbandits as pmb, scipy.stats as st\n"
        "print(pmb.oracle('gini', pmb.Bandit([st.beta(2, 5), st.beta(5, 2), st.beta(3, 3)])).gap < 1e-12)\n"
        "print('pmbandits.optimize._interior_point' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "False"]


def test_continuous_arms_agree_with_quadrature() -> None:
    """Gini deviation of a mixture of two normals with the same spread: the best share is a half."""
    best = pmb.oracle(pmb.GiniDeviation(), pmb.Bandit([st.norm(0.0, 1.0), st.norm(3.0, 1.0)]))
    assert best.weights == pytest.approx([0.5, 0.5], abs=1e-9)
    own = 2.0 / np.sqrt(np.pi)  # the mean distance of two rewards of one arm
    across = float(st.foldnorm(3.0 / np.sqrt(2.0), scale=np.sqrt(2.0)).mean())
    assert best.value == pytest.approx(0.5 * (0.5 * own + 0.5 * across), rel=1e-10)
