"""The lazy argmax over a grid: only the grid points that may have become the best are worked out again; compiled.

On other than 0/1 rewards a value costs a pass over all cells. But few rewards among many move it little. Every grid
point keeps its last value and what it was made of, and the decisions are those of working out everything each time.

How far can a value have changed? Radii fall, which only lowers optimistic values. Distributions have two bounds.

1. By distance. A reward moves an arm's distribution by a known W1 distance (``travel`` adds them up), so the mixture's
   utility by at most 𝓛·(its share of that distance)^q. A bound moves no more: in bands the ends of each cell's interval
   move no more than the curve; of balls around two centres, one covers the other if widened by their distance.
2. By chords, for metrics where q < 1 and the first bound is weak. With m new rewards among n the arm's survival S
   becomes (1 − θ)S + θ·(that of the new ones), θ = m/n. For concave h each cell then rises and falls at most along
   chords of h that are known beforehand. :func:`fill_rate_bounds` adds them up.

In KL bands the ends move more than the curve: the upper end rises at most by its slope times θ·(1 − S), because it is
concave in S, and falls at most by θ times itself; and by its distance from S times the share by which the radius
shrinks. So their changes are always added up cell by cell, along chords of h or, if it is not concave, its steepest.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.confidence._bernoulli_wasserstein import NEITHER
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    utility_bound,
    wasserstein_radius,
)
from pmbandits.confidence._envelopes import BALL, BAND, KL_BAND, survival_interval, update_kl_bands_and_get_errors
from pmbandits.confidence._kl_bands import max_kl_band_end_slopes
from pmbandits.estimates._rewards import FINITE
from pmbandits.estimates._utility import empirical_utility_by_cells, utility
from pmbandits.metrics.encoding import h_max, h_value, has_single_peak, has_table, peak_location
from pmbandits.mixtures._index import (
    HOLDER_BONUS,
    OPTIMISTIC_BOUND,
    ROUNDING_MARGIN,
    TIE,
    UTILITY,
    max_utility_change_by_holder,
    mixture_bonus,
)
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

PAYING_EVALUATIONS = 3  # so many points, one by one, cost about as much as the whole grid at once
SHORTEST_PAUSE = 256  # rewards; a run begins with a pause, so that short ones need not compile the search
MAX_SURVIVAL_SHIFT = 0.0625  # the chords are valid while no survival has moved further


@step("state, int -> bool")
def uses_rate_bounds(s: State, kind: int) -> bool:
    """Whether chord bounds are used: there is memory for them and the value is concave; or sets are KL bands."""
    if kind == OPTIMISTIC_BOUND and s.set_kind == KL_BAND:
        return s.n_lazy_chords > 0
    return s.uses_chords == 1 and s.holder_q != 1.0 and (kind != OPTIMISTIC_BOUND or s.set_kind == BAND)


@step("state, int -> bool")
def can_use_lazy_argmax(s: State, kind: int) -> bool:
    """Whether changes are bounded: radii that fall, none infinite, and one of the two bounds.

    A table of h keeps only the exponent 1. Balls for h neither concave nor convex have values from a table, too. Bands
    of a depth above 40 (n/δ above 1e15 or so) have ends that jump.
    """
    lazy = s.n_lazy > 0 and s.radii_decrease == 1
    kl_bands = kind == OPTIMISTIC_BOUND and s.set_kind == KL_BAND
    if kl_bands:
        lazy = lazy and s.n_lazy_chords > 0 and (s.uses_chords == 1 or (s.holder_c > 0.0 and s.holder_q == 1.0))
    elif not uses_rate_bounds(s, kind):
        lazy = lazy and s.holder_c > 0.0 and (s.holder_q == 1.0 or not has_table(s.h))
        if kind == OPTIMISTIC_BOUND and s.set_kind == BALL and s.bounded == 1 and s.metric_shape == NEITHER:
            lazy = False
    for i in range(s.n_arms):
        if not s.radius[i] < np.inf or (kl_bands and 1.6 * s.radius[i] * s.n_rewards[i] > s.n_exact_ends):
            lazy = False
    return lazy


@step("state -> none")
def discard_stored_grid_values(s: State) -> None:
    """Forget all values that are kept for grid points, after a change of the grid."""
    for g in range(s.n_grid):
        s.value_at[g] = 0.0
        s.index_at[g] = 0.0


@shared("state -> two floats")
def rounding_error_of_grid_values(s: State) -> tuple[float, float]:
    """What rounding can do to a value, and how much more for each unit of the value itself.

    A pass adds up n terms, each partial sum rounded to 1.2e-16 of itself; they are at most |value| and the range of
    the rewards times max|h|. A survival is off by less than (k + 2)·1e-15, and the curve by that times the range in W1;
    where h is concave without exponent 1, its slope at a survival of 1/n is at most n·max|h|. A ball's dual is
    minimised to 1e-12 of its price, which is at most range/radius: far less than the factor for balls.
    """
    reach = 2.0 * s.max_abs_reward
    each = ROUNDING_MARGIN + 1e-15 * (s.n_arms + 2.0) * s.rewards
    if s.set_kind == BALL and s.bounded == 1:
        each *= 100.0
    most = max(max_utility_change_by_holder(s, reach), reach * max(abs(s.max_h), abs(h_value(s.h, 1.0))))
    return each * max(1.0, most) + max_utility_change_by_holder(s, 1e-15 * (s.n_arms + 2.0) * reach), each


@step("floats, floats, floats -> float")
def max_wasserstein_movement(a: FloatArray, travel: FloatArray, then: FloatArray) -> float:
    """How far in W1 a mixture can have moved since the arms' travel was ``then``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * (travel[i] - then[i])
    return total


@step("state -> float")
def wasserstein_units_per_radius(s: State) -> float:
    """Bands are in probability: one unit of them is the support's width in W1."""
    return s.high - s.low if s.set_kind == BAND else 1.0


@step("floats, bool, float, float, float, float, floats -> none")
def fill_max_rise_and_fall_slopes(
    h: FloatArray, concave: bool, l0: float, u0: float, l1: float, u1: float, out: FloatArray
) -> None:
    """The steepest chords of h in a run of cells whose intervals go from [l0, u0] down to [l1, u1], into ``out``.

    Let p be where h is largest in a cell's interval [l, u] (without radii all three are the survival). The value rises
    only where u grows or l falls: at most by the slope of a chord that ends in u (out[0]), or begins in l (out[1]). It
    falls only where u or l passes p: at most by the slope of the chord from p to what is nearby (out[2], out[3]). For
    concave h all four are steepest at one end of the run. Else ``out`` has the steepest slope of h already.
    """
    if not concave:
        return
    fill_array_with(out, 0.0)
    if 1e-14 < u1 < 1.0 - 1e-14:
        beyond = (1.0 - MAX_SURVIVAL_SHIFT) * u1
        out[0] = max((h_value(h, u1) - h_value(h, beyond)) / (u1 - beyond), 0.0)
    if 1e-14 < l0 < 1.0 - 1e-14:
        beyond = l0 + MAX_SURVIVAL_SHIFT * (1.0 - l0)
        out[1] = max((h_value(h, l0) - h_value(h, beyond)) / (beyond - l0), 0.0)
    peak = 1.0
    if has_single_peak(h):
        peak = peak_location(h)
    elif h_value(h, 1.0) < 0.0:
        peak = 0.0
    p0, p1 = min(max(peak, l0), u0), min(max(peak, l1), u1)
    if p1 > 1e-14 and u1 - MAX_SURVIVAL_SHIFT < peak:
        beyond = max(p1 - MAX_SURVIVAL_SHIFT, 0.0)
        out[2] = max((h_value(h, p1) - h_value(h, beyond)) / (p1 - beyond), 0.0)
    if p0 < 1.0 - 1e-14 and l0 + MAX_SURVIVAL_SHIFT > peak:
        beyond = min(p0 + MAX_SURVIVAL_SHIFT, 1.0)
        out[3] = max((h_value(h, p0) - h_value(h, beyond)) / (beyond - p0), 0.0)


@step("floats, floats, floats, float, floats, floats, floats, floats, floats, floats, floats -> none")
def add_cells_to_rate_bounds(
    h: FloatArray,
    a: FloatArray,
    radius: FloatArray,
    width: float,
    start: FloatArray,
    end: FloatArray,
    rise: FloatArray,
    fall: FloatArray,
    narrow: FloatArray,
    ends: FloatArray,
    steep: FloatArray,
) -> None:
    """Add neighbouring cells, in which the arms' survivals fall from ``start`` to ``end``, to the bounds."""
    k = a.size
    l0, u0, l1, u1 = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        l0 += a[i] * max(start[i] - radius[i], 0.0)
        u0 += a[i] * min(start[i] + radius[i], 1.0)
        l1 += a[i] * max(end[i] - radius[i], 0.0)
        u1 += a[i] * min(end[i] + radius[i], 1.0)
    if u1 <= 1e-14:
        ends[0] += width
    if l0 >= 1.0 - 1e-14:
        ends[1] += width
    fill_max_rise_and_fall_slopes(h, True, l0, u0, l1, u1, steep)
    for i in range(k):
        up = steep[0] * (1.0 - end[i]) if end[i] + radius[i] < 1.0 else 0.0
        down = steep[1] * start[i] if start[i] > radius[i] else 0.0
        rise[i] += width * a[i] * max(up, down)
        fall[i] += width * a[i] * max(steep[2] * start[i], steep[3] * (1.0 - end[i]))
        narrow[i] += width * a[i] * max(steep[2], steep[3])


@step("floats, floats, bool, ints, table, float, floats, floats, floats, floats, floats, floats -> none")
def add_kl_band_cells_to_rate_bounds(
    h: FloatArray,
    a: FloatArray,
    concave: bool,
    n_rewards: IntArray,
    band: FloatArray,
    width: float,
    start: FloatArray,
    end: FloatArray,
    rise: FloatArray,
    fall: FloatArray,
    narrow: FloatArray,
    steep: FloatArray,
) -> None:
    """Add neighbouring cells to the bounds, for KL bands: slopes and changes of ends are largest at one end."""
    k = a.size
    none = 0.0
    l0, u0, l1, u1 = 0.0, 0.0, 0.0, 0.0
    for i in range(k):
        n = n_rewards[i]
        above, below = int(start[i] * n + 0.5), int(end[i] * n + 0.5)
        lower, upper = survival_interval(KL_BAND, above, n, none, none, band, i)
        l0 += a[i] * lower
        u0 += a[i] * upper
        lower, upper = survival_interval(KL_BAND, below, n, none, none, band, i)
        l1 += a[i] * lower
        u1 += a[i] * upper
    fill_max_rise_and_fall_slopes(h, concave, l0, u0, l1, u1, steep)
    for i in range(k):
        n = n_rewards[i]
        above, below = int(start[i] * n + 0.5), int(end[i] * n + 0.5)
        up, down = max_kl_band_end_slopes(below, n, band[i])[0], max_kl_band_end_slopes(above, n, band[i])[1]
        floor, top = (
            survival_interval(KL_BAND, below, n, none, none, band, i)[0],
            survival_interval(KL_BAND, above, n, none, none, band, i)[1],
        )
        rise[i] += width * a[i] * max(steep[0] * up * (1.0 - end[i]), steep[1] * down * start[i])
        fall[i] += width * a[i] * max(steep[2] * top, steep[3] * (1.0 - floor))
        narrow[i] += width * a[i] * max(steep[2] * (top - end[i]), steep[3] * (start[i] - floor))


@shared("state, floats, int, floats, floats, floats, floats -> none")
def fill_rate_bounds(
    s: State, a: FloatArray, kind: int, rise: FloatArray, fall: FloatArray, narrow: FloatArray, ends: FloatArray
) -> None:
    """By how much a value rises and falls at most for each unit of each arm's θ, and falls for each unit that its
    radius shrinks (``narrow``; KL bands: for each unit of the share that it loses); ``ends`` are the widths of what
    lies above all rewards (survival 0) and below (1), where h can have infinite slope.

    Cells whose survivals S and 1 − S differ by less than a fifth are taken together.
    """
    k, finite, kl_bands, concave = (
        s.n_arms,
        s.storage_mode == FINITE,
        kind == OPTIMISTIC_BOUND and s.set_kind == KL_BAND,
        s.uses_chords == 1,
    )
    cells = s.n_atoms if finite else s.rewards
    points, owner, band, n_rewards = s.points if finite else s.x, s.pool_arm, s.kl_band, s.n_rewards
    left, each, radius, start, end = np.empty(k), np.empty(k), np.zeros(k), np.ones(k), np.ones(k)
    steep = np.full(4, s.holder_c)
    if kl_bands:
        update_kl_bands_and_get_errors(s)
    for i in range(k):
        left[i], each[i] = s.n_rewards[i], a[i] / s.n_rewards[i]
        if kind == OPTIMISTIC_BOUND:
            radius[i] = s.radius[i]
    fill_array_with(rise, 0.0)
    fill_array_with(fall, 0.0)
    fill_array_with(narrow, 0.0)
    fill_array_with(ends, 0.0)
    before, here, mixed, first = s.low, s.low, 1.0, 1.0
    for cell in range(cells + 1):
        mine = points[cell] if cell < cells else s.high
        if mine > here:  # a cell from here to mine; does it belong to the run that began at ``before``?
            if mixed < 0.8 * first or 1.0 - mixed > 1.2 * (1.0 - first):
                if here > before and kl_bands:
                    width = here - before
                    add_kl_band_cells_to_rate_bounds(
                        s.h, a, concave, n_rewards, band, width, start, end, rise, fall, narrow, steep
                    )
                elif here > before:
                    add_cells_to_rate_bounds(s.h, a, radius, here - before, start, end, rise, fall, narrow, ends, steep)
                before, first = here, mixed
                for i in range(k):
                    start[i] = left[i] / s.n_rewards[i]
            for i in range(k):
                end[i] = left[i] / s.n_rewards[i]
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
    if here > before and kl_bands:
        add_kl_band_cells_to_rate_bounds(
            s.h, a, concave, n_rewards, band, here - before, start, end, rise, fall, narrow, steep
        )
    elif here > before:
        add_cells_to_rate_bounds(s.h, a, radius, here - before, start, end, rise, fall, narrow, ends, steep)


@shared("state, int, int -> none")
def evaluate_and_store_grid_point(s: State, g: int, kind: int) -> None:
    """Evaluate grid point g now, and keep what bounds its later change."""
    a = s.grid[g]
    if kind == OPTIMISTIC_BOUND:
        s.index[g] = utility_bound(s, a, OPTIMISTIC)
    else:
        s.value[g] = empirical_utility_by_cells(s, a)
    if s.n_lazy == 0:  # nothing bounds it
        return
    chords = uses_rate_bounds(s, kind)
    if kind == OPTIMISTIC_BOUND:
        s.index_at[g] = s.rewards
        basis, radius = s.index_basis[g], s.index_radius[g]
    else:
        s.value_at[g] = s.rewards
        basis, radius = s.value_basis[g], s.value_radius[g]
    for i in range(s.n_arms):
        basis[i] = s.n_rewards[i] if chords else s.w1_path_length[i]
        radius[i] = s.radius[i]
    if chords and kind == OPTIMISTIC_BOUND:
        fill_rate_bounds(s, a, kind, s.index_rise[g], s.index_fall[g], s.index_shrink[g], s.index_tail_widths[g])
    elif chords:
        fill_rate_bounds(s, a, kind, s.value_rise[g], s.value_fall[g], s.value_shrink[g], s.value_tail_widths[g])


@shared("state, int, int -> two floats")
def max_change_since_evaluation(s: State, g: int, kind: int) -> tuple[float, float]:
    """How much the kept value of grid point g can have fallen, and risen, since; without rounding."""
    k, a = s.n_arms, s.grid[g]
    if kind == OPTIMISTIC_BOUND:
        basis, radius = s.index_basis[g], s.index_radius[g]
        rises, falls, narrow, ends = s.index_rise, s.index_fall, s.index_shrink, s.index_tail_widths[g]
    else:
        basis, radius = s.value_basis[g], s.value_radius[g]
        rises, falls, narrow, ends = s.value_rise, s.value_fall, s.value_shrink, s.value_tail_widths[g]
    if not uses_rate_bounds(s, kind):
        change, less = max_utility_change_by_holder(s, max_wasserstein_movement(a, s.w1_path_length, basis)), 0.0
        if kind == OPTIMISTIC_BOUND:
            for i in range(k):
                less += a[i] * (radius[i] - s.radius[i])
            less = max_utility_change_by_holder(s, wasserstein_units_per_radius(s) * less)
        return change + less, change
    rise, fall, moved = 0.0, 0.0, 0.0
    for i in range(k):
        theta = 1.0 - basis[i] / s.n_rewards[i]
        moved += theta * a[i]
        rise += theta * rises[g, i]
        fall += theta * falls[g, i]
        if kind == OPTIMISTIC_BOUND:
            less = radius[i] - s.radius[i]
            if s.set_kind == KL_BAND:
                less /= radius[i]
            moved += less * a[i]
            fall += less * narrow[g, i]
    if ends[0] > 0.0:
        rise += ends[0] * h_max(s.h, 0.0, moved)
    if ends[1] > 0.0:
        rise += ends[1] * (h_max(s.h, 1.0 - moved, 1.0) - h_value(s.h, 1.0))
    return fall if moved < MAX_SURVIVAL_SHIFT else np.inf, rise


@step("state, int -> none")
def pause_if_too_much_is_evaluated(s: State, evaluated: int) -> None:
    """Note how many points a look has worked out; pause until a quarter more rewards are in if that is too many.

    To work out the whole grid at once (``confidence/_grid_bounds.py``) takes as long as some three points one by one,
    or a third of them where h is a table. A pause changes no decision.
    """
    paying = s.n_grid_used // 3 if has_table(s.h) else PAYING_EVALUATIONS
    s.lazy_excess = max(s.lazy_excess + evaluated - paying, 0)
    if s.lazy_excess > 2 * s.n_grid_used:
        s.lazy_excess = 0
        s.lazy_pause_from = s.rewards + max(s.rewards // 4 - SHORTEST_PAUSE, 0)


@shared("state, int -> int")
def lazy_argmax_grid_point(s: State, kind: int) -> int:
    """The grid point that evaluating all of them would choose.

    That is the one with the largest value; of equals the previous one, else the one with the highest utility, else the
    first. ``low`` and ``high`` enclose what a point's value would be; they are equal where it was worked out at this
    look. Every turn of the loop works out one more point, so it ends.
    """
    used, k, before, now = s.n_grid_used, s.n_arms, s.current_point, float(s.rewards)
    at, last = s.index_at if kind == OPTIMISTIC_BOUND else s.value_at, s.index if kind == OPTIMISTIC_BOUND else s.value
    radius = np.zeros(k)
    for i in range(k):
        radius[i] = wasserstein_radius(s, i) if kind == HOLDER_BONUS else s.radius[i]
    off, each = rounding_error_of_grid_values(s)
    low, high = np.empty(used), np.empty(used)
    best, evaluated = -np.inf, 0
    for g in range(used):
        if at[g] == 0.0:
            low[g], high[g] = -np.inf, np.inf
            continue
        low[g] = high[g] = last[g] + mixture_bonus(s, s.grid[g], radius, kind)
        if at[g] != now:
            fall, rise = max_change_since_evaluation(s, g, kind)
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
        if rivals == 1 or widest < 0:
            break
        evaluate_and_store_grid_point(s, widest, kind)
        evaluated += 1
        low[widest] = high[widest] = last[widest] + mixture_bonus(s, s.grid[widest], radius, kind)
        best = max(best, low[widest])
    pause_if_too_much_is_evaluated(s, evaluated)
    if rivals == 1:
        return top
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
