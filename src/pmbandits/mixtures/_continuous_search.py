"""Choosing among all mixtures, without a grid; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    PESSIMISTIC,
    inverse_counts,
    share_of_ones,
    update_confidence_sets,
    utility,
    utility_bound,
    wasserstein_radius,
)
from pmbandits.estimates._rewards import BINARY, SAMPLES, pool_size, pool_weight_at, sort_pool
from pmbandits.metrics.encoding import extremum_location, extremum_value, h_max, h_value, n_extrema
from pmbandits.mixtures._concave_solver import grain, maximise, pairwise_ascent, target_gap
from pmbandits.mixtures._constraints import is_same_mixture, make_feasible_start, maximise_linear
from pmbandits.mixtures._index import HOLDER_BONUS, TIE, UTILITY, bonus, dot, optimistic_objective, ready
from pmbandits.state.arrays import copy_into, fill_with, largest_of, take_next_largest
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import unpack


@shared("state, floats -> none")
def arm_utilities(s, out):
    """The utility U_h of every arm alone, for the rewards so far, into ``out``: one pass over the rewards."""
    k, h = s.n_arms, s.h
    inverse, one = inverse_counts(s.n_rewards), h_value(s.h, 1.0)
    if s.storage_mode != SAMPLES:
        for i in range(k):
            left, before = s.n_rewards[i], s.points[0]
            out[i] = before * one
            for c in range(s.n_atoms):
                if s.counts[i, c] > 0:
                    out[i] += (s.points[c] - before) * h_value(h, left * inverse[i])
                    left -= s.counts[i, c]
                    before = s.points[c]
        return
    sort_pool(s)
    left, before = s.n_rewards.copy(), np.empty(k)
    for c in range(pool_size(s)):
        i, here = s.pool_arm[c], s.x[c]
        if left[i] == s.n_rewards[i]:
            out[i] = here * one
        else:
            out[i] += (here - before[i]) * h_value(h, left[i] * inverse[i])
        before[i] = here
        left[i] -= pool_weight_at(s, c)


@shared("state -> none")
def move_to_best_mean_within_limits(s):
    """Move ``s.mix`` to the nearest best mean under limits, towards the feasible mixture of extreme mean."""
    k, a, mean, low, high = s.n_arms, s.mix, 0.0, 1.0, 0.0
    p, minus, end = s.search_scratch[0], s.search_scratch[1], s.search_scratch[2]
    for i in range(k):
        p[i] = share_of_ones(s, i)
        minus[i] = -p[i]
        mean += a[i] * p[i]
        low, high = min(low, p[i]), max(high, p[i])
    goal = nearest_best_mean(s.h, low, high, mean)
    if goal == mean:
        return
    maximise_linear(s, p if goal > mean else minus, end)
    radius = dot(end, p)
    if abs(radius - mean) < abs(goal - mean):  # the best mean of all cannot be reached
        maximise_linear(s, minus, end)
        low = dot(end, p)
        maximise_linear(s, p, end)
        goal = nearest_best_mean(s.h, low, dot(end, p), mean)
        if goal == mean:
            return
        maximise_linear(s, p if goal > mean else minus, end)
        radius = dot(end, p)
    part = min(max((goal - mean) / (radius - mean), 0.0), 1.0)
    for i in range(k):
        a[i] += part * (end[i] - a[i])


@shared("floats, float, float, float -> float")
def nearest_best_mean(h, low, high, mean):
    """Of the means between low and high at which h is largest, the one that is nearest to ``mean``."""
    best = h_max(h, low, high)
    slack = TIE * max(1.0, abs(best))
    if h_value(h, mean) >= best - slack:
        return mean
    goal = low
    if h_value(h, low) < best - slack or (h_value(h, high) >= best - slack and high - mean < mean - goal):
        goal = high
    near = abs(goal - mean) if h_value(h, goal) >= best - slack else np.inf
    for m in range(n_extrema(h)):
        u = extremum_location(h, m)
        if low < u < high and extremum_value(h, m) >= best - slack and abs(u - mean) < near:
            goal, near = u, abs(u - mean)
    return goal


@shared("state -> none")
def move_to_best_mean(s):
    """Bernoulli arms: U_h = h(mean), so move ``s.mix`` to the nearest best mean. Closed form."""
    if s.n_limited > 0:
        move_to_best_mean_within_limits(s)
        return
    k, a = s.n_arms, s.mix
    low, high, mean = 0, 0, 0.0
    p = np.empty(k)
    for i in range(k):
        p[i] = share_of_ones(s, i)
        mean += a[i] * p[i]
        low = i if p[i] < p[low] else low
        high = i if p[i] > p[high] else high
    goal = nearest_best_mean(s.h, p[low], p[high], mean)
    if goal == mean:
        return
    end = high if goal > mean else low
    part = min(max((goal - mean) / (p[end] - mean), 0.0), 1.0)
    total = 0.0
    for i in range(k):
        a[i] *= 1.0 - part
        if i == end:
            a[i] += part
        total += a[i]
    for i in range(k):
        a[i] /= total


@shared("state -> none")
def best_arm(s):
    """Convex h: make ``s.mix`` the best single arm; the one being played if it is among the best."""
    if s.n_limited > 0:
        best_vertex(s, s.mix, 0.0, UTILITY, s.mix)
        return
    k = s.n_arms
    value = np.empty(k)
    arm_utilities(s, value)
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    for i in range(k):
        if s.mix[i] == 1.0 and value[i] >= top - slack:
            return
    chosen = 0
    while value[chosen] < top - slack:
        chosen += 1
    fill_with(s.mix, 0.0)
    s.mix[chosen] = 1.0


@shared("state -> none")
def maximise_concave_utility(s):
    """Concave h: make ``s.mix`` the best of all mixtures, with a certified gap."""
    k = s.n_arms
    maximise(s, s.mix, np.zeros(k), np.ones(k), UTILITY, np.zeros(k))


@shared("state -> none")
def multistart_ascent(s):
    """h neither concave nor convex: ascend from ``s.mix`` and, after 10 % more rewards, from other starts too.

    Elsewhere: the even mixture, the eight best arms and, up to five arms, the middle of every pair; with h smoothed
    less and less. No certificate: the answer is the best that was found.
    """
    k, n = s.n_arms, s.rewards
    none, one, radius = np.zeros(k), np.ones(k), np.zeros(k)
    fine, goal, most = grain(s), target_gap(s), 12 + 2 * k
    a = s.mix.copy()
    pairwise_ascent(s, a, none, one, UTILITY, radius, fine, goal, most)
    best = utility(s, s.mix)
    if n >= s.next_multistart_at:
        s.next_multistart_at = n + max(1, n // 10)
        value = np.empty(k)
        arm_utilities(s, value)
        taken = np.zeros(k)
        pairs = k * (k - 1) // 2 if k <= 5 else 0
        for start in range(-1, 1 + min(k, 8) + pairs):
            b = np.zeros(k)
            if start < 0:
                copy_into(b, a)
            elif start == 0:
                fill_with(b, 1.0 / k)
            elif start <= min(k, 8):
                b[take_next_largest(value, taken)] = 1.0
            else:
                at = start - 1 - min(k, 8)
                for i in range(k):
                    if at < k - 1 - i:
                        b[i], b[i + 1 + at] = 0.5, 0.5
                        break
                    at -= k - 1 - i
            if start > 0:
                make_feasible_start(s, b)
            for slope_step in (0.1, 0.02, fine):
                pairwise_ascent(s, b, none, one, UTILITY, radius, max(slope_step, fine), goal, most)
                found = utility(s, b)
                if found > best + goal:
                    best = found
                    copy_into(s.mix, b)
    else:
        found = utility(s, a)
        if found > best + goal:
            copy_into(s.mix, a)


@shared("state -> none")
def best_mixture(s):
    """Make ``s.mix`` the best of all mixtures for the rewards so far. If it is among the best already, it stays.

    Nothing happens before every arm has paid. On other than 0/1 rewards, :func:`due` then waits for 1 % more rewards.
    """
    if not ready(s):
        return
    n = s.rewards
    if s.storage_mode == BINARY:
        move_to_best_mean(s)
    elif s.metric_shape == CONVEX:
        best_arm(s)
    elif s.metric_shape == CONCAVE:
        maximise_concave_utility(s)
    else:
        multistart_ascent(s)
    s.next_update_at = n + (1 if s.storage_mode == BINARY else 1 + int(s.search_tolerance * n))
    s.dirty = 0


@kernel
def update_best_mixture(memory):
    """Make the policy's mixture the best one for the rewards so far; called from Python."""
    best_mixture(unpack(memory))


@shared("state, floats, int, floats -> float")
def objective_value(s, a, kind, radius):
    """The objective ``kind`` at the mixture a: empirical utility, with a bonus, or optimistic bound."""
    if kind != UTILITY and kind != HOLDER_BONUS:
        return utility_bound(s, a, OPTIMISTIC)
    return utility(s, a) + bonus(s, a, radius, kind)


@shared("state, floats, int, floats -> none")
def best_vertex_within_limits(s, a, kind, radius):
    """Convex h under limits: make a the vertex of the feasible set with the largest objective; tied, stay."""
    if s.n_corners == 0:
        value = np.empty(s.n_arms)
        arm_utilities(s, value)
        maximise_linear(s, value, a)
        return
    value, stay = np.empty(s.n_corners), -1
    for c in range(s.n_corners):
        value[c] = objective_value(s, s.corners[c], kind, radius)
        stay = c if is_same_mixture(s.corners[c], a) else stay
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = stay
    if stay < 0 or value[stay] < top - slack:
        chosen = 0
        while value[chosen] < top - slack:
            chosen += 1
    copy_into(a, s.corners[chosen])


@shared("state, floats, float, int, floats -> none")
def best_vertex(s, a, floor, kind, radius):
    """Convex h: make a the best mixture that gives one arm all but the floors; tied, stay; else the first.

    Within limits: the best of their corners. If these are too many, arms are filled up in the order
    of their single utilities.
    """
    if s.n_limited > 0:
        best_vertex_within_limits(s, a, kind, radius)
        return
    k = s.n_arms
    value, corner = np.empty(k), np.empty(k)
    for i in range(k):
        fill_with(corner, floor)
        corner[i] = 1.0 - (k - 1) * floor
        value[i] = objective_value(s, corner, kind, radius)
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = -1
    for i in range(k):
        if value[i] >= top - slack and (chosen < 0 or a[i] == 1.0 - (k - 1) * floor):
            chosen = i
    fill_with(a, floor)
    a[chosen] = 1.0 - (k - 1) * floor


@shared("state, bool -> none")
def update_optimistic_mixture(s, with_bonus):
    """Make ``s.mix`` the mixture, with the floor, that has the largest optimistic value; tied, stay.

    With a bonus, the value is the empirical utility plus the bonus.
    """
    if not ready(s):
        return
    update_confidence_sets(s)
    n, k, floor = s.rewards, s.n_arms, s.min_share
    if s.current_point < 0 and s.n_limited == 0:
        fill_with(s.mix, 1.0 / k)
    radius = s.radius.copy()
    kind = optimistic_objective(s)
    if with_bonus:
        kind = HOLDER_BONUS
        for i in range(k):
            radius[i] = wasserstein_radius(s, i)
    if s.metric_shape == CONVEX:
        best_vertex(s, s.mix, floor, kind, radius)
    else:
        low, high = np.full(k, floor), np.full(k, 1.0 - (k - 1) * floor if s.n_limited == 0 else 1.0)
        maximise(s, s.mix, low, high, kind, radius)
    s.current_point = 0
    s.next_update_at = n + 1 + int(s.search_tolerance * n)
    s.dirty = 0


@shared("state, floats, floats, floats -> none")
def best_mixture_in_box(s, a, low, high):
    """Make a the mixture with the largest empirical utility between low and high."""
    if s.metric_shape == CONVEX:
        best_vertex(s, a, 0.0, UTILITY, a)
    else:
        maximise(s, a, low, high, UTILITY, a)


@step("floats, floats, floats, int, float, bool, floats -> bool")
def shift_weight_to_limit(a, low, high, arm, limit, above, out):
    """A mixture near a that gives an arm at least (or at most) ``limit``; False if the box has none."""
    k = a.size
    copy_into(out, a)
    out[arm] = max(a[arm], limit) if above else min(a[arm], limit)
    rest = a[arm] - out[arm]  # to be spread over the others
    available_weight = 0.0
    for i in range(k):
        if i != arm:
            available_weight += high[i] - a[i] if rest > 0.0 else a[i] - low[i]
    if abs(rest) > available_weight * (1.0 + 1e-12):
        return False
    for i in range(k):
        if i != arm and rest != 0.0:
            out[i] += rest / available_weight * (high[i] - a[i] if rest > 0.0 else a[i] - low[i])
    return True


@shared("state, floats, floats, float, float, int -> int")
def find_better_mixture_outside(s, low, high, reach, tolerance, first):
    """Which way out of the box around the current mixture may lead to a better one: 2·arm (+1 if below), or −1.

    Out is an arm's weight above or below by ``reach``: 2K concave programs, the one that succeeded last time first.
    A way is closed when its certificate shows that nothing there exceeds the lower bound of the current mixture
    by more than the tolerance.
    """
    k, mix = s.n_arms, s.mix
    least = utility_bound(s, mix, PESSIMISTIC) + tolerance
    kind = optimistic_objective(s)
    radius, b = s.radius.copy(), np.empty(k)
    slope_step, goal = grain(s), target_gap(s)
    if s.metric_shape == CONVEX and s.n_limited > 0:
        for c in range(s.n_corners):
            if not is_same_mixture(s.corners[c], mix) and utility_bound(s, s.corners[c], OPTIMISTIC) > least:
                return 0
        return -1
    for j in range(2 * k):
        way = (first + j) % (2 * k)
        arm, above = way // 2, way % 2 == 0
        if s.metric_shape == CONVEX:
            if above and mix[arm] < 1.0:
                fill_with(b, 0.0)
                b[arm] = 1.0
                if utility_bound(s, b, OPTIMISTIC) > least:
                    return way
            continue
        limit = mix[arm] + reach if above else mix[arm] - reach
        if limit > high[arm] or limit < low[arm]:
            continue
        floor, top = low.copy(), high.copy()
        if above:
            floor[arm] = limit
        else:
            top[arm] = limit
        if not shift_weight_to_limit(mix, floor, top, arm, limit, above, b):
            continue
        for _ in range(12 + k):  # a few passes at a time: most ways are decided early
            gap = pairwise_ascent(s, b, floor, top, kind, radius, slope_step, goal, 8)
            value = utility_bound(s, b, OPTIMISTIC)
            if value > least:
                return way
            if value + gap <= least or gap <= goal:
                break
    return -1
