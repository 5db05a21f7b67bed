"""The best mixture within limits for a linear function: the simplex method in kernels, beside scipy's."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize as opt

from pmbandits._validation import FloatArray
from pmbandits.mixtures._constraints import fill_linear_maximiser_within_rows


def random_limits(rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Rows and bounds that some mixture keeps: floors, groups, equalities (two rows), and rows that say the same."""
    k, m = int(rng.integers(2, 12)), int(rng.integers(1, 8))
    rows = np.round(rng.normal(size=(m, k)), 1) if rng.random() < 0.5 else (rng.random((m, k)) < 0.5).astype(float)
    inside = rng.dirichlet(np.ones(k))
    inside = np.where(rng.random(k) < 0.3, 0.0, inside)
    inside = inside / inside.sum() if inside.sum() > 0.0 else np.eye(k)[0]
    bounds = rows @ inside + np.where(rng.random(m) < 0.4, 0.0, 0.3 * rng.random(m))
    if rng.random() < 0.4:
        rows, bounds = np.vstack((rows, -rows[:1])), np.append(bounds, -(rows[0] @ inside))
    if rng.random() < 0.3:
        rows, bounds = np.vstack((rows, rows[:1])), np.append(bounds, bounds[0])
    return np.ascontiguousarray(rows), bounds


def best(rows: FloatArray, bounds: FloatArray, g: FloatArray) -> float:
    found = opt.linprog(-g, A_ub=rows, b_ub=bounds, A_eq=np.ones((1, g.size)), b_eq=[1.0])
    assert found.status == 0
    return float(-found.fun)


def test_the_simplex_method_finds_the_value_of_a_linear_program() -> None:
    rng = np.random.default_rng(5)
    for _ in range(400):
        rows, bounds = random_limits(rng)
        k = rows.shape[1]
        g = rng.normal(size=k) if rng.random() < 0.7 else rng.integers(0, 3, k).astype(float)
        out, behind = np.empty(k), np.empty(k)
        fill_linear_maximiser_within_rows(rows, bounds, g, out, behind)
        assert out.min() >= 0.0 and out.sum() == pytest.approx(1.0, abs=1e-9)
        assert (rows @ out - bounds).max() <= 1e-8
        assert g @ out == pytest.approx(best(rows, bounds, g), abs=1e-8)


def test_an_arm_needs_its_reduced_cost_for_a_share() -> None:
    rng = np.random.default_rng(6)
    entered = 0
    for _ in range(100):
        rows, bounds = random_limits(rng)
        k = rows.shape[1]
        g, out, behind = rng.normal(size=k), np.empty(k), np.empty(k)
        fill_linear_maximiser_within_rows(rows, bounds, g, out, behind)
        value = best(rows, bounds, g)
        for i in np.flatnonzero(out <= 1e-9):
            less, more = g.copy(), g.copy()
            less[i] += 0.99 * behind[i]
            more[i] += behind[i] + 0.1
            assert best(rows, bounds, less) <= value + 1e-8  # with less it has no share
            entered += best(rows, bounds, more) > value + 1e-9
    assert entered > 50
