"""The mixtures that keep all limits: a polytope inside the simplex.

    P = { a ≥ 0, Σ a = 1, matrix · a ≤ bound, with equality in some rows }

What is said about P does not rest on the tolerance of a linear program: a largest value comes with a bound that holds
for any multipliers, and points are averages of corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pmbandits._check import FloatArray

CLOSE = 1e-9  # how far a mixture may be beyond a limit and still keeps it: rounding
_TIGHT = 1e-10  # tolerance of the linear programs


@dataclass(frozen=True)
class Highest:
    """The largest value of a linear function on P: where, a bound for it, and the multiplier of each row."""

    at: FloatArray
    upper: float
    multipliers: FloatArray


@dataclass(frozen=True)
class Polytope:
    """Mixtures that keep linear limits."""

    matrix: FloatArray
    bound: FloatArray
    equal: NDArray[np.bool_]

    @property
    def n_arms(self) -> int:
        """How many arms there are."""
        return int(self.matrix.shape[1])

    def excess(self, points: FloatArray) -> FloatArray:
        """By how much each point (row) is beyond each limit; 0 where it keeps it."""
        over = np.atleast_2d(points) @ self.matrix.T - self.bound
        return np.where(self.equal, np.abs(over), np.maximum(over, 0.0))

    def without(self, row: int) -> Polytope:
        kept = np.arange(self.bound.size) != row
        return Polytope(self.matrix[kept], self.bound[kept], self.equal[kept])

    # ---- linear programs ---------------------------------------------------------------------------------
    def highest(self, slopes: FloatArray) -> Highest | None:
        """The largest ⟨slopes, a⟩ on P; ``None`` if P is empty.

        For any multipliers y (not negative for ≤): ⟨s, a⟩ ≤ y·bound + max_i (s − yᵀ·matrix)_i, because Σ a = 1.
        """
        if self.bound.size == 0:
            return Highest(np.eye(self.n_arms)[int(np.argmax(slopes))], float(slopes.max()), np.zeros(0))
        size = float(np.abs(slopes).max(initial=0.0)) or 1.0
        found = self._program(-slopes / size)
        if found is None:
            return None
        at, multipliers = found
        multipliers = np.where(self.equal, multipliers, np.maximum(multipliers, 0.0)) * size
        rest = slopes - multipliers @ self.matrix
        return Highest(at, float(multipliers @ self.bound + rest.max()), multipliers)

    def _program(self, cost: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The mixture of least cost and the multipliers of the limits."""
        from scipy.optimize import linprog

        most, same = ~self.equal, self.equal
        found = linprog(
            cost,
            A_ub=self.matrix[most] if most.any() else None,
            b_ub=self.bound[most] if most.any() else None,
            A_eq=np.vstack((np.ones(self.n_arms), self.matrix[same])),
            b_eq=np.append(1.0, self.bound[same]),
            bounds=(0.0, 1.0),
            method="highs",
            options={"primal_feasibility_tolerance": _TIGHT, "dual_feasibility_tolerance": _TIGHT},
        )
        if found.x is None or not found.success:
            return None
        multipliers = np.zeros(self.bound.size)
        if most.any():
            multipliers[most] = -np.asarray(found.ineqlin.marginals)
        multipliers[same] = -np.asarray(found.eqlin.marginals)[1:]
        at = np.clip(np.asarray(found.x), 0.0, 1.0)
        return at / at.sum(), multipliers

    def feasible(self) -> FloatArray | None:
        """Any mixture that keeps the limits, or ``None``."""
        found = self._program(np.zeros(self.n_arms))
        if found is None or float(self.excess(found[0]).max(initial=0.0)) > CLOSE:
            return None
        return found[0]

    def inside(self) -> FloatArray | None:
        """A mixture in the middle of P: every arm that can have a share has one."""
        count = self.n_arms
        point = self.feasible()
        if point is None:
            return None
        points = [point]
        for _ in range(count + 1):
            missing = np.mean(points, axis=0) <= CLOSE
            if not missing.any():
                break
            found = self.highest(missing.astype(np.float64))
            if found is None or float(found.at[missing].sum()) <= CLOSE:
                break
            points.append(found.at)
        rng = np.random.default_rng(0)
        for _ in range(4):
            found = self.highest(rng.normal(size=count))
            if found is not None:
                points.append(found.at)
        return np.asarray(np.mean(points, axis=0))

    # ---- corners -----------------------------------------------------------------------------------------
    def corners(self, most: int) -> FloatArray | None:
        """All corners of P, one row each; ``None`` if there are more than ``most`` on the way.

        The double description method: limit by limit, corners beyond it go, and edges that cross it end on it.
        """
        count = self.n_arms
        points = np.eye(count)
        tight = ~np.eye(count, dtype=bool)  # which a_i ≥ 0, and then which limits, hold with equality
        for row, bound, equal in zip(self.matrix, self.bound, self.equal, strict=True):
            if not 0 < points.shape[0] <= most:
                break
            size = max(float(np.abs(row).max()), abs(float(bound)), 1e-300)
            over = (points @ row - bound) / size
            over[np.abs(over) <= 1e-13] = 0.0
            out, on = over > 0.0, over == 0.0
            i, j = _neighbours(tight, np.flatnonzero(out), np.flatnonzero(over < 0.0))
            if i.size > most:
                return None
            share = (over[i] / (over[i] - over[j]))[:, None]
            fresh = (1.0 - share) * points[i] + share * points[j]
            kept = on if equal else ~out
            held = np.vstack((tight[kept], tight[i] & tight[j]))
            points = np.vstack((points[kept], fresh))
            tight = np.column_stack((held, np.append(on[kept], np.ones(i.size, dtype=bool))))
        if points.shape[0] > most:
            return None
        points = np.where(points < 1e-15, 0.0, points)
        return np.asarray(points / points.sum(axis=1, keepdims=True))

    # ---- why there is none -------------------------------------------------------------------------------
    def quarrel(self) -> Sequence[int]:
        """Rows that cannot be kept together, as simple as possible; without any one of them the others could be."""
        kept = list(range(self.bound.size))
        for row in sorted(kept, key=lambda k: (-np.count_nonzero(self.matrix[k]), -k)):
            trial = [k for k in kept if k != row]
            if Polytope(self.matrix[trial], self.bound[trial], self.equal[trial]).feasible() is None:
                kept = trial
        return kept


def _neighbours(
    tight: NDArray[np.bool_], out: NDArray[np.intp], inside: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs of corners, one of each kind, that an edge joins: no third corner lies on everything that both lie on."""
    table = tight.astype(np.float32)
    first, second = [np.zeros(0, dtype=np.intp)], [np.zeros(0, dtype=np.intp)]
    for i in out:
        common = table[i] * table[inside]
        others = (common @ table.T >= common.sum(axis=1)[:, None] - 0.5).sum(axis=1)
        found = inside[others == 2]
        first.append(np.full(found.size, i))
        second.append(found)
    return np.concatenate(first), np.concatenate(second)


def no_limits(n_arms: int) -> Polytope:
    """All mixtures of some arms."""
    return Polytope(np.zeros((0, n_arms)), np.zeros(0), np.zeros(0, dtype=bool))


def simplices(corners: FloatArray) -> list[FloatArray] | None:
    """Simplices that cover the hull of some points, each with its corners as rows; ``None`` if that fails."""
    from scipy.spatial import ConvexHull, Delaunay, QhullError

    moved = corners - corners.mean(axis=0)
    _, size, axes = np.linalg.svd(moved, full_matrices=False)
    dimension = int((size > 1e-9).sum())
    if dimension == corners.shape[0] - 1:
        return [corners]
    places = moved @ axes[:dimension].T
    if dimension == 1:
        return [corners[[int(np.argmin(places)), int(np.argmax(places))]]]
    try:
        pieces = Delaunay(places).simplices
        whole = ConvexHull(places).volume
    except QhullError:
        return None
    edges = places[pieces][:, 1:] - places[pieces][:, :1]
    covered = float(np.abs(np.linalg.det(edges)).sum()) / float(np.prod(np.arange(1, dimension + 1)))
    return [corners[piece] for piece in pieces] if covered >= whole * (1.0 - 1e-9) else None
