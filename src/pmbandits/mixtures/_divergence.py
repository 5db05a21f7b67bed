"""How little an arm's law must change, in relative entropy, to deserve a place in the mixture; compiled.

This is what IMED (Honda and Takemura 2015) asks of an arm's mean. Here it is asked of the slope of the utility, and,
for h that is not concave, of the utility itself. Laws are rows of the table of ``_laws.py``.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._kernels import CONCAVE, CONVEX, kl
from pmbandits.metrics.packed import (
    extremum_place,
    h_slope,
    h_value,
    is_one_family,
    n_extrema,
    one_family_slope,
    one_family_value,
)
from pmbandits.mixtures._laws import NOTHING, utility_of
from pmbandits.state.shared import shared, step

FAR = 1e9  # no change is enough
MEMORY = 64  # so many steps of a search are remembered
FEW_CELLS = 20  # so many places are tried one by one


@shared("floats, ints, int, floats, float, float, float, float, floats -> two floats")
def to_reach(share, place, used, phi, level, top, start, need, y):
    """The least relative entropy from a law to one under which Φ has the mean ``level``; and where it was found.

    The dual: the largest over 0 ≤ ν ≤ 1/(top − level) of E log(1 − ν·(Φ − level)), which is concave in ν: Newton's
    method from ``start``, kept between bounds. It ends when ``need`` is reached: the answer is then a lower bound.
    ``y`` is room to work in.
    """
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


@step("floats, ints, int, int, int, ints, floats -> int")
def lay_places(share, place, used, last, extra, at, mass):
    """Where a law may change: at the knots that have rewards, at one more, and at both ends; and the share at each.

    Returns how many there are. Between two of them Φ is straight, so all else follows from these.
    """
    m = 0
    for j in range(used + 1):
        here = place[j] if j < used else last
        if m == 0 and here > 0:
            at[0], mass[0], m = 0, 0.0, 1
        if m > 0 and extra > at[m - 1] and extra < here:
            at[m], mass[m] = extra, 0.0
            m += 1
        if m == 0 or here > at[m - 1]:
            at[m], mass[m] = here, share[j] if j < used else 0.0
            m += 1
    return m


@step("floats, ints, int -> int")
def top_place(phi, at, m):
    """The knot, of m of them, at which Φ is largest; the last of equals."""
    top = at[0]
    for j in range(1, m):
        if phi[at[j]] >= phi[top]:
            top = at[j]
    return top


@step("floats, floats, floats, ints, int, float, floats -> float")
def phi_at(h, knots, law, at, m, e, phi):
    """Φ at m knots: the integral up to there of h' of the law. Returns U_h of it.

    The share of rewards after the j-th of these knots is ``law[j]``.
    """
    phi[at[0]] = 0.0
    last, value, slope, alone = -1.0, 0.0, 0.0, is_one_family(h)
    total = knots[0] * h_value(h, 1.0)
    for j in range(m - 1):
        if law[j] != last:  # a law of few rewards has few levels
            last = law[j]
            if alone:
                value, slope = one_family_value(h, last), one_family_slope(h, last, e)
            else:
                value, slope = h_value(h, last), h_slope(h, last, e)
        width = knots[at[j + 1]] - knots[at[j]]
        phi[at[j + 1]] = phi[at[j]] + width * slope
        total += width * value
    return total


@step("floats, floats, int, int -> int")
def sure_place(above, other, n_knots, which):
    """The place of a law that pays at one place only: each knot in turn if they are few, else quantiles of two laws."""
    cells = n_knots - 1
    if cells <= FEW_CELLS:
        return which + 1
    level = (which // 2 + 0.5) / 4.0
    lo, hi = 0, cells - 1  # the first cell above which there is no more than 1 − level²
    while lo < hi:
        middle = (lo + hi) // 2
        if (above[middle] if which % 2 == 0 else other[middle]) > 1.0 - level * level:
            lo = middle + 1
        else:
            hi = middle
    return lo + 1


@shared("floats, floats, floats, floats, int, float, int -> float")
def straight_way(h, knots, above, other, n_knots, worth, sure):
    """The relative entropy from a law to the first law worth enough on the straight way to a target that is.

    The target is the law that is sure to pay at the knot ``sure``; if that is negative, ``other``.
    """
    lo, hi, cells = 0.0, 1.0, n_knots - 1
    law, target = np.empty(cells), np.empty(cells)
    for c in range(cells):
        target[c] = other[c] if sure < 0 else 1.0 if c < sure else 0.0
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


@shared("floats, floats, floats, floats, int, floats, ints, int, float, float, float, float, int -> float and int")
def to_be_worth(h, knots, above, other, n_knots, share, place, used, own, worth, e, need, first):
    """The least relative entropy, as far as it is found, from a law to one with U_h ≥ ``worth``; any h.

    The law has the ``share`` of its rewards at the knots ``place``, and is worth ``own``. U_h is replaced by its slope
    at a law, the problem solved for that, and again at the answer; for convex h each turn is an improvement. It starts
    from the law itself, from ``other``, and from laws that are sure to pay at one place; the start number ``first``
    comes first. Only laws that do reach the worth count. Where there are few cells, or nothing was found, the straight
    ways to the starts are tried too. It ends early when less than ``need`` was found. Returns also the start that was
    best.
    """
    if own >= worth:
        return 0.0, 0
    cells = n_knots - 1
    phi, room, law = np.empty(n_knots), np.empty(n_knots), np.empty(n_knots)
    changed, mass, at = np.empty(n_knots), np.empty(n_knots), np.empty(n_knots, np.int64)
    best, best_start = FAR, first
    steps = cells if cells <= FEW_CELLS else 8
    seen, count = np.empty((MEMORY, 3)), 0  # from which slopes it went on: their level and mean, and turns left
    for turn in range(-1, 2 + steps):
        start = turn if turn >= 0 else first
        if turn == first:
            continue
        sure = sure_place(above, other, n_knots, start - 2) if start >= 2 else -1
        if start == 1:
            m = n_knots
            for c in range(n_knots):
                at[c], law[c] = c, other[c]
        else:
            m = lay_places(share, place, used, cells, sure, at, mass)
            for j in range(m - 1):
                law[j] = above[at[j]] if start == 0 else 1.0 if at[j] < sure else 0.0
        last = FAR
        level = worth - phi_at(h, knots, law, at, m, e, phi)
        reached = level <= 0.0
        for left_over in range(5 if start < 2 else 2, -1, -1):
            for j in range(m - 1):
                level += (phi[at[j + 1]] - phi[at[j]]) * law[j]
            top, mean, known = top_place(phi, at, m), 0.0, False
            for j in range(used):
                mean += share[j] * phi[place[j]]
            for j in range(count):  # two starts often meet; from there on nothing new would be found
                same = abs(seen[j, 0] - level) + abs(seen[j, 1] - mean) <= 1e-12 * phi[top]
                known |= same and seen[j, 2] >= left_over
            if known:
                break
            found, nu = to_reach(share, place, used, phi, level, phi[top], -1.0, np.inf, room)
            if found >= FAR or found <= 0.0:
                break
            total = 0.0
            for j in range(used):
                changed[j] = share[j] / max(1.0 - nu * (phi[place[j]] - level), 1e-12)
                total += changed[j]
            rest, total, before = max(1.0 - total, 0.0), max(total, 1.0), level
            m = lay_places(changed, place, used, cells, top, at, mass)
            left = 1.0
            for j in range(m - 1):
                left -= (mass[j] + rest if at[j] == top else mass[j]) / total
                law[j] = min(max(left, 0.0), 1.0)
            level = worth - phi_at(h, knots, law, at, m, e, phi)
            if level <= 1e-2 * (worth - own):
                if found < best:
                    best, best_start = found, start
                if abs(found - last) < 1e-2 * found:
                    break
            last = found
            if count < MEMORY:
                seen[count, 0], seen[count, 1], seen[count, 2] = before, mean, left_over
                count += 1
        if reached and best >= need and (cells <= FEW_CELLS or best >= FAR):
            found = straight_way(h, knots, above, other, n_knots, worth, sure)
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


@step("floats, float -> two floats")
def good_means(h, worth):
    """The least and the largest u with h(u) ≥ worth; or 2 and −1 if none is found."""
    first, last = 0.0, 1.0
    if h_value(h, 0.0) < worth:
        first = nearest_with(h, 0.0, worth, True)
    if h_value(h, 1.0) < worth:
        last = nearest_with(h, 1.0, worth, False)
    return first if first >= 0.0 else 2.0, last


@shared("floats, int, float, float, float, float, float, float -> float")
def of_coin(h, shape, p, mean, steep, worth, first, last):
    """The same two questions for an arm that pays 1 with probability p and else 0, in closed form.

    ``mean`` and ``steep`` are the mixture's mean and the slope of h there; ``first`` and ``last`` are those of
    :func:`good_means`. Beyond them the nearest u is known.
    """
    least = FAR
    if shape != CONVEX:
        least = sure_kl(p, mean) if steep * (mean - p) > 0.0 else 0.0
    if shape != CONCAVE:
        if h_value(h, p) >= worth:
            return 0.0
        for upwards in (False, True):
            q = -1.0
            if p < first or p > last:
                q = first if upwards and p < first and first <= 1.0 else last if not upwards and p > last else -1.0
            else:
                q = nearest_with(h, p, worth, upwards)
            if q >= 0.0:
                least = min(least, sure_kl(p, q))
    return least
