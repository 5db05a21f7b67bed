"""Rewards from random numbers by counter, and the loop that plays a trial; compiled.

The key of the generator (:mod:`pmbandits._random`) is (seed, trial) and its counter (block, arm, attempt, purpose):
the n-th reward of an arm in a trial depends on nothing else, so neither on the number of workers, nor on the policy,
nor on what was drawn before.
"""

from __future__ import annotations

import math

import numpy as np

from pmbandits._random import (  # noqa: F401 (some only for who looks for them here)
    GAMMA_A,
    GAMMA_B,
    OUTSIDE,
    PLAIN,
    POLICY,
    POWER,
    TO_UNIT,
    inner,
    log_gamma_variate,
    philox,
    unit,
)
from pmbandits.estimates._rewards import CHANGED, NEEDS_ROOM, OK, record
from pmbandits.metrics.normal import normal_quantile
from pmbandits.policies._steps import WRONG, choice, update_at
from pmbandits.state.compile import inlined, kernel
from pmbandits.state.shared import shared
from pmbandits.state.views import borrowed, unpack

# how an arm's rewards are made
TWO, ATOMS, UNIFORM, NORMAL, EXPONENTIAL, BETA, BLOCK = range(7)
# why the loop stops before the end
DONE, NEEDS_MEMORY, NEEDS_BLOCK, REFUSED, WRONG_CHOICE, ARM_CHANGED, NEEDS_QUEUE, NEEDS_TELLING = range(8)
# cursor: where a trial is
WAITING, CHECKPOINT, ROUND = range(3)


@shared("words, int, int, float, int, table, int, int, floats, floats -> float")
def other_reward(key, arm, n, u, kind, parameters, start, end, points, levels):
    """The n-th reward of an arm that has more than two, from its random word (Beta arms draw words of their own)."""
    low, high = parameters[arm, 4], parameters[arm, 5]
    if kind == ATOMS:
        lo, hi = start, end - 1
        while lo < hi:  # the first point whose cumulative probability exceeds u
            middle = (lo + hi) // 2
            if levels[middle] > u:
                hi = middle
            else:
                lo = middle + 1
        return points[lo]
    if kind == UNIFORM:
        x = u
    elif kind == NORMAL:
        x = normal_quantile((math.floor(u / (2.0 * TO_UNIT)) + 0.5) * (2.0 * TO_UNIT))
    elif kind == EXPONENTIAL:
        x = -math.log1p(-u)
    else:
        a = log_gamma_variate(key, n, arm, parameters[arm, 2], GAMMA_A)
        b = log_gamma_variate(key, n, arm, parameters[arm, 3], GAMMA_B)
        x = 1.0 / (1.0 + math.exp(min(b - a, 709.0)))
    return min(max(parameters[arm, 0] + parameters[arm, 1] * x, low), high)


@inlined
def next_reward(arm, key, used, words, kinds, parameters, starts, points, levels, blocks, block_at):
    """The next reward of an arm; NaN when its block of ready-made rewards is used up. Counts it as used."""
    n = used[arm]
    kind = kinds[arm]
    if kind == BLOCK:
        size = blocks.shape[1]
        if block_at[arm] != n // size:
            return np.nan
        used[arm] = n + 1
        return blocks[arm, n % size]
    place = n & 3
    if place == 0 and kind != BETA:
        w0, w1, w2, w3 = philox(key[0], key[1], np.uint64(n >> 2), np.uint64(arm), np.uint64(0), np.uint64(PLAIN))
        words[arm, 0], words[arm, 1], words[arm, 2], words[arm, 3] = w0, w1, w2, w3
    used[arm] = n + 1
    u = np.float64(words[arm, place] >> np.uint64(11)) * TO_UNIT
    start = starts[arm]
    if kind == TWO:  # the common case, without a call
        return points[start + np.int64(u < parameters[arm, 0])]
    return other_reward(key, arm, n, u, kind, parameters, start, starts[arm + 1], points, levels)


@kernel
def rewards_of(arm, count, key, used, words, kinds, parameters, starts, points, levels, blocks, block_at, out, at):
    """The next rewards of one arm into ``out`` from ``at`` on; returns how many were made."""
    key, used, words, kinds, parameters = (
        borrowed(key), borrowed(used), borrowed(words), borrowed(kinds), borrowed(parameters)
    )  # fmt: skip
    starts, points, levels, blocks, block_at, out = (
        borrowed(starts), borrowed(points), borrowed(levels), borrowed(blocks), borrowed(block_at), borrowed(out)
    )  # fmt: skip
    for j in range(count):
        x = next_reward(arm, key, used, words, kinds, parameters, starts, points, levels, blocks, block_at)
        if math.isnan(x):
            return j
        out[at + j] = x
    return count


@inlined
def look(memory, s, update, words, changing, before, used, seats, row, pulls, mixture, ends):
    """What a checkpoint notes: pulls, the mixture brought up to date, and when phases ended. Changes nothing else."""
    for j in range(changing):
        before[j] = words[j]
    update_at(update, memory)
    for i in range(used.size):
        pulls[row, i] += used[i]
    for i in range(s.n_arms):
        mixture[row, seats[i]] = s.mix[i]
    for j in range(ends.size):
        ends[j] = s.ends[j]
    ordered, pooled = s.ordered, s.pooled  # the pool may have been sorted, for good
    for j in range(changing):
        words[j] = before[j]
    s.ordered, s.pooled = ordered, pooled


@kernel
def play(
    choose, update, memory, words, changing, before, key, used, words_of, kinds, parameters, starts, points, levels,
    blocks, block_at, seats, stop, checkpoints, cursor, pulls, mixture, ends,
):  # fmt: skip
    """Play on until the last checkpoint or the round ``stop``, or until something is needed; no round is played twice.

    ``choose`` and ``update`` are the addresses of the policy's own kernels: one loop serves all policies. ``words`` is
    the memory itself, of which the first ``changing`` words are put back after the look at a checkpoint, from the copy
    in ``before``: reading the mixture changes nothing. ``seats`` says which arm of the bandit an arm of the policy is.
    """
    words, before, key, used, words_of, kinds, parameters = (
        borrowed(words), borrowed(before), borrowed(key), borrowed(used), borrowed(words_of), borrowed(kinds),
        borrowed(parameters),
    )  # fmt: skip
    starts, points, levels, blocks, block_at, checkpoints, cursor, seats = (
        borrowed(starts), borrowed(points), borrowed(levels), borrowed(blocks), borrowed(block_at),
        borrowed(checkpoints), borrowed(cursor), borrowed(seats),
    )  # fmt: skip
    s = unpack(memory)
    now = cursor[ROUND]
    while cursor[CHECKPOINT] < checkpoints.size:
        c = cursor[CHECKPOINT]
        until = min(checkpoints[c], stop)
        waiting = cursor[WAITING]  # pulled, but not yet paid
        cursor[WAITING] = -1
        while now < until:
            arm = waiting
            if arm < 0:
                arm = choice(memory, choose)
                if arm == WRONG:
                    return WRONG_CHOICE
            seat = seats[arm]
            reward = next_reward(seat, key, used, words_of, kinds, parameters, starts, points, levels, blocks, block_at)
            if math.isnan(reward):
                cursor[WAITING], cursor[ROUND] = arm, now
                return NEEDS_BLOCK
            code = record(s, arm, reward)
            if code == CHANGED:  # it was taken in
                cursor[ROUND] = now + 1
                return ARM_CHANGED
            if code != OK:
                used[seat] -= 1
                cursor[WAITING], cursor[ROUND] = arm, now
                return NEEDS_MEMORY if code == NEEDS_ROOM else REFUSED
            waiting = -1
            now += 1
        cursor[ROUND] = now
        if now < checkpoints[c]:
            return DONE
        look(memory, s, update, words, changing, before, used, seats, c, pulls, mixture, ends)
        cursor[CHECKPOINT] = c + 1
    return DONE
