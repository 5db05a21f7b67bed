"""Kernels of Vet: the best mixture, the shares to reach next, and which arms left out must be tried again.

The rule is written out in ``policies/vet/vet.py``; here are its parts, compiled.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import share_of_ones
from pmbandits.metrics.encoding import h_slope
from pmbandits.mixtures._constraints import fill_linear_maximiser, fill_linear_maximiser_within_rows, keeps_limits
from pmbandits.mixtures._continuous_search import (
    move_mix_to_best_mean,
    set_mix_by_multistart_ascent,
    set_to_best_feasible_vertex,
)
from pmbandits.mixtures._index import TIE
from pmbandits.mixtures._kl_inf import (
    UNREACHABLE_KL,
    bernoulli_kl_inf,
    kl_inf_and_multiplier,
    kl_inf_dual_and_slope,
    kl_to_reach_utility,
    range_of_means_with_utility,
)
from pmbandits.mixtures._survival_table import (
    choose_table_knots,
    fill_h_slopes_by_cell,
    fill_mixture_survival_on_table,
    fill_survival_rows,
    knot_cell_of,
    maximise_in_place_on_table,
    slope_towards_arm,
    table_utility,
    utility_of_survival,
    utility_on_table,
    utility_scale_of_table,
    value_on_table,
)
from pmbandits.mixtures._tracking import n_elapsed_rounds, n_pulls_or_rewards
from pmbandits.state.arrays import copy_numbers_into, fill_array_with, largest_of
from pmbandits.state.fields import own_field
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State, state

unpack = state(
    window_end=int,  # the round at which to look again
    next_look=int,  # or the number of rewards
    looked=int,  # rewards at the last look
    level=float,  # λ, the slope that an arm needs to deserve a place
    top=float,  # the largest Φ on the support
    worth=float,  # the utility of what is played
    steep=float,  # 0/1 rewards: the slope of h at the mean of what is played
    first_good=float,  # the least mean with the utility of what is played
    last_good=float,  # and the largest
    threshold=float,  # log(n*/K): arms with a smaller index are tried
    pad=float,  # without ends of the support: how far beyond all rewards they are taken to be
    within=float,  # the variance of rewards around the mean of their arm, of all arms together
    caution=float,  # what rewards count that would lie where the arm has not been seen to reach
    # At the knots of the survival table: the survival of what is played, Φ, and working space.
    played_survival=own_field(float, "knot_capacity", "saved", "0 … 1"),
    phi=own_field(float, "knot_capacity", "saved"),
    knot_scratch=own_field(float, "knot_capacity", "scratch"),
    target_shares=own_field(float, "n_arms", "saved", "0 … 1"),  # the shares to have when the window ends
    required_slope=own_field(float, "n_limited", "saved"),  # within limits: the slope that an arm needs for a place,
    required_utility=own_field(float, "n_limited", "saved"),  # and the utility that it must have alone
    left_out=own_field(int, "n_arms", "saved", "0 … 1"),  # 1 for arms that have no place in the mixture
    vet_index=own_field(float, "n_arms", "saved", "any"),  # the index of an arm that is left out,
    vetted_pulls=own_field(int, "n_arms", "saved", "0 … pulls"),  # and its pulls and rewards when that was found
    vetted_n_rewards=own_field(int, "n_arms", "saved", "0 … n_rewards"),
    kl_inf_root=own_field(float, "n_arms", "saved"),  # where the divergence was found, to start there next time
    kl_inf_start_knot=own_field(int, "n_arms", "saved", "0 … knot_capacity"),  # and for metrics that are not concave
    # K_inf of the arm at utility ``kl_inf_bound_utility`` is at least ``kl_inf_lower_bound``,
    kl_inf_lower_bound=own_field(float, "n_arms", "saved cleared", "any"),
    kl_inf_bound_utility=own_field(float, "n_arms", "saved cleared"),
    # with so many rewards; 0: unknown
    kl_inf_bound_n_rewards=own_field(int, "n_arms", "saved cleared", "0 … n_rewards"),
)


@step("state -> float")
def vet_slope_step(s: State) -> float:
    """Half the distance over which slopes of h are taken."""
    return 0.5 / n_elapsed_rounds(s)


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


@shared("state, float, float -> none")
def set_mix_to_best_mixture(s: State, slope_step: float, goal: float) -> None:
    """The best mixture for the rewards so far, into ``s.mix``; shares of less than one pull become none."""
    k = s.n_arms
    if s.storage_mode == BINARY:
        move_mix_to_best_mean(s)
    elif s.metric_shape == CONCAVE:
        maximise_in_place_on_table(s, s.mix, np.zeros(k), slope_step, goal, 40)
    elif s.metric_shape == CONVEX and s.n_limited > 0:
        set_to_best_feasible_vertex(s, s.mix, value_on_table(), s.mix)
    elif s.metric_shape == CONVEX:
        set_mix_to_best_single_arm(s)
    else:
        set_mix_by_multistart_ascent(s, table_utility(), value_on_table(), s.row_utility)
    total, t, rest = 0.0, float(n_elapsed_rounds(s)), s.mix.copy()
    for i in range(k):
        if rest[i] * t < 1.0:
            rest[i] = 0.0
        total += rest[i]
    for i in range(k):
        rest[i] /= total
    if s.n_limited == 0 or keeps_limits(s, rest):
        copy_numbers_into(s.mix, rest)


@shared("state, int, float, float -> none", unpack)
def fill_target_shares(s: State, window_end: int, slope_step: float, goal: float) -> None:
    """The shares to have when the window ends, into ``s.target_shares``: no less than what was pulled already.

    Concave h, without limits: the best of those. Else, what is left is given to the arms of the mixture in its
    proportions: what the arms left out have cost is then borne by all of them, and none with a small share is starved.
    """
    k, end = s.n_arms, float(window_end)
    low, left = np.empty(k), 1.0
    for i in range(k):
        low[i] = s.pulls[i] / end
        s.target_shares[i] = low[i]
        left -= low[i]
    if s.metric_shape == CONCAVE and s.n_limited == 0:
        lack = 0.0
        for i in range(k):
            lack += max(s.mix[i] - low[i], 0.0)
        for i in range(k):  # start: what the window has goes to the arms that are behind
            s.target_shares[i] += left * max(s.mix[i] - low[i], 0.0) / lack
        maximise_in_place_on_table(s, s.target_shares, low, slope_step, goal, 20)
    else:
        fill_target_shares_in_proportion(s, low)


@shared("state, floats -> none", unpack)
def fill_target_shares_in_proportion(s: State, low: FloatArray) -> None:
    """Make ``s.target_shares`` at least ``low``, and else in the proportions of the mixture."""
    scale, k = 1.0, s.n_arms
    for _ in range(k + 1):
        rest, weight = 1.0, 0.0
        for i in range(k):
            if scale * s.mix[i] > low[i]:
                weight += s.mix[i]
            else:
                rest -= low[i]
        if not weight > 0.0 or scale == rest / weight:
            break
        scale = rest / weight
    for i in range(k):
        s.target_shares[i] = max(scale * s.mix[i], low[i])


@step("state, int -> float")
def expected_reach_of_rewards_in_std(s: State, i: int) -> float:
    """How many standard deviations from its mean the rewards of an arm may be expected to reach."""
    n = float(s.n_rewards[i])
    return math.sqrt(2.0 * math.log(n)) + 2.0 / math.sqrt(n)


@step("state, int -> float", unpack)
def shrunk_std(s: State, i: int) -> float:
    """The standard deviation of arm i's rewards, drawn a little towards that of all arms together."""
    return math.sqrt((s.n_rewards[i] * s.row_variance[i] + 2.0 * s.within) / (s.n_rewards[i] + 1.0))


@shared("state, int, float -> float", unpack)
def max_influence_within(s: State, i: int, reach: float) -> float:
    """The largest Φ within a distance of the mean of arm i, or at one of its rewards."""
    mean, last, place = s.sums[i] / s.n_rewards[i], s.n_knots - 1, s.row_knots[i]
    low, high = mean - reach, mean + reach
    top = max(s.phi[place[0]], s.phi[place[s.row_size[i] - 1]])
    if s.metric_shape == CONCAVE:  # then Φ is convex, and so largest at one end
        if low <= s.knots[0]:
            top = max(top, s.phi[0])
        if high >= s.knots[last]:
            top = max(top, s.phi[last])
    else:
        for j in range(s.row_size[i]):
            top = max(top, s.phi[place[j]])
        for c in range(s.n_knots):
            if s.knots[c] >= low and s.knots[c] <= high:
                top = max(top, s.phi[c])
    for end in (low, high):
        if end > s.knots[0] and end < s.knots[last]:
            c = knot_cell_of(s.knots, s.n_knots, end)
            part = (end - s.knots[c]) / (s.knots[c + 1] - s.knots[c])
            top = max(top, s.phi[c] + part * (s.phi[c + 1] - s.phi[c]))
    return top


@shared("state, int -> float", unpack)
def max_reachable_influence(s: State, i: int) -> float:
    """The largest Φ that arm i can reach: on the whole support, or as far as σ allows if that has no ends."""
    return s.top if s.bounded == 1 else max_influence_within(s, i, s.pad * expected_reach_of_rewards_in_std(s, i))


@step("state, int -> float", unpack)
def required_slope(s: State, i: int) -> float:
    """The slope that arm i needs to deserve a place (for 0/1 rewards: the mean)."""
    return s.level if s.n_limited == 0 else s.required_slope[i]


@step("state, int -> float", unpack)
def required_utility(s: State, i: int) -> float:
    """The utility that arm i needs by itself to deserve a place."""
    return s.worth if s.n_limited == 0 else s.required_utility[i]


@shared("state, floats, floats -> none")
def fill_required_values_within_limits(s: State, value: FloatArray, bar: FloatArray) -> None:
    """Within limits: the value of each arm with which it would have a place in the mixture of the largest ⟨value, b⟩.

    Limits on single arms: that of the least arm which has more than its floor. Else by the arm's reduced cost.
    """
    k, best = s.n_arms, np.empty(s.n_arms)
    if s.n_limit_rows > 0:
        fill_linear_maximiser_within_rows(s.limit_rows, s.limit_bounds, value, best, bar)
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
    if s.n_corners == 0:
        fill_required_values_within_limits(s, s.row_utility, s.required_utility)
        return
    fill_array_with(s.required_utility, np.inf)
    for c in range(s.n_corners):
        behind = max(s.worth - utility_on_table(s, s.corners[c], s.mix), 0.0)
        for i in range(s.n_arms):
            if s.corners[c, i] > 1e-9:
                s.required_utility[i] = min(s.required_utility[i], s.row_utility[i] + behind / s.corners[c, i])


@shared("state, int -> float", unpack)
def kl_to_deserve_place(s: State, i: int) -> float:
    """D of an arm: how little its distribution must change to deserve a place. Its row must be up to date.

    Where it is plainly on one side of what the threshold needs, the answer is only known to lie on that side.
    """
    if s.storage_mode == BINARY:
        return bernoulli_kl_to_deserve_place(s, i)
    n = float(n_pulls_or_rewards(s, i))
    need = max(s.threshold - math.log(n), 0.0) / n
    least = kl_to_required_slope(s, i, need) if s.metric_shape != CONVEX else np.inf
    if s.metric_shape != CONCAVE and least >= need:
        least = min(least, kl_to_required_utility(s, i, need))
    return least


@shared("state, int -> float", unpack)
def bernoulli_kl_to_deserve_place(s: State, i: int) -> float:
    """D of an arm that pays 0 or 1."""
    level, worth, first, last = required_slope(s, i), required_utility(s, i), s.first_good, s.last_good
    if s.n_limited > 0 and s.metric_shape != CONCAVE:
        first, last = range_of_means_with_utility(s.h, worth)
    return bernoulli_kl_inf(s.h, s.metric_shape, share_of_ones(s, i), level, s.steep, worth, first, last)


@shared("state, int, float -> float", unpack)
def kl_to_required_slope(s: State, i: int, need: float) -> float:
    """The least relative entropy for the slope of the utility towards an arm to become λ.

    It may change within the arm's own reach, or anywhere at 1/caution times the price. Both look for the largest value
    of the same function of ν, and anywhere means that ν must be smaller: so the second answer follows from the first.
    """
    share, place, used, level = s.row_weights[i], s.row_knots[i], s.row_size[i], required_slope(s, i)
    anywhere = max_reachable_influence(s, i)
    near = (
        max_influence_within(s, i, shrunk_std(s, i) * expected_reach_of_rewards_in_std(s, i))
        if s.caution < 1.0
        else anywhere
    )
    least, s.kl_inf_root[i] = kl_inf_and_multiplier(
        share, place, used, s.phi, level, near, s.kl_inf_root[i], need, s.knot_scratch
    )
    if least <= 0.0 or near >= anywhere:
        return least
    if least >= UNREACHABLE_KL:  # nothing within its reach is enough
        least, s.kl_inf_root[i] = kl_inf_and_multiplier(
            share, place, used, s.phi, level, anywhere, s.kl_inf_root[i], need * s.caution, s.knot_scratch
        )
        return least / s.caution
    largest = 1.0 / (anywhere - level)
    if s.kl_inf_root[i] <= largest or (least >= need and s.kl_inf_root[i] * s.caution <= largest):
        return least
    value, slope = kl_inf_dual_and_slope(share, place, used, s.phi, level, largest)
    return min(least, value / s.caution) if slope >= 0.0 else least


@step("state, int, float, float -> float and int", unpack)
def search_kl_to_reach_utility(s: State, i: int, worth: float, need: float) -> tuple[float, int]:
    """The least relative entropy for an arm's row to reach a utility, and the start that was best."""
    share, place, used, slope_step = s.row_weights[i], s.row_knots[i], s.row_size[i], vet_slope_step(s)
    own, row, played, first = s.row_utility[i], s.survival_rows[i], s.played_survival, s.kl_inf_start_knot[i]
    return kl_to_reach_utility(
        s.h, s.knots, row, played, s.n_knots, share, place, used, own, worth, slope_step, need, first
    )


@shared("state, int, float -> float", unpack)
def kl_to_required_utility(s: State, i: int, need: float) -> float:
    """The least relative entropy for an arm by itself to reach the utility of what is played.

    The more is played, the further. So if the arm is far enough, that is remembered, from a little less than what is
    played if it is far enough from that too. It is not worked out again before the arm has new rewards, or what is
    played has less utility than that, or more is needed.
    """
    own, played = s.row_utility[i], required_utility(s, i)
    if (
        s.kl_inf_bound_n_rewards[i] == s.n_rewards[i]
        and played >= s.kl_inf_bound_utility[i]
        and s.kl_inf_lower_bound[i] >= need
    ):
        return s.kl_inf_lower_bound[i]
    goal = played
    if own >= goal:
        return 0.0
    divergence, s.kl_inf_start_knot[i] = search_kl_to_reach_utility(s, i, goal, need)
    if divergence < need:
        return divergence
    # The divergence grows about like the square of what is lacking: half-way to where the arm would be tried.
    goal -= 0.5 * (1.0 - math.sqrt(need / divergence)) * (goal - own)
    less, start = search_kl_to_reach_utility(s, i, goal, need)
    s.kl_inf_bound_n_rewards[i] = s.n_rewards[i]
    if less >= need:
        s.kl_inf_bound_utility[i], s.kl_inf_lower_bound[i], s.kl_inf_start_knot[i] = goal, less, start
    else:
        s.kl_inf_bound_utility[i], s.kl_inf_lower_bound[i] = played, divergence
    return divergence


@shared("state, int -> float", unpack)
def update_vet_index(s: State, i: int) -> float:
    """Update the index of an arm, n·D + log n, in ``s.vet_index``. Returns D."""
    n = float(n_pulls_or_rewards(s, i))
    s.vetted_pulls[i], s.vetted_n_rewards[i] = s.pulls[i], s.n_rewards[i]
    divergence = kl_to_deserve_place(s, i) if math.log(n) < s.threshold else np.inf
    s.vet_index[i] = n * divergence + math.log(n)
    return divergence


@shared("state -> int", unpack)
def arm_furthest_behind_target(s: State) -> int:
    """The arm that is furthest behind the share that it is to have when the window ends."""
    arm, most = 0, s.target_shares[0] * s.window_end - s.pulls[0]
    for i in range(1, s.n_arms):
        lag = s.target_shares[i] * s.window_end - s.pulls[i]
        if lag > most + 1e-9:
            arm, most = i, lag
    return arm


@shared("state, float -> none", unpack)
def set_requirements_for_place(s: State, slope_step: float) -> None:
    """Compute what an arm needs to deserve a place: Φ, λ and the utility of what is played."""
    fill_mixture_survival_on_table(s, s.mix, s.played_survival)
    s.worth = utility_of_survival(s.h, s.knots, s.played_survival, s.n_knots)
    if s.metric_shape != CONVEX:
        fill_mixture_survival_on_table(s, s.target_shares, s.played_survival)
    steep = np.empty(s.n_knots)
    fill_h_slopes_by_cell(s, s.played_survival, slope_step, s.knot_scratch, steep)
    s.phi[0], s.top = 0.0, 0.0
    for c in range(s.n_knots - 1):
        s.phi[c + 1] = s.phi[c] + steep[c]
        s.top = max(s.top, s.phi[c + 1])
    if s.metric_shape == CONCAVE:  # λ: the slope of the arm that is furthest behind; it is the one that is pulled
        level = slope_towards_arm(s, steep, arm_furthest_behind_target(s))
    else:
        level = 0.0
        for i in range(s.n_arms):
            if s.mix[i] > 0.0:
                level += s.mix[i] * slope_towards_arm(s, steep, i)
    s.level = level
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
    s.level = s.level / slope if slope != 0.0 else s.played_survival[0]
    for i in range(s.n_limited):
        s.required_slope[i] = s.required_slope[i] / slope if slope != 0.0 else s.played_survival[0]
    if s.metric_shape != CONCAVE:
        s.first_good, s.last_good = range_of_means_with_utility(s.h, s.worth)


@shared("state -> none", unpack)
def update_mixture_shares_and_indices(s: State) -> None:
    """Update from all rewards: the best mixture, the shares to reach, and the index of every arm left out."""
    k, t = s.n_arms, float(n_elapsed_rounds(s))
    s.window_end = s.t + max(1, s.t // 100)
    s.next_look = s.rewards + max(1, s.rewards // 100)
    s.looked, s.dirty = s.rewards, 0
    low, high = s.knots[0], s.knots[max(s.n_knots - 1, 0)]
    choose_table_knots(s, s.pad)
    if s.knots[0] != low or s.knots[s.n_knots - 1] != high:  # an arm may now reach further than when that was found
        for i in range(k):
            s.kl_inf_bound_n_rewards[i] = 0
    fill_survival_rows(s, -1)
    total = 0.0
    for i in range(k):
        total += s.n_rewards[i] * s.row_variance[i]
    s.within = total / max(s.rewards - k, 1)
    slope_step = vet_slope_step(s)
    goal = 0.02 * utility_scale_of_table(s) / t
    set_mix_to_best_mixture(s, slope_step, goal)
    fill_target_shares(s, s.window_end, slope_step, goal)
    set_requirements_for_place(s, slope_step * max(1.0, math.log(t)))
    members = 0
    for i in range(k):
        s.left_out[i] = 1 if s.mix[i] == 0.0 else 0
        members += 1 - s.left_out[i]
    s.threshold = math.log(t / (members * k))
    for i in range(k):
        s.vet_index[i], s.vetted_n_rewards[i] = np.inf, s.n_rewards[i]
        if s.left_out[i] == 1:
            update_vet_index(s, i)


@shared("state -> bool", unpack)
def update_indices_of_left_out_arms(s: State) -> bool:
    """Bring the indices of arms left out up to date; whether new rewards are a reason to look at everything again.

    They are if an arm that is left out now deserves a place, or if one that is played has a tenth more rewards than at
    the last look; but not more often than after every thousandth of all rewards.
    """
    found = False
    for i in range(s.n_arms):
        more = s.n_rewards[i] - s.vetted_n_rewards[i]
        if s.left_out[i] == 0:
            found |= more > 0 and 10 * more >= s.vetted_n_rewards[i]
        elif more > 0 or s.vetted_pulls[i] != s.pulls[i]:
            if s.storage_mode != BINARY:
                fill_survival_rows(s, i)
            found |= update_vet_index(s, i) <= 0.0 and more > 0
    return found and s.rewards >= s.looked + max(1, s.looked // 1000)


@step("state -> int", unpack)
def left_out_arm_to_retry(s: State) -> int:
    """The arm left out with the least index, if that is below the threshold; else −1."""
    arm, least = -1, s.threshold
    for i in range(s.n_arms):
        if s.left_out[i] == 1 and s.vet_index[i] < least:
            arm, least = i, s.vet_index[i]
    return arm


@step("state -> none", unpack)
def update_decisions_if_due(s: State) -> None:
    """Update all decisions if it is time to, or if new rewards are a reason to."""
    if s.t >= s.window_end or s.rewards >= s.next_look or update_indices_of_left_out_arms(s):
        update_mixture_shares_and_indices(s)


@step("state -> int", unpack)
def arm_to_retry_or_furthest_behind(s: State) -> int:
    """The arm left out that is to be tried again, if there is one; else the one furthest behind its share."""
    arm = left_out_arm_to_retry(s)
    return arm if arm >= 0 else arm_furthest_behind_target(s)
