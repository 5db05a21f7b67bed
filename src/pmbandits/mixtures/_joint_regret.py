"""Joint regret bound: both mixtures are bounded for the same distributions of the arms; compiled.

The rival's largest utility less the least utility of a mixture a is more than a's regret: the two are at
ends for different distributions. For concave h both can be bounded jointly. Let each arm's survival lie between ends,
S_i in [l_i, u_i], in each cell of the support. For a rival b let D = Σ (b_i − a_i)·S_i be the difference of both
survivals; its upper end has u_i where b_i > a_i and l_i where b_i < a_i, and its lower end the other way round. The
survival s of a itself lies between A = Σ a_i·l_i and B = Σ a_i·u_i. In that cell b is ahead of a by

    h(s + D) − h(s) ≤ ψ(D),  with ψ(D) = h(A + D) − h(A) for D ≥ 0, and h(B + D) − h(B) for D ≤ 0,

since h(s + D) − h(s) falls with s for D ≥ 0 and rises with s for D ≤ 0. ψ has a convex corner at 0. The least concave
function above it joins its two sides by a line: with the slope m = (h(B) − h(A))/(B − A) of the chord, and where v is
where h is furthest above the chord, from D = v − B to D = v − A. (There both sides have the slope h'(v) = m, and they
are m·(B − A) apart.) Among the rivals that give more than a to the same arms, the ends of D are linear in b. So the sum
over cells of the largest value between D's ends is concave in b: it is climbed, and its slopes give a certificate, as
everywhere. There is one such program for each choice of the arms of a that get more; arms that a leaves out can get
more only.

This treats s and D as if they had nothing to do with each other. A second bound does not. Since the weights of b and of
a add up to the same, D = Σ (b_i − a_i)·(S_i − s). For every number m the tangent at s + m gives

    h(s + D) − h(s) ≤ [h(s + m) − h(s) − m·h'(s + m)] + Σ (b_i − a_i)·(S_i − s)·h'(s + m).

Each (S_i − s)·h'(s + m) is taken at its largest where b_i > a_i, and at its smallest where b_i < a_i, over all S_i and
s that go together. So the right side is linear in b. In each cell the smaller one of both bounds counts. m is
the middle of D. Where h'' is monotone, both maxima have closed forms. The bracket
is monotone in s. And the distance of h' from its chord over [A + m, B + m] is concave or convex, so it is at most twice
that in the middle; with the chord in place of h', the product is quadratic in s.

What is left is of second order: where no arm is known to deserve more, b − a is small, and so is what the sets'
width does to D. So this bound falls like 1/n where the other falls like 1/√n.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._bounds import update_confidence_sets
from pmbandits.confidence._envelopes import (
    bounds_survival_pointwise,
    end_of_cell,
    n_cells_below_last,
    start_cell_walk_in_place,
    walk_past_cell_in_place,
)
from pmbandits.confidence._golden_section import (
    HI,
    LO,
    golden_section_best,
    golden_section_next_point,
    golden_section_start,
    golden_section_tell,
)
from pmbandits.confidence._sub_gaussian import fill_sub_gaussian_cells
from pmbandits.estimates._rewards import BINARY, sort_pool
from pmbandits.metrics.encoding import h_max, h_min, h_slope, h_value, has_monotone_curvature
from pmbandits.mixtures._optimistic_bound import CERTIFICATE_SLOPE_STEP, slope_error_near_0_and_1
from pmbandits.mixtures._pairwise_ascent import frank_wolfe_gap, steepest_pair_of_arms
from pmbandits.state.arrays import copy_numbers_into, fill_array_with
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State, unpack

MIN_DISTANCE = 1e-3  # from 0 and 1, of the survivals at which slopes of h are taken in linear bounds


@shared("state, floats, table, table -> int")
def fill_merged_sub_gaussian_cells(s: State, width: FloatArray, low: FloatArray, high: FloatArray) -> int:
    """Survival bounds by cell, for sub-Gaussian rewards in KL bands; cells are merged if there are too many."""
    fill_sub_gaussian_cells(s)
    used, current = -1, -1
    for c in range(s.n_line_cells):
        group = c * width.size // max(s.n_line_cells, width.size)
        if group != current:
            used += 1
            current, width[used] = group, 0.0
            for i in range(s.n_arms):
                high[used, i] = s.line_upper[c, i]
        width[used] += s.line_width[c]
        for i in range(s.n_arms):
            low[used, i] = s.line_lower[c, i]
    return used + 1


@kernel
def fill_survival_bounds_by_cell(memory: int, width: FloatArray, low: FloatArray, high: FloatArray) -> int:
    """The cells of the support, at most ``width.size``, and the ends of each arm's survival in them.

    Where cells are put together an arm's lower end is that of the last one, and the upper end that of the first one:
    survivals fall, so both hold in all of them. Returns the number of cells; 0 if sets do not limit survivals by cells.
    """
    s = unpack(memory)
    update_confidence_sets(s)
    k = s.n_arms
    if s.storage_mode == BINARY:
        width[0] = 1.0
        for i in range(k):
            low[0, i], high[0, i] = s.lower[i], s.upper[i]
        return 1
    if not bounds_survival_pointwise(s) or s.moment_order > 0.0:
        return 0
    if s.sub_gaussian_sigma > 0.0:
        return fill_merged_sub_gaussian_cells(s, width, low, high)
    sort_pool(s)
    cells = n_cells_below_last(s)
    left, floor, top = s.n_rewards.copy(), np.empty(k), np.empty(k)
    share_errors = start_cell_walk_in_place(s, left, floor, top)
    before, used, current = s.low, -1, -1
    for c in range(cells + 1):
        here = end_of_cell(s, c)
        if here > before:
            group = c * width.size // (cells + 1)
            if group != current:
                used += 1
                current, width[used] = group, 0.0
                for i in range(k):
                    high[used, i] = top[i]
            width[used] += here - before
            for i in range(k):
                low[used, i] = floor[i]
            before = here
        if c < cells:
            walk_past_cell_in_place(s, c, left, floor, top, share_errors)
    return used + 1


@shared("floats, float, float -> two floats")
def argmax_above_chord(h: FloatArray, low: float, high: float) -> tuple[float, float]:
    """The v in [low, high] where concave h is furthest above its chord; and how much further it may be elsewhere."""
    if not high > low:
        return low, 0.0
    slope = (h_value(h, high) - h_value(h, low)) / (high - low)
    search = golden_section_start(low, high)
    for _ in range(34):
        u = golden_section_next_point(search)
        golden_section_tell(search, h_value(h, u) - slope * u)
    v, top = golden_section_best(search)
    lo, hi = search[LO], search[HI]
    # To the right of v it rises by no more than the slope from lo to v says, and to the left likewise.
    rise = max(top - (h_value(h, lo) - slope * lo), 0.0) * (hi - v) / max(v - lo, 1e-300)
    fall = max(top - (h_value(h, hi) - slope * hi), 0.0) * (v - lo) / max(hi - v, 1e-300)
    return v, max(rise, fall)


@kernel
def fill_mixture_survival_bounds(
    h: FloatArray,
    a: FloatArray,
    width: FloatArray,
    low: FloatArray,
    high: FloatArray,
    cells: int,
    least: FloatArray,
    most: FloatArray,
    chord_peak: FloatArray,
) -> float:
    """The ends of the survival of the mixture a in each cell, and v; returns what is lost because v is not exact."""
    lost = 0.0
    for c in range(cells):
        lower, upper, distance_to_1 = 0.0, 0.0, 0.0
        for i in range(a.size):
            lower += a[i] * low[c, i]
            upper += a[i] * high[c, i]
            distance_to_1 += a[i] * (1.0 - high[c, i])
        least[c], most[c] = lower, upper if upper < 0.5 else 1.0 - distance_to_1
        chord_peak[c], more = argmax_above_chord(h, least[c], most[c])
        lost += width[c] * more
    return lost


@step("float, float, float, float, float, float, float, float -> float")
def arm_survival_at(
    sign: float, s: float, a: float, low: float, high: float, least: float, most: float, zero: float
) -> float:
    """The survival S of an arm for which sign·(S − s)·(zero − s) is largest, if that of the mixture is s."""
    if sign * (zero - s) < 0.0:
        others = s - most + a * high
        return low if others <= a * low else others / a
    others = s - least + a * low
    return high if others >= a * high else others / a


@step("float, float, float, float, float, float, float -> float")
def extreme_lead_rate(sign: float, a: float, low: float, high: float, least: float, most: float, zero: float) -> float:
    """The largest (sign 1) or smallest (sign −1) value of (S − s)·(zero − s).

    S is an arm's survival, in [low, high], and s that of the mixture, in [least, most], in which the arm has the share
    a. At each s the best S is one end of what is possible. On each side of ``zero`` this end is linear in s up to a
    corner, and S = low or high beyond it. So the product is quadratic in s: it is largest (or smallest) at the vertex
    of one of the two pieces, as far as that piece reaches, or at an end of the side.
    """
    if a >= 1.0:
        return 0.0
    a = a if a > 1e-6 else 0.0  # as if S and s had nothing to do with each other: safe, and free of rounding
    rising, falling = least + a * (high - low), most - a * (high - low)  # where S reaches high, and leaves low
    best = 0.0 if least <= zero <= most else -np.inf
    for side in range(2):
        if side == 0 and zero > least:
            vertex = (least - a * low) / (1.0 - a) if sign > 0.0 else low
            corner, end = rising if sign > 0.0 else falling, min(zero, most)
            place = min(max(0.5 * (zero + vertex), least), max(min(corner, end), least))
        elif side == 1 and zero < most:
            vertex = (most - a * high) / (1.0 - a) if sign > 0.0 else high
            corner, end = falling if sign > 0.0 else rising, max(zero, least)
            place = max(min(0.5 * (zero + vertex), most), min(max(corner, end), most))
        else:
            continue
        for s in (place, end):
            best = max(best, sign * (arm_survival_at(sign, s, a, low, high, least, most, zero) - s) * (zero - s))
    return sign * best


@shared("floats, floats, floats, floats, floats, floats, float, float, floats -> float")
def linear_lead_bound(
    h: FloatArray,
    a: FloatArray,
    b: FloatArray,
    more: FloatArray,
    low: FloatArray,
    high: FloatArray,
    least: float,
    most: float,
    rates: FloatArray,
) -> float:
    """Upper bound on h at b's survival less h at a's, in one cell, that is linear in b: ``rates`` gets its slopes.

    It is for h whose second derivative is monotone, and infinite if survivals are next to 0 or 1.
    """
    m = 0.0
    for i in range(a.size):
        m += 0.5 * (b[i] - a[i]) * (low[i] + high[i])
    m = min(max(m, MIN_DISTANCE - least), 1.0 - MIN_DISTANCE - most)
    bottom, top = least + m, most + m
    if min(bottom, 1.0 - top) < 0.99 * MIN_DISTANCE:
        return np.inf
    step = 1e-4 * min(bottom, 1.0 - top, 0.01)
    first, half, last = h_slope(h, bottom, step), h_slope(h, 0.5 * (bottom + top), step), h_slope(h, top, step)
    bend = max((first - last) / (most - least), 1e-9) if most > least else 1e-9
    zero, off = least + first / bend, abs(first + last - 2.0 * half)
    total = max(h_value(h, bottom) - h_value(h, least) - first * m, h_value(h, top) - h_value(h, most) - last * m)
    for i in range(a.size):
        sign = 2.0 * more[i] - 1.0
        rates[i] = bend * extreme_lead_rate(sign, a[i], low[i], high[i], least, most, zero)
        rates[i] += sign * off * max(high[i] - least, most - low[i])
        total += (b[i] - a[i]) * rates[i]
    return total


@shared(
    "floats, floats, floats, floats, floats, table, table, int, floats, floats, floats, floats, floats, floats -> float"
)
def joint_lead_bound_and_gradient(
    h: FloatArray,
    a: FloatArray,
    b: FloatArray,
    more: FloatArray,
    width: FloatArray,
    low: FloatArray,
    high: FloatArray,
    cells: int,
    least: FloatArray,
    most: FloatArray,
    chord_peak: FloatArray,
    share: FloatArray,
    tie: FloatArray,
    slope: FloatArray,
) -> float:
    """Upper bound on U_h(b) − U_h(a): the sum over cells. ``slope`` gets the gradient in b.

    ``more`` is 1 where b has at least a's share, and 0 where it has at most that. Where h'' is monotone,
    the smaller one of two bounds counts in each cell. With ``share`` above 0 it is this share of the second one and
    the rest of the first one: not smaller, but concave in b. ``tie`` gets a share for each cell that makes it so here.
    """
    k, total, rates, smooth = a.size, 0.0, np.empty(a.size), has_monotone_curvature(h)
    fill_array_with(slope, 0.0)
    for c in range(cells):
        up, down = 0.0, 0.0
        for i in range(k):
            d = b[i] - a[i]
            if more[i] == 1.0:
                up += d * high[c, i]
                down += d * low[c, i]
            else:
                up += d * low[c, i]
                down += d * high[c, i]
        lower, upper, v, wide = least[c], most[c], chord_peak[c], width[c]
        at_low, at_high, at_v = h_value(h, lower), h_value(h, upper), h_value(h, v)
        chord = (at_high - at_low) / (upper - lower) if upper > lower else 0.0
        best = -np.inf
        if lower + up >= v:
            best = h_max(h, max(v, lower + down), min(lower + up, 1.0)) - at_low
        if upper + down <= v:
            best = max(best, h_max(h, max(upper + down, 0.0), min(v, upper + up)) - at_high)
        if up > v - upper and down < v - lower:
            end = max(down, v - upper) if chord < 0.0 else min(up, v - lower)
            best = max(best, at_v - at_low + chord * (end - (v - lower)))
        if smooth:
            linear = linear_lead_bound(h, a, b, more, low[c], high[c], lower, upper, rates)
            near = 0.1 * (abs(linear) + abs(best))
            tie[c] = min(max(0.5 + 0.5 * (best - linear) / near, 0.0), 1.0) if near < np.inf and near > 0.0 else 0.0
            part = share[c] if share[c] >= 0.0 else (1.0 if linear < best else 0.0)
            if part > 0.0 and linear < np.inf:
                total += part * wide * linear
                for i in range(k):
                    slope[i] += part * wide * rates[i]
                wide *= 1.0 - part
        total += wide * best
        rising = chord
        if lower + up >= v:
            rising = h_slope(h, min(lower + up, 1.0), CERTIFICATE_SLOPE_STEP)
        elif upper + up <= v:
            rising = h_slope(h, upper + up, CERTIFICATE_SLOPE_STEP)
        if rising > 0.0:
            for i in range(k):
                slope[i] += wide * rising * (high[c, i] if more[i] == 1.0 else low[c, i])
            continue
        falling = chord
        if lower + down >= v:
            falling = h_slope(h, lower + down, CERTIFICATE_SLOPE_STEP)
        elif upper + down <= v:
            falling = h_slope(h, max(upper + down, 0.0), CERTIFICATE_SLOPE_STEP)
        if falling < 0.0:
            for i in range(k):
                slope[i] += wide * falling * (low[c, i] if more[i] == 1.0 else high[c, i])
    return total


@kernel
def maximise_joint_lead_in_place(
    h: FloatArray,
    a: FloatArray,
    b: FloatArray,
    more: FloatArray,
    width: FloatArray,
    low: FloatArray,
    high: FloatArray,
    cells: int,
    least: FloatArray,
    most: FloatArray,
    chord_peak: FloatArray,
    share: FloatArray,
    tie: FloatArray,
    segment_of: IntArray,
    stop_below: float,
    passes: int,
) -> tuple[float, float]:
    """Maximise the lead of b over a, in place, among mixtures that give more to the same arms.

    With segments (``segment_of`` is empty without), each keeps the weight that it has in b at first.

    Returns by how much b is ahead, and by how much another one may be further ahead. Ends when both together are below
    ``stop_below``, or the second is a small part of both, or after so many passes.
    """
    k = a.size
    floor, top, g, there, trial = np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    for i in range(k):
        floor[i], top[i] = (a[i], 1.0) if more[i] == 1.0 else (0.0, a[i])
    value = joint_lead_bound_and_gradient(
        h, a, b, more, width, low, high, cells, least, most, chord_peak, share, tie, g
    )
    used = 1
    while True:
        gap = frank_wolfe_gap(g, b, floor, top, segment_of)
        if value + gap <= stop_below or gap <= 0.02 * (value + gap) or used >= passes:
            return value, gap
        i, j = steepest_pair_of_arms(g, b, floor, top, segment_of)
        if i < 0:
            return value, gap
        left, right = 0.0, min(top[i] - b[i], b[j] - floor[j])
        step, rise, fall = right, g[i] - g[j], 0.0  # slopes at the left end, and at the right one
        copy_numbers_into(trial, b)
        for _ in range(14):
            trial[i], trial[j] = b[i] + step, b[j] - step
            joint_lead_bound_and_gradient(
                h, a, trial, more, width, low, high, cells, least, most, chord_peak, share, tie, there
            )
            used += 1
            if there[i] >= there[j]:
                left, rise = step, there[i] - there[j]
                if step == right:
                    break
            else:
                right, fall = step, there[j] - there[i]
            if right - left <= 0.1 * right:
                break
            step = left + (right - left) * min(max(rise / (rise + fall), 0.1), 0.9)
        if left == 0.0:
            return value, gap
        b[i] = min(b[i] + left, top[i])
        b[j] = max(b[j] - left, floor[j])
        value = joint_lead_bound_and_gradient(
            h, a, b, more, width, low, high, cells, least, most, chord_peak, share, tie, g
        )
        used += 1


@kernel
def joint_slope_step_error(h: FloatArray, span: float) -> float:
    """The error of a certificate because slopes of h are taken over a short distance."""
    size = max(abs(h_max(h, 0.0, 1.0)), abs(h_min(h, 0.0, 1.0)))
    return slope_error_near_0_and_1(h, span) + span * 1e-8 * math.sqrt(size * size + 1.0)
