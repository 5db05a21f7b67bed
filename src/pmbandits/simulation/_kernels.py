"""Random numbers by counter, rewards from them, and the loop that plays a trial; compiled.

The generator is Philox 4x64-10 (Salmon, Moraes, Dror and Shaw, 2011), as numpy has it. Its key is (seed, trial) and
its counter (block, arm, attempt, purpose): the n-th reward of an arm in a trial depends on nothing else, so neither on
the number of workers, nor on the policy, nor on what was drawn before.
"""

from __future__ import annotations

import math

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from pmbandits._compile import inlined, kernel
from pmbandits.metrics._kernels import normal_quantile
from pmbandits.policies._state import ARMS, ASKED, FULL, GROW, HEAD, RADII, borrowed, observe, short_table, unpack

# how an arm's rewards are made
TWO, ATOMS, UNIFORM, NORMAL, EXPONENTIAL, BETA, BLOCK = range(7)
# purpose: the last word of the counter
PLAIN, GAMMA_A, GAMMA_B, POWER, POLICY, OUTSIDE = range(6)
# why the loop stops before the end
DONE, NEEDS_RADII, NEEDS_ROOM, NEEDS_BLOCK, REFUSED = range(5)
# cursor: where a trial is
WAITING, CHECKPOINT = range(2)

_TO_UNIT = 1.0 / 9007199254740992.0  # 2⁻⁵³


@intrinsic
def _high_product(typingctx, a, b):
    """The upper 64 bits of the product of two 64-bit numbers."""
    del typingctx

    def codegen(context, builder, signature, args):
        del context, signature
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@kernel
def philox(k0, k1, c0, c1, c2, c3):
    """Four random 64-bit words for a key and a counter."""
    for _ in range(10):
        h0 = _high_product(np.uint64(0xD2E7470EE14C6C93), c0)
        l0 = np.uint64(0xD2E7470EE14C6C93) * c0
        h1 = _high_product(np.uint64(0xCA5A826395121157), c2)
        l1 = np.uint64(0xCA5A826395121157) * c2
        c0, c1, c2, c3 = h1 ^ c1 ^ k0, l1, h0 ^ c3 ^ k1, l0
        k0 += np.uint64(0x9E3779B97F4A7C15)
        k1 += np.uint64(0xBB67AE8584CAA73B)
    return c0, c1, c2, c3


@inlined
def unit(word):
    """A number in [0, 1) with 53 bits, as numpy makes it."""
    return np.float64(word >> np.uint64(11)) * _TO_UNIT


@inlined
def inner(word):
    """A number in (0, 1), symmetric around ½, with 52 bits: one more would round to 1."""
    return (np.float64(word >> np.uint64(12)) + 0.5) * (2.0 * _TO_UNIT)


@kernel
def log_gamma_variate(key, n, arm, shape, purpose):
    """The logarithm of a gamma variate (Marsaglia and Tsang, 2000), by as many attempts as it takes.

    Below shape 1 it is one of shape + 1 times U^(1/shape); the logarithm keeps tiny shapes from vanishing.
    """
    boost = 0.0
    if shape < 1.0:
        which = np.uint64(0) if purpose == GAMMA_A else np.uint64(1)
        w0, _, _, _ = philox(key[0], key[1], np.uint64(n), np.uint64(arm), which, np.uint64(POWER))
        boost = math.log(inner(w0)) / shape
        shape += 1.0
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    attempt = 0
    while True:
        w0, w1, w2, w3 = philox(key[0], key[1], np.uint64(n), np.uint64(arm), np.uint64(attempt), np.uint64(purpose))
        for half in range(2):
            x = normal_quantile(inner(w0 if half == 0 else w2))
            v = 1.0 + c * x
            if v <= 0.0:
                continue
            v = v * v * v
            if math.log(inner(w1 if half == 0 else w3)) < 0.5 * x * x + d - d * v + d * math.log(v):
                return math.log(d * v) + boost
        attempt += 1


@kernel
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
        x = normal_quantile((math.floor(u / (2.0 * _TO_UNIT)) + 0.5) * (2.0 * _TO_UNIT))
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
    u = np.float64(words[arm, place] >> np.uint64(11)) * _TO_UNIT
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


choose = update = None  # the policy's own: ``player`` fills them in


def play(
    ints, floats, key, used, words, kinds, parameters, starts, points, levels, blocks, block_at,
    checkpoints, cursor, pulls, mixture,
):  # fmt: skip
    """Play on until the last checkpoint, or until something is needed; what was played is never played again."""
    ints, floats, key, used, words, kinds, parameters = (
        borrowed(ints), borrowed(floats), borrowed(key), borrowed(used), borrowed(words), borrowed(kinds),
        borrowed(parameters),
    )  # fmt: skip
    starts, points, levels, blocks, block_at, checkpoints, cursor = (
        borrowed(starts), borrowed(points), borrowed(levels), borrowed(blocks), borrowed(block_at),
        borrowed(checkpoints), borrowed(cursor),
    )  # fmt: skip
    k = ints[ARMS]
    while cursor[CHECKPOINT] < checkpoints.size:
        until = checkpoints[cursor[CHECKPOINT]]
        waiting = cursor[WAITING]  # pulled, but not yet paid
        cursor[WAITING] = -1
        while ints[HEAD + ASKED] < until or waiting >= 0:
            arm = waiting
            if arm < 0:
                arm = choose(ints, floats)
                if arm == GROW:
                    return NEEDS_RADII
            reward = next_reward(arm, key, used, words, kinds, parameters, starts, points, levels, blocks, block_at)
            if math.isnan(reward):
                cursor[WAITING] = arm
                return NEEDS_BLOCK
            code = observe(ints, floats, arm, reward)
            if code != 0:
                used[arm] -= 1
                cursor[WAITING] = arm
                return NEEDS_ROOM if code == FULL else REFUSED
            waiting = -1
        s = unpack(ints, floats)
        if ints[RADII] > 0 and short_table(s):
            return NEEDS_RADII
        update(ints, floats)
        c = cursor[CHECKPOINT]
        for i in range(k):
            pulls[c, i] = s.pulls[i]
            mixture[c, i] = s.mix[i]
        cursor[CHECKPOINT] = c + 1
    return DONE
