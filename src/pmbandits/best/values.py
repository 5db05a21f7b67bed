"""Utilities of many mixtures of known arms at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.arms import Bandit
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.laws import Atoms, Law
from pmbandits.metrics.pool import Pool, pool


def utilities(metric: Distortion, bandit: Bandit, grid: FloatArray) -> FloatArray:
    """V of many mixtures, one row of weights each.

    >>> import pmbandits as pmb
    >>> utilities(pmb.GiniDeviation(), pmb.Bandit.bernoulli([0.4, 0.9]), np.array([[1.0, 0.0], [0.5, 0.5]])).round(4)
    array([0.24  , 0.2275])
    """
    return utilities_of_laws(metric, list(bandit.laws), grid)


def scorer(metric: Distortion, bandit: Bandit) -> Callable[[FloatArray], FloatArray]:
    """V of many mixtures, again and again: what does not depend on the mixtures is worked out once."""
    laws = list(bandit.laws)
    if has_corners(metric, laws):
        return lambda grid: utilities_of_laws(metric, laws, grid)
    laid = lay_arms(metric, laws, [])
    matrix = np.concatenate(laid.rows(list(range(laid.n_arms))), axis=1)
    return lambda grid: values_of_matrix(metric, laid, matrix, grid)


def utilities_of_laws(metric: Distortion, laws: list[Law], grid: FloatArray) -> FloatArray:
    """V of many mixtures of arms that are given by their laws."""
    if not has_corners(metric, laws):
        return values_of(metric, lay_arms(metric, laws, []), grid)
    # Corners of h lie elsewhere for every mixture: the panels are made for each few of them.
    blocks = [grid[start : start + 128] for start in range(0, grid.shape[0], 128)]
    return np.concatenate([values_of(metric, lay_arms(metric, laws, list(block)), block) for block in blocks])


def has_corners(metric: Distortion, laws: list[Law]) -> bool:
    """Whether fixed panels would miss kinks or jumps of h."""
    smooth = not metric.kinks and not metric.jumps
    return not smooth and not all(isinstance(law, Atoms) or law.lattice for law in laws)


def lay_arms(metric: Distortion, laws: list[Law], mixes: Sequence[FloatArray]) -> Pool:
    """The arms on common cells, accurate for single arms, some mixtures, and the given ones."""
    count = len(laws)
    eye = np.eye(count)
    some = eye if count <= 24 else eye[np.linspace(0, count - 1, 24).astype(int)]
    even = np.full((1, count), 1.0 / count)
    return pool(metric, laws, np.vstack((even, some, *mixes)))


def values_of(metric: Distortion, laid: Pool, grid: FloatArray) -> FloatArray:
    """V of many mixtures of arms that lie on common cells already."""
    return values_of_matrix(metric, laid, np.concatenate(laid.rows(list(range(laid.n_arms))), axis=1), grid)


def values_of_matrix(metric: Distortion, laid: Pool, matrix: FloatArray, grid: FloatArray) -> FloatArray:
    """V of many mixtures; ``matrix`` holds the arms' CDFs and, behind them, their survivals."""
    out = np.empty(grid.shape[0])
    base, top, cells = laid.anchor * float(metric(1.0)), float(metric(1.0)), laid.omega.size
    left = np.arange(cells) < laid.split
    block = max(1, 4_000_000 // max(matrix.shape[1], 1))
    for start in range(0, grid.shape[0], block):
        both = np.minimum(grid[start : start + block] @ matrix, 1.0)
        below, above = both[:, :cells], both[:, cells:]
        lower = below < above
        f = np.empty_like(below)
        with np.errstate(all="ignore"):
            f[lower] = metric._co(below[lower])
            f[~lower] = metric._h(above[~lower])
        out[start : start + block] = base + (f + top * (lower.astype(np.float64) - left)) @ laid.omega
    return out
