"""Kernels of Vet: the index of an arm that is left out, from how little its distribution must change for a place.

The rule is written out in ``policies/vet/vet.py``; here are its parts, compiled.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.estimates._utility import share_of_ones
from pmbandits.metrics.encoding import h_value
from pmbandits.mixtures._kl_inf import (
    UNREACHABLE_KL,
    bernoulli_kl_also_at_0_and_1,
    bernoulli_kl_inf,
    kl_inf_and_multiplier,
    kl_inf_dual_and_slope,
    kl_to_reach_utility,
    pooled_share,
    range_of_means_with_utility,
)
from pmbandits.mixtures._segments import (
    columns_of_segment,
    end_of_segment,
    have_all_paid,
    n_elapsed_rounds_of_columns,
    segment_number,
    weight_of_columns,
)
from pmbandits.mixtures._survival_table import (
    fill_h_slopes_by_cell,
    fill_mixture_survival_on_table,
    knot_cell_of,
    slope_towards_arm,
    utility_of_survival,
    utility_scale_of_table,
)
from pmbandits.mixtures._tracking import n_elapsed_rounds, n_pulls_or_rewards
from pmbandits.state.fields import own_field
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State, state

LARGEST_KL = 1.0  # neither shape: D counts at most so much, since the search for the nearest change may miss it
NORMAL_NODES = (0.0, 1.154405394739968, 2.366759410734541, 3.750439717725742)  # Gauss–Hermite, and their mirror images
NORMAL_WEIGHTS = (0.4571428571428571, 0.480246357210026, 0.061514247935172, 0.001096537711945)
LIGHT_TAIL_FACTOR = 5.0 / 3.0  # D counts up to so much more where a normal distribution would be that much further off
FLAT = 1e-12  # slopes closer than this, relative, are equal
ROUNDING = 1e-13  # a part of the largest utility that is rounding

unpack = state(
    next_look=int,  # the number of rewards at which to look again
    looked=int,  # rewards at the last look
    top=float,  # the largest Φ on the support
    worth=float,  # the utility of what is played
    steep=float,  # 0/1 rewards: the slope of h at the mean of what is played
    first_good=float,  # convex h: the least mean with the utility of what is played; neither: see ``_index``
    last_good=float,  # and the largest
    pad=float,  # without ends of the support: how far beyond all rewards they are taken to be
    within=float,  # the variance of rewards around the mean of their arm, of all arms together
    sigma=float,  # σ of sub-Gaussian rewards; 0 for others
    caution=float,  # what rewards count that would lie where the arm has not been seen to reach
    # For each segment: the arrivals at which to look again (0: not open); then the round of all. Without: the round.
    window_end=own_field(int, "n_segments + 1", "saved"),
    level=own_field(float, "n_segments + 1", "saved"),  # λ, the slope that an arm of the segment needs for a place
    threshold=own_field(float, "n_segments + 1", "saved", "any"),  # log(n*/K): arms with a smaller index are tried
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


@step("state -> float")
def slope_step_of_requirements(s: State) -> float:
    """Half the distance over which slopes of h are taken for Φ: log t times that of other slopes."""
    return vet_slope_step(s) * max(1.0, math.log(n_elapsed_rounds(s)))


@step("state, int, int -> float")
def chord_share(s: State, i: int, turn: int) -> float:
    """A share of arm i: ½, ⅛, … of its segment, and then the share that it has had so far, which no rule can undo."""
    start, end = columns_of_segment(s, segment_number(s, i))
    n, weight = n_elapsed_rounds_of_columns(s, start, end), weight_of_columns(s, s.mix, start, end)
    return weight * min(max(n_pulls_or_rewards(s, i) / n, 0.5 * 0.25**turn), 1.0)


@shared("state, floats -> none", unpack)
def fill_influence(s: State, weighted_slopes: FloatArray) -> None:
    """Φ at the knots, and the largest of these values, from width·h' of each cell."""
    s.phi[0], s.top = 0.0, 0.0
    for c in range(s.n_knots - 1):
        s.phi[c + 1] = s.phi[c] + weighted_slopes[c]
        s.top = max(s.top, s.phi[c + 1])


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
    return s.level[segment_number(s, i)] if s.n_limited == 0 else s.required_slope[i]


@step("state, int -> float", unpack)
def required_utility(s: State, i: int) -> float:
    """The utility that arm i needs by itself (with segments, beside the others) to deserve a place."""
    return s.worth if s.n_limited == 0 or s.n_segments > 1 else s.required_utility[i]


@shared("state, int -> float", unpack)
def kl_to_deserve_place(s: State, i: int) -> float:
    """D of an arm: how little its distribution must change to deserve a place. Its row must be up to date.

    Where it is plainly on one side of what the threshold needs, the answer is only known to lie on that side.
    """
    if s.storage_mode == BINARY:
        return bernoulli_kl_to_deserve_place(s, i)
    n = float(n_pulls_or_rewards(s, i))
    need = max(s.threshold[segment_number(s, i)] - math.log(n), 0.0) / n
    if s.metric_shape == CONCAVE:
        least = kl_to_required_slope(s, i, need)
        if s.sigma > 0.0 and (least >= UNREACHABLE_KL or 0.0 < least < need):
            shift = kl_to_shift_mean(s, i)
            return shift if least >= UNREACHABLE_KL else max(least, shift)
        return least
    if s.metric_shape == CONVEX:
        return kl_to_required_utility(s, i, need)
    if s.n_limited == 0:
        set_requirements_by_chord(s, i)
    least = min(kl_to_required_slope(s, i, need), LARGEST_KL)
    return least if least < need else min(least, kl_to_required_utility(s, i, need))


@shared("state, int, floats -> none", unpack)
def fill_segment_survival(s: State, segment: int, out: FloatArray) -> None:
    """The survival of what is played in a segment, into ``out``."""
    cells = s.n_knots - 1
    if s.n_segments <= 1:
        for c in range(cells):
            out[c] = s.played_survival[c]
        return
    start, end = columns_of_segment(s, segment)
    weights, total = np.zeros(s.n_arms), weight_of_columns(s, s.mix, start, end)
    for i in range(start, end):
        weights[i] = s.mix[i] / total
    fill_mixture_survival_on_table(s, weights, out)


@shared("state, int -> none", unpack)
def set_requirements_by_chord(s: State, i: int) -> None:
    """Neither shape: Φ and λ for a mixture to become better that has a little more of arm i than the arm had so far.

    The mixture is that of what is played and arm i (in place of others of its segment), at the share w that the arm has
    had. Φ is taken there, and λ is the slope towards the arm plus what the mixture lacks, divided by w.
    """
    cells, share = s.n_knots - 1, chord_share(s, i, 64)
    above, own, steep = np.empty(cells), np.empty(cells), np.empty(s.n_knots)
    fill_segment_survival(s, segment_number(s, i), own)
    for c in range(cells):
        above[c] = s.played_survival[c] + share * (s.survival_rows[i, c] - own[c])
    lack = s.worth - utility_of_survival(s.h, s.knots, above, s.n_knots)
    if abs(lack) <= ROUNDING * utility_scale_of_table(s):
        lack = 0.0
    fill_h_slopes_by_cell(s, above, slope_step_of_requirements(s), s.knot_scratch, steep)
    fill_influence(s, steep)
    s.level[segment_number(s, i)] = slope_towards_arm(s, steep, i) + lack / share
    s.kl_inf_root[i] = -1.0


@shared("state, int -> float", unpack)
def bernoulli_kl_to_deserve_place(s: State, i: int) -> float:
    """D of an arm that pays 0 or 1."""
    if s.metric_shape == CONCAVE and s.steep == 0.0:
        mean = s.played_survival[0]
        if h_value(s.h, min(mean + slope_step_of_requirements(s), 1.0)) == h_value(s.h, mean):
            return UNREACHABLE_KL  # a flat part, and not just a peak: no mean is better
    if s.metric_shape != CONCAVE and s.n_limited == 0 and (s.metric_shape != CONVEX or s.n_segments > 1):
        return bernoulli_kl_by_chord(s, i)
    level, worth, first, last = required_slope(s, i), required_utility(s, i), s.first_good, s.last_good
    if s.n_limited > 0 and s.metric_shape != CONCAVE:
        first, last = range_of_means_with_utility(s.h, worth)
    return bernoulli_kl_inf(s.h, s.metric_shape, share_of_ones(s, i), level, s.steep, worth, first, last)


@shared("state, int -> float", unpack)
def bernoulli_kl_by_chord(s: State, i: int) -> float:
    """Neither shape, 0/1 rewards: the least relative entropy to a mean with which some mixture would be better.

    Such a mean lies at or beyond ``first_good`` or ``last_good``, the nearest means on either side of what is played
    that have more utility. With segments these are means of all together, where the other segments have their least or
    their largest mean.
    """
    p, first, last = share_of_ones(s, i), s.first_good, s.last_good
    if s.n_segments > 1:
        first, last = good_means_of_column(s, i)
    if p <= first or p >= last:
        return 0.0
    least = UNREACHABLE_KL
    if first >= 0.0:
        least = bernoulli_kl_also_at_0_and_1(p, first)
    if last <= 1.0:
        least = min(least, bernoulli_kl_also_at_0_and_1(p, last))
    return least


@step("state, int -> two floats", unpack)
def good_means_of_column(s: State, i: int) -> tuple[float, float]:
    """0/1 rewards: with which means of column i all together could have a mean of at most first_good, or last_good."""
    least, most, own, start = 0.0, 0.0, 1.0, 0
    while start < s.n_arms:
        end = end_of_segment(s.segment_of, start, s.n_arms)
        low, high, total = 1.0, 0.0, weight_of_columns(s, s.mix, start, end)
        for j in range(start, end):
            low, high = min(low, share_of_ones(s, j)), max(high, share_of_ones(s, j))
        if s.segment_of[start] == s.segment_of[i]:
            own = total
        elif have_all_paid(s, start, end):
            least, most = least + total * low, most + total * high
        else:
            for j in range(start, end):
                least, most = least + s.mix[j] * share_of_ones(s, j), most + s.mix[j] * share_of_ones(s, j)
        start = end
    first = (s.first_good - least) / own if s.first_good >= 0.0 else -1.0
    return first, (s.last_good - most) / own if s.last_good <= 1.0 else 2.0


@shared("state, int, float -> float", unpack)
def kl_to_required_slope(s: State, i: int, need: float) -> float:
    """The least relative entropy for the slope of the utility towards an arm to become λ.

    It may change within the arm's own reach, or anywhere at 1/caution times the price. Both look for the largest value
    of the same function of ν, and anywhere means that ν must be smaller: so the second answer follows from the first.
    Within reach, tails are taken to be a little lighter than the worst that is possible: see :func:`light_tail_factor`.
    """
    share, place, used, level = s.row_weights[i], s.row_knots[i], s.row_size[i], required_slope(s, i)
    anywhere = max_reachable_influence(s, i)
    if s.bounded == 1 and s.top - level <= FLAT * (abs(s.top) + abs(level)):  # no distribution has a larger slope
        return UNREACHABLE_KL
    near = (
        max_influence_within(s, i, shrunk_std(s, i) * expected_reach_of_rewards_in_std(s, i))
        if s.caution < 1.0
        else anywhere
    )
    least, s.kl_inf_root[i] = kl_inf_and_multiplier(
        share, place, used, s.phi, level, near, s.kl_inf_root[i], need, s.knot_scratch
    )
    if least <= 0.0:
        return least
    factor = light_tail_factor(s)
    if least < need and factor > 1.0:
        least = max(least, min(kl_of_normal_shift(s, i, s.phi, level), factor * least))
    if near >= anywhere:
        return least
    if least >= UNREACHABLE_KL:  # nothing within its reach is enough
        least, s.kl_inf_root[i] = kl_inf_and_multiplier(
            share, place, used, s.phi, level, anywhere, s.kl_inf_root[i], need * s.caution, s.knot_scratch
        )
        return least / s.caution
    largest = 1.0 / (anywhere - level)
    if s.kl_inf_root[i] <= largest or (least >= need and s.kl_inf_root[i] * s.caution * factor <= largest):
        return least
    value, slope = kl_inf_dual_and_slope(share, place, used, s.phi, level, largest)
    return min(least, value / s.caution) if slope >= 0.0 else least


@step("state -> float", unpack)
def light_tail_factor(s: State) -> float:
    """How many times D may count where a normal distribution would be that much further away; 1 if tails may be any."""
    assumed = s.bounded == 1 and (s.metric_shape == CONCAVE or s.n_segments <= 1)
    return min(LIGHT_TAIL_FACTOR, 1.0 / s.caution) if assumed else 1.0


@step("state, int, floats, float -> float", unpack)
def kl_of_normal_shift(s: State, i: int, phi: FloatArray, level: float) -> float:
    """½d²/v: the relative entropy if Φ had a normal distribution, and only its mean moved by d to ``level``.

    v is the variance of Φ over the rewards of the arm.
    """
    mean, square = 0.0, 0.0
    for c in range(s.row_size[i]):
        away = phi[s.row_knots[i, c]] - level
        mean += s.row_weights[i, c] * away
        square += s.row_weights[i, c] * away * away
    variance = square - mean * mean
    return 0.5 * mean * mean / variance if variance > 0.0 else UNREACHABLE_KL


@step("state, float -> float", unpack)
def influence_at(s: State, x: float) -> float:
    """Φ at any x: straight between the knots, and beyond them as in the first and last cell."""
    c = knot_cell_of(s.knots, s.n_knots, x)
    return s.phi[c] + (x - s.knots[c]) * (s.phi[c + 1] - s.phi[c]) / (s.knots[c + 1] - s.knots[c])


@step("state, float -> float", unpack)
def mean_influence_of_normal(s: State, mean: float) -> float:
    """The mean of Φ under a normal distribution with this mean and the standard deviation σ."""
    total = 0.0
    for m in range(len(NORMAL_NODES)):
        away = s.sigma * NORMAL_NODES[m]
        total += NORMAL_WEIGHTS[m] * 0.5 * (influence_at(s, mean - away) + influence_at(s, mean + away))
    return total


@shared("state, int -> float", unpack)
def kl_to_shift_mean(s: State, i: int) -> float:
    """Sub-Gaussian rewards, concave h: the relative entropy of the shift with which the slope towards an arm is λ.

    The arm is taken to have a normal distribution with its mean and σ, and to move by d to either side: ½(d/σ)².
    """
    mean, level, lo, hi = s.sums[i] / s.n_rewards[i], required_slope(s, i), 0.0, s.knots[s.n_knots - 1] - s.knots[0]
    for _ in range(40):
        middle = 0.5 * (lo + hi)
        if max(mean_influence_of_normal(s, mean - middle), mean_influence_of_normal(s, mean + middle)) >= level:
            hi = middle
        else:
            lo = middle
    return 0.5 * (hi / s.sigma) ** 2


@step("state, int, float, float, floats, float, floats, float -> float and int", unpack)
def search_kl_to_reach_utility(
    s: State, i: int, own: float, worth: float, rest: FloatArray, weight: float, other: FloatArray, need: float
) -> tuple[float, int]:
    """The least relative entropy for an arm's row to reach a utility, and the start that was best."""
    share, place, used, slope_step = s.row_weights[i], s.row_knots[i], s.row_size[i], vet_slope_step(s)
    row, first, convex = s.survival_rows[i], s.kl_inf_start_knot[i], s.metric_shape == CONVEX
    return kl_to_reach_utility(
        s.h, convex, s.knots, row, other, rest, weight, s.n_knots, share, place, used, own, worth, slope_step, need,
        first,
    )  # fmt: skip


@shared("state, int, float -> float", unpack)
def kl_to_required_utility(s: State, i: int, need: float) -> float:
    """The least relative entropy for an arm alone (in its segment) to reach the utility of what is played."""
    if s.n_segments <= 1:
        nothing, played = np.empty(0), required_utility(s, i)
        own, other = s.row_utility[i], s.played_survival
        return kl_to_required_utility_beside(s, i, own, played, nothing, 1.0, other, played, need)
    start, end = columns_of_segment(s, s.segment_of[i])
    weight, cells = weight_of_columns(s, s.mix, start, end), s.n_knots - 1
    other, rest, pooled = np.zeros(s.n_knots), np.zeros(s.n_knots), np.empty(cells)
    fill_segment_survival(s, s.segment_of[i], other)
    for c in range(cells):
        rest[c] = max(s.played_survival[c] - weight * other[c], 0.0)
        pooled[c] = rest[c] + weight * s.survival_rows[i, c]
    own = utility_of_survival(s.h, s.knots, pooled, s.n_knots)
    return kl_to_required_utility_beside(s, i, own, s.worth, rest, weight, other, np.inf, need)


@shared("state, int, float, float, floats, float, floats, float, float -> float", unpack)
def kl_to_required_utility_beside(
    s: State, i: int, own: float, goal: float, rest: FloatArray, weight: float, other: FloatArray, demand: float,
    need: float,
) -> float:  # fmt: skip
    """D of arm i with a weight, beside the rest, to reach a utility, the goal: tails are taken to be light.

    The arguments are those of :func:`least_kl_to_required_utility`.
    """
    factor = light_tail_factor(s)
    normal = kl_of_normal_to_required_utility(s, i, goal - own, rest, weight) if factor > 1.0 else 0.0
    if normal < need:  # then D alone must be as much
        return least_kl_to_required_utility(s, i, own, goal, rest, weight, other, demand, need)
    least = least_kl_to_required_utility(s, i, own, goal, rest, weight, other, demand, need / factor)
    return max(least, min(normal, factor * least))


@step("state, int, float, floats, float -> float", unpack)
def kl_of_normal_to_required_utility(s: State, i: int, lack: float, rest: FloatArray, weight: float) -> float:
    """What D would be if Φ, taken where arm i is now, had a normal distribution, and U_h were linear."""
    phi, slopes, mean = np.zeros(s.n_knots), np.empty(s.n_knots), 0.0
    for c in range(s.n_knots - 1):
        phi[c] = pooled_share(rest, weight, c, s.survival_rows[i, c])
    fill_h_slopes_by_cell(s, phi, vet_slope_step(s), s.knot_scratch, slopes)
    phi[0] = 0.0
    for c in range(s.n_knots - 1):
        phi[c + 1] = phi[c] + slopes[c]
    for c in range(s.row_size[i]):
        mean += s.row_weights[i, c] * phi[s.row_knots[i, c]]
    return kl_of_normal_shift(s, i, phi, mean + lack / weight)


@shared("state, int, float, float, floats, float, floats, float, float -> float", unpack)
def least_kl_to_required_utility(
    s: State, i: int, own: float, goal: float, rest: FloatArray, weight: float, other: FloatArray, demand: float,
    need: float,
) -> float:  # fmt: skip
    """The least relative entropy for arm i with a weight, beside the rest, to reach a utility, the goal.

    With the distribution that it has, that utility is ``own``. ``other`` is what is played in its place.

    ``demand`` says how much is asked of the arm: the more, the further. So if the arm is far enough, that is
    remembered, from a little less than that if it is far enough from that too. It is not worked out again before the
    arm has new rewards, or less is asked of it, or more is needed. If ``demand`` is infinite, nothing is remembered.
    """
    several = s.n_segments > 1
    if (
        s.kl_inf_bound_n_rewards[i] == s.n_rewards[i]
        and demand >= s.kl_inf_bound_utility[i]
        and demand < np.inf
        and s.kl_inf_lower_bound[i] >= need
    ):
        return s.kl_inf_lower_bound[i]
    if own >= goal:
        return 0.0
    divergence, s.kl_inf_start_knot[i] = search_kl_to_reach_utility(s, i, own, goal, rest, weight, other, need)
    if divergence < need or demand == np.inf:
        return divergence
    # The divergence grows about like the square of what is lacking: half-way to where the arm would be tried.
    part = 0.5 * (1.0 - math.sqrt(need / divergence))
    goal -= part * (goal - own)
    less, start = search_kl_to_reach_utility(s, i, own, goal, rest, weight, other, need)
    if less >= need:
        s.kl_inf_bound_utility[i], s.kl_inf_lower_bound[i] = (1.0 - part) * demand if several else goal, less
        s.kl_inf_start_knot[i], s.kl_inf_bound_n_rewards[i] = start, s.n_rewards[i]
    else:
        s.kl_inf_bound_utility[i], s.kl_inf_lower_bound[i] = demand, divergence
        s.kl_inf_bound_n_rewards[i] = s.n_rewards[i]
    return divergence


@shared("state, int -> float", unpack)
def update_vet_index(s: State, i: int) -> float:
    """Update the index of an arm, n·D + log n, in ``s.vet_index``. Returns D."""
    n = float(n_pulls_or_rewards(s, i))
    s.vetted_pulls[i], s.vetted_n_rewards[i] = s.pulls[i], s.n_rewards[i]
    divergence = kl_to_deserve_place(s, i) if math.log(n) < s.threshold[segment_number(s, i)] else np.inf
    s.vet_index[i] = n * divergence + math.log(n)
    return divergence
