"""The utility of mixtures of the empirical distributions, and its slopes: one pass over the rewards each; compiled."""

from __future__ import annotations

import numpy as np

from pmbandits._validation import FloatArray, IntArray
from pmbandits.estimates._rewards import BINARY, FINITE, SAMPLES, n_pooled_values, n_rewards_of_pooled_value, sort_pool
from pmbandits.metrics.encoding import h_slope, h_value
from pmbandits.state.arrays import fill_array_with
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State


@step("state, int -> float")
def share_of_ones(s: State, i: int) -> float:
    """The share of ones among the rewards of an arm that pays 0 or 1."""
    return s.counts[i, 1] / s.n_rewards[i] if s.n_rewards[i] > 0 else 0.0


@step("ints -> floats")
def inverse_reward_counts(n_rewards: IntArray) -> FloatArray:
    """1/n of each arm, 0 for an arm without rewards."""
    out = np.zeros(n_rewards.size)
    for i in range(n_rewards.size):
        if n_rewards[i] > 0:
            out[i] = 1.0 / n_rewards[i]
    return out


@kernel
def empirical_mixture_survival(a: FloatArray, above: IntArray, n_rewards: IntArray, inverse: FloatArray) -> float:
    """The mixture's survival where ``above`` rewards of each arm lie above; exact at 0 and at 1."""
    high, low = 0.0, 0.0
    for i in range(a.size):
        if n_rewards[i] > 0:
            high += a[i] * (above[i] * inverse[i])
            low += a[i] * ((n_rewards[i] - above[i]) * inverse[i])
        else:
            low += a[i]
    return high if high < low else 1.0 - low


@shared("state, floats -> float")
def utility(s: State, a: FloatArray) -> float:
    """The utility U_h of the mixture ``a``, for the rewards so far. PM-ETC-M maximises it (``eq:ETC_alpha``)."""
    return bernoulli_utility(s, a) if s.storage_mode == BINARY else empirical_utility_by_cells(s, a)


@shared("state, floats -> float")
def bernoulli_utility(s: State, a: FloatArray) -> float:
    """The empirical utility U_h of the mixture ``a`` of arms that pay 0 or 1."""
    return h_value(s.h, empirical_mixture_survival(a, s.counts[:, 1], s.n_rewards, inverse_reward_counts(s.n_rewards)))


@shared("state, floats -> float")
def empirical_utility_by_cells(s: State, a: FloatArray) -> float:
    """U_h of the mixture of empirical distributions, where rewards are not 0 and 1: one pass over the cells.

    An arm without rewards counts as sure to pay the least.
    """
    sort_pool(s)
    k, bounded = s.n_arms, s.bounded == 1
    finite = s.storage_mode == FINITE
    cells = s.n_atoms if finite else n_pooled_values(s)
    sketched, mass = s.sketch_size > 0, s.pool_weight
    if cells == 0 and not bounded:
        return 0.0
    # Local names and numbers: the loop below runs once for every reward so far.
    h, points, owner, counts = s.h, s.points if finite else s.x, s.pool_arm, s.counts
    n_above, each, weight = np.empty(k), np.empty(k), np.empty(k)
    unseen_weight = 0.0
    for i in range(k):
        n_above[i], weight[i] = s.n_rewards[i], a[i]
        each[i] = 1.0 / s.n_rewards[i] if s.n_rewards[i] > 0 else 0.0
        if s.n_rewards[i] == 0:
            unseen_weight += a[i]
            weight[i] = 0.0
    n_total = n_above.copy()
    before = s.low if bounded else points[0]
    total = before * h_value(h, 1.0)
    for cell in range(cells + 1):
        if cell < cells:
            here = points[cell]
        elif bounded:
            here = s.high
        else:
            break
        width = here - before
        if width > 0.0:
            high, low = 0.0, unseen_weight
            for i in range(k):
                high += weight[i] * (n_above[i] * each[i])
                low += weight[i] * ((n_total[i] - n_above[i]) * each[i])
            total += width * h_value(h, high if high < low else 1.0 - low)
            before = here
        if cell < cells:
            if finite:
                for i in range(k):
                    n_above[i] -= counts[i, cell]
            else:
                n_above[owner[cell]] -= mass[cell] if sketched else 1
    return total


@shared("state, floats -> none")
def arm_utilities(s: State, out: FloatArray) -> None:
    """The utility U_h of every arm alone, for the rewards so far, into ``out``: one pass over the rewards."""
    k, h = s.n_arms, s.h
    inverse, one = inverse_reward_counts(s.n_rewards), h_value(s.h, 1.0)
    if s.storage_mode != SAMPLES:
        for i in range(k):
            left, before = s.n_rewards[i], s.points[0]
            out[i] = before * one
            for c in range(s.n_atoms):
                if s.counts[i, c] > 0:
                    out[i] += (s.points[c] - before) * h_value(h, left * inverse[i])
                    left -= s.counts[i, c]
                    before = s.points[c]
        return
    sort_pool(s)
    left, before = s.n_rewards.copy(), np.empty(k)
    for c in range(n_pooled_values(s)):
        i, here = s.pool_arm[c], s.x[c]
        if left[i] == s.n_rewards[i]:
            out[i] = here * one
        else:
            out[i] += (here - before[i]) * h_value(h, left[i] * inverse[i])
        before[i] = here
        left[i] -= n_rewards_of_pooled_value(s, c)


@shared("state, floats, float, floats -> none")
def empirical_slopes(s: State, a: FloatArray, slope_step: float, out: FloatArray) -> None:
    """How fast U_h rises towards each arm: ∂U_h/∂a_i for the empirical distributions, into ``out``.

    ``a`` are the shares of the mixture. The slope of h is taken between u ± slope_step; see :func:`grain`.

    It is the sum over cells of width·h'(S)·S_i, where S_i is the share of arm i's rewards that lie above the cell.
    Summed the other way round, it is the mean over arm i's rewards x of Φ(x), the sum of width·h'(S) over the cells
    below x.
    """
    fill_influence_moments(s, a, slope_step, out, np.empty(0))


@shared("state, floats, float, floats, floats -> two floats")
def fill_influence_moments(
    s: State, a: FloatArray, slope_step: float, mean: FloatArray, square: FloatArray
) -> tuple[float, float]:
    """The mean of Φ and of Φ² over each arm's rewards, and the least and the largest Φ over the whole support.

    Φ is that of :func:`empirical_slopes`, and its mean is the slope. On an unbounded support the least and the largest
    Φ are taken between the smallest and the largest reward. If ``square`` is empty, only the means are right.
    """
    k, h = s.n_arms, s.h
    squares = square.size > 0
    fill_array_with(mean, 0.0)
    fill_array_with(square, 0.0)
    if s.storage_mode == BINARY:
        u = 0.0
        for i in range(k):
            u += a[i] * share_of_ones(s, i)
        steep = h_slope(h, u, slope_step)
        for i in range(k):
            mean[i] = steep * share_of_ones(s, i)
            if squares:
                square[i] = steep * mean[i]
        return min(steep, 0.0), max(steep, 0.0)
    inverse = inverse_reward_counts(s.n_rewards)
    u, phi, least, most = 1.0, 0.0, 0.0, 0.0
    if s.storage_mode == FINITE:
        m, points, counts = s.n_atoms, s.points, s.counts
        drop = np.zeros(m)
        for i in range(k):
            each = a[i] * inverse[i]
            if each > 0.0:
                for c in range(m):
                    drop[c] += each * counts[i, c]
        for c in range(m):
            if c > 0:
                phi += (points[c] - points[c - 1]) * h_slope(h, u, slope_step)
                least, most = min(least, phi), max(most, phi)
            u -= drop[c]
            drop[c] = phi
        for i in range(k):
            total, power = 0.0, 0.0
            for c in range(m):
                total += counts[i, c] * drop[c]
            mean[i] = total * inverse[i]
            if squares:
                for c in range(m):
                    power += counts[i, c] * (drop[c] * drop[c])
                square[i] = power * inverse[i]
        return least, most
    sort_pool(s)
    x, owner, count = s.x, s.pool_arm, n_pooled_values(s)
    before = x[0]
    for c in range(count):
        here, i = x[c], owner[c]
        if here > before:
            phi += (here - before) * h_slope(h, u, slope_step)
            before = here
        each = inverse[i] * n_rewards_of_pooled_value(s, c)
        mean[i] += phi * each
        if squares:
            square[i] += phi * (phi * each)
            least, most = min(least, phi), max(most, phi)
        u -= a[i] * each
    if squares and s.bounded == 1:  # below all rewards the survival is 1, above all of them 0
        below = (s.low - x[0]) * h_slope(h, 1.0, slope_step)
        above = phi + (s.high - before) * h_slope(h, 0.0, slope_step)
        least, most = min(least, below, above), max(most, below, above)
    return least, most
