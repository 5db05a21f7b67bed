"""The best point of a grid of two arms, where values are concave along it; compiled.

For concave h the utility of a mixture is concave in its weights, and so are the bonus and the largest utility inside
bands: in each cell that is the largest h(y) for y between two linear functions of the weights. So where one point is
surely worse than another, all beyond it are worse still, and only the best point and its neighbours must be compared.

Rewards that are kept one by one are first compared in blocks (``estimates/_reward_blocks.py``), which does not take
longer with more rewards. Only points that these leave open are worked out. The decisions are those of working out
everything.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE
from pmbandits.confidence._block_bounds import (
    block_optimistic_bounds,
    block_utility_bounds,
    fill_block_curves,
    w1_radius_bounds,
)
from pmbandits.confidence._bounds import OPTIMISTIC, utility_bound
from pmbandits.confidence._envelopes import bounds_survival_pointwise, has_tail_assumption
from pmbandits.estimates._reward_blocks import has_reward_blocks, update_reward_blocks
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import empirical_utility_by_cells, utility
from pmbandits.metrics.encoding import has_table
from pmbandits.mixtures._index import HOLDER_BONUS, OPTIMISTIC_BOUND, TIE, mixture_bonus
from pmbandits.mixtures._lazy_argmax import rounding_error_of_grid_values
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

LONGEST_STRIDE = 16  # blocks that are taken together
SUCCESSES_BEFORE_LONGER_STRIDE = 8  # looks that blocks decided, one after the other


@step("state, int -> bool")
def is_concave_on_line(s: State, kind: int) -> bool:
    """Whether the values are concave along the grid, and in its order: two arms, and a concave formula."""
    fits = s.n_arms == 2 and s.storage_mode != BINARY and s.metric_shape == CONCAVE and s.random_ties == 0
    fits = fits and not has_table(s.h) and not has_tail_assumption(s)
    if kind == OPTIMISTIC_BOUND:
        fits = fits and bounds_survival_pointwise(s)
    for g in range(1, s.n_grid_used):
        if (s.grid[g, 0] > s.grid[g - 1, 0]) != (s.grid[1, 0] > s.grid[0, 0]) or s.grid[g, 0] == s.grid[g - 1, 0]:
            fits = False
    for i in range(s.n_arms):
        if not s.radius[i] < np.inf:
            fits = False
    return fits


@shared("state, int, int, floats, floats -> none")
def fill_radii_with_errors(s: State, kind: int, stride: int, radius: FloatArray, error: FloatArray) -> None:
    """The arms' radii that a bonus needs, in W1, and how far they may be off."""
    for i in range(s.n_arms):
        radius[i], error[i] = s.radius[i], 0.0
        if kind == HOLDER_BONUS:
            low, high = w1_radius_bounds(s, i, stride)
            radius[i], error[i] = 0.5 * (low + high), 0.5 * (high - low)


@shared("state, int, int, int, floats, floats, floats -> none")
def enclose_value(
    s: State, g: int, kind: int, stride: int, radius: FloatArray, low: FloatArray, high: FloatArray
) -> None:
    """Write bounds on grid point g's value: by ``stride`` blocks at a time, or (0) the value itself."""
    a = s.grid[g]
    if stride == 0:
        low[g] = utility_bound(s, a, OPTIMISTIC) if kind == OPTIMISTIC_BOUND else empirical_utility_by_cells(s, a)
        high[g] = low[g]
    elif kind == OPTIMISTIC_BOUND:
        low[g], high[g] = block_optimistic_bounds(s, a, stride)
    else:
        low[g], high[g] = block_utility_bounds(s, a, stride)
    bonus = mixture_bonus(s, a, radius, kind)
    low[g] += bonus
    high[g] += bonus


@step("state, int, int, int, floats, floats -> float")
def bonus_lead_error(s: State, kind: int, g: int, other: int, radius: FloatArray, error: FloatArray) -> float:
    """How far the lead of one grid point's bonus over another's may be off."""
    if kind != HOLDER_BONUS:
        return 0.0
    total, q = 0.0, s.holder_q
    for i in range(s.n_arms):
        a, b = s.grid[g, i], s.grid[other, i]
        if q == 1.0:
            total += abs(a - b) * error[i]
        else:
            least = max(radius[i] - error[i], 0.0)
            total += (a**q + b**q) * ((radius[i] + error[i]) ** q - least**q)
    return s.holder_c * total


@step("state, int, bool -> none")
def note_whether_blocks_decided(s: State, stride: int, decided: bool) -> None:
    """Begin the next looks with as many blocks at a time as can decide: with half as many, or after a while twice."""
    s.block_successes = s.block_successes + 1 if decided else 0
    s.block_stride = stride if decided else max(stride // 2, 1)
    if s.block_successes == SUCCESSES_BEFORE_LONGER_STRIDE:
        s.block_successes = 0
        s.block_stride = min(2 * stride, LONGEST_STRIDE)


@shared("state, int -> int")
def argmax_on_line(s: State, kind: int) -> int:
    """The grid point that evaluating all of them would choose.

    That is the one with the largest value; of equals the previous one, else the one with the highest utility, else the
    first.
    """
    used, before, stride = s.n_grid_used, s.current_point, 0
    if has_reward_blocks(s):
        update_reward_blocks(s)
        stride = max(s.block_stride, 1)
    off, each = rounding_error_of_grid_values(s)
    radius, error = np.zeros(s.n_arms), np.zeros(s.n_arms)
    low, high, found = np.empty(used), np.empty(used), np.empty(used, np.bool_)
    first, last, top = 0, used - 1, max(before, 0)  # no point before ``first`` or after ``last`` can be the best
    while True:
        if stride > 0:
            for i in range(s.n_arms):
                fill_block_curves(s, i, stride, kind == OPTIMISTIC_BOUND)
        fill_radii_with_errors(s, kind, stride, radius, error)
        for g in range(used):
            found[g] = False
        enclose_value(s, top, kind, stride, radius, low, high)
        found[top] = True
        for turn in range(2):  # up from the best point so far, then down
            g, step_by = top, 1 - 2 * turn
            while first <= g + step_by <= last:
                g += step_by
                if not found[g]:
                    enclose_value(s, g, kind, stride, radius, low, high)
                    found[g] = True
                if low[g] > low[top]:
                    top = g
                elif low[top] - high[g] > 2.0 * (off + each * abs(low[top])) + bonus_lead_error(
                    s, kind, g, top, radius, error
                ):
                    if turn == 0:
                        last = g - 1
                    else:
                        first = g + 1
        if stride > 0:
            note_whether_blocks_decided(s, stride, first == last)
        if first == last:
            return top
        if stride == 0:
            break
        stride //= 2
    best = low[top]
    least = best - TIE * max(1.0, abs(best))
    if first <= before <= last and low[before] >= least:
        return before
    chosen, most = -1, -np.inf
    for g in range(first, last + 1):
        if low[g] >= least:
            value = utility(s, s.grid[g])
            if chosen < 0 or value > most + TIE * max(1.0, abs(most)):
                chosen, most = g, value
    return chosen
