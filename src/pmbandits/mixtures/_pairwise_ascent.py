"""The quick maximiser: a concave objective over mixtures, by moving weight from one arm to another; compiled.

It serves policies: it starts from the last mixture and stops at a small certified gap. (The oracle has the exact
maximiser, ``optimize/interior_point.py``.) With the slopes g_i of a concave objective at a mixture a, no mixture b is
better than a by more than ⟨g, b − a⟩, and the largest of that over all allowed b is the ``gap``. Weight moves from the
arm with the least slope to the one with the greatest, as far as that helps, until the gap is small.

The objective is the address of a kernel that writes the slopes, so a policy compiles the one that it uses only. What is
allowed is a box around the simplex, or around a product of simplices (segments, ``_segments.py``), or what limits on
several arms leave. There a vertex takes the place of an arm: the best one is found by a linear program, and those that
were found are kept as long as they have weight.

h enters by its slope between u ± slope_step. With a step below half a reward's weight nothing is lost, and h needs no
derivative: corners and vertical ends are rounded by less than the rewards can show.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.estimates._rewards import SAMPLES, n_pooled_values, sort_pool
from pmbandits.estimates._utility import fill_influence_moments
from pmbandits.metrics.encoding import h_max, h_min
from pmbandits.mixtures._constraints import (
    fill_box_centre,
    fill_linear_maximiser,
    fill_linear_maximiser_in_box,
    is_in_box,
    is_same_mixture,
    keeps_limits,
    shrink_box_to_limits_in_place,
)
from pmbandits.mixtures._index import dot
from pmbandits.mixtures._segments import end_of_segment
from pmbandits.state.arrays import copy_numbers_into, fill_array_with
from pmbandits.state.linking import make_caller, make_pointer_getter, shared, step
from pmbandits.state.numba_types import State

# Calls an objective: its gradient at the mixture a, into ``out``. Arguments: its address, the state, a, the arms'
# radii in W1 (for objectives with a bonus), half the distance over which slopes of h are taken, and out.
GRADIENT = "state, floats, floats, float, floats -> none"
call_gradient = make_caller(GRADIENT)
# Calls the value of an objective. Arguments: its address, the state, the mixture, and the arms' radii.
VALUE = "state, floats, floats -> float"
call_value = make_caller(VALUE)


@shared(GRADIENT)
def fill_utility_gradient(s: State, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray) -> None:
    """The gradient of the empirical utility, as an objective to maximise; ``radius`` is not used."""
    fill_influence_moments(s, a, slope_step, out, np.empty(0))


empirical_utility = make_pointer_getter(fill_utility_gradient)


@step("floats, floats, floats, floats, ints -> float")
def frank_wolfe_gap(
    gradient: FloatArray, a: FloatArray, low: FloatArray, high: FloatArray, segment_of: IntArray
) -> float:
    """The Frank–Wolfe gap: the largest ⟨g, b − a⟩ over b between low and high with the same sum in each segment."""
    b, total, start = np.empty(a.size), 0.0, 0
    while start < a.size:
        end, weight = end_of_segment(segment_of, start, a.size), 1.0
        if end - start < a.size:
            weight = 0.0
            for i in range(start, end):
                weight += a[i]
        fill_linear_maximiser_in_box(gradient[start:end], low[start:end], high[start:end], weight, b[start:end])
        start = end
    for i in range(a.size):
        total += gradient[i] * (b[i] - a[i])
    return max(total, 0.0)


@step("floats, floats, floats, floats, ints -> two ints")
def steepest_pair_of_arms(
    gradient: FloatArray, a: FloatArray, low: FloatArray, high: FloatArray, segment_of: IntArray
) -> tuple[int, int]:
    """The two arms of one segment between which a move of weight gains the most: to, and from; −1 if none does."""
    to, away, lead, start = -1, -1, 0.0, 0
    while start < a.size:
        i, j, end = -1, -1, end_of_segment(segment_of, start, a.size)
        for m in range(start, end):
            if a[m] < high[m] and (i < 0 or gradient[m] > gradient[i]):
                i = m
            if a[m] > low[m] and (j < 0 or gradient[m] < gradient[j]):
                j = m
        if i >= 0 and j >= 0 and gradient[i] - gradient[j] > lead:
            to, away, lead = i, j, gradient[i] - gradient[j]
        start = end
    return to, away


@shared("state, int, floats, floats, floats, floats, float, float, float, floats, float, int, floats -> float and int")
def line_search_step_and_passes(
    s: State,
    objective: int,
    a: FloatArray,
    low: FloatArray,
    high: FloatArray,
    direction: FloatArray,
    lead: float,
    max_step: float,
    first: float,
    radius: FloatArray,
    slope_step: float,
    most: int,
    end_gradient: FloatArray,
) -> tuple[float, int]:
    """Line search from a in a direction with initial slope ``lead``: the step length, and the passes it took.

    It tries the step ``first``, and takes at most ``most`` passes. It ends where the objective still rises a little, so
    it never falls. ``end_gradient`` gets the gradient there.
    """
    k = a.size
    trial, there = np.empty(k), np.empty(k)
    step, left, ahead, right, behind = min(first, max_step), 0.0, lead, -1.0, 0.0
    passes = 0
    while passes < min(most, 24):
        for m in range(k):
            trial[m] = min(max(a[m] + step * direction[m], low[m]), high[m])
        call_gradient(objective, s, trial, radius, slope_step, there)
        passes += 1
        along = dot(there, direction)
        if along >= 0.0:
            left, ahead = step, along
            copy_numbers_into(end_gradient, there)
            if along <= 0.25 * lead or step >= max_step:
                break
        else:
            right, behind = step, along
        if right < 0.0:  # nowhere downhill yet: along the secant, a little short of the peak
            further = 10.0 * left
            if ahead < lead:
                further = min(further, left * 0.9 * lead / (lead - ahead))
            step = min(max(further, 2.0 * left), max_step)
        else:
            share = (ahead - 0.1 * lead) / (ahead - behind)
            step = left + (right - left) * min(max(share, 0.02), 0.9)
            if step <= left or step >= right or right - left < 1e-15:
                break
    return left, passes


@shared("state, int, floats, floats, float, float, int -> float")
def ascend_in_place_within_joint_limits(
    s: State, objective: int, a: FloatArray, radius: FloatArray, slope_step: float, goal: float, most: int
) -> float:
    """Improve a in place under limits on several arms, by moving weight between vertices; returns the gap.

    The first "vertex" is the mixture at the start itself. Others join when a linear program finds them.
    """
    k = a.size
    if not keeps_limits(s, a):
        fill_linear_maximiser(s, a.copy(), a)
    size = 4 * k + 8
    vertices, weights, used = np.empty((size, k)), np.zeros(size), 1
    copy_numbers_into(vertices[0], a)
    weights[0] = 1.0
    gradient, end_gradient, direction, best = np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    none, one = np.zeros(k), np.ones(k)
    call_gradient(objective, s, a, radius, slope_step, gradient)
    passes, stride = 1, 1.0
    while True:
        fill_linear_maximiser(s, gradient, best)
        gap = max(dot(best, gradient) - dot(a, gradient), 0.0)
        to, away, least = -1, -1, np.inf
        for c in range(used):
            if weights[c] > 0.0:
                value = dot(vertices[c], gradient)
                if value < least:
                    away, least = c, value
            elif to < 0:
                to = c  # a place that is free
        for c in range(used):
            if is_same_mixture(vertices[c], best):
                to = c
        lead = dot(best, gradient) - least
        if to < 0 and used < size:
            to = used
            used += 1
        if gap <= goal or passes >= most or not lead > 0.0 or to < 0 or to == away:
            return gap
        copy_numbers_into(vertices[to], best)
        for m in range(k):
            direction[m] = best[m] - vertices[away, m]
        length, tries = line_search_step_and_passes(
            s, objective, a, none, one, direction, lead, weights[away], stride, radius, slope_step, most - passes,
            end_gradient,
        )  # fmt: skip
        if length == 0.0:
            return gap
        passes += tries
        stride = max(4.0 * length, 1e-6)
        weights[to] += length
        weights[away] = 0.0 if length >= weights[away] else weights[away] - length
        fill_array_with(a, 0.0)
        for c in range(used):
            for m in range(k):
                a[m] += weights[c] * vertices[c, m]
        copy_numbers_into(gradient, end_gradient)


@shared("state, int, floats, floats, floats, ints, floats, float, float, int -> float")
def pairwise_ascent_in_place(
    s: State,
    objective: int,
    a: FloatArray,
    low: FloatArray,
    high: FloatArray,
    segment_of: IntArray,
    radius: FloatArray,
    slope_step: float,
    goal: float,
    most: int,
) -> float:
    """Improve the mixture a in place, within low ≤ a ≤ high, until the gap is at most the goal; returns the gap.

    ``segment_of`` has the segment of each arm, and is empty if there are none. Weight moves from arm to arm of a
    segment, so that its sum stays; after every two moves, along what they added up to, as far as that helps (parallel
    tangents: where the objective is a long ridge, single moves would zigzag). At most about ``most`` passes. Where
    shares are limited, it is within the limits, too, and the gap is to the best mixture that keeps them.
    """
    if s.n_limit_rows > 0:
        return ascend_in_place_within_joint_limits(s, objective, a, radius, slope_step, goal, most)
    if s.n_limited > 0:
        shrink_box_to_limits_in_place(s, low, high)
        if not is_in_box(a, low, high):
            fill_box_centre(low, high, a)
    k = a.size
    gradient, end_gradient, direction, since = np.empty(k), np.empty(k), np.empty(k), a.copy()
    call_gradient(objective, s, a, radius, slope_step, gradient)
    passes, stride, moves = 1, 1.0, 0
    while True:
        gap = frank_wolfe_gap(gradient, a, low, high, segment_of)
        if gap <= goal or passes >= most:
            return gap
        max_step, lead, first = np.inf, 0.0, 1.0
        if moves == 2:
            for m in range(k):
                direction[m] = a[m] - since[m]
                if direction[m] > 0.0:
                    max_step = min(max_step, (high[m] - a[m]) / direction[m])
                elif direction[m] < 0.0:
                    max_step = min(max_step, (low[m] - a[m]) / direction[m])
            lead = dot(gradient, direction)
        pair = not (lead > 0.0 and max_step > 0.0)
        if pair:
            i, j = steepest_pair_of_arms(gradient, a, low, high, segment_of)
            if i < 0:
                return gap
            fill_array_with(direction, 0.0)
            direction[i], direction[j] = 1.0, -1.0
            max_step, lead, first = min(a[j] - low[j], high[i] - a[i]), gradient[i] - gradient[j], stride
        length, tries = line_search_step_and_passes(
            s, objective, a, low, high, direction, lead, max_step, first, radius, slope_step, most - passes,
            end_gradient,
        )  # fmt: skip
        if pair:
            if length == 0.0:  # a corner: nothing to gain along this pair
                return gap
            stride = max(4.0 * length, 1e-6)
        passes += tries
        moves = (moves + 1) % 3
        if length > 0.0:
            for m in range(k):
                a[m] = min(max(a[m] + length * direction[m], low[m]), high[m])
            copy_numbers_into(gradient, end_gradient)
        if moves == 0:
            copy_numbers_into(since, a)


@step("state -> float")
def gap_at_which_to_stop(s: State) -> float:
    """The gap at which a search may stop: a fraction of the sampling error of the estimates."""
    n = s.rewards
    span = s.high - s.low
    if s.storage_mode == SAMPLES:
        sort_pool(s)
        span = s.x[n_pooled_values(s) - 1] - s.x[0]
    elif s.bounded == 0:
        span = s.points[s.n_atoms - 1] - s.points[0]
    goal: float = s.search_tolerance * span * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0)) / math.sqrt(n)
    return goal


@step("state -> float")
def grain(s: State) -> float:
    """The distance over which to take slopes of h: half the weight of one reward, or less with few values."""
    return (0.5 if s.storage_mode == SAMPLES else 0.05) / float(s.rewards)


@shared("state, int, floats, floats, floats, floats -> float")
def maximise_objective_in_place(
    s: State, objective: int, a: FloatArray, low: FloatArray, high: FloatArray, radius: FloatArray
) -> float:
    """Maximise the objective in place; returns the gap. If kinks of h stall it, smooth h first, then retry."""
    slope_step, goal, k = grain(s), gap_at_which_to_stop(s), a.size
    gap = pairwise_ascent_in_place(s, objective, a, low, high, s.segment_of, radius, slope_step, goal, 40 + 2 * k)
    if gap > goal:
        pairwise_ascent_in_place(s, objective, a, low, high, s.segment_of, radius, 0.1, goal, 40 + 2 * k)
        gap = pairwise_ascent_in_place(s, objective, a, low, high, s.segment_of, radius, slope_step, goal, 40 + 2 * k)
    return gap
