"""K_inf: how little an arm's distribution must change, in relative entropy, to be in the mixture; compiled.

IMED (Honda and Takemura 2015) has it for an arm's mean. Here it is about the slope of the utility, and,
for h that is not concave, the utility itself. Distributions are rows of the table of ``_survival_table.py``.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX, bernoulli_kl_divergence
from pmbandits.metrics.encoding import (
    extremum_location,
    h_slope,
    h_value,
    is_multiple_of_one_family,
    n_extrema,
    one_family_slope,
    one_family_value,
)
from pmbandits.mixtures._survival_table import ROUNDING_SHARE, utility_of_survival
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step

UNREACHABLE_KL = 1e9  # no change is enough
MAX_SEEN_STEPS = 64  # so many steps of a search are remembered
MAX_CELLS_TO_ENUMERATE = 20  # so many places are tried one by one
SEGMENT_PLACES = 5  # so many places are looked at in each half of a segment
MIN_WEIGHT_OF_POINT_MASSES = 0.2  # an arm with less weight beside others is not tried as a point mass


@shared("floats, ints, int, floats, float, float, float, float, floats -> two floats")
def kl_inf_and_multiplier(
    share: FloatArray,
    place: IntArray,
    used: int,
    phi: FloatArray,
    level: float,
    top: float,
    start: float,
    stop_at: float,
    y: FloatArray,
) -> tuple[float, float]:
    """The least relative entropy to a distribution under which Φ has mean ``level``; and the multiplier ν.

    The dual: the largest over 0 ≤ ν ≤ 1/(top − level) of E log(1 − ν·(Φ − level)), which is concave in ν: Newton's
    method from ``start``, kept between bounds. It ends when ``stop_at`` is reached: then a lower bound.
    ``y`` is scratch memory.
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
        return UNREACHABLE_KL, start
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
        if best >= stop_at or abs(slope) * (hi - lo) <= 1e-3 * best or (r == 1.0 and slope >= 0.0):
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
def kl_inf_dual_and_slope(
    share: FloatArray, place: IntArray, used: int, phi: FloatArray, level: float, nu: float
) -> tuple[float, float]:
    """The dual E log(1 − ν·(Φ − level)), which :func:`kl_inf_and_multiplier` maximises, and its slope in ν."""
    value, slope = 0.0, 0.0
    for c in range(used):
        above = phi[place[c]] - level
        z = max(1.0 - nu * above, 1e-12)
        value += share[c] * math.log(z)
        slope -= share[c] * above / z
    return value, slope


@step("floats, ints, int, int, int, ints, floats -> int")
def fill_merged_support_knots(
    share: FloatArray, place: IntArray, used: int, last: int, extra: int, at: IntArray, mass: FloatArray
) -> int:
    """The knots at which a distribution may change (with rewards, one more, both ends), and the share at each.

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
def argmax_knot(phi: FloatArray, at: IntArray, m: int) -> int:
    """The knot, of m of them, at which Φ is largest; the last of equals."""
    top = at[0]
    for j in range(1, m):
        if phi[at[j]] >= phi[top]:
            top = at[j]
    return top


@step("floats, float, int, float -> float")
def pooled_share(rest: FloatArray, weight: float, c: int, share: float) -> float:
    """The share of rewards above in cell c, of a distribution with a weight beside ``rest``; empty: of it alone."""
    return share if rest.size == 0 else rest[c] + weight * share


@step("floats, floats, floats, floats, float, ints, int, float, floats -> float")
def fill_influence_at_knots(
    h: FloatArray, knots: FloatArray, survival: FloatArray, rest: FloatArray, weight: float, at: IntArray, m: int,
    slope_step: float, phi: FloatArray,
) -> float:  # fmt: skip
    """Φ at m knots: the integral up to there of h' of the survival. Returns U_h of the distribution.

    The share of rewards after the j-th of these knots is ``survival[j]``; beside a rest, that of :func:`pooled_share`.
    """
    phi[at[0]] = 0.0
    last, value, slope, alone = -1.0, 0.0, 0.0, is_multiple_of_one_family(h)
    total = knots[0] * h_value(h, 1.0)
    for j in range(m - 1):
        here = pooled_share(rest, weight, at[j], survival[j])
        if here != last:  # a distribution of few rewards has few levels
            last = here
            if alone:
                value, slope = one_family_value(h, last), one_family_slope(h, last, slope_step)
            else:
                value, slope = h_value(h, last), h_slope(h, last, slope_step)
        width = knots[at[j + 1]] - knots[at[j]]
        phi[at[j + 1]] = phi[at[j]] + width * slope
        total += width * value
    return total


@step("floats, floats, int, int -> int")
def point_mass_knot(above: FloatArray, other: FloatArray, n_knots: int, which: int) -> int:
    """The knot of the ``which``-th point mass to try: each knot if they are few, else quantiles of the two inputs."""
    cells = n_knots - 1
    if cells <= MAX_CELLS_TO_ENUMERATE:
        return which + 1 if which < cells else 0
    level = (which // 2 + 0.5) / 4.0
    lo, hi = 0, cells - 1  # the first cell above which there is no more than 1 − level²
    while lo < hi:
        middle = (lo + hi) // 2
        if (above[middle] if which % 2 == 0 else other[middle]) > 1.0 - level * level:
            lo = middle + 1
        else:
            hi = middle
    return lo + 1


@step("floats, floats, float -> float")
def kl_at_part_of_segment(above: FloatArray, target: FloatArray, part: float) -> float:
    """The relative entropy to a distribution on the segment to a target; both are given by their survivals."""
    total, before, goal, cells = 0.0, 1.0, 1.0, target.size
    for c in range(cells + 1):
        after, wish = (above[c], target[c]) if c < cells else (0.0, 0.0)
        share = before - after
        if share > ROUNDING_SHARE:
            changed = share + part * (goal - wish - share)
            if changed <= 0.0:
                return UNREACHABLE_KL
            total += share * math.log(share / changed)
        before, goal = after, wish
    return total


@shared("floats, floats, floats, floats, floats, float, int, float, int, bool, float -> float")
def kl_along_segment(
    h: FloatArray,
    knots: FloatArray,
    above: FloatArray,
    other: FloatArray,
    rest: FloatArray,
    weight: float,
    n_knots: int,
    target_utility: float,
    point_mass_at: int,
    only_end: bool,
    stop_at: float,
) -> float:
    """The relative entropy to the first distribution with enough utility on the segment to a target.

    The target is the point mass at the knot ``point_mass_at``; if that is negative, ``other``. On the segment the
    utility can rise and fall again, so places that are denser at both ends are looked at; or just the end, as for
    convex h, if ``only_end``. What is not less than ``stop_at`` need not be found.
    """
    lo, hi, cells = 0.0, 0.0, n_knots - 1
    survival, target = np.empty(cells), np.empty(cells)
    for c in range(cells):
        target[c] = other[c] if point_mass_at < 0 else 1.0 if c < point_mass_at else 0.0
    last = 0 if only_end else 2 * SEGMENT_PLACES
    for turn in range(last + 31):
        part = 0.5 * (lo + hi)
        if hi == 0.0:  # not reached yet
            part = 1.0 / (1.0 + 8.0 ** (SEGMENT_PLACES - turn)) if turn < last else 1.0
        for c in range(cells):
            survival[c] = pooled_share(rest, weight, c, above[c] + part * (target[c] - above[c]))
        if utility_of_survival(h, knots, survival, n_knots) >= target_utility:
            if hi == 0.0 and kl_at_part_of_segment(above, target, lo) >= stop_at:
                return UNREACHABLE_KL
            hi = part
        elif part == 1.0:
            return UNREACHABLE_KL
        else:
            lo = part
        if hi - lo <= 1e-3 * hi and hi > 0.0:
            break
    return kl_at_part_of_segment(above, target, hi)


@shared(
    "floats, bool, floats, floats, floats, floats, float, int, floats, ints, int, float, float, float, float, int -> "
    "float and int"
)
def kl_to_reach_utility(
    h: FloatArray,
    convex: bool,
    knots: FloatArray,
    above: FloatArray,
    other: FloatArray,
    rest: FloatArray,
    weight: float,
    n_knots: int,
    share: FloatArray,
    place: IntArray,
    used: int,
    own_utility: float,
    target_utility: float,
    slope_step: float,
    stop_at: float,
    first: int,
) -> tuple[float, int]:
    """The least relative entropy that is found to a distribution with U_h ≥ ``target_utility``; any h.

    The arm has ``share`` of its rewards at the knots ``place``, and U_h = ``own_utility``. U_h is replaced by its slope
    at a distribution, that is solved, and again at the answer; for convex h each turn is an improvement. It starts
    from the arm itself, from ``other``, and from point masses; the start number ``first`` comes first. Only
    distributions that reach the utility count. With few cells, or if nothing was found, the straight ways to the starts
    are tried too (for ``convex`` h only if their ends have enough utility). It ends when less than ``stop_at`` was
    found. Returns also the start that was best.

    If ``rest`` is not empty, it is U_h of the distribution with this weight beside the rest (which has what is left of
    1). The smaller the weight, the straighter U_h is, so that fewer point masses are tried.
    """
    if own_utility >= target_utility:
        return 0.0, 0
    cells = n_knots - 1
    phi, scratch, survival = np.empty(n_knots), np.empty(n_knots), np.empty(n_knots)
    changed, mass, at = np.empty(n_knots), np.empty(n_knots), np.empty(n_knots, np.int64)
    best, best_start = UNREACHABLE_KL, first
    few = cells <= MAX_CELLS_TO_ENUMERATE
    steps = 8 if not few else cells if convex else n_knots
    if weight < MIN_WEIGHT_OF_POINT_MASSES:
        steps = 0
    seen, count = np.empty((MAX_SEEN_STEPS, 3)), 0  # from which slopes it went on: their level and mean, and turns left
    for turn in range(-1, 2 + steps):
        start = turn if turn >= 0 else first
        if turn == first:
            continue
        point_mass_at = point_mass_knot(above, other, n_knots, start - 2) if start >= 2 else -1
        if start == 1 or rest.size > 0:
            m = n_knots
            for c in range(n_knots):
                at[c] = c
                survival[c] = other[c] if start == 1 else above[c] if start == 0 else 1.0 if c < point_mass_at else 0.0
        else:
            m = fill_merged_support_knots(share, place, used, cells, point_mass_at, at, mass)
            for j in range(m - 1):
                survival[j] = above[at[j]] if start == 0 else 1.0 if at[j] < point_mass_at else 0.0
        last = UNREACHABLE_KL
        level = target_utility - fill_influence_at_knots(h, knots, survival, rest, weight, at, m, slope_step, phi)
        reached = level <= 0.0
        for left_over in range(5 if start < 2 else 2, -1, -1):
            level /= weight
            for j in range(m - 1):
                level += (phi[at[j + 1]] - phi[at[j]]) * survival[j]
            top, mean, known = argmax_knot(phi, at, m), 0.0, False
            for j in range(used):
                mean += share[j] * phi[place[j]]
            for j in range(count):  # two starts often meet; from there on nothing new would be found
                same = abs(seen[j, 0] - level) + abs(seen[j, 1] - mean) <= 1e-12 * phi[top]
                known |= same and seen[j, 2] >= left_over
            if known:
                break
            found, nu = kl_inf_and_multiplier(share, place, used, phi, level, phi[top], -1.0, np.inf, scratch)
            if found >= UNREACHABLE_KL or found <= 0.0:
                break
            total = 0.0
            for j in range(used):
                changed[j] = share[j] / max(1.0 - nu * (phi[place[j]] - level), 1e-12)
                total += changed[j]
            added, total, before = max(1.0 - total, 0.0), max(total, 1.0), level
            if rest.size == 0:
                m = fill_merged_support_knots(changed, place, used, cells, top, at, mass)
            else:
                m = n_knots
                fill_array_with(mass, 0.0)
                for c in range(n_knots):
                    at[c] = c
                for j in range(used):
                    mass[place[j]] = changed[j]
            left = 1.0
            for j in range(m - 1):
                left -= (mass[j] + added if at[j] == top else mass[j]) / total
                survival[j] = min(max(left, 0.0), 1.0)
            level = target_utility - fill_influence_at_knots(h, knots, survival, rest, weight, at, m, slope_step, phi)
            if level <= 1e-2 * (target_utility - own_utility):
                if found < best:
                    best, best_start = found, start
                if abs(found - last) < 1e-2 * found:
                    break
            last = found
            if count < MAX_SEEN_STEPS:
                seen[count, 0], seen[count, 1], seen[count, 2] = before, mean, left_over
                count += 1
        if best >= stop_at and (reached or not convex) and (few or (reached and best >= UNREACHABLE_KL)):
            ends = convex or not few
            found = kl_along_segment(
                h, knots, above, other, rest, weight, n_knots, target_utility, point_mass_at, ends, best
            )
            if found < best:
                best, best_start = found, start
        if best < stop_at:
            break
    return best, best_start


@step("float, float -> float")
def bernoulli_kl_also_at_0_and_1(p: float, q: float) -> float:
    """Bernoulli relative entropy, also where q is 0 or 1."""
    if q <= 0.0:
        return 0.0 if p <= 0.0 else UNREACHABLE_KL
    if q >= 1.0:
        return 0.0 if p >= 1.0 else UNREACHABLE_KL
    return bernoulli_kl_divergence(p, q)


@step("floats, float, float, bool -> float")
def nearest_mean_with_utility(h: FloatArray, p: float, target_utility: float, upwards: bool) -> float:
    """The nearest u on one side of p with h(u) ≥ target_utility, or −1. Between extrema h is monotone."""
    end = 1.0 if upwards else 0.0
    here, count = p, n_extrema(h)
    for m in range(count + 1):
        there = end
        if m < count:
            there = extremum_location(h, m if upwards else count - 1 - m)
            if (upwards and there <= here) or (not upwards and there >= here):
                continue
        if h_value(h, there) >= target_utility:
            for _ in range(60):
                middle = 0.5 * (here + there)
                if h_value(h, middle) >= target_utility:
                    there = middle
                else:
                    here = middle
            return there
        here = there
    return -1.0


@shared("floats, float -> two floats")
def range_of_means_with_utility(h: FloatArray, target_utility: float) -> tuple[float, float]:
    """The least and the largest u with h(u) ≥ target_utility; or 2 and −1 if none is found."""
    first, last = 0.0, 1.0
    if h_value(h, 0.0) < target_utility:
        first = nearest_mean_with_utility(h, 0.0, target_utility, True)
    if h_value(h, 1.0) < target_utility:
        last = nearest_mean_with_utility(h, 1.0, target_utility, False)
    return first if first >= 0.0 else 2.0, last


@shared("floats, int, float, float, float, float, float, float -> float")
def bernoulli_kl_inf(
    h: FloatArray, shape: int, p: float, mean: float, steep: float, target_utility: float, first: float, last: float
) -> float:
    """The least relative entropy for a Bernoulli(p) arm to deserve a place in the mixture, in closed form.

    ``mean`` and ``steep`` are the mixture's mean and the slope of h there; ``first`` and ``last`` are those of
    :func:`range_of_means_with_utility`. Beyond them the nearest u is known.
    """
    least = UNREACHABLE_KL
    if shape != CONVEX:
        least = bernoulli_kl_also_at_0_and_1(p, mean) if steep * (mean - p) > 0.0 else 0.0
    if shape != CONCAVE:
        if h_value(h, p) >= target_utility:
            return 0.0
        for upwards in (False, True):
            q = -1.0
            if p < first or p > last:
                q = first if upwards and p < first and first <= 1.0 else last if not upwards and p > last else -1.0
            else:
                q = nearest_mean_with_utility(h, p, target_utility, upwards)
            if q >= 0.0:
                least = min(least, bernoulli_kl_also_at_0_and_1(p, q))
    return least
