"""The one call for simplex, segments and limits: against brute force, all plans, and a convex solver."""

from __future__ import annotations

import time
from itertools import product

import numpy as np
import pytest

import pmbandits as pmb
from pmbandits.constraints import limits
from pmbandits.constraints.polytope import simplex_polytope
from pmbandits.optimize.branch_and_bound import cellwise_bound
from pmbandits.optimize.maximise import maximise
from pmbandits.tables.distributions import Atoms
from pmbandits.tables.survival_table import SurvivalTable
from tests.reference import convex

METRICS = ["gini", "upper_cvar(0.8)", "mean", "lower_cvar(0.3)", "-1*gini", "mean - 0.6*gini", "pht(0.5)"]
METRICS += ["inverted_s(0.7)", "tversky_kahneman(0.65)", "mean + 2*lower_cvar(0.2)"]


def columns(rng: np.random.Generator, count: int, size: int) -> SurvivalTable:
    points = np.sort(rng.random(size))
    return SurvivalTable.from_atoms([Atoms(points, rng.dirichlet(np.full(size, 0.4))) for _ in range(count)])


@pytest.mark.parametrize("name", METRICS)
def test_two_segments_with_two_arms_are_as_good_as_a_fine_grid(name: str) -> None:
    metric, rng = pmb.metric(name), np.random.default_rng(len(name))
    share = np.linspace(0.0, 1.0, 201)
    for _ in range(4):
        table, p = columns(rng, 4, 6), rng.dirichlet(np.ones(2))
        one, two = (x.ravel() for x in np.meshgrid(share, share))
        grid = np.column_stack((p[0] * one, p[0] * (1 - one), p[1] * two, p[1] * (1 - two)))
        found = maximise(metric, table, segments=[0, 0, 1, 1], frequencies=p)
        top, size = float(table.values(metric, grid).max()), max(abs(found.value), 1e-3)
        assert found.weights[:2].sum() == pytest.approx(p[0], abs=1e-12) and found.weights.min() >= 0.0
        assert found.value >= top - 1e-9 * size
        assert np.isnan(found.upper) or found.upper >= top - 1e-10 * size
        if metric.shape != "neither":
            assert found.upper - found.value <= 1e-8 * size


@pytest.mark.parametrize("name", ["lower_cvar(0.3)", "-1*gini", "mean - 0.6*gini", "mean + 2*lower_cvar(0.2)"])
def test_convex_metrics_find_the_best_of_all_plans(name: str) -> None:
    metric, rng, segments = pmb.metric(name), np.random.default_rng(7), np.repeat(np.arange(5), 3)
    for _ in range(5):
        table, p = columns(rng, 15, 12), rng.dirichlet(np.ones(5))
        plans = np.zeros((3**5, 15))
        for row, plan in zip(plans, product(range(3), repeat=5), strict=True):
            row[3 * np.arange(5) + np.array(plan)] = p
        found = maximise(metric, table, segments=segments, frequencies=p)
        top = float(table.values(metric, plans).max())
        assert found.value == pytest.approx(top, abs=1e-12) and found.upper >= top - 1e-12
        if "lower_cvar" in name:
            assert found.upper == pytest.approx(top, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_convex_metrics_under_many_limits_find_the_best_vertex(seed: int) -> None:
    rng, names = np.random.default_rng(seed), [f"a{i}" for i in range(9)]
    table = columns(rng, 9, 8)
    kept = limits({name: (0.02, 0.2 + 0.02 * i) for i, name in enumerate(names)}, names).polytope
    corners = kept.corners(20_000)
    assert corners is not None and corners.shape[0] > 200
    for name in ("lower_cvar(0.3)", "-1*gini"):
        metric = pmb.metric(name)
        found, top = maximise(metric, table, polytope=kept), float(table.values(metric, corners).max())
        assert found.value == pytest.approx(top, abs=1e-9) and found.upper >= top - 1e-12
        assert kept.excess(found.weights).max() <= 1e-9
        if name == "lower_cvar(0.3)":
            assert found.upper == pytest.approx(top, abs=1e-9)


@pytest.mark.parametrize("name", [*METRICS, "var(0.7)", "-1*var(0.3)", "var(0.5) - 0.5*var(0.8) + gini"])
def test_no_mixture_exceeds_the_bound_cell_by_cell(name: str) -> None:
    metric, rng = pmb.metric(name), np.random.default_rng(11)
    for turn in range(8):
        table, allowed = columns(rng, 5, 9), simplex_polytope(5)
        tried = np.vstack((np.eye(5), rng.dirichlet(np.full(5, 0.3), 1000)))
        if turn % 2:
            allowed = allowed.with_segments(np.array([0, 0, 1, 1, 1]), np.array([0.3, 0.7]))
            tried = tried[5:]
            tried[:, :2] *= 0.3 / tried[:, :2].sum(axis=1, keepdims=True)
            tried[:, 2:] *= 0.7 / tried[:, 2:].sum(axis=1, keepdims=True)
        bound = cellwise_bound(metric, table, allowed, tried[turn])
        assert float(table.values(metric, tried).max()) <= bound + 1e-13
        assert bound < np.inf


def test_forty_segments_of_five_arms_against_a_convex_solver() -> None:
    rng, segments, p = (
        np.random.default_rng(2),
        np.repeat(np.arange(40), 5),
        np.random.default_rng(3).dirichlet(np.ones(40)),
    )
    points = np.linspace(0.0, 1.0, 101)
    arms = [(points, rng.dirichlet(np.full(101, 0.3))) for _ in range(200)]
    table = SurvivalTable.from_atoms([Atoms(x, mass) for x, mass in arms])
    rules = [((segments == s).astype(float), "==", float(p[s])) for s in range(39)]
    for metric, h in ((pmb.GiniDeviation(), convex.gini()), (pmb.UpperCVaR(0.8), convex.upper_cvar(0.8))):
        maximise(metric, table, segments=segments, frequencies=p)
        begun = time.process_time()
        found = maximise(metric, table, segments=segments, frequencies=p)
        assert time.process_time() - begun < 1.0  # measured 0.1 or less; on a busy machine more
        at, above = convex.survival(arms)
        _, optimum = convex.best_mixture(h, at, above, rules)
        assert found.value == pytest.approx(optimum, rel=1e-6)
        assert 0.0 <= found.upper - found.value <= 1e-9 * found.value
