"""Mixtures that keep the limits on shares: the furthest of them in a direction, and starts for searches; compiled.

Limits on single arms are a box, and the furthest mixture fills up the best arms first. Where one limit is on several
arms, the corners of what keeps all limits are known, and every mixture is an average of them: so a corner is treated
like an arm.
"""

from __future__ import annotations

import numpy as np

from pmbandits.mixtures._gate import ROWS, most_over, next_below
from pmbandits.mixtures._index import dot
from pmbandits.state.arrays import copy_into, fill_with
from pmbandits.state.shared import shared, step


@step("floats, floats, floats -> none")
def middle_of_box(low, high, out):
    """A mixture inside a box: every arm is as far from its least share to its largest as any other."""
    rest, room = 1.0, 0.0
    for i in range(out.size):
        rest -= low[i]
        room += high[i] - low[i]
    for i in range(out.size):
        out[i] = low[i] + (rest / room * (high[i] - low[i]) if room > 0.0 else 0.0)


@step("floats, floats, floats, floats -> none")
def fill_up(g, low, high, out):
    """The mixture b of a box with the largest ⟨g, b⟩: the best arms are filled up first."""
    rest, last = 1.0, -1
    for i in range(out.size):
        out[i] = low[i]
        rest -= low[i]
    for _ in range(out.size):
        if rest <= 0.0:
            break
        last = next_below(g, last)
        more = min(high[last] - low[last], rest)
        out[last] += more
        rest -= more


@shared("state, floats -> int")
def best_corner_for(s, g):
    """The corner with the largest ⟨g, corner⟩; the first of equals."""
    best, most = 0, -np.inf
    for c in range(s.n_corners):
        value = dot(s.corners[c], g)
        if value > most:
            best, most = c, value
    return best


@shared("state, floats, floats -> none")
def furthest(s, g, out):
    """The mixture b within the limits with the largest ⟨g, b⟩, into ``out``."""
    if s.gate & ROWS == ROWS:
        copy_into(out, s.corners[best_corner_for(s, g)])
    elif s.n_limited > 0:
        fill_up(g, s.least, s.most, out)
    else:
        top = 0
        for i in range(1, s.n_arms):
            top = i if g[i] > g[top] else top
        fill_with(out, 0.0)
        out[top] = 1.0


@step("state, floats, floats -> none")
def narrow_box(s, low, high):
    """Make a box no wider than the limits on single arms."""
    for i in range(s.n_limited):
        low[i], high[i] = max(low[i], s.least[i]), min(high[i], s.most[i])


@step("floats, floats, floats -> bool")
def in_box(a, low, high):
    """Whether a mixture lies in a box, up to rounding."""
    inside = True
    for i in range(a.size):
        inside &= a[i] >= low[i] - 1e-12 and a[i] <= high[i] + 1e-12
    return inside


@step("state, floats, floats -> none")
def average(s, shares, out):
    """The average of all corners with some shares, into ``out``."""
    fill_with(out, 0.0)
    for c in range(s.n_corners):
        if shares[c] > 0.0:
            for i in range(s.n_arms):
                out[i] += shares[c] * s.corners[c, i]


@step("floats, floats -> bool")
def same(a, b):
    """Whether two mixtures are the same, up to rounding."""
    far = 0.0
    for i in range(a.size):
        far = max(far, abs(a[i] - b[i]))
    return far <= 1e-9


@shared("state, floats -> floats")
def shares_of_corners(s, a):
    """The mixture a as an average of corners; if that is not known, a becomes the average of all of them."""
    shares = s.corner_shares.copy()
    there = np.empty(s.n_arms)
    average(s, shares, there)
    if same(there, a):
        return shares
    for c in range(s.n_corners):
        if same(s.corners[c], a):
            fill_with(shares, 0.0)
            shares[c] = 1.0
            return shares
    fill_with(shares, 1.0 / s.n_corners)
    average(s, shares, a)
    return shares


@shared("state, floats -> bool")
def keeps(s, a):
    """Whether a mixture keeps the limits, up to rounding."""
    if s.gate & ROWS == ROWS:
        return most_over(s, a, 1.0) <= 1e-9
    return s.n_limited == 0 or in_box(a, s.least, s.most)


@shared("state, floats -> none")
def to_start(s, a):
    """A start for a search that is near the mixture a: the mixture within the limits that is furthest towards it."""
    if s.n_limited > 0:
        furthest(s, a.copy(), a)
