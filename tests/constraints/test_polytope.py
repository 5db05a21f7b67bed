"""The mixtures that keep limits: corners against all combinations of tight rows, linear programs against corners."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pmbandits.constraints.polytope import Polytope, simplex_polytope


def random_polytope(seed: int) -> Polytope:
    rng = np.random.default_rng(seed)
    arms, count = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    matrix = np.round(rng.normal(size=(count, arms)), 1)
    equal = rng.random(count) < 0.2
    slack = np.where(equal, 0.0, rng.choice([0.0, 0.05, 0.2], count))
    return Polytope(matrix, matrix @ rng.dirichlet(np.ones(arms)) + slack, equal)


def corners_by_trying(polytope: Polytope) -> np.ndarray:
    """Every set of rows that could be tight at a corner, solved."""
    arms = polytope.n_arms
    rows = np.vstack((-np.eye(arms), polytope.matrix))
    bound = np.append(np.zeros(arms), polytope.bound)
    found = []
    for chosen in combinations(range(bound.size), arms - 1):
        left = np.vstack((np.ones(arms), rows[list(chosen)]))
        right = np.append(1.0, bound[list(chosen)])
        point, _, rank, _ = np.linalg.lstsq(left, right, rcond=None)
        keeps = (point > -1e-9).all() and polytope.excess(point).max() < 1e-9
        if rank == arms and np.abs(left @ point - right).max() < 1e-9 and keeps:
            found.append(point)
    return np.array(found)


def far(points: np.ndarray, others: np.ndarray) -> float:
    """How far the point that is furthest from all others is."""
    return max(float(np.abs(others - p).max(axis=1).min()) for p in points)


@pytest.mark.parametrize("seed", range(25))
def test_corners_are_those_that_trying_finds(seed: int) -> None:
    polytope = random_polytope(seed)
    corners, tried = polytope.corners(1000), corners_by_trying(polytope)
    assert corners is not None
    assert far(corners, tried) < 1e-6 and far(tried, corners) < 1e-6
    assert polytope.excess(corners).max() < 1e-12 and np.abs(corners.sum(axis=1) - 1).max() < 1e-15


@pytest.mark.parametrize(("n_arms", "chosen", "count"), [(8, 4, 70), pytest.param(12, 5, 792, marks=pytest.mark.slow)])
def test_caps_on_many_arms_have_as_many_corners_as_there_are_choices(n_arms: int, chosen: int, count: int) -> None:
    caps = Polytope(np.eye(n_arms), np.full(n_arms, 1 / chosen), np.zeros(n_arms, dtype=bool))
    corners = caps.corners(2000)
    assert corners is not None and corners.shape[0] == count  # so many of all
    assert caps.corners(count - 1) is None


@pytest.mark.parametrize("seed", range(25))
def test_the_largest_value_is_at_a_corner_and_its_bound_holds(seed: int) -> None:
    polytope = random_polytope(seed)
    corners = polytope.corners(1000)
    slopes = np.random.default_rng(seed).normal(size=polytope.n_arms) * 10.0 ** (seed % 7 - 3)
    found = polytope.maximise_linear(slopes)
    assert corners is not None and found is not None
    top = float((corners @ slopes).max())
    assert found.upper == pytest.approx(top, abs=1e-9 * np.abs(slopes).max())
    assert found.upper >= top - 1e-12 * np.abs(slopes).max()
    assert polytope.excess(found.at).max() < 1e-9
    assert (found.multipliers[~polytope.equal] >= 0.0).all()
    middle = polytope.mixture_in_the_middle()
    assert middle is not None and polytope.excess(middle).max() < 1e-9
    assert ((middle > 1e-12) >= (corners.max(axis=0) > 1e-6)).all()  # who can have a share has one


@pytest.mark.parametrize("seed", range(10))
def test_segments_are_a_product_of_simplices(seed: int) -> None:
    rng = np.random.default_rng(seed)
    segments, frequencies = rng.permutation([0, 0, 1, 1, 1, 2]), rng.dirichlet(np.ones(3))
    product, slopes = simplex_polytope(6).with_segments(segments, frequencies), rng.normal(size=6)
    corners = product.corners(100)
    assert product.is_product_of_simplices and corners is not None and corners.shape[0] == 6
    found, top = product.maximise_linear(slopes), float((corners @ slopes).max())
    assert (
        found is not None and found.upper == pytest.approx(top, abs=1e-12) and found.at @ slopes == pytest.approx(top)
    )
    low, high = product.bounds_of_linear_forms(slopes[:, None])
    assert (low[0], high[0]) == pytest.approx((float((corners @ slopes).min()), top), abs=1e-12)


def test_segments_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="each segment needs an arm"):
        simplex_polytope(3).with_segments(np.array([0, 2, 2]))
    with pytest.raises(ValueError, match="add up to 1"):
        simplex_polytope(3).with_segments(np.array([0, 1, 1]), np.array([0.5, 0.6]))


def test_without_limits_all_mixtures_are_there() -> None:
    corners = simplex_polytope(3).corners(10)
    assert corners is not None and corners.tolist() == np.eye(3).tolist()
    assert simplex_polytope(3).maximise_linear(np.array([1.0, 3.0, 2.0])).upper == 3.0  # type: ignore[union-attr]
