"""The lazy argmax over a grid: only the grid points that may have become the best are worked out again; compiled.

On other than 0/1 rewards a value costs a pass over all cells. But few rewards among many move it little. Every grid
point keeps its last value and what it was made of, and the decisions are those of working out everything each time.

How far can a value have changed? Radii fall, which only lowers optimistic values. For the laws there are two bounds.

1. By distance. A reward moves an arm's law by a known distance in W1 (``travel`` adds them up), and so the mixture's
   utility by at most 𝓛·(its share of that distance)^q. A bound moves no more: in bands the ends of each cell's interval
   move no more than the curve; of balls around two laws, one covers the other if it is widened by their distance.
2. By chords, for metrics where q < 1 and the first bound is weak. With m new rewards among n the arm's survival S
   becomes (1 − θ)S + θ·(that of the new ones), θ = m/n. For concave h each cell then rises and falls at most along
   chords of h that are known beforehand. :func:`chord_bounds` adds them up.
"""

from __future__ import annotations

import numpy as np

from pmbandits.confidence._bounds import (
    BALL,
    BAND,
    EMPIRICAL,
    OPTIMISTIC,
    bound,
    sweep,
    utility,
    wasserstein_radius,
)
from pmbandits.confidence._kernels import NEITHER
from pmbandits.estimates._rewards import FINITE
from pmbandits.metrics.packed import h_max, h_value, has_table, peak_place, single_peak
from pmbandits.mixtures._index import BONUS, BOUND, SURE, TIE, UTILITY, bonus, holder_change
from pmbandits.state.arrays import fill_with
from pmbandits.state.shared import shared, step

NEARBY = 0.0625  # the chords are valid while no survival has moved further


@step("state, int -> bool")
def by_chords(s, kind):
    """Whether the second bound is taken: there is room for it, and the value is concave."""
    return s.n_chords > 0 and (kind != BOUND or s.set_kind == BAND)


@step("state, int -> bool")
def may_be_lazy(s, kind):
    """Whether changes are bounded: radii that fall, none infinite, and one of the two bounds.

    A table of h keeps only the exponent 1. Balls for h neither concave nor convex have values from a table, too.
    """
    lazy = s.n_watched > 0 and s.radii_fall == 1
    if not by_chords(s, kind):
        lazy = lazy and s.holder_c > 0.0 and (s.holder_q == 1.0 or not has_table(s.h))
        if kind == BOUND and s.set_kind == BALL and s.bounded == 1 and s.metric_shape == NEITHER:
            lazy = False
    for i in range(s.n_arms):
        if not s.radius[i] < np.inf:
            lazy = False
    return lazy


@step("state -> none")
def forget_values(s):
    """After a change of the grid nothing that is kept about its points is true."""
    for g in range(s.n_grid):
        s.value_at[g] = 0.0
        s.index_at[g] = 0.0
    s.witness = 0


@shared("state -> two floats")
def rounding_error(s):
    """What rounding can do to a value, and how much more for each unit of the value itself.

    A pass adds up n terms, each partial sum rounded to 1.2e-16 of itself; they are at most |value| and the range of
    the rewards times max|h|. A survival is off by less than (k + 2)·1e-15, and the curve by that times the range in W1;
    where h is concave without exponent 1, its slope at a survival of 1/n is at most n·max|h|. A ball's dual is
    minimised to 1e-12 of its price, which is at most range/radius: far less than the factor for balls.
    """
    reach = 2.0 * s.largest
    each = SURE + 1e-15 * (s.n_arms + 2.0) * s.rewards
    if s.set_kind == BALL and s.bounded == 1:
        each *= 100.0
    most = max(holder_change(s, reach), reach * max(abs(s.peak), abs(h_value(s.h, 1.0))))
    return each * max(1.0, most) + holder_change(s, 1e-15 * (s.n_arms + 2.0) * reach), each


@step("floats, floats, floats -> float")
def distance(a, travel, then):
    """How far in W1 a mixture can have moved since the arms' travel was ``then``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * (travel[i] - then[i])
    return total


@step("state -> float")
def radius_unit(s):
    """Bands are in probability: one unit of them is the support's width in W1."""
    return s.high - s.low if s.set_kind == BAND else 1.0


@step("floats, floats, floats, float, floats, floats, floats, floats, floats, floats -> none")
def add_chords(h, a, radius, width, start, end, rise, fall, narrow, ends):
    """Add neighbouring cells, in which the arms' survivals fall from ``start`` to ``end``, to the bounds.

    Let [l, u] be the interval of a cell and p where h is largest in it (without radii all three are the survival).
    The value rises only where u grows or l falls: at most by the slope of a chord that ends in u, or begins in l. It
    falls only where u or l passes p: at most by the slope of the chord from p to what is nearby. For concave h all four
    are steepest at one end of the run.
    """
    k = a.size
    l0, u0, l1, u1 = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        l0 += a[i] * max(start[i] - radius[i], 0.0)
        u0 += a[i] * min(start[i] + radius[i], 1.0)
        l1 += a[i] * max(end[i] - radius[i], 0.0)
        u1 += a[i] * min(end[i] + radius[i], 1.0)
    rising, falling, to_zero, to_one = 0.0, 0.0, 0.0, 0.0
    if u1 <= 1e-14:
        ends[0] += width
    elif u1 < 1.0 - 1e-14:
        beyond = (1.0 - NEARBY) * u1
        rising = max((h_value(h, u1) - h_value(h, beyond)) / (u1 - beyond), 0.0)
    if l0 >= 1.0 - 1e-14:
        ends[1] += width
    elif l0 > 1e-14:
        beyond = l0 + NEARBY * (1.0 - l0)
        falling = max((h_value(h, l0) - h_value(h, beyond)) / (beyond - l0), 0.0)
    peak = 1.0
    if single_peak(h):
        peak = peak_place(h)
    elif h_value(h, 1.0) < 0.0:
        peak = 0.0
    p0, p1 = min(max(peak, l0), u0), min(max(peak, l1), u1)
    if p1 > 1e-14 and u1 - NEARBY < peak:
        beyond = max(p1 - NEARBY, 0.0)
        to_zero = max((h_value(h, p1) - h_value(h, beyond)) / (p1 - beyond), 0.0)
    if p0 < 1.0 - 1e-14 and l0 + NEARBY > peak:
        beyond = min(p0 + NEARBY, 1.0)
        to_one = max((h_value(h, p0) - h_value(h, beyond)) / (beyond - p0), 0.0)
    for i in range(k):
        up = rising * (1.0 - end[i]) if end[i] + radius[i] < 1.0 else 0.0
        down = falling * start[i] if start[i] > radius[i] else 0.0
        rise[i] += width * a[i] * max(up, down)
        fall[i] += width * a[i] * max(to_zero * start[i], to_one * (1.0 - end[i]))
        narrow[i] += width * a[i] * max(to_zero, to_one)


@shared("state, floats, int, floats, floats, floats, floats -> none")
def chord_bounds(s, a, kind, rise, fall, narrow, ends):
    """By how much a value rises and falls at most for each unit of each arm's θ, and falls for each unit that its
    radius shrinks (``narrow``); ``ends`` are the widths of what lies above all rewards (survival 0) and below (1),
    where h can be vertical.

    Cells whose survivals S and 1 − S differ by less than a fifth are taken together.
    """
    k, finite = s.n_arms, s.mode == FINITE
    cells = s.n_atoms if finite else s.rewards
    points, owner = s.points if finite else s.x, s.owner
    left, each, radius, start, end = np.empty(k), np.empty(k), np.zeros(k), np.ones(k), np.ones(k)
    for i in range(k):
        left[i], each[i] = s.told[i], a[i] / s.told[i]
        if kind == BOUND:
            radius[i] = s.radius[i]
    fill_with(rise, 0.0)
    fill_with(fall, 0.0)
    fill_with(narrow, 0.0)
    fill_with(ends, 0.0)
    before, here, mixed, first = s.low, s.low, 1.0, 1.0
    for cell in range(cells + 1):
        mine = points[cell] if cell < cells else s.high
        if mine > here:  # a cell from here to mine; does it belong to the run that began at ``before``?
            if mixed < 0.8 * first or 1.0 - mixed > 1.2 * (1.0 - first):
                if here > before:
                    add_chords(s.h, a, radius, here - before, start, end, rise, fall, narrow, ends)
                before, first = here, mixed
                for i in range(k):
                    start[i] = left[i] / s.told[i]
            for i in range(k):
                end[i] = left[i] / s.told[i]
            here = mine
        if cell < cells:
            if finite:
                for i in range(k):
                    left[i] -= s.counts[i, cell]
                    mixed -= each[i] * s.counts[i, cell]
            else:
                left[owner[cell]] -= 1.0
                mixed -= each[owner[cell]]
            if cell == cells - 1:
                mixed = 0.0
    if here > before:
        add_chords(s.h, a, radius, here - before, start, end, rise, fall, narrow, ends)


@shared("state, int, int -> none")
def evaluate(s, g, kind):
    """Work out grid point g now, and keep what bounds its change."""
    a = s.grid[g]
    if kind == BOUND:
        s.index[g] = bound(s, a, OPTIMISTIC)
    else:
        s.value[g] = sweep(s, a, EMPIRICAL)
    if s.n_watched == 0:  # nothing bounds it
        return
    chords = by_chords(s, kind)
    if kind == BOUND:
        s.index_at[g] = s.rewards
        basis, radius = s.index_basis[g], s.index_radius[g]
    else:
        s.value_at[g] = s.rewards
        basis, radius = s.value_basis[g], s.value_radius[g]
    for i in range(s.n_arms):
        basis[i] = s.told[i] if chords else s.travel[i]
        radius[i] = s.radius[i]
    if chords and kind == BOUND:
        chord_bounds(s, a, kind, s.index_rise[g], s.index_fall[g], s.index_narrow[g], s.index_ends[g])
    elif chords:
        chord_bounds(s, a, kind, s.value_rise[g], s.value_fall[g], s.value_narrow[g], s.value_ends[g])


@shared("state, int, int -> two floats")
def change_since(s, g, kind):
    """How much the kept value of grid point g can have fallen, and risen, since; without rounding."""
    k, a = s.n_arms, s.grid[g]
    if kind == BOUND:
        basis, radius = s.index_basis[g], s.index_radius[g]
        rises, falls, narrow, ends = s.index_rise, s.index_fall, s.index_narrow, s.index_ends[g]
    else:
        basis, radius = s.value_basis[g], s.value_radius[g]
        rises, falls, narrow, ends = s.value_rise, s.value_fall, s.value_narrow, s.value_ends[g]
    if not by_chords(s, kind):
        change, less = holder_change(s, distance(a, s.travel, basis)), 0.0
        if kind == BOUND:
            for i in range(k):
                less += a[i] * (radius[i] - s.radius[i])
            less = holder_change(s, radius_unit(s) * less)
        return change + less, change
    rise, fall, moved = 0.0, 0.0, 0.0
    for i in range(k):
        theta = 1.0 - basis[i] / s.told[i]
        moved += theta * a[i]
        rise += theta * rises[g, i]
        fall += theta * falls[g, i]
        if kind == BOUND:
            less = radius[i] - s.radius[i]
            moved += less * a[i]
            fall += less * narrow[g, i]
    if ends[0] > 0.0:
        rise += ends[0] * h_max(s.h, 0.0, moved)
    if ends[1] > 0.0:
        rise += ends[1] * (h_max(s.h, 1.0 - moved, 1.0) - h_value(s.h, 1.0))
    return fall if moved < NEARBY else np.inf, rise


@shared("state, int -> int")
def lazy_choice(s, kind):
    """The grid point that working out all of them would choose.

    That is the one with the largest value; of equals the previous one, else the one with the highest utility, else the
    first. ``low`` and ``high`` enclose what a point's value would be; they are equal where it was worked out at this
    look. Every turn of the loop works out one more point, so it ends.
    """
    used, k, before, now = s.used, s.n_arms, s.current, float(s.rewards)
    at, last = s.index_at if kind == BOUND else s.value_at, s.index if kind == BOUND else s.value
    radius = np.zeros(k)
    for i in range(k):
        radius[i] = wasserstein_radius(s, i) if kind == BONUS else s.radius[i]
    off, each = rounding_error(s)
    low, high = np.empty(used), np.empty(used)
    best = -np.inf
    for g in range(used):
        if at[g] == 0.0:
            low[g], high[g] = -np.inf, np.inf
            continue
        low[g] = high[g] = last[g] + bonus(s, s.grid[g], radius, kind)
        if at[g] != now:
            fall, rise = change_since(s, g, kind)
            low[g] -= fall + off + each * abs(low[g])
            high[g] += rise + off + each * abs(high[g])
        best = max(best, low[g])
    while True:
        least = best - TIE * max(1.0, abs(best)) if best > -np.inf else best
        rivals, widest, top = 0, -1, -1
        for g in range(used):
            if high[g] >= least:  # may be as good as the best
                rivals += 1
                top = g
                if high[g] > low[g] and (widest < 0 or high[g] - low[g] > high[widest] - low[widest]):
                    widest = g
        if rivals == 1:
            return top
        if widest < 0:
            break
        evaluate(s, widest, kind)
        low[widest] = high[widest] = last[widest] + bonus(s, s.grid[widest], radius, kind)
        best = max(best, low[widest])
    if before >= 0 and high[before] >= least:
        return before
    chosen, most = -1, -np.inf
    for g in range(used):
        if high[g] >= least:
            if kind == UTILITY:
                return g
            value = utility(s, s.grid[g])
            if chosen < 0 or value > most + TIE * max(1.0, abs(most)):
                chosen, most = g, value
    return chosen
