"""Upper bounds on the utility of any mixture, given the confidence sets; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.confidence._bounds import OPTIMISTIC, PESSIMISTIC, update_confidence_sets, utility_bound
from pmbandits.confidence._envelopes import (
    BALL,
    arm_range_at_cell_end,
    bounds_survival_pointwise,
    end_of_cell,
    has_tail_assumption,
    n_cells_below_last,
    n_rewards_at_cell_end,
    start_cell_walk_in_place,
    walk_past_cell_in_place,
)
from pmbandits.confidence._heavy_tails import best_tail_multiplier, largest_plausible_reward, tail_utility_bound
from pmbandits.confidence._sub_gaussian import sub_gaussian_cells_total_width
from pmbandits.estimates._rewards import BINARY, n_pooled_values, sort_pool
from pmbandits.metrics.encoding import h_max, h_min, h_value
from pmbandits.mixtures._constraints import fill_linear_maximiser
from pmbandits.mixtures._index import dot, max_utility_change_by_holder, ready
from pmbandits.mixtures._optimistic_objectives import objective_of_largest_utility_in_sets
from pmbandits.mixtures._pairwise_ascent import (
    gap_at_which_to_stop,
    maximise_objective_in_place,
    pairwise_ascent_in_place,
)
from pmbandits.mixtures._segments import end_of_segment
from pmbandits.state.arrays import fill_array_with, largest_of, smallest_of
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import State, unpack

CERTIFICATE_SLOPE_STEP = 1e-9  # half the distance over which h's slope is taken in certificates


@shared("state, floats, floats, bool -> float")
def extreme_average(s: State, numbers: FloatArray, sums: FloatArray, largest: bool) -> float:
    """The largest or the least average of the arms' numbers over all mixtures.

    With segments, over those in which each segment has the weight that it has in ``sums``.
    """
    if s.n_segments <= 1:
        return largest_of(numbers) if largest else smallest_of(numbers)
    total, start = 0.0, 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        mine, weight = numbers[start:end], 0.0
        for i in range(start, end):
            weight += sums[i]
        total += weight * (largest_of(mine) if largest else smallest_of(mine))
        start = end
    return total


@shared("state, floats -> float")
def utility_upper_bound_by_cells(s: State, sums: FloatArray) -> float:
    """A bound for every mixture and any h: in each cell the best between the lowest and the highest arm.

    With segments, between the lowest and the highest arm of each; ``sums`` is a mixture with the segments' weights.
    """
    if has_tail_assumption(s):
        return tail_utility_bound(s, np.empty(0), 1.0, s.tail_multipliers[0], 0.0, np.empty(0))
    k, bounded = s.n_arms, s.bounded == 1
    sort_pool(s)
    cells = n_cells_below_last(s)
    left, floor, top = s.n_rewards.copy(), np.empty(k), np.empty(k)
    share_errors = start_cell_walk_in_place(s, left, floor, top)
    before = s.low if bounded else s.x[0]
    total = before * h_value(s.h, 1.0)
    for c in range(cells + 1 if bounded else cells):
        here = end_of_cell(s, c)
        if here > before:
            ends = extreme_average(s, floor, sums, False), extreme_average(s, top, sums, True)
            total += (here - before) * h_max(s.h, min(max(ends[0], 0.0), 1.0), min(max(ends[1], 0.0), 1.0))
            before = here
        if c < cells:
            walk_past_cell_in_place(s, c, left, floor, top, share_errors)
    return total + (s.rounding_utility_bound if bounds_survival_pointwise(s) else 0.0)


@kernel
def utility_upper_bound_on_support(h: FloatArray, lo: float, hi: float) -> float:
    """What U_h cannot exceed on [lo, hi]."""
    return lo * h_value(h, 1.0) + (hi - lo) * h_max(h, 0.0, 1.0)


@shared("state, floats, floats -> float")
def largest_average_over_mixtures(s: State, upper_bounds: FloatArray, sums: FloatArray) -> float:
    """The largest ⟨a, upper_bounds⟩ over feasible mixtures; convex U_h never exceeds that average."""
    if s.n_limited == 0 or s.n_segments > 1:
        return extreme_average(s, upper_bounds, sums, True)
    best = np.empty(s.n_arms)
    fill_linear_maximiser(s, upper_bounds, best)
    return dot(best, upper_bounds)


@shared("state, floats -> float")
def utility_upper_bound_for_convex_h(s: State, sums: FloatArray) -> float:
    """Convex h: the upper bound for all mixtures is that of the best vertex; without limits, of the best arm."""
    upper_bounds = np.empty(s.n_arms)
    fill_single_arm_upper_bounds(s, upper_bounds)
    best = largest_average_over_mixtures(s, upper_bounds, sums)
    if s.n_corners > 0:
        top = -np.inf
        for c in range(s.n_corners):
            top = max(top, utility_bound(s, s.corners[c], OPTIMISTIC))
        best = min(best, top)
    return best


@shared("state, floats -> two floats")
def reachable_mean_range(s: State, sums: FloatArray) -> tuple[float, float]:
    """The least and the largest mean that a mixture can have, of arms that pay 0 or 1."""
    if s.n_limited == 0 or s.n_segments > 1:
        return extreme_average(s, s.lower, sums, False), extreme_average(s, s.upper, sums, True)
    k = s.n_arms
    minus, end = np.empty(k), np.empty(k)
    for i in range(k):
        minus[i] = -s.lower[i]
    fill_linear_maximiser(s, minus, end)
    low = dot(end, s.lower)
    fill_linear_maximiser(s, s.upper, end)
    return low, dot(end, s.upper)


@shared("state, floats -> float")
def maximise_in_place_with_certificate(s: State, a: FloatArray) -> float:
    """Make a the mixture with the largest possible utility; returns by how much another may be better, surely."""
    k, objective = s.n_arms, objective_of_largest_utility_in_sets(s)
    maximise_objective_in_place(s, objective, a, np.zeros(k), np.ones(k), s.radius)
    return pairwise_ascent_in_place(
        s, objective, a, np.zeros(k), np.ones(k), s.segment_of, s.radius, CERTIFICATE_SLOPE_STEP, np.inf, 1
    )


@shared("floats, float -> float")
def slope_error_near_0_and_1(h: FloatArray, span: float) -> float:
    """The error of a gap: within ``CERTIFICATE_SLOPE_STEP`` of 0 and 1 the slope is not h's own."""
    step = 2.0 * CERTIFICATE_SLOPE_STEP
    end_error = h_max(h, 0.0, step) - h_min(h, 0.0, step) + (h_max(h, 1.0 - step, 1.0) - h_min(h, 1.0 - step, 1.0))
    return span * (end_error + 2.0 * step)


@shared("state, floats -> float")
def upper_bound_on_unbounded_support(s: State, sums: FloatArray) -> float:
    """Upper bound for all mixtures, KL bands on an unbounded support, with the dual price of the best mixture."""
    k, before, none = s.n_arms, s.tail_multipliers[0], np.empty(0)
    alone = np.zeros(k)
    if s.metric_shape == CONVEX:
        upper_bounds = np.empty(k)
        for i in range(k):
            alone[i] = 1.0
            upper_bounds[i] = tail_utility_bound(s, alone, 1.0, best_tail_multiplier(s, alone, 1.0), 0.0, none)
            alone[i] = 0.0
        return largest_average_over_mixtures(s, upper_bounds, sums)
    best = tail_utility_bound(s, none, 1.0, best_tail_multiplier(s, none, 1.0), 0.0, none)
    if s.metric_shape != CONCAVE or not ready(s):
        return best
    a = np.full(k, 1.0 / k) if s.n_segments <= 1 else sums.copy()
    # Ends beyond the span are those of Markov's inequality, and do not depend on the mixture.
    if s.moment_order > 0.0:
        span = 2.0 * max(largest_plausible_reward(s), (s.moment_bound * s.rewards) ** (1.0 / s.moment_order))
    else:
        span = sub_gaussian_cells_total_width(s)
    for _ in range(2):
        s.tail_multipliers[0] = best_tail_multiplier(s, a, 1.0)
        gap = maximise_in_place_with_certificate(s, a)
        best = min(best, utility_bound(s, a, OPTIMISTIC) + gap + slope_error_near_0_and_1(s.h, span))
    s.tail_multipliers[0] = before
    return best


@kernel
def set_mix_to_most_optimistic(memory: int) -> None:
    """Write the mixture with the largest possible utility to ``mix``; concave h, bands or unbounded support.

    With segments, each keeps the weight that it has in ``mix``.
    """
    s = unpack(memory)
    update_confidence_sets(s)
    k = s.n_arms
    if s.n_segments <= 1:
        fill_array_with(s.mix, 1.0 / k)
    if (
        s.storage_mode != BINARY
        and s.metric_shape == CONCAVE
        and ready(s)
        and not (s.set_kind == BALL and s.bounded == 1)
    ):
        maximise_objective_in_place(
            s, objective_of_largest_utility_in_sets(s), s.mix, np.zeros(k), np.ones(k), s.radius.copy()
        )


@shared("state, floats -> none")
def fill_single_arm_upper_bounds(s: State, out: FloatArray) -> None:
    """The largest U_h that each arm alone can have; where sets are by cells, all of them in one pass."""
    k = s.n_arms
    if s.storage_mode == BINARY or not bounds_survival_pointwise(s) or has_tail_assumption(s):
        alone = np.zeros(k)
        for i in range(k):
            alone[i] = 1.0
            out[i] = utility_bound(s, alone, OPTIMISTIC)
            alone[i] = 0.0
        return
    sort_pool(s)
    cells, left, before, floor, top = (
        n_cells_below_last(s),
        s.n_rewards.copy(),
        np.full(k, s.low),
        np.empty(k),
        np.empty(k),
    )
    share_errors = start_cell_walk_in_place(s, left, floor, top)
    fill_array_with(out, s.low * h_value(s.h, 1.0) + s.rounding_utility_bound)
    for c in range(cells + 1):
        here = end_of_cell(s, c)
        first, last = arm_range_at_cell_end(s, c) if c < cells else (0, k)
        for i in range(first, last):
            if here > before[i] and (c == cells or n_rewards_at_cell_end(s, c, i) > 0):
                out[i] += (here - before[i]) * h_max(s.h, floor[i], top[i])
                before[i] = here
        if c < cells:
            walk_past_cell_in_place(s, c, left, floor, top, share_errors)


@kernel
def max_lead_of_other_arms(memory: int, a: FloatArray) -> float:
    """The largest possible lead of any other single arm over a mixture that is one arm; convex h."""
    s = unpack(memory)
    update_confidence_sets(s)
    best, upper_bounds = -np.inf, np.empty(s.n_arms)
    fill_single_arm_upper_bounds(s, upper_bounds)
    for i in range(s.n_arms):
        if a[i] == 0.0:
            best = max(best, upper_bounds[i])
    return best - utility_bound(s, a, PESSIMISTIC)


@kernel
def upper_bound_of_any_mixture(memory: int, start: FloatArray) -> float:
    """Upper bound on any mixture's utility while all arms are in their confidence sets; ``start`` is a guess.

    Where shares are limited: no mixture that keeps the limits. (A bound by cells is for all mixtures all the same.)
    With segments: of the mixtures in which each segment has the weight that it has in ``start``.

    The guess decides how long the search takes, not whether the answer is right.

    Intervals, and convex h: the largest optimistic value. Concave h, bands or the line: the same, to a hundredth of
    what chance does to the estimates; where h has corners and rewards are continuous, some per cent above. Else
    only a bound: in each cell the best of what the arms allow.
    """
    s = unpack(memory)
    update_confidence_sets(s)
    if s.storage_mode == BINARY:
        low, high = reachable_mean_range(s, start)
        return h_max(s.h, low, high)
    if has_tail_assumption(s):
        return upper_bound_on_unbounded_support(s, start)
    if not ready(s):
        return np.inf if s.bounded == 0 else utility_upper_bound_by_cells(s, start)
    if s.metric_shape == CONVEX:
        return utility_upper_bound_for_convex_h(s, start)
    ball = s.set_kind == BALL
    if ball and s.bounded == 1:  # W1 balls: by the Hölder pair (infinite without one)
        worst = max_utility_change_by_holder(s, largest_of(s.radius)) if s.holder_c > 0.0 else np.inf
        return min(utility_upper_bound_by_cells(s, start) + worst, utility_upper_bound_on_support(s.h, s.low, s.high))
    steep = s.lipschitz * largest_of(s.radius) if ball else 0.0
    if s.metric_shape != CONCAVE:
        return utility_upper_bound_by_cells(s, start) + steep
    a = start.copy()  # not the current mixture: the answer is to depend on the rewards alone
    gap = maximise_in_place_with_certificate(s, a)
    span = s.high - s.low if s.bounded == 1 else s.x[n_pooled_values(s) - 1] - s.x[0]
    most = utility_bound(s, a, OPTIMISTIC) + gap + slope_error_near_0_and_1(s.h, span)
    return most if gap <= gap_at_which_to_stop(s) else min(most, utility_upper_bound_by_cells(s, start) + steep)
