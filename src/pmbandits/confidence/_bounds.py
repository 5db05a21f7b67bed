"""Bounds on a mixture's utility while every arm's distribution lies in its confidence set; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._bernoulli_wasserstein import bernoulli_kl_lower, bernoulli_kl_upper, wasserstein_ball_max
from pmbandits.confidence._envelopes import (
    BAND,
    INTERVAL,
    KL_BAND,
    arm_range_at_cell_end,
    bounds_survival_pointwise,
    confidence_radius_after,
    end_of_cell,
    has_tail_assumption,
    n_cells_below_last,
    n_rewards_at_cell_end,
    survival_interval,
    update_kl_bands_and_get_errors,
)
from pmbandits.confidence._heavy_tails import (
    best_tail_multiplier,
    tail_utility_bound,
    tail_w1_radius,
    update_tail_multipliers,
)
from pmbandits.estimates._rewards import BINARY, FINITE, n_pooled_values, sketch_rank_error, sort_pool
from pmbandits.estimates._sketch import sketch_range
from pmbandits.estimates._utility import (
    empirical_mixture_survival,
    empirical_utility_by_cells,
    inverse_reward_counts,
    share_of_ones,
    utility,
)
from pmbandits.metrics.encoding import h_max, h_min, h_value
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

OPTIMISTIC, PESSIMISTIC = range(2)  # which end of the utility is computed


@shared("state, int -> float")
def arm_set_radius(s: State, i: int) -> float:
    """The radius of arm i's set around what is kept of its rewards: wider by what is not kept."""
    r = confidence_radius_after(s, s.n_rewards[i])
    if s.n_rewards[i] == 0 or s.storage_mode == BINARY:
        return r
    if s.set_kind == BAND:  # rounding to bins is added to the values instead (``offset``)
        return r + sketch_rank_error(s, i)
    if s.set_kind == KL_BAND:  # as are the errors of sketches, to the shares (``share_errors``)
        return r
    r += s.rounding
    if s.sketch_size > 0:  # both distributions live between the least and the largest reward
        r += sketch_rank_error(s, i) * sketch_range(s.sketch_stats[i])
    return r


@step("int, float, float -> float")
def bernoulli_interval_lower(kind: int, p: float, r: float) -> float:
    """The lower end of the interval of radius r around the share p of ones."""
    return bernoulli_kl_lower(p, r) if kind == INTERVAL else max(p - r, 0.0)


@step("int, float, float -> float")
def bernoulli_interval_upper(kind: int, p: float, r: float) -> float:
    """The upper end of the interval of radius r around the share p of ones."""
    return bernoulli_kl_upper(p, r) if kind == INTERVAL else min(p + r, 1.0)


@shared("state -> none")
def update_confidence_sets(s: State) -> None:
    """Bring the arms' confidence sets up to date; only arms with new rewards cost anything."""
    for i in range(s.n_arms):
        if s.n_rewards[i] == s.set_built_at[i] and s.set_built_at[i] > 0:
            continue
        s.set_built_at[i] = s.n_rewards[i]
        r = arm_set_radius(s, i)
        s.radius[i] = r
        if s.storage_mode == BINARY:
            if s.n_rewards[i] == 0:
                s.lower[i], s.upper[i] = 0.0, 1.0
                continue
            p = share_of_ones(s, i)
            s.lower[i], s.upper[i] = (
                bernoulli_interval_lower(s.set_kind, p, r),
                bernoulli_interval_upper(s.set_kind, p, r),
            )
    if has_tail_assumption(s):
        update_tail_multipliers(s)


@step("floats, table, int, floats, floats, floats -> none")
def fill_bernoulli_optimistic_utilities(
    h: FloatArray, grid: FloatArray, used: int, lower: FloatArray, upper: FloatArray, out: FloatArray
) -> None:
    """The optimistic value of every grid point at once."""
    for g in range(used):
        low, high, upper_complement = 0.0, 0.0, 0.0
        for i in range(lower.size):
            low += grid[g, i] * lower[i]
            high += grid[g, i] * upper[i]
            upper_complement += grid[g, i] * (1.0 - upper[i])
        out[g] = h_max(h, low, high if high < 0.5 else 1.0 - upper_complement)


@step("floats, floats, floats, floats, int -> float")
def bernoulli_utility_bound(
    h: FloatArray, a: FloatArray, lower: FloatArray, upper: FloatArray, which_utility: int
) -> float:
    """Bernoulli arms: the extreme of h over the means that the mixture can have. Interval arithmetic, exact."""
    low, high, upper_complement = 0.0, 0.0, 0.0
    for i in range(a.size):
        low += a[i] * lower[i]
        high += a[i] * upper[i]
        upper_complement += a[i] * (1.0 - upper[i])
    high = high if high < 0.5 else 1.0 - upper_complement
    return h_max(h, low, high) if which_utility == OPTIMISTIC else h_min(h, low, high)


@shared("state, floats, int -> float")
def cellwise_utility_bound(s: State, a: FloatArray, which_utility: int) -> float:
    """The largest or smallest U_h while each arm's survival stays between its ends, cell by cell."""
    sort_pool(s)
    k, finite, sketched, kind = s.n_arms, s.storage_mode == FINITE, s.sketch_size > 0, s.set_kind
    cells = s.n_atoms if finite else n_pooled_values(s)
    share_errors, kl_band, n_rewards, radius = update_kl_bands_and_get_errors(s), s.kl_band, s.n_rewards, s.radius
    h, points, owner, counts, mass = s.h, s.points if finite else s.x, s.pool_arm, s.counts, s.pool_weight
    n_above, floor, top = n_rewards.copy(), np.empty(k), np.empty(k)
    members, used = np.empty(k, np.int64), 0  # arms without weight, and their rewards, make no difference
    for i in range(k):
        if a[i] > 0.0:
            members[used] = i
            used += 1
        floor[i], top[i] = survival_interval(kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i)
    before = s.low
    total = before * h_value(h, 1.0)
    for cell in range(cells + 1):
        if cell < cells and not finite and a[owner[cell]] == 0.0:
            continue
        here = points[cell] if cell < cells else s.high
        width = here - before
        if width > 0.0:
            low, high, upper_complement = 0.0, 0.0, 0.0
            for j in range(used):
                i = members[j]
                low += a[i] * floor[i]
                high += a[i] * top[i]
                upper_complement += a[i] * (1.0 - top[i])
            high = high if high < 0.5 else 1.0 - upper_complement
            total += width * (h_max(h, low, high) if which_utility == OPTIMISTIC else h_min(h, low, high))
            before = here
        if cell == cells:
            break
        if finite:
            for i in range(k):
                if counts[i, cell] > 0:
                    n_above[i] -= counts[i, cell]
                    floor[i], top[i] = survival_interval(
                        kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i
                    )
        else:
            i = owner[cell]
            n_above[i] -= mass[cell] if sketched else 1
            floor[i], top[i] = survival_interval(kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i)
    return total


@step("state, floats -> int")
def fill_mixture_survival(s: State, a: FloatArray) -> int:
    """The mixture's survival on its cells, into ``curve`` and ``width``; returns their number."""
    sort_pool(s)
    points, cells, before = n_cells_below_last(s), 0, s.low
    inverse = inverse_reward_counts(s.n_rewards)
    for i in range(s.n_arms):
        s.rewards_above[i] = s.n_rewards[i]
    for cell in range(points + 1):
        here = end_of_cell(s, cell)
        if here > before:
            s.survival_scratch[cells] = empirical_mixture_survival(a, s.rewards_above, s.n_rewards, inverse)
            s.cell_width[cells] = here - before
            cells += 1
            before = here
        if cell < points:
            first, last = arm_range_at_cell_end(s, cell)
            for i in range(first, last):
                s.rewards_above[i] -= n_rewards_at_cell_end(s, cell, i)
    return cells


@shared("state, floats, int -> float")
def utility_bound(s: State, a: FloatArray, which_utility: int) -> float:
    """The largest or smallest U_h that the mixture can have while every arm stays in its set (``eq: CIRT_UCB_LCB``).

    Intervals: exact. Bands and KL bands: exact for one arm; for several a bound (each arm's curve must fall too,
    which the mixture's cells do not see). With a moment or σ in place of ends of the support: a bound (heavy tails).
    Balls: of the pooled radius, a bound within some per cent of the arms' own.
    """
    k = s.n_arms
    if s.storage_mode == BINARY:
        return bernoulli_utility_bound(s.h, a, s.lower, s.upper, which_utility)
    sign = 1.0 if which_utility == OPTIMISTIC else -1.0
    if has_tail_assumption(s):
        return sign * tail_utility_bound(
            s, a, sign, s.tail_multipliers[0 if which_utility == OPTIMISTIC else 1], 0.0, np.empty(0)
        )
    if bounds_survival_pointwise(
        s
    ):  # of the rounded rewards' distributions, and the utility that rounding can change at most
        return cellwise_utility_bound(s, a, which_utility) + sign * s.rounding_utility_bound
    pooled_radius = 0.0
    for i in range(k):
        if a[i] > 0.0:
            pooled_radius += a[i] * s.radius[i]
    if s.bounded == 0:
        return empirical_utility_by_cells(s, a) + sign * s.lipschitz * pooled_radius
    return mixture_wasserstein_ball_bound(s, a, sign, pooled_radius)


@shared("state, floats, float, float -> float")
def mixture_wasserstein_ball_bound(s: State, a: FloatArray, sign: float, radius: float) -> float:
    """The largest (sign 1) or smallest (sign −1) U_h within the W1 distance ``radius`` of the mixture."""
    cells = fill_mixture_survival(s, a)
    inside = wasserstein_ball_max(
        s.h, sign, s.metric_shape, s.survival_scratch, s.cell_width, cells, radius, s.ball_grid, s.ball_envelope
    )
    return s.low * h_value(s.h, 1.0) + sign * inside


@shared("state, floats -> two floats")
def utility_interval(s: State, a: FloatArray) -> tuple[float, float]:
    """The smallest and the largest utility that a mixture can have while every arm stays in its confidence set."""
    if s.n_radii == 0:
        raise ValueError(
            "utility_interval needs confidence sets; let setup return "
            "Setup(confidence=self.choose_confidence_set(support, n_arms))."
        )
    update_confidence_sets(s)
    return utility_bound(s, a, PESSIMISTIC), utility_bound(s, a, OPTIMISTIC)


@kernel
def mixture_utility_with_bounds(s: State, a: FloatArray) -> tuple[float, float, float]:
    """The lower bound, the empirical value and the upper bound of a mixture's utility; nan if no distribution fits."""
    update_confidence_sets(s)
    if has_tail_assumption(s):  # at the best prices for this very mixture
        low, high = best_tail_multiplier(s, a, -1.0), best_tail_multiplier(s, a, 1.0)
        middle, none = utility(s, a), np.empty(0)
        low, high = -tail_utility_bound(s, a, -1.0, low, 0.0, none), tail_utility_bound(s, a, 1.0, high, 0.0, none)
        if not low <= high + 1e-9 * (abs(low) + abs(high)):
            return np.nan, middle, np.nan
        return min(low, middle), middle, max(high, middle)  # the rewards themselves may break the promise by chance
    return utility_bound(s, a, PESSIMISTIC), utility(s, a), utility_bound(s, a, OPTIMISTIC)


@shared("state, int -> float")
def wasserstein_radius(s: State, i: int) -> float:
    """The W1 radius of arm i's confidence set: how far its distribution may be from its rewards."""
    if s.storage_mode == BINARY:
        if s.paper_bonus == 1:  # a ball of the paper or the user: its bonus is not cut off at the ends of [0, 1]
            return s.radius[i]
        p = share_of_ones(s, i)
        return max(s.upper[i] - p, p - s.lower[i])
    if has_tail_assumption(s):
        return tail_w1_radius(s, i)
    width = s.high - s.low
    if s.n_rewards[i] == 0:
        return width
    if s.set_kind == KL_BAND:
        return kl_band_w1_radius(s, i) + s.rounding
    return width * min(s.radius[i], 1.0) + s.rounding if s.set_kind == BAND else s.radius[i]


@shared("state, int -> float")
def kl_band_w1_radius(s: State, i: int) -> float:
    """The W1 radius of arm i's KL band: how far a distribution in it may be from the rewards; one pass over them."""
    sort_pool(s)
    cells, n, share_error, kl_band = (
        n_cells_below_last(s),
        s.n_rewards[i],
        update_kl_bands_and_get_errors(s)[i],
        s.kl_band,
    )
    n_above, before, total = n, s.low, 0.0
    for cell in range(cells + 1):
        gone = n_rewards_at_cell_end(s, cell, i) if cell < cells else 0
        if gone == 0 and cell < cells:
            continue
        here = end_of_cell(s, cell)
        if here > before:
            lower, upper = survival_interval(KL_BAND, n_above, n, 0.0, share_error, kl_band, i)
            total += (here - before) * max(upper - n_above / n, n_above / n - lower)
            before = here
        n_above -= gone
    return total


@kernel
def fill_arm_kl_band(s: State, i: int, above: IntArray, lower: FloatArray, upper: FloatArray) -> None:
    """The ends of arm i's KL band where ``above[j]`` of its rewards lie above, into ``lower`` and ``upper``."""
    share_error = update_kl_bands_and_get_errors(s)[i]
    for j in range(above.size):
        lower[j], upper[j] = survival_interval(KL_BAND, above[j], s.n_rewards[i], 0.0, share_error, s.kl_band, i)
