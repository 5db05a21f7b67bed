"""How little an arm's law must change, in relative entropy, to deserve a place in the mixture; compiled.

This is what IMED (Honda and Takemura 2015) asks of an arm's mean. Here it is asked of the slope of the utility, and,
for h that is not concave, of the utility itself. Laws are rows of the table of ``_laws.py``.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._kernels import CONCAVE, CONVEX, kl
from pmbandits.metrics.packed import extremum_place, h_slope, h_value, n_extrema
from pmbandits.mixtures._laws import utility_of
from pmbandits.state.shared import shared, step

FAR = 1e9  # no change is enough
FEW_CELLS = 20  # so many places are tried one by one
NOTHING = 1e-14  # a share of rewards below this is rounding


@step("floats, int, floats, ints -> int")
def shares_at(above, n_knots, share, place):
    """The share of the rewards at each knot that has any, and the knot; returns how many have."""
    used, before = 0, 1.0
    for c in range(n_knots):
        after = above[c] if c < n_knots - 1 else 0.0
        if before - after > NOTHING:
            share[used], place[used] = before - after, c
            used += 1
        before = after
    return used


@shared("floats, ints, int, floats, float, float, float, float -> two floats")
def to_reach(share, place, used, phi, level, top, start, need):
    """The least relative entropy from a law to one under which Φ has the mean ``level``; and where it was found.

    The dual: the largest over 0 ≤ ν ≤ 1/(top − level) of E log(1 − ν·(Φ − level)), which is concave in ν: Newton's
    method from ``start``, kept between bounds. It ends when ``need`` is reached: the answer is then a lower bound.
    """
    y = np.empty(used)
    mean, power, at_top, span = 0.0, 0.0, False, top - level
    for c in range(used):
        above = phi[place[c]] - level
        mean += share[c] * above
        power += share[c] * above * above
        y[c] = above
    if mean >= 0.0:
        return 0.0, start
    if span <= 1e-14 * (abs(top) + abs(level)):
        return FAR, start
    for c in range(used):
        y[c] = min(y[c] / span, 1.0)
        at_top |= y[c] >= 1.0 - 1e-9
    r = start * span  # ν as a share of the largest
    if not (r > 0.0 and r < 1.0):
        r = min(-mean * span / power, 0.5)
    lo, hi, best, found = 0.0, 1.0, 0.0, r
    for _ in range(60):
        value, slope, bend = 0.0, 0.0, 0.0
        for c in range(used):
            z = max(1.0 - r * y[c], 1e-12)
            ratio = y[c] / z
            value += share[c] * math.log(z)
            slope -= share[c] * ratio
            bend -= share[c] * ratio * ratio
        if value > best:
            best, found = value, r
        if best >= need or abs(slope) * (hi - lo) <= 1e-3 * best or (r == 1.0 and slope >= 0.0):
            break
        if slope > 0.0:
            lo = r
        else:
            hi = r
        r = r - slope / bend
        if r >= 1.0 and hi == 1.0 and lo < 1.0 and not at_top:  # at r = 1 all that is added goes to the top
            r = 1.0
        elif r <= lo or r >= hi:
            r = 0.5 * (lo + hi)
    return best, found / span


@shared("floats, ints, int, floats, float, float -> two floats")
def at_multiplier(share, place, used, phi, level, nu):
    """E log(1 − ν·(Φ − level)), the largest of which :func:`to_reach` looks for, and its slope in ν."""
    value, slope = 0.0, 0.0
    for c in range(used):
        above = phi[place[c]] - level
        z = max(1.0 - nu * above, 1e-12)
        value += share[c] * math.log(z)
        slope -= share[c] * above / z
    return value, slope


@step("floats, int -> int")
def top_knot(phi, n_knots):
    """The knot at which Φ is largest; the last of equals."""
    top = 0
    for c in range(n_knots):
        if phi[c] >= phi[top]:
            top = c
    return top


@step("floats, floats, floats, int, float, floats -> float")
def phi_at(h, knots, above, n_knots, e, phi):
    """Φ at the knots: the integral up to there of h' of the law ``above``. Returns U_h of the law."""
    phi[0] = 0.0
    last, value, slope = -1.0, 0.0, 0.0
    total = knots[0] * h_value(h, 1.0)
    for c in range(n_knots - 1):
        if above[c] != last:  # a law of few rewards has few levels
            last = above[c]
            value, slope = h_value(h, last), h_slope(h, last, e)
        phi[c + 1] = phi[c] + (knots[c + 1] - knots[c]) * slope
        total += (knots[c + 1] - knots[c]) * value
    return total


@step("floats, floats, int, int, floats -> none")
def step_law(above, other, n_knots, which, out):
    """A law that is sure to pay at one place: at each knot in turn if there are few, else at quantiles of two laws."""
    cells = n_knots - 1
    at = which
    if cells > FEW_CELLS:
        level, at = (which // 2 + 0.5) / 4.0, 0
        while at < cells - 1 and (above[at] if which % 2 == 0 else other[at]) > 1.0 - level * level:
            at += 1
    for c in range(cells):
        out[c] = 1.0 if c <= at else 0.0


@shared("floats, floats, floats, int, float, floats, floats -> float")
def straight_way(h, knots, above, n_knots, worth, target, law):
    """The relative entropy from a law to the first law worth enough on the straight way to a target that is."""
    lo, hi, cells = 0.0, 1.0, n_knots - 1
    for _ in range(30):
        part = 0.5 * (lo + hi)
        for c in range(cells):
            law[c] = above[c] + part * (target[c] - above[c])
        if utility_of(h, knots, law, n_knots) >= worth:
            hi = part
        else:
            lo = part
    if hi >= 1.0:
        return FAR
    total, before, goal = 0.0, 1.0, 1.0
    for c in range(n_knots):
        after, wish = (above[c], target[c]) if c < cells else (0.0, 0.0)
        share = before - after
        if share > NOTHING:
            total += share * math.log(share / (share + hi * (goal - wish - share)))
        before, goal = after, wish
    return total


@shared("floats, floats, floats, floats, int, float, float, float, int -> float and int")
def to_be_worth(h, knots, above, other, n_knots, worth, e, need, first):
    """The least relative entropy, as far as it is found, from a law to one with U_h ≥ ``worth``; any h.

    U_h is replaced by its slope at a law, the problem solved for that, and again at the answer; for convex h each turn
    is an improvement. It starts from the law itself, from ``other``, and from laws that are sure to pay at one place;
    the start number ``first`` comes first. Only laws that do reach the worth count. Where there are few cells, or
    nothing was found, the straight ways to the starts are tried too. It ends early when less than ``need`` was found.
    Returns also the start that was best.
    """
    cells = n_knots - 1
    own = utility_of(h, knots, above, n_knots)
    if own >= worth:
        return 0.0, 0
    start_law = np.empty(cells)
    share, place, phi = np.empty(n_knots), np.empty(n_knots, np.int64), np.empty(n_knots)
    law, changed = np.empty(cells), np.empty(n_knots)
    used = shares_at(above, n_knots, share, place)
    best, best_start = FAR, first
    steps = cells if cells <= FEW_CELLS else 8
    for turn in range(-1, 2 + steps):
        start = turn if turn >= 0 else first
        if turn == first:
            continue
        if start == 0:
            for c in range(cells):
                law[c] = above[c]
        elif start == 1:
            for c in range(cells):
                law[c] = other[c]
        else:
            step_law(above, other, n_knots, start - 2, law)
        for c in range(cells):
            start_law[c] = law[c]
        last = FAR
        level = worth - phi_at(h, knots, law, n_knots, e, phi)
        reached = level <= 0.0
        for _ in range(6 if start < 2 else 3):
            for c in range(cells):
                level += (phi[c + 1] - phi[c]) * law[c]
            top = top_knot(phi, n_knots)
            found, nu = to_reach(share, place, used, phi, level, phi[top], -1.0, np.inf)
            if found >= FAR or found <= 0.0:
                break
            total = 0.0
            for c in range(n_knots):
                changed[c] = 0.0
            for j in range(used):
                c = place[j]
                changed[c] = share[j] / max(1.0 - nu * (phi[c] - level), 1e-12)
                total += changed[c]
            if total < 1.0:
                changed[top] += 1.0 - total
                total = 1.0
            left = 1.0
            for c in range(cells):
                left -= changed[c] / total
                law[c] = min(max(left, 0.0), 1.0)
            level = worth - phi_at(h, knots, law, n_knots, e, phi)
            if level <= 1e-2 * (worth - own):
                if found < best:
                    best, best_start = found, start
                if abs(found - last) < 1e-2 * found:
                    break
            last = found
        if reached and best >= need and (cells <= FEW_CELLS or best >= FAR):
            found = straight_way(h, knots, above, n_knots, worth, start_law, law)
            if found < best:
                best, best_start = found, start
        if best < need:
            break
    return best, best_start


@step("float, float -> float")
def sure_kl(p, q):
    """Bernoulli relative entropy, also where q is 0 or 1."""
    if q <= 0.0:
        return 0.0 if p <= 0.0 else FAR
    if q >= 1.0:
        return 0.0 if p >= 1.0 else FAR
    return kl(p, q)


@step("floats, float, float, bool -> float")
def nearest_with(h, p, worth, upwards):
    """The nearest u on one side of p with h(u) ≥ worth, or −1. Between its extrema h rises or falls throughout."""
    end = 1.0 if upwards else 0.0
    here, count = p, n_extrema(h)
    for m in range(count + 1):
        there = end
        if m < count:
            there = extremum_place(h, m if upwards else count - 1 - m)
            if (upwards and there <= here) or (not upwards and there >= here):
                continue
        if h_value(h, there) >= worth:
            for _ in range(60):
                middle = 0.5 * (here + there)
                if h_value(h, middle) >= worth:
                    there = middle
                else:
                    here = middle
            return there
        here = there
    return -1.0


@shared("floats, int, float, float, float, float -> float")
def of_coin(h, shape, p, mean, steep, worth):
    """The same two questions for an arm that pays 1 with probability p and else 0, in closed form.

    ``mean`` and ``steep`` are the mixture's mean and the slope of h there.
    """
    least = FAR
    if shape != CONVEX:
        least = sure_kl(p, mean) if steep * (mean - p) > 0.0 else 0.0
    if shape != CONCAVE:
        if h_value(h, p) >= worth:
            return 0.0
        for upwards in (False, True):
            q = nearest_with(h, p, worth, upwards)
            if q >= 0.0:
                least = min(least, sure_kl(p, q))
    return least
