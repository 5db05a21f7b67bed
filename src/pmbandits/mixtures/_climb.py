"""The best mixture over the whole simplex, without a grid: warm-started, certified; compiled.

For concave h the empirical utility, the largest utility inside the bands, and either with a bonus added are concave
in the weights. So with the slopes G_i at a mixture a, no mixture b is better than a by more than ⟨G, b − a⟩, and the
largest of that is the ``gap``. Weight moves from the arm with the least slope to the one with the greatest, as far as
that helps, until the gap is small. All slopes together cost one pass over the rewards, however many arms there are.

h enters by its slope between u − e and u + e. With e below half a reward's weight nothing is lost, and h needs no
derivative: corners and vertical ends are rounded by less than the rewards can show.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._bounds import inverses, share_of_ones
from pmbandits.confidence._ends import cell_ends, lay_belts, tailed
from pmbandits.confidence._tails import tail_pass
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES, pool_size, stands_for, tidy
from pmbandits.metrics.packed import h_max, h_min, h_slope
from pmbandits.mixtures._index import BONUS, BOUND, POOLED, dot
from pmbandits.mixtures._within import (
    average,
    best_corner_for,
    fill_up,
    in_box,
    middle_of_box,
    narrow_box,
    shares_of_corners,
)
from pmbandits.state.arrays import copy_into, fill_with
from pmbandits.state.shared import shared, step


@shared("state, floats, float, floats -> none")
def empirical_slopes(s, a, e, out):
    """How fast U_h rises towards each arm: ∂U_h/∂a_i for the empirical distributions, into ``out``.

    ``a`` are the shares of the mixture. The slope of h is taken between u − e and u + e; :func:`grain` is a good e.

    It is the sum over cells of width·h'(S)·S_i, where S_i is the share of arm i's rewards that lie above the cell.
    Summed the other way round, it is the mean over arm i's rewards x of Φ(x), the sum of width·h'(S) over the cells
    below x.
    """
    slope_moments(s, a, e, out, np.empty(0))


@shared("state, floats, float, floats, floats -> two floats")
def slope_moments(s, a, e, mean, square):
    """The mean of Φ and of Φ² over each arm's rewards, and the least and the largest Φ over the whole support.

    Φ is that of :func:`empirical_slopes`, and its mean is the slope. On an unbounded support the least and the largest
    Φ are taken between the smallest and the largest reward. Where ``square`` has no room, only the means are right.
    """
    k, h = s.n_arms, s.h
    squares = square.size > 0
    fill_with(mean, 0.0)
    fill_with(square, 0.0)
    if s.mode == BINARY:
        u = 0.0
        for i in range(k):
            u += a[i] * share_of_ones(s, i)
        steep = h_slope(h, u, e)
        for i in range(k):
            mean[i] = steep * share_of_ones(s, i)
            if squares:
                square[i] = steep * mean[i]
        return min(steep, 0.0), max(steep, 0.0)
    inverse = inverses(s.told)
    u, phi, least, most = 1.0, 0.0, 0.0, 0.0
    if s.mode == FINITE:
        m, points, counts = s.n_atoms, s.points, s.counts
        drop = np.zeros(m)
        for i in range(k):
            each = a[i] * inverse[i]
            if each > 0.0:
                for c in range(m):
                    drop[c] += each * counts[i, c]
        for c in range(m):
            if c > 0:
                phi += (points[c] - points[c - 1]) * h_slope(h, u, e)
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
    tidy(s)
    x, owner, count = s.x, s.owner, pool_size(s)
    before = x[0]
    for c in range(count):
        here, i = x[c], owner[c]
        if here > before:
            phi += (here - before) * h_slope(h, u, e)
            before = here
        each = inverse[i] * stands_for(s, c)
        mean[i] += phi * each
        if squares:
            square[i] += phi * (phi * each)
            least, most = min(least, phi), max(most, phi)
        u -= a[i] * each
    if squares and s.bounded == 1:  # below all rewards the survival is 1, above all of them 0
        below = (s.low - x[0]) * h_slope(h, 1.0, e)
        above = phi + (s.high - before) * h_slope(h, 0.0, e)
        least, most = min(least, below, above), max(most, below, above)
    return least, most


@shared("state, floats, float, floats -> none")
def band_slopes(s, a, e, out):
    """The slopes of the largest U_h inside the bands, for concave h.

    In each cell the mixture's survival may lie between low and high, and is best at high where h rises there, at low
    where h falls there, else at the peak between, where more weight changes nothing.
    """
    k, h = s.n_arms, s.h
    fill_with(out, 0.0)
    if s.mode == BINARY:
        low, high = dot(a, s.lower), dot(a, s.upper)
        up, down = h_slope(h, high, e), h_slope(h, low, e)
        for i in range(k):
            out[i] = up * s.upper[i] if up > 0.0 else down * s.lower[i] if down < 0.0 else 0.0
        return
    tidy(s)
    finite = s.mode == FINITE
    cells = s.n_atoms if finite else pool_size(s)
    set_kind, told, radius, blurs, belt = s.set_kind, s.told, s.radius, lay_belts(s), s.belt
    left = told.copy()
    floor, top = np.empty(k), np.empty(k)  # each arm's own lowest and highest survival here
    since_up, since_down = np.zeros(k), np.zeros(k)  # Φ when they last changed
    for i in range(k):
        floor[i], top[i] = cell_ends(set_kind, left[i], told[i], radius[i], blurs[i], belt, i)
    low, high, up, down = dot(a, floor), dot(a, top), 0.0, 0.0
    before = s.low
    for c in range(cells + 1):
        here = s.high
        if c < cells:
            here = s.points[c] if finite else s.x[c]
        if here > before:
            rising = h_slope(h, high, e)
            if rising > 0.0:
                up += (here - before) * rising
            else:
                down += (here - before) * min(h_slope(h, low, e), 0.0)
            before = here
        if c == cells:
            break
        first, last = (0, k) if finite else (s.owner[c], s.owner[c] + 1)
        for i in range(first, last):
            gone = s.counts[i, c] if finite else stands_for(s, c)
            if gone > 0:
                out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]
                since_up[i], since_down[i] = up, down
                left[i] -= gone
                lower, upper = cell_ends(set_kind, left[i], told[i], radius[i], blurs[i], belt, i)
                low += a[i] * (lower - floor[i])
                high += a[i] * (upper - top[i])
                floor[i], top[i] = lower, upper
    for i in range(k):
        out[i] += (up - since_up[i]) * top[i] + (down - since_down[i]) * floor[i]


@shared("state, floats, int, floats, float, floats -> none")
def slopes(s, a, kind, far, e, out):
    """The slopes of what is maximised; ``far`` holds the arms' radii in W1."""
    if kind == BOUND and tailed(s):
        tail_pass(s, a, 1.0, s.prices[0], e, out)
        return
    if kind == BOUND:
        band_slopes(s, a, e, out)
        return
    empirical_slopes(s, a, e, out)
    q = s.holder_q
    if kind == POOLED:
        for i in range(a.size):
            out[i] += s.lipschitz * far[i]
    elif kind == BONUS:
        for i in range(a.size):
            if q == 1.0:
                out[i] += s.holder_c * far[i]
            elif far[i] > 0.0:
                lo, hi = max(a[i] - e, 0.0) * far[i], (a[i] + e) * far[i]
                out[i] += s.holder_c * (hi**q - lo**q) / (hi - lo) * far[i]


@step("floats, floats, floats, floats -> float")
def most_ahead(g, a, low, high):
    """max ⟨g, b − a⟩ over the mixtures b between low and high: the best arms filled up first."""
    b, total = np.empty(a.size), 0.0
    fill_up(g, low, high, b)
    for i in range(a.size):
        total += g[i] * (b[i] - a[i])
    return max(total, 0.0)


@step("state, floats, floats, floats, floats, float, float, float, int, floats, float, int, floats -> float and int")
def walk(s, a, low, high, direction, lead, room, first, kind, far, e, most, kept):
    """How far to go from a in a direction that rises by ``lead`` at first, and the passes that this took.

    The walk ends where it still rises, if only a little, so the utility never falls. ``kept`` gets the slopes there.
    """
    k = a.size
    trial, there = np.empty(k), np.empty(k)
    step, left, ahead, right, behind = min(first, room), 0.0, lead, -1.0, 0.0
    passes = 0
    while passes < min(most, 24):
        for m in range(k):
            trial[m] = min(max(a[m] + step * direction[m], low[m]), high[m])
        slopes(s, trial, kind, far, e, there)
        passes += 1
        along = dot(there, direction)
        if along >= 0.0:
            left, ahead = step, along
            copy_into(kept, there)
            if along <= 0.25 * lead or step >= room:
                break
        else:
            right, behind = step, along
        if right < 0.0:  # nowhere downhill yet: along the secant, a little short of the peak
            further = 10.0 * left
            if ahead < lead:
                further = min(further, left * 0.9 * lead / (lead - ahead))
            step = min(max(further, 2.0 * left), room)
        else:
            share = (ahead - 0.1 * lead) / (ahead - behind)
            step = left + (right - left) * min(max(share, 0.02), 0.9)
            if step <= left or step >= right or right - left < 1e-15:
                break
    return left, passes


@shared("state, floats, int, floats, float, float, int -> float")
def climb_corners(s, a, kind, far, e, goal, most):
    """The same within limits on several arms: weight moves from corner to corner of what keeps them."""
    k, shares = a.size, shares_of_corners(s, a)
    g, kept, direction, none, one = np.empty(k), np.empty(k), np.empty(k), np.zeros(k), np.ones(k)
    slopes(s, a, kind, far, e, g)
    passes, stride, gap = 1, 1.0, np.inf
    while True:
        to, away, least = best_corner_for(s, g), -1, np.inf
        for c in range(s.n_corners):
            if shares[c] > 0.0:
                value = dot(s.corners[c], g)
                if value < least:
                    away, least = c, value
        gap = max(dot(s.corners[to], g) - dot(a, g), 0.0)
        lead = dot(s.corners[to], g) - least
        if gap <= goal or passes >= most or not lead > 0.0:
            break
        for m in range(k):
            direction[m] = s.corners[to, m] - s.corners[away, m]
        left, used = walk(s, a, none, one, direction, lead, shares[away], stride, kind, far, e, most - passes, kept)
        if left == 0.0:
            break
        passes += used
        stride = max(4.0 * left, 1e-6)
        shares[to] += left
        shares[away] = 0.0 if left >= shares[away] else shares[away] - left
        average(s, shares, a)
        copy_into(g, kept)
    copy_into(s.corner_shares, shares)
    return gap


@shared("state, floats, floats, floats, int, floats, float, float, int -> float")
def climb(s, a, low, high, kind, far, e, goal, most):
    """Improve the mixture a in place, within low ≤ a ≤ high, until the gap is at most the goal; returns the gap.

    Weight moves from arm to arm; after every two moves, along what they added up to, as far as that helps (parallel
    tangents: where the utility is a long ridge, single moves would zigzag). At most about ``most`` passes. Where shares
    are limited, it is within the limits, too, and the gap is to the best mixture that keeps them.
    """
    if s.n_rows > 0:
        return climb_corners(s, a, kind, far, e, goal, most)
    if s.n_limited > 0:
        narrow_box(s, low, high)
        if not in_box(a, low, high):
            middle_of_box(low, high, a)
    k = a.size
    g, kept, direction, since = np.empty(k), np.empty(k), np.empty(k), a.copy()
    slopes(s, a, kind, far, e, g)
    passes, stride, moves = 1, 1.0, 0
    while True:
        gap = most_ahead(g, a, low, high)
        if gap <= goal or passes >= most:
            return gap
        room, lead = np.inf, 0.0
        if moves == 2:
            for m in range(k):
                direction[m] = a[m] - since[m]
                if direction[m] > 0.0:
                    room = min(room, (high[m] - a[m]) / direction[m])
                elif direction[m] < 0.0:
                    room = min(room, (low[m] - a[m]) / direction[m])
            lead = dot(g, direction)
        if lead > 0.0 and room > 0.0:
            left, used = walk(s, a, low, high, direction, lead, room, 1.0, kind, far, e, most - passes, kept)
        else:
            i, j = -1, -1
            for m in range(k):
                if a[m] < high[m] and (i < 0 or g[m] > g[i]):
                    i = m
                if a[m] > low[m] and (j < 0 or g[m] < g[j]):
                    j = m
            if i < 0 or j < 0 or not g[i] > g[j]:
                return gap
            fill_with(direction, 0.0)
            direction[i], direction[j] = 1.0, -1.0
            room = min(a[j] - low[j], high[i] - a[i])
            left, used = walk(s, a, low, high, direction, g[i] - g[j], room, stride, kind, far, e, most - passes, kept)
            if left == 0.0:  # a corner: nothing to gain along this pair
                return gap
            stride = max(4.0 * left, 1e-6)
        passes += used
        moves += 1
        moves %= 3
        if left > 0.0:
            for m in range(k):
                a[m] = min(max(a[m] + left * direction[m], low[m]), high[m])
            copy_into(g, kept)
        if moves == 0:
            copy_into(since, a)


@step("state -> float")
def accuracy(s):
    """How close to the best mixture an answer must be: a share of what chance does to the estimates."""
    n = s.rewards
    span = s.high - s.low
    if s.mode == SAMPLES:
        tidy(s)
        span = s.x[pool_size(s) - 1] - s.x[0]
    elif s.bounded == 0:
        span = s.points[s.n_atoms - 1] - s.points[0]
    return s.fineness * span * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0)) / math.sqrt(n)


@step("state -> float")
def grain(s):
    """The distance over which to take slopes of h: half the weight of one reward, or less with few values."""
    return (0.5 if s.mode == SAMPLES else 0.05) / s.rewards


@shared("state, floats, floats, floats, int, floats -> float")
def maximise(s, a, low, high, kind, far):
    """Climb to the top. Where corners of h hold that up, first with h well rounded, then as it is."""
    e, goal, most = grain(s), accuracy(s), 40 + 2 * a.size
    gap = climb(s, a, low, high, kind, far, e, goal, most)
    if gap > goal:
        climb(s, a, low, high, kind, far, 0.1, goal, most)
        gap = climb(s, a, low, high, kind, far, e, goal, most)
    return gap
