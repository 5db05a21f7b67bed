"""The survival table: values, slopes and parts of it, against sums and integrals that are written another way."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats as st

import pmbandits as pmb
from pmbandits.tables.distributions import Atoms, as_distribution
from pmbandits.tables.from_distributions import survival_table
from pmbandits.tables.survival_table import SurvivalTable
from pmbandits.tables.wasserstein import wasserstein_matrix
from tests.reference.choquet import choquet_loop

METRICS = [
    pmb.GiniDeviation(),
    pmb.UpperCVaR(0.8),
    pmb.LowerCVaR(0.3),
    pmb.PHT(0.6),
    pmb.VaR(0.7),
    pmb.MeanMedianDeviation(),
    pmb.Mean() + 0.5 * pmb.GiniShortfall(0.4, 0.3),
]


def atoms(rng: np.random.Generator, count: int) -> list[Atoms]:
    points = np.sort(rng.normal(size=12))
    return [
        Atoms(points[np.sort(rng.choice(12, 7, replace=False))], rng.dirichlet(np.full(7, 0.5))) for _ in range(count)
    ]


def choquet(metric: pmb.Distortion, arms: list[Atoms], weights: np.ndarray) -> float:
    x, p = np.concatenate([a.x for a in arms]), np.concatenate([w * a.p for w, a in zip(weights, arms, strict=True)])
    return choquet_loop(lambda u: float(metric(min(u, 1.0))), list(x), list(p))


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_values_of_atoms_are_the_sum_over_points(metric: pmb.Distortion) -> None:
    rng = np.random.default_rng(1)
    arms = atoms(rng, 4)
    table, grid = SurvivalTable.from_atoms(arms), rng.dirichlet(np.full(4, 0.5), 6)
    expected = [choquet(metric, arms, row) for row in grid]
    assert table.values(metric, grid) == pytest.approx(expected, rel=1e-12)
    assert [table.value(metric, row) for row in grid] == pytest.approx(expected, rel=1e-12)
    assert table.values(metric) == pytest.approx([choquet(metric, [arm], np.ones(1)) for arm in arms], rel=1e-12)
    part = table.table_of_some_arms([2, 0], grid[0])
    assert part.value(metric, np.array([0.2, 0.3, 0.5])) == pytest.approx(
        choquet(metric, arms, np.array([0.3, 0.0, 0.2, 0.0]) + 0.5 * grid[0]), rel=1e-12
    )
    mixed = table.table_of_mixtures(grid[:2])
    assert mixed.value(metric, np.array([0.4, 0.6])) == pytest.approx(
        choquet(metric, arms, 0.4 * grid[0] + 0.6 * grid[1]), rel=1e-12
    )


@pytest.mark.parametrize("metric", METRICS, ids=repr)
def test_values_on_panels_are_those_of_a_table_for_one_mixture_alone(metric: pmb.Distortion) -> None:
    arms = [as_distribution(d) for d in (st.norm(0, 1), st.beta(2, 5), st.uniform(-1, 3))]
    grid = np.random.default_rng(2).dirichlet(np.ones(3), 4)
    table = survival_table(metric, arms, np.vstack((np.eye(3), grid)))
    for row, value in zip(grid, table.values(metric, grid), strict=True):
        alone = survival_table(metric, arms, row[None])
        assert value == pytest.approx(alone.value(metric, row), rel=1e-9)
        thin = table.table_of_mixtures(row[None])
        assert thin.value(metric, np.ones(1)) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("panels", [False, True])
@pytest.mark.parametrize("metric", [m for m in METRICS if not m.jumps], ids=repr)
def test_slopes_are_differences_of_values(metric: pmb.Distortion, panels: bool) -> None:
    rng = np.random.default_rng(3)
    normal = [as_distribution(d) for d in (st.norm(0, 1), st.norm(1, 0.5), st.beta(2, 5))]
    weights = np.array([0.31, 0.42, 0.27])
    table = survival_table(metric, normal if panels else atoms(rng, 3), np.vstack((np.eye(3), weights)))
    slopes, step = table.gradient(metric, table.curve_of_mixture(weights)), 1e-6
    for to in (1, 2):
        move = step * (np.eye(3)[to] - np.eye(3)[0])
        difference = (table.value(metric, weights + move) - table.value(metric, weights - move)) / (2.0 * step)
        assert slopes[to] - slopes[0] == pytest.approx(difference, rel=1e-5, abs=1e-6)


def test_a_tables_rows_are_curves_and_tails_keep_their_digits() -> None:
    table = SurvivalTable.from_atoms([Atoms(np.arange(4.0), np.array([1e-20, 0.5, 0.5 - 2e-20, 1e-20]))])
    assert table.cdf_rows[0, 0] == 1e-20
    assert table.survival_rows[0, -1] == 1e-20
    assert table.curve_of_mixture(np.ones(1)).p.tolist() == pytest.approx([1e-20, 0.5, 1e-20], rel=1e-12)


def test_wasserstein_distances_are_those_of_scipy() -> None:
    rng = np.random.default_rng(4)
    arms = atoms(rng, 3)
    found = wasserstein_matrix(arms)
    for i in range(3):
        for j in range(3):
            expected = st.wasserstein_distance(arms[i].x, arms[j].x, arms[i].p, arms[j].p)
            assert found[i, j] == pytest.approx(expected, abs=1e-12)
