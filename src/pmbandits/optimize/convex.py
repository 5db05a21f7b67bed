"""Maximise a convex utility over the mixtures that are allowed: a vertex is best, and a bound says how good it is.

A convex V lies above its tangent planes. So the vertex that the slopes at a point lead to (a linear program) is never
worse than that point, and such steps from many starts end at good vertices. How good, these bounds say:

- V(a) ≤ Σ a_i·V(arm i), and in every cell h lies below its chord between the least and the largest survival that
  allowed mixtures have there. Both are linear in a, so linear programs say how large they can be.
- If h is straight but for one corner (LowerCVaR), Σ_cells ω·max(S − place, 0) is the largest, over all cells at which
  the sum can end, of a sum that is linear in a. One linear program for each end gives the maximum itself. Continuous
  arms have ends everywhere: V(a) = max_z L_z(a) with L_z linear in a and concave in z, so between two ends a tangent
  bounds it.
- For few arms branch and bound tightens the first bound on smaller and smaller simplices.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.constraints.polytope import Polytope
from pmbandits.metrics.distortion import Distortion
from pmbandits.mixtures._constraints import fill_linear_maximiser_within_rows
from pmbandits.optimize.branch_and_bound import branch_and_bound, cellwise_bound
from pmbandits.tables.crossings import N_NODES, NODES, WEIGHTS
from pmbandits.tables.survival_table import LARGEST_DENSE_TABLE, SurvivalTable

_FEW_VERTICES = 200  # up to so many vertices are compared one by one
_N_STARTS = 40  # from which vertices are looked for
_MAX_ASCENT_STEPS = 50
_MAX_THRESHOLDS = 20_000  # linear programs for a metric with one corner
_MAX_ARMS_TO_BRANCH = 10
_MAX_DENSER, _N_PARTS = 12, 8  # how often thresholds of continuous arms are made denser, and by how much


class Vertices:
    """Vertices of the allowed mixtures by linear programs, in compiled code."""

    def __init__(self, allowed: Polytope) -> None:
        self.allowed = allowed
        self.rows, self.bounds = allowed.inequalities
        self._scratch = np.empty(allowed.n_arms)

    def best_vertex(self, slopes: FloatArray) -> FloatArray:
        """The vertex with the largest ⟨slopes, a⟩."""
        slopes = np.nan_to_num(slopes, nan=0.0, posinf=1e12, neginf=-1e12)
        if self.allowed.is_product_of_simplices:
            return self.allowed.best_in_segments(slopes)
        out = np.empty(slopes.size)
        fill_linear_maximiser_within_rows(self.rows, self.bounds, slopes, out, self._scratch)
        return out / out.sum()

    def ascend_to_better_vertices(
        self, metric: Distortion, table: SurvivalTable, slopes: FloatArray
    ) -> tuple[FloatArray, float]:
        """From the vertex that the slopes point at to better ones, as long as slopes there lead to one."""
        best, value = self.best_vertex(slopes), -np.inf
        trial = best
        for _ in range(_MAX_ASCENT_STEPS):
            here = table.value(metric, trial)
            if not here > value:
                break
            best, value = trial, here
            trial = self.best_vertex(table.gradient(metric, table.curve_of_mixture(best)))
        return best, value


class VertexMaximum(NamedTuple):
    """The best vertex that was found, its utility, what no allowed mixture exceeds, and how that was found."""

    weights: FloatArray
    value: float
    upper: float
    method: str


def maximise_convex(metric: Distortion, table: SurvivalTable, allowed: Polytope, goal: float) -> VertexMaximum:
    """The best of the allowed mixtures for a convex metric, with a bound for all of them."""
    vertices = allowed.corners(_FEW_VERTICES)
    if vertices is not None:
        values = table.values(metric, vertices)
        k = int(np.argmax(values))
        return VertexMaximum(vertices[k], float(values[k]), float(values[k]), "best corner")
    finder, single = Vertices(allowed), table.values(metric)
    found = _best_by_thresholds(metric, table, finder) or _best_by_continuous_threshold(metric, table, finder, goal)
    if found is not None:
        return found
    rng, size = np.random.default_rng(0), float(np.abs(single).max())
    starts = [single, *(single + size * rng.normal(size=(_N_STARTS - 1, single.size)))]
    weights, value = max(
        (finder.ascend_to_better_vertices(metric, table, slopes) for slopes in starts), key=lambda pair: pair[1]
    )
    top = allowed.maximise_linear(single)
    upper = min(np.inf if top is None else top.upper, cellwise_bound(metric, table, allowed, weights))
    if upper > value + goal and table.n_arms <= _MAX_ARMS_TO_BRANCH:
        other, better, bound = branch_and_bound(metric, table, weights, goal, allowed)
        upper = min(upper, bound)
        if better > value:
            weights, value = finder.ascend_to_better_vertices(
                metric, table, table.gradient(metric, table.curve_of_mixture(other))
            )
            weights, value = (weights, value) if value >= better else (other, better)
    return VertexMaximum(weights, value, max(upper, value), f"search from {len(starts)} places")


def _best_by_thresholds(metric: Distortion, table: SurvivalTable, finder: Vertices) -> VertexMaximum | None:
    """The best mixture for h that is straight but for one corner; ``None`` for all others."""
    smooth = metric._smooth_part
    if not smooth.is_straight or len(smooth.kinks) != 1 or table.atoms is None:
        return None
    if table.n_arms * table.n_cells > LARGEST_DENSE_TABLE:
        return None
    (place, bend), widths, first = smooth.kinks[0], table.cell_widths, table.atoms.knots[0]
    straight = smooth.value_at_1 * (first + table.survival_rows @ widths)
    sums = np.cumsum(widths * (table.survival_rows - place), axis=1)
    # One column for each cell after which the sum ends, and one for the empty sum.
    lines = straight[:, None] + bend * (first * (1.0 - place) + np.column_stack((np.zeros(table.n_arms), sums)))
    most = finder.allowed.bounds_of_linear_forms(lines)[1]
    weights, value, upper = np.zeros(0), -np.inf, -np.inf
    for done, end in enumerate(np.argsort(-most, kind="stable")):
        if most[end] <= value or done >= _MAX_THRESHOLDS:
            upper = max(upper, float(most[end]))
            break
        trial = finder.best_vertex(lines[:, end])
        here = float(trial @ lines[:, end])
        upper = max(upper, here)
        if here > value:
            weights, value = trial, here
    value = table.value(metric, weights)
    return VertexMaximum(weights, value, max(min(upper, float(most.max())), value), "one linear program a threshold")


def _best_by_continuous_threshold(
    metric: Distortion, table: SurvivalTable, finder: Vertices, goal: float
) -> VertexMaximum | None:
    """The best mixture for h that is straight but for one corner, of arms on panels; ``None`` for all others.

    V(a) is the largest L_z(a) = slope·E(X) + bend·(z·(1 − place) − E(z − X)⁺) over all thresholds z. From z on, L rises
    at most as fast as at z, so its tangent there bounds it up to the next threshold. Where that bound is above what was
    found, thresholds are made denser. Only for segments without limits, where linear forms are maximised at once.
    """
    smooth = metric._smooth_part
    if not smooth.is_straight or len(smooth.kinks) != 1 or table.panel_edges is None or not table.distributions:
        return None
    if not finder.allowed.is_product_of_simplices:
        return None
    (place, bend), widths = smooth.kinks[0], table.cell_widths.reshape(-1, N_NODES)
    left, right = (table.anchor + edge for edge in table.panel_edges)
    below = table.cdf_rows
    # The mean is the anchor, plus what lies above it, less what lies below.
    mean = table.anchor + table.survival_rows[:, table.n_left :] @ table.cell_widths[table.n_left :]
    mean = mean - below[:, : table.n_left] @ table.cell_widths[: table.n_left]
    straight = smooth.value_at_1 * mean[:, None]
    z, width = left, right - left
    areas = (below.reshape(table.n_arms, -1, N_NODES) * widths).sum(axis=2)
    shortfall = np.cumsum(areas, axis=1) - areas  # E(z − X)⁺ at the left edge of each panel
    best, weights = -np.inf, np.zeros(0)
    settled = -np.inf  # the largest bound of stretches that are not looked at any more
    for _ in range(_MAX_DENSER):
        cdf = np.array([arm.cdf(z) for arm in table.distributions])
        lines = straight + bend * (z * (1.0 - place) - shortfall)
        at_end = lines + bend * width * (1.0 - place - cdf)
        here = finder.allowed.bounds_of_linear_forms(lines)[1]
        bounds = np.maximum(here, finder.allowed.bounds_of_linear_forms(at_end)[1])
        if here.max(initial=-np.inf) > best:
            best, weights = float(here.max()), finder.best_vertex(lines[:, int(np.argmax(here))])
        open_ones = bounds > best + goal
        settled = max(settled, float(bounds[~open_ones].max(initial=-np.inf)))
        if not open_ones.any():
            break
        z, width, shortfall = _denser(table, z[open_ones], width[open_ones], shortfall[:, open_ones])
    else:
        settled = max(settled, float(bounds[open_ones].max()))
    value = table.value(metric, weights)
    return VertexMaximum(weights, value, max(settled, best, value), "one linear program a threshold")


def _denser(
    table: SurvivalTable, z: FloatArray, width: FloatArray, shortfall: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Each stretch from z on cut into equal parts: their left ends, widths, and E(z − X)⁺ there."""
    part = np.repeat(width / _N_PARTS, _N_PARTS)
    start = (z[:, None] + width[:, None] * np.arange(_N_PARTS) / _N_PARTS).ravel()
    nodes = start[:, None] + part[:, None] * NODES
    cdf = np.array([arm.cdf(nodes.ravel()) for arm in table.distributions])
    inside = (part[:, None] * WEIGHTS * cdf.reshape(table.n_arms, *nodes.shape)).sum(axis=2)
    inside = inside.reshape(table.n_arms, -1, _N_PARTS)
    before = np.cumsum(inside, axis=2) - inside
    return start, part, (shortfall[:, :, None] + before).reshape(table.n_arms, -1)
