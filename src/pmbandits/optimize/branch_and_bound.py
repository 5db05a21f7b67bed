"""Branch and bound for any h: an upper bound, by cutting the simplex of mixtures into smaller and smaller ones.

Without its steps h is the sum of a concave and a convex function, h = c + d (each stretch on which h' rises goes to d).
On a simplex with corners v_j and middle m

    V_c(a) ≤ V_c(m) + ⟨∇V_c(m), a − m⟩,    V_d(a) ≤ Σ share_j·V_d(v_j),    a step's part ≤ its largest at a corner,

where the last holds because a mixture's quantile lies between those of the corners. The first two are linear in a, so
their sum is largest at a corner or, within limits, where a linear program says. The bound is too high by about the
square of the simplex's size. If h is convex, V itself takes the place of V_d, and nothing else is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import FEASIBILITY_TOLERANCE, Polytope
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.numeric import unit_grid_denser_at_ends
from pmbandits.mixtures._constraints import fill_linear_maximiser_within_rows
from pmbandits.tables.decomposition import JUMP_TOLERANCE, SmoothPart
from pmbandits.tables.survival_table import LARGEST_DENSE_TABLE, SurvivalTable

MAX_ARMS_TO_BRANCH = 4
_MAX_SIMPLICES = 3_000
_BATCH_SIZE = 16  # simplices that are cut at a time
_INFEASIBLE = 1e-6  # a simplex in which limits are exceeded by more has no allowed mixture


@np.errstate(all="ignore")
def branch_and_bound(
    metric: Distortion,
    table: SurvivalTable,
    start: FloatArray,
    goal: float,
    allowed: Polytope | None = None,
) -> tuple[FloatArray, float, float]:
    """The best mixture that turned up, its utility, and what no mixture that is allowed exceeds. For few arms."""
    parts = _Decomposition(metric, table, allowed)
    best, value = start, float(table.values(metric, start[None])[0])
    first = np.eye(table.n_arms)
    at = parts.values_at_mixtures(first)
    k = int(np.argmax(at.value))
    if allowed is None and at.value[k] > value:
        best, value = first[k], float(at.value[k])
    heap = [(-parts.upper_bounds_on_simplices([first], [at])[0][0], 0, first, at)]
    n_created = 1
    while heap and n_created < _MAX_SIMPLICES and -heap[0][0] > value + goal:
        # Several at a time: most of the work is shared.
        taken: list[tuple[float, int, FloatArray, _CornerValues]] = []
        while heap and len(taken) < _BATCH_SIZE and -heap[0][0] > value + goal:
            taken.append(heapq.heappop(heap))
        edges = [_longest_edge(corners) for _, _, corners, _ in taken]
        middles = np.array([0.5 * (c[i] + c[j]) for (_, _, c, _), (i, j) in zip(taken, edges, strict=True)])
        new = parts.values_at_mixtures(middles)
        children, child_values, limits = [], [], []
        for n, ((upper, _, corners, here), edge) in enumerate(zip(taken, edges, strict=True)):
            for old in edge:
                child = corners.copy()
                child[old] = middles[n]
                children.append(child)
                child_values.append(here.with_corner_replaced(old, new, n))
                limits.append(-upper)
        bounds, places = parts.upper_bounds_on_simplices(children, child_values)
        if allowed is None:
            places, tried = middles, new.value
        else:
            tried = table.values(metric, places)
        if tried.size and float(tried.max()) > value:
            best, value = places[int(np.argmax(tried))], float(tried.max())
        for child, here, bound, limit in zip(children, child_values, bounds, limits, strict=True):
            if min(bound, limit) > value:
                heapq.heappush(heap, (-min(bound, limit), n_created, child, here))
            n_created += 1
    highest = max(-heap[0][0], value) if heap else value
    return best, value, highest


def _longest_edge(corners: FloatArray) -> tuple[int, int]:
    pairs = combinations(range(corners.shape[0]), 2)
    return max(pairs, key=lambda e: float(np.abs(corners[e[0]] - corners[e[1]]).sum()), default=(0, 0))


class _CornerValues:
    """Values at the corners of a simplex: V, its convex part, and the part of each step of h."""

    def __init__(self, value: FloatArray, convex: FloatArray, steps: FloatArray) -> None:
        self.value, self.convex, self.steps = value, convex, steps

    def with_corner_replaced(self, place: int, new: _CornerValues, row: int) -> _CornerValues:
        out = _CornerValues(self.value.copy(), self.convex.copy(), self.steps.copy())
        out.value[place], out.convex[place], out.steps[place] = new.value[row], new.convex[row], new.steps[row]
        return out


class _Decomposition:
    """V taken apart into a concave part, a convex part, and one part for each step of h."""

    def __init__(
        self, metric: Distortion, table: SurvivalTable, allowed: Polytope | None, split_convex: bool = False
    ) -> None:
        self.metric, self.table, self.smooth = metric, table, metric._smooth_part
        self.is_convex = metric.shape == "convex" and not split_convex
        self.limits = None if allowed is None else allowed.inequalities
        self.convex_intervals = [] if self.is_convex else _intervals_where_convex(self.smooth)

    # ---- the convex part of s: every stretch on which s' rises, less its first tangent, and straight on after it ----
    def _convex_part(self, u: FloatArray) -> FloatArray:
        out = np.zeros_like(u)
        for first, last, h0, s0, h1, s1 in self.convex_intervals:
            inside = (u > first) & (u <= last)
            out[inside] += self.smooth.h(u[inside]) - h0 - s0 * (u[inside] - first)
            beyond = u > last
            out[beyond] += (h1 - h0 - s0 * (last - first)) + (s1 - s0) * (u[beyond] - last)
        return out

    def _convex_part_near_1(self, v: FloatArray) -> FloatArray:
        """The convex part at 1 − v less that at 1, for small v: no digits are lost, however steep h is at 1."""
        out = np.zeros_like(v)
        for _, last, _, s0, _, s1 in self.convex_intervals:
            out += self.smooth.negative_dual_h(v) + s0 * v if last == 1.0 else -(s1 - s0) * v
        return out

    def _range_of_formula_near_1(self) -> float:
        """How far from 1 the formula above holds: down to the beginning of the last stretch."""
        return min([1e-3, *(1.0 - (first if last == 1.0 else last) for first, last, *_ in self.convex_intervals)])

    def _concave_part_slope(self, u: FloatArray, slope: FloatArray) -> FloatArray:
        """The slope of the concave part: that of s, and a constant where s' rises."""
        base, less = slope.copy(), np.zeros_like(u)
        for first, last, _, s0, _, s1 in self.convex_intervals:
            base[(u > first) & (u <= last)] = s0
            less[u > last] += s1 - s0
        return base - less

    def values_at_mixtures(self, grid: FloatArray) -> _CornerValues:
        if self.is_convex:
            value = self.table.values(self.metric, grid)
            return _CornerValues(value, value, np.zeros((value.size, 0)))
        table, left = self.table, np.arange(self.table.n_cells) < self.table.n_left
        above, below = np.minimum(grid @ table.survival_rows, 1.0), np.minimum(grid @ table.cdf_rows, 1.0)
        cells = self._convex_part(above) - float(self._convex_part(np.ones(1))[0]) * left
        tiny = left & (below < self._range_of_formula_near_1())
        cells[tiny] = self._convex_part_near_1(below[tiny])
        convex = cells @ table.cell_widths
        for place, bend in self.smooth.kinks:
            if bend > 0.0:
                convex += table.corner_values(grid, place, bend, 0.0)
        steps = [table.corner_values(grid, place, 0.0, height) for place, height in self.smooth.jumps]
        return _CornerValues(
            table.values(self.metric, grid), convex, np.array(steps).reshape(len(steps), grid.shape[0]).T
        )

    def upper_bounds_on_simplices(
        self, simplices: Sequence[FloatArray], known: Sequence[_CornerValues]
    ) -> tuple[list[float], FloatArray]:
        """What V does not exceed on the allowed part of each simplex (−inf: it has none), and where that is."""
        planes = [at.value for at in known]
        if not self.is_convex:
            middles = np.array([corners.mean(axis=0) for corners in simplices])
            here = self.values_at_mixtures(middles)
            concave = here.value - here.convex - here.steps.sum(axis=1)
            planes = []
            for corners, at, middle, height in zip(simplices, known, middles, concave, strict=True):
                gradient = self._concave_part_gradient(middle)
                finite = bool(np.isfinite(gradient).all())
                steps = float(at.steps.max(axis=0, initial=-np.inf).sum()) if at.steps.size else 0.0
                plane = height + (corners - middle) @ gradient + at.convex + steps if finite else None
                planes.append(np.full(corners.shape[0], np.inf) if plane is None else plane)
        out, places = [], []
        for corners, plane in zip(simplices, planes, strict=True):
            bound, place = self._highest_allowed(corners, plane)
            out.append(bound)
            places += [] if place is None else [place]
        return out, np.array(places)

    def _highest_allowed(self, corners: FloatArray, plane: FloatArray) -> tuple[float, FloatArray | None]:
        """The largest value of a plane, given at the corners of a simplex, on its allowed part; and where that is."""
        if self.limits is None:
            return float(plane.max()), None
        share, scratch = np.empty(plane.size), np.empty(plane.size)
        rows, bounds = self.limits[0] @ corners.T, self.limits[1]
        slopes = plane - plane.min() if np.isfinite(plane).all() else np.zeros(plane.size)
        fill_linear_maximiser_within_rows(rows, bounds, slopes, share, scratch)
        excess = float((rows @ share - bounds).max(initial=0.0)) + abs(1.0 - float(share.sum()))
        if excess > _INFEASIBLE:
            return -np.inf, None
        place = np.maximum(share, 0.0) @ corners
        if excess > FEASIBILITY_TOLERANCE or not np.isfinite(plane).all():
            return float(plane.max()), None
        top = float(share @ slopes) + float(plane.min()) + 1e-10 * float(slopes.max())  # the program's tolerance
        return min(top, float(plane.max())), place / place.sum()

    def _concave_part_gradient(self, middle: FloatArray) -> FloatArray:
        """The slope of the concave part towards every arm."""
        table = self.table
        curve = table.curve_of_mixture(middle)
        split = curve.split
        none = [np.zeros(curve.p.size)] * len(self.smooth.kinks)
        slope = table.integrand_slopes(self.smooth, curve, none)  # in p, which is 1 − S before the split
        slope[:split] *= -1.0
        slope = self._concave_part_slope(curve.survival_above_level(0.0), slope)
        for place, bend in self.smooth.kinks:
            if bend < 0.0:
                slope = slope + bend * table.cell_shares_above_level(
                    curve, place, table.crossing_of_level(curve, place)
                )
        slope[:split] *= -1.0
        with np.errstate(all="ignore"):
            return table.sum_cells_times_curves_by_arm(slope * table.cell_widths, split)


@np.errstate(all="ignore")
def cellwise_bound(metric: Distortion, table: SurvivalTable, allowed: Polytope, near: FloatArray) -> float:
    """What U_h of no allowed mixture exceeds: cell by cell h lies below a line, and their sum is linear in the weights.

    In each cell survivals S lie between the least and the largest of an allowed mixture. There the concave part of h
    lies below its tangent where the mixture ``near`` is, and the convex part below its chord. It is inf for panels,
    and where there are too many arms and cells.
    """
    if table.atoms is None or table.n_arms * table.n_cells > LARGEST_DENSE_TABLE:
        return np.inf
    parts, smooth = _Decomposition(metric, table, allowed, split_convex=True), metric._smooth_part
    low, high = (np.clip(end, 0.0, 1.0) for end in allowed.bounds_of_linear_forms(table.survival_rows))
    here = np.clip(near @ table.survival_rows, low, high)

    def chord(at_low: FloatArray, at_high: FloatArray) -> tuple[FloatArray, FloatArray]:
        wide = high - low > 1e-12
        slope = np.where(wide, (at_high - at_low) / np.where(wide, high - low, 1.0), 0.0)
        return np.where(wide, at_low, np.maximum(at_low, at_high)) - slope * low, slope

    with np.errstate(all="ignore"):
        slope = parts._concave_part_slope(here, smooth.dh(here))
        height = smooth.h(here) - parts._convex_part(here) - slope * here
        lines: list[tuple[Any, Any]] = [(height, slope), chord(parts._convex_part(low), parts._convex_part(high))]
        for place, bend in smooth.kinks:
            if bend > 0.0:
                lines.append(chord(bend * np.maximum(low - place, 0.0), bend * np.maximum(high - place, 0.0)))
            else:
                lines.append((-bend * place * (here > place), bend * (here > place)))
        for place, step in smooth.jumps:
            end = place + JUMP_TOLERANCE
            sure, open_ = step * (low > end), (low <= end) & (high > end)
            if step > 0.0:  # from 0 at the least survival up to the step, or the whole step
                rise = np.where(open_ & (here <= end) & (low < end), step / np.maximum(end - low, 1e-300), 0.0)
                lines.append((np.where(rise > 0.0, -rise * low, np.where(open_, step, sure)), rise))
            else:  # from the step down to the largest survival, or nothing
                fall = np.where(open_ & (here > end), step / np.maximum(high - end, 1e-300), 0.0)
                lines.append((np.where(fall < 0.0, -fall * end, sure), fall))
        heights, slopes = sum(line[0] for line in lines), sum(line[1] for line in lines)
        height, slope = table.cell_widths @ heights, table.survival_rows @ (table.cell_widths * slopes)
    if not (np.isfinite(height) and np.isfinite(slope).all()):
        return np.inf
    top = allowed.maximise_linear(slope)
    return np.inf if top is None else float(table.atoms.knots[0] * smooth.top + height + top.upper)


def _intervals_where_convex(smooth: SmoothPart) -> list[tuple[float, float, float, float, float, float]]:
    """Where s is convex: (first, last, s and s' at first, s and s' at last)."""
    grid = unit_grid_denser_at_ends()
    cuts = np.array([0.0, *smooth.places_of_corners_and_steps, 1.0])
    out = []
    for lo, hi in pairwise(cuts):
        inside = grid[(grid > lo) & (grid < hi)]
        u = np.concatenate(([lo + 1e-12 * (hi - lo)], inside, [hi - 1e-12 * (hi - lo)]))
        slope = smooth.dh(u)
        size = float(np.abs(slope[np.isfinite(slope)]).max(initial=0.0))
        with np.errstate(all="ignore"):
            rising = np.nan_to_num(np.diff(slope), nan=0.0) > 1e-13 * size
        k = 0
        while k < rising.size:
            if not rising[k]:
                k += 1
                continue
            end = k
            while end + 1 < rising.size and rising[end + 1]:
                end += 1
            first = lo if k == 0 else _inflection_point(smooth, u[k - 1], u[k + 1], -1.0)
            last = hi if end == rising.size - 1 else _inflection_point(smooth, u[end], u[end + 2], 1.0)
            pair = np.array([max(first, u[0]), min(last, u[-1])])
            h, s = smooth.h(np.array([first, last])), smooth.dh(pair)
            out.append((first, last, float(h[0]), float(s[0]), float(h[1]), float(s[1])))
            k = end + 1
    return out


def _inflection_point(smooth: SmoothPart, lo: float, hi: float, sign: float) -> float:
    """Where s' turns from falling to rising (sign −1), or the other way."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda u: -sign * float(smooth.dh(np.array([u]))[0]),
        bounds=(lo, hi),
        method="bounded",
        options={"xatol": 1e-13},
    )
    return float(found.x)
