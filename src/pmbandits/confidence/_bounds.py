"""What a mixture's utility can be while every arm's law lies in its confidence set; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._ends import (
    BAND,
    BELT,
    INTERVAL,
    by_cells,
    cell_ends,
    lay_belts,
    table_radius,
    tailed,
)
from pmbandits.confidence._kernels import ball_value, kl_lower, kl_upper
from pmbandits.confidence._tails import best_price, settle_prices, tail_distance, tail_pass
from pmbandits.estimates._kernels import span_of
from pmbandits.estimates._rewards import BINARY, FINITE, pool_size, rank_error, stands_for, tidy
from pmbandits.metrics.packed import h_max, h_min, h_value
from pmbandits.state.compile import kernel
from pmbandits.state.shared import shared, step

EMPIRICAL, OPTIMISTIC, PESSIMISTIC = range(3)  # which utility is asked for


@shared("state, int -> float")
def arm_radius(s, i):
    """The radius of arm i's set around what is kept of its rewards: wider by what is not kept."""
    r = table_radius(s, s.told[i])
    if s.told[i] == 0 or s.mode == BINARY:
        return r
    if s.set_kind == BAND:  # rounding to bins is added to the values instead (``offset``)
        return r + rank_error(s, i)
    if s.set_kind == BELT:  # as are the errors of sketches, to the shares (``blurs``)
        return r
    r += s.rounding
    if s.sketch_size > 0:  # both laws live between the least and the largest reward
        r += rank_error(s, i) * span_of(s.sketch_marks[i])
    return r


@step("state, int -> float")
def share_of_ones(s, i):
    """The share of ones among the rewards of an arm that pays 0 or 1."""
    return s.counts[i, 1] / s.told[i] if s.told[i] > 0 else 0.0


@step("int, float, float -> float")
def lower_end(kind, p, r):
    """The lower end of the interval of radius r around the share p of ones."""
    return kl_lower(p, r) if kind == INTERVAL else max(p - r, 0.0)


@step("int, float, float -> float")
def upper_end(kind, p, r):
    """The upper end of the interval of radius r around the share p of ones."""
    return kl_upper(p, r) if kind == INTERVAL else min(p + r, 1.0)


@shared("state -> none")
def refresh(s):
    """Bring the arms' confidence sets up to date; only arms with new rewards cost anything."""
    for i in range(s.n_arms):
        if s.told[i] == s.seen[i] and s.seen[i] > 0:
            continue
        s.seen[i] = s.told[i]
        r = arm_radius(s, i)
        s.radius[i] = r
        if s.mode == BINARY:
            if s.told[i] == 0:
                s.lower[i], s.upper[i] = 0.0, 1.0
                continue
            p = share_of_ones(s, i)
            s.lower[i], s.upper[i] = lower_end(s.set_kind, p, r), upper_end(s.set_kind, p, r)
    if tailed(s):
        settle_prices(s)


# Kernels that run once for every mixture or cell take the few arrays that they use.


@step("ints -> floats")
def inverses(told):
    """1/n of each arm, 0 for an arm without rewards."""
    out = np.zeros(told.size)
    for i in range(told.size):
        if told[i] > 0:
            out[i] = 1.0 / told[i]
    return out


@kernel
def survival(a, above, told, inverse):
    """The mixture's survival where ``above`` rewards of each arm lie above; exact at 0 and at 1."""
    high, low = 0.0, 0.0
    for i in range(a.size):
        if told[i] > 0:
            high += a[i] * (above[i] * inverse[i])
            low += a[i] * ((told[i] - above[i]) * inverse[i])
        else:
            low += a[i]
    return high if high < low else 1.0 - low


@step("floats, table, int, floats, floats, floats -> none")
def binary_bounds(h, grid, used, lower, upper, out):
    """The optimistic value of every grid point at once."""
    for g in range(used):
        low, high, room = 0.0, 0.0, 0.0
        for i in range(lower.size):
            low += grid[g, i] * lower[i]
            high += grid[g, i] * upper[i]
            room += grid[g, i] * (1.0 - upper[i])
        out[g] = h_max(h, low, high if high < 0.5 else 1.0 - room)


@step("floats, floats, floats, floats, int -> float")
def binary_bound(h, a, lower, upper, what):
    """Bernoulli arms: the extreme of h over the means that the mixture can have. Interval arithmetic, exact."""
    low, high, room = 0.0, 0.0, 0.0
    for i in range(a.size):
        low += a[i] * lower[i]
        high += a[i] * upper[i]
        room += a[i] * (1.0 - upper[i])
    high = high if high < 0.5 else 1.0 - room
    return h_max(h, low, high) if what == OPTIMISTIC else h_min(h, low, high)


@shared("state, floats, int -> float")
def sweep(s, a, what):
    """U_h of the mixture of empirical laws, or its largest or smallest value in the bands: one pass over the cells.

    An arm without rewards counts as sure to pay the least; its band is everything.
    """
    tidy(s)
    if what != EMPIRICAL:
        return sweep_ends(s, a, what)
    k, bounded = s.n_arms, s.bounded == 1
    finite = s.mode == FINITE
    cells = s.n_atoms if finite else pool_size(s)
    sketched, mass = s.sketch_size > 0, s.mass
    if cells == 0 and not bounded:
        return 0.0
    # Local names and numbers: the loop below runs once for every reward so far.
    h, points, owner, counts = s.h, s.points if finite else s.x, s.owner, s.counts
    left, each, weight = np.empty(k), np.empty(k), np.empty(k)
    idle = 0.0
    for i in range(k):
        left[i], weight[i] = s.told[i], a[i]
        each[i] = 1.0 / s.told[i] if s.told[i] > 0 else 0.0
        if s.told[i] == 0:
            idle += a[i]
            weight[i] = 0.0
    total_told = left.copy()
    before = s.low if bounded else points[0]
    total = before * h_value(h, 1.0)
    for cell in range(cells + 1):
        if cell < cells:
            here = points[cell]
        elif bounded:
            here = s.high
        else:
            break
        width = here - before
        if width > 0.0:
            high, low = 0.0, idle
            for i in range(k):
                high += weight[i] * (left[i] * each[i])
                low += weight[i] * ((total_told[i] - left[i]) * each[i])
            total += width * h_value(h, high if high < low else 1.0 - low)
            before = here
        if cell < cells:
            if finite:
                for i in range(k):
                    left[i] -= counts[i, cell]
            else:
                left[owner[cell]] -= mass[cell] if sketched else 1
    return total


@shared("state, floats, int -> float")
def sweep_ends(s, a, what):
    """The largest or smallest U_h while each arm's survival stays between its ends, cell by cell."""
    k, finite, sketched, kind = s.n_arms, s.mode == FINITE, s.sketch_size > 0, s.set_kind
    cells = s.n_atoms if finite else pool_size(s)
    blurs, belt, told, radius = lay_belts(s), s.belt, s.told, s.radius
    h, points, owner, counts, mass = s.h, s.points if finite else s.x, s.owner, s.counts, s.mass
    left, floor, top = told.copy(), np.empty(k), np.empty(k)
    members, used = np.empty(k, np.int64), 0  # arms without weight, and their rewards, make no difference
    for i in range(k):
        if a[i] > 0.0:
            members[used] = i
            used += 1
        floor[i], top[i] = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
    before = s.low
    total = before * h_value(h, 1.0)
    for cell in range(cells + 1):
        if cell < cells and not finite and a[owner[cell]] == 0.0:
            continue
        here = points[cell] if cell < cells else s.high
        width = here - before
        if width > 0.0:
            low, high, room = 0.0, 0.0, 0.0
            for j in range(used):
                i = members[j]
                low += a[i] * floor[i]
                high += a[i] * top[i]
                room += a[i] * (1.0 - top[i])
            high = high if high < 0.5 else 1.0 - room
            total += width * (h_max(h, low, high) if what == OPTIMISTIC else h_min(h, low, high))
            before = here
        if cell == cells:
            break
        if finite:
            for i in range(k):
                if counts[i, cell] > 0:
                    left[i] -= counts[i, cell]
                    floor[i], top[i] = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
        else:
            i = owner[cell]
            left[i] -= mass[cell] if sketched else 1
            floor[i], top[i] = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
    return total


@shared("state, floats -> float")
def utility(s, a):
    """The utility U_h of the mixture ``a``, for the rewards so far. PM-ETC-M maximises it (``eq:ETC_alpha``)."""
    return binary_utility(s, a) if s.mode == BINARY else sweep(s, a, EMPIRICAL)


@shared("state, floats -> float")
def binary_utility(s, a):
    """The same for arms that pay 0 or 1."""
    return h_value(s.h, survival(a, s.counts[:, 1], s.told, inverses(s.told)))


@step("state, floats -> int")
def lay_curve(s, a):
    """The mixture's survival on its cells, into ``curve`` and ``width``; returns their number."""
    tidy(s)
    k = s.n_arms
    finite = s.mode == FINITE
    points = s.n_atoms if finite else pool_size(s)
    inverse = inverses(s.told)
    for i in range(k):
        s.above[i] = s.told[i]
    before = s.low
    cells = 0
    for cell in range(points + 1):
        here = s.high
        if cell < points:
            here = s.points[cell] if finite else s.x[cell]
        if here > before:
            s.curve[cells] = survival(a, s.above, s.told, inverse)
            s.width[cells] = here - before
            cells += 1
            before = here
        if cell < points:
            if finite:
                for i in range(k):
                    s.above[i] -= s.counts[i, cell]
            else:
                s.above[s.owner[cell]] -= stands_for(s, cell)
    return cells


@shared("state, floats, int -> float")
def bound(s, a, what):
    """The largest or smallest U_h that the mixture can have while every arm stays in its confidence set.

    Intervals: exact. Bands and belts: exact for one arm; for several a bound (each arm's own curve must fall too,
    which the mixture's cells do not see). With a moment or σ in place of ends of the support: a bound (``_tails.py``).
    Balls: of the pooled radius, a bound within some per cent of the arms' own.
    """
    k = s.n_arms
    if s.mode == BINARY:
        return binary_bound(s.h, a, s.lower, s.upper, what)
    sign = 1.0 if what == OPTIMISTIC else -1.0
    if tailed(s):
        return sign * tail_pass(s, a, sign, s.prices[0 if what == OPTIMISTIC else 1], 0.0, np.empty(0))
    if by_cells(s):  # of the rounded rewards' laws, and what rounding is worth at most
        return sweep(s, a, what) + sign * s.offset
    far = 0.0
    for i in range(k):
        if a[i] > 0.0:
            far += a[i] * s.radius[i]
    if s.bounded == 0:
        return sweep(s, a, EMPIRICAL) + sign * s.lipschitz * far
    return ball_bound(s, a, sign, far)


@shared("state, floats, float, float -> float")
def ball_bound(s, a, sign, radius):
    """The largest (sign 1) or smallest (sign −1) U_h within the W1 distance ``radius`` of the mixture's law."""
    cells = lay_curve(s, a)
    inside = ball_value(s.h, sign, s.metric_shape, s.curve, s.width, cells, radius, s.table, s.envelope)
    return s.low * h_value(s.h, 1.0) + sign * inside


@kernel
def bounds(s, a):
    """The least, the empirical and the largest utility of a mixture."""
    refresh(s)
    if tailed(s):  # at the best prices for this very mixture
        low, high = best_price(s, a, -1.0), best_price(s, a, 1.0)
        middle, none = utility(s, a), np.empty(0)
        low, high = -tail_pass(s, a, -1.0, low, 0.0, none), tail_pass(s, a, 1.0, high, 0.0, none)
        return min(low, middle), middle, max(high, middle)  # rewards against the promise may lie outside
    return bound(s, a, PESSIMISTIC), utility(s, a), bound(s, a, OPTIMISTIC)


@shared("state, int -> float")
def wasserstein_radius(s, i):
    """How far, in W1, arm i's law may be from its rewards."""
    if s.mode == BINARY:
        if s.plain_bonus == 1:  # the paper's bonus to the letter: not cut off at the ends of [0, 1]
            return s.radius[i]
        p = share_of_ones(s, i)
        return max(s.upper[i] - p, p - s.lower[i])
    if tailed(s):
        return tail_distance(s, i)
    width = s.high - s.low
    if s.told[i] == 0:
        return width
    if s.set_kind == BELT:
        return belt_distance(s, i) + s.rounding
    return width * min(s.radius[i], 1.0) + s.rounding if s.set_kind == BAND else s.radius[i]


@shared("state, int -> float")
def belt_distance(s, i):
    """How far, in W1, a law in arm i's belt may be from the arm's rewards: one pass over them."""
    tidy(s)
    finite, n = s.mode == FINITE, s.told[i]
    blur, belt, points, owner = lay_belts(s)[i], s.belt, s.points if s.mode == FINITE else s.x, s.owner
    cells = s.n_atoms if finite else pool_size(s)
    left, before, total = n, s.low, 0.0
    for cell in range(cells + 1):
        gone = 0
        if cell < cells:
            gone = s.counts[i, cell] if finite else stands_for(s, cell) if owner[cell] == i else 0
            if gone == 0:
                continue
        here = points[cell] if cell < cells else s.high
        if here > before:
            lower, upper = cell_ends(BELT, left, n, 0.0, blur, belt, i)
            total += (here - before) * max(upper - left / n, left / n - lower)
            before = here
        left -= gone
    return total


@kernel
def arm_ends(s, i, above, lower, upper):
    """The ends of arm i's belt where so many of its rewards lie above, for readers."""
    blur = lay_belts(s)[i]
    for j in range(above.size):
        lower[j], upper[j] = cell_ends(BELT, above[j], s.told[i], 0.0, blur, s.belt, i)
