"""Looking ahead: for how many more rewards a choice is sure to stand, whatever they are; 0/1 rewards; compiled.

Most rewards change nothing. After a look at 0/1 rewards the policy works out up to how many more rewards of each arm
the choice stands (``stands_until``), and does not look again before: the same decisions, far less work. More ones raise
both ends of an arm's interval, and more rewards narrow it, so the extremes are at the ends.
"""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._bounds import lower_end, upper_end
from pmbandits.confidence._ends import table_radius
from pmbandits.confidence._kernels import CONCAVE
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.packed import h_max, h_min, h_value
from pmbandits.mixtures._index import SURE, TIE, dot
from pmbandits.state.shared import shared, step

SHORTEST = 4  # less than that is not worth looking ahead
PAUSE = 28  # looks after a failure at the shortest distance before it is tried again


@shared("state -> bool")
def may_look_ahead(s):
    """Whether looking ahead is possible and, after failures, due."""
    if s.mode != BINARY or s.radii_fall == 0:
        return False
    if s.look_ahead < SHORTEST:
        s.look_ahead += 1
        return False
    for i in range(s.n_arms):
        if s.told[i] + s.look_ahead >= s.n_radii and s.coarse == 0:
            s.look_ahead = max(SHORTEST, s.look_ahead // 2)
            return False
    return True


@step("state, bool -> none")
def settle_down(s, stands):
    """If the choice stands, do not look again before, and look twice as far next time; else half as far, or pause."""
    ahead = s.look_ahead
    if stands:
        for i in range(s.n_arms):
            s.stands_until[i] = s.told[i] + ahead
        s.look_ahead = min(2 * ahead, 1 << 24)
    else:
        s.look_ahead = ahead // 2 if ahead >= 2 * SHORTEST else -PAUSE


@shared("state, int -> two arrays")
def surely_inside(s, ahead):
    """For each arm the interval that it covers after each of the next ``ahead`` rewards, whatever they are."""
    k, kind = s.n_arms, s.set_kind
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.told[i] + ahead, s.counts[i, 1]
        low[i] = lower_end(kind, (ones + ahead) / n, table_radius(s, n))
        high[i] = upper_end(kind, ones / n, table_radius(s, n))
    return low, high


@shared("state, int -> two arrays")
def maybe_inside(s, ahead):
    """For each arm the interval that it can cover at most within ``ahead`` rewards."""
    k, kind = s.n_arms, s.set_kind
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones, r = s.told[i] + ahead, s.counts[i, 1], table_radius(s, s.told[i])
        low[i] = lower_end(kind, ones / n, r)
        high[i] = upper_end(kind, (ones + ahead) / n, r)
    return low, high


@shared("state, int -> two arrays")
def shares_within(s, ahead):
    """For each arm the least and largest share of ones that it can have within ``ahead`` rewards."""
    k = s.n_arms
    low, high = np.empty(k), np.empty(k)
    for i in range(k):
        n, ones = s.told[i] + ahead, s.counts[i, 1]
        low[i], high[i] = ones / n, (ones + ahead) / n
    return low, high


@step("floats, int, floats, floats, floats, floats -> float")
def least_lead(h, shape, mine, other, low, high):
    """A lower bound on h(mine·p) − h(other·p) while each p lies between ``low`` and ``high``.

    Concave h: with x = other·p and x + e = mine·p, h(x + e) − h(x) falls in x where e > 0 and rises where e < 0, and
    is concave in e. So it is least at ends; and e varies little between mixtures that are near each other.
    """
    x_low, x_high, e_low, e_high = 0.0, 0.0, 0.0, 0.0
    for i in range(low.size):
        x_low += other[i] * low[i]
        x_high += other[i] * high[i]
        d = mine[i] - other[i]
        e_low += d * (low[i] if d > 0.0 else high[i])
        e_high += d * (high[i] if d > 0.0 else low[i])
    x_high = min(x_high, 1.0)
    if shape == CONCAVE and x_high + e_high <= 1.0 and x_low + e_low >= 0.0:
        least = 0.0 if e_low < 0.0 < e_high else np.inf
        for e in (e_low, e_high):
            x = x_high if e >= 0.0 else x_low
            if x + e >= 0.0 and x + e <= 1.0:
                least = min(least, h_value(h, x + e) - h_value(h, x))
            else:
                return -np.inf
        return least
    return h_min(h, dot(mine, low), min(dot(mine, high), 1.0)) - h_max(h, x_low, x_high)


@shared("state -> bool")
def stays_optimistic(s):
    """Whether the current mixture stays the most optimistic one for the next ``look_ahead`` rewards of each arm."""
    ahead, current = s.look_ahead, s.current
    mine, peak = s.grid[current], s.peak
    low, high = surely_inside(s, ahead)
    left, right = dot(mine, low), dot(mine, high)
    if left > right:
        return False
    sure = h_max(s.h, left, right)
    if sure >= peak - 0.5 * TIE * max(1.0, abs(peak)):  # nothing can be better
        return True
    low, high = maybe_inside(s, ahead)
    for g in range(s.used):
        if g != current:
            rival = h_max(s.h, dot(s.grid[g], low), min(dot(s.grid[g], high), 1.0))
            if rival > sure - SURE * max(1.0, abs(peak)):
                return False
    return True
