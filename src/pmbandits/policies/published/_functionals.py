"""Functionals of weighted distributions, for all arms at once, shared by the published algorithms; compiled.

Each is one pass over the counts, or over the sorted pool of rewards. The atoms of the arms' distributions
carry weights that need not add up to 1: ones (empirical distribution), or posterior draws (Dirichlet weights are
independent gamma variates by their sum). ``anchor`` holds each arm's weights at the upper and the lower end of the
support, ``total`` the sum of all its weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pmbandits._random import POSTERIOR, log_gamma_variate, open_uniform_from_word, philox_random_words
from pmbandits._validation import FloatArray
from pmbandits.confidence._envelopes import survival_interval, update_kl_bands_and_get_errors
from pmbandits.estimates._rewards import SAMPLES, sort_pool
from pmbandits.metrics.encoding import h_max, h_value, is_multiple_of_one_family, n_extrema, one_family_value
from pmbandits.mixtures._tracking import play_alone
from pmbandits.policies._draws import random_key_of_round
from pmbandits.state.compile import kernel
from pmbandits.state.linking import shared, step
from pmbandits.state.numba_types import State, state, unpack

unpack_tail: Any = state(tail=float, scale=float, ties=int)  # α of a lower-tail CVaR, factor of a bonus, rule for ties


@step("state -> floats")
def allocate_reward_weights(s: State) -> FloatArray:
    """An array for the weights: one for each reward in the pool, or for each arm and atom."""
    return s.survival_scratch if s.storage_mode == SAMPLES else np.empty(s.n_arms * s.n_atoms)


@step("state -> two ints")
def double_loop_sizes(s: State) -> tuple[int, int]:
    """How to go through all rewards in one double loop: (1, rewards) in the sorted pool, or (arms, atoms).

    In step (i, j) the arm is ``pool_arm[j]`` or i, the reward ``x[j]`` or ``points[j]``, and its weight at i·atoms + j.
    """
    return (1, s.rewards) if s.storage_mode == SAMPLES else (s.n_arms, s.n_atoms)


@shared("state, floats, table, floats -> none")
def fill_empirical_weights(s: State, weight: FloatArray, anchor: FloatArray, total: FloatArray) -> None:
    """Fill in the weights of the empirical distributions: 1 for each reward."""
    samples, (rows, columns) = s.storage_mode == SAMPLES, double_loop_sizes(s)
    for i in range(s.n_arms):
        anchor[i, 0], anchor[i, 1], total[i] = 0.0, 0.0, s.n_rewards[i]
    for row in range(rows):
        for j in range(columns):
            weight[row * columns + j] = 1.0 if samples else s.counts[row, j]


@shared("state, float, float, float, floats, table, floats -> none")
def fill_dirichlet_weights_on_atoms(
    s: State, prior: float, top: float, bottom: float, weight: FloatArray, anchor: FloatArray, total: FloatArray
) -> None:
    """Dirichlet weights on the atoms: parameters are counts plus ``prior``, and more at the upper and lower end."""
    k, m = s.n_arms, s.n_atoms
    key = random_key_of_round(s)
    for i in range(k):
        anchor[i, 0], anchor[i, 1], total[i] = 0.0, 0.0, 0.0
        for a in range(m):
            shape = s.counts[i, a] + prior
            if a == m - 1:
                shape += top
            if a == 0:
                shape += bottom
            g = 0.0
            if shape > 0.0:
                g = math.exp(log_gamma_variate(key, a, i, shape, POSTERIOR))
            weight[i * m + a] = g
            total[i] += g


@shared("state, int, floats, table, floats -> none")
def fill_dirichlet_weights_on_rewards(
    s: State, n_ends: int, weight: FloatArray, anchor: FloatArray, total: FloatArray
) -> None:
    """Dirichlet(1, …, 1) weights on all rewards, and on none, the upper or both ends of the support.

    The weight of an arm's reward depends on its rank among that arm's, not on when it came. On a finite support equal
    rewards share one gamma variate: the same distribution for O(atoms) a round instead of O(rewards).
    """
    sort_pool(s)
    if s.storage_mode != SAMPLES:
        fill_dirichlet_weights_on_atoms(s, 0.0, min(n_ends, 1), max(n_ends - 1, 0), weight, anchor, total)
        return
    k = s.n_arms
    k0, k1 = random_key_of_round(s)
    words, rank = np.empty((k, 4), dtype=np.uint64), np.full(k, 2, dtype=np.int64)  # ranks 0 and 1 are the ends
    zero, purpose = np.uint64(0), np.uint64(POSTERIOR)
    for i in range(k):
        w0, w1, w2, w3 = philox_random_words(k0, k1, zero, np.uint64(i), zero, purpose)
        words[i, 0], words[i, 1], words[i, 2], words[i, 3] = w0, w1, w2, w3
        anchor[i, 0] = -math.log(open_uniform_from_word(w0)) if n_ends > 0 else 0.0
        anchor[i, 1] = -math.log(open_uniform_from_word(w1)) if n_ends > 1 else 0.0
        total[i] = anchor[i, 0] + anchor[i, 1]
    owner = s.pool_arm
    for j in range(s.rewards):
        i = owner[j]
        r = rank[i]
        if r & 3 == 0:
            w0, w1, w2, w3 = philox_random_words(k0, k1, np.uint64(r >> 2), np.uint64(i), zero, purpose)
            words[i, 0], words[i, 1], words[i, 2], words[i, 3] = w0, w1, w2, w3
        exponential = -math.log(open_uniform_from_word(words[i, r & 3]))
        weight[j] = exponential
        total[i] += exponential
        rank[i] = r + 1


@step("floats, bool, float -> float")
def h_at(h: FloatArray, alone: bool, u: float) -> float:
    """h(u); a family by itself (``alone``, the common case) without the walk over a combination's terms."""
    if alone:
        return one_family_value(h, u)
    return h_value(h, u)


@shared("state, floats, table, floats, floats -> none")
def fill_utilities_of_arms(
    s: State, weight: FloatArray, anchor: FloatArray, total: FloatArray, out: FloatArray
) -> None:
    """U_h of every arm, into ``out``: x₁·h(1) + Σ (x_k − x_{k−1})·h(S_k)."""
    sort_pool(s)
    k, h, samples, (rows, columns) = s.n_arms, s.h, s.storage_mode == SAMPLES, double_loop_sizes(s)
    before, below = np.empty(k), np.zeros(k)
    top, one, alone = s.high, h_value(h, 1.0), is_multiple_of_one_family(h)
    for i in range(k):
        out[i] = 0.0
        if anchor[i, 1] > 0.0:
            out[i], before[i], below[i] = s.low * one, s.low, anchor[i, 1]
    for row in range(rows):
        for j in range(columns):
            i, x = (s.pool_arm[j], s.x[j]) if samples else (row, s.points[j])
            w = weight[row * columns + j]
            if w > 0.0:
                if below[i] == 0.0:
                    out[i] = x * one
                elif x > before[i]:
                    out[i] += (x - before[i]) * h_at(h, alone, 1.0 - below[i] / total[i])
                before[i] = x
                below[i] += w
    for i in range(k):
        if anchor[i, 0] > 0.0:
            if below[i] == 0.0:
                out[i] = top * one
            elif top > before[i]:
                out[i] += (top - before[i]) * h_at(h, alone, anchor[i, 0] / total[i])


@shared("state, float, floats, floats, floats -> none")
def fill_weighted_lower_cvars(s: State, alpha: float, weight: FloatArray, total: FloatArray, out: FloatArray) -> None:
    """The mean of every arm's worst α share, into ``out``: take atoms from below until α of the weight is taken.

    What is not taken then lies at the upper end. This is q − (1/α)·Σ w(q − x)⁺, with q the first atom whose cumulative
    weight reaches α.
    """
    sort_pool(s)
    k, samples, (rows, columns) = s.n_arms, s.storage_mode == SAMPLES, double_loop_sizes(s)
    wanted = np.empty(k)
    for i in range(k):
        out[i] = 0.0
        wanted[i] = alpha * total[i]
    for row in range(rows):
        for j in range(columns):
            i, x = (s.pool_arm[j], s.x[j]) if samples else (row, s.points[j])
            if wanted[i] > 0.0:
                take = min(weight[row * columns + j], wanted[i])
                out[i] += take * x
                wanted[i] -= take
    for i in range(k):
        if wanted[i] > 0.0:
            out[i] += wanted[i] * s.high
        out[i] = out[i] / (alpha * total[i]) if total[i] > 0.0 else s.high


@shared("state, float, floats, floats -> none")
def fill_optimistic_cvars(s: State, alpha: float, shift: FloatArray, out: FloatArray) -> None:
    """The largest lower-tail CVaR of a distribution whose CDF is within ``shift`` of the arm's, into ``out``.

    B − (1/α)·Σ (x_(i+1) − x_(i))·clip(i/n − shift, 0, α), with B after the last reward.
    """
    sort_pool(s)
    k, top, samples, (rows, columns) = s.n_arms, s.high, s.storage_mode == SAMPLES, double_loop_sizes(s)
    before, count = np.empty(k), np.zeros(k)
    for i in range(k):
        out[i] = 0.0
    for row in range(rows):
        for j in range(columns):
            i, x, n = (s.pool_arm[j], s.x[j], 1) if samples else (row, s.points[j], s.counts[row, j])
            if n > 0:
                if count[i] > 0.0:
                    out[i] += (x - before[i]) * min(max(count[i] / s.n_rewards[i] - shift[i], 0.0), alpha)
                before[i] = x
                count[i] += n
    for i in range(k):
        if count[i] > 0.0:
            out[i] += (top - before[i]) * min(max(1.0 - shift[i], 0.0), alpha)
        out[i] = top - out[i] / alpha


@shared("state, floats -> none")
def fill_optimistic_utilities(s: State, out: FloatArray) -> None:
    """The largest U_h of a distribution in the arm's confidence band (DKW or KL), into ``out``."""
    sort_pool(s)
    k, h, kind, samples, (rows, columns) = s.n_arms, s.h, s.set_kind, s.storage_mode == SAMPLES, double_loop_sizes(s)
    n_rewards, radius, share_errors, bands = s.n_rewards, s.radius, update_kl_bands_and_get_errors(s), s.kl_band
    before, left = np.full(k, s.low), n_rewards.copy()
    start, alone = s.low * h_value(h, 1.0), is_multiple_of_one_family(h)
    rises = n_extrema(h) == 0 and h_value(h, 1.0) >= h_value(h, 0.0)  # no extremum inside: the largest is at the end
    for i in range(k):
        out[i] = start
    for row in range(rows):
        for j in range(columns):
            i, x, n = (s.pool_arm[j], s.x[j], 1) if samples else (row, s.points[j], s.counts[row, j])
            if n > 0 and x > before[i]:
                lower, upper = survival_interval(kind, left[i], n_rewards[i], radius[i], share_errors[i], bands, i)
                out[i] += (x - before[i]) * (h_at(h, alone, upper) if rises else h_max(h, lower, upper))
                before[i] = x
            left[i] -= n
    for i in range(k):
        lower, upper = survival_interval(kind, 0, n_rewards[i], radius[i], share_errors[i], bands, i)
        out[i] += (s.high - before[i]) * h_max(h, lower, upper)


@shared("state, float, floats -> none")
def fill_mean_variances(s: State, rho: float, out: FloatArray) -> None:
    """Variance − ρ·mean of every arm's rewards (of those it has), into ``out``."""
    sort_pool(s)
    k, samples, (rows, columns) = s.n_arms, s.storage_mode == SAMPLES, double_loop_sizes(s)
    mean = np.zeros(k)
    for i in range(k):
        out[i] = 0.0
        if s.n_rewards[i] > 0:
            mean[i] = s.sums[i] / s.n_rewards[i]
    for row in range(rows):
        for j in range(columns):
            i, x, n = (s.pool_arm[j], s.x[j], 1) if samples else (row, s.points[j], s.counts[row, j])
            out[i] += n * (x - mean[i]) ** 2
    for i in range(k):
        if s.n_rewards[i] > 0:
            out[i] = out[i] / s.n_rewards[i] - rho * mean[i]


@step("state -> none")
def set_mixture_to_best_arm(s: State) -> None:
    """The mixture: the arm with the largest ``value`` of those that have paid (the first of equals)."""
    arm = -1
    for i in range(s.n_arms):
        if s.n_rewards[i] > 0 and (arm < 0 or s.value[i] > s.value[arm]):
            arm = i
    play_alone(s, max(arm, 0))


@shared("state, floats -> none")
def fill_empirical_utilities(s: State, out: FloatArray) -> None:
    """U_h of every arm's rewards, into ``out``."""
    weight, anchor, total = allocate_reward_weights(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    fill_empirical_weights(s, weight, anchor, total)
    fill_utilities_of_arms(s, weight, anchor, total, out)


@shared("state, float, floats -> none")
def fill_empirical_cvars(s: State, tail: float, out: FloatArray) -> None:
    """Lower-tail CVaR of every arm's rewards, into ``out``."""
    weight, anchor, total = allocate_reward_weights(s), np.empty((s.n_arms, 2)), np.empty(s.n_arms)
    fill_empirical_weights(s, weight, anchor, total)
    fill_weighted_lower_cvars(s, tail, weight, total, out)


@kernel
def set_mixture_to_largest_utility(memory: int) -> None:
    """Set the mixture to the arm whose rewards have the largest U_h."""
    s = unpack(memory)
    fill_empirical_utilities(s, s.value)
    set_mixture_to_best_arm(s)


@kernel
def set_mixture_to_largest_cvar(memory: int) -> None:
    """Set the mixture to the arm whose rewards have the largest lower-tail CVaR."""
    s = unpack_tail(memory)
    fill_empirical_cvars(s, s.tail, s.value)
    set_mixture_to_best_arm(s)
