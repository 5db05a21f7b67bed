"""Bound on the regret of a mixture, with the mixture and its best rival valued for the same distributions."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.metrics.encoding import has_monotone_curvature
from pmbandits.mixtures._joint_regret import (
    fill_mixture_survival_bounds,
    fill_survival_bounds_by_cell,
    joint_slope_step_error,
    maximise_joint_lead_in_place,
)
from pmbandits.mixtures._optimistic_bound import max_lead_of_other_arms
from pmbandits.state.memory import Memory

FINE_CELLS, COARSE_CELLS = 4096, 192  # cells in which the bound is worked out, and in which it is looked for first
SMOOTH_CELLS = 1024  # cells where h'' is monotone: a cell takes longer then, and more cells change little
MAX_MEMBERS = 6  # arms of the mixture up to which it is worked out: each may gain or lose, so there are 2^6 cases


class SurvivalCells(NamedTuple):
    """Cells of the support: widths, the ends of each arm's survival, and those of the mixture with v.

    ``share`` and ``tie`` are for the two bounds of a cell (see ``joint_lead_bound_and_gradient``).
    """

    width: FloatArray
    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray
    furthest_point: FloatArray
    share: FloatArray
    tie: FloatArray

    def maximise_lead_in_place(
        self, h: FloatArray, a: FloatArray, b: FloatArray, more: FloatArray, enough: float, passes: int
    ) -> tuple[float, float]:
        """Maximise the lead of b over a in these cells, in place; returns the value and the gap to the optimum."""
        width, low, high, least, most, furthest_point, share, tie = self
        value, gap = maximise_joint_lead_in_place(
            h, a, b, more, width, low, high, width.size, least, most, furthest_point, share, tie, enough, passes
        )
        return float(value), float(gap)


def joint_regret_bound(memory: Memory, mix: FloatArray, fine: int = FINE_CELLS) -> float:
    """The largest regret of a mixture while every arm's distribution is in its set; infinite if not applicable.

    For concave metrics, and sets that limit survivals cell by cell (all but balls and heavy tails), see
    ``mixtures/_joint_regret.py``. For convex metrics, and a mixture that is one arm: some arm alone is best, and it has
    no regret compared with itself.
    """
    members = np.flatnonzero(mix > 0.0)
    if memory.n_rewards.min() == 0:
        return np.inf
    if memory.metric_shape == CONVEX and members.size == 1:
        return max(float(max_lead_of_other_arms(memory.address, mix)), 0.0)
    if memory.metric_shape != CONCAVE or members.size > MAX_MEMBERS:
        return np.inf
    smooth = has_monotone_curvature(memory.h)
    fine = min(fine, SMOOTH_CELLS) if smooth else fine
    buffers = np.empty(fine), np.empty((fine, memory.n_arms)), np.empty((fine, memory.n_arms))
    count = fill_survival_bounds_by_cell(memory.address, *buffers)
    if count == 0:
        return np.inf
    h = memory.h
    cells, lost = _cells_with_mixture_bounds(h, mix, *(part[:count] for part in buffers))
    rough = cells
    if count > 2 * COARSE_CELLS:  # neighbours put together, as lay_cells does
        edges = np.linspace(0, count, COARSE_CELLS + 1).astype(np.int64)
        rough, _ = _cells_with_mixture_bounds(
            h, mix, np.add.reduceat(cells.width, edges[:-1]), cells.low[edges[1:] - 1], cells.high[edges[:-1]]
        )
    worst = 0.0
    for gains in product((1.0, 0.0), repeat=members.size):
        more = np.ones(memory.n_arms)
        more[members] = gains
        if more.all() or not more.any():
            continue  # what some arms get, others must lose
        b = mix.copy()
        if rough is not cells:
            rough.maximise_lead_in_place(h, mix, b, more, worst, 150)
        value, gap = cells.maximise_lead_in_place(h, mix, b, more, worst, 20 if rough is not cells else 150)
        if smooth and gap > 0.1 * (value + gap) > 0.1 * worst:  # the maximum is where the smaller bound changes
            cells.share[:] = cells.tie
            value, gap = min((value, gap), cells.maximise_lead_in_place(h, mix, b, more, worst, 80), key=sum)
            cells.share[:] = -1.0
        worst = max(worst, value + gap)
    offset = 2.0 * memory.rounding_utility_bound  # by how much rounding to bins moves both utilities
    if memory.sub_gaussian_sigma > 0.0:  # and what lies beyond all cells
        offset += 2.0 * memory.line_tail_bound
    return worst + lost + offset + float(joint_slope_step_error(h, float(cells.width.sum())))


def _cells_with_mixture_bounds(
    h: FloatArray, mix: FloatArray, width: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[SurvivalCells, float]:
    """The cells with the mixture's own ends in them; and what is lost by rounding."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    least, most, furthest_point = np.empty(width.size), np.empty(width.size), np.empty(width.size)
    lost = fill_mixture_survival_bounds(h, mix, width, low, high, width.size, least, most, furthest_point)
    share, tie = np.full(width.size, -1.0), np.zeros(width.size)
    return SurvivalCells(width, low, high, least, most, furthest_point, share, tie), float(lost)
