"""All arms' laws on one table of at most 512 cells, and the best mixture on it; compiled.

The ends of the cells are called knots. For each cell and arm the table says which share of the arm's rewards lies
above, averaged over the cell. On 0/1 rewards, atoms and bins nothing is lost. Rewards that are kept one by one are
thinned out: where they have many different values, cells hold about 1/320 of them each, and less at both ends.

Averages over cells keep every mean. So U_h of the table misses the empirical one only by the bend of h within a cell
(measured: 6e-6 to 3e-4 of it, on heavy tails up to 9e-4), and the best mixture of the table is the best one but for
much less. A search costs the same whatever the number of rewards; only laying the table out is one pass over them.
"""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._kernels import CONCAVE
from pmbandits.estimates._rewards import SAMPLES, pool_size, stands_for, tidy
from pmbandits.metrics.packed import h_max, h_min, h_slope, h_value, is_one_family, one_family_slope
from pmbandits.mixtures._index import dot
from pmbandits.mixtures._within import average, best_corner_for, furthest, in_box, middle_of_box, shares_of_corners
from pmbandits.state.arrays import copy_into, fill_with
from pmbandits.state.shared import shared, step

NOTHING = 1e-14  # a share of rewards below this is rounding
KNOTS = 512  # for rewards that are kept one by one, at most
_BULK = 1.0 / 320.0  # the share of all rewards in a cell
_TAIL = 0.2  # but no more than this share of all that lie further out


@shared("state, float -> int")
def lay_knots(s, pad):
    """Choose the knots for the rewards so far, ends of the support included; returns how many there are.

    If the support has no ends, the least and the largest reward, ``pad`` further out, stand for them.
    """
    if s.mode != SAMPLES:
        for c in range(s.n_atoms):
            s.knots[c] = s.points[c]
        return s.n_atoms
    tidy(s)
    x, n = s.x, pool_size(s)
    low, high = s.low, s.high
    if s.bounded == 0:
        low, high = x[0] - pad, x[n - 1] + pad
    different, c = 1, 1
    while c < n and different <= KNOTS - 2:
        different += x[c] > x[c - 1]
        c += 1
    all_of_them = different <= KNOTS - 2
    thin, bulk = s.sketch_size == 0 and not all_of_them, _BULK * s.rewards
    s.knots[0] = low
    used, gone, since, total = 1, 0.0, 0.0, float(s.rewards)
    c = 0
    while c < n and used < KNOTS - 1:
        begin, jump = c, int(bulk - since) - 1
        if thin and jump > 0 and _TAIL * min(gone, total - gone - jump) >= bulk:  # far from both ends: none before that
            c += jump
            while c > begin and x[c - 1] == x[c]:
                c -= 1
            gone += c - begin
            since += c - begin
        here, mass = x[c], 0.0
        while c < n and x[c] == here:
            mass += stands_for(s, c)
            c += 1
        gone += mass
        since += mass
        outside = min(gone, total - gone + mass)
        if here > s.knots[used - 1] and here < high and (all_of_them or since >= min(_BULK * total, _TAIL * outside)):
            s.knots[used] = here
            used += 1
            since = 0.0
    s.knots[used] = high
    return used + 1


@step("floats, int, float -> int")
def cell_of(knots, n_knots, x):
    """The cell in which x lies; the first or last if it lies outside."""
    lo, hi = 0, n_knots - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if knots[middle] <= x:
            lo = middle
        else:
            hi = middle
    return lo


@step("floats, floats, floats, int -> float")
def utility_of(h, knots, above, n_knots):
    """U_h of a law, given the share that lies above in each cell."""
    total = knots[0] * h_value(h, 1.0)
    last, value = -1.0, 0.0
    for c in range(n_knots - 1):
        if above[c] != last:  # a law of few rewards has few levels
            last, value = above[c], h_value(h, above[c])
        total += (knots[c + 1] - knots[c]) * value
    return total


@step("state, int, int -> none")
def write_row(s, i, n_knots):
    """From how many rewards an arm has at which knots to its row, the shares, the variance and the worth of it.

    On entry ``row_share`` has numbers of rewards. The worth is left out if h is concave.
    """
    row, place, share, knots = s.laws[i], s.row_place[i], s.row_share[i], s.knots
    cells, inverse, valued = n_knots - 1, 1.0 / s.told[i], s.metric_shape != CONCAVE
    left, used, start, mean, square = float(s.told[i]), 0, 0, 0.0, 0.0
    level = left * inverse
    before = 1.0 if place[0] == 0 else level
    worth = knots[0] * h_value(s.h, 1.0) if valued else 0.0
    for j in range(s.row_used[i] + 1):
        end = place[j] if j < s.row_used[i] else cells
        for c in range(start, end):
            row[c] = level
        low, high = knots[start] - knots[0], knots[end] - knots[0]
        mean += (high - low) * level
        square += (high - low) * (high + low) * level
        if valued and end > start:
            worth += (knots[end] - knots[start]) * h_value(s.h, level)
        if j < s.row_used[i]:
            left -= share[j]
            level = left * inverse if left > 1e-9 and end < cells else 0.0  # parts of one reward leave some rounding
            if before - level > NOTHING:
                share[used], place[used] = before - level, end
                used += 1
            before, start = level, end
    s.row_told[i], s.row_used[i] = s.told[i], used
    s.row_variance[i], s.row_worth[i] = max(square - mean * mean, 0.0), worth


@step("state, int, int, float -> none")
def put_in_row(s, i, knot, mass):
    """Count rewards at a knot; they come in order, so it is the last one, or the one before, or a new one."""
    if mass > 0.0:
        last = s.row_used[i] - 1
        if last >= 0 and s.row_place[i, last] == knot:
            s.row_share[i, last] += mass
        elif last >= 1 and s.row_place[i, last - 1] == knot:
            s.row_share[i, last - 1] += mass
        else:
            s.row_place[i, last + 1], s.row_share[i, last + 1] = knot, mass
            s.row_used[i] += 1


@shared("state, int, int -> bool")
def add_to_row(s, i, n_knots):
    """Rewards kept one by one: add an arm's new ones to its row. False if it cannot be told which they are.

    They are the last ones in the part of the pool that is not in order yet, because they come there one after another.
    """
    new, at, above = s.told[i] - s.row_told[i], s.rewards, s.laws[i]
    if s.sketch_size > 0 or s.ordered <= 0 or s.row_told[i] == 0:
        return False
    if new == 0:
        return True
    for j in range(s.rewards - 1, s.ordered - 1, -1):
        if new == 0:
            break
        if s.owner[j] == i:
            new -= 1
        at = j
    if new > 0:
        return False
    for c in range(n_knots - 1):
        above[c] *= s.row_told[i]
    for j in range(at, s.rewards):
        if s.owner[j] == i:
            here = cell_of(s.knots, n_knots, s.x[j])
            for c in range(here):
                above[c] += 1.0
            above[here] += min(max((s.x[j] - s.knots[here]) / (s.knots[here + 1] - s.knots[here]), 0.0), 1.0)
    used, before = 0, float(s.told[i])
    for c in range(n_knots):
        after = above[c] if c < n_knots - 1 else 0.0
        s.row_place[i, used], s.row_share[i, used] = c, before - after  # written over if that is nothing
        used += before - after > NOTHING * s.told[i]
        before = after
    s.row_used[i] = used
    write_row(s, i, n_knots)
    return True


@shared("state, int, int -> none")
def fill_rows(s, n_knots, only):
    """Write the rows of all arms, or of one arm only (otherwise −1)."""
    first, last = (0, s.n_arms) if only < 0 else (only, only + 1)
    knots, cells = s.knots, n_knots - 1
    if s.mode != SAMPLES:  # the knots are always the same, so only arms with new rewards cost anything
        for i in range(first, last):
            if s.row_told[i] != s.told[i]:
                used = 0
                for c in range(n_knots):
                    s.row_place[i, used], s.row_share[i, used] = c, s.counts[i, c]  # written over if there are none
                    used += s.counts[i, c] > 0
                s.row_used[i] = used
                write_row(s, i, n_knots)
        return
    if only >= 0 and add_to_row(s, only, n_knots):
        return
    tidy(s)
    for i in range(first, last):
        s.row_used[i] = 0
    at = 0
    for j in range(pool_size(s)):
        i, x = s.owner[j], s.x[j]
        if only >= 0 and i != only:
            continue
        while at < cells - 1 and knots[at + 1] <= x:
            at += 1
        # A reward between two knots counts in part at either, so that its mean stays.
        share = min(max((knots[at + 1] - x) / (knots[at + 1] - knots[at]), 0.0), 1.0)
        mass = stands_for(s, j)
        put_in_row(s, i, at, share * mass)
        put_in_row(s, i, at + 1, (1.0 - share) * mass)
    for i in range(first, last):
        write_row(s, i, n_knots)


@shared("state, floats, int, floats -> none")
def mix_rows(s, a, n_knots, above):
    """The law of the mixture a: the share that lies above in each cell, into ``above``."""
    cells, laws = n_knots - 1, s.laws
    for c in range(cells):
        above[c] = 0.0
    for i in range(s.n_arms):
        if a[i] != 0.0:
            for c in range(cells):
                above[c] += a[i] * laws[i, c]


@step("state, int, floats, float, floats -> none")
def slopes_of_h(s, n_knots, above, e, rise):
    """h' in each cell, where the mixture's law is ``above``, into ``rise``."""
    last, slope, alone = -1.0, 0.0, is_one_family(s.h)
    for c in range(n_knots - 1):
        if above[c] != last:
            last = above[c]
            slope = one_family_slope(s.h, last, e) if alone else h_slope(s.h, last, e)
        rise[c] = slope


@step("state, int, floats, floats -> none")
def weigh_cells(s, n_knots, rise, steep):
    """width·h' of each cell into ``steep``."""
    for c in range(n_knots - 1):
        steep[c] = (s.knots[c + 1] - s.knots[c]) * rise[c]


@step("state, int, floats, int -> float")
def slope_of(s, n_knots, steep, i):
    """∂U_h/∂a_i: the sum over cells of width·h'·(share of arm i's rewards above)."""
    laws, cells = s.laws, n_knots - 1
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # four sums, because the processor can work on them side by side
    c = 0
    while c + 3 < cells:
        one += steep[c] * laws[i, c]
        two += steep[c + 1] * laws[i, c + 1]
        three += steep[c + 2] * laws[i, c + 2]
        four += steep[c + 3] * laws[i, c + 3]
        c += 4
    while c < cells:
        one += steep[c] * laws[i, c]
        c += 1
    return (one + two) + (three + four)


@step("state, int, floats, floats, float, float, floats -> float")
def slope_along(s, n_knots, above, direction, far, e, rise):
    """The slope of U_h in a direction, ``far`` along it; and h' there, in each cell that changes, into ``rise``."""
    total, alone = 0.0, is_one_family(s.h)
    for c in range(n_knots - 1):
        if direction[c] != 0.0:
            here = above[c] + far * direction[c]
            rise[c] = one_family_slope(s.h, here, e) if alone else h_slope(s.h, here, e)
            total += (s.knots[c + 1] - s.knots[c]) * direction[c] * rise[c]
    return total


@shared("state, int, floats, floats, float, float, floats, floats -> float")
def top_along(s, n_knots, above, direction, room, e, rise, spare):
    """Where, up to ``room``, concave U_h is largest along a direction in which it rises; a little short of it.

    ``rise`` has h' of all cells where we start; at the end, where we arrive.
    """
    cells, lead = n_knots - 1, 0.0
    for c in range(cells):
        spare[c] = rise[c]
        lead += (s.knots[c + 1] - s.knots[c]) * direction[c] * rise[c]
    behind = slope_along(s, n_knots, above, direction, room, e, spare)
    if behind >= 0.0:
        copy_into(rise, spare)
        return room
    left, right, ahead = 0.0, room, lead
    for turn in range(60):
        middle = 0.5 * (left + right)
        if turn % 2 == 0 and ahead > behind:  # the secant; in between halves, so that neither end stays for long
            middle = left + (right - left) * min(max(ahead / (ahead - behind), 0.02), 0.98)
        slope = slope_along(s, n_knots, above, direction, middle, e, spare)
        if slope >= 0.0:
            left, ahead = middle, slope
            copy_into(rise, spare)
            if slope <= 1e-3 * lead:
                break
        else:
            right, behind = middle, slope
        if right - left <= 1e-9 * room or right - left < 1e-12:
            break
    return left


@shared("state, int, floats, floats, float, float, int -> float")
def climb_table(s, n_knots, a, low, e, goal, most):
    """Concave h: improve the mixture a in place, within a ≥ low, until no mixture is better by more than the goal.

    Returns by how much another can be better at most (the gap). Weight moves from the arm with the least slope to the
    one with the greatest, among those that have weight; after that, an arm without weight may enter.
    """
    k, cells = s.n_arms, n_knots - 1
    above, direction, steep = np.empty(cells), np.empty(cells), np.empty(cells)
    rise, spare = np.empty(cells), np.empty(cells)
    slope, active = np.empty(k), np.zeros(k)
    gap = np.inf
    for _ in range(most):
        mix_rows(s, a, n_knots, above)
        slopes_of_h(s, n_knots, above, e, rise)
        weigh_cells(s, n_knots, rise, steep)
        to = 0
        for i in range(k):
            slope[i] = slope_of(s, n_knots, steep, i)
            to = i if slope[i] > slope[to] else to
        gap = 0.0
        for i in range(k):
            gap += (a[i] - low[i]) * (slope[to] - slope[i])
            active[i] = 1.0 if a[i] > low[i] or i == to else 0.0
        if gap <= goal:
            break
        moved = False
        for inner in range(200):
            if inner > 0:
                weigh_cells(s, n_knots, rise, steep)
                for i in range(k):
                    if active[i] > 0.0:
                        slope[i] = slope_of(s, n_knots, steep, i)
            best, worst = -1, -1
            for i in range(k):
                if active[i] > 0.0:
                    if best < 0 or slope[i] > slope[best]:
                        best = i
                    if a[i] > low[i] and (worst < 0 or slope[i] < slope[worst]):
                        worst = i
            inside = 0.0
            for i in range(k):
                if active[i] > 0.0:
                    inside += (a[i] - low[i]) * (slope[best] - slope[i])
            if best == worst or worst < 0 or inside <= 0.5 * goal:
                break
            for c in range(cells):
                direction[c] = s.laws[best, c] - s.laws[worst, c]
            room = a[worst] - low[worst]
            far = top_along(s, n_knots, above, direction, room, e, rise, spare)
            if far <= 0.0:
                break
            moved = True
            a[best] += far
            a[worst] = low[worst] if far >= room else a[worst] - far
            for c in range(cells):
                above[c] += far * direction[c]
        if not moved:
            break
    return gap


@shared("state, int, floats, float, float, int -> float")
def climb_table_within(s, n_knots, a, e, goal, most):
    """The same within limits: weight moves from arm to arm between floors and caps, or from corner to corner."""
    k, cells, corners = s.n_arms, n_knots - 1, s.n_rows > 0
    above, direction, steep = np.empty(cells), np.empty(cells), np.empty(cells)
    rise, spare, gap = np.empty(cells), np.empty(cells), np.inf
    slope, move, best = np.empty(k), np.empty(k), np.empty(k)
    shares = shares_of_corners(s, a) if corners else s.corner_shares
    if not corners and not in_box(a, s.least, s.most):
        middle_of_box(s.least, s.most, a)
    mix_rows(s, a, n_knots, above)
    slopes_of_h(s, n_knots, above, e, rise)
    for _ in range(most):
        weigh_cells(s, n_knots, rise, steep)
        for i in range(k):
            slope[i] = slope_of(s, n_knots, steep, i)
        furthest(s, slope, best)
        gap = max(dot(slope, best) - dot(slope, a), 0.0)
        if gap <= goal:
            break
        to, away, least = -1, -1, np.inf
        fill_with(move, 0.0)
        if corners:
            to = best_corner_for(s, slope)
            for c in range(s.n_corners):
                value = dot(s.corners[c], slope)
                if shares[c] > 0.0 and value < least:
                    away, least = c, value
            if to == away:
                break
            for i in range(k):
                move[i] = s.corners[to, i] - s.corners[away, i]
            room = shares[away]
        else:
            for i in range(k):
                if a[i] < s.most[i] and (to < 0 or slope[i] > slope[to]):
                    to = i
                if a[i] > s.least[i] and slope[i] < least:
                    away, least = i, slope[i]
            if to < 0 or away < 0 or not slope[to] > slope[away]:
                break
            move[to], move[away] = 1.0, -1.0
            room = min(a[away] - s.least[away], s.most[to] - a[to])
        mix_rows(s, move, n_knots, direction)
        far = top_along(s, n_knots, above, direction, room, e, rise, spare)
        if far <= 0.0:
            break
        if corners:
            shares[to] += far
            shares[away] = 0.0 if far >= shares[away] else shares[away] - far
            average(s, shares, a)
        else:
            a[to], a[away] = min(a[to] + far, s.most[to]), max(a[away] - far, s.least[away])
        for c in range(cells):
            above[c] += far * direction[c]
    if corners:
        copy_into(s.corner_shares, shares)
    return gap


@step("state, int, floats, floats, float, float, int -> float")
def climb_on_table(s, n_knots, a, low, e, goal, most):
    """Climb within the limits, if there are any, else within a ≥ low."""
    if s.n_limited > 0:
        return climb_table_within(s, n_knots, a, e, goal, 5 * most)
    return climb_table(s, n_knots, a, low, e, goal, most)


@shared("state, int, floats, floats, float, float, int -> float")
def maximise_table(s, n_knots, a, low, e, goal, most):
    """The same. Where corners of h hold the climb up, first with h well rounded, then as it is."""
    gap = climb_on_table(s, n_knots, a, low, e, goal, most)
    if gap > goal:
        b = a.copy()
        for smooth in (0.1, 0.01, 0.001):
            if smooth > e:
                climb_on_table(s, n_knots, b, low, smooth, goal, most)
        other = climb_on_table(s, n_knots, b, low, e, goal, most)
        above = np.empty(n_knots)
        mix_rows(s, a, n_knots, above)
        before = utility_of(s.h, s.knots, above, n_knots)
        mix_rows(s, b, n_knots, above)
        if utility_of(s.h, s.knots, above, n_knots) > before:
            copy_into(a, b)
            gap = other
    return gap


@step("state, int -> float")
def size_of_values(s, n_knots):
    """How large utilities can be: the span of the knots times the largest |h|."""
    largest = max(abs(h_max(s.h, 0.0, 1.0)), abs(h_min(s.h, 0.0, 1.0)))
    return (s.knots[n_knots - 1] - s.knots[0]) * largest
