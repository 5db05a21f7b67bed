"""The best mixture over the whole simplex, without a grid: warm-started, certified; compiled.

For concave h the empirical utility, the largest utility inside the bands, and either with a bonus added are concave
in the weights. So with the slopes G_i at a mixture a, no mixture b is better than a by more than ⟨G, b − a⟩, and the
largest of that is the ``gap``. Weight moves from the arm with the least slope to the one with the greatest, as far as
that helps, until the gap is small. All slopes together cost one pass over the rewards, however many arms there are.

h enters by its slope between u ± slope_step. With a step below half a reward's weight nothing is lost, and h needs no
derivative: corners and vertical ends are rounded by less than the rewards can show.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._bounds import inverse_counts, share_of_ones
from pmbandits.confidence._envelopes import has_tail_assumption, survival_interval, update_kl_bands
from pmbandits.confidence._heavy_tails import tail_utility_bound
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES, pool_size, pool_weight_at, sort_pool
from pmbandits.metrics.encoding import h_max, h_min, h_slope
from pmbandits.mixtures._constraints import (
    average_of_vertices,
    best_vertex_in_direction,
    box_centre,
    intersect_box_with_limits,
    is_in_box,
    maximise_linear_in_box,
    vertex_weights,
)
from pmbandits.mixtures._index import HOLDER_BONUS, LIPSCHITZ_BONUS, OPTIMISTIC_BOUND, dot
from pmbandits.state.arrays import copy_into, fill_with
from pmbandits.state.linking import shared, step


@shared("state, floats, float, floats -> none")
def empirical_slopes(s, a, slope_step, out):
    """How fast U_h rises towards each arm: ∂U_h/∂a_i for the empirical distributions, into ``out``.

    ``a`` are the shares of the mixture. The slope of h is taken between u ± slope_step; see :func:`grain`.

    It is the sum over cells of width·h'(S)·S_i, where S_i is the share of arm i's rewards that lie above the cell.
    Summed the other way round, it is the mean over arm i's rewards x of Φ(x), the sum of width·h'(S) over the cells
    below x.
    """
    influence_moments(s, a, slope_step, out, np.empty(0))


@shared("state, floats, float, floats, floats -> two floats")
def influence_moments(s, a, slope_step, mean, square):
    """The mean of Φ and of Φ² over each arm's rewards, and the least and the largest Φ over the whole support.

    Φ is that of :func:`empirical_slopes`, and its mean is the slope. On an unbounded support the least and the largest
    Φ are taken between the smallest and the largest reward. If ``square`` is empty, only the means are right.
    """
    k, h = s.n_arms, s.h
    squares = square.size > 0
    fill_with(mean, 0.0)
    fill_with(square, 0.0)
    if s.storage_mode == BINARY:
        u = 0.0
        for i in range(k):
            u += a[i] * share_of_ones(s, i)
        steep = h_slope(h, u, slope_step)
        for i in range(k):
            mean[i] = steep * share_of_ones(s, i)
            if squares:
                square[i] = steep * mean[i]
        return min(steep, 0.0), max(steep, 0.0)
    inverse = inverse_counts(s.n_rewards)
    u, phi, least, most = 1.0, 0.0, 0.0, 0.0
    if s.storage_mode == FINITE:
        m, points, counts = s.n_atoms, s.points, s.counts
        drop = np.zeros(m)
        for i in range(k):
            each = a[i] * inverse[i]
            if each > 0.0:
                for c in range(m):
                    drop[c] += each * counts[i, c]
        for c in range(m):
            if c > 0:
                phi += (points[c] - points[c - 1]) * h_slope(h, u, slope_step)
                least, most = min(least, phi), max(most, phi)
            u -= drop[c]
            drop[c] = phi
        for i in range(k):
            total, power = 0.0, 0.0
            for c in range(m):
                total += counts[i, c] * drop[c]
            mean[i] = total * inverse[i]
            if squares:
                for c in range(m):
                    power += counts[i, c] * (drop[c] * drop[c])
                square[i] = power * inverse[i]
        return least, most
    sort_pool(s)
    x, owner, count = s.x, s.pool_arm, pool_size(s)
    before = x[0]
    for c in range(count):
        here, i = x[c], owner[c]
        if here > before:
            phi += (here - before) * h_slope(h, u, slope_step)
            before = here
        each = inverse[i] * pool_weight_at(s, c)
        mean[i] += phi * each
        if squares:
            square[i] += phi * (phi * each)
            least, most = min(least, phi), max(most, phi)
        u -= a[i] * each
    if squares and s.bounded == 1:  # below all rewards the survival is 1, above all of them 0
        below = (s.low - x[0]) * h_slope(h, 1.0, slope_step)
        above = phi + (s.high - before) * h_slope(h, 0.0, slope_step)
        least, most = min(least, below, above), max(most, below, above)
    return least, most


@shared("state, floats, float, floats -> none")
def optimistic_gradient(s, a, slope_step, out):
    """The gradient of the largest U_h inside the confidence bands, into ``out``; concave h.

    In each cell the mixture's survival may lie between low and high, and is best at high where h rises there, at low
    where h falls there, else at the peak between, where more weight changes nothing.
    """
    k, h = s.n_arms, s.h
    fill_with(out, 0.0)
    if s.storage_mode == BINARY:
        low, high = dot(a, s.lower), dot(a, s.upper)
        up, down = h_slope(h, high, slope_step), h_slope(h, low, slope_step)
        for i in range(k):
            out[i] = up * s.upper[i] if up > 0.0 else down * s.lower[i] if down < 0.0 else 0.0
        return
    sort_pool(s)
    finite = s.storage_mode == FINITE
    cells = s.n_atoms if finite else pool_size(s)
    set_kind, n_rewards, radius, share_errors, band = s.set_kind, s.n_rewards, s.radius, update_kl_bands(s), s.kl_band
    left = n_rewards.copy()
    floor, top = np.empty(k), np.empty(k)  # each arm's own lowest and highest survival here
    since_up, since_down = np.zeros(k), np.zeros(k)  # Φ when they last changed
    for i in range(k):
        floor[i], top[i] = survival_interval(set_kind, left[i], n_rewards[i], radius[i], share_errors[i], band, i)
    low, high, up, down = dot(a, floor), dot(a, top), 0.0, 0.0
    before = s.low
    for c in range(cells + 1):
        here = s.high
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        if here > before:
            rising = h_slope(h, high, slope_step)
            if rising > 0.0:
                up += (here - before) * rising
            else:
                down += (here - before) * min(h_slope(h, low, slope_step), 0.0)
            before = here
        if c == cells:
            break
        first, last = (0, k) if finite else (s.pool_arm[c], s.pool_arm[c] + 1)
        for i in range(first, last):
            gone = s.counts[i, c] if finite else pool_weight_at(s, c)
            if gone > 0:
                out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]
                since_up[i], since_down[i] = up, down
                left[i] -= gone
                lower, upper = survival_interval(set_kind, left[i], n_rewards[i], radius[i], share_errors[i], band, i)
                low += a[i] * (lower - floor[i])
                high += a[i] * (upper - top[i])
                floor[i], top[i] = lower, upper
    for i in range(k):
        out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]


@shared("state, floats, int, floats, float, floats -> none")
def objective_gradient(s, a, kind, radius, slope_step, out):
    """The gradient of the objective ``kind``, into ``out``; ``radius`` has the arms' radii in W1."""
    if kind == OPTIMISTIC_BOUND and has_tail_assumption(s):
        tail_utility_bound(s, a, 1.0, s.tail_multipliers[0], slope_step, out)
        return
    if kind == OPTIMISTIC_BOUND:
        optimistic_gradient(s, a, slope_step, out)
        return
    empirical_slopes(s, a, slope_step, out)
    q = s.holder_q
    if kind == LIPSCHITZ_BONUS:
        for i in range(a.size):
            out[i] += s.lipschitz * radius[i]
    elif kind == HOLDER_BONUS:
        for i in range(a.size):
            if q == 1.0:
                out[i] += s.holder_c * radius[i]
            elif radius[i] > 0.0:
                lo, hi = max(a[i] - slope_step, 0.0) * radius[i], (a[i] + slope_step) * radius[i]
                out[i] += s.holder_c * (hi**q - lo**q) / (hi - lo) * radius[i]


@step("floats, floats, floats, floats -> float")
def frank_wolfe_gap(gradient, a, low, high):
    """The Frank–Wolfe gap: the largest ⟨g, b − a⟩ over the mixtures b between low and high."""
    b, total = np.empty(a.size), 0.0
    maximise_linear_in_box(gradient, low, high, b)
    for i in range(a.size):
        total += gradient[i] * (b[i] - a[i])
    return max(total, 0.0)


@step("state, floats, floats, floats, floats, float, float, float, int, floats, float, int, floats -> float and int")
def line_search(s, a, low, high, direction, lead, max_step, first, kind, radius, slope_step, most, end_gradient):
    """Line search from a in a direction with initial slope ``lead``: the step length, and the passes it took.

    It ends where the utility still rises a little, so it never falls. ``end_gradient`` gets the gradient there.
    """
    k = a.size
    trial, there = np.empty(k), np.empty(k)
    step, left, ahead, right, behind = min(first, max_step), 0.0, lead, -1.0, 0.0
    passes = 0
    while passes < min(most, 24):
        for m in range(k):
            trial[m] = min(max(a[m] + step * direction[m], low[m]), high[m])
        objective_gradient(s, trial, kind, radius, slope_step, there)
        passes += 1
        along = dot(there, direction)
        if along >= 0.0:
            left, ahead = step, along
            copy_into(end_gradient, there)
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


@shared("state, floats, int, floats, float, float, int -> float")
def pairwise_ascent_over_vertices(s, a, kind, radius, slope_step, goal, most):
    """Pairwise ascent under limits on several arms: weight moves between vertices of the feasible set."""
    k, shares = a.size, vertex_weights(s, a)
    gradient, end_gradient, direction, none, one = np.empty(k), np.empty(k), np.empty(k), np.zeros(k), np.ones(k)
    objective_gradient(s, a, kind, radius, slope_step, gradient)
    passes, stride, gap = 1, 1.0, np.inf
    while True:
        to, away, least = best_vertex_in_direction(s, gradient), -1, np.inf
        for c in range(s.n_corners):
            if shares[c] > 0.0:
                value = dot(s.corners[c], gradient)
                if value < least:
                    away, least = c, value
        gap = max(dot(s.corners[to], gradient) - dot(a, gradient), 0.0)
        lead = dot(s.corners[to], gradient) - least
        if gap <= goal or passes >= most or not lead > 0.0:
            break
        for m in range(k):
            direction[m] = s.corners[to, m] - s.corners[away, m]
        left, used = line_search(
            s,
            a,
            none,
            one,
            direction,
            lead,
            shares[away],
            stride,
            kind,
            radius,
            slope_step,
            most - passes,
            end_gradient,
        )
        if left == 0.0:
            break
        passes += used
        stride = max(4.0 * left, 1e-6)
        shares[to] += left
        shares[away] = 0.0 if left >= shares[away] else shares[away] - left
        average_of_vertices(s, shares, a)
        copy_into(gradient, end_gradient)
    copy_into(s.corner_weights, shares)
    return gap


@shared("state, floats, floats, floats, int, floats, float, float, int -> float")
def pairwise_ascent(s, a, low, high, kind, radius, slope_step, goal, most):
    """Improve the mixture a in place, within low ≤ a ≤ high, until the gap is at most the goal; returns the gap.

    Weight moves from arm to arm; after every two moves, along what they added up to, as far as that helps (parallel
    tangents: where the utility is a long ridge, single moves would zigzag). At most about ``most`` passes. Where shares
    are limited, it is within the limits, too, and the gap is to the best mixture that keeps them.
    """
    if s.n_limit_rows > 0:
        return pairwise_ascent_over_vertices(s, a, kind, radius, slope_step, goal, most)
    if s.n_limited > 0:
        intersect_box_with_limits(s, low, high)
        if not is_in_box(a, low, high):
            box_centre(low, high, a)
    k = a.size
    gradient, end_gradient, direction, since = np.empty(k), np.empty(k), np.empty(k), a.copy()
    objective_gradient(s, a, kind, radius, slope_step, gradient)
    passes, stride, moves = 1, 1.0, 0
    while True:
        gap = frank_wolfe_gap(gradient, a, low, high)
        if gap <= goal or passes >= most:
            return gap
        max_step, lead = np.inf, 0.0
        if moves == 2:
            for m in range(k):
                direction[m] = a[m] - since[m]
                if direction[m] > 0.0:
                    max_step = min(max_step, (high[m] - a[m]) / direction[m])
                elif direction[m] < 0.0:
                    max_step = min(max_step, (low[m] - a[m]) / direction[m])
            lead = dot(gradient, direction)
        if lead > 0.0 and max_step > 0.0:
            left, used = line_search(
                s, a, low, high, direction, lead, max_step, 1.0, kind, radius, slope_step, most - passes, end_gradient
            )
        else:
            i, j = -1, -1
            for m in range(k):
                if a[m] < high[m] and (i < 0 or gradient[m] > gradient[i]):
                    i = m
                if a[m] > low[m] and (j < 0 or gradient[m] < gradient[j]):
                    j = m
            if i < 0 or j < 0 or not gradient[i] > gradient[j]:
                return gap
            fill_with(direction, 0.0)
            direction[i], direction[j] = 1.0, -1.0
            max_step = min(a[j] - low[j], high[i] - a[i])
            left, used = line_search(
                s,
                a,
                low,
                high,
                direction,
                gradient[i] - gradient[j],
                max_step,
                stride,
                kind,
                radius,
                slope_step,
                most - passes,
                end_gradient,
            )
            if left == 0.0:  # a corner: nothing to gain along this pair
                return gap
            stride = max(4.0 * left, 1e-6)
        passes += used
        moves += 1
        moves %= 3
        if left > 0.0:
            for m in range(k):
                a[m] = min(max(a[m] + left * direction[m], low[m]), high[m])
            copy_into(gradient, end_gradient)
        if moves == 0:
            copy_into(since, a)


@step("state -> float")
def target_gap(s):
    """The gap at which a search may stop: a fraction of the sampling error of the estimates."""
    n = s.rewards
    span = s.high - s.low
    if s.storage_mode == SAMPLES:
        sort_pool(s)
        span = s.x[pool_size(s) - 1] - s.x[0]
    elif s.bounded == 0:
        span = s.points[s.n_atoms - 1] - s.points[0]
    return s.search_tolerance * span * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0)) / math.sqrt(n)


@step("state -> float")
def grain(s):
    """The distance over which to take slopes of h: half the weight of one reward, or less with few values."""
    return (0.5 if s.storage_mode == SAMPLES else 0.05) / s.rewards


@shared("state, floats, floats, floats, int, floats -> float")
def maximise(s, a, low, high, kind, radius):
    """Maximise the objective in place; returns the gap. If kinks of h stall it, smooth h first, then retry."""
    slope_step, goal, most = grain(s), target_gap(s), 40 + 2 * a.size
    gap = pairwise_ascent(s, a, low, high, kind, radius, slope_step, goal, most)
    if gap > goal:
        pairwise_ascent(s, a, low, high, kind, radius, 0.1, goal, most)
        gap = pairwise_ascent(s, a, low, high, kind, radius, slope_step, goal, most)
    return gap
