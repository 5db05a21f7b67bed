"""Objectives of optimistic searches: the largest utility in the confidence sets, and utilities with a bonus; compiled.

Each is given to the maximiser by the address of its gradient.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._envelopes import (
    arm_range_at_cell_end,
    end_of_cell,
    has_tail_assumption,
    n_cells_below_last,
    n_rewards_at_cell_end,
    start_cell_walk_in_place,
    survival_interval,
)
from pmbandits.confidence._heavy_tails import tail_utility_bound
from pmbandits.estimates._rewards import BINARY, sort_pool
from pmbandits.estimates._utility import empirical_slopes
from pmbandits.metrics.encoding import h_slope
from pmbandits.mixtures._index import dot
from pmbandits.mixtures._pairwise_ascent import GRADIENT
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import make_pointer_getter, shared, step
from pmbandits.state.numba_types import State


@shared(GRADIENT)
def fill_optimistic_gradient(s: State, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray) -> None:
    """The gradient of the largest U_h inside the confidence bands, into ``out``; concave h. ``radius`` is not used.

    In each cell the mixture's survival may lie between low and high, and is best at high where h rises there, at low
    where h falls there, else at the peak between, where more weight changes nothing.
    """
    if has_tail_assumption(s):
        tail_utility_bound(s, a, 1.0, s.tail_multipliers[0], slope_step, out)
        return
    k, h, set_kind, n_rewards, set_radius = s.n_arms, s.h, s.set_kind, s.n_rewards, s.radius
    fill_array_with(out, 0.0)
    if s.storage_mode == BINARY:
        low, high = dot(a, s.lower), dot(a, s.upper)
        up, down = h_slope(h, high, slope_step), h_slope(h, low, slope_step)
        for i in range(k):
            out[i] = up * s.upper[i] if up > 0.0 else down * s.lower[i] if down < 0.0 else 0.0
        return
    sort_pool(s)
    cells = n_cells_below_last(s)
    band = s.kl_band
    left = n_rewards.copy()
    floor, top = np.empty(k), np.empty(k)  # each arm's own lowest and highest survival here
    since_up, since_down = np.zeros(k), np.zeros(k)  # Φ when they last changed
    share_errors = start_cell_walk_in_place(s, left, floor, top)
    low, high, up, down = dot(a, floor), dot(a, top), 0.0, 0.0
    before = s.low
    for c in range(cells + 1):
        here = end_of_cell(s, c)
        if here > before:
            rising = h_slope(h, high, slope_step)
            if rising > 0.0:
                up += (here - before) * rising
            else:
                down += (here - before) * min(h_slope(h, low, slope_step), 0.0)
            before = here
        if c == cells:
            break
        first, last = arm_range_at_cell_end(s, c)
        for i in range(first, last):
            gone = n_rewards_at_cell_end(s, c, i)
            if gone > 0:
                out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]
                since_up[i], since_down[i] = up, down
                left[i] -= gone
                lower, upper = survival_interval(
                    set_kind, left[i], n_rewards[i], set_radius[i], share_errors[i], band, i
                )
                low += a[i] * (lower - floor[i])
                high += a[i] * (upper - top[i])
                floor[i], top[i] = lower, upper
    for i in range(k):
        out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]


@shared(GRADIENT)
def fill_lipschitz_bonus_gradient(
    s: State, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray
) -> None:
    """The gradient of U + 𝓛·Σ a·radius, into ``out``."""
    empirical_slopes(s, a, slope_step, out)
    for i in range(a.size):
        out[i] += s.lipschitz * radius[i]


@shared(GRADIENT)
def fill_holder_bonus_gradient(s: State, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray) -> None:
    """The gradient of U + 𝓛·Σ (a·radius)^q, into ``out``."""
    empirical_slopes(s, a, slope_step, out)
    q = s.holder_q
    for i in range(a.size):
        if q == 1.0:
            out[i] += s.holder_c * radius[i]
        elif radius[i] > 0.0:
            lo, hi = max(a[i] - slope_step, 0.0) * radius[i], (a[i] + slope_step) * radius[i]
            out[i] += s.holder_c * (hi**q - lo**q) / (hi - lo) * radius[i]


largest_utility_in_bands = make_pointer_getter(fill_optimistic_gradient)
utility_plus_lipschitz_bonus = make_pointer_getter(fill_lipschitz_bonus_gradient)
utility_plus_holder_bonus = make_pointer_getter(fill_holder_bonus_gradient)


@step("state -> int")
def objective_of_largest_utility_in_sets(s: State) -> int:
    """The objective that is the largest utility in the sets: with a bonus for balls on the line, else by bands."""
    if s.bounded == 0 and not has_tail_assumption(s):
        return utility_plus_lipschitz_bonus()
    return largest_utility_in_bands()
