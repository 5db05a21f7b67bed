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

What is left is of second order: where no arm is known to deserve more, b − a is small, and so is what the sets'
width does to D. So this bound falls like 1/n where the other falls like 1/√n.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
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
from pmbandits.metrics.encoding import h_max, h_min, h_slope, h_value
from pmbandits.mixtures._optimistic_bound import CERTIFICATE_SLOPE_STEP, slope_error_near_0_and_1
from pmbandits.mixtures._pairwise_ascent import frank_wolfe_gap, steepest_pair_of_arms
from pmbandits.state.arrays import copy_numbers_into, fill_array_with
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared
from pmbandits.state.numba_types import State, unpack


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


@shared("floats, floats, floats, floats, floats, table, table, int, floats, floats, floats, floats -> float")
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
    slope: FloatArray,
) -> float:
    """Upper bound on U_h(b) − U_h(a): the sum over cells. ``slope`` gets the gradient in b.

    ``more`` is 1 where b has at least a's share, and 0 where it has at most that.
    """
    k, total = a.size, 0.0
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
    stop_below: float,
    passes: int,
) -> tuple[float, float]:
    """Maximise the lead of b over a, in place, among mixtures that give more to the same arms.

    Returns by how much b is ahead, and by how much another one may be further ahead. Ends when both together are below
    ``stop_below``, or the second is a small part of both, or after so many passes.
    """
    k = a.size
    floor, top, g, there, trial = np.empty(k), np.empty(k), np.empty(k), np.empty(k), np.empty(k)
    for i in range(k):
        floor[i], top[i] = (a[i], 1.0) if more[i] == 1.0 else (0.0, a[i])
    value = joint_lead_bound_and_gradient(h, a, b, more, width, low, high, cells, least, most, chord_peak, g)
    used = 1
    while True:
        gap = frank_wolfe_gap(g, b, floor, top, k)
        if value + gap <= stop_below or gap <= 0.02 * (value + gap) or used >= passes:
            return value, gap
        i, j = steepest_pair_of_arms(g, b, floor, top, k)
        if i < 0:
            return value, gap
        left, right = 0.0, min(top[i] - b[i], b[j] - floor[j])
        step = right
        copy_numbers_into(trial, b)
        for _ in range(14):
            trial[i], trial[j] = b[i] + step, b[j] - step
            joint_lead_bound_and_gradient(h, a, trial, more, width, low, high, cells, least, most, chord_peak, there)
            used += 1
            if there[i] >= there[j]:
                left = step
                if step == right:
                    break
            else:
                right = step
            if right - left <= 0.1 * right:
                break
            step = 0.5 * (left + right)
        if left == 0.0:
            return value, gap
        b[i] = min(b[i] + left, top[i])
        b[j] = max(b[j] - left, floor[j])
        value = joint_lead_bound_and_gradient(h, a, b, more, width, low, high, cells, least, most, chord_peak, g)
        used += 1


@kernel
def joint_slope_step_error(h: FloatArray, span: float) -> float:
    """The error of a certificate because slopes of h are taken over a short distance."""
    size = max(abs(h_max(h, 0.0, 1.0)), abs(h_min(h, 0.0, 1.0)))
    return slope_error_near_0_and_1(h, span) + span * 1e-8 * math.sqrt(size * size + 1.0)
