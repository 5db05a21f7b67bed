"""All arms' distributions on one survival table of at most 512 cells, and the best mixture on it; compiled.

The ends of the cells are called knots. For each cell and arm the table says which share of the arm's rewards lies
above, averaged over the cell. On 0/1 rewards, atoms and bins nothing is lost. Rewards that are kept one by one are
thinned out: where they have many different values, cells hold about 1/320 of them each, and less at both ends.

Averages over cells keep every mean. So U_h of the table misses the empirical one only by the bend of h within a cell
(measured: 6e-6 to 3e-4 of it, on heavy tails up to 9e-4), and the best mixture of the table is the best one but for
much less. A search costs the same whatever the number of rewards; only laying the table out is one pass over them.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE
from pmbandits.estimates._rewards import SAMPLES, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.metrics.encoding import h_slope, h_value, is_multiple_of_one_family, one_family_slope
from pmbandits.mixtures._pairwise_ascent import GRADIENT, VALUE, pairwise_ascent_in_place
from pmbandits.mixtures._segments import end_of_segment, segment_number
from pmbandits.state.arrays import copy_numbers_into, fill_array_with
from pmbandits.state.linking import make_pointer_getter, shared, step
from pmbandits.state.numba_types import State

ROUNDING_SHARE = 1e-14  # a share of rewards below this is rounding
MAX_KNOTS = 512  # for rewards that are kept one by one, at most
_CELL_SHARE = 1.0 / 320.0  # the share of all rewards in a cell
_TAIL_CELL_SHARE = 0.2  # but no more than this share of all that lie further out


@shared("state, float -> none")
def choose_table_knots(s: State, pad: float) -> None:
    """Choose the knots for the rewards so far, ends of the support included.

    If the support has no ends, the least and the largest reward, ``pad`` further out, stand for them.
    """
    if s.storage_mode != SAMPLES:
        for c in range(s.n_atoms):
            s.knots[c] = s.points[c]
        s.n_knots = s.n_atoms
        return
    sort_pool(s)
    x, n = s.x, n_pooled_values(s)
    low, high = s.low, s.high
    if s.bounded == 0:
        low, high = x[0] - pad, x[n - 1] + pad
    different, c = 1, 1
    while c < n and different <= MAX_KNOTS - 2:
        different += x[c] > x[c - 1]
        c += 1
    all_of_them = different <= MAX_KNOTS - 2
    may_skip, bulk = s.sketch_size == 0 and not all_of_them, _CELL_SHARE * s.rewards
    s.knots[0] = low
    used, gone, since, total = 1, 0.0, 0.0, float(s.rewards)
    c = 0
    while c < n and used < MAX_KNOTS - 1:
        begin, jump = c, int(bulk - since) - 1
        if (
            may_skip and jump > 0 and _TAIL_CELL_SHARE * min(gone, total - gone - jump) >= bulk
        ):  # far from both ends: none before that
            c += jump
            while c > begin and x[c - 1] == x[c]:
                c -= 1
            gone += c - begin
            since += c - begin
        here, mass = x[c], 0.0
        while c < n and x[c] == here:
            mass += n_rewards_of_pooled_value(s, c)
            c += 1
        gone += mass
        since += mass
        outside = min(gone, total - gone + mass)
        if (
            here > s.knots[used - 1]
            and here < high
            and (all_of_them or since >= min(_CELL_SHARE * total, _TAIL_CELL_SHARE * outside))
        ):
            s.knots[used] = here
            used += 1
            since = 0.0
    s.knots[used] = high
    s.n_knots = used + 1


@step("floats, int, float -> int")
def knot_cell_of(knots: FloatArray, n_knots: int, x: float) -> int:
    """The cell in which x lies; the first or last if it lies outside."""
    lo, hi = 0, n_knots - 1
    while hi - lo > 1:
        middle = (lo + hi) // 2
        if knots[middle] <= x:
            lo = middle
        else:
            hi = middle
    return lo


@shared("floats, floats, floats, int -> float")
def utility_of_survival(h: FloatArray, knots: FloatArray, above: FloatArray, n_knots: int) -> float:
    """U_h of a distribution, given its survival (the share of rewards above) in each cell.

    ``above[c]`` is the share of rewards above ``knots[c]``, which stays the same up to ``knots[c + 1]``.
    """
    total = knots[0] * h_value(h, 1.0)
    last, value = -1.0, 0.0
    for c in range(n_knots - 1):
        if above[c] != last:  # a distribution of few rewards has few levels
            last, value = above[c], h_value(h, above[c])
        total += (knots[c + 1] - knots[c]) * value
    return total


@shared("state, int -> none")
def write_survival_row(s: State, i: int) -> None:
    """Write an arm's row of survivals, its shares, variance and utility, from its numbers of rewards at knots.

    On entry ``row_share`` has numbers of rewards. The utility is left out if h is concave.
    """
    row, place, share, knots = s.survival_rows[i], s.row_knots[i], s.row_weights[i], s.knots
    if s.n_rewards[i] == 0:  # of a segment that is not open yet
        fill_array_with(row, 0.0)
        s.row_n_rewards[i], s.row_size[i], s.row_variance[i], s.row_utility[i] = 0, 0, 0.0, 0.0
        return
    cells, inverse, needs_utility = s.n_knots - 1, 1.0 / s.n_rewards[i], s.metric_shape != CONCAVE
    left, used, start, mean, square = float(s.n_rewards[i]), 0, 0, 0.0, 0.0
    level = left * inverse
    before = 1.0 if place[0] == 0 else level
    utility = knots[0] * h_value(s.h, 1.0) if needs_utility else 0.0
    for j in range(s.row_size[i] + 1):
        end = place[j] if j < s.row_size[i] else cells
        for c in range(start, end):
            row[c] = level
        low, high = knots[start] - knots[0], knots[end] - knots[0]
        mean += (high - low) * level
        square += (high - low) * (high + low) * level
        if needs_utility and end > start:
            utility += (knots[end] - knots[start]) * h_value(s.h, level)
        if j < s.row_size[i]:
            left -= share[j]
            level = left * inverse if left > 1e-9 and end < cells else 0.0  # parts of one reward leave some rounding
            if before - level > ROUNDING_SHARE:
                share[used], place[used] = before - level, end
                used += 1
            before, start = level, end
    s.row_n_rewards[i], s.row_size[i] = s.n_rewards[i], used
    s.row_variance[i], s.row_utility[i] = max(square - mean * mean, 0.0), utility


@step("state, int, int, float -> none")
def add_reward_count_at_knot(s: State, i: int, knot: int, mass: float) -> None:
    """Count rewards at a knot; they come in order, so it is the last one, or the one before, or a new one."""
    if mass > 0.0:
        last = s.row_size[i] - 1
        if last >= 0 and s.row_knots[i, last] == knot:
            s.row_weights[i, last] += mass
        elif last >= 1 and s.row_knots[i, last - 1] == knot:
            s.row_weights[i, last - 1] += mass
        else:
            s.row_knots[i, last + 1], s.row_weights[i, last + 1] = knot, mass
            s.row_size[i] += 1


@shared("state, int -> bool")
def update_survival_row(s: State, i: int) -> bool:
    """Rewards kept one by one: add an arm's new ones to its row. False if it is not known which they are.

    They are the last ones in the part of the pool that is not in order yet, because they come there one after another.
    """
    new, at, above, n_knots = s.n_rewards[i] - s.row_n_rewards[i], s.rewards, s.survival_rows[i], s.n_knots
    if s.sketch_size > 0 or s.n_sorted <= 0 or s.row_n_rewards[i] == 0:
        return False
    if new == 0:
        return True
    for j in range(s.rewards - 1, s.n_sorted - 1, -1):
        if new == 0:
            break
        if s.pool_arm[j] == i:
            new -= 1
        at = j
    if new > 0:
        return False
    for c in range(n_knots - 1):
        above[c] *= s.row_n_rewards[i]
    for j in range(at, s.rewards):
        if s.pool_arm[j] == i:
            here = knot_cell_of(s.knots, n_knots, s.x[j])
            for c in range(here):
                above[c] += 1.0
            above[here] += min(max((s.x[j] - s.knots[here]) / (s.knots[here + 1] - s.knots[here]), 0.0), 1.0)
    used, before = 0, float(s.n_rewards[i])
    for c in range(n_knots):
        after = above[c] if c < n_knots - 1 else 0.0
        s.row_knots[i, used], s.row_weights[i, used] = c, before - after  # written over if that is nothing
        used += before - after > ROUNDING_SHARE * s.n_rewards[i]
        before = after
    s.row_size[i] = used
    write_survival_row(s, i)
    return True


@shared("state, int -> none")
def fill_survival_rows(s: State, only: int) -> None:
    """Write the rows of all arms, or of one arm only (otherwise −1)."""
    first, last = (0, s.n_arms) if only < 0 else (only, only + 1)
    knots, cells = s.knots, s.n_knots - 1
    if s.storage_mode != SAMPLES:  # the knots are always the same, so only arms with new rewards cost anything
        for i in range(first, last):
            if s.row_n_rewards[i] != s.n_rewards[i]:
                used = 0
                for c in range(s.n_knots):
                    s.row_knots[i, used], s.row_weights[i, used] = c, s.counts[i, c]  # written over if there are none
                    used += s.counts[i, c] > 0
                s.row_size[i] = used
                write_survival_row(s, i)
        return
    if only >= 0 and update_survival_row(s, only):
        return
    sort_pool(s)
    for i in range(first, last):
        s.row_size[i] = 0
    at = 0
    for j in range(n_pooled_values(s)):
        i, x = s.pool_arm[j], s.x[j]
        if only >= 0 and i != only:
            continue
        while at < cells - 1 and knots[at + 1] <= x:
            at += 1
        # A reward between two knots counts in part at either, so that its mean stays.
        share = min(max((knots[at + 1] - x) / (knots[at + 1] - knots[at]), 0.0), 1.0)
        mass = n_rewards_of_pooled_value(s, j)
        add_reward_count_at_knot(s, i, at, share * mass)
        add_reward_count_at_knot(s, i, at + 1, (1.0 - share) * mass)
    for i in range(first, last):
        write_survival_row(s, i)


@shared("state, floats, floats -> none")
def fill_mixture_survival_on_table(s: State, a: FloatArray, above: FloatArray) -> None:
    """The survival of the mixture a (the share of rewards above) in each cell, into ``above``."""
    cells, rows = s.n_knots - 1, s.survival_rows
    for c in range(cells):
        above[c] = 0.0
    for i in range(s.n_arms):
        if a[i] != 0.0:
            for c in range(cells):
                above[c] += a[i] * rows[i, c]


@shared("state, floats, float, floats, floats -> none")
def fill_h_slopes_by_cell(
    s: State, above: FloatArray, slope_step: float, h_slopes: FloatArray, weighted_slopes: FloatArray
) -> None:
    """h' and width·h' of each cell, where the mixture's survival is ``above``."""
    last, slope, alone = -1.0, 0.0, is_multiple_of_one_family(s.h)
    for c in range(s.n_knots - 1):
        if above[c] != last:
            last = above[c]
            slope = one_family_slope(s.h, last, slope_step) if alone else h_slope(s.h, last, slope_step)
        h_slopes[c], weighted_slopes[c] = slope, (s.knots[c + 1] - s.knots[c]) * slope


@shared("state, floats, int -> float")
def slope_towards_arm(s: State, weighted_slopes: FloatArray, i: int) -> float:
    """∂U_h/∂a_i: the sum over cells of width·h'·(share of arm i's rewards above)."""
    rows, cells = s.survival_rows, s.n_knots - 1
    one, two, three, four = 0.0, 0.0, 0.0, 0.0  # four sums, because the processor can work on them side by side
    c = 0
    while c + 3 < cells:
        one += weighted_slopes[c] * rows[i, c]
        two += weighted_slopes[c + 1] * rows[i, c + 1]
        three += weighted_slopes[c + 2] * rows[i, c + 2]
        four += weighted_slopes[c + 3] * rows[i, c + 3]
        c += 4
    while c < cells:
        one += weighted_slopes[c] * rows[i, c]
        c += 1
    return (one + two) + (three + four)


@shared(GRADIENT)
def fill_table_gradient(s: State, a: FloatArray, radius: FloatArray, slope_step: float, out: FloatArray) -> None:
    """The gradient of U_h on the table, as an objective to maximise; ``radius`` is not used."""
    above = np.empty(s.n_knots)
    fill_mixture_survival_on_table(s, a, above)
    fill_h_slopes_by_cell(s, above, slope_step, np.empty(s.n_knots), above)
    for i in range(s.n_arms):
        out[i] = slope_towards_arm(s, above, i)


@shared(VALUE)
def utility_on_table(s: State, a: FloatArray, radius: FloatArray) -> float:
    """U_h of the mixture a on the table; ``radius`` is not used."""
    above = np.empty(s.n_knots)
    fill_mixture_survival_on_table(s, a, above)
    return utility_of_survival(s.h, s.knots, above, s.n_knots)


table_utility, value_on_table = make_pointer_getter(fill_table_gradient), make_pointer_getter(utility_on_table)


@step("state, floats, floats, float, float, floats -> float")
def directional_utility_slope(
    s: State, above: FloatArray, direction: FloatArray, step_length: float, slope_step: float, h_slopes: FloatArray
) -> float:
    """The slope of U_h in a direction after ``step_length``; and h' there, in cells that change."""
    total, alone = 0.0, is_multiple_of_one_family(s.h)
    for c in range(s.n_knots - 1):
        if direction[c] != 0.0:
            here = above[c] + step_length * direction[c]
            h_slopes[c] = one_family_slope(s.h, here, slope_step) if alone else h_slope(s.h, here, slope_step)
            total += (s.knots[c + 1] - s.knots[c]) * direction[c] * h_slopes[c]
    return total


@shared("state, floats, floats, float, float, floats, floats -> float")
def line_search_on_table(
    s: State,
    above: FloatArray,
    direction: FloatArray,
    max_step: float,
    slope_step: float,
    h_slopes: FloatArray,
    spare: FloatArray,
) -> float:
    """The step up to ``max_step`` at which concave U_h is largest along a rising direction; a little short of it.

    ``h_slopes`` has h' of all cells where we start; at the end, where we arrive. ``spare`` is scratch memory.
    """
    lead = 0.0
    for c in range(s.n_knots - 1):
        spare[c] = h_slopes[c]
        lead += (s.knots[c + 1] - s.knots[c]) * direction[c] * h_slopes[c]
    behind = directional_utility_slope(s, above, direction, max_step, slope_step, spare)
    if behind >= 0.0:
        copy_numbers_into(h_slopes, spare)
        return max_step
    left, right, ahead = 0.0, max_step, lead
    for turn in range(60):
        middle = 0.5 * (left + right)
        if turn % 2 == 0 and ahead > behind:  # the secant; in between halves, so that neither end stays for long
            middle = left + (right - left) * min(max(ahead / (ahead - behind), 0.02), 0.98)
        slope = directional_utility_slope(s, above, direction, middle, slope_step, spare)
        if slope >= 0.0:
            left, ahead = middle, slope
            copy_numbers_into(h_slopes, spare)
            if slope <= 1e-3 * lead:
                break
        else:
            right, behind = middle, slope
        if right - left <= 1e-9 * max_step or right - left < 1e-12:
            break
    return left


@shared("state, floats, floats, float, float, int -> float")
def pairwise_ascent_in_place_on_table(
    s: State, a: FloatArray, low: FloatArray, slope_step: float, goal: float, most: int
) -> float:
    """Concave h: improve the mixture a in place, within a ≥ low, until no mixture is better by more than the goal.

    Returns by how much another can be better at most (the gap). Weight moves from the arm with the least slope to the
    one with the greatest, among those of a segment that have weight: in the segment that lacks the most. After that, in
    each segment an arm without weight may enter.
    """
    k, cells = s.n_arms, s.n_knots - 1
    above, direction, weighted = np.empty(cells), np.empty(cells), np.empty(cells)
    h_slopes, spare = np.empty(cells), np.empty(cells)
    slope, active = np.empty(k), np.empty(k)
    gap = np.inf
    for _ in range(most):
        fill_mixture_survival_on_table(s, a, above)
        fill_h_slopes_by_cell(s, above, slope_step, h_slopes, weighted)
        gap, start = 0.0, 0
        while start < k:
            end, to = end_of_segment(s.segment_of, start, k), start
            for i in range(start, end):
                slope[i] = slope_towards_arm(s, weighted, i)
                to = i if slope[i] > slope[to] else to
            for i in range(start, end):
                gap += (a[i] - low[i]) * (slope[to] - slope[i])
                active[i] = 1.0 if a[i] > low[i] or i == to else 0.0
            start = end
        if gap <= goal:
            break
        moved = False
        for inner in range(200):
            best, worst, lead, inside, start = -1, -1, -1.0, 0.0, 0
            while start < k:
                end, top, bottom = end_of_segment(s.segment_of, start, k), -1, -1
                for i in range(start, end):
                    if active[i] > 0.0:
                        if inner > 0:
                            slope[i] = slope_towards_arm(s, weighted, i)
                        if top < 0 or slope[i] > slope[top]:
                            top = i
                        if a[i] > low[i] and (bottom < 0 or slope[i] < slope[bottom]):
                            bottom = i
                lack = 0.0
                for i in range(start, end):
                    if active[i] > 0.0:
                        lack += (a[i] - low[i]) * (slope[top] - slope[i])
                inside += lack
                if lack > lead:
                    best, worst, lead = top, bottom, lack
                start = end
            if best == worst or worst < 0 or inside <= 0.5 * goal:
                break
            for c in range(cells):
                direction[c] = s.survival_rows[best, c] - s.survival_rows[worst, c]
            max_step = a[worst] - low[worst]
            step_length = line_search_on_table(s, above, direction, max_step, slope_step, h_slopes, spare)
            if step_length <= 0.0:  # a corner: nothing to gain here; perhaps in another segment
                for i in range(k):
                    if segment_number(s, i) == segment_number(s, best):
                        active[i] = 0.0
                continue
            moved = True
            a[best] += step_length
            a[worst] = low[worst] if step_length >= max_step else a[worst] - step_length
            for c in range(cells):
                above[c] += step_length * direction[c]
                weighted[c] = (s.knots[c + 1] - s.knots[c]) * h_slopes[c]
        if not moved:
            break
    return gap


@shared("state, floats, floats, float, float, int -> float")
def ascend_within_limits_on_table(
    s: State, a: FloatArray, low: FloatArray, slope_step: float, goal: float, most: int
) -> float:
    """Improve a by pairwise ascent within the limits; returns the gap."""
    one = np.ones(s.n_arms)
    return pairwise_ascent_in_place(
        s, table_utility(), a, low.copy(), one, s.segment_of, low, slope_step, goal, 5 * most
    )


@shared("state, floats, floats, float, float, int -> float")
def ascend_in_place_on_table(
    s: State, a: FloatArray, low: FloatArray, slope_step: float, goal: float, most: int
) -> float:
    """Improve a by pairwise ascent within the limits, if there are any, else within a ≥ low; returns the gap."""
    if s.n_limited > 0:
        return ascend_within_limits_on_table(s, a, low, slope_step, goal, most)
    return pairwise_ascent_in_place_on_table(s, a, low, slope_step, goal, most)


@shared("state, floats, floats, float, float, int -> float")
def maximise_in_place_on_table(
    s: State, a: FloatArray, low: FloatArray, slope_step: float, goal: float, most: int
) -> float:
    """Maximise concave U_h of the table in place; returns the gap. If kinks of h stall it, smooth h first."""
    gap = ascend_in_place_on_table(s, a, low, slope_step, goal, most)
    if gap > goal:
        b = a.copy()
        for smooth in (0.1, 0.01, 0.001):
            if smooth > slope_step:
                ascend_in_place_on_table(s, b, low, smooth, goal, most)
        other = ascend_in_place_on_table(s, b, low, slope_step, goal, most)
        if utility_on_table(s, b, low) > utility_on_table(s, a, low):
            copy_numbers_into(a, b)
            gap = other
    return gap


@step("state -> float")
def utility_scale_of_table(s: State) -> float:
    """How large utilities can be: the span of the knots times the largest |h|."""
    return (s.knots[s.n_knots - 1] - s.knots[0]) * s.max_abs_h
