"""Bounds on the utilities of mixtures from blocks of rewards, without a pass over all rewards; compiled.

See ``estimates/_reward_blocks.py``. The upper end of an arm's band is concave in its survival and the lower end convex
(``_kl_bands.py``), so their means over a block are enclosed in the same way, and then that of h, which is concave.
"""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray
from pmbandits.confidence._bounds import wasserstein_radius
from pmbandits.confidence._envelopes import KL_BAND, survival_interval, update_kl_bands_and_get_errors
from pmbandits.metrics.encoding import h_max, h_value, has_single_peak, peak_location
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State

# Rows of ``block_curves`` for each arm, with a number for each block (the first three: for each end of a block).
SURVIVAL, LOWER, UPPER = 0, 1, 2
MEAN_SURVIVAL, LEAST_LOWER, MOST_LOWER, LEAST_UPPER, MOST_UPPER = 3, 4, 5, 6, 7
N_CURVES = 8


@shared("state, int, int, bool -> none")
def fill_block_curves(s: State, i: int, stride: int, with_bands: bool) -> None:
    """Arm i's survival, and the ends of its band, at the ends of every ``stride``-th block and on average between.

    The means of the ends of bands are enclosed: by a chord, and by what is between the two nearest shares.
    """
    error, curves = update_kl_bands_and_get_errors(s)[i], s.block_curves[i * N_CURVES : (i + 1) * N_CURVES]
    n, kind, radius = s.n_rewards[i], s.set_kind, s.radius[i]
    above = n
    lower, upper = 0.0, 1.0
    if with_bands:
        lower, upper = survival_interval(kind, above, n, radius, error, s.kl_band, i)
    curves[SURVIVAL, 0], curves[LOWER, 0], curves[UPPER, 0] = 1.0, lower, upper
    for at, first in enumerate(range(0, s.n_blocks, stride)):
        end = min(first + stride, s.n_blocks)
        start, gone, excess = s.block_end[first], 0, 0.0
        for block in range(first, end):
            inside = s.block_count[i, block]
            gone += inside
            excess += s.block_excess[i, block] + inside * (s.block_end[block] - start)
        more = min(excess / (s.block_end[end] - start), float(gone))  # how many of them lie above, on average
        above -= gone
        curves[SURVIVAL, at + 1] = above / n
        curves[MEAN_SURVIVAL, at] = (above + more) / n
        if with_bands:
            curves[LEAST_LOWER, at] = curves[MOST_LOWER, at] = lower
            curves[LEAST_UPPER, at] = curves[MOST_UPPER, at] = upper
            if gone > 0:
                down, up = survival_interval(kind, above, n, radius, error, s.kl_band, i)
                share = more / gone
                curves[MOST_LOWER, at] = down + share * (lower - down)
                curves[LEAST_UPPER, at] = up + share * (upper - up)
                curves[LEAST_LOWER, at], curves[MOST_UPPER, at] = curves[MOST_LOWER, at], curves[LEAST_UPPER, at]
                if gone > 1:
                    whole = min(int(more), gone - 1)
                    part = more - whole
                    low0, high0 = survival_interval(kind, above + whole, n, radius, error, s.kl_band, i)
                    low1, high1 = survival_interval(kind, above + whole + 1, n, radius, error, s.kl_band, i)
                    curves[LEAST_LOWER, at] = low0 + part * (low1 - low0)
                    curves[MOST_UPPER, at] = high0 + part * (high1 - high0)
                lower, upper = down, up
            curves[LOWER, at + 1], curves[UPPER, at + 1] = lower, upper


@step("state, floats, int, int -> float")
def mixed_curve(s: State, a: FloatArray, curve: int, at: int) -> float:
    """The mixture's average of a curve."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * s.block_curves[i * N_CURVES + curve, at]
    return total


@step("floats, float, float, float, float, float, float -> two floats")
def bounds_of_mean_h(
    h: FloatArray, u0: float, u1: float, h0: float, h1: float, least: float, most: float
) -> tuple[float, float]:
    """Bounds on the mean of h(u), h concave: u goes from u0 to u1 or less, its mean is from ``least`` to ``most``."""
    highest = h_max(h, least, most)
    if u0 - u1 < 1e-12:
        return min(h0, h1), max(highest, h0, h1)
    slope = (h0 - h1) / (u0 - u1)
    return h1 + slope * ((least if slope > 0.0 else most) - u1), highest


@shared("state, floats, int -> two floats")
def block_utility_bounds(s: State, a: FloatArray, stride: int) -> tuple[float, float]:
    """Bounds on the mixture's empirical utility, for the curves of the blocks by ``stride``; concave h."""
    h = s.h
    least = most = s.block_end[0] * h_value(h, 1.0)
    u0, h0 = 1.0, h_value(h, 1.0)
    for at, first in enumerate(range(0, s.n_blocks, stride)):
        width = s.block_end[min(first + stride, s.n_blocks)] - s.block_end[first]
        u1, mean = mixed_curve(s, a, SURVIVAL, at + 1), mixed_curve(s, a, MEAN_SURVIVAL, at)
        h1 = h_value(h, u1)
        low, high = bounds_of_mean_h(h, u0, u1, h0, h1, mean, mean)
        least += width * low
        most += width * high
        u0, h0 = u1, h1
    return least, most


@shared("state, floats, int -> two floats")
def block_optimistic_bounds(s: State, a: FloatArray, stride: int) -> tuple[float, float]:
    """Bounds on the largest utility that the mixture can have in its bands; concave h with at most one peak."""
    h, peak = s.h, 1.0
    if has_single_peak(h):
        peak = peak_location(h)
    elif h_value(h, 1.0) < 0.0:
        peak = 0.0
    at_peak = h_value(h, peak)
    least = most = s.block_end[0] * h_value(h, 1.0)
    low0, up0 = mixed_curve(s, a, LOWER, 0), mixed_curve(s, a, UPPER, 0)
    h_low0, h_up0 = h_value(h, low0), h_value(h, up0)
    for at, first in enumerate(range(0, s.n_blocks, stride)):
        width = s.block_end[min(first + stride, s.n_blocks)] - s.block_end[first]
        low1, up1 = mixed_curve(s, a, LOWER, at + 1), mixed_curve(s, a, UPPER, at + 1)
        h_low1, h_up1 = h_value(h, low1), h_value(h, up1)
        if up0 <= peak:  # h rises up to the upper end, which is best
            low, high = bounds_of_mean_h(
                h, up0, up1, h_up0, h_up1, mixed_curve(s, a, LEAST_UPPER, at), mixed_curve(s, a, MOST_UPPER, at)
            )
        elif low1 >= peak:  # h falls from the lower end on
            low, high = bounds_of_mean_h(
                h, low0, low1, h_low0, h_low1, mixed_curve(s, a, LEAST_LOWER, at), mixed_curve(s, a, MOST_LOWER, at)
            )
        elif low0 <= peak <= up1:  # the peak lies between
            low = high = at_peak
        else:  # only in the two blocks in which the ends pass the peak
            low, high = max(min(h_low0, h_low1), min(h_up0, h_up1)), h_max(h, low1, up0)
        least += width * low
        most += width * high
        low0, up0, h_low0, h_up0 = low1, up1, h_low1, h_up1
    return least + s.rounding_utility_bound, most + s.rounding_utility_bound


@shared("state, int, int -> two floats")
def block_w1_radius_bounds(s: State, i: int, stride: int) -> tuple[float, float]:
    """Bounds on the W1 radius of arm i's KL band, for the curves of the blocks by ``stride``.

    It is the integral of the larger distance of the two ends from the survival, and both distances are concave in it.
    The mean of the larger one is at most the mean of the one, and how much further than it the other can be anywhere in
    the block. There an end lies on one side of its chord, and on the other side of the line that goes on from the block
    before; so that difference is largest where the block begins or ends.
    """
    least, most, curves = 0.0, 0.0, s.block_curves[i * N_CURVES : (i + 1) * N_CURVES]
    lower_slope, upper_slope = np.inf, 0.0  # of the last chord before: at least, and at most, those that come
    for at, first in enumerate(range(0, s.n_blocks, stride)):
        width = s.block_end[min(first + stride, s.n_blocks)] - s.block_end[first]
        mean, s0, s1 = curves[MEAN_SURVIVAL, at], curves[SURVIVAL, at], curves[SURVIVAL, at + 1]
        low0, low1, up0, up1 = curves[LOWER, at], curves[LOWER, at + 1], curves[UPPER, at], curves[UPPER, at + 1]
        down_further, up_further = 2.0 * s0 - up1 - low1, up0 + low0 - 2.0 * s1  # nowhere in the block more
        if s0 > s1:
            lower_least, upper_most = low0 - lower_slope * (s0 - s1), up0 - upper_slope * (s0 - s1)
            down_further = min(down_further, max(2.0 * s0 - up0 - low0, 2.0 * s1 - up1 - lower_least))
            up_further = min(up_further, max(up0 + low0 - 2.0 * s0, upper_most + low1 - 2.0 * s1))
            lower_slope, upper_slope = (low0 - low1) / (s0 - s1), (up0 - up1) / (s0 - s1)
        down_further, up_further = max(down_further, 0.0), max(up_further, 0.0)
        least += width * max(curves[LEAST_UPPER, at] - mean, mean - curves[MOST_LOWER, at])
        most += width * min(curves[MOST_UPPER, at] - mean + down_further, mean - curves[LEAST_LOWER, at] + up_further)
    return least + s.rounding, most + s.rounding


@shared("state, int, int -> two floats")
def w1_radius_bounds(s: State, i: int, stride: int) -> tuple[float, float]:
    """Bounds on the W1 radius of arm i's set: equal with stride 0, and where the radius costs no pass over rewards."""
    if stride == 0 or s.set_kind != KL_BAND:
        radius = wasserstein_radius(s, i)
        return radius, radius
    if s.w1_radius_at[i] != s.n_rewards[i] or stride < s.w1_radius_stride[i]:
        fill_block_curves(s, i, stride, True)
        s.w1_radius_bounds[i, 0], s.w1_radius_bounds[i, 1] = block_w1_radius_bounds(s, i, stride)
        s.w1_radius_at[i], s.w1_radius_stride[i] = s.n_rewards[i], stride
    return s.w1_radius_bounds[i, 0], s.w1_radius_bounds[i, 1]
