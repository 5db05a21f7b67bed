"""KL bands on the whole line, for sub-Gaussian rewards: each arm has E exp(t(X − μ)) ≤ exp(t²σ²/2); compiled.

A KL band holds for any distribution, but says nothing beyond all rewards. There σ helps. With a confidence interval
[m, M] of the arm's mean μ, Chernoff's inequality gives

    S(x) ≤ exp(−(x − M)²/2σ²) for x > M,    S(x) ≥ 1 − exp(−(m − x)²/2σ²) for x < m,

so both ends of S are known everywhere, and all that lies far out is next to nothing. The interval holds at all times:
|Σ (X − μ)| < σ·√((n + 1)·(ln(n + 1) + 2·ln(1/δ))) for all n with probability 1 − δ (Robbins's normal mixture). Also,
E X = ∫ S lies in it. So, for any Lagrange multiplier p of the mean,

    U_h ≤ p·M + Σ width · max over S between the ends of (h(S) − p·S)       (for p < 0 with m in place of M),

up to a constant that both sides share. The page "Bands" of the documentation has the proofs.

The ends of all arms are laid out once, on at most some thousand cells: where there are more rewards, neighbouring cells
are put together. Then an arm's upper end is that of the first of them and the lower end that of the last: survivals
fall, so both hold in all.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._bernoulli_wasserstein import CONCAVE, CONVEX, NEITHER
from pmbandits.confidence._envelopes import survival_interval, update_kl_bands_and_get_errors
from pmbandits.confidence._golden_section import (
    argmax_tilted_h,
    golden_section_best,
    golden_section_next_point,
    golden_section_start,
    golden_section_tell,
)
from pmbandits.estimates._rewards import FINITE, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.metrics.encoding import h_max, h_min, h_slope, h_value
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.linking import shared, step

PIECE_WIDTH = 0.1  # width in σ of the pieces in which Chernoff's inequality is taken, near the arms
NEAR_WIDTH = 4.0  # how near that is, in σ; further out pieces grow
TAIL_CUTOFF = 72.0  # beyond √(FAR/q)·σ all the rest of U_h is below e^(−36)
GOLDEN_STEPS = 12  # steps of golden section in a search for a multiplier


@step("float, float -> float")
def width_of_next_cell(away, sigma):
    """The width of the next piece, so far from the nearest interval of a mean."""
    return PIECE_WIDTH * sigma + 0.3 * max(away - NEAR_WIDTH * sigma, 0.0)


@shared("state -> two floats")
def fill_mean_intervals(s):
    """The confidence interval of each arm's mean, into ``lower`` and ``upper``; and from where to where cells go."""
    sigma, begin, end = s.sub_gaussian_sigma, np.inf, -np.inf
    for i in range(s.n_arms):
        n = s.n_rewards[i]
        if n > 0:
            mean = s.sums[i] / n
            radius = sigma * math.sqrt((n + 1.0) * (math.log(n + 1.0) + s.mean_interval_log_term)) / n
            s.lower[i], s.upper[i] = mean - radius, mean + radius
            begin, end = min(begin, s.lower[i]), max(end, s.upper[i])
    cutoff = sigma * math.sqrt(TAIL_CUTOFF / s.modulus_exponent)
    return begin - cutoff, end + cutoff


@shared("state -> none")
def fill_sub_gaussian_cells(s):
    """Lay out the cells, and the ends of each arm's survival in them, if rewards came since. Some arm must have paid.

    Also the W1 distance of each arm's distribution from its rewards, into ``line_radius``: that of the ends; or, if
    that is less, their mean distance from their own mean, the interval's half width, and σ, which is at least E|X − μ|.
    """
    if s.line_built_at == s.rewards:
        return
    s.line_built_at = s.rewards
    sort_pool(s)
    k, sigma, finite, kind, n_rewards, radius = (
        s.n_arms,
        s.sub_gaussian_sigma,
        s.storage_mode == FINITE,
        s.set_kind,
        s.n_rewards,
        s.radius,
    )
    cells, x = s.n_atoms if finite else n_pooled_values(s), s.points if finite else s.x
    share_errors, kl_band, lower, upper = update_kl_bands_and_get_errors(s), s.kl_band, s.lower, s.upper
    width, floors, tops, away = s.line_width, s.line_lower, s.line_upper, s.line_radius
    begin, end = fill_mean_intervals(s)
    begin, end = min(begin, x[0]), max(end, x[cells - 1])
    n_above, floor, top, spread = n_rewards.copy(), np.empty(k), np.empty(k), np.zeros(k)
    least, most = np.zeros(k), np.ones(k)  # by Chernoff's inequality, in the current piece
    for i in range(k):
        floor[i], top[i] = survival_interval(kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i)
    fill_array_with(away, 0.0)
    groups = width.size // 2
    before, piece_end, used, current, c, fresh = begin, begin, -1, -1, 0, True
    while before < end:
        if before >= piece_end:
            near = np.inf
            for i in range(k):
                if n_rewards[i] > 0:
                    near = min(near, max(max(lower[i] - before, before - upper[i]), 0.0))
            piece_end, fresh = before + width_of_next_cell(near, sigma), True
            for i in range(k):
                if n_rewards[i] > 0:
                    up, down = max(before - upper[i], 0.0) / sigma, max(lower[i] - piece_end, 0.0) / sigma
                    most[i], least[i] = math.exp(-0.5 * up * up), -math.expm1(-0.5 * down * down)
        here = min(x[c], piece_end) if c < cells else min(piece_end, end)
        if here > before:
            group = c * groups // (cells + 1)
            if (fresh or group != current) and used + 1 < width.size:
                used += 1
                current, fresh, width[used] = group, False, 0.0
                for i in range(k):
                    tops[used, i] = min(top[i], most[i])
            width[used] += here - before
            for i in range(k):
                lowest, highest = max(floor[i], least[i]), min(top[i], most[i])
                floors[used, i] = min(lowest, tops[used, i])
                if n_rewards[i] > 0:
                    share = n_above[i] / n_rewards[i]
                    away[i] += (here - before) * max(max(highest - share, share - lowest), 0.0)
            before = here
        while c < cells and x[c] <= before:
            first, last = (0, k) if finite else (s.pool_arm[c], s.pool_arm[c] + 1)
            for i in range(first, last):
                gone = s.counts[i, c] if finite else n_rewards_of_pooled_value(s, c)
                if gone > 0:
                    n_above[i] -= gone
                    spread[i] += gone * abs(x[c] - s.sums[i] / n_rewards[i])
                    floor[i], top[i] = survival_interval(
                        kind, n_above[i], n_rewards[i], radius[i], share_errors[i], kl_band, i
                    )
            c += 1
    s.n_line_cells, s.line_start = used + 1, begin
    q, cutoff = s.modulus_exponent, math.sqrt(TAIL_CUTOFF / s.modulus_exponent)
    s.line_tail_bound = (
        2.0 * s.modulus_constant * sigma / (q * cutoff) * math.exp(-0.5 * TAIL_CUTOFF)
    )  # of U_h, beyond all cells
    for i in range(k):
        if n_rewards[i] == 0:
            away[i] = np.inf
        else:
            plain = spread[i] / n_rewards[i] + 0.5 * (upper[i] - lower[i]) + sigma + share_errors[i] * (end - begin)
            away[i] = min(away[i] + sigma * math.exp(-0.5 * TAIL_CUTOFF), plain)


@step("state -> float")
def sub_gaussian_cells_total_width(s):
    """The total width of the cells in use."""
    total = 0.0
    for c in range(s.n_line_cells):
        total += s.line_width[c]
    return total


@step("state, floats, bool -> float")
def extreme_mixture_mean(s, a, largest):
    """The largest or the least mean that the mixture can have; without weights: that any mixture can have."""
    total, best = 0.0, -np.inf if largest else np.inf
    for i in range(s.n_arms):
        mean = s.upper[i] if largest else s.lower[i]
        best = max(best, mean) if largest else min(best, mean)
        if a.size > 0:
            total += a[i] * mean
    return total if a.size > 0 else best


@shared("state, floats -> bool")
def all_mixed_arms_have_rewards(s, a):
    """Whether every arm of the mixture has paid a reward; without weights: every arm."""
    observed = True
    for i in range(s.n_arms):
        if s.n_rewards[i] == 0 and (a.size == 0 or a[i] > 0.0):
            observed = False
    return observed


@shared("state, floats, float, float, float, floats -> two floats")
def sub_gaussian_utility_bound(s, a, sign, multiplier, slope_step, slopes):
    """A bound on sign·U_h of the mixture, at one multiplier; and the mean of the distribution that reaches it at 0.

    Also its slopes, unless ``slopes`` is empty (concave h). Without weights (of size 0): on sign·U_h of any mixture.
    """
    fill_array_with(slopes, 0.0)
    if not all_mixed_arms_have_rewards(s, a):
        return np.inf, 0.0
    fill_sub_gaussian_cells(s)
    k, h, shape, any_mixture = s.n_arms, s.h, s.metric_shape, a.size == 0
    width, floors, tops = s.line_width, s.line_lower, s.line_upper
    if sign < 0.0 and shape != NEITHER:
        shape = CONVEX if shape == CONCAVE else CONCAVE
    peak = argmax_tilted_h(h, sign, multiplier, 60) if shape == CONCAVE else 0.0
    total, mean = 0.0, s.line_start
    for c in range(s.n_line_cells):
        low, high, upper_complement = 0.0, 0.0, 0.0
        if any_mixture:
            low, high = 1.0, 0.0
            for i in range(k):
                low, high = min(low, floors[c, i]), max(high, tops[c, i])
        else:
            for i in range(k):
                if a[i] > 0.0:
                    low += a[i] * floors[c, i]
                    high += a[i] * tops[c, i]
                    upper_complement += a[i] * (1.0 - tops[c, i])
            high = max(high if high < 0.5 else 1.0 - upper_complement, low)
        if shape == NEITHER:
            best = h_max(h, low, high) if sign > 0.0 else -h_min(h, low, high)
            total += width[c] * (best - multiplier * (low if multiplier > 0.0 else high))
            continue
        where = min(max(peak, low), high)
        best = sign * h_value(h, where) - multiplier * where
        if shape == CONVEX:
            other = sign * h_value(h, high) - multiplier * high
            where, best = low, sign * h_value(h, low) - multiplier * low
            if other > best:
                where, best = high, other
        total += width[c] * best
        mean += width[c] * where
        if slopes.size == 0 or (peak > low and peak < high):
            continue
        steep = width[c] * (sign * h_slope(h, where, slope_step) - multiplier)
        for i in range(k):
            slopes[i] += steep * (tops[c, i] if peak >= high else floors[c, i])
    for i in range(slopes.size):
        slopes[i] += multiplier * (s.upper[i] if multiplier > 0.0 else s.lower[i])
    total += sign * h_value(h, 1.0) * s.line_start + s.line_tail_bound * (1.0 + abs(multiplier))
    if multiplier != 0.0:
        total += multiplier * (extreme_mixture_mean(s, a, multiplier > 0.0) - s.line_start) + abs(
            multiplier
        ) * s.sub_gaussian_sigma * math.exp(-36.0)
    return total, mean


@shared("state, floats, float -> float")
def best_mean_multiplier(s, a, sign):
    """The multiplier of the mean at which the bound on sign·U_h is least: 0 if the mean is possible there.

    Else by golden section, which is enough because the bound is convex in the multiplier. For h neither concave nor
    convex it is 0.
    """
    none = np.empty(0)
    if s.metric_shape == NEITHER or not all_mixed_arms_have_rewards(s, a):
        return 0.0
    least, mean = sub_gaussian_utility_bound(s, a, sign, 0.0, 0.0, none)
    down, up = extreme_mixture_mean(s, a, False), extreme_mixture_mean(s, a, True)
    if down <= mean <= up:
        return 0.0
    best, side = 0.0, 1.0 if mean > up else -1.0
    chord = sign * (h_value(s.h, 1.0) - h_value(s.h, 0.0))  # exact for linear h
    value = sub_gaussian_utility_bound(s, a, sign, chord, 0.0, none)[0]
    if value < least:
        best, least = chord, value
    search = golden_section_start(0.0, 2.0 * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0)))
    for _ in range(2 + GOLDEN_STEPS):
        multiplier = side * golden_section_next_point(search)
        golden_section_tell(search, -sub_gaussian_utility_bound(s, a, sign, multiplier, 0.0, none)[0])
    where, highest = golden_section_best(search)
    if -highest < least:
        best = side * where
    return best
