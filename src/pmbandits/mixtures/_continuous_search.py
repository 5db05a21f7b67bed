"""Choosing among all mixtures, without a grid; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.confidence._bounds import (
    OPTIMISTIC,
    PESSIMISTIC,
    update_confidence_sets,
    utility_bound,
    wasserstein_radius,
)
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import arm_utilities, share_of_ones, utility
from pmbandits.metrics.encoding import extremum_location, extremum_value, h_max, h_value, n_extrema
from pmbandits.mixtures._constraints import (
    fill_linear_maximiser,
    is_same_mixture,
    keeps_limits,
    make_feasible_start_in_place,
)
from pmbandits.mixtures._index import HOLDER_BONUS, TIE, dot, mixture_bonus, ready
from pmbandits.mixtures._optimistic_objectives import objective_of_largest_utility_in_sets, utility_plus_holder_bonus
from pmbandits.mixtures._pairwise_ascent import (
    VALUE,
    call_value,
    empirical_utility,
    gap_at_which_to_stop,
    grain,
    maximise_objective_in_place,
    pairwise_ascent_in_place,
)
from pmbandits.mixtures._segments import end_of_segment, fill_least_weights, have_all_paid, weight_of_columns
from pmbandits.state.arrays import copy_numbers_into, fill_array_with, largest_of, mark_next_largest, smallest_of
from pmbandits.state.compile import kernel
from pmbandits.state.linking import make_pointer_getter, shared, step
from pmbandits.state.numba_types import State, unpack

MAX_VERTEX_STARTS = 8  # arms with whose largest shares searches among very many vertices begin
MAX_VERTEX_STEPS = 20  # of each of them
CHORD = 1e-3  # the share of an arm over which the slope towards it is taken there


@shared(VALUE)
def empirical_mixture_value(s: State, a: FloatArray, radius: FloatArray) -> float:
    """The empirical utility of the mixture a."""
    return utility(s, a)


@shared(VALUE)
def optimistic_mixture_value(s: State, a: FloatArray, radius: FloatArray) -> float:
    """The largest utility that the mixture a can have in the confidence sets."""
    return utility_bound(s, a, OPTIMISTIC)


@shared(VALUE)
def holder_bonus_value(s: State, a: FloatArray, radius: FloatArray) -> float:
    """The empirical utility of the mixture a plus its bonus."""
    return utility(s, a) + mixture_bonus(s, a, radius, HOLDER_BONUS)


value_of_utility = make_pointer_getter(empirical_mixture_value)
value_of_largest_utility = make_pointer_getter(optimistic_mixture_value)
value_with_holder_bonus = make_pointer_getter(holder_bonus_value)


@shared("state -> none")
def move_mix_to_best_mean_within_limits(s: State) -> None:
    """Move ``s.mix`` to the nearest best mean under limits, towards the feasible mixture of extreme mean."""
    k, a, mean, low, high = s.n_arms, s.mix, 0.0, 1.0, 0.0
    p, minus, end = s.search_scratch[0], s.search_scratch[1], s.search_scratch[2]
    for i in range(k):
        p[i] = share_of_ones(s, i)
        minus[i] = -p[i]
        mean += a[i] * p[i]
        low, high = min(low, p[i]), max(high, p[i])
    goal = nearest_best_mean(s.h, low, high, mean)
    if goal == mean:
        return
    fill_linear_maximiser(s, p if goal > mean else minus, end)
    radius = dot(end, p)
    if abs(radius - mean) < abs(goal - mean):  # the best mean of all cannot be reached
        fill_linear_maximiser(s, minus, end)
        low = dot(end, p)
        fill_linear_maximiser(s, p, end)
        goal = nearest_best_mean(s.h, low, dot(end, p), mean)
        if goal == mean:
            return
        fill_linear_maximiser(s, p if goal > mean else minus, end)
        radius = dot(end, p)
    part = min(max((goal - mean) / (radius - mean), 0.0), 1.0)
    for i in range(k):
        a[i] += part * (end[i] - a[i])


@shared("floats, float, float, float -> float")
def nearest_best_mean(h: FloatArray, low: float, high: float, mean: float) -> float:
    """Of the means between low and high at which h is largest, the one that is nearest to ``mean``."""
    best = h_max(h, low, high)
    slack = TIE * max(1.0, abs(best))
    if h_value(h, mean) >= best - slack:
        return mean
    goal = low
    if h_value(h, low) < best - slack or (h_value(h, high) >= best - slack and high - mean < mean - goal):
        goal = high
    near = abs(goal - mean) if h_value(h, goal) >= best - slack else np.inf
    for m in range(n_extrema(h)):
        u = extremum_location(h, m)
        if low < u < high and extremum_value(h, m) >= best - slack and abs(u - mean) < near:
            goal, near = u, abs(u - mean)
    return goal


@shared("floats, float, float, float -> float")
def mean_inside_flat_top(h: FloatArray, low: float, high: float, mean: float) -> float:
    """A best mean of concave h: where h is largest on an interval, one that is not in its first or last quarter.

    Near an end of the interval (but for 0 and 1) an error of the estimates costs utility, and inside it costs nothing.
    It is the nearest one to ``mean``, between low and high; where h is not flat, ``mean`` itself.
    """
    best = h_max(h, 0.0, 1.0)
    least = best - TIE * max(1.0, abs(best))
    first, last = 0.0 if h_value(h, 0.0) >= least else 1.0, 1.0 if h_value(h, 1.0) >= least else 0.0
    for m in range(n_extrema(h)):
        if extremum_value(h, m) >= least:
            first, last = min(first, extremum_location(h, m)), max(last, extremum_location(h, m))
    if not first < last or h_value(h, mean) < least:
        return mean
    quarter = 0.25 * (last - first)
    least, most = first + quarter if first > 0.0 else 0.0, last - quarter if last < 1.0 else 1.0
    return min(max(min(max(mean, least), most), low), high)


@shared("state, bool -> none")
def move_mix_to_best_mean(s: State, off_the_edge: bool) -> None:
    """Bernoulli arms: U_h = h(mean), so move ``s.mix`` to the nearest best mean. Closed form.

    With ``off_the_edge``, and concave h that is largest on an interval, to one that is not next to its ends.
    """
    if s.n_limited > 0:
        move_mix_to_best_mean_within_limits(s)
        return
    k, a, mean, least, most = s.n_arms, s.mix, 0.0, 0.0, 0.0
    p, lowest, highest, start = np.empty(k), np.empty(k), np.empty(k), 0
    while start < k:  # the mixtures with the least and the largest mean: one arm in each segment
        end, low, high = end_of_segment(s.segment_of, start, k), start, start
        for i in range(start, end):
            p[i], lowest[i], highest[i] = share_of_ones(s, i), 0.0, 0.0
            mean += a[i] * p[i]
            low = i if p[i] < p[low] else low
            high = i if p[i] > p[high] else high
        if have_all_paid(s, start, end):
            total = weight_of_columns(s, a, start, end)
            lowest[low], highest[high] = total, total
        else:
            for i in range(start, end):
                lowest[i], highest[i] = a[i], a[i]
        start = end
    for i in range(k):
        least += lowest[i] * p[i]
        most += highest[i] * p[i]
    goal = nearest_best_mean(s.h, least, most, mean)
    if off_the_edge and s.metric_shape == CONCAVE:
        goal = mean_inside_flat_top(s.h, least, most, goal)
    if goal == mean:
        return
    part, total = (goal - mean) / ((most if goal > mean else least) - mean), 0.0
    part = min(max(part, 0.0), 1.0)
    for i in range(k):
        a[i] *= 1.0 - part
        a[i] += part * (highest[i] if goal > mean else lowest[i])
        total += a[i]
    for i in range(k):
        a[i] /= total


@shared("state -> none")
def set_mix_to_best_arm(s: State) -> None:
    """Convex h: make ``s.mix`` the best single arm; the one being played if it is among the best."""
    if s.n_limited > 0:
        set_to_best_vertex(s, s.mix, 0.0, value_of_utility(), s.mix)
        return
    k = s.n_arms
    value = np.empty(k)
    arm_utilities(s, value)
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    for i in range(k):
        if s.mix[i] == 1.0 and value[i] >= top - slack:
            return
    chosen = 0
    while value[chosen] < top - slack:
        chosen += 1
    fill_array_with(s.mix, 0.0)
    s.mix[chosen] = 1.0


@step("state, floats, int, floats -> none")
def fill_plan_of_rank(s: State, arm_values: FloatArray, rank: int, out: FloatArray) -> None:
    """Give all of each open segment to its arm of a rank (1 is the best), or evenly if that is 0, into ``out``."""
    start = 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        size, total = end - start, weight_of_columns(s, s.mix, start, end)
        taken, values, arm = np.zeros(size), arm_values[start:end].copy(), 0
        for _ in range(min(rank, size)):
            arm = start + mark_next_largest(values, taken)
        for i in range(start, end):
            out[i] = total / size if rank == 0 else total if i == arm else 0.0
            if not have_all_paid(s, start, end):
                out[i] = s.mix[i]
        start = end


@shared("state, int, int, floats -> none")
def set_mix_by_multistart_ascent(s: State, objective: int, value_at: int, arm_values: FloatArray) -> None:
    """h neither concave nor convex: ascend from ``s.mix`` and, after 10 % more rewards, from other starts too.

    Elsewhere: the even mixture, the eight best arms (by ``arm_values``) and, up to five arms, the middle of every pair;
    with h smoothed less and less. With segments: the even one, and the best, second best, … arm of each segment. No
    certificate: the answer is the best that was found. ``objective`` and ``value_at`` are the addresses of the gradient
    and of the value of the utility.
    """
    k, n = s.n_arms, s.rewards
    low, one, radius = np.zeros(k), np.ones(k), np.zeros(k)
    if s.n_segments > 1:
        fill_least_weights(s, low)
    fine, goal, most = grain(s), gap_at_which_to_stop(s), 12 + 2 * k
    a = s.mix.copy()
    pairwise_ascent_in_place(s, objective, a, low, one, s.segment_of, radius, fine, goal, most)
    best = call_value(value_at, s, s.mix, radius)
    if n >= s.next_multistart_at:
        s.next_multistart_at = n + max(1, n // 10)
        taken = np.zeros(k)
        pairs = k * (k - 1) // 2 if k <= 5 and s.n_segments <= 1 else 0
        for start in range(-1, 1 + min(k, 8) + pairs):
            b = np.zeros(k)
            if start < 0:
                copy_numbers_into(b, a)
            elif s.n_segments > 1:
                fill_plan_of_rank(s, arm_values, start, b)
            elif start == 0:
                fill_array_with(b, 1.0 / k)
            elif start <= min(k, 8):
                b[mark_next_largest(arm_values, taken)] = 1.0
            else:
                at = start - 1 - min(k, 8)
                for i in range(k):
                    if at < k - 1 - i:
                        b[i], b[i + 1 + at] = 0.5, 0.5
                        break
                    at -= k - 1 - i
            if start > 0:
                make_feasible_start_in_place(s, b)
            for slope_step in (0.1, 0.02, fine):
                step = max(slope_step, fine)
                pairwise_ascent_in_place(s, objective, b, low, one, s.segment_of, radius, step, goal, most)
                found = call_value(value_at, s, b, radius)
                if found > best + goal:
                    best = found
                    copy_numbers_into(s.mix, b)
    else:
        found = call_value(value_at, s, a, radius)
        if found > best + goal:
            copy_numbers_into(s.mix, a)


@shared("state -> none")
def best_mixture(s: State) -> None:
    """Make ``s.mix`` the best of all mixtures for the rewards so far. If it is among the best already, it stays.

    Nothing happens before every arm has paid. On other than 0/1 rewards, :func:`due` then waits for 1 % more rewards.
    """
    if not ready(s):
        return
    n, k = s.rewards, s.n_arms
    if s.storage_mode == BINARY:
        move_mix_to_best_mean(s, False)
    elif s.metric_shape == CONVEX:
        set_mix_to_best_arm(s)
    elif s.metric_shape == CONCAVE:
        maximise_objective_in_place(s, empirical_utility(), s.mix, np.zeros(k), np.ones(k), np.zeros(k))
    else:
        values = np.empty(k)
        if n >= s.next_multistart_at:
            arm_utilities(s, values)
        set_mix_by_multistart_ascent(s, empirical_utility(), value_of_utility(), values)
    s.next_update_at = n + (1 if s.storage_mode == BINARY else 1 + int(s.search_tolerance * n))
    s.dirty = 0


@kernel
def update_best_mixture(memory: int) -> None:
    """Make the policy's mixture the best one for the rewards so far; called from Python."""
    best_mixture(unpack(memory))


@shared("state, floats, floats, int, floats -> float")
def ascend_to_vertex(s: State, slopes: FloatArray, a: FloatArray, value_at: int, radius: FloatArray) -> float:
    """Convex h under limits: from the vertex that the slopes point at to better ones; the last into a. Its objective.

    A convex objective lies above its tangents. So the vertex to which the slopes at a vertex point is not worse.
    """
    k, best = s.n_arms, -np.inf
    trial, mixed, ahead = np.empty(k), np.empty(k), slopes.copy()
    for _ in range(MAX_VERTEX_STEPS):
        fill_linear_maximiser(s, ahead, trial)
        value = call_value(value_at, s, trial, radius)
        if not value > best:
            break
        best = value
        copy_numbers_into(a, trial)
        for i in range(k):
            for j in range(k):
                mixed[j] = (1.0 - CHORD) * a[j] + (CHORD if i == j else 0.0)
            ahead[i] = call_value(value_at, s, mixed, radius) - value
    return best


@shared("state, floats, int, floats -> none")
def search_best_feasible_vertex(s: State, a: FloatArray, value_at: int, radius: FloatArray) -> None:
    """Convex h under limits with very many vertices: make a the best of those that ascents lead to; tied, stay.

    They begin near a, at the vertex with the largest average of the arms' own utilities, and where each of the best
    arms has its largest share.
    """
    k = s.n_arms
    single, start, found, taken = np.empty(k), np.zeros(k), np.empty(k), np.zeros(k)
    for i in range(k):
        start[i] = 1.0
        single[i] = call_value(value_at, s, start, radius)
        start[i] = 0.0
    spread = largest_of(single) - smallest_of(single)
    best = call_value(value_at, s, a, radius) if keeps_limits(s, a) else -1e300
    for c in range(-2, min(k, MAX_VERTEX_STARTS)):
        copy_numbers_into(start, a if c == -2 else single)
        if c >= 0:
            start[mark_next_largest(single, taken)] += 1.0 + k * spread
        value = ascend_to_vertex(s, start, found, value_at, radius)
        if value > best + TIE * max(1.0, abs(best)):
            best = value
            copy_numbers_into(a, found)


@shared("state, floats, int, floats -> none")
def set_to_best_feasible_vertex(s: State, a: FloatArray, value_at: int, radius: FloatArray) -> None:
    """Convex h under limits: make a the vertex of the feasible set with the largest objective; tied, stay."""
    if s.n_corners == 0 or s.n_segments > 1:
        search_best_feasible_vertex(s, a, value_at, radius)
        return
    value, stay = np.empty(s.n_corners), -1
    for c in range(s.n_corners):
        value[c] = call_value(value_at, s, s.corners[c], radius)
        stay = c if is_same_mixture(s.corners[c], a) else stay
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = stay
    if stay < 0 or value[stay] < top - slack:
        chosen = 0
        while value[chosen] < top - slack:
            chosen += 1
    copy_numbers_into(a, s.corners[chosen])


@shared("state, floats, float, int, floats -> none")
def set_to_best_vertex(s: State, a: FloatArray, floor: float, value_at: int, radius: FloatArray) -> None:
    """Convex h: make a the best mixture that gives one arm all but the floors; tied, stay; else the first.

    Within limits: the best of their vertices; if these are too many to be listed, the best that a search finds.
    """
    if s.n_limited > 0:
        set_to_best_feasible_vertex(s, a, value_at, radius)
        return
    k = s.n_arms
    value, corner = np.empty(k), np.empty(k)
    for i in range(k):
        fill_array_with(corner, floor)
        corner[i] = 1.0 - (k - 1) * floor
        value[i] = call_value(value_at, s, corner, radius)
    top = largest_of(value)
    slack = TIE * max(1.0, abs(top))
    chosen = -1
    for i in range(k):
        if value[i] >= top - slack and (chosen < 0 or a[i] == 1.0 - (k - 1) * floor):
            chosen = i
    fill_array_with(a, floor)
    a[chosen] = 1.0 - (k - 1) * floor


@shared("state, bool -> none")
def update_optimistic_mixture(s: State, with_bonus: bool) -> None:
    """Make ``s.mix`` the mixture, with the floor, that has the largest optimistic value; tied, stay.

    With a bonus, the value is the empirical utility plus the bonus.
    """
    if not ready(s):
        return
    update_confidence_sets(s)
    n, k, floor = s.rewards, s.n_arms, s.min_share
    if s.current_point < 0 and s.n_limited == 0:
        fill_array_with(s.mix, 1.0 / k)
    radius = s.radius.copy()
    if with_bonus:
        for i in range(k):
            radius[i] = wasserstein_radius(s, i)
    if s.metric_shape == CONVEX:
        value_at = value_with_holder_bonus() if with_bonus else value_of_largest_utility()
        set_to_best_vertex(s, s.mix, floor, value_at, radius)
    else:
        low, high = np.full(k, floor), np.full(k, 1.0 - (k - 1) * floor if s.n_limited == 0 else 1.0)
        objective = utility_plus_holder_bonus() if with_bonus else objective_of_largest_utility_in_sets(s)
        maximise_objective_in_place(s, objective, s.mix, low, high, radius)
    s.current_point = 0
    s.next_update_at = n + 1 + int(s.search_tolerance * n)
    s.dirty = 0


@shared("state, floats, floats, floats -> none")
def set_to_best_mixture_in_box(s: State, a: FloatArray, low: FloatArray, high: FloatArray) -> None:
    """Make a the mixture with the largest empirical utility between low and high."""
    if s.metric_shape == CONVEX:
        set_to_best_vertex(s, a, 0.0, value_of_utility(), a)
    else:
        maximise_objective_in_place(s, empirical_utility(), a, low, high, a)


@step("floats, floats, floats, int, float, bool, floats -> bool")
def try_fill_mixture_within_limit(
    a: FloatArray, low: FloatArray, high: FloatArray, arm: int, limit: float, above: bool, out: FloatArray
) -> bool:
    """A mixture near a that gives an arm at least (or at most) ``limit``; False if the box has none."""
    k = a.size
    copy_numbers_into(out, a)
    out[arm] = max(a[arm], limit) if above else min(a[arm], limit)
    rest = a[arm] - out[arm]  # to be spread over the others
    available_weight = 0.0
    for i in range(k):
        if i != arm:
            available_weight += high[i] - a[i] if rest > 0.0 else a[i] - low[i]
    if abs(rest) > available_weight * (1.0 + 1e-12):
        return False
    for i in range(k):
        if i != arm and rest != 0.0:
            out[i] += rest / available_weight * (high[i] - a[i] if rest > 0.0 else a[i] - low[i])
    return True


@shared("state, floats, floats, float, float, int -> int")
def way_out_of_box_to_better_mixture(
    s: State, low: FloatArray, high: FloatArray, reach: float, tolerance: float, first: int
) -> int:
    """Which way out of the box around the current mixture may lead to a better one: 2·arm (+1 if below), or −1.

    Out is an arm's weight above or below by ``reach``: 2K concave programs, the one that succeeded last time first.
    A way is closed when its certificate shows that nothing there exceeds the lower bound of the current mixture
    by more than the tolerance.
    """
    k, mix = s.n_arms, s.mix
    least = utility_bound(s, mix, PESSIMISTIC) + tolerance
    radius, b = s.radius.copy(), np.empty(k)
    if s.metric_shape == CONVEX and s.n_limited > 0:
        for c in range(s.n_corners):
            if not is_same_mixture(s.corners[c], mix) and utility_bound(s, s.corners[c], OPTIMISTIC) > least:
                return 0
        return -1
    objective, slope_step, goal = 0, grain(s), gap_at_which_to_stop(s)
    if s.metric_shape != CONVEX:
        objective = objective_of_largest_utility_in_sets(s)
    for j in range(2 * k):
        way = (first + j) % (2 * k)
        arm, above = way // 2, way % 2 == 0
        if s.metric_shape == CONVEX:
            if above and mix[arm] < 1.0:
                fill_array_with(b, 0.0)
                b[arm] = 1.0
                if utility_bound(s, b, OPTIMISTIC) > least:
                    return way
            continue
        limit = mix[arm] + reach if above else mix[arm] - reach
        if limit > high[arm] or limit < low[arm]:
            continue
        floor, top = low.copy(), high.copy()
        if above:
            floor[arm] = limit
        else:
            top[arm] = limit
        if not try_fill_mixture_within_limit(mix, floor, top, arm, limit, above, b):
            continue
        for _ in range(12 + k):  # a few passes at a time: most ways are decided early
            gap = pairwise_ascent_in_place(s, objective, b, floor, top, s.segment_of, radius, slope_step, goal, 8)
            value = utility_bound(s, b, OPTIMISTIC)
            if value > least:
                return way
            if value + gap <= least or gap <= goal:
                break
    return -1
