"""KL bands on the whole line, for heavy tails: each arm has E|X|^p ≤ B; compiled.

For sub-Gaussian rewards see ``_sub_gaussian.py``; whoever does not care which it is calls the functions here.

Beyond all rewards a KL band says nothing, and the survival may stay above 0 for long. There the moment must help. It is
∫ p·x^(p−1)·S(x) dx over x > 0 plus the same of 1 − S over x < 0, for the mixture too. For any multiplier λ ≥ 0,

    U_h ≤ λ·B + Σ width · max over S between the ends of (h(S) − λ·m·S) + C·B^q·X^(1−pq)/(pq − 1),

where m is the least p·|x|^(p−1) in the cell (with h(S) − h(1) − λ·m·(1 − S) where x < 0), X the end of the cells, and
|h(u) − h(v)| ≤ C·|u − v|^q with pq > 1. The least of that over λ is the bound; −U_h is bounded in the same way. The
ends are also cut off by Markov's inequality: S(x) ≤ B·x^(−p). The page "Bands" of the documentation has the proof.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX, NEITHER
from pmbandits.confidence._envelopes import survival_interval, update_kl_bands_and_get_errors
from pmbandits.confidence._golden_section import (
    golden_section_best,
    golden_section_next_point,
    golden_section_start,
    golden_section_tell,
)
from pmbandits.confidence._sub_gaussian import best_mean_multiplier, fill_sub_gaussian_cells, sub_gaussian_utility_bound
from pmbandits.estimates._rewards import FINITE, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.metrics.encoding import h_max, h_min, h_slope, h_value
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step

PIECE_GROWTH = 1.15  # pieces of wide cells: the end of each is so much further from 0 than its beginning
N_FAR_PIECES = 100  # pieces beyond all rewards, on each side
LEAST_TAIL = 1e-10  # probabilities of small rewards down to which 1 − S has enough digits
SMALL_SHARE = 1e-3  # below this share of the largest reward, pieces may be wider


@step("floats, float, bool, float, float -> float")
def h_minus_tilt_times_v(h, sign, mirrored, tilt, v):
    """sign·h(v) − tilt·v; mirrored: sign·(h(1 − v) − h(1)) − tilt·v, without the tilt at 1 that would cancel."""
    if mirrored:
        return sign * (h_value(h, 1.0 - v) - h_value(h, 1.0)) - tilt * v
    return sign * h_value(h, v) - tilt * v


@step("floats, float, bool, float, float -> float")
def max_signed_h(h, sign, mirrored, low, high):
    """The largest sign·h between low and high; mirrored: the largest sign·(h(1 − v) − h(1))."""
    first, last = (1.0 - high, 1.0 - low) if mirrored else (low, high)
    best = h_max(h, first, last) if sign > 0.0 else -h_min(h, first, last)
    return best - sign * h_value(h, 1.0) if mirrored else best


@shared("floats, float, int, bool, float, float, float -> two floats")
def max_tilted_h(h, sign, shape, mirrored, tilt, low, high):
    """The largest value of :func:`h_minus_tilt_times_v` for v between low and high, and where it is. The tilt is ≥ 0.

    ``shape`` is that of sign·h. For concave and convex it is exact, up to parts of the interval so small that h and the
    tilt are maximised there each for itself. For neither, this is done everywhere. It can only be more.
    """
    if not high > low:
        return h_minus_tilt_times_v(h, sign, mirrored, tilt, low), low
    if shape == NEITHER:
        return max_signed_h(h, sign, mirrored, low, high) - tilt * low, low
    at_low, at_high = (
        h_minus_tilt_times_v(h, sign, mirrored, tilt, low),
        h_minus_tilt_times_v(h, sign, mirrored, tilt, high),
    )
    if shape == CONVEX:
        return (at_low, low) if at_low >= at_high else (at_high, high)
    small = 1e-6 * (high - low)
    if at_high >= h_minus_tilt_times_v(h, sign, mirrored, tilt, high - small):
        return max_signed_h(h, sign, mirrored, high - small, high) - tilt * (high - small), high
    if at_low >= h_minus_tilt_times_v(h, sign, mirrored, tilt, low + small):
        return max_signed_h(h, sign, mirrored, low, low + small) - tilt * low, low
    search = golden_section_start(low, high)
    for _ in range(46):
        v = golden_section_next_point(search)
        golden_section_tell(search, h_minus_tilt_times_v(h, sign, mirrored, tilt, v))
    where, value = golden_section_best(search)
    return value, where


@step("state -> float")
def largest_plausible_reward(s):
    """Between minus this and this lie all rewards, and most of what the moment allows."""
    reach, finite = s.moment_bound ** (1.0 / s.moment_order), s.storage_mode == FINITE
    cells, x = s.n_atoms if finite else n_pooled_values(s), s.points if finite else s.x
    if cells > 0:
        reach = max(reach, max(abs(x[0]), abs(x[cells - 1])))
    return reach


@step("state, float -> float")
def max_utility_change_beyond(s, x):
    """How much U_h can change at most by what lies beyond x > 0, or beyond −x, by Markov's inequality."""
    both = s.moment_order * s.modulus_exponent
    return s.modulus_constant * s.moment_bound**s.modulus_exponent * x ** (1.0 - both) / (both - 1.0)


@step("state, ints, int, int -> int")
def remove_pool_rewards_at(s, left, c, only):
    """Take the rewards at place c of the pool from those that are left; which arm they were of, or −1: of several.

    A small memory (``engine/coarsen.py``) keeps counts of points in place of the pool. ``only``: one arm, or −1.
    """
    if s.storage_mode == FINITE:
        for i in range(s.n_arms):
            if only < 0 or i == only:
                left[i] -= s.counts[i, c]
        return -1
    i = s.pool_arm[c]
    if only < 0 or i == only:
        left[i] -= n_rewards_of_pooled_value(s, c)
    return i


@step("float, float, float -> float")
def end_of_next_cell_piece(near, last, reach):
    """The end of a piece of a cell that begins ``near`` to 0 and ends at ``last``: not much further out."""
    return min(last, max(PIECE_GROWTH * near, reach * SMALL_SHARE))


@shared("state, floats, float, float, float, floats -> float")
def tail_utility_bound(s, a, sign, multiplier, slope_step, slopes):
    """A bound on sign·U_h of the mixture, at one multiplier, by the assumption on tails: a moment, or σ."""
    if s.sub_gaussian_sigma > 0.0:
        return sub_gaussian_utility_bound(s, a, sign, multiplier, slope_step, slopes)[0]
    return moment_utility_bound(s, a, sign, multiplier, slope_step, slopes)


@shared("state, floats, float, float, float, floats -> float")
def moment_utility_bound(s, a, sign, multiplier, slope_step, slopes):
    """A bound on sign·U_h of the mixture, at one multiplier; and its slopes, unless ``slopes`` is empty.

    Without weights (of size 0): on sign·U_h of any mixture.
    """
    sort_pool(s)
    k, h, order, moment, kind = s.n_arms, s.h, s.moment_order, s.moment_bound, s.set_kind
    finite, n_rewards, radius = s.storage_mode == FINITE, s.n_rewards, s.radius
    cells, x = s.n_atoms if finite else n_pooled_values(s), s.points if finite else s.x
    share_errors, kl_band, any_mixture = update_kl_bands_and_get_errors(s), s.kl_band, a.size == 0
    shape = s.metric_shape
    if sign < 0.0 and shape != NEITHER:
        shape = CONVEX if shape == CONCAVE else CONCAVE
    left, floor, top = n_rewards.copy(), np.empty(k), np.empty(k)
    for i in range(k):
        floor[i], top[i] = survival_interval(kind, left[i], n_rewards[i], radius[i], share_errors[i], kl_band, i)
    fill_array_with(slopes, 0.0)
    reach, least = largest_plausible_reward(s), s.low
    cutoff = reach * PIECE_GROWTH**N_FAR_PIECES
    lower_cutoff = min(cutoff, (moment / LEAST_TAIL) ** (1.0 / order))
    total = multiplier * moment + max_utility_change_beyond(s, cutoff)
    if least <= -lower_cutoff:
        total += max_utility_change_beyond(s, lower_cutoff)
    if least > 0.0:  # up to there the survival is 1
        total += sign * h_value(h, 1.0) * least - multiplier * least**order
    before = max(-lower_cutoff, least)
    for c in range(cells + 1):
        here = x[c] if c < cells else cutoff
        if here > before:
            low, high, upper_complement = 0.0, 0.0, 0.0
            if any_mixture:
                low, high = 1.0, 0.0
                for i in range(k):
                    low, high = min(low, floor[i]), max(high, top[i])
            else:
                for i in range(k):
                    low += a[i] * floor[i]
                    high += a[i] * top[i]
                    upper_complement += a[i] * (1.0 - top[i])
                high = high if high < 0.5 else 1.0 - upper_complement
            for part in range(2):  # what lies below 0, and what lies above
                near, last = (max(-here, 0.0), -before) if part == 0 else (max(before, 0.0), here)
                while near < last:  # wide cells in pieces
                    beside = end_of_next_cell_piece(near, last, reach)
                    width, cap, tilt = beside - near, 1.0, 0.0
                    if near > 0.0:
                        cap = min(1.0, moment * near ** (-order))
                        tilt = multiplier * order * near ** (order - 1.0)
                    near = beside
                    first, last_end = (max(1.0 - high, 0.0), 1.0 - low) if part == 0 else (low, high)  # of 1 − S, or S
                    peak = min(last_end, cap)
                    bottom = min(first, peak)
                    value, where = max_tilted_h(h, sign, shape, part == 0, tilt, bottom, peak)
                    total += width * value
                    if slopes.size == 0:
                        continue
                    survival = 1.0 - where if part == 0 else where
                    steep = width * (sign * h_slope(h, survival, slope_step) - (-tilt if part == 0 else tilt))
                    at_upper, at_lower = where >= peak and peak == last_end, where <= bottom < peak
                    if part == 0:
                        at_upper, at_lower = at_lower, at_upper
                    if at_upper or at_lower:
                        for i in range(k):
                            slopes[i] += steep * (top[i] if at_upper else floor[i])
            before = here
        if c < cells:
            whose = remove_pool_rewards_at(s, left, c, -1)
            first, end = (0, k) if whose < 0 else (whose, whose + 1)
            for i in range(first, end):
                floor[i], top[i] = survival_interval(
                    kind, left[i], n_rewards[i], radius[i], share_errors[i], kl_band, i
                )
    return total


@shared("state, floats, float -> float")
def best_tail_multiplier(s, a, sign):
    """The multiplier at which the bound on sign·U_h of the mixture is least: golden section, in its logarithm."""
    if s.sub_gaussian_sigma > 0.0:
        return best_mean_multiplier(s, a, sign)
    none = np.empty(0)
    scale = s.modulus_constant * s.moment_bound ** (1.0 / s.moment_order - 1.0)
    search = golden_section_start(math.log(1e-7 * scale), math.log(30.0 * scale))
    for _ in range(16):
        trial = math.exp(golden_section_next_point(search))
        golden_section_tell(search, -moment_utility_bound(s, a, sign, trial, 0.0, none))
    where, highest = golden_section_best(search)
    multiplier, least = math.exp(where), -highest
    return multiplier if least < moment_utility_bound(s, a, sign, 0.0, 0.0, none) else 0.0


@shared("state -> none")
def update_tail_multipliers(s):
    """Find both multipliers anew for the current mixture, after a tenth more rewards. Any multiplier is valid."""
    if s.rewards < s.tail_multipliers[2]:
        return
    s.tail_multipliers[0], s.tail_multipliers[1] = (
        best_tail_multiplier(s, s.mix, 1.0),
        best_tail_multiplier(s, s.mix, -1.0),
    )
    s.tail_multipliers[2] = s.rewards + 1 + s.rewards // 10


@shared("state, int -> float")
def tail_w1_radius(s, i):
    """The W1 radius of arm i's KL band, cut off by Markov's inequality or σ, around the arm's rewards."""
    if s.sub_gaussian_sigma > 0.0:
        if s.n_rewards[i] == 0:
            return np.inf
        fill_sub_gaussian_cells(s)
        return s.line_radius[i]
    sort_pool(s)
    order, moment, reach, finite = s.moment_order, s.moment_bound, largest_plausible_reward(s), s.storage_mode == FINITE
    cells, x = s.n_atoms if finite else n_pooled_values(s), s.points if finite else s.x
    share_error, kl_band, n = update_kl_bands_and_get_errors(s)[i], s.kl_band, s.n_rewards[i]
    cutoff = reach * PIECE_GROWTH**N_FAR_PIECES
    total = moment * cutoff ** (1.0 - order) / (order - 1.0) * (1.0 if s.low > -cutoff else 2.0)
    left, before = s.n_rewards.copy(), max(-cutoff, s.low)
    for c in range(cells + 1):
        if c < cells and (s.counts[i, c] == 0 if finite else s.pool_arm[c] != i):
            continue
        here = x[c] if c < cells else cutoff
        if here > before:
            lower, upper = survival_interval(s.set_kind, left[i], n, s.radius[i], share_error, kl_band, i)
            share = left[i] / n if n > 0 else 0.0
            for part in range(2):
                near, last = (max(-here, 0.0), -before) if part == 0 else (max(before, 0.0), here)
                while near < last:
                    beside = end_of_next_cell_piece(near, last, reach)
                    cap = min(1.0, moment * near ** (-order)) if near > 0.0 else 1.0
                    up = upper if part == 0 else min(upper, cap)
                    down = lower if part == 1 else max(lower, 1.0 - cap)
                    total += (beside - near) * max(max(up - share, share - down), 0.0)
                    near = beside
            before = here
        if c < cells:
            remove_pool_rewards_at(s, left, c, i)
    return total
