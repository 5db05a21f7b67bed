"""The largest regret that a mixture can have, with the best rival and the mixture itself valued for the same laws."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from pmbandits._check import FloatArray
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.mixtures._rivals import most_of_others
from pmbandits.mixtures._together import climb_together, lay_cells, lay_mixture, rounding_of_slopes
from pmbandits.state.memory import Memory

FINE, ROUGH = 4096, 192  # cells in which the bound is worked out, and in which it is looked for first
MEMBERS = 6  # arms of the mixture up to which it is worked out: each may gain or lose, so there are 2^6 cases


class Cells(NamedTuple):
    """Cells of the support: widths, the ends of each arm's survival, and those of the mixture with v."""

    width: FloatArray
    low: FloatArray
    high: FloatArray
    least: FloatArray
    most: FloatArray
    far: FloatArray

    def climb(
        self, h: FloatArray, a: FloatArray, b: FloatArray, more: FloatArray, enough: float, passes: int
    ) -> tuple[float, float]:
        """See ``climb_together``."""
        width, low, high, least, most, far = self
        value, gap = climb_together(h, a, b, more, width, low, high, width.size, least, most, far, enough, passes)
        return float(value), float(gap)


def regret_together(memory: Memory, mix: FloatArray, fine: int = FINE) -> float:
    """The largest regret of a mixture while every arm's law is in its set; infinite where this method does not apply.

    For concave metrics, and sets that limit survivals cell by cell (all but balls and heavy tails), see
    ``mixtures/_together.py``. For convex metrics, and a mixture that is one arm: some arm alone is best, and an arm has
    no regret compared with itself.
    """
    members = np.flatnonzero(mix > 0.0)
    if memory.told.min() == 0:
        return np.inf
    if memory.metric_shape == CONVEX and members.size == 1:
        return max(float(most_of_others(memory.address, mix)), 0.0)
    if memory.metric_shape != CONCAVE or members.size > MEMBERS:
        return np.inf
    room = np.empty(fine), np.empty((fine, memory.n_arms)), np.empty((fine, memory.n_arms))
    count = lay_cells(memory.address, *room)
    if count == 0:
        return np.inf
    h = memory.h
    cells, lost = _with_mixture(h, mix, *(part[:count] for part in room))
    rough = cells
    if count > 2 * ROUGH:  # neighbours put together, as lay_cells does
        edges = np.linspace(0, count, ROUGH + 1).astype(np.int64)
        rough, _ = _with_mixture(
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
            rough.climb(h, mix, b, more, worst, 150)
        value, gap = cells.climb(h, mix, b, more, worst, 20 if rough is not cells else 150)
        worst = max(worst, value + gap)
    offset = 2.0 * memory.offset  # what rounding to bins is worth, of both
    if memory.tail_sigma > 0.0:  # and what lies beyond all cells
        offset += 2.0 * memory.line_rest
    return worst + lost + offset + float(rounding_of_slopes(h, float(cells.width.sum())))


def _with_mixture(
    h: FloatArray, mix: FloatArray, width: FloatArray, low: FloatArray, high: FloatArray
) -> tuple[Cells, float]:
    """The cells with the mixture's own ends in them; and what is lost by rounding."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    least, most, far = np.empty(width.size), np.empty(width.size), np.empty(width.size)
    lost = lay_mixture(h, mix, width, low, high, width.size, least, most, far)
    return Cells(width, low, high, least, most, far), float(lost)
