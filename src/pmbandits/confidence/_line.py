"""Belts on the whole line, for sub-Gaussian rewards: each arm has E exp(t(X − μ)) ≤ exp(t²σ²/2); compiled.

A belt holds for any law, but beyond all rewards it says nothing. There the promise helps. With a confidence interval
[m, M] of the arm's mean μ, Chernoff's inequality gives

    S(x) ≤ exp(−(x − M)²/2σ²) for x > M,    S(x) ≥ 1 − exp(−(m − x)²/2σ²) for x < m,

so both ends of S are known everywhere, and all that lies far out is next to nothing. The interval holds at all times:
|Σ (X − μ)| < σ·√((n + 1)·(ln(n + 1) + 2·ln(1/δ))) for all n with probability 1 − δ (Robbins's normal mixture). Also,
E X = ∫ S lies in it. So, whatever the price p of the mean,

    U_h ≤ p·M + Σ width · max over S between the ends of (h(S) − p·S)       (for p < 0 with m in place of M),

up to a constant that both sides share. The page "Bands" of the documentation has the proofs.

The ends of all arms are laid out once, on at most some thousand cells: where there are more rewards, neighbouring cells
are put together. Then an arm's upper end is that of the first of them and the lower end that of the last: survivals
fall, so both hold in all.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits.confidence._ends import cell_ends, lay_belts
from pmbandits.confidence._kernels import CONCAVE, CONVEX, NEITHER
from pmbandits.estimates._rewards import FINITE, pool_size, stands_for, tidy
from pmbandits.metrics.packed import h_max, h_min, h_slope, h_value
from pmbandits.state.arrays import fill_with
from pmbandits.state.shared import shared, step

PIECE = 0.1  # width in σ of the pieces in which Chernoff's inequality is taken, near the arms
NEAR = 4.0  # how near that is, in σ; further out pieces grow
FAR = 72.0  # beyond √(FAR/q)·σ all the rest of U_h is below e^(−36)
PASSES = 12  # in a search for a price
_GOLDEN = 0.6180339887498949


@step("float, float -> float")
def piece_width(away, sigma):
    """The width of the next piece, so far from the nearest interval of a mean."""
    return PIECE * sigma + 0.3 * max(away - NEAR * sigma, 0.0)


@shared("state -> two floats")
def lay_means(s):
    """The confidence interval of each arm's mean, into ``lower`` and ``upper``; and from where to where cells go."""
    sigma, begin, end = s.tail_sigma, np.inf, -np.inf
    for i in range(s.n_arms):
        n = s.told[i]
        if n > 0:
            mean = s.sums[i] / n
            radius = sigma * math.sqrt((n + 1.0) * (math.log(n + 1.0) + s.tail_depth)) / n
            s.lower[i], s.upper[i] = mean - radius, mean + radius
            begin, end = min(begin, s.lower[i]), max(end, s.upper[i])
    far = sigma * math.sqrt(FAR / s.tail_q)
    return begin - far, end + far


@shared("state -> none")
def lay_line(s):
    """Lay out the cells, and the ends of each arm's survival in them, if rewards came since. Some arm must have paid.

    Also how far, in W1, each arm's law may be from its rewards, into ``line_far``: the ends' distance from them; or, if
    that is less, their mean distance from their own mean, the interval's half width, and σ, which is at least E|X − μ|.
    """
    if s.line_at == s.rewards:
        return
    s.line_at = s.rewards
    tidy(s)
    k, sigma, finite, kind, told, radius = s.n_arms, s.tail_sigma, s.mode == FINITE, s.set_kind, s.told, s.radius
    cells, x = s.n_atoms if finite else pool_size(s), s.points if finite else s.x
    blurs, belt, lower, upper = lay_belts(s), s.belt, s.lower, s.upper
    width, floors, tops, away = s.line_width, s.line_floor, s.line_top, s.line_far
    begin, end = lay_means(s)
    begin, end = min(begin, x[0]), max(end, x[cells - 1])
    left, floor, top, spread = told.copy(), np.empty(k), np.empty(k), np.zeros(k)
    least, most = np.zeros(k), np.ones(k)  # by Chernoff's inequality, in the current piece
    for i in range(k):
        floor[i], top[i] = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
    fill_with(away, 0.0)
    groups = width.size // 2
    before, piece_end, used, current, c, fresh = begin, begin, -1, -1, 0, True
    while before < end:
        if before >= piece_end:
            near = np.inf
            for i in range(k):
                if told[i] > 0:
                    near = min(near, max(max(lower[i] - before, before - upper[i]), 0.0))
            piece_end, fresh = before + piece_width(near, sigma), True
            for i in range(k):
                if told[i] > 0:
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
                if told[i] > 0:
                    share = left[i] / told[i]
                    away[i] += (here - before) * max(max(highest - share, share - lowest), 0.0)
            before = here
        while c < cells and x[c] <= before:
            first, last = (0, k) if finite else (s.owner[c], s.owner[c] + 1)
            for i in range(first, last):
                gone = s.counts[i, c] if finite else stands_for(s, c)
                if gone > 0:
                    left[i] -= gone
                    spread[i] += gone * abs(x[c] - s.sums[i] / told[i])
                    floor[i], top[i] = cell_ends(kind, left[i], told[i], radius[i], blurs[i], belt, i)
            c += 1
    s.line_used, s.line_begin = used + 1, begin
    q, far = s.tail_q, math.sqrt(FAR / s.tail_q)
    s.line_rest = 2.0 * s.tail_c * sigma / (q * far) * math.exp(-0.5 * FAR)  # of U_h, beyond all cells
    for i in range(k):
        if told[i] == 0:
            away[i] = np.inf
        else:
            plain = spread[i] / told[i] + 0.5 * (upper[i] - lower[i]) + sigma + blurs[i] * (end - begin)
            away[i] = min(away[i] + sigma * math.exp(-0.5 * FAR), plain)


@step("state -> float")
def width_of_line(s):
    """From where to where cells are laid out."""
    total = 0.0
    for c in range(s.line_used):
        total += s.line_width[c]
    return total


@shared("floats, float, float -> float")
def tilted_peak(h, sign, price):
    """Where sign·h(S) − price·S is largest in [0, 1], for concave sign·h: golden section."""
    lo, hi = 0.0, 1.0
    a, b = hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo)
    at_a, at_b = sign * h_value(h, a) - price * a, sign * h_value(h, b) - price * b
    for _ in range(60):
        if at_a >= at_b:
            hi, b, at_b = b, a, at_a
            a = hi - _GOLDEN * (hi - lo)
            at_a = sign * h_value(h, a) - price * a
        else:
            lo, a, at_a = a, b, at_b
            b = lo + _GOLDEN * (hi - lo)
            at_b = sign * h_value(h, b) - price * b
    best = a if at_a >= at_b else b
    value = max(at_a, at_b)
    if sign * h_value(h, 0.0) >= value:
        best, value = 0.0, sign * h_value(h, 0.0)
    return 1.0 if sign * h_value(h, 1.0) - price >= value else best


@step("state, floats, bool -> float")
def mean_limit(s, a, largest):
    """The largest or the least mean that the mixture can have; without weights: that any mixture can have."""
    total, best = 0.0, -np.inf if largest else np.inf
    for i in range(s.n_arms):
        mean = s.upper[i] if largest else s.lower[i]
        best = max(best, mean) if largest else min(best, mean)
        if a.size > 0:
            total += a[i] * mean
    return total if a.size > 0 else best


@shared("state, floats -> bool")
def all_told(s, a):
    """Whether every arm of the mixture has paid a reward; without weights: every arm."""
    told = True
    for i in range(s.n_arms):
        if s.told[i] == 0 and (a.size == 0 or a[i] > 0.0):
            told = False
    return told


@shared("state, floats, float, float, float, floats -> two floats")
def line_pass(s, a, sign, price, e, slopes):
    """A bound on sign·U_h of the mixture, at one price; and the mean of the law that reaches it at price 0.

    Also its slopes, if ``slopes`` has room (concave sign·h). Without weights (of size 0): on sign·U_h of any mixture.
    """
    fill_with(slopes, 0.0)
    if not all_told(s, a):
        return np.inf, 0.0
    lay_line(s)
    k, h, shape, any_mixture = s.n_arms, s.h, s.metric_shape, a.size == 0
    width, floors, tops = s.line_width, s.line_floor, s.line_top
    if sign < 0.0 and shape != NEITHER:
        shape = CONVEX if shape == CONCAVE else CONCAVE
    peak = tilted_peak(h, sign, price) if shape == CONCAVE else 0.0
    total, mean = 0.0, s.line_begin
    for c in range(s.line_used):
        low, high, room = 0.0, 0.0, 0.0
        if any_mixture:
            low, high = 1.0, 0.0
            for i in range(k):
                low, high = min(low, floors[c, i]), max(high, tops[c, i])
        else:
            for i in range(k):
                if a[i] > 0.0:
                    low += a[i] * floors[c, i]
                    high += a[i] * tops[c, i]
                    room += a[i] * (1.0 - tops[c, i])
            high = max(high if high < 0.5 else 1.0 - room, low)
        if shape == NEITHER:
            best = h_max(h, low, high) if sign > 0.0 else -h_min(h, low, high)
            total += width[c] * (best - price * (low if price > 0.0 else high))
            continue
        where = min(max(peak, low), high)
        best = sign * h_value(h, where) - price * where
        if shape == CONVEX:
            other = sign * h_value(h, high) - price * high
            where, best = low, sign * h_value(h, low) - price * low
            if other > best:
                where, best = high, other
        total += width[c] * best
        mean += width[c] * where
        if slopes.size == 0 or (peak > low and peak < high):
            continue
        steep = width[c] * (sign * h_slope(h, where, e) - price)
        for i in range(k):
            slopes[i] += steep * (tops[c, i] if peak >= high else floors[c, i])
    for i in range(slopes.size):
        slopes[i] += price * (s.upper[i] if price > 0.0 else s.lower[i])
    total += sign * h_value(h, 1.0) * s.line_begin + s.line_rest * (1.0 + abs(price))
    if price != 0.0:
        total += price * (mean_limit(s, a, price > 0.0) - s.line_begin) + abs(price) * s.tail_sigma * math.exp(-36.0)
    return total, mean


@shared("state, floats, float -> float")
def line_price(s, a, sign):
    """The price of the mean at which the bound on sign·U_h of the mixture is least: 0 if the mean is possible there.

    Else by golden section, which is enough because the bound is convex in the price. For h neither concave nor
    convex it is 0.
    """
    none = np.empty(0)
    if s.metric_shape == NEITHER or not all_told(s, a):
        return 0.0
    least, mean = line_pass(s, a, sign, 0.0, 0.0, none)
    down, up = mean_limit(s, a, False), mean_limit(s, a, True)
    if down <= mean <= up:
        return 0.0
    best, side = 0.0, 1.0 if mean > up else -1.0
    chord = sign * (h_value(s.h, 1.0) - h_value(s.h, 0.0))  # exact for linear h
    value = line_pass(s, a, sign, chord, 0.0, none)[0]
    if value < least:
        best, least = chord, value
    lo, hi = 0.0, 2.0 * (h_max(s.h, 0.0, 1.0) - h_min(s.h, 0.0, 1.0))
    x, y = hi - _GOLDEN * (hi - lo), lo + _GOLDEN * (hi - lo)
    fx, fy = line_pass(s, a, sign, side * x, 0.0, none)[0], line_pass(s, a, sign, side * y, 0.0, none)[0]
    for _ in range(PASSES):
        if fx <= fy:
            hi, y, fy = y, x, fx
            x = hi - _GOLDEN * (hi - lo)
            fx = line_pass(s, a, sign, side * x, 0.0, none)[0]
        else:
            lo, x, fx = x, y, fy
            y = lo + _GOLDEN * (hi - lo)
            fy = line_pass(s, a, sign, side * y, 0.0, none)[0]
    if min(fx, fy) < least:
        best = side * (x if fx <= fy else y)
    return best
