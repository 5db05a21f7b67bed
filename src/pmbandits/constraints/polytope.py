"""The mixtures that keep all limits: a polytope inside the simplex.

    P = { a ≥ 0, Σ a = 1, matrix · a ≤ bound, with equality in some rows }

What is said about P does not rest on the tolerance of a linear program: a largest value comes with a bound that holds
for any multipliers, and points are averages of corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from pmbandits._validation import FloatArray

FEASIBILITY_TOLERANCE = 1e-9  # how far a mixture may be beyond a limit and still keeps it: rounding
_LP_TOLERANCE = 1e-10  # tolerance of the linear programs
_WELL_INSIDE = 0.01  # distance to all limits, times the number of arms, with which a mixture counts as in the middle
_NARROWEST, _PREFER_WIDE = 1e5, 1e-6  # one over the least distance to a limit of a point inside; and the cost of that


@dataclass(frozen=True)
class LinearMaximum:
    """The largest value of a linear function on P: where, a bound for it, and the multiplier of each row."""

    at: FloatArray
    upper: float
    multipliers: FloatArray


@dataclass(frozen=True)
class Interior:
    """P seen from its inside: ``rows · a < bound`` can be strict for all rows together, and so can a > 0.

    Limits that always hold with equality are among ``equal · a = level``; arms that never have a share are left out.
    """

    arms: NDArray[np.intp]  # those that can have a share; all else is about these
    rows: FloatArray
    bound: FloatArray
    equal: FloatArray  # the first row is Σ a = 1; no row follows from others
    level: FloatArray
    centre: FloatArray  # keeps all limits strictly
    limit_of_row: NDArray[np.intp]  # which limit each of ``rows`` is
    limit_of_equal: NDArray[np.intp]  # which limit each of ``equal`` is, from the second on

    @property
    def is_simplex(self) -> bool:
        """Whether there are no limits."""
        return self.bound.size == 0 and self.level.size == 1

    def slack(self, a: FloatArray) -> FloatArray:
        """How far a mixture is from each limit."""
        return np.asarray(self.bound - self.rows @ a)

    def strictly_feasible_near(self, start: FloatArray, least: float = 1e-3) -> FloatArray:
        """A mixture near the start that keeps all limits strictly; without limits, shares are ``least`` / K or more."""
        if self.is_simplex:
            weights = np.maximum(start, least / start.size)
            return np.asarray(weights / weights.sum())
        near = 0.1 * self.centre + 0.9 * start
        off = float(np.abs(self.equal @ near - self.level).max())
        keeps = bool((near > 0.0).all() and (self.slack(near) > 0.0).all())
        return near if off <= 1e-12 and keeps else self.centre

    def linear_upper_bound_from_prices(
        self, slopes: FloatArray, prices: FloatArray, equality_prices: FloatArray
    ) -> float:
        """A bound on ⟨slopes, b⟩ for all b in P that holds for any prices, those of limits ≥ 0, because Σ b = 1."""
        rest = slopes - prices @ self.rows - equality_prices @ self.equal
        return float(prices @ self.bound + equality_prices @ self.level + rest.max())


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

    @cached_property
    def inequalities(self) -> tuple[FloatArray, FloatArray]:
        """All limits as rows · shares ≤ bound; an equality is two of them."""
        same = self.equal
        return np.vstack((self.matrix, -self.matrix[same])), np.append(self.bound, -self.bound[same])

    def with_segments(self, segments: NDArray[np.intp], frequencies: FloatArray | None = None) -> Polytope:
        """The mixtures whose weights add up to a segment's frequency in each segment; by default all are alike."""
        count = int(segments.max()) + 1
        total = np.full(count, 1.0 / count) if frequencies is None else np.asarray(frequencies, dtype=np.float64)
        if segments.shape != (self.n_arms,) or segments.min() < 0 or np.unique(segments).size < count:
            raise ValueError("segments must have a number 0, 1, … for each arm, and each segment needs an arm.")
        if total.shape != (count,) or total.min() < 0.0 or abs(float(total.sum()) - 1.0) > 1e-9:
            raise ValueError("frequencies must be one number ≥ 0 for each segment, and add up to 1.")
        rows = (segments == np.arange(count)[:, None]).astype(np.float64)
        return Polytope(
            np.vstack((self.matrix, rows)),
            np.append(self.bound, total),
            np.append(self.equal, np.ones(count, dtype=bool)),
        )

    # ---- linear programs ---------------------------------------------------------------------------------
    @property
    def is_product_of_simplices(self) -> bool:
        """Whether the only limits are sums of different arms."""
        return bool(self.equal.all()) and self._segment_of_each_arm is not None

    def best_in_segments(self, slopes: FloatArray) -> FloatArray:
        """The mixture with the largest ⟨slopes, a⟩, where the only limits are sums: one arm in each segment."""
        segment, totals = self._segments_and_totals
        order = np.lexsort((-slopes, segment))
        first = order[np.searchsorted(segment[order], np.unique(segment))]
        out = np.zeros(self.n_arms)
        out[first] = totals[segment[first]]
        return out

    def bounds_of_linear_forms(self, lines: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Bounds on ⟨line, a⟩ for each line (column): exact for segments and for limits on single arms only."""
        if not self.is_product_of_simplices:
            return -self._largest_in_box(-lines), self._largest_in_box(lines)
        segment, totals = self._segments_and_totals
        order = np.argsort(segment, kind="stable")
        present, starts = np.unique(segment[order], return_index=True)
        share = totals[present][:, None]
        low, high = (np.asarray(f.reduceat(lines[order], starts, axis=0)) for f in (np.minimum, np.maximum))
        return (share * low).sum(axis=0), (share * high).sum(axis=0)

    def _largest_in_box(self, lines: FloatArray) -> FloatArray:
        """The largest ⟨line, a⟩ by the limits on single arms alone: the best arms are filled up first."""
        least, most = self.single_arm_bounds
        order = np.argsort(-lines, axis=0, kind="stable")
        width = np.maximum(most - least, 0.0)[order]
        filled = np.clip(1.0 - least.sum() - (np.cumsum(width, axis=0) - width), 0.0, width)
        return np.asarray(least @ lines + (filled * np.take_along_axis(lines, order, axis=0)).sum(axis=0))

    @cached_property
    def _segments_and_totals(self) -> tuple[NDArray[np.intp], FloatArray]:
        assert self._segment_of_each_arm is not None
        return self._segment_of_each_arm, np.append(self.bound[self.equal], 1.0 - self.bound[self.equal].sum())

    def maximise_linear(self, slopes: FloatArray) -> LinearMaximum | None:
        """The largest ⟨slopes, a⟩ on P; ``None`` if P is empty.

        For any multipliers y (not negative for ≤): ⟨s, a⟩ ≤ y·bound + max_i (s − yᵀ·matrix)_i, because Σ a = 1.
        """
        if self.bound.size == 0:
            return LinearMaximum(np.eye(self.n_arms)[int(np.argmax(slopes))], float(slopes.max()), np.zeros(0))
        if self.is_product_of_simplices and (self.bound >= 0.0).all() and self._segments_and_totals[1][-1] > -1e-12:
            at = self.best_in_segments(slopes)
            top = np.full(self.bound.size + 1, -np.inf)
            np.maximum.at(top, self._segments_and_totals[0], slopes)
            multipliers = top[:-1] - (top[-1] if np.isfinite(top[-1]) else 0.0)
            rest = slopes - multipliers @ self.matrix
            return LinearMaximum(at, float(multipliers @ self.bound + rest.max()), multipliers)
        size = float(np.abs(slopes).max(initial=0.0)) or 1.0
        found = self._solve_linear_program(-slopes / size)
        if found is None:
            return None
        at, multipliers = found
        multipliers = np.where(self.equal, multipliers, np.maximum(multipliers, 0.0)) * size
        rest = slopes - multipliers @ self.matrix
        return LinearMaximum(at, float(multipliers @ self.bound + rest.max()), multipliers)

    def _solve_linear_program(self, cost: FloatArray) -> tuple[FloatArray, FloatArray] | None:
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
            options={"primal_feasibility_tolerance": _LP_TOLERANCE, "dual_feasibility_tolerance": _LP_TOLERANCE},
        )
        if found.x is None or not found.success:
            return None
        multipliers = np.zeros(self.bound.size)
        if most.any():
            multipliers[most] = -np.asarray(found.ineqlin.marginals)
        multipliers[same] = -np.asarray(found.eqlin.marginals)[1:]
        at = np.clip(np.asarray(found.x), 0.0, 1.0)
        return at / at.sum(), multipliers

    @cached_property
    def single_arm_bounds(self) -> tuple[FloatArray, FloatArray]:
        """The least and the largest share of each arm by the limits on single arms."""
        least, most = np.zeros(self.n_arms), np.ones(self.n_arms)
        single = np.count_nonzero(self.matrix, axis=1) == 1
        for row, bound, equal in zip(self.matrix[single], self.bound[single], self.equal[single], strict=True):
            i = int(np.flatnonzero(row)[0])
            share = float(bound / row[i])
            if equal or row[i] < 0.0:
                least[i] = max(least[i], share)
            if equal or row[i] > 0.0:
                most[i] = min(most[i], share)
        return least, most

    @cached_property
    def _segment_of_each_arm(self) -> NDArray[np.intp] | None:
        """The segment of each arm, if all equalities are sums of different arms; the last has the rest of the arms."""
        rows = self.matrix[self.equal]
        if not ((rows == 0.0) | (rows == 1.0)).all() or (rows.sum(axis=0) > 1.0).any():
            return None
        return np.where(rows.any(axis=0), rows.argmax(axis=0) if rows.size else 0, rows.shape[0])

    @cached_property
    def _evenly_shared_mixture(self) -> FloatArray | None:
        """A mixture between the bounds of all arms that shares out each segment's sum evenly, if that is simple."""
        least, most = self.single_arm_bounds
        segment = self._segment_of_each_arm
        if segment is None:
            return None
        total = self._segments_and_totals[1]
        size = total.size
        low, width = (np.bincount(segment, weights=x, minlength=size) for x in (least, most - least))
        with np.errstate(all="ignore"):
            share = (total - low) / width
        used = np.bincount(segment, minlength=size) > 0
        if not ((share > 0.0) & (share < 1.0))[used].all() or not (np.abs(total[~used]) < 1e-12).all():
            return None
        return np.asarray(least + share[segment] * (most - least))

    def any_feasible_mixture(self) -> FloatArray | None:
        """Some mixture that keeps the limits, or ``None`` if there is none."""
        even = self._evenly_shared_mixture
        if even is not None and float(self.excess(even).max(initial=0.0)) <= 1e-14:
            return even
        found = self._solve_linear_program(np.zeros(self.n_arms))
        if found is None or float(self.excess(found[0]).max(initial=0.0)) > FEASIBILITY_TOLERANCE:
            return None
        return found[0]

    def mixture_in_the_middle(self) -> FloatArray | None:
        """A mixture in the middle of P: every arm that can have a share has one."""
        count = self.n_arms
        point = self.any_feasible_mixture()
        if point is None:
            return None
        points = [point]
        for _ in range(count + 1):
            missing = np.mean(points, axis=0) <= FEASIBILITY_TOLERANCE
            if not missing.any():
                break
            found = self.maximise_linear(missing.astype(np.float64))
            if found is None or float(found.at[missing].sum()) <= FEASIBILITY_TOLERANCE:
                break
            points.append(found.at)
        rng = np.random.default_rng(0)
        for _ in range(4):
            found = self.maximise_linear(rng.normal(size=count))
            if found is not None:
                points.append(found.at)
        return np.asarray(np.mean(points, axis=0))

    @cached_property
    def interior(self) -> Interior | None:
        """P without what always holds with equality; ``None`` if P is empty.

        One linear program (Freund, Roundy and Todd 1985) finds a mixture that is strictly inside of every limit that
        can be kept strictly: with a' = τ·a for some τ ≥ 1, as many distances z to the limits of τ·P as possible are 1.
        It is not needed if an even mixture is well inside of all limits.
        """
        count, most = self.n_arms, np.flatnonzero(~self.equal)
        if self.bound.size == 0:
            centre, none, total = np.full(count, 1.0 / count), np.zeros(0, dtype=np.intp), np.ones((1, count))
            return Interior(np.arange(count), self.matrix, self.bound, total, np.ones(1), centre, none, none)
        rows, bound = self.matrix[most], self.bound[most]
        equal, level = np.vstack((np.ones(count), self.matrix[self.equal])), np.append(1.0, self.bound[self.equal])
        same = np.flatnonzero(self.equal)
        even = self._evenly_shared_mixture
        if even is not None and (bound - rows @ even >= _WELL_INSIDE / count).all() and even.min() > 0.0:
            if same.size and not np.any(self._segment_of_each_arm == same.size):  # the last sum follows from the others
                equal, level, same = equal[:-1], level[:-1], same[:-1]
            return Interior(np.arange(count), rows, bound, equal, level, even, most, same)
        from scipy.optimize import linprog

        n = count + bound.size  # a ≥ 0 are limits, too
        sides = np.vstack((-np.eye(count), rows))
        bounds: list[tuple[float | None, float | None]] = [(0.0, None)] * count
        found = linprog(
            np.concatenate((np.zeros(count), [_PREFER_WIDE], -np.ones(n))),
            A_ub=np.column_stack((sides, -np.append(np.zeros(count), bound), np.eye(n))),
            b_ub=np.zeros(n),
            A_eq=np.column_stack((equal, -level, np.zeros((level.size, n)))),
            b_eq=np.zeros(level.size),
            bounds=[*bounds, (1.0, _NARROWEST), *([(0.0, 1.0)] * n)],
            method="highs",
            options={"primal_feasibility_tolerance": _LP_TOLERANCE, "dual_feasibility_tolerance": _LP_TOLERANCE},
        )
        if found.x is None or not found.success:
            return None
        points = [np.asarray(found.x[:count]) / found.x[count]]
        for k in np.flatnonzero(
            np.append(points[0], bound - rows @ points[0]) <= 0.5 / _NARROWEST
        ):  # narrow, or an equality
            top = self.maximise_linear(np.eye(count)[k] if k < count else -rows[k - count])
            if top is not None:
                points.append(top.at)
        centre = np.mean(points, axis=0)
        strict = np.append(centre, bound - rows @ centre) > FEASIBILITY_TOLERANCE / len(points)
        arms = np.flatnonzero(strict[:count])
        held = ~strict[count:]
        equal, level = np.vstack((equal, rows[held]))[:, arms], np.append(level, bound[held])
        kept = _indices_of_independent_rows(equal)
        centre = centre[arms]
        moved = np.linalg.lstsq(equal[kept], level[kept] - equal[kept] @ centre, rcond=None)[0]
        limit_of_equal = np.append(same, most[held])[np.array(kept[1:], dtype=np.intp) - 1]
        return Interior(
            arms,
            rows[~held][:, arms],
            bound[~held],
            equal[kept],
            level[kept],
            centre + moved,
            most[~held],
            limit_of_equal,
        )

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
            i, j = _adjacent_corner_pairs(tight, np.flatnonzero(out), np.flatnonzero(over < 0.0))
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
    def irreducible_infeasible_rows(self, first: int) -> Sequence[int]:
        """Rows that cannot be kept together, as simple as possible; without any one of them the others could be.

        Rows that are left out are among the ``first``.
        """
        kept = list(range(self.bound.size))
        for row in sorted(kept[:first], key=lambda k: (-np.count_nonzero(self.matrix[k]), -k)):
            trial = [k for k in kept if k != row]
            if Polytope(self.matrix[trial], self.bound[trial], self.equal[trial]).any_feasible_mixture() is None:
                kept = trial
        return kept


def _adjacent_corner_pairs(
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


def _indices_of_independent_rows(rows: FloatArray) -> list[int]:
    """Rows, first ones preferred, from which all others follow."""
    kept: list[int] = []
    for k in range(rows.shape[0]):
        if np.linalg.matrix_rank(rows[[*kept, k]], tol=1e-9) > len(kept):
            kept.append(k)
    return kept


def simplex_polytope(n_arms: int) -> Polytope:
    """All mixtures of some arms."""
    return Polytope(np.zeros((0, n_arms)), np.zeros(0), np.zeros(0, dtype=bool))
