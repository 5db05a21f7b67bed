"""An upper bound for utilities of any shape, by cutting the simplex of mixtures into smaller and smaller ones.

Without its steps h is the sum of a concave and a convex function, h = c + d (each stretch on which h' rises goes to d).
On a simplex with corners v_j and middle m

    V_c(a) ≤ V_c(m) + ⟨∇V_c(m), a − m⟩,    V_d(a) ≤ Σ share_j·V_d(v_j),    a step's part ≤ its largest at a corner,

where the last holds because a mixture's quantile lies between those of the corners. The first two are linear in a, so
their sum is largest at a corner. The bound is too high by about the square of the simplex's size.
"""

from __future__ import annotations

import heapq
from itertools import combinations, pairwise

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.best.values import Values
from pmbandits.metrics.distortion import Distortion, warped_grid
from pmbandits.metrics.pool import Pool
from pmbandits.metrics.smooth import Smooth

MOST_ARMS = 4
_MOST_SIMPLICES = 3_000
_MOST_WITH_CORNERS = 800  # where finding out where a mixture crosses the corners of h takes most of the time


def branch_and_bound(
    metric: Distortion, laid: Pool, values: Values, start: FloatArray, goal: float
) -> tuple[FloatArray, float, float]:
    """The best mixture that turned up, its utility, and what no mixture exceeds. For few arms."""
    parts = _Parts(metric, laid, values)
    count = laid.n_arms
    best, value = start, float(values(start[None])[0])
    corners = np.eye(count)
    known = parts.at(corners)
    if float(known.value.max()) > value:
        best, value = corners[int(np.argmax(known.value))], float(known.value.max())
    heap = [(-parts.bound(corners, known), 0, corners, known)]
    made = 1
    most = _MOST_WITH_CORNERS if values.corners else _MOST_SIMPLICES
    while heap and made < most:
        upper, _, corners, known = heap[0]
        if -upper <= value + goal:
            break
        heapq.heappop(heap)
        # Halve the longest edge.
        i, j = max(combinations(range(count), 2), key=lambda e: float(np.abs(corners[e[0]] - corners[e[1]]).sum()))
        middle = 0.5 * (corners[i] + corners[j])
        new = parts.at(middle[None])
        if new.value[0] > value:
            best, value = middle, float(new.value[0])
        for old in (i, j):
            child = corners.copy()
            child[old] = middle
            here = known.replaced(old, new)
            bound = min(parts.bound(child, here), -upper)
            if bound > value:
                heapq.heappush(heap, (-bound, made, child, here))
            made += 1
    highest = max(-heap[0][0], value) if heap else value
    return best, value, highest


class _Known:
    """Values at the corners of a simplex: V, its convex part, and the part of each step of h."""

    def __init__(self, value: FloatArray, convex: FloatArray, steps: FloatArray) -> None:
        self.value, self.convex, self.steps = value, convex, steps

    def replaced(self, place: int, new: _Known) -> _Known:
        out = _Known(self.value.copy(), self.convex.copy(), self.steps.copy())
        out.value[place], out.convex[place], out.steps[place] = new.value[0], new.convex[0], new.steps[0]
        return out


class _Parts:
    """V taken apart into a concave part, a convex part, and one part for each step of h."""

    def __init__(self, metric: Distortion, laid: Pool, values: Values) -> None:
        self.laid, self.values, self.smooth = laid, values, Smooth(metric)
        self.below, self.above = laid.rows(range(laid.n_arms))
        self.rises = _rising_stretches(self.smooth)

    # ---- the convex part of s: every stretch on which s' rises, less its first tangent, and straight on after it ----
    def _convex(self, u: FloatArray) -> FloatArray:
        out = np.zeros_like(u)
        for first, last, h0, s0, h1, s1 in self.rises:
            inside = (u > first) & (u <= last)
            out[inside] += self.smooth.h(u[inside]) - h0 - s0 * (u[inside] - first)
            beyond = u > last
            out[beyond] += (h1 - h0 - s0 * (last - first)) + (s1 - s0) * (u[beyond] - last)
        return out

    def _convex_slope(self, u: FloatArray) -> FloatArray:
        out = np.zeros_like(u)
        for first, last, _, s0, _, s1 in self.rises:
            inside = (u > first) & (u <= last)
            out[inside] += self.smooth.slope_h(u[inside]) - s0
            out[u > last] += s1 - s0
        return out

    def at(self, grid: FloatArray) -> _Known:
        omega, left = self.laid.omega, self.laid.left
        above = np.minimum(grid @ self.above, 1.0)
        top = float(self._convex(np.ones(1))[0])
        convex = (self._convex(above) - top * left) @ omega
        for place, bend in self.smooth.kinks:
            if bend > 0.0:
                convex += self.values.corner_part(grid, place, bend, 0.0)
        steps = [self.values.corner_part(grid, place, 0.0, height) for place, height in self.smooth.jumps]
        return _Known(self.values(grid), convex, np.array(steps).reshape(len(steps), grid.shape[0]).T)

    def bound(self, corners: FloatArray, known: _Known) -> float:
        """What V does not exceed on a simplex."""
        laid = self.laid
        middle = corners.mean(axis=0)
        here = self.at(middle[None])
        curve = laid.curve(middle)
        above = np.where(curve.lower, 1.0 - curve.p, curve.p)
        slope = laid.slope_cells(self.smooth, curve, [np.zeros(above.size)] * len(self.smooth.kinks))
        slope = np.where(curve.lower, -slope, slope) - self._convex_slope(above)
        for place, bend in self.smooth.kinks:
            if bend < 0.0:
                slope = slope + bend * laid.shares(curve, place, laid.crossing(curve, place))
        cells = np.where(curve.lower, -slope, slope) * laid.omega
        with np.errstate(all="ignore"):
            gradient = laid.adjoint(cells, curve.lower)
        concave = float(here.value[0] - here.convex[0] - here.steps.sum())
        if not np.isfinite(gradient).all():
            return np.inf
        top = float((concave + (corners - middle) @ gradient + known.convex).max())
        return top + float(known.steps.max(axis=0, initial=-np.inf).sum() if known.steps.size else 0.0)


def _rising_stretches(smooth: Smooth) -> list[tuple[float, float, float, float, float, float]]:
    """Where s is convex: (first, last, s and s' at first, s and s' at last)."""
    grid = warped_grid()
    cuts = np.array([0.0, *smooth.places, 1.0])
    out = []
    for lo, hi in pairwise(cuts):
        inside = grid[(grid > lo) & (grid < hi)]
        u = np.concatenate(([lo + 1e-12 * (hi - lo)], inside, [hi - 1e-12 * (hi - lo)]))
        slope = smooth.slope_h(u)
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
            first = lo if k == 0 else _turn(smooth, u[k - 1], u[k + 1], -1.0)
            last = hi if end == rising.size - 1 else _turn(smooth, u[end], u[end + 2], 1.0)
            pair = np.array([max(first, u[0]), min(last, u[-1])])
            h, s = smooth.h(np.array([first, last])), smooth.slope_h(pair)
            out.append((first, last, float(h[0]), float(s[0]), float(h[1]), float(s[1])))
            k = end + 1
    return out


def _turn(smooth: Smooth, lo: float, hi: float, sign: float) -> float:
    """Where s' turns from falling to rising (sign −1), or the other way."""
    from scipy.optimize import minimize_scalar

    found = minimize_scalar(
        lambda u: -sign * float(smooth.slope_h(np.array([u]))[0]),
        bounds=(lo, hi),
        method="bounded",
        options={"xatol": 1e-13},
    )
    return float(found.x)
