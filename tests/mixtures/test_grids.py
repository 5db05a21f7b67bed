"""The grids of mixtures, against an enumeration written plainly."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest

from pmbandits.mixtures.grids import LARGEST_GRID, etc_grid, grid_size, ucb_grid

CASES = [
    (1, 0.3),
    (2, 0.5),
    (2, 0.1),
    (3, 0.1),
    (4, 0.25),
    (3, 0.3),
    (2, 0.07),
    (5, 0.37),
    (2, 1.0),
    (3, 1 / 7),
]


@pytest.mark.parametrize(("k", "epsilon"), CASES)
@pytest.mark.parametrize("kind", ["etc", "ucb"])
def test_grids_are_distinct_weights_as_many_as_grid_size(k, epsilon, kind):
    grid = (etc_grid if kind == "etc" else ucb_grid)(k, epsilon)
    assert grid.shape == (grid_size(k, epsilon, kind), k)
    np.testing.assert_allclose(grid.sum(axis=1), 1.0, atol=1e-14)
    assert (grid >= 0).all()
    assert len({tuple(row) for row in grid.round(9)}) == len(grid)


@pytest.mark.parametrize(("k", "n"), [(1, 5), (2, 7), (3, 10), (4, 6), (5, 3)])
def test_the_etc_grid_holds_exactly_the_multiples_of_epsilon_that_sum_to_one(k, n):
    expected = {c for c in product(range(n + 1), repeat=k) if sum(c) == n}
    grid = etc_grid(k, 1 / n)
    counts = grid * n
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert {tuple(row) for row in counts.round().astype(int)} == expected
    assert len(grid) == comb(n + k - 1, k - 1)


@pytest.mark.parametrize(("k", "n"), [(2, 7), (2, 6), (4, 6), (4, 9), (6, 5)])
def test_the_ucb_grid_holds_exactly_the_half_shifted_multiples_that_sum_to_one(k, n):
    whole = n - k // 2
    expected = {c for c in product(range(whole + 1), repeat=k) if sum(c) == whole}
    counts = ucb_grid(k, 1 / n) * n - 0.5
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    assert {tuple(row) for row in counts.round().astype(int)} == expected


@pytest.mark.parametrize(("k", "epsilon"), [*CASES[1:], (3, 2 / 3), (7, 2 / 7), (4, 0.5), (3, 0.2)])
def test_every_weight_of_the_ucb_grid_is_at_least_half_of_epsilon(k, epsilon):
    grid = ucb_grid(k, epsilon)
    assert grid.min() >= epsilon / 2 - 1e-12
    counts = grid[:, :-1] / epsilon - 0.5
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)


def test_grid_sizes_are_known_without_building_the_grid():
    assert grid_size(3, 0.1) == 66
    assert grid_size(3, 0.1, "ucb") == 45
    assert grid_size(100, 0.01) == comb(199, 99)


@pytest.mark.parametrize("build", [etc_grid, ucb_grid])
def test_a_grid_too_large_to_enumerate_is_refused_with_its_count(build):
    kind = "etc" if build is etc_grid else "ucb"
    count = grid_size(10, 0.05, kind)
    assert count > LARGEST_GRID or kind == "ucb"
    count = grid_size(10, 0.02, kind)
    with pytest.raises(ValueError, match=f"has {count:,} points"):
        build(10, 0.02)


def test_the_ucb_grid_needs_epsilon_of_at_most_two_over_k():
    assert ucb_grid(4, 0.5).tolist() == [[0.25] * 4]
    with pytest.raises(ValueError, match=r"4 arms needs epsilon ≤ 2/4 = 0\.5, got 0\.51"):
        ucb_grid(4, 0.51)
    with pytest.raises(ValueError, match="needs epsilon ≤ 2/4"):
        grid_size(4, 0.51, "ucb")


@pytest.mark.parametrize(
    ("k", "epsilon", "error", "message"),
    [
        (0, 0.1, ValueError, "n_arms must be at least 1"),
        (2.5, 0.1, TypeError, "n_arms must be a whole number"),
        (2, 0.0, ValueError, "epsilon must lie in"),
        (2, 1.5, ValueError, "epsilon must lie in"),
        (2, np.nan, ValueError, "epsilon must be a finite number"),
        (2, "a", TypeError, "epsilon must be a number"),
    ],
)
@pytest.mark.parametrize("build", [etc_grid, ucb_grid, grid_size])
def test_bad_grid_arguments_are_refused(build, k, epsilon, error, message):
    with pytest.raises(error, match=message):
        build(k, epsilon)


def test_an_unknown_kind_of_grid_is_refused():
    with pytest.raises(ValueError, match="unknown grid kind 'utc'"):
        grid_size(2, 0.1, "utc")


@pytest.mark.parametrize(("k", "epsilon"), [(2, 0.3), (3, 0.3), (3, 0.45), (2, 0.07)])
def test_where_one_over_epsilon_is_not_whole_the_last_weight_takes_the_difference(k, epsilon):
    steps = int(1 / Fraction(str(epsilon)))
    grid = etc_grid(k, epsilon)
    counts = grid[:, :-1] / epsilon
    np.testing.assert_allclose(counts, counts.round(), atol=1e-9)
    expected = {c for c in product(range(steps + 1), repeat=k - 1) if sum(c) <= steps}
    assert {tuple(row) for row in counts.round().astype(int)} == expected
    assert grid[:, -1].min() == pytest.approx(1 - steps * epsilon, abs=1e-12)
