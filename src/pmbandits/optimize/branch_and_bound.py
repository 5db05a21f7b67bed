"""Branch and bound for any h: an upper bound, by cutting the simplex of mixtures into smaller and smaller ones.

Without its steps h is the sum of a concave and a convex function, h = c + d (each stretch on which h' rises goes to d).
On a simplex with corners v_j and middle m

    V_c(a) ≤ V_c(m) + ⟨∇V_c(m), a − m⟩,    V_d(a) ≤ Σ share_j·V_d(v_j),    a step's part ≤ its largest at a corner,

where the last holds because a mixture's quantile lies between those of the corners. The first two are linear in a, so
their sum is largest at a corner. The bound is too high by about the square of the simplex's size.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from itertools import combinations, pairwise

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.metrics.distortion import Distortion
from pmbandits.metrics.numeric import graded_grid
from pmbandits.tables.decomposition import SmoothPart
from pmbandits.tables.survival_table import SurvivalTable

MAX_ARMS_TO_BRANCH = 4
_MAX_SIMPLICES = 3_000
_BATCH_SIZE = 16  # simplices that are cut at a time


def branch_and_bound(
    metric: Distortion,
    table: SurvivalTable,
    start: FloatArray,
    goal: float,
    simplices: Sequence[FloatArray] | None = None,
) -> tuple[FloatArray, float, float]:
    """The best mixture that turned up, its utility, and what no mixture exceeds. For few arms.

    ``simplices`` cover the mixtures that are allowed, each with its corners as rows; by default all mixtures are.
    """
    parts = _Decomposition(metric, table)
    best, value = start, float(table.values(metric, start[None])[0])
    first = [np.eye(table.n_arms)] if simplices is None else list(simplices)
    known = [parts.at(corners) for corners in first]
    for corners, at in zip(first, known, strict=True):
        k = int(np.argmax(at.value))
        if at.value[k] > value:
            best, value = corners[k], float(at.value[k])
    heap = [(-bound, k, first[k], known[k]) for k, bound in enumerate(parts.bounds(first, known))]
    heapq.heapify(heap)
    n_created = len(heap)
    while heap and n_created < _MAX_SIMPLICES and -heap[0][0] > value + goal:
        # Several at a time: most of the work is shared.
        taken: list[tuple[float, int, FloatArray, _CornerValues]] = []
        while heap and len(taken) < _BATCH_SIZE and -heap[0][0] > value + goal:
            taken.append(heapq.heappop(heap))
        edges = [_longest_edge(corners) for _, _, corners, _ in taken]
        middles = np.array([0.5 * (c[i] + c[j]) for (_, _, c, _), (i, j) in zip(taken, edges, strict=True)])
        new = parts.at(middles)
        k = int(np.argmax(new.value))
        if new.value[k] > value:
            best, value = middles[k], float(new.value[k])
        children, child_values, limits = [], [], []
        for n, ((upper, _, corners, here), edge) in enumerate(zip(taken, edges, strict=True)):
            for old in edge:
                child = corners.copy()
                child[old] = middles[n]
                children.append(child)
                child_values.append(here.with_corner_replaced(old, new, n))
                limits.append(-upper)
        for child, here, bound, limit in zip(
            children, child_values, parts.bounds(children, child_values), limits, strict=True
        ):
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

    def __init__(self, metric: Distortion, table: SurvivalTable) -> None:
        self.metric, self.table, self.smooth = metric, table, metric._smooth_part
        self.convex_intervals = _convex_intervals(self.smooth)

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
            out += self.smooth.h_from_1(v) + s0 * v if last == 1.0 else -(s1 - s0) * v
        return out

    def _near_1_range(self) -> float:
        """How far from 1 the formula above holds: down to the beginning of the last stretch."""
        return min([1e-3, *(1.0 - (first if last == 1.0 else last) for first, last, *_ in self.convex_intervals)])

    def _concave_part_slope(self, u: FloatArray, slope: FloatArray) -> FloatArray:
        """The slope of the concave part: that of s, and a constant where s' rises."""
        base, less = slope.copy(), np.zeros_like(u)
        for first, last, _, s0, _, s1 in self.convex_intervals:
            base[(u > first) & (u <= last)] = s0
            less[u > last] += s1 - s0
        return base - less

    def at(self, grid: FloatArray) -> _CornerValues:
        table, left = self.table, np.arange(self.table.n_cells) < self.table.n_left
        above, below = np.minimum(grid @ table.survival_rows, 1.0), np.minimum(grid @ table.cdf_rows, 1.0)
        cells = self._convex_part(above) - float(self._convex_part(np.ones(1))[0]) * left
        tiny = left & (below < self._near_1_range())
        cells[tiny] = self._convex_part_near_1(below[tiny])
        convex = cells @ table.cell_widths
        for place, bend in self.smooth.kinks:
            if bend > 0.0:
                convex += table.corner_values(grid, place, bend, 0.0)
        steps = [table.corner_values(grid, place, 0.0, height) for place, height in self.smooth.jumps]
        return _CornerValues(
            table.values(self.metric, grid), convex, np.array(steps).reshape(len(steps), grid.shape[0]).T
        )

    def bounds(self, simplices: Sequence[FloatArray], known: Sequence[_CornerValues]) -> list[float]:
        """What V does not exceed on each of some simplices."""
        if not simplices:
            return []
        middles = np.array([corners.mean(axis=0) for corners in simplices])
        here = self.at(middles)
        concave = here.value - here.convex - here.steps.sum(axis=1)
        out = []
        for corners, at, middle, height in zip(simplices, known, middles, concave, strict=True):
            gradient = self._concave_part_gradient(middle)
            if not np.isfinite(gradient).all():
                out.append(np.inf)
                continue
            top = float((height + (corners - middle) @ gradient + at.convex).max())
            out.append(top + float(at.steps.max(axis=0, initial=-np.inf).sum() if at.steps.size else 0.0))
        return out

    def _concave_part_gradient(self, middle: FloatArray) -> FloatArray:
        """The slope of the concave part towards every arm."""
        table = self.table
        curve = table.curve(middle)
        split = curve.split
        none = [np.zeros(curve.p.size)] * len(self.smooth.kinks)
        slope = table.integrand_slopes(self.smooth, curve, none)  # in p, which is 1 − S before the split
        slope[:split] *= -1.0
        slope = self._concave_part_slope(curve.excess(0.0), slope)
        for place, bend in self.smooth.kinks:
            if bend < 0.0:
                slope = slope + bend * table.shares(curve, place, table.crossing(curve, place))
        slope[:split] *= -1.0
        with np.errstate(all="ignore"):
            return table.adjoint(slope * table.cell_widths, split)


def _convex_intervals(smooth: SmoothPart) -> list[tuple[float, float, float, float, float, float]]:
    """Where s is convex: (first, last, s and s' at first, s and s' at last)."""
    grid = graded_grid()
    cuts = np.array([0.0, *smooth.places, 1.0])
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
