"""Choosing among all mixtures, without a grid; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    PESSIMISTIC,
    bound,
    inverses,
    refresh,
    share_of_ones,
    utility,
    wasserstein_radius,
)
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY, SAMPLES, pool_size, stands_for, tidy
from pmbandits.metrics.packed import extremum_place, extremum_value, h_max, h_value, n_extrema
from pmbandits.mixtures._climb import accuracy, climb, grain, maximise
from pmbandits.mixtures._index import BONUS, TIE, UTILITY, bonus, dot, optimism, ready
from pmbandits.mixtures._within import furthest, same, to_start
from pmbandits.state.arrays import copy_into, fill_with, largest_of, next_largest
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared, step
from pmbandits.state.views import unpack


@shared("state, floats -> none")
def arm_utilities(s, out):
    """The utility U_h of every arm alone, for the rewards so far, into ``out``: one pass over the rewards."""
    k, h = s.n_arms, s.h
    inverse, one = inverses(s.told), h_value(s.h, 1.0)
    if s.mode != SAMPLES:
        for i in range(k):
            left, before = s.told[i], s.points[0]
            out[i] = before * one
            for c in range(s.n_atoms):
                if s.counts[i, c] > 0:
                    out[i] += (s.points[c] - before) * h_value(h, left * inverse[i])
                    left -= s.counts[i, c]
                    before = s.points[c]
        return
    tidy(s)
    left, before = s.told.copy(), np.empty(k)
    for c in range(pool_size(s)):
        i, here = s.owner[c], s.x[c]
        if left[i] == s.told[i]:
            out[i] = here * one
        else:
            out[i] += (here - before[i]) * h_value(h, left[i] * inverse[i])
        before[i] = here
        left[i] -= stands_for(s, c)


@shared("state -> none")
def move_mean_within(s):
    """The same within limits: towards the mixture with the least or the largest mean that keeps them."""
    k, a, mean, low, high = s.n_arms, s.mix, 0.0, 1.0, 0.0
    p, minus, end = s.desk[0], s.desk[1], s.desk[2]
    for i in range(k):
        p[i] = share_of_ones(s, i)
        minus[i] = -p[i]
        mean += a[i] * p[i]
        low, high = min(low, p[i]), max(high, p[i])
    goal = nearest_best_mean(s.h, low, high, mean)
    if goal == mean:
        return
    furthest(s, p if goal > mean else minus, end)
    far = dot(end, p)
    if abs(far - mean) < abs(goal - mean):  # the best mean of all cannot be reached
        furthest(s, minus, end)
        low = dot(end, p)
        furthest(s, p, end)
        goal = nearest_best_mean(s.h, low, dot(end, p), mean)
        if goal == mean:
            return
        furthest(s, p if goal > mean else minus, end)
        far = dot(end, p)
    part = min(max((goal - mean) / (far - mean), 0.0), 1.0)
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
        u = extremum_place(h, m)
        if low < u < high and extremum_value(h, m) >= best - slack and abs(u - mean) < near:
            goal, near = u, abs(u - mean)
    return goal


@shared("state -> none")
def move_mean(s):
    """Bernoulli arms: U_h = h(mean), so go to the nearest best mean, towards the arm beyond it. Closed form."""
    if s.n_limited > 0:
        move_mean_within(s)
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
    """Convex h: some arm alone is best; the one being played if it is among them."""
    if s.n_limited > 0:
        best_corner(s, s.mix, 0.0, UTILITY, s.mix)
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
def best_concave(s):
    """Concave h: the certified search over all mixtures."""
    k = s.n_arms
    maximise(s, s.mix, np.zeros(k), np.ones(k), UTILITY, np.zeros(k))


@shared("state -> none")
def best_of_many(s):
    """Neither concave nor convex: climb from where we are and, when a tenth more is known, from elsewhere too.

    Elsewhere: the even mixture, the eight best arms and, up to five arms, the middle of every pair; with h smoothed
    less and less. No certificate: the answer is the best that was found.
    """
    k, n = s.n_arms, s.rewards
    none, one, far = np.zeros(k), np.ones(k), np.zeros(k)
    fine, goal, most = grain(s), accuracy(s), 12 + 2 * k
    a = s.mix.copy()
    climb(s, a, none, one, UTILITY, far, fine, goal, most)
    best = utility(s, s.mix)
    if n >= s.wide_at:
        s.wide_at = n + max(1, n // 10)
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
                b[next_largest(value, taken)] = 1.0
            else:
                at = start - 1 - min(k, 8)
                for i in range(k):
                    if at < k - 1 - i:
                        b[i], b[i + 1 + at] = 0.5, 0.5
                        break
                    at -= k - 1 - i
            if start > 0:
                to_start(s, b)
            for e in (0.1, 0.02, fine):
                climb(s, b, none, one, UTILITY, far, max(e, fine), goal, most)
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
    if s.mode == BINARY:
        move_mean(s)
    elif s.metric_shape == CONVEX:
        best_arm(s)
    elif s.metric_shape == CONCAVE:
        best_concave(s)
    else:
        best_of_many(s)
    s.look_at = n + (1 if s.mode == BINARY else 1 + int(s.fineness * n))
    s.dirty = 0


@kernel
def best_now(memory):
    """The same for Python."""
    best_mixture(unpack(memory))


@shared("state, floats, int, floats -> float")
def index_of(s, a, kind, far):
    """The value of what is maximised."""
    if kind != UTILITY and kind != BONUS:
        return bound(s, a, OPTIMISTIC)
    return utility(s, a) + bonus(s, a, far, kind)


@shared("state, floats, int, floats -> none")
def best_corner_within(s, a, kind, far):
    """The same within limits."""
    if s.n_corners == 0:
        value = np.empty(s.n_arms)
        arm_utilities(s, value)
        furthest(s, value, a)
        return
    value, stay = np.empty(s.n_corners), -1
    for c in range(s.n_corners):
        value[c] = index_of(s, s.corners[c], kind, far)
        stay = c if same(s.corners[c], a) else stay
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = stay
    if stay < 0 or value[stay] < top - slack:
        chosen = 0
        while value[chosen] < top - slack:
            chosen += 1
    copy_into(a, s.corners[chosen])


@shared("state, floats, float, int, floats -> none")
def best_corner(s, a, floor, kind, far):
    """Convex: the best of the mixtures that give all to one arm but the floor to each; tied, stay; else the first.

    Within limits: the best of their corners. Where these are too many, the arms are filled up in the order of what each
    is worth alone.
    """
    if s.n_limited > 0:
        best_corner_within(s, a, kind, far)
        return
    k = s.n_arms
    value, corner = np.empty(k), np.empty(k)
    for i in range(k):
        fill_with(corner, floor)
        corner[i] = 1.0 - (k - 1) * floor
        value[i] = index_of(s, corner, kind, far)
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = -1
    for i in range(k):
        if value[i] >= top - slack and (chosen < 0 or a[i] == 1.0 - (k - 1) * floor):
            chosen = i
    fill_with(a, floor)
    a[chosen] = 1.0 - (k - 1) * floor


@shared("state, bool -> none")
def continuous_mixture(s, with_bonus):
    """The mixture, with the floor, whose optimistic value is the largest; tied, stay.

    With a bonus, the value is the empirical utility plus the bonus.
    """
    if not ready(s):
        return
    refresh(s)
    n, k, floor = s.rewards, s.n_arms, s.floor
    if s.current < 0 and s.n_limited == 0:
        fill_with(s.mix, 1.0 / k)
    far = s.radius.copy()
    kind = optimism(s)
    if with_bonus:
        kind = BONUS
        for i in range(k):
            far[i] = wasserstein_radius(s, i)
    if s.metric_shape == CONVEX:
        best_corner(s, s.mix, floor, kind, far)
    else:
        low, high = np.full(k, floor), np.full(k, 1.0 - (k - 1) * floor if s.n_limited == 0 else 1.0)
        maximise(s, s.mix, low, high, kind, far)
    s.current = 0
    s.look_at = n + 1 + int(s.fineness * n)
    s.dirty = 0


@shared("state, floats, floats, floats -> none")
def best_within(s, a, low, high):
    """The best empirical mixture of a box."""
    if s.metric_shape == CONVEX:
        best_corner(s, a, 0.0, UTILITY, a)
    else:
        maximise(s, a, low, high, UTILITY, a)


@step("floats, floats, floats, int, float, bool, floats -> bool")
def enter(a, low, high, arm, limit, above, out):
    """A mixture near a that gives an arm at least (or at most) ``limit``; False if the box has none."""
    k = a.size
    copy_into(out, a)
    out[arm] = max(a[arm], limit) if above else min(a[arm], limit)
    rest = a[arm] - out[arm]  # to be spread over the others
    room = 0.0
    for i in range(k):
        if i != arm:
            room += high[i] - a[i] if rest > 0.0 else a[i] - low[i]
    if abs(rest) > room * (1.0 + 1e-12):
        return False
    for i in range(k):
        if i != arm and rest != 0.0:
            out[i] += rest / room * (high[i] - a[i] if rest > 0.0 else a[i] - low[i])
    return True


@shared("state, floats, floats, float, float, int -> int")
def rival_outside(s, low, high, reach, tolerance, first):
    """Which way out of the box around the current mixture may still lead to a better one, or −1.

    Out is an arm's weight above or below by ``reach``: 2K concave programs, the one that succeeded last time first.
    A way is closed when its certificate shows that nothing there is better than the worst that the current mixture can
    be worth by more than the tolerance.
    """
    k, mix = s.n_arms, s.mix
    least = bound(s, mix, PESSIMISTIC) + tolerance
    kind = optimism(s)
    far, b = s.radius.copy(), np.empty(k)
    e, goal = grain(s), accuracy(s)
    if s.metric_shape == CONVEX and s.n_limited > 0:
        for c in range(s.n_corners):
            if not same(s.corners[c], mix) and bound(s, s.corners[c], OPTIMISTIC) > least:
                return 0
        return -1
    for j in range(2 * k):
        way = (first + j) % (2 * k)
        arm, above = way // 2, way % 2 == 0
        if s.metric_shape == CONVEX:
            if above and mix[arm] < 1.0:
                fill_with(b, 0.0)
                b[arm] = 1.0
                if bound(s, b, OPTIMISTIC) > least:
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
        if not enter(mix, floor, top, arm, limit, above, b):
            continue
        for _ in range(12 + k):  # a few passes at a time: most ways are decided early
            gap = climb(s, b, floor, top, kind, far, e, goal, 8)
            value = bound(s, b, OPTIMISTIC)
            if value > least:
                return way
            if value + gap <= least or gap <= goal:
                break
    return -1
