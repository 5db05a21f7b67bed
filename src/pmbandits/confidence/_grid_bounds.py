"""The largest utilities of all mixtures of a grid inside the arms' bands, in one pass over the cells; compiled.

The ends of the arms' bands are worked out once for each cell. Then the mixtures are the inner loop, which the compiler
turns into vector instructions. Each value is the same number, to the last bit, as
:func:`pmbandits.confidence._bounds.utility_bound` gives.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bounds import OPTIMISTIC, utility_bound
from pmbandits.confidence._envelopes import (
    arm_range_at_cell_end,
    bounds_survival_pointwise,
    end_of_cell,
    has_tail_assumption,
    n_cells_below_last,
    n_rewards_at_cell_end,
    survival_interval,
    update_kl_bands_and_get_errors,
)
from pmbandits.estimates._rewards import sort_pool
from pmbandits.metrics.encoding import add_h_of_each, h_max, h_value, has_single_peak, is_increasing, peak_location
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

MARGIN = 1e-9  # no rounding of a mixture's ends is larger


@step("table, floats, floats -> none")
def fill_weighted_sums(weights: FloatArray, x: FloatArray, out: FloatArray) -> None:
    """Σ weights·x of every mixture, one column each, into ``out``."""
    row, here = weights[0], x[0]
    for g in range(out.size):
        out[g] = row[g] * here
    for i in range(1, x.size):
        row, here = weights[i], x[i]
        for g in range(out.size):
            out[g] += row[g] * here


@shared("state -> none")
def fill_grid_optimistic_utilities(s: State) -> None:
    """The largest utility that every grid point can have in the sets, into ``index``; not for 0/1 rewards."""
    in_bands = bounds_survival_pointwise(s) and not has_tail_assumption(s)
    if in_bands:
        fill_grid_optimistic_utilities_in_bands(s)
    for g in range(s.n_grid_used):
        alone = not in_bands
        for i in range(s.n_arms):  # where an arm has no weight, its rewards make no cells
            if s.grid[g, i] == 0.0:
                alone = True
        if alone:
            s.index[g] = utility_bound(s, s.grid[g], OPTIMISTIC)


@shared("state -> none")
def fill_grid_optimistic_utilities_in_bands(s: State) -> None:
    """The largest utility of every grid point without zeros in bands or KL bands, into ``index``."""
    sort_pool(s)
    k, used, kind, h = s.n_arms, s.n_grid_used, s.set_kind, s.h
    cells, share_errors = n_cells_below_last(s), update_kl_bands_and_get_errors(s)
    kl_band, n_rewards, radius = s.kl_band, s.n_rewards, s.radius
    n_above, floor, top, complement = n_rewards.copy(), np.empty(k), np.empty(k), np.empty(k)
    weights, total = np.empty((k, used)), s.index[:used]
    low, high, upper_complement = np.empty(used), np.empty(used), np.empty(used)
    scratch = np.empty(2 * used)
    rises, single_peak = is_increasing(h), has_single_peak(h)
    peak, largest_h = 1.0 if rises else 0.0, h_max(h, 0.0, 1.0)
    if single_peak:
        peak = peak_location(h)
    before = s.low
    for g in range(used):
        total[g] = before * h_value(h, 1.0)
        for i in range(k):
            weights[i, g] = s.grid[g, i]
    for i in range(k):
        floor[i], top[i] = survival_interval(kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i)
        complement[i] = 1.0 - top[i]
    for cell in range(cells + 1):
        here = end_of_cell(s, cell)
        width = here - before
        if width > 0.0:
            lowest, highest, narrowest, least_floor, most_floor = 1.0, 0.0, 1.0, 1.0, 0.0
            for i in range(k):
                lowest, highest = min(lowest, top[i]), max(highest, top[i])
                least_floor, most_floor = min(least_floor, floor[i]), max(most_floor, floor[i])
                narrowest = min(narrowest, top[i] - floor[i])
            if narrowest < MARGIN:
                lowest, highest, least_floor, most_floor = 0.0, 1.0, 0.0, 1.0
            if highest < min(peak, 0.5) - MARGIN:  # h rises up to the upper end of every mixture, which is below ½
                fill_weighted_sums(weights, top, high)
                add_h_of_each(h, high, width, total, scratch)
            elif rises and lowest > 0.5 + MARGIN:
                fill_weighted_sums(weights, complement, high)
                for g in range(used):
                    high[g] = 1.0 - high[g]
                add_h_of_each(h, high, width, total, scratch)
            elif single_peak and least_floor > peak + MARGIN:  # h falls from the lower end on
                fill_weighted_sums(weights, floor, low)
                add_h_of_each(h, low, width, total, scratch)
            elif single_peak and lowest > peak + MARGIN and most_floor < peak - MARGIN:  # the peak lies between
                for g in range(used):
                    total[g] += width * largest_h
            else:
                fill_weighted_sums(weights, floor, low)
                fill_weighted_sums(weights, top, high)
                fill_weighted_sums(weights, complement, upper_complement)
                for g in range(used):
                    high[g] = high[g] if high[g] < 0.5 else 1.0 - upper_complement[g]
                    total[g] += width * h_max(h, low[g], high[g])
            before = here
        if cell < cells:
            first, last = arm_range_at_cell_end(s, cell)
            for i in range(first, last):
                gone = n_rewards_at_cell_end(s, cell, i)
                if gone > 0:
                    n_above[i] -= gone
                    floor[i], top[i] = survival_interval(
                        kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i
                    )
                    complement[i] = 1.0 - top[i]
    for g in range(used):
        total[g] += s.rounding_utility_bound
