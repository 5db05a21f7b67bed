"""Vet's looks: the best mixture, the shares to reach next, and which of the arms left out must be tried again.

The rule is written out in ``policies/vet.py``; here are its parts, compiled.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._bounds import share_of_ones
from pmbandits.confidence._kernels import CONCAVE, CONVEX
from pmbandits.estimates._rewards import BINARY
from pmbandits.metrics.packed import h_slope
from pmbandits.mixtures._continuous import best_arm, best_of_many, move_mean
from pmbandits.mixtures._divergence import (
    FAR,
    at_multiplier,
    good_means,
    of_coin,
    to_be_worth,
    to_reach,
)
from pmbandits.mixtures._gate import ROWS
from pmbandits.mixtures._index import TIE, dot
from pmbandits.mixtures._laws import (
    cell_of,
    fill_rows,
    lay_knots,
    maximise_table,
    mix_rows,
    size_of_values,
    slope_of,
    slopes_of_h,
    utility_of,
    weigh_cells,
)
from pmbandits.mixtures._sampling import evidence, time_so_far
from pmbandits.mixtures._within import furthest, keeps
from pmbandits.state.arrays import copy_into, fill_with, largest_of
from pmbandits.state.shared import shared, step
from pmbandits.state.views import state

unpack = state(
    window_end=int,  # the round at which to look again
    next_look=int,  # or the number of rewards
    looked=int,  # rewards at the last look
    n_knots=int,  # knots of the table in use
    level=float,  # λ, the slope that an arm needs to deserve a place
    top=float,  # the largest Φ on the support
    worth=float,  # the utility of what is played
    steep=float,  # 0/1 rewards: the slope of h at the mean of what is played
    first_good=float,  # the least mean of an arm that is worth what is played
    last_good=float,  # and the largest
    threshold=float,  # log(n*/K): arms with a smaller index are tried
    pad=float,  # without ends of the support: how far beyond all rewards they are taken to be
    within=float,  # the variance of rewards around the mean of their arm, of all arms together
    caution=float,  # what rewards count that would lie where the arm has not been seen to reach
)


@step("state -> float")
def grain_at(s):
    """Half the distance over which slopes of h are taken."""
    return 0.5 / time_so_far(s)


@shared("state -> none")
def best_row(s):
    """Convex h: the arm whose row is worth the most; the one that is played if it is among the best."""
    k = s.n_arms
    top = largest_of(s.row_worth)
    chosen = -1
    for i in range(k):
        if s.row_worth[i] >= top - TIE * max(1.0, abs(top)) and (chosen < 0 or s.mix[i] == 1.0):
            chosen = i
    fill_with(s.mix, 0.0)
    s.mix[chosen] = 1.0


@shared("state, int, float, float -> none")
def best_shares(s, n_knots, e, goal):
    """The best mixture for the rewards so far, into ``s.mix``; shares of less than one pull become none."""
    k = s.n_arms
    if s.mode == BINARY:
        move_mean(s)
    elif s.metric_shape == CONCAVE:
        maximise_table(s, n_knots, s.mix, np.zeros(k), e, goal, 40)
    elif s.metric_shape == CONVEX and s.n_limited > 0:
        best_arm(s)
    elif s.metric_shape == CONVEX:
        best_row(s)
    else:
        best_of_many(s)
    total, t, rest = 0.0, float(time_so_far(s)), s.mix.copy()
    for i in range(k):
        if rest[i] * t < 1.0:
            rest[i] = 0.0
        total += rest[i]
    for i in range(k):
        rest[i] /= total
    if keeps(s, rest):
        copy_into(s.mix, rest)


@shared("state, int, int, float, float -> none")
def reachable_shares(s, n_knots, window_end, e, goal):
    """The shares to have when the window ends, into ``s.wanted``: no less than what was pulled already.

    Concave h, without limits: the best of those. Else, what is left is given to the arms of the mixture in its
    proportions: what the arms left out have cost is then borne by all of them, and none with a small share is starved.
    """
    k, end = s.n_arms, float(window_end)
    low, left = np.empty(k), 1.0
    for i in range(k):
        low[i] = s.pulls[i] / end
        s.wanted[i] = low[i]
        left -= low[i]
    if s.metric_shape == CONCAVE and s.n_limited == 0:
        lack = 0.0
        for i in range(k):
            lack += max(s.mix[i] - low[i], 0.0)
        for i in range(k):  # start: what the window has goes to the arms that are behind
            s.wanted[i] += left * max(s.mix[i] - low[i], 0.0) / lack
        maximise_table(s, n_knots, s.wanted, low, e, goal, 20)
        return
    scale = 1.0
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
        s.wanted[i] = max(scale * s.mix[i], low[i])


@step("state, int -> float")
def reach_of(s, i):
    """How many standard deviations from its mean the rewards of an arm may be expected to reach."""
    n = float(s.told[i])
    return math.sqrt(2.0 * math.log(n)) + 2.0 / math.sqrt(n)


@step("state, int -> float", unpack)
def own_scale(s, i):
    """The standard deviation of arm i's rewards, drawn a little towards that of all arms together."""
    return math.sqrt((s.told[i] * s.row_variance[i] + 2.0 * s.within) / (s.told[i] + 1.0))


@shared("state, int, float -> float", unpack)
def top_within(s, i, reach):
    """The largest Φ within a distance of the mean of arm i, or at one of its rewards."""
    mean, last, place = s.sums[i] / s.told[i], s.n_knots - 1, s.row_place[i]
    low, high = mean - reach, mean + reach
    top = max(s.phi[place[0]], s.phi[place[s.row_used[i] - 1]])
    if s.metric_shape == CONCAVE:  # then Φ is convex, and so largest at one end
        if low <= s.knots[0]:
            top = max(top, s.phi[0])
        if high >= s.knots[last]:
            top = max(top, s.phi[last])
    else:
        for j in range(s.row_used[i]):
            top = max(top, s.phi[place[j]])
        for c in range(s.n_knots):
            if s.knots[c] >= low and s.knots[c] <= high:
                top = max(top, s.phi[c])
    for end in (low, high):
        if end > s.knots[0] and end < s.knots[last]:
            c = cell_of(s.knots, s.n_knots, end)
            part = (end - s.knots[c]) / (s.knots[c + 1] - s.knots[c])
            top = max(top, s.phi[c] + part * (s.phi[c + 1] - s.phi[c]))
    return top


@step("state, int -> float", unpack)
def farthest(s, i):
    """The largest Φ that arm i can reach: on the whole support, or as far as σ allows if that has no ends."""
    return s.top if s.bounded == 1 else top_within(s, i, s.pad * reach_of(s, i))


@step("state, int -> float", unpack)
def level_for(s, i):
    """The slope that arm i needs to deserve a place (for 0/1 rewards: the mean)."""
    return s.level if s.n_limited == 0 else s.bar[i]


@step("state, int -> float", unpack)
def worth_for(s, i):
    """What arm i must be worth alone to deserve a place."""
    return s.worth if s.n_limited == 0 else s.bar_worth[i]


@shared("state, floats, floats -> none")
def bars_within(s, value, bar):
    """Within limits: the value of each arm with which it would have a place in the mixture of the largest ⟨value, b⟩.

    Limits on single arms: that of the least arm which has more than its floor. Else by the corners: how much better the
    best corner is than one in which the arm has a share, divided by that share.
    """
    k, best = s.n_arms, np.empty(s.n_arms)
    furthest(s, value, best)
    if s.gate & ROWS == 0:
        least = np.inf
        for i in range(k):
            if best[i] > s.least[i]:
                least = min(least, value[i])
        fill_with(bar, least)
        return
    top = dot(best, value)
    fill_with(bar, np.inf)
    for c in range(s.n_corners):
        behind = top - dot(s.corners[c], value)
        for i in range(k):
            if s.corners[c, i] > 1e-9:
                bar[i] = min(bar[i], value[i] + behind / s.corners[c, i])


@shared("state -> none", unpack)
def worth_within(s):
    """The same for what arms are worth alone: by the corners, if they are known, else as if that were linear."""
    if s.n_corners == 0:
        bars_within(s, s.row_worth, s.bar_worth)
        return
    fill_with(s.bar_worth, np.inf)
    for c in range(s.n_corners):
        mix_rows(s, s.corners[c], s.n_knots, s.spare)
        behind = max(s.worth - utility_of(s.h, s.knots, s.spare, s.n_knots), 0.0)
        for i in range(s.n_arms):
            if s.corners[c, i] > 1e-9:
                s.bar_worth[i] = min(s.bar_worth[i], s.row_worth[i] + behind / s.corners[c, i])


@shared("state, int -> float", unpack)
def distance(s, i):
    """D of an arm: how little its law must change to deserve a place. Its row must be up to date.

    Where it is plainly on one side of what the threshold needs, the answer is only known to lie on that side.
    """
    if s.mode == BINARY:
        level, worth, first, last = level_for(s, i), worth_for(s, i), s.first_good, s.last_good
        if s.n_limited > 0 and s.metric_shape != CONCAVE:
            first, last = good_means(s.h, worth)
        return of_coin(s.h, s.metric_shape, share_of_ones(s, i), level, s.steep, worth, first, last)
    n = float(evidence(s, i))
    need = max(s.threshold - math.log(n), 0.0) / n
    least = distance_to_slope(s, i, need) if s.metric_shape != CONVEX else np.inf
    if s.metric_shape != CONCAVE and least >= need:
        least = min(least, distance_to_worth(s, i, need))
    return least


@shared("state, int, float -> float", unpack)
def distance_to_slope(s, i, need):
    """How little an arm's law must change for the slope of the utility towards it to be λ.

    It may change within the arm's own reach, or anywhere at 1/caution times the price. Both look for the largest value
    of the same function of ν, and anywhere means that ν must be smaller: so the second answer follows from the first.
    """
    share, place, used, level = s.row_share[i], s.row_place[i], s.row_used[i], level_for(s, i)
    anywhere = farthest(s, i)
    near = top_within(s, i, own_scale(s, i) * reach_of(s, i)) if s.caution < 1.0 else anywhere
    least, s.root[i] = to_reach(share, place, used, s.phi, level, near, s.root[i], need, s.spare)
    if least <= 0.0 or near >= anywhere:
        return least
    if least >= FAR:  # nothing within its reach is enough
        least, s.root[i] = to_reach(share, place, used, s.phi, level, anywhere, s.root[i], need * s.caution, s.spare)
        return least / s.caution
    largest = 1.0 / (anywhere - level)
    if s.root[i] <= largest or (least >= need and s.root[i] * s.caution <= largest):
        return least
    value, slope = at_multiplier(share, place, used, s.phi, level, largest)
    return min(least, value / s.caution) if slope >= 0.0 else least


@step("state, int, float, float -> float and int", unpack)
def search_for_worth(s, i, worth, need):
    """:func:`to_be_worth` for an arm's row."""
    share, place, used, e = s.row_share[i], s.row_place[i], s.row_used[i], grain_at(s)
    own, first = s.row_worth[i], s.start[i]
    return to_be_worth(s.h, s.knots, s.laws[i], s.played, s.n_knots, share, place, used, own, worth, e, need, first)


@shared("state, int, float -> float", unpack)
def distance_to_worth(s, i, need):
    """How little an arm's law must change to be worth, alone, what is played.

    The more is played, the further. So if the arm is far enough, that is remembered, from a little less than what is
    played if it is far enough from that too. It is not worked out again before the arm has new rewards, or what is
    played is worth less than that, or more is needed.
    """
    own, played = s.row_worth[i], worth_for(s, i)
    if s.safe_told[i] == s.told[i] and played >= s.safe_worth[i] and s.safe[i] >= need:
        return s.safe[i]
    goal = played
    if own >= goal:
        return 0.0
    far, s.start[i] = search_for_worth(s, i, goal, need)
    if far < need:
        return far
    # The divergence grows about like the square of what is lacking: half-way to where the arm would be tried.
    goal -= 0.5 * (1.0 - math.sqrt(need / far)) * (goal - own)
    less, start = search_for_worth(s, i, goal, need)
    s.safe_told[i] = s.told[i]
    if less >= need:
        s.safe_worth[i], s.safe[i], s.start[i] = goal, less, start
    else:
        s.safe_worth[i], s.safe[i] = played, far
    return far


@shared("state, int -> float", unpack)
def work_out_index(s, i):
    """I of an arm: n·D + log n. Returns D."""
    n = float(evidence(s, i))
    s.vetted_pulls[i], s.vetted_told[i] = s.pulls[i], s.told[i]
    far = distance(s, i) if math.log(n) < s.threshold else np.inf
    s.vet[i] = n * far + math.log(n)
    return far


@step("state -> int", unpack)
def most_wanted(s):
    """The arm that is furthest behind the share that it is to have when the window ends."""
    arm, most = 0, s.wanted[0] * s.window_end - s.pulls[0]
    for i in range(1, s.n_arms):
        lag = s.wanted[i] * s.window_end - s.pulls[i]
        if lag > most + 1e-9:
            arm, most = i, lag
    return arm


@shared("state, float -> none", unpack)
def set_the_bar(s, e):
    """What an arm must reach to deserve a place: Φ and λ of what is played, and its worth."""
    mix_rows(s, s.mix, s.n_knots, s.played)
    s.worth = utility_of(s.h, s.knots, s.played, s.n_knots)
    if s.metric_shape != CONVEX:
        mix_rows(s, s.wanted, s.n_knots, s.played)
    steep = np.empty(s.n_knots)
    slopes_of_h(s, s.n_knots, s.played, e, steep)
    weigh_cells(s, s.n_knots, steep, steep)
    s.phi[0], s.top = 0.0, 0.0
    for c in range(s.n_knots - 1):
        s.phi[c + 1] = s.phi[c] + steep[c]
        s.top = max(s.top, s.phi[c + 1])
    if s.metric_shape == CONCAVE:  # λ: the slope of the arm that is furthest behind; it is the one that is pulled
        level = slope_of(s, s.n_knots, steep, most_wanted(s))
    else:
        level = 0.0
        for i in range(s.n_arms):
            if s.mix[i] > 0.0:
                level += s.mix[i] * slope_of(s, s.n_knots, steep, i)
    if s.mode == BINARY:  # in closed form λ is a mean: that of the arm, or of the mixture
        s.steep = h_slope(s.h, s.played[0], e)
        level = level / steep[0] if steep[0] != 0.0 else s.played[0]
        if s.metric_shape != CONCAVE:
            s.first_good, s.last_good = good_means(s.h, s.worth)
    s.level = level
    if s.n_limited > 0:
        slopes = np.empty(s.n_arms)
        for i in range(s.n_arms):
            slopes[i] = slope_of(s, s.n_knots, steep, i)
        bars_within(s, slopes, s.bar)
        if s.mode == BINARY:
            for i in range(s.n_arms):
                s.bar[i] = s.bar[i] / steep[0] if steep[0] != 0.0 else s.played[0]
        if s.metric_shape != CONCAVE:
            worth_within(s)


@shared("state -> none", unpack)
def look(s):
    """Look at all rewards: the best mixture, the shares to reach, and the index of every arm left out."""
    k, t = s.n_arms, float(time_so_far(s))
    s.window_end = s.asked + max(1, s.asked // 100)
    s.next_look = s.rewards + max(1, s.rewards // 100)
    s.looked, s.dirty = s.rewards, 0
    low, high = s.knots[0], s.knots[max(s.n_knots - 1, 0)]
    s.n_knots = lay_knots(s, s.pad)
    if s.knots[0] != low or s.knots[s.n_knots - 1] != high:  # an arm may now reach further than when that was found
        for i in range(k):
            s.safe_told[i] = 0
    fill_rows(s, s.n_knots, -1)
    total = 0.0
    for i in range(k):
        total += s.told[i] * s.row_variance[i]
    s.within = total / max(s.rewards - k, 1)
    e = grain_at(s)
    goal = 0.02 * size_of_values(s, s.n_knots) / t
    best_shares(s, s.n_knots, e, goal)
    reachable_shares(s, s.n_knots, s.window_end, e, goal)
    set_the_bar(s, e * max(1.0, math.log(t)))
    members = 0
    for i in range(k):
        s.left_out[i] = 1 if s.mix[i] == 0.0 else 0
        members += 1 - s.left_out[i]
    s.threshold = math.log(t / (members * k))
    for i in range(k):
        s.vet[i], s.vetted_told[i] = np.inf, s.told[i]
        if s.left_out[i] == 1:
            work_out_index(s, i)


@shared("state -> bool", unpack)
def news(s):
    """Bring the indices of arms left out up to date; whether new rewards are a reason to look at everything again.

    They are if an arm that is left out now deserves a place, or if one that is played has a tenth more rewards than at
    the last look; but not more often than after every thousandth of all rewards.
    """
    found = False
    for i in range(s.n_arms):
        more = s.told[i] - s.vetted_told[i]
        if s.left_out[i] == 0:
            found |= more > 0 and 10 * more >= s.vetted_told[i]
        elif more > 0 or s.vetted_pulls[i] != s.pulls[i]:
            if s.mode != BINARY:
                fill_rows(s, s.n_knots, i)
            found |= work_out_index(s, i) <= 0.0 and more > 0
    return found and s.rewards >= s.looked + max(1, s.looked // 1000)


@step("state -> int", unpack)
def to_be_tried(s):
    """The arm left out with the least index, if that is below the threshold; else −1."""
    arm, least = -1, s.threshold
    for i in range(s.n_arms):
        if s.left_out[i] == 1 and s.vet[i] < least:
            arm, least = i, s.vet[i]
    return arm
