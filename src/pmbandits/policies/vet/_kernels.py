"""Kernels of Vet: the best mixture, the shares to reach next, and when to look at all rewards again.

The rule is written out in ``policies/vet/vet.py``; here are its parts, compiled.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.encoding import h_slope
from pmbandits.mixtures._constraint_tracking import is_arriving
from pmbandits.mixtures._constraints import (
    fill_linear_maximiser,
    fill_linear_maximiser_within_limits,
    keeps_limits,
    make_feasible_start_in_place,
)
from pmbandits.mixtures._continuous_search import (
    move_mix_to_best_mean,
    set_mix_by_multistart_ascent,
    set_to_best_feasible_vertex,
)
from pmbandits.mixtures._index import TIE
from pmbandits.mixtures._kl_inf import nearest_mean_with_utility, range_of_means_with_utility
from pmbandits.mixtures._segments import (
    columns_of_segment,
    end_of_segment,
    fill_least_weights,
    fill_segment_frequencies,
    have_all_paid,
    move_mix_to_frequencies,
    n_elapsed_rounds_of_columns,
    n_pulls_of_columns,
    segment_number,
    weight_of_columns,
)
from pmbandits.mixtures._survival_table import (
    choose_table_knots,
    fill_h_slopes_by_cell,
    fill_mixture_survival_on_table,
    fill_survival_rows,
    maximise_in_place_on_table,
    slope_towards_arm,
    table_utility,
    utility_of_survival,
    utility_on_table,
    utility_scale_of_table,
    value_on_table,
)
from pmbandits.mixtures._tracking import n_elapsed_rounds, n_pulls_or_rewards
from pmbandits.policies.vet._index import (
    chord_share,
    fill_influence,
    fill_segment_survival,
    slope_step_of_requirements,
    unpack,
    update_vet_index,
    vet_slope_step,
)
from pmbandits.policies.vet._plans import N_RIVALS, set_mix_to_best_plan, update_indices_by_plans
from pmbandits.state.arrays import copy_numbers_into, fill_array_with, largest_of
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

MIN_GAIN = 1e-9  # a mixture is better if it gains more than this part of the largest utility
LOOK_AHEAD = 100  # rounds: arms are pulled for the shares to have by then, or when the window ends if that is sooner


@shared("state -> none")
def set_mix_to_best_single_arm(s: State) -> None:
    """Convex h: make ``s.mix`` the arm with the largest utility; the one that is played if it is among the best."""
    k = s.n_arms
    top = largest_of(s.row_utility)
    chosen = -1
    for i in range(k):
        if s.row_utility[i] >= top - TIE * max(1.0, abs(top)) and (chosen < 0 or s.mix[i] == 1.0):
            chosen = i
    fill_array_with(s.mix, 0.0)
    s.mix[chosen] = 1.0


@shared("state -> none", unpack)
def improve_mix_by_chords(s: State) -> None:
    """Neither shape: move ``s.mix`` to the best mixture of it and one arm, with any share of a grid, if that is better.

    A climb stops where no small step helps. This looks beyond, along the straight line (the chord) to each arm, which
    takes the place of others of its segment.
    """
    cells = s.n_knots - 1
    above, own, trial = np.empty(cells), np.empty(cells), np.empty(cells)
    for _ in range(3):
        fill_mixture_survival_on_table(s, s.mix, s.played_survival)
        copy_numbers_into(above, s.played_survival)
        best = utility_of_survival(s.h, s.knots, above, s.n_knots) + MIN_GAIN * utility_scale_of_table(s)
        arm, best_share, start = -1, 0.0, 0
        while start < s.n_arms:
            end, weight = end_of_segment(s.segment_of, start, s.n_arms), 0.0
            if have_all_paid(s, start, end):
                weight = weight_of_columns(s, s.mix, start, end)
                fill_segment_survival(s, segment_number(s, start), own)
            for i in range(start, end):
                share, turn = weight, 0
                while s.mix[i] < weight and share > chord_share(s, i, turn):
                    share = chord_share(s, i, turn)
                    for c in range(cells):
                        trial[c] = above[c] + share * (s.survival_rows[i, c] - own[c])
                    value = utility_of_survival(s.h, s.knots, trial, s.n_knots)
                    if value > best:
                        best, arm, best_share = value, i, share
                    turn += 1
            start = end
        if arm < 0:
            return
        start, end = columns_of_segment(s, segment_number(s, arm))
        kept = 1.0 - best_share / weight_of_columns(s, s.mix, start, end)
        for i in range(start, end):
            s.mix[i] *= kept
        s.mix[arm] += best_share


@shared("state, float, float -> none", unpack)
def set_mix_to_best_mixture(s: State, slope_step: float, goal: float) -> None:
    """The best mixture for the rewards so far, into ``s.mix``."""
    if s.storage_mode == BINARY:
        move_mix_to_best_mean(s, True)
    elif s.metric_shape == CONCAVE:
        low = np.empty(s.n_arms)
        fill_array_with(low, 0.0)
        if s.n_segments > 1:
            fill_least_weights(s, low)
        maximise_in_place_on_table(s, s.mix, low, slope_step, goal, 40)
    elif s.metric_shape == CONVEX and s.n_limited > 0:
        set_to_best_feasible_vertex(s, s.mix, value_on_table(), s.mix)
    elif s.metric_shape == CONVEX:
        set_mix_to_best_single_arm(s)
    else:
        set_mix_by_multistart_ascent(s, table_utility(), value_on_table(), s.row_utility)
        if s.n_limited == 0:
            improve_mix_by_chords(s)


@shared("state -> none", unpack)
def drop_shares_below_one_pull(s: State) -> None:
    """Make shares of ``s.mix`` of less than one pull 0, for the others of their segment, unless limits forbid that."""
    rest, start, k, n = s.mix.copy(), 0, s.n_arms, n_elapsed_rounds(s)
    while start < k:
        end, kept = end_of_segment(s.segment_of, start, k), 0.0
        if s.n_segments > 1:
            n = n_elapsed_rounds_of_columns(s, start, end)
        if s.window_end[segment_number(s, start)] > 0:
            weight = weight_of_columns(s, s.mix, start, end)
            for i in range(start, end):
                if rest[i] * n < weight:
                    rest[i] = 0.0
                kept += rest[i]
            for i in range(start, end):
                rest[i] = rest[i] * weight / kept
        start = end
    if s.n_limited == 0 or keeps_limits(s, rest):
        copy_numbers_into(s.mix, rest)


@shared("state, float, float -> none", unpack)
def fill_target_shares(s: State, slope_step: float, goal: float) -> None:
    """The shares to have when the window ends, into ``s.target_shares``: no less than what was pulled already.

    Concave h, without limits: the best of those. Else, what is left is given to the arms of the mixture in its
    proportions: what the arms left out have cost is then borne by all of them, and none with a small share is starved.
    With segments, a window has so many arrivals of each, and the shares of a segment add up to its weight.
    """
    k, start = s.n_arms, 0
    low = np.empty(k)
    concave = s.metric_shape == CONCAVE and s.n_limited == 0
    while start < k:
        end, window_end = end_of_segment(s.segment_of, start, k), float(s.window_end[segment_number(s, start)])
        weight, left, lack = weight_of_columns(s, s.mix, start, end), 1.0, 0.0
        if window_end > 0.0:
            for i in range(start, end):
                low[i] = s.pulls[i] / window_end
                left -= low[i]
            if concave:
                for i in range(start, end):
                    lack += max(s.mix[i] / weight - low[i], 0.0)
                for i in range(start, end):  # start: what the window has goes to the arms that are behind
                    share = low[i] + left * max(s.mix[i] / weight - low[i], 0.0) / lack
                    s.target_shares[i] = share * weight
            else:
                fill_target_shares_in_proportion(s, low, start, end, weight)
        for i in range(start, end):
            if window_end == 0.0:
                s.target_shares[i] = s.mix[i]
            low[i] = low[i] * weight if window_end > 0.0 else s.mix[i]
        start = end
    if concave:
        maximise_in_place_on_table(s, s.target_shares, low, slope_step, goal, 20)


@shared("state, floats, int, int, float -> none", unpack)
def fill_target_shares_in_proportion(s: State, low: FloatArray, start: int, end: int, weight: float) -> None:
    """Make the shares of a segment in ``s.target_shares`` at least ``low``, and else in the proportions of the mixture.

    Both are shares of the segment; those to have are then multiplied by its weight.
    """
    scale = 1.0
    for _ in range(end - start + 1):
        rest, mixed = 1.0, 0.0
        for i in range(start, end):
            if scale * (s.mix[i] / weight) > low[i]:
                mixed += s.mix[i] / weight
            else:
                rest -= low[i]
        if not mixed > 0.0 or scale == rest / mixed:
            break
        scale = rest / mixed
    for i in range(start, end):
        s.target_shares[i] = max(scale * (s.mix[i] / weight), low[i]) * weight


@shared("state, int -> int", unpack)
def arm_furthest_behind_target(s: State, segment: int) -> int:
    """The arm of a segment that is furthest behind the share to have when its window ends, or 100 rounds from now."""
    start, stop, n, weight = 0, s.n_arms, s.t, 1.0
    if s.n_segments > 1:
        start, stop = columns_of_segment(s, segment)
        n, weight = n_pulls_of_columns(s, start, stop), weight_of_columns(s, s.target_shares, start, stop)
    end = min(max(s.window_end[segment], n + 1), n + LOOK_AHEAD)
    arm, most = start, s.target_shares[start] / weight * end - s.pulls[start]
    for i in range(start + 1, stop):
        lag = s.target_shares[i] / weight * end - s.pulls[i]
        if lag > most + 1e-9:
            arm, most = i, lag
    return arm


@shared("state, floats, floats -> none")
def fill_required_values_within_limits(s: State, value: FloatArray, bar: FloatArray) -> None:
    """Within limits: the value of each arm with which it would have a place in the mixture of the largest ⟨value, b⟩.

    Limits on single arms: that of the least arm which has more than its floor. Else by the arm's reduced cost.
    """
    k, best = s.n_arms, np.empty(s.n_arms)
    if s.n_limit_rows > 0:
        fill_linear_maximiser_within_limits(s, value, best, bar)
        for i in range(k):
            bar[i] += value[i]
        return
    fill_linear_maximiser(s, value, best)
    least = np.inf
    for i in range(k):
        if best[i] > s.min_shares[i]:
            least = min(least, value[i])
    fill_array_with(bar, least)


@shared("state -> none", unpack)
def fill_required_utilities_within_limits(s: State) -> None:
    """Write the utility that each arm needs under limits: by the vertices, if known, else as if it were linear."""
    if s.n_corners == 0 or s.n_segments > 1:
        fill_required_values_within_limits(s, s.row_utility, s.required_utility)
        return
    fill_array_with(s.required_utility, np.inf)
    for c in range(s.n_corners):
        behind = max(s.worth - utility_on_table(s, s.corners[c], s.mix), 0.0)
        for i in range(s.n_arms):
            if s.corners[c, i] > 1e-9:
                s.required_utility[i] = min(s.required_utility[i], s.row_utility[i] + behind / s.corners[c, i])


@shared("state, float -> none", unpack)
def set_requirements_for_place(s: State, slope_step: float) -> None:
    """Compute what an arm needs to deserve a place: Φ, λ and the utility of what is played."""
    fill_mixture_survival_on_table(s, s.mix, s.played_survival)
    s.worth = utility_of_survival(s.h, s.knots, s.played_survival, s.n_knots)
    if s.metric_shape == CONCAVE:
        fill_mixture_survival_on_table(s, s.target_shares, s.played_survival)
    steep = np.empty(s.n_knots)
    fill_h_slopes_by_cell(s, s.played_survival, slope_step, s.knot_scratch, steep)
    fill_influence(s, steep)
    start = 0
    while start < s.n_arms:
        end, segment = end_of_segment(s.segment_of, start, s.n_arms), segment_number(s, start)
        weight, level = weight_of_columns(s, s.mix, start, end), 0.0
        if s.window_end[segment] > 0 and s.metric_shape == CONCAVE:
            # λ: the slope of the arm that is furthest behind; it is the one that is pulled
            level = slope_towards_arm(s, steep, arm_furthest_behind_target(s, segment))
        elif s.window_end[segment] > 0:
            for i in range(start, end):
                if s.mix[i] > 0.0:
                    level += s.mix[i] / weight * slope_towards_arm(s, steep, i)
        s.level[segment] = level
        start = end
    if s.n_limited > 0:
        set_requirements_within_limits(s, steep)
    if s.storage_mode == BINARY:
        set_requirements_as_means(s, steep[0], slope_step)


@shared("state, floats -> none", unpack)
def set_requirements_within_limits(s: State, weighted_slopes: FloatArray) -> None:
    """Compute what each arm needs to deserve a place within limits: a slope, and a utility."""
    slopes = np.empty(s.n_arms)
    for i in range(s.n_arms):
        slopes[i] = slope_towards_arm(s, weighted_slopes, i)
    fill_required_values_within_limits(s, slopes, s.required_slope)
    if s.metric_shape != CONCAVE:
        fill_required_utilities_within_limits(s)


@shared("state, float, float -> none", unpack)
def set_requirements_as_means(s: State, slope: float, slope_step: float) -> None:
    """0/1 rewards: in closed form λ is a mean, that of the arm or of the mixture. The cell's slope is ``slope``."""
    s.steep = h_slope(s.h, s.played_survival[0], slope_step)
    for m in range(max(s.n_segments, 1)):
        s.level[m] = s.level[m] / slope if slope != 0.0 else s.played_survival[0]
    for i in range(s.n_limited):
        s.required_slope[i] = s.required_slope[i] / slope if slope != 0.0 else s.played_survival[0]
    if (s.metric_shape == CONVEX and s.n_segments <= 1) or s.n_limited > 0:
        s.first_good, s.last_good = range_of_means_with_utility(s.h, s.worth)
    elif s.metric_shape != CONCAVE:
        mean, more = s.played_survival[0], s.worth + TIE * max(1.0, abs(s.worth))
        s.first_good = nearest_mean_with_utility(s.h, mean, more, False)
        upper = nearest_mean_with_utility(s.h, mean, more, True)
        s.last_good = upper if upper >= 0.0 else 2.0


@shared("state -> none", unpack)
def begin_windows_of_segments(s: State) -> None:
    """Begin the windows of segments, and make the weights of each segment add up to how often it came."""
    start = 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        n = n_pulls_of_columns(s, start, end)
        s.window_end[s.segment_of[start]] = n + max(1, n // 100) if have_all_paid(s, start, end) else 0
        start = end
    if s.n_segments > 1:
        totals = np.empty(s.n_segments)
        fill_segment_frequencies(s, totals)
        move_mix_to_frequencies(s, totals)
        if not keeps_limits(s, s.mix):
            make_feasible_start_in_place(s, s.mix)


@shared("state -> none", unpack)
def update_mixture_shares_and_indices(s: State) -> None:
    """Update from all rewards: the best mixture, the shares to reach, and the index of every arm left out."""
    k, t = s.n_arms, float(n_elapsed_rounds(s))
    s.window_end[s.n_segments] = s.t + max(1, s.t // 100)
    s.next_look = s.rewards + max(1, s.rewards // 100)
    s.looked, s.dirty = s.rewards, 0
    if s.n_segments > 0:
        begin_windows_of_segments(s)
    low, high, total = s.knots[0], s.knots[max(s.n_knots - 1, 0)], 0.0
    choose_table_knots(s, s.pad)
    if s.knots[0] != low or s.knots[s.n_knots - 1] != high:  # an arm may now reach further than when that was found
        for i in range(k):
            s.kl_inf_bound_n_rewards[i] = 0
    fill_survival_rows(s, -1)
    for i in range(k):
        total += s.n_rewards[i] * s.row_variance[i]
    s.within = total / max(s.rewards - k, 1)
    slope_step = vet_slope_step(s)
    goal = 0.02 * utility_scale_of_table(s) / t
    if s.metric_shape == CONVEX and s.n_segments > 1 and s.storage_mode != BINARY and s.n_limited == 0:
        update_by_plans(s, slope_step, goal)
        return
    set_mix_to_best_mixture(s, slope_step, goal)
    update_shares_for_mix(s, slope_step, goal)
    for i in range(k):
        if s.left_out[i] == 1:
            update_vet_index(s, i)


@shared("state, float, float -> none", unpack)
def update_by_plans(s: State, slope_step: float, goal: float) -> None:
    """Update from all rewards by the plans of ``_plans.py``: the best one is played, and arms are tested in them."""
    plans = np.empty((1 + min(N_RIVALS, s.n_knots - 1), s.n_segments), np.int64)
    n_plans = set_mix_to_best_plan(s, slope_step, plans)
    update_shares_for_mix(s, slope_step, goal)
    update_indices_by_plans(s, plans, n_plans)


@shared("state, float, float -> none", unpack)
def update_shares_for_mix(s: State, slope_step: float, goal: float) -> None:
    """Update what follows from ``s.mix``: the shares to reach, what arms need for a place, and which are left out."""
    k, start, n = s.n_arms, 0, n_elapsed_rounds(s)
    drop_shares_below_one_pull(s)
    fill_target_shares(s, slope_step, goal)
    set_requirements_for_place(s, slope_step_of_requirements(s))
    while start < k:
        end, segment, members = end_of_segment(s.segment_of, start, k), segment_number(s, start), 0
        is_open = s.window_end[segment] > 0
        if s.n_segments > 1:
            n = n_elapsed_rounds_of_columns(s, start, end)
        for i in range(start, end):
            s.left_out[i] = 1 if s.mix[i] == 0.0 and is_open else 0
            members += 1 - s.left_out[i]
            s.vet_index[i], s.vetted_n_rewards[i] = np.inf, s.n_rewards[i]
        s.threshold[segment] = math.log(n / (members * (end - start))) if is_open else -np.inf
        start = end


@step("state, int -> none", unpack)
def count_pulls_in_index(s: State, i: int) -> None:
    """Bring the index of an arm up to date with its pulls and rewards, with the D of the last look."""
    before, n = float(max(s.vetted_pulls[i], s.vetted_n_rewards[i])), float(n_pulls_or_rewards(s, i))
    s.vet_index[i] = n * ((s.vet_index[i] - math.log(before)) / before) + math.log(n)
    s.vetted_pulls[i], s.vetted_n_rewards[i] = s.pulls[i], s.n_rewards[i]


@step("state -> bool", unpack)
def are_looks_far_enough_apart(s: State) -> bool:
    """Whether new rewards may be a reason to look: not more often than after every thousandth of all rewards."""
    return s.rewards >= s.looked + max(1, s.looked // 1000, s.n_segments // 4)


@shared("state -> bool", unpack)
def update_indices_of_left_out_arms(s: State) -> bool:
    """Bring the indices of arms left out up to date; whether new rewards are a reason to look at everything again.

    They are if an arm that is left out now deserves a place, or if one that is played has a tenth more rewards than at
    the last look. With segments and h that is not concave, D is not worked out between looks (but on 0/1 rewards, where
    it is in closed form), because it depends on all other arms too: then each reward of an arm left out is a reason.
    """
    found, wait = False, s.n_segments > 1 and s.metric_shape != CONCAVE and s.storage_mode != BINARY
    for i in range(s.n_arms):
        more = s.n_rewards[i] - s.vetted_n_rewards[i]
        if s.left_out[i] == 0:
            found |= more > 0 and 10 * more >= s.vetted_n_rewards[i] and s.window_end[segment_number(s, i)] > 0
        elif more > 0 or s.vetted_pulls[i] != s.pulls[i]:
            if wait:
                count_pulls_in_index(s, i)
                found |= more > 0
                continue
            if s.storage_mode != BINARY:
                fill_survival_rows(s, i)
            found |= update_vet_index(s, i) <= 0.0 and more > 0
    return found and are_looks_far_enough_apart(s)


@step("state -> int", unpack)
def left_out_arm_to_retry(s: State) -> int:
    """The arm left out with the least index, of the segment that arrives, if that is below the threshold; else −1."""
    segment = s.arriving if s.n_segments > 0 else 0
    arm, least = -1, s.threshold[segment]
    for i in range(s.n_arms):
        if s.left_out[i] == 1 and is_arriving(s, i) and s.vet_index[i] < least:
            arm, least = i, s.vet_index[i]
    return arm


@shared("state -> bool", unpack)
def is_window_of_segment_over(s: State) -> bool:
    """Whether the segment that arrives is open now but was not at the last look, or its window is over."""
    start, stop = columns_of_segment(s, s.arriving)
    end = s.window_end[s.arriving]
    return end == 0 or (n_pulls_of_columns(s, start, stop) >= end and are_looks_far_enough_apart(s))


@step("state -> none", unpack)
def update_decisions_if_due(s: State) -> None:
    """Update all decisions if it is time to, or if new rewards are a reason to."""
    if (
        s.t >= s.window_end[s.n_segments]
        or s.rewards >= s.next_look
        or (s.n_segments > 0 and is_window_of_segment_over(s))
        or update_indices_of_left_out_arms(s)
    ):
        update_mixture_shares_and_indices(s)


@step("state -> bool", unpack)
def is_arriving_segment_open(s: State) -> bool:
    """Whether each arm of the segment that arrives has a reward; without segments, each arm."""
    start, end = 0, s.n_arms
    if s.n_segments > 1:
        start, end = columns_of_segment(s, s.arriving)
    return have_all_paid(s, start, end)


@step("state -> bool", unpack)
def is_a_segment_open(s: State) -> bool:
    """Whether there is a segment of which each arm has a reward."""
    found, start = False, 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        found |= have_all_paid(s, start, end)
        start = end
    return found


@step("state -> int", unpack)
def arm_to_retry_or_furthest_behind(s: State) -> int:
    """The arm left out that is to be tried again, if there is one; else the one furthest behind its share."""
    arm = left_out_arm_to_retry(s)
    return arm if arm >= 0 else arm_furthest_behind_target(s, s.arriving if s.n_segments > 0 else 0)
