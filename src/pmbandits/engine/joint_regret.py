"""Bound on the regret of a mixture, with the mixture and its best rival valued for the same distributions."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from pmbandits._validation import FloatArray, IntArray
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
    segment_of: IntArray  # of each arm; empty if there are not several segments

    def maximise_lead_in_place(
        self, h: FloatArray, a: FloatArray, b: FloatArray, more: FloatArray, enough: float, passes: int
    ) -> tuple[float, float]:
        """Maximise the lead of b over a in these cells, in place; returns the value and the gap to the optimum."""
        width, low, high, least, most, furthest_point, share, tie, segment_of = self
        value, gap = maximise_joint_lead_in_place(
            h, a, b, more, width, low, high, width.size, least, most, furthest_point, share, tie, segment_of, enough,
            passes,
        )  # fmt: skip
        return float(value), float(gap)


def joint_regret_bound(memory: Memory, mix: FloatArray, fine: int = FINE_CELLS) -> float:
    """The largest regret of a mixture while every arm's distribution is in its set; infinite if not applicable.

    For concave metrics, and sets that limit survivals cell by cell (all but balls and heavy tails), see
    ``mixtures/_joint_regret.py``. For convex metrics, and a mixture that is one arm: some arm alone is best, and it has
    no regret compared with itself.

    With segments, the rivals are the mixtures in which each segment has the weight that it has in ``mix``.
    """
    members = np.flatnonzero(mix > 0.0)
    if memory.n_rewards.min() == 0:
        return np.inf
    if memory.metric_shape == CONVEX and members.size == 1:
        return max(float(max_lead_of_other_arms(memory.address, mix)), 0.0)
    segment_of = memory.segment_of if memory.n_segments > 1 else np.empty(0, dtype=np.int64)
    cases = _cases_of_gaining_arms(mix, segment_of)
    if memory.metric_shape != CONCAVE or cases is None:
        return np.inf
    smooth = has_monotone_curvature(memory.h)
    fine = min(fine, SMOOTH_CELLS) if smooth else fine
    buffers = np.empty(fine), np.empty((fine, memory.n_arms)), np.empty((fine, memory.n_arms))
    count = fill_survival_bounds_by_cell(memory.address, *buffers)
    if count == 0:
        return np.inf
    h = memory.h
    cells, lost = _cells_with_mixture_bounds(h, mix, segment_of, *(part[:count] for part in buffers))
    rough = cells
    if count > 2 * COARSE_CELLS:  # neighbours put together, as lay_cells does
        edges = np.linspace(0, count, COARSE_CELLS + 1).astype(np.int64)
        widths = np.add.reduceat(cells.width, edges[:-1])
        rough, _ = _cells_with_mixture_bounds(
            h, mix, segment_of, widths, cells.low[edges[1:] - 1], cells.high[edges[:-1]]
        )
    worst = 0.0
    for more in cases:
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


def _cases_of_gaining_arms(mix: FloatArray, segment_of: IntArray) -> list[FloatArray] | None:
    """Which arms get more than in the mixture (1) and which less (0), in all ways; ``None`` if there are too many.

    What some arms of a segment get, others of it must lose; those that have nothing can only get more.
    """
    ways: list[list[tuple[IntArray, FloatArray]]] = []
    n_cases = 1
    for segment in np.unique(segment_of) if segment_of.size else [-1]:
        arms = np.flatnonzero(segment_of == segment) if segment_of.size else np.arange(mix.size)
        members = arms[mix[arms] > 0.0]
        if members.size > MAX_MEMBERS:
            return None
        mine: list[tuple[IntArray, FloatArray]] = []
        for gains in product((1.0, 0.0), repeat=members.size):
            more = np.ones(mix.size)
            more[members] = gains
            if not more[arms].all() and more[arms].any():
                mine.append((arms, more[arms]))
        ways.append(mine or [(arms, np.ones(arms.size))])  # nothing can move
        n_cases *= len(ways[-1])
        if n_cases > 1 << MAX_MEMBERS:
            return None
    found = []
    for case in product(*ways):
        more = np.ones(mix.size)
        for places, part in case:
            more[places] = part
        found.append(more)
    return [more for more in found if not more.all()]


def _cells_with_mixture_bounds(
    h: FloatArray, mix: FloatArray, segment_of: IntArray, width: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[SurvivalCells, float]:
    """The cells with the mixture's own ends in them; and what is lost by rounding."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    least, most, furthest_point = np.empty(width.size), np.empty(width.size), np.empty(width.size)
    lost = fill_mixture_survival_bounds(h, mix, width, low, high, width.size, least, most, furthest_point)
    share, tie = np.full(width.size, -1.0), np.zeros(width.size)
    return SurvivalCells(width, low, high, least, most, furthest_point, share, tie, segment_of), float(lost)
