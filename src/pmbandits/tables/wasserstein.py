"""Wasserstein distances between distributions, on survival tables: ∫|F − G|."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray
from pmbandits.tables import quadrature
from pmbandits.tables.distributions import Atoms, Distribution
from pmbandits.tables.from_distributions import truncate_infinite_lattices
from pmbandits.tables.survival_table import LARGEST_DENSE_TABLE, SurvivalTable


def largest_wasserstein(distributions: Sequence[Distribution]) -> float:
    """The largest W1 distance between two distributions; of many, only the candidate pairs are integrated well."""
    count = len(distributions)
    if count <= 6:
        return float(wasserstein_matrix(distributions).max())
    try:
        table = _table_for_distances(distributions, _mean_integrands)
    except quadrature.TailDiverges:  # an infinite mean; differences may still be finite
        return float(wasserstein_matrix(distributions).max())
    if count * table.n_cells > LARGEST_DENSE_TABLE:
        return float(wasserstein_matrix(distributions).max())
    rough = np.zeros((count, count))
    for i in range(count):
        rough[i, :i] = _wasserstein_distances_to_others(table, i, slice(0, i))
    candidates = np.argwhere(rough >= 0.99 * rough.max())
    if candidates.shape[0] > 4 * count:
        return float(wasserstein_matrix(distributions).max())
    return max(float(wasserstein_matrix([distributions[int(a)], distributions[int(b)]])[0, 1]) for a, b in candidates)


def wasserstein_matrix(distributions: Sequence[Distribution]) -> FloatArray:
    """The matrix of W1 distances between all pairs of distributions: ∫|F_i − F_j|."""
    count = len(distributions)
    out = np.zeros((count, count))
    for i in range(count):
        for j in range(i):
            pair = [distributions[i], distributions[j]]
            try:
                table = _table_for_distances(pair, _difference_integrand)
            except quadrature.TailDiverges as found:
                both = " and ".join(distribution.describe() for distribution in pair)
                side = "lower" if found.lower else "upper"
                raise ValueError(f"the Wasserstein distance of {both} is infinite: the {side} tail diverges.") from None
            rest = 0.0 if table.remainder is None else float(table.remainder[0])
            out[i, j] = out[j, i] = float(_wasserstein_distances_to_others(table, 0, slice(1, 2))[0]) + rest
    return out


def _table_for_distances(distributions: Sequence[Distribution], integrands: quadrature.Integrands) -> SurvivalTable:
    finite = truncate_infinite_lattices(distributions, lambda p, _: p, 1e-3)
    atoms = [distribution for distribution in finite if isinstance(distribution, Atoms)]
    return SurvivalTable.from_atoms(atoms) if len(atoms) == len(finite) else quadrature.build_panels(finite, integrands)


def _wasserstein_distances_to_others(table: SurvivalTable, one: int, others: slice) -> FloatArray:
    """W1 distances of one arm and some others, by the cells of the table."""
    below, above = table.cdf_rows, table.survival_rows
    difference = np.where(below[one] < above[one], below[one] - below[others], above[one] - above[others])
    return np.asarray(np.abs(difference) @ table.cell_widths)


def _mean_integrands(below: FloatArray, above: FloatArray, left: NDArray[np.bool_]) -> tuple[FloatArray, None]:
    """The integrands whose integrals are the distributions' means, less the anchor."""
    return np.where(left, -below, above), None


def _difference_integrand(below: FloatArray, above: FloatArray, left: NDArray[np.bool_]) -> tuple[FloatArray, None]:
    """The integrand whose integral is the distance of two distributions."""
    return np.abs(np.where(left, np.diff(below, axis=0), np.diff(above, axis=0))), None
